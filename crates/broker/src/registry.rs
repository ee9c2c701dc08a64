//! The embedded registry: what a cluster of one broker agrees on, as entries of the broker's own log.
//!
//! The log is the only judge: every change is one entry of its durable map, made if its conditions hold, and readers see
//! what is settled. So a revision is the number of an entry, and a change that was replied to is durable.
//!
//! A lease is an entry too ([`crate::spaces::LEASES`]). Whatever is put with it also writes it again; a lease ends by one
//! entry that removes it with all that was put with it, on the condition that nothing was put with it meanwhile. When it
//! ends is decided here, by the clock of [`EmbeddedRegistry::tick`]; after a restart every lease begins its time anew.

mod pending;
mod stored;

use crate::surroundings::Random;
use metaq_log::{Change as LogChange, Clock, Condition as LogCondition, Log, Outcome, Refusal, StateChange};
use metaq_registry::{
    Change, Conflict, Entry, Expected, Failure, Hint, Key, Lease, LeaseId, Listing, Moment, Operation, Prefix,
    Registry, Reply, Revision,
};
use parking_lot::Mutex;
use pending::{Pending, Settled};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stored::{Stored, lease_key};

use crate::spaces::{LEASES, REGISTRY};

/// Changes that are remembered for who asks for hints late; who comes later still gets one for nothing.
const REMEMBERED: usize = 1024;
/// How often a change is tried again because its lease was used by another one at the same moment.
const TRIES: u32 = 1000;

/// The registry of a broker that stands alone. Its clones are the same registry.
#[derive(Clone)]
pub struct EmbeddedRegistry {
    shared: Arc<Shared>,
}

impl fmt::Debug for EmbeddedRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the embedded registry on {:?}", self.shared.log)
    }
}

struct Shared {
    log: Log,
    clock: Clock,
    random: Random,
    pending: Arc<Pending>,
    leases: Mutex<HashMap<LeaseId, Held>>,
}

/// A lease that hasn't ended.
#[derive(Debug, Clone, Copy)]
struct Held {
    ttl: Duration,
    /// Milliseconds since 1970; it isn't renewed after that.
    until: u64,
    /// Its end is on its way.
    ending: bool,
}

impl EmbeddedRegistry {
    /// The registry in that log.
    pub fn new(log: Log, clock: Clock, random: Random) -> Self {
        let now = clock();
        let held = log.state_under(LEASES, b"").into_iter().filter_map(|(key, stored)| {
            let ttl = stored::ttl(&stored.value)?;
            Some((stored::lease_of(&key)?, Held { ttl, until: now.saturating_add(millis(ttl)), ending: false }))
        });
        let leases = Mutex::new(held.collect());
        let shared = Arc::new_cyclic(|shared| {
            let pending = Pending::register(&log, Weak::clone(shared));
            Shared { log, clock, random, pending, leases }
        });
        Self { shared }
    }

