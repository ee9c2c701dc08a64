//! Log lines: to the standard error stream, for people or for programs.

use crate::exit::Failure;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// A line for people, coloured on a terminal.
    Human,
    /// An object a line.
    Json,
}

/// Begins logging. `levels`: a level, or levels by part, as in `info,metaq_log=debug`.
pub fn begin(levels: &str, form: Form) -> Result<(), Failure> {
    let wrong = |error| Failure::usage(format!("--log {levels}: {error}; write a level, or info,metaq_log=debug"));
    let filter = EnvFilter::try_new(levels).map_err(wrong)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match form {
        Form::Human => lines.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        Form::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| Failure::failed(format!("logging can't begin: {error}")))
}
