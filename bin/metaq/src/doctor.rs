//! `metaq doctor`: looks at everything that a broker needs, and says what to do.

mod broker;
mod machine;

use crate::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, Form};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The arguments of `metaq doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    /// The data directory of the broker, or where it will be
    #[arg(long, value_name = "DIR", env = "METAQ_DATA_DIR", default_value = "./metaq-data")]
    data_dir: PathBuf,
    /// Where the broker serves metrics and health
    #[arg(long, value_name = "HOST:PORT", env = "METAQ_HTTP", default_value = "127.0.0.1:8120")]
    http: String,
    /// How many syncs are tried
    #[arg(long, value_name = "N", env = "METAQ_SYNCS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    syncs: u32,
}

const EXAMPLES: &str = "\
Examples:
  metaq doctor
  metaq doctor --data-dir /var/lib/metaq --server 10.0.0.7:8123 --http 10.0.0.7:8120
  metaq doctor -o json

The exit code is 5 if something is bad; what is only worth knowing doesn't count.";

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// To be changed.
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Note => "note",
            State::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do; nothing, if it is good.
    pub advice: String,
}

impl Check {
    /// It is as it should be.
    pub fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), advice: String::new() }
    }

    /// It is worth knowing.
    pub fn note(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: State::Note, found: found.into(), advice: advice.into() }
    }

    /// It is to be changed.
    pub fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, state: State::Bad, found: found.into(), advice: advice.into() }
    }
}

/// Runs `metaq doctor`.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { connection, data_dir, http, syncs } = arguments;
    let mut checks = broker::checks(connection, http);
    checks.extend(machine::checks(data_dir, *syncs));
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Good);
    match connection.output {
        Form::Table => checks.iter().try_for_each(say)?,
        Form::Json => {
            let all: Vec<_> = checks.iter().map(object).collect();
            output::json(&json!({ "well": worst != State::Bad, "checks": all }))?;
        }
    }
    if worst == State::Bad { Err(Failure::silent(Exit::NotFound)) } else { Ok(()) }
}

fn say(check: &Check) -> Outcome {
    output::line(format_args!("{}  {:<12}  {}", check.state.word(), check.name, check.found))?;
    if check.advice.is_empty() {
        return Ok(());
    }
    output::line(format_args!("{:20}→ {}", "", check.advice))
}

fn object(check: &Check) -> Value {
    json!({ "name": check.name, "state": check.state.word(), "found": check.found, "advice": check.advice })
}
