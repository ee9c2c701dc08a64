//! `metaq partition`: opening, closing, adding and deleting partitions of a topic.

use crate::confirmation::Confirmation;
use crate::connection::Connection;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::topic;
use crate::wire::Wire;
use clap::Subcommand;
use metaq_broker::lines::Fields;
use metaq_protocol::Request;
use metaq_protocol::extension::{PartitionAct, PartitionCommand};
use std::ops::RangeInclusive;

/// The arguments of `metaq partition`.
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
  metaq partition add orders 2              # two more
  metaq partition close orders 3-4          # puts and gets are answered 403
  metaq partition open orders 3
  metaq partition delete orders 4 --dry-run # closed and drained ones only";

#[derive(Debug, Subcommand)]
enum Command {
    /// Closes partitions: puts and gets are answered 403
    #[command(after_help = "Examples:\n  metaq partition close orders 0\n  metaq partition close orders 2-5")]
    Close(Which),
    /// Opens partitions that were closed
    #[command(after_help = "Examples:\n  metaq partition open orders 0")]
    Open(Which),
    /// Adds partitions to a topic
    #[command(after_help = "Examples:\n  metaq partition add orders 2")]
    Add {
        /// Of which topic
        topic: String,
        /// How many more
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Deletes partitions that are closed and drained, with their files
    #[command(
        after_help = "Examples:\n  metaq partition delete orders 4 --dry-run\n  metaq partition delete orders 4 \
                            --yes orders"
    )]
    Delete {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Of which topic
    topic: String,
    /// One, or a range as 2-5
    #[arg(value_name = "FROM[-TO]", value_parser = range)]
    partitions: RangeInclusive<i32>,
}

fn range(text: &str) -> Result<RangeInclusive<i32>, String> {
    let index = |text: &str| text.parse().ok().filter(|index| *index >= 0);
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to): (Option<i32>, Option<i32>) = (index(from), index(to));
    from.zip(to)
        .filter(|(from, to)| from <= to)
        .map(|(from, to)| from..=to)
        .ok_or("it is 3, or a range as 2-5".to_owned())
}

/// Runs `metaq partition`.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { connection, command } = arguments;
    let mut wire = connection.connect()?;
    let lines = match command {
        Command::Close(which) => ask(&mut wire, PartitionAct::Close, &which)?,
        Command::Open(which) => ask(&mut wire, PartitionAct::Open, &which)?,
        Command::Add { topic, count } => add(&mut wire, &topic, count)?,
        Command::Delete { which, confirmation } => {
            let loss = loss(&mut wire, &connection, &which)?;
            if confirmation.dry_run {
                return output::line(loss);
            }
            confirmation.of(&which.topic, &loss)?;
            ask(&mut wire, PartitionAct::Delete, &which)?
        }
    };
    output::list(connection.output, &lines)
}

fn ask(wire: &mut Wire, act: PartitionAct, which: &Which) -> Result<Vec<Fields>, Failure> {
    let command = PartitionCommand { act, topic: which.topic.as_str().into(), partitions: which.partitions.clone() };
    let text = wire.text(&format!("topic {}", which.topic), |opaque| Request::Partition { opaque, command })?;
    output::read(&text)
}

fn add(wire: &mut Wire, topic: &str, count: u32) -> Result<Vec<Fields>, Failure> {
    let lines = topic::describe(wire, topic)?;
    let there = lines.first().and_then(|line| line.value("partitions")).and_then(|number| number.parse::<u32>().ok());
    let there = there.ok_or_else(|| Failure::failed("the broker doesn't say how many partitions there are"))?;
    let wanted = there.saturating_add(count).to_string();
    topic::alter(wire, topic, vec![("numPartitions", &wanted)])
}

fn loss(wire: &mut Wire, connection: &Connection, which: &Which) -> Result<String, Failure> {
    let lines = topic::describe(wire, &which.topic)?;
    let wanted = |line: &&Fields| {
        let index = line.value("partition").and_then(|name| name.rsplit('-').next()?.parse::<i32>().ok());
        index.is_some_and(|index| which.partitions.contains(&index))
    };
    let partitions: Vec<_> = lines.iter().filter(wanted).collect();
    let messages: u64 = partitions.iter().filter_map(|line| line.value("messages")?.parse::<u64>().ok()).sum();
    Ok(format!(
        "{} partitions of topic {} of {} will be deleted with {messages} messages.",
        partitions.len(),
        which.topic,
        connection.server
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_goes_upward_from_0() {
        assert_eq!(range("3"), Ok(3..=3));
        assert_eq!(range("2-5"), Ok(2..=5));
        for wrong in ["", "5-2", "-1", "1-", "x", "1-2-3"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
