//! `metaq log`: a data directory that no broker has open.

mod change;
mod dump;
mod place;
mod verify;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::Form;
use clap::Subcommand;
use std::fmt::Display;

/// The arguments of `metaq log`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How to print what was found
    #[arg(short, long, value_name = "FORM", env = "METAQ_OUTPUT", default_value = "table", global = true)]
    output: Form,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  metaq log verify ./metaq-data
  metaq log dump ./metaq-data --what records --partition orders-0 --limit 20
  metaq log recover ./metaq-data            # as after a clean stop; an original broker can open it too
  metaq log repair ./metaq-data             # says what would be done
  metaq log release -f server.ini           # frees it of our files, to go back to an original broker";

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks everything in a directory, and changes nothing
    #[command(after_help = "Examples:\n  metaq log verify ./metaq-data\n  metaq log verify -f server.ini -o json\n\n\
                            The exit code is 5 if something that was durable is lost or changed.")]
    Verify(verify::Arguments),
    /// Shows what stands in a directory, piece by piece; in JSON an object a line
    #[command(
        after_help = "Examples:\n  metaq log dump ./metaq-data\n  metaq log dump ./metaq-data --what log\n  metaq log \
                            dump ./metaq-data --what records --partition orders-0 --from 4096 -o json"
    )]
    Dump(dump::Arguments),
    /// Brings a directory to the state of a clean stop
    #[command(after_help = "Examples:\n  metaq log recover ./metaq-data\n  metaq log recover ./metaq-data --rebuild \
                            --dry-run")]
    Recover(change::Recover),
    /// Sets right what can be set right, after saying what will be lost
    #[command(
        after_help = "Examples:\n  metaq log repair ./metaq-data --dry-run\n  metaq log repair ./metaq-data --yes \
                            metaq-data\n  metaq log repair ./metaq-data --truncate orders-0 --dry-run"
    )]
    Repair(change::Repair),
    /// Moves everything of ours out of a directory, so that an original broker can open it
    #[command(after_help = "Examples:\n  metaq log release ./metaq-data\n  metaq log release -f server.ini")]
    Release(change::Release),
    /// Gives partitions of a topic other indexes (the original's MovePartitionFiles)
    #[command(after_help = "Examples:\n  metaq log move-partition ./metaq-data orders 0-2 3 --dry-run\n  metaq log \
                            move-partition ./metaq-data orders 0-2 3     # 0, 1, 2 become 3, 4, 5")]
    MovePartition(change::MovePartition),
    /// Deletes partitions of a topic with their files (the original's DeletePartitionFiles)
    #[command(after_help = "Examples:\n  metaq log delete-partition ./metaq-data orders 3-5 --dry-run\n  metaq log \
                            delete-partition ./metaq-data orders 3-5 --yes orders")]
    DeletePartition(change::DeletePartition),
}

/// Runs `metaq log`.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { output, command } = arguments;
    match command {
        Command::Verify(arguments) => verify::run(&arguments, output),
        Command::Dump(arguments) => dump::run(&arguments, output),
        Command::Recover(arguments) => change::recover(&arguments, output),
        Command::Repair(arguments) => change::repair(&arguments, output),
        Command::Release(arguments) => change::release(&arguments, output),
        Command::MovePartition(arguments) => change::move_partition(&arguments, output),
        Command::DeletePartition(arguments) => change::delete_partition(&arguments, output),
    }
}

/// A directory that can't be worked on.
fn refused(error: impl Display) -> Failure {
    Failure::new(Exit::Directory, error.to_string())
}
