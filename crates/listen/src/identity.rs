//! Who is on the other side of a connection.

use std::fmt;
use std::net::SocketAddr;

/// Who is on the other side, as far as it is known: an address, until something proves more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Where the connection comes from.
    pub address: SocketAddr,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
