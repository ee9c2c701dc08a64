//! Which broker a tool talks to and how it prints: flags that all tools share.

use crate::exit::Failure;
use crate::output::Form;
use crate::wire::Wire;
use std::time::Duration;

/// Flags that all tools share.
#[derive(Debug, Clone, clap::Args)]
pub struct Connection {
    /// The broker to talk to
    #[arg(long, value_name = "HOST:PORT", env = "METAQ_SERVER", default_value = "127.0.0.1:8123", global = true)]
    pub server: String,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", env = "METAQ_TIMEOUT", default_value = "10", value_parser = seconds, global = true)]
    pub timeout: Duration,
    /// How to print what was found
    #[arg(short, long, value_name = "FORM", env = "METAQ_OUTPUT", default_value = "table", global = true)]
    pub output: Form,
}

/// Seconds, with a fraction if need be.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or("it is more than 0 seconds".to_owned())
}

impl Connection {
    /// Connects.
    pub fn connect(&self) -> Result<Wire, Failure> {
        Wire::connect(&self.server, self.timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_more_than_nothing() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "x", "inf", "1e300", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
