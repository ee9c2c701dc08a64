//! How a command ends: a code for programs and a sentence for people.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// What the pages say about exit codes; every command's help ends with it.
pub const CODES: &str = "\
Exit codes:
  0   done; a broker that was stopped left a clean data directory
  1   it failed, or a configuration has mistakes
  2   the command line makes no sense, or a confirmation is missing
  3   the broker can't be reached; for a broker: its port can't be listened on
  4   the broker refused it; the sentence says why
  5   it isn't there, or it isn't well
  6   the data directory can't be opened: locked, foreign, of a later version, or damaged
  70  the data directory was closed for writing by a failed sync: the next start recovers it
  75  a stop was cut short by a second signal or by its limit: the next start recovers";

/// Why a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked.
    Done = 0,
    /// It didn't.
    Failed = 1,
    /// Whoever wrote the command line erred.
    Usage = 2,
    /// Nobody answers, or a port is taken.
    Unreachable = 3,
    /// The broker answered that it won't.
    Refused = 4,
    /// Not there, or not well.
    NotFound = 5,
    /// The data directory can't be opened.
    Directory = 6,
    /// The data directory was closed for writing.
    StoreClosed = 70,
    /// A stop was cut short.
    CutShort = 75,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command didn't do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The code that the process ends with.
    pub exit: Exit,
    /// A sentence; nothing is printed if it is empty.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Failure {
    /// It ends with this code and this sentence.
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// Something else failed than what the other codes are about.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Exit::Failed, text)
    }

    /// Whoever wrote the command line erred.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Everything was said already; only the code remains.
    pub fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// What was printed couldn't be. Who stopped reading (`| head`) has seen enough: that is no failure.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::Done),
            _ => Self::failed(format!("the output can't be written: {error}")),
        }
    }
}

/// What every command gives.
pub type Outcome = Result<(), Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_on_the_page() {
        let all = [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Refused,
            Exit::NotFound,
            Exit::Directory,
            Exit::StoreClosed,
            Exit::CutShort,
        ];
        let codes: Vec<u8> = CODES.lines().skip(1).map(|line| line.trim()[..2].trim().parse().unwrap()).collect();
        assert_eq!(codes, all.map(|exit| exit as u8));
    }
}
