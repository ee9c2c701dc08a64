//! How a listener and the sockets that it accepts are set.

use std::time::Duration;

/// How a listener and the sockets that it accepts are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Connections that the kernel keeps for us before we accept them.
    pub backlog: u16,
    /// Several listeners may be bound to the same address; the kernel deals connections out.
    pub shares_port: bool,
    /// The kernel asks a silent peer after this time whether it is there; `None`: it doesn't ask.
    pub keepalive: Option<Duration>,
    /// The kernel's name of the congestion control; `None`: the system's.
    pub congestion: Option<String>,
    /// How many connections may be open; one more is closed at once.
    pub connections_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backlog: 1024,
            shares_port: false,
            keepalive: Some(Duration::from_secs(60)),
            congestion: None,
            connections_max: 20_000,
        }
    }
}
