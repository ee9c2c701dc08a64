//! A registry in memory that behaves as badly as the contract allows, driven by a seed.
//!
//! It has no thread and no clock: a simulator lets time pass, and whatever is due then happens. With
//! the same seed, the same calls and the same passing of time, the same happens.

mod slot;
mod state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::{Change, Entry, Hint, Key, Lease, LeaseId, Listing, Moment, Prefix, Registry, Reply, Revision};
use state::State;

/// What goes wrong, within the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Calls, replies and hints each take up to this long; zero is at once.
    pub delay_max: Duration,
    /// Of 1000 calls, how many find nobody.
    pub unavailable_permille: u16,
    /// Of 1000 changes, how many are answered as unknown; half of them happened.
    pub unknown_permille: u16,
    /// Of 1000 hints, how many come without a change.
    pub spurious_permille: u16,
    /// Of 1000 grants and renewals of a lease, how many end it early.
    pub early_end_permille: u16,
}

impl Faults {
    /// Everything happens at once, and nothing goes wrong.
    pub const NONE: Self = Self {
        delay_max: Duration::ZERO,
        unavailable_permille: 0,
        unknown_permille: 0,
        spurious_permille: 0,
        early_end_permille: 0,
    };

    /// Everything goes wrong, often.
    pub const ALL: Self = Self {
        delay_max: Duration::from_millis(20),
        unavailable_permille: 150,
        unknown_permille: 200,
        spurious_permille: 300,
        early_end_permille: 150,
    };
}

/// The registry of a simulated cluster. Its clones are the same registry.
#[derive(Clone)]
pub struct Model {
    state: Arc<Mutex<State>>,
}

impl Model {
    /// An empty registry.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed, faults))) }
    }

    /// Another participant's connection.
    pub fn connect(&self) -> Arc<dyn Registry> {
        Arc::new(self.clone())
    }

    /// The time that has passed since it began.
    pub fn now(&self) -> Moment {
        Moment(self.state().now())
    }

    /// Lets time pass; what is due happens in order, and whoever waits for it is woken.
    pub fn pass(&self, time: Duration) {
        self.state().pass(time);
    }

    /// Changes what goes wrong from here on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().set_faults(faults);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no step of the model panics")
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model")
    }
}

impl Registry for Model {
    fn read(&self, key: &Key) -> Reply<Option<Entry>> {
        let key = key.clone();
        self.state().call(move |state| Ok(state.entry(&key)))
    }

    fn list(&self, under: &Prefix) -> Reply<Listing> {
        self.state().list(under.clone())
    }

    fn change(&self, change: Change) -> Reply<Revision> {
        self.state().call(move |state| state.change_or_lose(&change))
    }

    fn changed(&self, under: &Prefix, seen: Revision) -> Hint {
        self.state().watch(under.clone(), seen)
    }

    fn lease(&self, ttl: Duration, now: Moment) -> Reply<Lease> {
        self.state().call(move |state| Ok(Lease::from(state.grant(ttl), ttl, now)))
    }

    fn renew(&self, lease: &Lease, now: Moment) -> Reply<Option<Lease>> {
        let Lease { id, ttl, .. } = *lease;
        self.state().call(move |state| Ok(state.prolong(id, ttl).then(|| Lease::from(id, ttl, now))))
    }

    fn release(&self, lease: LeaseId) -> Reply<()> {
        self.state().call(move |state| {
            state.end(lease);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, Stage};

    impl Stage for Model {
        fn connect(&self) -> Arc<dyn Registry> {
            Model::connect(self)
        }

        fn now(&self) -> Moment {
            Model::now(self)
        }

        fn pass(&self, time: Duration) {
            Model::pass(self, time);
        }
    }

    #[test]
    fn the_model_without_faults_passes_the_suite() {
        suite::all(&Model::new(0, Faults::NONE), 0);
    }

    #[test]
    fn the_model_with_each_fault_passes_the_suite() {
        let delayed = Faults { delay_max: Duration::from_millis(20), ..Faults::NONE };
        for faults in [
            delayed,
            Faults { unavailable_permille: 300, ..delayed },
            Faults { unknown_permille: 500, ..delayed },
            Faults { spurious_permille: 1000, ..delayed },
            Faults { early_end_permille: 500, ..delayed },
        ] {
            suite::all(&Model::new(1, faults), 1);
        }
    }

    #[test]
    fn the_model_with_all_faults_passes_the_suite_for_every_seed() {
        for seed in 0..40 {
            suite::all(&Model::new(seed, Faults::ALL), seed);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_history() {
        let revision = |seed| {
            let model = Model::new(seed, Faults::ALL);
            suite::all(&model, 7);
            (model.now(), model.state().revision())
        };
        assert_eq!(revision(3), revision(3));
        assert_ne!(revision(3), revision(4));
    }
}