    /// Ends the leases whose time is over. To be called now and then.
    pub fn tick(&self) {
        let now = (self.shared.clock)();
        let over: Vec<_> = {
            let mut leases = self.shared.leases.lock();
            let over = leases.iter_mut().filter(|(_, held)| held.until <= now && !held.ending);
            over.map(|(lease, held)| {
                held.ending = true;
                *lease
            })
            .collect()
        };
        for lease in over {
            let shared = Arc::clone(&self.shared);
            // Driven by the log's own answers; nobody waits for it.
            self.shared.pending.drive(Box::pin(async move {
                if let Err(failure) = shared.end(lease).await {
                    if let Some(held) = shared.leases.lock().get_mut(&lease) {
                        held.ending = false;
                    }
                    tracing::warn!(?lease, %failure, "a lease of the registry can't be ended; it is tried again");
                }
            }));
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Shared {
    fn entry(&self, key: &Key) -> Option<Entry> {
        let versioned = self.log.state(REGISTRY, key.as_str().as_bytes())?;
        Stored::decode(&versioned.value)?.entry(versioned.version)
    }

    fn list(&self, under: &Prefix) -> Listing {
        // Read before the map: everything up to it is in what is read afterwards.
        let revision = Revision(self.log.settled().durable);
        let prefix = format!("{}/", under.as_str());
        let entries = self.log.state_under(REGISTRY, prefix.as_bytes()).into_iter().filter_map(|(key, versioned)| {
            let key = Key::new(std::str::from_utf8(&key).ok()?).ok()?;
            Some((key, Stored::decode(&versioned.value)?.entry(versioned.version)?))
        });
        Listing { entries: entries.collect(), revision }
    }

    /// Submits one change of the durable map; settled when this is done.
    fn submit(&self, conditions: Vec<LogCondition>, changes: Vec<StateChange>) -> Settled {
        let keys = changes.iter().filter(|change| change.space == REGISTRY);
        let keys = keys.filter_map(|change| Key::new(std::str::from_utf8(&change.key).ok()?).ok()).collect();
        self.pending.submit(&self.log, LogChange::State { conditions, changes }, keys)
    }

    async fn change(&self, change: &Change) -> Result<Revision, Failure> {
        let leases = leases_of(change);
        for _ in 0..TRIES {
            // What the leases are at this moment: the log makes the change only if they still are.
            let versions: Vec<_> =
                leases.iter().map(|lease| (*lease, self.log.state(LEASES, &lease_key(*lease)))).collect();
            if let Some((ended, _)) = versions.iter().find(|(_, version)| version.is_none()) {
                return Err(self.conflict(change, Some(*ended)));
            }
            let mut conditions: Vec<_> = change.conditions().iter().map(condition).collect();
            let of_caller = conditions.len();
            let mut changes: Vec<_> =
                change.operations().iter().map(|operation| state_change(change, operation)).collect();
            for (lease, version) in versions {
                let Some(version) = version else { continue };
                let key = lease_key(lease);
                conditions.push(LogCondition { space: LEASES, key: key.clone(), version: Some(version.version) });
                changes.push(StateChange { space: LEASES, key, value: Some(version.value.to_vec()) });
            }
            match self.submit(conditions, changes).await? {
                Outcome::Changed { lsn } => return Ok(Revision(lsn)),
                Outcome::Refused(Refusal::Conflict { condition, .. }) if condition < of_caller => {
                    return Err(self.conflict(change, None));
                }
                // The lease was used, or ended, by somebody else: look again.
                Outcome::Refused(Refusal::Conflict { .. }) => {}
                Outcome::Refused(refusal) => return Err(failure(&refusal)),
                Outcome::Appended { .. } => unreachable!("a change of the map appends nothing"),
            }
        }
        Err(Failure::Unavailable("the lease is in use by too many others".to_owned()))
    }

    /// What stands in the way, by what is settled: that is at least what the log judged by.
    fn conflict(&self, change: &Change, ended: Option<LeaseId>) -> Failure {
        let broken = change.conditions().iter().filter_map(|condition| {
            let entry = self.entry(&condition.key);
            let holds = match condition.expected {
                Expected::Absent => entry.is_none(),
                Expected::Is(version) => entry.as_ref().is_some_and(|entry| entry.version == version),
            };
            (!holds).then(|| (condition.key.clone(), entry))
        });
        Failure::Conflict(Conflict { found: broken.collect(), ended })
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId, Failure> {
        for _ in 0..TRIES {
            let lease = LeaseId((self.random)());
            let key = lease_key(lease);
            let conditions = vec![LogCondition { space: LEASES, key: key.clone(), version: None }];
            let changes = vec![StateChange { space: LEASES, key, value: Some(stored::lease_value(ttl)) }];
            match self.submit(conditions, changes).await? {
                Outcome::Changed { .. } => {
                    let until = (self.clock)().saturating_add(millis(ttl));
                    self.leases.lock().insert(lease, Held { ttl, until, ending: false });
                    return Ok(lease);
                }
                Outcome::Refused(Refusal::Conflict { .. }) => {}
                Outcome::Refused(refusal) => return Err(failure(&refusal)),
                Outcome::Appended { .. } => unreachable!("a change of the map appends nothing"),
            }
        }
        Err(Failure::Unavailable("no number for a lease is free".to_owned()))
    }

    /// Whether the lease hadn't ended.
    fn prolong(&self, lease: LeaseId) -> bool {
        let now = (self.clock)();
        match self.leases.lock().get_mut(&lease) {
            // One whose time is over is ended by the next tick, or being ended.
            Some(held) if held.until > now => {
                held.until = now.saturating_add(millis(held.ttl));
                true
            }
            _ => false,
        }
    }

    /// Ends a lease with its entries.
    async fn end(&self, lease: LeaseId) -> Result<(), Failure> {
        let key = lease_key(lease);
        for _ in 0..TRIES {
            let Some(version) = self.log.state(LEASES, &key) else {
                self.leases.lock().remove(&lease);
                return Ok(());
            };
            let conditions = vec![LogCondition { space: LEASES, key: key.clone(), version: Some(version.version) }];
            let removal = |space, key| StateChange { space, key, value: None };
            let with_it = self.log.state_under(REGISTRY, b"").into_iter().filter(|(_, versioned)| {
                Stored::decode(&versioned.value).is_some_and(|stored| stored.lease == Some(lease))
            });
            let with_it: Vec<_> = with_it.map(|(key, versioned)| (key, versioned.version)).collect();
            let unchanged = with_it.iter().map(|(key, version)| LogCondition {
                space: REGISTRY,
                key: key.clone(),
                version: Some(*version),
            });
            let conditions = conditions.into_iter().chain(unchanged).collect();
            let changes = with_it.iter().map(|(key, _)| removal(REGISTRY, key.clone()));
            let changes = changes.chain([removal(LEASES, key.clone())]).collect();
            match self.submit(conditions, changes).await? {
                Outcome::Changed { .. } => {
                    self.leases.lock().remove(&lease);
                    return Ok(());
                }
                Outcome::Refused(Refusal::Conflict { .. }) => {}
                Outcome::Refused(refusal) => return Err(failure(&refusal)),
                Outcome::Appended { .. } => unreachable!("a change of the map appends nothing"),
            }
        }
        Err(Failure::Unavailable("the lease is in use by too many others".to_owned()))
    }
}

/// The leases that a change puts with, each once.
fn leases_of(change: &Change) -> Vec<LeaseId> {
    let mut leases: Vec<_> = change
        .operations()
        .iter()
        .filter_map(|operation| match operation {
            Operation::Put { lease, .. } => *lease,
            Operation::Delete { .. } => None,
        })
        .collect();
    leases.sort_unstable();
    leases.dedup();
    leases
}

fn condition(condition: &metaq_registry::Condition) -> LogCondition {
    let version = match condition.expected {
        Expected::Absent => None,
        Expected::Is(Revision(version)) => Some(version),
    };
    LogCondition { space: REGISTRY, key: condition.key.as_str().into(), version }
}

fn state_change(change: &Change, operation: &Operation) -> StateChange {
    let value = match operation {
        Operation::Put { value, lease, .. } => {
            Some(Stored { lease: *lease, written_by: change.writer(), value: value.as_bytes() }.encode())
        }
        Operation::Delete { .. } => None,
    };
    StateChange { space: REGISTRY, key: operation.key().as_str().into(), value }
}

/// A refusal of the log that isn't about conditions. A log that closed may have kept what it refused last.
fn failure(refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::StoreClosed(_) => Failure::Unknown,
        other => Failure::Unavailable(other.to_string()),
    }
}

impl Registry for EmbeddedRegistry {
    fn read(&self, key: &Key) -> Reply<Option<Entry>> {
        Box::pin(std::future::ready(Ok(self.shared.entry(key))))
    }

    fn list(&self, under: &Prefix) -> Reply<Listing> {
        Box::pin(std::future::ready(Ok(self.shared.list(under))))
    }

    fn change(&self, change: Change) -> Reply<Revision> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.change(&change).await })
    }

