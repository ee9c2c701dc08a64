//! Message ids: wall-clock snowflakes that never go back and never repeat, whatever the clock does.
//!
//! An id is `(clock − epoch) << 22 | broker << 12 | counter`. When the clock stands still or steps back, the counter
//! borrows from the next millisecond. A *ceiling* that is durable before any id above it is given keeps ids unique over
//! crashes: after one, ids start above it.

/// The epoch of ids, milliseconds since 1970: the original's.
pub const EPOCH_MS: u64 = 1_303_895_660_503;
/// Ids in one millisecond of one broker, and so the most consecutive ids.
pub const RUN_MAX: u32 = 4096;
/// How far ahead a ceiling is set.
const CEILING_AHEAD_MS: u64 = 10_000;
/// A clock that says more is wrong: ids would become negative ten years later (in 2081).
const CLOCK_MAX_MS: u64 = EPOCH_MS + (1 << 41) - 10 * 366 * 24 * 3_600_000;

#[derive(Debug, Clone)]
pub(crate) struct Ids {
    broker: u16,
    /// Milliseconds since 1970 of the last id.
    clock: u64,
    /// Ids given in that millisecond.
    given: u32,
    /// Ids up to this millisecond may be given.
    ceiling: u64,
}

impl Ids {
    /// Starts above `ceiling`, the highest that an earlier run had made durable.
    pub(crate) fn new(broker: u16, ceiling: u64) -> Self {
        assert!(broker < 1024, "broker {broker} has no room in an id");
        Self { broker, clock: ceiling.max(EPOCH_MS), given: RUN_MAX, ceiling }
    }

    /// The first of `count` consecutive ids. The second value is a ceiling that must become durable with them.
    pub(crate) fn run(&mut self, now: u64, count: u32) -> (i64, Option<u64>) {
        assert!((1..=RUN_MAX).contains(&count), "a run of {count} ids");
        let now = now.min(CLOCK_MAX_MS);
        if now > self.clock {
            (self.clock, self.given) = (now, 0);
        }
        if self.given + count > RUN_MAX {
            (self.clock, self.given) = (self.clock + 1, 0);
        }
        let first = (self.clock - EPOCH_MS) << 22 | u64::from(self.broker) << 12 | u64::from(self.given);
        self.given += count;
        let raised = (self.clock > self.ceiling).then(|| {
            self.ceiling = self.clock + CEILING_AHEAD_MS;
            self.ceiling
        });
        (i64::try_from(first).expect("ids stay positive until the year 2080"), raised)
    }

    /// No id above this clock value has been given.
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    #[test]
    fn ids_grow_while_the_clock_steps_back_and_stands_still() {
        let mut ids = Ids::new(7, 0);
        let mut last = 0;
        for n in 0..20_000 {
            let (id, _) = ids.run(NOW - n % 977 * 1000, 1);
            assert!(id > last, "{id} after {last}");
            assert_eq!((id >> 12) & 1023, 7);
            last = id;
        }
    }

    #[test]
    fn a_run_is_consecutive_and_never_carries_into_the_broker() {
        let mut ids = Ids::new(3, 0);
        ids.run(NOW, 4000);
        let (first, _) = ids.run(NOW, 97);
        assert_eq!(first & 4095, 0, "97 more don't fit into the millisecond");
        let (second, _) = ids.run(NOW, 3999);
        assert_eq!(second, first + 97);
    }

    #[test]
    fn a_clock_that_is_far_ahead_leaves_ids_positive_and_growing() {
        let mut ids = Ids::new(7, 0);
        let mut last = 0;
        for now in [NOW, 4_000_000_000_000, u64::MAX, NOW, u64::MAX] {
            let (id, _) = ids.run(now, 4096);
            assert!(id > last, "{id} after {last}");
            last = id;
        }
    }

    #[test]
    fn ids_after_a_crash_are_above_all_given_before() {
        let mut before = Ids::new(0, 0);
        let mut highest = 0;
        let mut durable = 0;
        for n in 0..50 {
            let (id, ceiling) = before.run(NOW + n * 1700, 1);
            durable = ceiling.unwrap_or(durable);
            highest = id;
        }
        let (id, _) = Ids::new(0, durable).run(NOW - 3_600_000, 1);
        assert!(id > highest);
    }
}
