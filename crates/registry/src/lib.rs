//! Who is in the cluster and what was agreed: the contract of the registry, its records, and what any
//! implementation must pass.
//!
//! * [`Registry`] is the contract. The embedded registry (one broker, entries of its own log) and
//!   ZooKeeper both keep it; callers can't tell which they have.
//! * [`record`] has what the cluster writes in it.
//! * `suite` (feature `suite`) is what every implementation must pass.
//! * `model` (feature `model`) is an implementation in memory that behaves as badly as the contract
//!   allows, driven by a seed.
//!
//! Absent by intent: clocks, randomness, files, sockets, and any async runtime.

mod change;
mod entry;
mod failure;
mod key;
mod lease;
mod surely;

#[cfg(any(test, feature = "model"))]
pub mod model;
#[cfg(any(test, feature = "model", feature = "suite"))]
mod random;
pub mod record;
#[cfg(any(test, feature = "suite"))]
pub mod suite;

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

pub use change::{Change, Condition, Expected, OPERATIONS_MAX, Operation};
pub use entry::{Entry, Listing, Revision, TooLarge, VALUE_BYTES_MAX, Value, Writer};
pub use failure::{Conflict, Failure};
pub use key::{KEY_BYTES_MAX, Key, NotAKey, Prefix};
pub use lease::{Lease, LeaseId, Moment};
pub use surely::change_surely;

/// An answer that comes when it comes.
///
/// A boxed future of the standard library, so that this crate needs no runtime and an implementation
/// is chosen when the program starts (`Arc<dyn Registry>`): an embedded one answers at once
/// (`Box::pin(std::future::ready(…))`), one over a network is woken by its own threads. The box costs
/// nothing that matters here: the registry is asked a few times a second, never on the way of a message.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Comes when something may have changed.
pub type Hint = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One participant's connection to what the cluster agrees on: small (at most some MiB), linearizable.
///
/// What a call does happens at one moment between the call and its reply; a call begun after a reply
/// came, by whatever participant, happens later. Calls whose replies weren't awaited may happen in any
/// order. A reply that is dropped may still happen.
pub trait Registry: Debug + Send + Sync {
    /// The entry of a key, if it has one.
    fn read(&self, key: &Key) -> Reply<Option<Entry>>;

    /// All entries below a prefix, in the order of their keys.
    ///
    /// Not one picture: every change up to [`Listing::revision`] is in it, and some later ones may be.
    /// Who waits for changes since that revision misses none.
    fn list(&self, under: &Prefix) -> Reply<Listing>;

    /// Makes a change whole or not at all, and says the revision that it made.
    fn change(&self, change: Change) -> Reply<Revision>;

    /// Comes when something below `under` may have changed after `seen`; then read again.
    ///
    /// It promises no value and no count: many changes may be one hint, and a hint may come without any
    /// change (after every loss of a connection one does). If something has changed, it comes in the
    /// end. Each call gives one hint.
    fn changed(&self, under: &Prefix, seen: Revision) -> Hint;

    /// Begins a lease: entries put with it go when it ends. `now` is the caller's clock.
    fn lease(&self, ttl: Duration, now: Moment) -> Reply<Lease>;

    /// Prolongs a lease by its time to live from `now` on; none if it has ended, its entries with it.
    fn renew(&self, lease: &Lease, now: Moment) -> Reply<Option<Lease>>;

    /// Ends a lease and removes its entries. One that has ended already stays so.
    fn release(&self, lease: LeaseId) -> Reply<()>;
}
