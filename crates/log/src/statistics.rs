//! Counts and times of the log, read by metrics. Times are in microseconds, in buckets of powers of two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of buckets of a [`Histogram`]: bucket `n` counts durations below `2^n` µs, the last one all others.
pub const BUCKETS: usize = 24;

/// Durations, counted in buckets of powers of two.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = (64 - micros.leading_zeros() as usize).min(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts by bucket, and the sum in microseconds.
    pub fn read(&self) -> ([u64; BUCKETS], u64) {
        let counts = std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed));
        (counts, self.sum_micros.load(Ordering::Relaxed))
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Turns written.
    pub turns: AtomicU64,
    /// Bytes of turns, padding included.
    pub turn_bytes: AtomicU64,
    /// Entries written.
    pub entries: AtomicU64,
    /// Syncs of the commit log.
    pub syncs: AtomicU64,
    /// Writing a turn.
    pub write: Histogram,
    /// Syncing the log.
    pub sync: Histogram,
    /// Bytes written into segments.
    pub applied_bytes: AtomicU64,
    /// Checkpoints made.
    pub checkpoints: AtomicU64,
    /// Checkpoints that failed.
    pub checkpoints_failed: AtomicU64,
    /// A whole checkpoint.
    pub checkpoint: Histogram,
    /// When the last checkpoint was done, milliseconds since 1970.
    pub checkpoint_time: AtomicU64,
    /// Share of the commit log in use, in thousandths.
    pub log_used_permille: AtomicU64,
    /// Submissions held back because the log was full.
    pub log_full: AtomicU64,
}
