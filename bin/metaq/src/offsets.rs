//! `metaq offsets`: how far groups have read, as the broker keeps it.

use crate::confirmation::Confirmation;
use crate::connection::Connection;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::wire::Wire;
use clap::Subcommand;
use metaq_broker::lines::Fields;
use metaq_protocol::Request;
use metaq_protocol::extension::OffsetsCommand;

/// The arguments of `metaq offsets`.
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
  metaq offsets list
  metaq offsets fetch billing orders
  metaq offsets commit billing orders 0 4096
  metaq offsets copy billing orders 0 orders-copy 0
  metaq offsets delete billing --topic orders --yes billing";

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the groups
    #[command(after_help = "Examples:\n  metaq offsets list")]
    List,
    /// Shows how far a group has read
    #[command(after_help = "Examples:\n  metaq offsets fetch billing\n  metaq offsets fetch billing orders 0")]
    Fetch {
        /// Whose
        group: String,
        /// Of one topic only
        topic: Option<String>,
        /// Of one partition only
        partition: Option<i32>,
    },
    /// Says how far a group has read
    #[command(after_help = "Examples:\n  metaq offsets commit billing orders 0 4096")]
    Commit {
        /// Whose
        group: String,
        /// Of which topic
        topic: String,
        /// Of which partition
        partition: i32,
        /// The first byte that isn't done
        position: i64,
        /// The last message that is done
        #[arg(long, value_name = "ID", env = "METAQ_ID", allow_negative_numbers = true)]
        id: Option<i64>,
    },
    /// Copies a position to another partition that has none
    #[command(after_help = "Examples:\n  metaq offsets copy billing orders 0 orders-moved 0")]
    Copy {
        /// Whose
        group: String,
        /// From which topic
        from_topic: String,
        /// From which partition
        from_partition: i32,
        /// To which topic
        to_topic: String,
        /// To which partition
        to_partition: i32,
    },
    /// Forgets how far a group has read
    #[command(
        after_help = "Examples:\n  metaq offsets delete billing --topic orders --dry-run\n  metaq offsets delete \
                            billing --yes billing"
    )]
    Delete {
        /// Whose
        group: String,
        /// Of one topic only
        #[arg(long, value_name = "TOPIC", env = "METAQ_TOPIC")]
        topic: Option<String>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// Runs `metaq offsets`.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    let mut wire = connection.connect()?;
    if let Command::Delete { group, topic, confirmation } = command {
        let known = fetch(&mut wire, group, topic.as_deref())?;
        let loss = format!("{} positions of group {group} of {} will be forgotten.", known.len(), connection.server);
        if confirmation.dry_run {
            output::line(loss)?;
            return output::list(connection.output, &known);
        }
        confirmation.of(group, &loss)?;
    }
    output::list(connection.output, &ask(&mut wire, command_of(command))?)
}

fn command_of(command: &Command) -> OffsetsCommand<'_> {
    match command {
        Command::List => OffsetsCommand::List,
        Command::Fetch { group, topic, partition } => {
            let topic = topic.as_deref().map(Into::into);
            OffsetsCommand::Fetch { group: group.into(), topic, partition: *partition }
        }
        Command::Commit { group, topic, partition, position, id } => OffsetsCommand::Commit {
            group: group.into(),
            topic: topic.into(),
            partition: *partition,
            position: *position,
            id: *id,
        },
        Command::Copy { group, from_topic, from_partition, to_topic, to_partition } => OffsetsCommand::Copy {
            group: group.into(),
            from_topic: from_topic.into(),
            from_partition: *from_partition,
            to_topic: to_topic.into(),
            to_partition: *to_partition,
        },
        Command::Delete { group, topic, .. } => {
            OffsetsCommand::Delete { group: group.into(), topic: topic.as_deref().map(Into::into) }
        }
    }
}

/// How far a group has read.
pub fn fetch(wire: &mut Wire, group: &str, topic: Option<&str>) -> Result<Vec<Fields>, Failure> {
    ask(wire, OffsetsCommand::Fetch { group: group.into(), topic: topic.map(Into::into), partition: None })
}

/// Where messages of a time (milliseconds since 1970) begin in a partition, at most about 64 KiB early.
pub fn locate(wire: &mut Wire, topic: &str, partition: i32, time_ms: u64) -> Result<i64, Failure> {
    let lines = ask(wire, OffsetsCommand::Locate { topic: topic.into(), partition, time_ms })?;
    let position = lines.first().and_then(|line| line.value("position")?.parse().ok());
    position.ok_or_else(|| Failure::failed("the broker's answer to offsets locate names no position"))
}

fn ask(wire: &mut Wire, command: OffsetsCommand<'_>) -> Result<Vec<Fields>, Failure> {
    output::read(&wire.text("offsets", |opaque| Request::Offsets { opaque, command })?)
}
