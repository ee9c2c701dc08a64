//! One participant of the suite: asks again where a registry may be away, and knows its own writes.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::Stage;
use crate::{
    Change, Conflict, Entry, Failure, Key, Lease, Listing, Prefix, Registry, Reply, Revision, Value, Writer,
    change_surely,
};

/// How often a call that may fail is made again: enough for a registry that is away nine times of ten.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(500).expect("500 isn't 0");

pub(super) struct Player<'a> {
    pub(super) stage: &'a dyn Stage,
    pub(super) registry: Arc<dyn Registry>,
    incarnation: u64,
    counter: Cell<u64>,
}

impl<'a> Player<'a> {
    /// A participant; `incarnation` tells it from the others on the same keys.
    pub(super) fn new(stage: &'a dyn Stage, incarnation: u64) -> Self {
        Self { stage, registry: stage.connect(), incarnation, counter: Cell::new(0) }
    }

    /// A change by this player that no other has made.
    pub(super) fn change(&self) -> Change {
        self.counter.set(self.counter.get() + 1);
        Change::by(Writer { incarnation: self.incarnation, counter: self.counter.get() })
    }

    /// Makes a change, whatever gets lost on the way; its traces are never covered by others.
    pub(super) async fn make(&self, change: Change) -> Result<Revision, Conflict> {
        match self.attempt(change).await {
            Ok(revision) => Ok(revision),
            Err(Failure::Conflict(conflict)) => Err(conflict),
            Err(failure) => panic!("the registry stays away: {failure}"),
        }
    }

    /// Makes a change whose outcome may stay unknown, since others write over it.
    pub(super) async fn attempt(&self, change: Change) -> Result<Revision, Failure> {
        change_surely(&*self.registry, &change, ATTEMPTS).await
    }

    /// Makes a change that can't happen, until the registry says so.
    pub(super) async fn refused(&self, change: Change) -> Conflict {
        for _ in 0..ATTEMPTS.get() {
            match self.registry.change(change.clone()).await {
                Ok(revision) => panic!("{change:?} happened as {revision:?} against its conditions"),
                Err(Failure::Conflict(conflict)) => return conflict,
                Err(Failure::Unknown | Failure::Unavailable(_)) => {}
            }
        }
        panic!("the registry stays away")
    }

    /// Puts one value, whatever stands there.
    pub(super) async fn put(&self, key: &Key, text: &str) -> Revision {
        self.make(self.change().put(key, value(text))).await.expect("a change without conditions has no conflict")
    }

    pub(super) async fn read(&self, key: &Key) -> Option<Entry> {
        persist(|| self.registry.read(key)).await
    }

    /// The text that a key has.
    pub(super) async fn text(&self, key: &Key) -> Option<String> {
        self.read(key).await.map(|entry| String::from_utf8_lossy(entry.value.as_bytes()).into_owned())
    }

    pub(super) async fn list(&self, under: &Prefix) -> Listing {
        persist(|| self.registry.list(under)).await
    }

    pub(super) async fn lease(&self) -> Lease {
        persist(|| self.registry.lease(self.stage.ttl(), self.stage.now())).await
    }

    pub(super) async fn renew(&self, lease: &Lease) -> Option<Lease> {
        persist(|| self.registry.renew(lease, self.stage.now())).await
    }

    pub(super) async fn release(&self, lease: &Lease) {
        persist(|| self.registry.release(lease.id)).await;
    }

    /// Waits for hints below a prefix until `holds` is true of its listing.
    pub(super) async fn wait_until(&self, under: &Prefix, holds: impl Fn(&Listing) -> bool) {
        loop {
            let listing = self.list(under).await;
            if holds(&listing) {
                return;
            }
            self.registry.changed(under, listing.revision).await;
        }
    }
}

/// Makes a call until it is answered.
async fn persist<T>(call: impl Fn() -> Reply<T>) -> T {
    let mut last = None;
    for _ in 0..ATTEMPTS.get() {
        match call().await {
            Ok(value) => return value,
            Err(failure) => last = Some(failure),
        }
    }
    panic!("the registry stays away: {last:?}")
}

/// A key of one function of the suite.
pub(super) fn key(text: &str) -> Key {
    Key::new(&format!("suite/{text}")).expect("the suite's keys are keys")
}

pub(super) fn value(text: &str) -> Value {
    Value::new(text).expect("the suite's values are small")
}
