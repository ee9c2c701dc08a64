//! What every registry must pass: each promise of [`Registry`] as a function that panics if it is broken.
//!
//! An implementation provides a [`Stage`] and calls [`all`] from a test. Every function works below keys
//! of its own, so that all may run on one registry, once.

mod hints;
mod history;
mod leases;
mod player;
mod values;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Moment, Registry};

pub use hints::*;
pub use history::*;
pub use leases::*;
pub use values::*;

/// Where the suite plays: a registry, and time.
pub trait Stage {
    /// Another participant's connection to the registry.
    fn connect(&self) -> Arc<dyn Registry>;

    /// The time since any fixed moment.
    fn now(&self) -> Moment;

    /// Lets time pass: sleeps, or moves a simulated clock.
    fn pass(&self, time: Duration);

    /// How long a lease of the suite lives without being renewed: the least that the registry is good at.
    fn ttl(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// How much time passes between two looks at what is awaited.
const STEP: Duration = Duration::from_millis(1);

/// How long anything may take that has to happen in the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs everything. The seed decides what the players of [`every_history_is_linearizable`] do.
pub fn all(stage: &dyn Stage, seed: u64) {
    what_was_put_is_read_by_everybody(stage);
    a_change_happens_whole_or_not_at_all(stage);
    a_conflict_says_what_is_there(stage);
    no_version_comes_twice(stage);
    who_wrote_tells_what_became_of_a_change(stage);
    a_list_has_all_below_its_prefix_and_nothing_beside_it(stage);
    a_change_is_hinted_to_who_waits_and_to_who_comes_late(stage);
    who_follows_the_hints_ends_with_what_is_there(stage);
    entries_go_with_their_lease(stage);
    a_lease_lives_as_long_as_it_is_renewed(stage);
    a_released_lease_takes_its_entries_at_once(stage);
    nothing_is_put_with_a_lease_that_ended(stage);
    an_entry_put_again_without_its_lease_stays(stage);
    no_increment_is_lost(stage);
    every_history_is_linearizable(stage, seed);
}

/// Drives several futures in turns, passing time, until all are done.
///
/// # Panics
/// If that takes longer than the suite's patience.
fn run_all<'a, T>(stage: &dyn Stage, futures: Vec<impl Future<Output = T> + 'a>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    let deadline = stage.now().after(PATIENCE);
    while done.iter().any(Option::is_none) {
        assert!(stage.now() < deadline, "a reply or a hint that must come didn't within {PATIENCE:?}");
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                *done = Some(value);
            }
        }
        stage.pass(STEP);
    }
    done.into_iter().flatten().collect()
}

