//! `metaq completion`: what completes commands in a shell.

use crate::exit::Outcome;
use crate::output;
use clap_complete::Shell;

/// The arguments of `metaq completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// For which shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  metaq completion bash > /etc/bash_completion.d/metaq
  metaq completion zsh > ~/.zfunc/_metaq
  metaq completion fish > ~/.config/fish/completions/metaq.fish";

/// Runs `metaq completion`.
pub fn run(arguments: &Arguments, command: &mut clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "metaq", &mut script);
    output::bytes(&script)
}
