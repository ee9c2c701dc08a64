//! How soon an acknowledged message is safe from a power cut: a policy of each topic.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When a put of a topic is acknowledged, and when its bytes are synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged after the sync of the turn that holds it (the original's group commit).
    Fsync,
    /// Acknowledged once written; synced when more than `messages` are unsynced or `period` has
    /// passed since the last sync, whichever comes first.
    Interval {
        /// Puts that may be acknowledged and unsynced; at least 1.
        messages: u32,
        /// The longest time between two syncs; never zero.
        period: Duration,
    },
    /// Acknowledged once written; the operating system decides when it is synced.
    Os,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fsync => f.write_str("fsync"),
            Self::Interval { messages, period } => {
                write!(f, "interval ({messages} messages or {} ms)", period.as_millis())
            }
            Self::Os => f.write_str("os"),
        }
    }
}

/// What the key `durability` may say; the numbers of `interval` come from `unflushThreshold` and
/// `unflushInterval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurabilityMode {
    /// [`Durability::Fsync`].
    Fsync,
    /// [`Durability::Interval`].
    Interval,
    /// [`Durability::Os`].
    Os,
}

impl DurabilityMode {
    /// The messages of an `interval` topic whose `unflushThreshold` gives none: the original's default.
    const MESSAGES: u32 = 1000;
    /// The period of an `interval` topic whose `unflushInterval` gives none: the original's default.
    const PERIOD: Duration = Duration::from_secs(10);

    /// The policy of a topic that names its mode; a threshold or an interval of 0 or less gives no
    /// number, so that the original's default stands in for it.
    pub(super) fn policy(self, threshold: i64, interval_ms: i64) -> Durability {
        match self {
            Self::Fsync => Durability::Fsync,
            Self::Os => Durability::Os,
            Self::Interval => Durability::Interval {
                messages: positive(threshold).unwrap_or(Self::MESSAGES),
                period: positive(interval_ms).map_or(Self::PERIOD, |ms| Duration::from_millis(ms.into())),
            },
        }
    }
}

impl Durability {
    /// Which of the three it is.
    pub fn mode(self) -> DurabilityMode {
        match self {
            Self::Fsync => DurabilityMode::Fsync,
            Self::Interval { .. } => DurabilityMode::Interval,
            Self::Os => DurabilityMode::Os,
        }
    }

    /// What the original's two numbers mean: a threshold of 0 or less is group commit whatever the
    /// interval; above it, `threshold` messages or `interval_ms` milliseconds. An interval of 0 or
    /// less would make the original sync at nearly every put, which is group commit again.
    pub(super) fn of_thresholds(threshold: i64, interval_ms: i64) -> Self {
        match (positive(threshold), positive(interval_ms)) {
            (Some(messages), Some(ms)) => Self::Interval { messages, period: Duration::from_millis(ms.into()) },
            _ => Self::Fsync,
        }
    }
}

/// `number` if it is above 0; the keys' ranges end at 2³¹ − 1.
fn positive(number: i64) -> Option<u32> {
    u32::try_from(number).ok().filter(|&n| n > 0)
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fsync => "fsync",
            Self::Interval => "interval",
            Self::Os => "os",
        })
    }
}

/// The text is none of `fsync`, `interval`, `os`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is one of fsync, interval, os")]
pub struct NotADurability;

impl FromStr for DurabilityMode {
    type Err = NotADurability;

    fn from_str(text: &str) -> Result<Self, NotADurability> {
        match text {
            "fsync" => Ok(Self::Fsync),
            "interval" => Ok(Self::Interval),
            "os" => Ok(Self::Os),
            _ => Err(NotADurability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(messages: u32, ms: u64) -> Durability {
        Durability::Interval { messages, period: Duration::from_millis(ms) }
    }

    #[test]
    fn a_threshold_of_zero_or_less_is_group_commit() {
        for threshold in [0, -1, i64::from(i32::MIN)] {
            assert_eq!(Durability::of_thresholds(threshold, 10_000), Durability::Fsync);
        }
    }

    #[test]
    fn a_positive_threshold_counts_messages_and_milliseconds() {
        assert_eq!(Durability::of_thresholds(1, 60_000), interval(1, 60_000));
        assert_eq!(Durability::of_thresholds(1000, 1), interval(1000, 1));
    }

    #[test]
    fn a_positive_threshold_without_a_period_is_never_weaker_than_the_original() {
        assert_eq!(Durability::of_thresholds(1000, 0), Durability::Fsync);
    }

    #[test]
    fn a_named_interval_takes_the_defaults_of_the_original_for_missing_numbers() {
        assert_eq!(DurabilityMode::Interval.policy(0, 0), interval(1000, 10_000));
        assert_eq!(DurabilityMode::Interval.policy(5, 7), interval(5, 7));
        assert_eq!(DurabilityMode::Os.policy(5, 7), Durability::Os);
        assert_eq!(DurabilityMode::Fsync.policy(5, 7), Durability::Fsync);
    }

    #[test]
    fn a_mode_reads_back_what_it_prints() {
        for mode in [DurabilityMode::Fsync, DurabilityMode::Interval, DurabilityMode::Os] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("sync".parse::<DurabilityMode>(), Err(NotADurability));
    }
}
