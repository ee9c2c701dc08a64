//! What bounds the connections: what is fixed when the server starts, and what follows the broker's settings.

use metaq_broker::configuration::Settings;
use metaq_protocol::Limits;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Bytes that one read of a socket brings at most, and how large the one read buffer of a thread is.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// What has come of a request waits for the rest without being counted as arriving, up to this size.
pub(crate) const SMALL_BYTES: usize = 4 << 10;
/// A slice below this is copied behind its head and sent with it; `sendfile` would gain nothing.
pub(crate) const COPY_BYTES: usize = 16 << 10;
/// A get of at least this counts as large in the counters.
pub(crate) const LARGE_BYTES: usize = 64 << 10;
/// What one call of `sendfile`, or one read of cold bytes, moves at most.
pub(crate) const SLICE_BYTES: usize = 1 << 20;
/// What a connection sends before others get their turn.
pub(crate) const SEND_BYTES: usize = 4 << 20;
/// How often a connection is read before others get their turn.
pub(crate) const READS: usize = 1;
/// Answers and slices of one connection that may wait to be sent.
pub(crate) const PIECES: usize = 64;
/// Gets of one connection that may wait.
pub(crate) const WAITERS: usize = 1024;
/// Memory that all gets that wait may take.
pub(crate) const WAITING_BYTES: u64 = 64 << 20;
/// What a get that waits takes besides its line, for each of its partitions.
pub(crate) const WAITER_BYTES: u64 = 256;
/// A body this large takes as long again as a small request may take to arrive.
const ARRIVAL_BYTES: usize = 1 << 20;
/// The part of the bytes in flight that requests which haven't arrived whole may take.
const ARRIVING_PART: u64 = 8;

const _: () = {
    assert!(SMALL_BYTES * 2 <= READ_BYTES);
    assert!(COPY_BYTES <= LARGE_BYTES && LARGE_BYTES <= SLICE_BYTES && SLICE_BYTES <= SEND_BYTES);
};

/// What is fixed when a server starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Threads that serve connections; a connection lives on one of them.
    pub threads: NonZeroUsize,
    /// Bytes of answers that a connection may leave unread before its requests wait.
    pub unsent_bytes_max: usize,
    /// How long a request of less than 1 MiB may take to arrive; larger ones in proportion.
    pub arrival_max: Duration,
    /// How long an answer may take to be read by its client.
    pub sending_max: Duration,
    /// How long a connection that ends waits for the client's end, so that the last answers aren't lost.
    pub linger_max: Duration,
    /// Reads of cold bytes at a time.
    pub cold_reads_max: usize,
    /// Administration requests at a time, and of one connection.
    pub jobs_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            unsent_bytes_max: 1 << 20,
            arrival_max: Duration::from_secs(60),
            sending_max: Duration::from_secs(60),
            linger_max: Duration::from_secs(1),
            cold_reads_max: 8,
            jobs_max: 8,
        }
    }
}

impl Options {
    /// How long a request of `bytes` may take to arrive.
    pub(crate) fn arrival_max_of(&self, bytes: usize) -> Duration {
        self.arrival_max * u32::try_from(1 + bytes / ARRIVAL_BYTES).unwrap_or(u32::MAX)
    }
}

/// What follows the broker's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub requests: Limits,
    pub connection_bytes_max: u64,
    pub partition_bytes_max: u64,
    pub broker_bytes_max: u64,
    /// Of the broker's, what requests may take that haven't arrived whole.
    pub arriving_bytes_max: u64,
    pub waiters_max: u64,
    pub put_max: Duration,
    pub stall_max: Duration,
    pub wait_max: Duration,
    pub idle_max: Duration,
    pub slow_put: Duration,
    /// How often all connections are looked at.
    pub look_every: Duration,
}

/// All connections are looked at in this time at the latest, and not more often than in the other.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

impl Bounds {
    pub(crate) fn of(settings: &Settings, options: &Options) -> Self {
        let (limits, times) = (&settings.limits, &settings.times);
        let shortest = [times.put_max, times.stall_max, times.idle_max, options.arrival_max, options.sending_max]
            .into_iter()
            .min()
            .unwrap_or_default();
        let frame_bytes = (limits.batch_bytes_max.max(limits.message_bytes_max) + limits.line_bytes_max) as u64;
        Self {
            requests: Limits {
                line_bytes_max: limits.line_bytes_max,
                message_bytes_max: limits.message_bytes_max,
                batch_bytes_max: limits.batch_bytes_max,
                discard_bytes_max: limits.discard_bytes_max,
                ..Limits::DEFAULT
            },
            connection_bytes_max: limits.connection_bytes_in_flight_max,
            partition_bytes_max: limits.partition_bytes_in_flight_max,
            broker_bytes_max: limits.broker_bytes_in_flight_max,
            arriving_bytes_max: (limits.broker_bytes_in_flight_max / ARRIVING_PART).max(2 * frame_bytes),
            waiters_max: limits.waiters_max as u64,
            put_max: times.put_max,
            stall_max: times.stall_max,
            wait_max: times.wait_max,
            idle_max: times.idle_max,
            slow_put: settings.slow_put,
            look_every: (shortest / 8).clamp(LOOK_EVERY.0, LOOK_EVERY.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_broker::configuration::Sources;

    #[test]
    fn larger_requests_may_take_longer_in_proportion() {
        let options = Options { arrival_max: Duration::from_secs(60), ..Options::default() };
        assert_eq!(options.arrival_max_of(100), Duration::from_secs(60));
        assert_eq!(options.arrival_max_of(4 << 20), Duration::from_secs(300));
    }

    #[test]
    fn connections_are_looked_at_often_enough_for_the_shortest_time() {
        let file = b"[system]\ndataPath=/x\nputMsMax=80\n";
        let settings = Settings::load(&Sources { file: Some(file), ..Sources::default() }).unwrap();
        let bounds = Bounds::of(&settings, &Options::default());
        assert_eq!(bounds.look_every, Duration::from_millis(10));
        assert_eq!(bounds.arriving_bytes_max, bounds.broker_bytes_max / ARRIVING_PART);
    }
}
