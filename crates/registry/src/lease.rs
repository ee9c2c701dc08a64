//! Leases: entries that go when whoever put them is heard of no more.
//!
//! A lease tells others who is gone; it never tells its holder that it is alone. It may end before its
//! time, and its holder learns of it only by asking. What must not happen twice is guarded by versions,
//! never by a lease.

use std::time::Duration;

/// A moment of the caller's monotonic clock, as the time since any fixed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// This much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

/// Names a lease; none is named so again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// A lease as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// How long it lives without being renewed.
    pub ttl: Duration,
    /// Until when, by the holder's clock, others should still see its entries: counted from before the
    /// last renewal was asked for.
    pub held_until: Moment,
}

impl Lease {
    /// A lease asked for, or renewed, at `now`.
    pub fn from(id: LeaseId, ttl: Duration, now: Moment) -> Self {
        Self { id, ttl, held_until: now.after(ttl) }
    }

    /// Whether its time isn't over. It may have ended before.
    pub fn held(&self, now: Moment) -> bool {
        now < self.held_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_up_to_its_end() {
        let at = |ms| Moment(Duration::from_millis(ms));
        let lease = Lease::from(LeaseId(1), Duration::from_millis(10), at(5));
        assert!(lease.held(at(5)) && lease.held(at(14)));
        assert!(!lease.held(at(15)) && !lease.held(at(100)));
    }
}