    fn changed(&self, under: &Prefix, seen: Revision) -> Hint {
        let pending = Arc::clone(&self.shared.pending);
        Box::pin(Changed { number: pending.number(), pending, under: under.clone(), seen })
    }

    fn lease(&self, ttl: Duration, now: Moment) -> Reply<Lease> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { Ok(Lease::from(shared.grant(ttl).await?, ttl, now)) })
    }

    fn renew(&self, lease: &Lease, now: Moment) -> Reply<Option<Lease>> {
        let (shared, lease) = (Arc::clone(&self.shared), *lease);
        Box::pin(async move {
            if shared.prolong(lease.id) {
                return Ok(Some(Lease::from(lease.id, lease.ttl, now)));
            }
            // Told only when its entries are gone with it.
            shared.end(lease.id).await.map(|()| None)
        })
    }

    fn release(&self, lease: LeaseId) -> Reply<()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.end(lease).await })
    }
}

/// A hint that is waited for.
struct Changed {
    number: u64,
    pending: Arc<Pending>,
    under: Prefix,
    seen: Revision,
}

impl Future for Changed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.pending.poll_changed(self.number, &self.under, self.seen, context.waker())
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        self.pending.forget(self.number);
    }
}

/// Calls wakers; nothing may be locked meanwhile.
fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{BEGIN, Testbed};
    use metaq_disk::Fault;
    use metaq_registry::suite::{Stage, all};
    use metaq_registry::{Value, Writer};
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn registry(bed: &Testbed) -> EmbeddedRegistry {
        let chance = AtomicU64::new(bed.now());
        let random: Random = Arc::new(move || chance.fetch_add(1, SeqCst));
        EmbeddedRegistry::new(bed.broker.log().clone(), bed.clock(), random)
    }

    struct OnTestbed<'a>(&'a Testbed, EmbeddedRegistry);

    impl Stage for OnTestbed<'_> {
        fn connect(&self) -> Arc<dyn Registry> {
            Arc::new(self.1.clone())
        }

        fn now(&self) -> Moment {
            Moment(Duration::from_millis(self.0.now() - BEGIN))
        }

        fn pass(&self, time: Duration) {
            self.0.pass(time);
            self.1.tick();
            // The log has threads of its own, which need real time.
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_embedded_registry_passes_the_suite() {
        for seed in 0..3 {
            let bed = Testbed::begin("");
            let stage = OnTestbed(&bed, registry(&bed));
            all(&stage, seed);
        }
    }

    /// Waits for a reply that the log's threads bring.
    fn wait<T>(mut reply: Reply<T>) -> Result<T, Failure> {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            if let Poll::Ready(reply) = reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return reply;
            }
            assert!(std::time::Instant::now() < deadline, "a reply must come");
            std::thread::yield_now();
        }
    }

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn put(counter: u64, name: &str) -> Change {
        Change::by(Writer { incarnation: 1, counter }).put(&key(name), Value::new("x").unwrap())
    }

    #[test]
    fn what_was_replied_to_survives_a_power_cut_and_leases_begin_anew() {
        let bed = Testbed::begin("");
        let before = registry(&bed);
        let revision = wait(before.change(put(1, "a/stays"))).unwrap();
        let lease = wait(before.lease(Duration::from_secs(5), Moment::default())).unwrap();
        let leased = put(2, "a/other").put_leased(&key("a/goes"), Value::new("y").unwrap(), lease.id);
        wait(before.change(leased)).unwrap();
        bed.pass(Duration::from_secs(4));
        let bed = bed.crash("");
        let after = registry(&bed);
        bed.pass(Duration::from_secs(4));
        after.tick();
        assert!(wait(after.read(&key("a/goes"))).unwrap().is_some(), "its holder may still be there");
        assert!(wait(after.renew(&lease, Moment::default())).unwrap().is_some());
        bed.pass(Duration::from_secs(6));
        assert_eq!(wait(after.renew(&lease, Moment::default())).unwrap(), None);
        assert_eq!(wait(after.read(&key("a/goes"))).unwrap(), None);
        assert_eq!(wait(after.read(&key("a/stays"))).unwrap().unwrap().version, revision);
    }

    #[test]
    fn a_change_that_the_log_lost_is_unknown() {
        let bed = Testbed::begin("");
        let registry = registry(&bed);
        wait(registry.change(put(1, "a"))).unwrap();
        bed.disk.inject("/log/commit", Fault::FailSync, 0..1000);
        assert_eq!(wait(registry.change(put(2, "b"))), Err(Failure::Unknown));
        assert!(wait(registry.read(&key("a"))).unwrap().is_some(), "what is settled can be read");
    }

    #[test]
    fn a_registry_that_is_gone_holds_no_data_directory() {
        let bed = Testbed::begin("");
        let registry = registry(&bed);
        wait(registry.change(put(1, "a"))).unwrap();
        drop(registry);
        let disk = bed.stop();
        // Opening locks the directory.
        let bed = Testbed::on(disk, "", BEGIN);
        assert!(wait(super::tests::registry(&bed).read(&key("a"))).unwrap().is_some());
    }

    #[test]
    fn a_hint_that_nobody_waits_for_any_more_is_forgotten() {
        let bed = Testbed::begin("");
        let registry = registry(&bed);
        let seen = wait(registry.list(&Prefix::below(&key("a")))).unwrap().revision;
        for _ in 0..10 {
            let mut hint = registry.changed(&Prefix::below(&key("a")), seen);
            assert!(hint.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(registry.shared.pending.waiting(), 0);
    }
}
