//! What the threads of a server share.

use crate::bounds::Options;
use crate::budgets::Budgets;
use crate::cold::ColdReads;
use crate::counters::Counters;
use crate::mailbox::Mailbox;
use metaq_broker::{Broker, Gauges};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// How far a server is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// What was read is answered, nothing more is read.
    Stopping,
    /// Everything is closed.
    Aborted,
}

/// What the threads of a server share.
pub(crate) struct Shared {
    pub options: Options,
    pub broker: Arc<Broker>,
    pub gauges: Arc<Gauges>,
    pub counters: Arc<Counters>,
    pub budgets: Budgets,
    pub cold: ColdReads,
    pub runtime: Handle,
    /// Places for administration.
    pub jobs: Arc<Semaphore>,
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Memory of gets that wait.
    pub waiting_bytes: AtomicU64,
    /// Connections that were closed although they were owed something.
    pub cut: AtomicUsize,
    stage: AtomicU8,
}

impl Shared {
    pub(crate) fn new(broker: Arc<Broker>, runtime: Handle, options: Options) -> Self {
        let gauges = Arc::clone(broker.gauges());
        Self {
            budgets: Budgets::new(Arc::clone(&gauges)),
            cold: ColdReads::new(runtime.clone(), options.cold_reads_max),
            jobs: Arc::new(Semaphore::new(options.jobs_max)),
            mailboxes: (0..options.threads.get()).map(|_| Arc::default()).collect(),
            counters: Arc::default(),
            waiting_bytes: AtomicU64::new(0),
            cut: AtomicUsize::new(0),
            stage: AtomicU8::new(0),
            options,
            broker,
            gauges,
            runtime,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Acquire) {
            0 => Stage::Serving,
            1 => Stage::Stopping,
            _ => Stage::Aborted,
        }
    }

    /// Goes on to a later stage; gives the one before.
    pub(crate) fn go_on_to(&self, stage: Stage) -> Stage {
        let before = self.stage();
        self.stage.fetch_max(stage as u8, Release);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake_thread());
        before
    }

    /// The thread with the fewest connections; `None`: all are gone.
    pub(crate) fn idlest(&self) -> Option<&Arc<Mailbox>> {
        let present = self.mailboxes.iter().filter(|mailbox| !mailbox.is_gone());
        present.min_by_key(|mailbox| mailbox.connections.load(Relaxed))
    }

    /// Wakes the other threads whose connections wait for room.
    pub(crate) fn wake_stalled(&self, this: &Arc<Mailbox>) {
        for mailbox in self.mailboxes.iter().filter(|other| !Arc::ptr_eq(other, this)) {
            if mailbox.stalled.load(Relaxed) > 0 {
                mailbox.wake_thread();
            }
        }
    }
}
