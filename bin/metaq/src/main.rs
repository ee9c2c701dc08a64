//! The command line of MetaQ: the broker and its tools, one file per noun.
//!
//! This is the only place where the parts of the broker are built and joined (`server`).

mod backup;
mod clock;
mod completion;
mod config;
mod confirmation;
mod connection;
mod consume;
mod doctor;
mod exit;
mod log;
mod man;
mod message;
mod offsets;
mod output;
mod partition;
mod partitions;
mod produce;
mod progress;
mod reader;
mod server;
mod stats;
mod topic;
mod wire;

use clap::{CommandFactory, Parser, Subcommand};
use exit::{Exit, Outcome};
use std::process::ExitCode;

/// A message broker with a partitioned log, and its tools
#[derive(Debug, Parser)]
#[command(name = "metaq", version, propagate_version = true, max_term_width = 120)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  metaq server                                 a broker with its data in ./metaq-data
  metaq produce hello 'Hello, MetaQ!'          a message goes in
  metaq consume hello                          and comes out
  metaq topic list
  metaq doctor                                 is everything well, and if not, what to do";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a broker
    Server(Box<server::Arguments>),
    /// Puts messages into a topic: arguments, lines or files
    Produce(produce::Arguments),
    /// Prints the messages of a topic
    Consume(consume::Arguments),
    /// Prints the last messages of a topic
    Tail(consume::TailArguments),
    /// Lists, shows, creates, alters and deletes topics
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Topic(topic::Arguments),
    /// Closes, opens, adds and deletes partitions of a topic
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Partition(partition::Arguments),
    /// Lists, shows, commits, copies and deletes how far groups have read
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Offsets(offsets::Arguments),
    /// Shows the counters of a broker
    Stats(stats::Arguments),
    /// Checks a configuration, shows what is in effect, reads it again
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Config(config::Arguments),
    /// Looks into, checks, recovers and repairs a data directory that no broker has open
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Log(log::Arguments),
    /// Makes a copy of a running broker's data that opens as after a clean stop
    Backup(backup::Arguments),
    /// Looks at everything that a broker needs, and says what to do
    Doctor(doctor::Arguments),
    /// Prints what completes commands in a shell
    Completion(completion::Arguments),
    /// Prints the manual, or writes a page per command
    Man(man::Arguments),
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Server(arguments) => server::run(*arguments),
        Command::Produce(arguments) => produce::run(arguments),
        Command::Consume(arguments) => consume::run(&arguments),
        Command::Tail(arguments) => consume::tail(&arguments),
        Command::Topic(arguments) => topic::run(arguments),
        Command::Partition(arguments) => partition::run(arguments),
        Command::Offsets(arguments) => offsets::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Log(arguments) => log::run(arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completion(arguments) => completion::run(&arguments, &mut Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            if !failure.text.is_empty() {
                eprintln!("metaq: {failure}");
            }
            failure.exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &clap::Command, path: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
        visit(path, command);
        for sub in command.get_subcommands() {
            each(sub, &format!("{path} {}", sub.get_name()), visit);
        }
    }

    #[test]
    fn the_command_line_makes_sense() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does_and_shows_an_example() {
        each(&Arguments::command(), "metaq", &mut |path, command| {
            assert!(command.get_about().is_some(), "{path} says nothing");
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("Examples:"), "{path} has no example:\n{help}");
        });
    }

    #[test]
    fn a_switch_is_on_by_a_variable_that_says_1() {
        each(&Arguments::command(), "metaq", &mut |path, command| {
            for arg in command.get_arguments().filter(|arg| arg.get_env().is_some()) {
                if matches!(arg.get_action(), clap::ArgAction::SetTrue) {
                    let words = arg.get_value_parser().possible_values().map(Iterator::collect::<Vec<_>>);
                    let taken = words.is_some_and(|words| words.iter().any(|word| word.matches("1", false)));
                    assert!(taken, "{path} {}", arg.get_id());
                }
            }
        });
    }

    #[test]
    fn every_flag_has_a_variable_of_its_own_name() {
        each(&Arguments::command(), "metaq", &mut |path, command| {
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long() else { continue };
                let name = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                let expected = format!("METAQ_{}", long.replace('-', "_").to_uppercase());
                assert_eq!(name, Some(expected), "{path} --{long}");
            }
        });
    }
}
