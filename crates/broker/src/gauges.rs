//! What only a front knows and statistics show.

use std::sync::atomic::AtomicU64;

/// Facts of this moment, kept up to date by the fronts.
#[derive(Debug, Default)]
pub struct Gauges {
    /// The port that the text protocol is served at.
    pub port: AtomicU64,
    /// Clients connected.
    pub connections: AtomicU64,
    /// Threads of the process that serve.
    pub threads: AtomicU64,
    /// Bytes of puts that aren't decided.
    pub bytes_in_flight: AtomicU64,
    /// Gets that wait.
    pub waiters: AtomicU64,
    /// Bytes of read and write buffers of connections.
    pub buffer_bytes: AtomicU64,
}
