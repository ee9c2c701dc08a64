//! `metaq man`: the manual, made from the same descriptions as `--help`.

use crate::exit::{Failure, Outcome};
use crate::output;
use clap_mangen::Man;
use std::fs;
use std::path::PathBuf;

/// The arguments of `metaq man`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Writes a page for every command into this folder, instead of printing the first
    #[arg(long, value_name = "DIR", env = "METAQ_OUT")]
    out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  metaq man | man -l -
  metaq man --out /usr/local/share/man/man1";

/// Runs `metaq man`.
pub fn run(arguments: &Arguments, command: clap::Command) -> Outcome {
    // Nobody looks for a page about `help`.
    let mut command = command.disable_help_subcommand(true);
    match &arguments.out {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).map_err(|error| Failure::output(&error))?;
            output::bytes(&page)
        }
        Some(folder) => {
            command.build();
            let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
            written.map_err(|error| Failure::failed(format!("{} can't be written: {error}", folder.display())))
        }
    }
}
