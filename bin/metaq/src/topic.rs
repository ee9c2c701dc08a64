//! `metaq topic`: what topics there are, and their changes.

use crate::confirmation::Confirmation;
use crate::connection::Connection;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::wire::Wire;
use clap::Subcommand;
use metaq_broker::lines::Fields;
use metaq_protocol::Request;
use metaq_protocol::extension::{Settings, TopicCommand};

/// The arguments of `metaq topic`.
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
  metaq topic list
  metaq topic create orders --partitions 3 durability=fsync
  metaq topic describe orders -o json
  metaq topic alter orders deletePolicy=archive,72
  metaq topic alter orders deletePolicy=            # back to what the file says
  metaq topic delete orders --dry-run";

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the topics
    #[command(after_help = "Examples:\n  metaq topic list\n  metaq topic list -o json")]
    List,
    /// Shows a topic: its settings with where they come from, and its partitions
    #[command(after_help = "Examples:\n  metaq topic describe orders")]
    Describe {
        /// Which
        topic: String,
    },
    /// Creates a topic
    #[command(after_help = "Examples:\n  metaq topic create orders\n  metaq topic create orders --partitions 3 \
                            durability=os retentionBytes=10*1024*1024*1024")]
    Create {
        /// Its name
        topic: String,
        /// How many partitions: short for numPartitions=N
        #[arg(long, value_name = "N", env = "METAQ_PARTITIONS")]
        partitions: Option<u32>,
        /// Keys as in a [topic=...] section of server.ini
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Changes settings of a topic; an empty value takes a change back
    #[command(after_help = "Examples:\n  metaq topic alter orders acceptPublish=false\n  metaq topic alter orders \
                            acceptPublish=")]
    Alter {
        /// Which
        topic: String,
        /// Keys as in a [topic=...] section of server.ini
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Deletes a topic with all its messages, for good
    #[command(
        after_help = "Examples:\n  metaq topic delete orders --dry-run\n  metaq topic delete orders --yes orders"
    )]
    Delete {
        /// Which
        topic: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// Runs `metaq topic`.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    let mut wire = connection.connect()?;
    match command {
        Command::List => output::list(connection.output, &ask(&mut wire, "topic list", TopicCommand::List)?),
        Command::Describe { topic } => output::sections(connection.output, &describe(&mut wire, &topic)?),
        Command::Create { topic, partitions, settings } => {
            let partitions = partitions.map(|partitions| format!("numPartitions={partitions}"));
            let settings = pairs(partitions.iter().chain(&settings))?;
            let mut text = Vec::new();
            let settings = Settings::build(&mut text, settings).map_err(|why| Failure::usage(why.to_string()))?;
            let command = TopicCommand::Create { topic: topic.as_str().into(), settings };
            output::list(connection.output, &ask(&mut wire, &format!("topic create {topic}"), command)?)
        }
        Command::Alter { topic, settings } => {
            output::list(connection.output, &alter(&mut wire, &topic, pairs(&settings)?)?)
        }
        Command::Delete { topic, confirmation } => delete(&mut wire, &connection, &topic, &confirmation),
    }
}

/// The lines that describe a topic.
pub fn describe(wire: &mut Wire, topic: &str) -> Result<Vec<Fields>, Failure> {
    ask(wire, &format!("topic describe {topic}"), TopicCommand::Describe { topic: topic.into() })
}

/// Changes settings of a topic.
pub fn alter(wire: &mut Wire, topic: &str, settings: Vec<(&str, &str)>) -> Result<Vec<Fields>, Failure> {
    let mut text = Vec::new();
    let settings = Settings::build(&mut text, settings).map_err(|why| Failure::usage(why.to_string()))?;
    ask(wire, &format!("topic alter {topic}"), TopicCommand::Alter { topic: topic.into(), settings })
}

fn ask(wire: &mut Wire, what: &str, command: TopicCommand<'_>) -> Result<Vec<Fields>, Failure> {
    output::read(&wire.text(what, |opaque| Request::Topic { opaque, command })?)
}

fn pairs<'a>(settings: impl IntoIterator<Item = &'a String>) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let wrong = |setting| Failure::usage(format!("{setting:?} isn't KEY=VALUE"));
    settings.into_iter().map(|setting| setting.split_once('=').ok_or_else(|| wrong(setting))).collect()
}

fn delete(wire: &mut Wire, connection: &Connection, topic: &str, confirmation: &Confirmation) -> Outcome {
    let lines = describe(wire, topic)?;
    let of = |key: &str| lines.first().and_then(|line| line.value(key)).unwrap_or("?");
    let loss = format!(
        "Topic {topic} of {} will be deleted for good, with {} partitions and {} messages.",
        connection.server,
        of("existing"),
        of("messages")
    );
    if confirmation.dry_run {
        return output::line(loss);
    }
    confirmation.of(topic, &loss)?;
    let command = TopicCommand::Delete { topic: topic.into() };
    output::list(connection.output, &ask(wire, &format!("topic delete {topic}"), command)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_key_and_a_value_that_may_hold_an_equals_sign() {
        let settings = ["a=b=c".to_owned(), "d=".to_owned()];
        assert_eq!(pairs(&settings).unwrap(), [("a", "b=c"), ("d", "")]);
        assert!(pairs(&["a".to_owned()]).is_err());
    }
}
