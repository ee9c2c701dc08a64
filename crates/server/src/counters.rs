//! What the front counts, for metrics and tests.

use std::sync::atomic::AtomicU64;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Bytes of messages that left by `sendfile`.
    pub sendfile_bytes: AtomicU64,
    /// Bytes of messages that were copied, of gets and parts of fetches below 64 KiB.
    pub copied_small_bytes: AtomicU64,
    /// Bytes of messages that were copied, of larger ones: because they weren't in memory.
    pub copied_large_bytes: AtomicU64,
    /// Reads of cold bytes.
    pub cold_reads: AtomicU64,
    /// Submissions handed to the log.
    pub submissions: AtomicU64,
    /// Writes and `sendfile`s that sent something.
    pub sends: AtomicU64,
    /// Puts answered as outcome unknown.
    pub puts_unknown: AtomicU64,
    /// Puts answered as busy.
    pub puts_busy: AtomicU64,
    /// Connections closed because of a line that can't be understood.
    pub malformed: AtomicU64,
    /// Connections closed because they did nothing, or too little, for too long.
    pub timed_out: AtomicU64,
}
