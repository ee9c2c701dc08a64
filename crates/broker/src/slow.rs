//! The slow-log: puts that took long, and what they waited for.

use crate::broker::Broker;
use metaq_log::{Class, Partition};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// At most one line in so many milliseconds.
const EVERY_MS: u64 = 1000;

/// What was logged last, and what was passed over since.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    /// Milliseconds since 1970.
    last: AtomicU64,
    passed_over: AtomicU64,
}

impl SlowLog {
    /// How many were passed over, if there is a line to be written at `now`.
    fn admit(&self, now: u64) -> Option<u64> {
        let last = self.last.load(Relaxed);
        let is_time = now.saturating_sub(last) >= EVERY_MS;
        if is_time && self.last.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            return Some(self.passed_over.swap(0, Relaxed));
        }
        self.passed_over.fetch_add(1, Relaxed);
        None
    }
}

/// What an unanswered put waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitedFor {
    /// Its turn to be written: the sequencer, or room in the commit log.
    Sequencing,
    /// The settled watermark of its class.
    Watermark(Class),
}

impl Broker {
    /// To be told of each put that is answered, or given up: logs those that took `slowPutMs` or longer.
    pub fn note_put(&self, partition: &Partition, took: Duration, waited_for: WaitedFor) {
        if took >= self.settings.load().slow_put {
            self.log_slow(partition, took, waited_for);
        }
    }

    fn log_slow(&self, partition: &Partition, took: Duration, waited_for: WaitedFor) {
        let Some(passed_over) = self.slow_log.admit(self.now()) else { return };
        let (watermark, settled) = match waited_for {
            WaitedFor::Sequencing => ("sequenced", self.log.settled().written),
            WaitedFor::Watermark(Class::Written) => ("written", self.log.settled().written),
            WaitedFor::Watermark(Class::Durable) => ("durable", self.log.settled().durable),
        };
        let gauges = self.log.gauges();
        tracing::warn!(
            partition = self.called(partition),
            took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            waited_for = watermark,
            watermark = settled,
            log_used_permille = gauges.log_used_permille,
            pending_bytes = gauges.pending_bytes,
            passed_over,
            "a put was slow"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_passed_over() {
        let log = SlowLog::default();
        assert_eq!(log.admit(5000), Some(0));
        assert_eq!([5001, 5500, 5999].map(|now| log.admit(now)), [None; 3]);
        assert_eq!(log.admit(6000), Some(3));
        assert_eq!(log.admit(9000), Some(0));
    }
}
