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

/// A number for each [`Counted`]: how often; of [`Counted::MessageSize`], the bytes.
#[derive(Debug, Default)]
struct Numbers([AtomicU64; 6]);

impl Numbers {
    fn add(&self, what: Counted, number: u64) {
        self.0[what as usize].fetch_add(number, Relaxed);
    }

    fn number(&self, what: Counted) -> u64 {
        self.0[what as usize].load(Relaxed)
    }

    fn tally(&self, what: Counted) -> Tally {
        let value = self.number(what);
        let count = if what == Counted::MessageSize { self.number(Counted::Put) } else { value };
        Tally { count, value }
    }

    fn set_to(&self, other: &Numbers) {
        self.0.iter().zip(&other.0).for_each(|(mine, theirs)| mine.store(theirs.load(Relaxed), Relaxed));
    }

    fn add_all(&self, other: &Numbers) {
        Counted::ALL.iter().for_each(|what| self.add(*what, other.number(*what)));
    }
}

/// The counters of one topic, or of what belongs to none. On cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    all: Numbers,
    realtime: Numbers,
    /// What the realtime counters stood at when they were last reset.
    base: Numbers,
}

impl Counters {
    /// Counts. `realtime`: for `stats realtime` too.
    pub(crate) fn add(&self, what: Counted, number: u64, realtime: bool) {
        self.all.add(what, number);
        if realtime {
            self.realtime.add(what, number);
        }
    }

    /// Since the process began.
    pub(crate) fn total(&self, what: Counted) -> Tally {
        self.all.tally(what)
    }

    /// Of the realtime counters, since the process began.
    pub(crate) fn ever(&self, what: Counted) -> Tally {
        self.realtime.tally(what)
    }

    /// Of the realtime counters, since the last reset.
    pub(crate) fn recent(&self, what: Counted) -> Tally {
        self.ever(what).minus(self.base.tally(what))
    }

    /// Begins the realtime counters anew.
    pub(crate) fn reset(&self) {
        self.base.set_to(&self.realtime);
    }

    /// Takes over what another one has counted.
    pub(crate) fn absorb(&self, other: &Counters) {
        self.all.add_all(&other.all);
        self.realtime.add_all(&other.realtime);
        self.base.add_all(&other.base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_begins_realtime_anew_and_keeps_the_totals() {
        let counters = Counters::default();
        let put = |bytes, realtime| {
            counters.add(Counted::Put, 1, realtime);
            counters.add(Counted::MessageSize, bytes, realtime);
        };
        put(10, true);
        put(20, true);
        put(5, false);
        counters.reset();
        put(7, true);
        assert_eq!(counters.recent(Counted::MessageSize), Tally { count: 1, value: 7 });
        assert_eq!(counters.ever(Counted::MessageSize), Tally { count: 3, value: 37 });
        assert_eq!(counters.total(Counted::MessageSize), Tally { count: 4, value: 42 });
    }

    #[test]
    fn what_a_removed_topic_counted_stays_counted() {
        let (rest, removed) = (Counters::default(), Counters::default());
        removed.add(Counted::Get, 3, true);
        removed.reset();
        removed.add(Counted::Get, 1, true);
        rest.absorb(&removed);
        assert_eq!(rest.recent(Counted::Get).count, 1);
        assert_eq!(rest.total(Counted::Get).count, 4);
    }
}
