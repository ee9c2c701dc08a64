//! A change whose outcome is known at the end, although replies may be lost.

use std::num::NonZeroU32;

use crate::{Change, Expected, Failure, Operation, Registry, Revision};

/// Makes a change, asks again when the registry was lost on the way, and finds out by who wrote what
/// whether an attempt had happened. At most `attempts` times; there is no pause between them.
///
/// What another writer has put over it since can't be seen any more. So a change that must be known
/// for certain puts, on its version, a key that nobody else puts. A change without conditions is made
/// again in such a case, over what the other wrote; so is one that put what was absent and is absent
/// again.
///
/// # Errors
/// [`Failure::Conflict`]: it did not happen. [`Failure::Unavailable`]: no attempt happened.
/// [`Failure::Unknown`]: it may have, and its traces are gone, or attempts ran out.
pub async fn change_surely(
    registry: &dyn Registry,
    change: &Change,
    attempts: NonZeroU32,
) -> Result<Revision, Failure> {
    // Whether an attempt may have happened.
    let mut unsure = false;
    let mut away = String::new();
    for _ in 0..attempts.get() {
        let conflict = match registry.change(change.clone()).await {
            Ok(revision) => return Ok(revision),
            Err(Failure::Conflict(conflict)) if !unsure => return Err(Failure::Conflict(conflict)),
            Err(Failure::Conflict(conflict)) => Some(conflict),
            Err(Failure::Unknown) => {
                unsure = true;
                None
            }
            Err(Failure::Unavailable(why)) => {
                away = why;
                None
            }
        };
        if !unsure {
            continue;
        }
        match (trace(registry, change).await, conflict) {
            (Ok(Trace::Happened(revision)), _) => return Ok(revision),
            (Ok(Trace::None), Some(conflict)) => return Err(Failure::Conflict(conflict)),
            (Ok(Trace::None), None) => unsure = false,
            (Ok(Trace::Covered), Some(_)) => return Err(Failure::Unknown),
            (Ok(Trace::Covered), None) if !change.conditions().is_empty() => return Err(Failure::Unknown),
            (Ok(Trace::Covered) | Err(_), _) => {}
        }
    }
    Err(if unsure { Failure::Unknown } else { Failure::Unavailable(away) })
}

/// What a change has left.
enum Trace {
    /// An entry that it wrote.
    Happened(Revision),
    /// A key that it would have put is as it must be for it to happen.
    None,
    /// Others have written what would show it.
    Covered,
}

async fn trace(registry: &dyn Registry, change: &Change) -> Result<Trace, Failure> {
    let mut trace = Trace::Covered;
    for operation in change.operations() {
        let Operation::Put { key, .. } = operation else {
            continue;
        };
        let entry = registry.read(key).await?;
        if let Some(entry) = entry.as_ref().filter(|entry| entry.written_by == change.writer()) {
            return Ok(Trace::Happened(entry.version));
        }
        let found = entry.map_or(Expected::Absent, |entry| Expected::Is(entry.version));
        let mut conditions = change.conditions().iter();
        if conditions.any(|condition| condition.key == *key && condition.expected == found) {
            trace = Trace::None;
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::model::{Faults, Model};
    use crate::{Key, Value, Writer};

    const LOST: Faults = Faults { unknown_permille: 1000, ..Faults::NONE };
    const AWAY: Faults = Faults { unavailable_permille: 1000, ..Faults::NONE };

    /// The outcome on a model that answers at once.
    fn surely(model: &Model, change: &Change, attempts: u32) -> Result<Revision, Failure> {
        let registry = model.connect();
        let attempts = NonZeroU32::new(attempts).expect("at least one attempt");
        let future = pin!(change_surely(&*registry, change, attempts));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("the model answers at once"),
        }
    }

    fn put(writer: u64, text: &str, expected: Option<Expected>) -> Change {
        let key = Key::new("a").expect("a key");
        let change = Change::by(Writer { incarnation: writer, counter: 1 });
        let change = expected.into_iter().fold(change, |change, expected| change.when(&key, expected));
        change.put(&key, Value::new(text).expect("a value"))
    }

    #[test]
    fn a_change_whose_replies_are_lost_happens_once() {
        for seed in 0..20 {
            let model = Model::new(seed, LOST);
            let change = put(1, "x", Some(Expected::Absent));
            assert_eq!(surely(&model, &change, 100), Ok(Revision(1)), "seed {seed}");
        }
    }

    #[test]
    fn a_registry_that_is_away_did_nothing() {
        let model = Model::new(0, AWAY);
        assert!(matches!(surely(&model, &put(1, "x", None), 5), Err(Failure::Unavailable(_))));
        model.set_faults(Faults::NONE);
        assert_eq!(surely(&model, &put(2, "x", Some(Expected::Absent)), 1), Ok(Revision(1)));
    }

    #[test]
    fn a_conflict_at_the_first_attempt_is_one() {
        let model = Model::new(0, Faults::NONE);
        surely(&model, &put(1, "x", None), 1).expect("the model is there");
        let outcome = surely(&model, &put(2, "y", Some(Expected::Absent)), 5);
        assert!(matches!(outcome, Err(Failure::Conflict(_))), "{outcome:?}");
    }

    /// A registry that loses the reply to each change, and lets another write over it.
    #[derive(Debug)]
    struct Covered(Model);

    impl Registry for Covered {
        fn change(&self, change: Change) -> crate::Reply<Revision> {
            let (first, over) = (self.0.connect().change(change), self.0.connect().change(put(9, "over", None)));
            Box::pin(async move {
                first.await?;
                over.await?;
                Err(Failure::Unknown)
            })
        }

        fn read(&self, key: &Key) -> crate::Reply<Option<crate::Entry>> {
            self.0.connect().read(key)
        }

        fn list(&self, under: &crate::Prefix) -> crate::Reply<crate::Listing> {
            self.0.connect().list(under)
        }

        fn changed(&self, under: &crate::Prefix, seen: Revision) -> crate::Hint {
            self.0.connect().changed(under, seen)
        }

        fn lease(&self, ttl: std::time::Duration, now: crate::Moment) -> crate::Reply<crate::Lease> {
            self.0.connect().lease(ttl, now)
        }

        fn renew(&self, lease: &crate::Lease, now: crate::Moment) -> crate::Reply<Option<crate::Lease>> {
            self.0.connect().renew(lease, now)
        }

        fn release(&self, lease: crate::LeaseId) -> crate::Reply<()> {
            self.0.connect().release(lease)
        }
    }

    #[test]
    fn a_change_whose_trace_is_covered_is_never_said_not_to_have_happened() {
        let registry = Covered(Model::new(0, Faults::NONE));
        let change = put(1, "x", Some(Expected::Absent));
        let attempts = NonZeroU32::new(5).expect("5 isn't 0");
        let future = pin!(change_surely(&registry, &change, attempts));
        let outcome = future.poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(outcome, Poll::Ready(Err(Failure::Unknown)));
    }
}
