//! The model's entries and leases, and the steps that are due.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Faults;
use super::slot::{Filler, slot};
use crate::random::Random;
use crate::{
    Change, Conflict, Entry, Expected, Failure, Hint, Key, LeaseId, Listing, Operation, Prefix, Reply, Revision,
};

/// Something that happens at its time.
type Step = Box<dyn FnOnce(&mut State) + Send>;

struct Watch {
    under: Prefix,
    seen: Revision,
    hint: Filler<()>,
}

pub(super) struct State {
    random: Random,
    faults: Faults,
    now: Duration,
    revision: Revision,
    entries: BTreeMap<Key, Entry>,
    /// Every key that changed, in the order of revisions.
    changes: Vec<(Revision, Key)>,
    /// When each lease that hasn't ended does.
    leases: BTreeMap<LeaseId, Duration>,
    leases_granted: u64,
    watches: BTreeMap<u64, Watch>,
    watches_begun: u64,
    /// By when they are due, then by when they were asked for.
    due: BTreeMap<(Duration, u64), Step>,
    steps_planned: u64,
}

impl State {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self {
            random: Random::of(seed),
            faults,
            now: Duration::ZERO,
            revision: Revision(0),
            entries: BTreeMap::new(),
            changes: Vec::new(),
            leases: BTreeMap::new(),
            leases_granted: 0,
            watches: BTreeMap::new(),
            watches_begun: 0,
            due: BTreeMap::new(),
            steps_planned: 0,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    #[cfg(test)]
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= end) {
            self.now = first.key().0;
            let step = first.remove();
            step(self);
        }
        self.now = end;
    }

    /// Plans a step at a time; none is in the past.
    fn at(&mut self, time: Duration, step: impl FnOnce(&mut Self) + Send + 'static) {
        self.steps_planned += 1;
        self.due.insert((time, self.steps_planned), Box::new(step));
    }

    /// Plans a step after a delay, or takes it at once if there are none.
    fn soon(&mut self, step: impl FnOnce(&mut Self) + Send + 'static) {
        match u64::try_from(self.faults.delay_max.as_micros()).unwrap_or(u64::MAX) {
            0 => step(self),
            micros => {
                let delay = Duration::from_micros(self.random.below(micros));
                self.at(self.now + delay, step);
            }
        }
    }

    /// A call on its way: it happens after a delay or finds nobody, and its reply comes after another.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        happen: impl FnOnce(&mut Self) -> Result<T, Failure> + Send + 'static,
    ) -> Reply<T> {
        let (reply, waiting) = slot();
        self.soon(move |state| {
            let outcome = if state.random.happens(state.faults.unavailable_permille) {
                Err(Failure::Unavailable("the model lost the call".to_owned()))
            } else {
                happen(state)
            };
            state.soon(move |_| reply.fill(outcome));
        });
        Box::pin(waiting)
    }

    pub(super) fn entry(&self, key: &Key) -> Option<Entry> {
        self.entries.get(key).cloned()
    }

    /// The revision is of an earlier moment than the entries, as in a registry that asks for them one by one.
    pub(super) fn list(&mut self, under: Prefix) -> Reply<Listing> {
        let (reply, waiting) = slot();
        self.soon(move |state| {
            if state.random.happens(state.faults.unavailable_permille) {
                return reply.fill(Err(Failure::Unavailable("the model lost the call".to_owned())));
            }
            let revision = state.revision;
            state.soon(move |state| {
                let below = state.entries.iter().filter(|(key, _)| under.holds(key));
                let entries = below.map(|(key, entry)| (key.clone(), entry.clone())).collect();
                reply.fill(Ok(Listing { entries, revision }));
            });
        });
        Box::pin(waiting)
    }

    /// Makes a change; or says that nobody knows, having made it or not.
    pub(super) fn change_or_lose(&mut self, change: &Change) -> Result<Revision, Failure> {
        if !self.random.happens(self.faults.unknown_permille) {
            return self.change(change).map_err(Failure::Conflict);
        }
        if self.random.happens(500) {
            // Whether it happened or met a conflict, the reply is lost.
            let _ = self.change(change);
        }
        Err(Failure::Unknown)
    }

    fn change(&mut self, change: &Change) -> Result<Revision, Conflict> {
        let broken = change.conditions().iter().filter(|condition| {
            let version = self.entries.get(&condition.key).map(|entry| entry.version);
            match condition.expected {
                Expected::Absent => version.is_some(),
                Expected::Is(expected) => version != Some(expected),
            }
        });
        let found: Vec<_> = broken.map(|condition| (condition.key.clone(), self.entry(&condition.key))).collect();
        let ended = change.operations().iter().find_map(|operation| match operation {
            Operation::Put { lease: Some(lease), .. } if !self.leases.contains_key(lease) => Some(*lease),
            Operation::Put { .. } | Operation::Delete { .. } => None,
        });
        if !found.is_empty() || ended.is_some() {
            return Err(Conflict { found, ended });
        }
        self.revision.0 += 1;
        for operation in change.operations() {
            self.apply(operation, change);
        }
        self.hint_of_revision();
        Ok(self.revision)
    }

    fn apply(&mut self, operation: &Operation, change: &Change) {
        let key = operation.key().clone();
        match operation {
            Operation::Put { value, lease, .. } => {
                let (value, version, written_by) = (value.clone(), self.revision, change.writer());
                self.entries.insert(key.clone(), Entry { value, version, lease: *lease, written_by });
            }
            Operation::Delete { .. } => {
                self.entries.remove(&key);
            }
        }
        self.changes.push((self.revision, key));
    }

    /// Hints all that wait for what the last revision changed.
    fn hint_of_revision(&mut self) {
        let changed: Vec<_> = (self.watches.iter())
            .filter(|(_, watch)| self.has_changed(&watch.under, watch.seen))
            .map(|(&watch, _)| watch)
            .collect();
        for watch in changed {
            self.hint_soon(watch);
        }
    }

    fn has_changed(&self, under: &Prefix, seen: Revision) -> bool {
        let later = self.changes.iter().rev().take_while(|(revision, _)| *revision > seen);
        later.into_iter().any(|(_, key)| under.holds(key))
    }

    /// Hints one that waits, after a delay; what happens until then is merged into it.
    fn hint_soon(&mut self, watch: u64) {
        self.soon(move |state| {
            if let Some(watch) = state.watches.remove(&watch) {
                watch.hint.fill(());
            }
        });
    }

    pub(super) fn watch(&mut self, under: Prefix, seen: Revision) -> Hint {
        let (hint, waiting) = slot();
        let watch = self.watches_begun;
        self.watches_begun += 1;
        let due = self.has_changed(&under, seen) || self.random.happens(self.faults.spurious_permille);
        self.watches.insert(watch, Watch { under, seen, hint });
        if due {
            self.hint_soon(watch);
        }
        Box::pin(waiting)
    }

    pub(super) fn grant(&mut self, ttl: Duration) -> LeaseId {
        self.leases_granted += 1;
        let lease = LeaseId(self.leases_granted);
        self.end_after(lease, ttl);
        lease
    }

    /// Whether the lease hadn't ended.
    pub(super) fn prolong(&mut self, lease: LeaseId, ttl: Duration) -> bool {
        let there = self.leases.contains_key(&lease);
        if there {
            self.end_after(lease, ttl);
        }
        there
    }

    /// Lets a lease end when its time is over, or before.
    fn end_after(&mut self, lease: LeaseId, ttl: Duration) {
        let early = self.random.happens(self.faults.early_end_permille);
        let micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        let time = if early { Duration::from_micros(self.random.below(micros)) } else { ttl };
        let end = self.now + time;
        self.leases.insert(lease, end);
        self.at(end, move |state| {
            // It may have been prolonged since.
            if state.leases.get(&lease).is_some_and(|end| *end <= state.now) {
                state.end(lease);
            }
        });
    }

    /// Ends a lease with all its entries, as one revision.
    pub(super) fn end(&mut self, lease: LeaseId) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        let with_it = self.entries.iter().filter(|(_, entry)| entry.lease == Some(lease));
        let keys: Vec<_> = with_it.map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        self.revision.0 += 1;
        for key in keys {
            self.entries.remove(&key);
            self.changes.push((self.revision, key));
        }
        self.hint_of_revision();
    }
}