/// Drives one future until it is done.
fn run<'a, T>(stage: &dyn Stage, future: impl Future<Output = T> + 'a) -> T {
    run_all(stage, vec![future]).pop().expect("one future has one value")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Faults, Model};
    use crate::{Change, Entry, Hint, Key, Lease, LeaseId, Listing, Prefix, Reply, Revision, Value, Writer};
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// A promise that is broken on purpose.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Broken {
        /// Reads answer what this connection read first.
        StaleReads,
        /// Conditions are passed over.
        NoConditions,
        /// Only the first operation of a change happens.
        Halves,
        /// No hint ever comes.
        NoHints,
        /// A hint comes only for changes after it was asked for.
        DeafToThePast,
        /// Leases are never heard of by the registry.
        NoLeases,
        /// Lists have everything.
        WideLists,
        /// Changes are made by somebody else.
        Anonymous,
        /// Replies say revisions of the past.
        OldRevisions,
    }

    #[derive(Debug)]
    struct Wrapped {
        inner: Arc<dyn Registry>,
        broken: Broken,
        first_reads: Arc<Mutex<HashMap<Key, Option<Entry>>>>,
    }

    impl Registry for Wrapped {
        fn read(&self, key: &Key) -> Reply<Option<Entry>> {
            let (reply, first, key) = (self.inner.read(key), self.first_reads.clone(), key.clone());
            if self.broken != Broken::StaleReads {
                return reply;
            }
            Box::pin(async move {
                let fresh = reply.await?;
                Ok(first.lock().expect("a lock").entry(key).or_insert(fresh).clone())
            })
        }

        fn list(&self, under: &Prefix) -> Reply<Listing> {
            let wide = Prefix::below(&Key::new("suite").expect("a key"));
            self.inner.list(if self.broken == Broken::WideLists { &wide } else { under })
        }

        fn change(&self, change: Change) -> Reply<Revision> {
            let writer = match self.broken {
                Broken::Anonymous => Writer { incarnation: 0, counter: 0 },
                _ => change.writer(),
            };
            let mut passed = Change::by(writer);
            for condition in change.conditions().iter().filter(|_| self.broken != Broken::NoConditions) {
                passed = passed.when(&condition.key, condition.expected);
            }
            let operations = if self.broken == Broken::Halves { 1 } else { change.operations().len() };
            for operation in change.operations().iter().take(operations) {
                passed = match operation {
                    crate::Operation::Put { key, value, lease: Some(lease) } if self.broken != Broken::NoLeases => {
                        passed.put_leased(key, value.clone(), *lease)
                    }
                    crate::Operation::Put { key, value, .. } => passed.put(key, value.clone()),
                    crate::Operation::Delete { key } => passed.delete(key),
                };
            }
            let reply = self.inner.change(passed);
            match self.broken {
                Broken::OldRevisions => Box::pin(async { reply.await.map(|revision| Revision(revision.0 / 2)) }),
                _ => reply,
            }
        }

        fn changed(&self, under: &Prefix, seen: Revision) -> Hint {
            match self.broken {
                Broken::NoHints => Box::pin(std::future::pending()),
                Broken::DeafToThePast => self.inner.changed(under, Revision(u64::MAX)),
                _ => self.inner.changed(under, seen),
            }
        }

        fn lease(&self, ttl: Duration, now: Moment) -> Reply<Lease> {
            self.inner.lease(ttl, now)
        }

        fn renew(&self, lease: &Lease, now: Moment) -> Reply<Option<Lease>> {
            self.inner.renew(lease, now)
        }

        fn release(&self, lease: LeaseId) -> Reply<()> {
            self.inner.release(lease)
        }
    }

    struct BrokenStage(Model, Broken);

    impl Stage for BrokenStage {
        fn connect(&self) -> Arc<dyn Registry> {
            Arc::new(Wrapped { inner: self.0.connect(), broken: self.1, first_reads: Arc::default() })
        }

        fn now(&self) -> Moment {
            self.0.now()
        }

        fn pass(&self, time: Duration) {
            self.0.pass(time);
        }
    }

    /// Whether the suite panics on a registry that breaks a promise.
    fn is_caught(broken: Broken, faults: Faults, play: impl Fn(&dyn Stage)) -> bool {
        let stage = BrokenStage(Model::new(5, faults), broken);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(&stage))).is_err()
    }

    #[test]
    fn every_broken_promise_is_caught() {
        for broken in [
            Broken::StaleReads,
            Broken::NoConditions,
            Broken::Halves,
            Broken::NoHints,
            Broken::DeafToThePast,
            Broken::NoLeases,
            Broken::WideLists,
            Broken::Anonymous,
            Broken::OldRevisions,
        ] {
            for faults in [Faults::NONE, Faults::ALL] {
                assert!(is_caught(broken, faults, |stage| all(stage, 5)), "{broken:?} with {faults:?}");
            }
        }
    }

    #[test]
    fn histories_alone_catch_stale_reads_and_lost_conditions() {
        let delayed = Faults { delay_max: Duration::from_millis(20), ..Faults::NONE };
        for broken in [Broken::StaleReads, Broken::NoConditions, Broken::OldRevisions] {
            assert!(is_caught(broken, delayed, |stage| every_history_is_linearizable(stage, 5)), "{broken:?}");
        }
    }

    #[test]
    fn what_never_comes_is_not_awaited_for_ever() {
        let play = |stage: &dyn Stage| {
            let key = Key::new("a").expect("a key");
            let change = Change::by(Writer { incarnation: 1, counter: 1 }).put(&key, Value::new("x").expect("a value"));
            run(stage, async { stage.connect().change(change).await }).expect("the model is there");
            run(stage, stage.connect().changed(&Prefix::below(&Key::new("b").expect("a key")), Revision(0)));
        };
        assert!(is_caught(Broken::Halves, Faults::NONE, play));
    }
}
