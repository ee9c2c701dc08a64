//! What there is to tell about: known bit by bit while a broker starts.

use crate::sample::Samples;
use metaq_broker::Broker;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What there is to tell about. Before [`Observed::serves`] the broker counts as recovering.
pub struct Observed {
    clock: Clock,
    broker: OnceLock<Arc<Broker>>,
    fronts: OnceLock<Samples>,
    stops: AtomicBool,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("serves", &self.broker.get().is_some()).finish_non_exhaustive()
    }
}

impl Observed {
    /// A broker that is about to recover its data directory.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { clock, broker: OnceLock::new(), fronts: OnceLock::new(), stops: AtomicBool::new(false) })
    }

    /// The broker has recovered and serves; said once.
    pub fn serves(&self, broker: Arc<Broker>, fronts: Samples) {
        // The first to say it stays: there is one broker a process.
        drop(self.fronts.set(fronts));
        drop(self.broker.set(broker));
    }

    /// The broker stops: it isn't ready from here on.
    pub fn stops(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    pub(crate) fn broker(&self) -> Option<&Arc<Broker>> {
        self.broker.get()
    }

    pub(crate) fn fronts(&self) -> Option<&Samples> {
        self.fronts.get()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> u64 {
        (self.clock)()
    }
}
