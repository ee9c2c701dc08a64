//! How much of what was asked, by topic. Relaxed counters: each topic has its own, so that threads that serve
//! different topics touch different memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Messages put, also refused ones.
    Put,
    /// Gets.
    Get,
    /// Asking for a position.
    Offset,
    /// Gets that found nothing.
    GetMiss,
    /// Puts refused.
    PutFailed,
    /// Messages put; the value is the bytes of their bodies.
    MessageSize,
}

impl Counted {
    pub(crate) const ALL: [Counted; 6] =
        [Counted::Put, Counted::Get, Counted::Offset, Counted::GetMiss, Counted::PutFailed, Counted::MessageSize];

    /// As `stats` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Counted::Put => "put",
            Counted::Get => "get",
            Counted::Offset => "offset",
            Counted::GetMiss => "get_miss",
            Counted::PutFailed => "put_failed",
            Counted::MessageSize => "message_size",
        }
    }
}

/// How often, and the sum of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub count: u64,
    pub value: u64,
}

impl Tally {
    pub(crate) fn plus(self, other: Tally) -> Tally {
        Tally { count: self.count + other.count, value: self.value + other.value }
    }

    pub(crate) fn minus(self, other: Tally) -> Tally {
        Tally { count: self.count.saturating_sub(other.count), value: self.value.saturating_sub(other.value) }
    }
}

#[derive(Debug, Default)]
struct Counter {
    count: AtomicU64,
    value: AtomicU64,
}

impl Counter {
    fn add(&self, count: u64, value: u64) {
        self.count.fetch_add(count, Relaxed);
        self.value.fetch_add(value, Relaxed);
    }

    fn tally(&self) -> Tally {
        Tally { count: self.count.load(Relaxed), value: self.value.load(Relaxed) }
    }
}

/// The counters of one topic, or of what belongs to none.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    all: [Counter; 6],
    realtime: [Counter; 6],
    /// What the realtime counters stood at when they were last reset.
    base: [Counter; 6],
}

impl Counters {
    /// Counts `count` things whose values add up to `value`. `realtime`: for `stats realtime` too.
    pub(crate) fn add(&self, what: Counted, count: u64, value: u64, realtime: bool) {
        self.all[what as usize].add(count, value);
        if realtime {
            self.realtime[what as usize].add(count, value);
        }
    }

    /// Since the process began.
    pub(crate) fn total(&self, what: Counted) -> Tally {
        self.all[what as usize].tally()
    }

    /// Of the realtime counters, since the process began.
    pub(crate) fn ever(&self, what: Counted) -> Tally {
        self.realtime[what as usize].tally()
    }

    /// Of the realtime counters, since the last reset.
    pub(crate) fn recent(&self, what: Counted) -> Tally {
        self.ever(what).minus(self.base[what as usize].tally())
    }

    /// Begins the realtime counters anew.
    pub(crate) fn reset(&self) {
        for (base, counter) in self.base.iter().zip(&self.realtime) {
            let tally = counter.tally();
            base.count.store(tally.count, Relaxed);
            base.value.store(tally.value, Relaxed);
        }
    }

    /// Takes over what another one has counted.
    pub(crate) fn absorb(&self, other: &Counters) {
        let lists = [(&self.all, &other.all), (&self.realtime, &other.realtime), (&self.base, &other.base)];
        for (mine, theirs) in lists.into_iter().flat_map(|(mine, theirs)| mine.iter().zip(theirs)) {
            let tally = theirs.tally();
            mine.add(tally.count, tally.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_begins_realtime_anew_and_keeps_the_totals() {
        let counters = Counters::default();
        counters.add(Counted::MessageSize, 2, 30, true);
        counters.add(Counted::MessageSize, 1, 5, false);
        counters.reset();
        counters.add(Counted::MessageSize, 1, 7, true);
        assert_eq!(counters.recent(Counted::MessageSize), Tally { count: 1, value: 7 });
        assert_eq!(counters.ever(Counted::MessageSize), Tally { count: 3, value: 37 });
        assert_eq!(counters.total(Counted::MessageSize), Tally { count: 4, value: 42 });
    }

    #[test]
    fn what_a_removed_topic_counted_stays_counted() {
        let (rest, removed) = (Counters::default(), Counters::default());
        removed.add(Counted::Get, 3, 3, true);
        removed.reset();
        removed.add(Counted::Get, 1, 1, true);
        rest.absorb(&removed);
        assert_eq!(rest.recent(Counted::Get).count, 1);
        assert_eq!(rest.total(Counted::Get).count, 4);
    }
}
