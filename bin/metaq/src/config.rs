//! `metaq config`: checking a configuration, showing what is in effect, reading it again.

use crate::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, Form};
use crate::server::configuration::Configuration;
use crate::server::keys::Keys;
use clap::Subcommand;
use metaq_broker::configuration::Settings;
use metaq_broker::lines::Fields;
use metaq_protocol::Request;
use metaq_protocol::extension::AdminCommand;
use serde_json::json;
use std::path::PathBuf;

/// The arguments of `metaq config`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  metaq config check server.ini
  metaq config show                    # of the running broker: what isn't the default
  metaq config show --effective        # everything, with where it comes from
  metaq config show --file server.ini  # without a broker
  metaq config reload";

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a file: every mistake with its line, and what has no effect here
    #[command(after_help = "Examples:\n  metaq config check /etc/metaq/server.ini\n\nThe exit code is 1 if there are \
                            mistakes. Variables (METAQ_...) and flags count, as they would for `metaq server`.")]
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        keys: Keys,
    },
    /// Shows values and where they come from, of the running broker or of a file
    #[command(after_help = "Examples:\n  metaq config show\n  metaq config show --effective -o json\n  metaq config \
                            show --file server.ini --effective")]
    Show {
        /// Also values that nobody gave
        #[arg(long, env = "METAQ_EFFECTIVE", value_parser = clap::builder::BoolishValueParser::new())]
        effective: bool,
        /// Of this file instead of the running broker
        #[arg(long, value_name = "FILE", env = "METAQ_FILE")]
        file: Option<PathBuf>,
    },
    /// Makes the running broker read its configuration again; refused as a whole if there is a mistake
    #[command(after_help = "Examples:\n  metaq config reload")]
    Reload,
}

/// Runs `metaq config`.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    match command {
        Command::Check { file, keys } => {
            check(connection.output, Configuration { file: Some(file), overrides: keys.overrides })
        }
        Command::Show { effective, file: Some(file) } => {
            let settings = Configuration { file: Some(file), overrides: Vec::new() }.needed()?.settings;
            show(connection.output, &lines_of(&settings), effective)
        }
        Command::Show { effective, file: None } => {
            show(connection.output, &ask(&connection, AdminCommand::Config)?, effective)
        }
        Command::Reload => output::sections(connection.output, &ask(&connection, AdminCommand::Reload)?),
    }
}

fn ask(connection: &Connection, command: AdminCommand<'_>) -> Result<Vec<Fields>, Failure> {
    let mut wire = connection.connect()?;
    output::read(&wire.text("config", |opaque| Request::Admin { opaque, command })?)
}

fn check(form: Form, configuration: Configuration) -> Outcome {
    let loaded = configuration.load();
    let warnings = loaded.as_ref().map(|loaded| loaded.settings.warnings()).unwrap_or_default();
    match (form, &loaded) {
        (Form::Json, _) => {
            let warnings: Vec<_> = warnings
                .iter()
                .map(|warning| json!({ "from": warning.origin.to_string(), "text": warning.text }))
                .collect();
            let mistakes = loaded.as_ref().err().map(|mistakes| mistakes.lines.clone()).unwrap_or_default();
            output::json(&json!({ "good": loaded.is_ok(), "mistakes": mistakes, "warnings": warnings }))?;
        }
        (Form::Table, Ok(_)) => {
            for warning in &warnings {
                output::line(format_args!("warning: {}: {}", warning.origin, warning.text))?;
            }
            output::line("the configuration is good")?;
        }
        (Form::Table, Err(_)) => {}
    }
    match (form, loaded) {
        (_, Ok(_)) => Ok(()),
        (Form::Table, Err(mistakes)) => Err(Failure::failed(mistakes.to_string())),
        (Form::Json, Err(_)) => Err(Failure::silent(Exit::Failed)),
    }
}

fn show(form: Form, lines: &[Fields], effective: bool) -> Outcome {
    let shown = |line: &&Fields| effective || line.value("from") != Some("default");
    let lines: Vec<Fields> = lines.iter().filter(shown).cloned().collect();
    output::sections(form, &lines)
}

/// What a broker would tell of these settings.
fn lines_of(settings: &Settings) -> Vec<Fields> {
    let words = |words: Vec<(&str, String)>| Fields {
        words: words.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    };
    let values = settings.effective().into_iter().map(|value| {
        words(vec![
            ("setting", value.key.name.to_owned()),
            ("section", value.section),
            ("value", value.value.unwrap_or_default()),
            ("from", value.origin.to_string()),
        ])
    });
    let warnings = settings.warnings().into_iter();
    let warnings = warnings.map(|warning| words(vec![("warning", warning.text), ("from", warning.origin.to_string())]));
    values.chain(warnings).collect()
}
