//! What the steps, the readers and the callers of one data directory share.

use crate::applier::Disposal;
use crate::files::Files;
use crate::options::{Options, Tuning};
use crate::partition::{Partition, Read};
use crate::ring::Ring;
use crate::settled::{Settled, Watermarks};
use crate::state::StateMap;
use crate::statistics::Statistics;
use crate::submission::{Outlet, Submission};
use arc_swap::ArcSwap;
use metaq_disk::Disk;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Wakes one thread that waits for work.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        let mut raised = self.raised.lock();
        if !*raised {
            *raised = true;
            self.changed.notify_all();
        }
    }

    /// Returns when the signal was raised since the last call, or after `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let mut raised = self.raised.lock();
        if !*raised {
            self.changed.wait_for(&mut raised, limit);
        }
        *raised = false;
    }
}

/// All partitions.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub by_number: HashMap<u32, Arc<Partition>>,
    pub by_name: HashMap<(Arc<str>, u32), Arc<Partition>>,
    /// The number that the next partition gets.
    pub next: u32,
    /// Names whose folders are still being removed: they can't be given again yet.
    pub deleting: HashSet<(Arc<str>, u32)>,
}

impl Table {
    pub(crate) fn add(&mut self, partition: Arc<Partition>) {
        self.next = self.next.max(partition.number + 1);
        self.by_name.insert((Arc::clone(&partition.topic), partition.index), Arc::clone(&partition));
        self.by_number.insert(partition.number, partition);
    }

    pub(crate) fn remove(&mut self, partition: &Partition) {
        self.by_number.remove(&partition.number);
        let name = (Arc::clone(&partition.topic), partition.index);
        if self.by_name.get(&name).is_some_and(|other| other.number == partition.number) {
            self.by_name.remove(&name);
        }
    }
}

/// Partitions with bytes to be written into segments.
#[derive(Default)]
pub(crate) struct ApplyQueue {
    /// Worth writing at once.
    pub eager: VecDeque<Arc<Partition>>,
    /// To be written at a time, milliseconds since 1970.
    pub lazy: VecDeque<(u64, Arc<Partition>)>,
    /// To be disposed of; the first one may be at it.
    pub disposals: VecDeque<Disposal>,
    /// What couldn't be disposed of, to be tried again.
    pub not_disposed: Vec<Disposal>,
}

pub(crate) struct Shared {
    pub options: Options,
    pub tuning: ArcSwap<Tuning>,
    pub disk: Arc<dyn Disk>,
    pub files: Files,
    pub ring: Ring,
    pub watermarks: Watermarks,
    pub table: RwLock<Table>,
    pub state: RwLock<StateMap>,
    pub closed: OnceLock<Arc<str>>,
    #[expect(clippy::vec_box, reason = "submissions come and go boxed: moving one moves a pointer")]
    pub queue: Mutex<Vec<Box<Submission>>>,
    pub submitted: Signal,
    pub outlets: RwLock<Vec<Arc<dyn Outlet>>>,
    pub apply: Mutex<ApplyQueue>,
    pub apply_signal: Signal,
    pub pending_bytes: AtomicUsize,
    /// The free space is below the reserve, or a segment couldn't be written for want of it.
    pub disk_full: AtomicBool,
    /// A segment failed to sync: what it lacks is only in the commit log, so no checkpoint may pass it.
    pub segment_lost: AtomicBool,
    /// A checkpoint is wanted now.
    pub checkpoint_wanted: AtomicBool,

    pub checkpoint_lsn: AtomicU64,
    pub statistics: Statistics,
}

impl Shared {
    pub(crate) fn settled(&self) -> Settled {
        self.watermarks.load()
    }

    /// Whether the partition exists durably. Before that it has no files: after a power cut they would be taken for
    /// those of another program.
    pub(crate) fn may_apply(&self, partition: &Partition) -> bool {
        partition.announced.load(Ordering::Relaxed) <= self.settled().durable
    }

    /// Writes what is pending of a partition into its segments, if they may be written.
    pub(crate) fn apply(&self, partition: &Partition) -> io::Result<usize> {
        if !self.may_apply(partition) {
            return Ok(0);
        }
        let (done, result) = partition.apply(&self.files);
        self.pending_bytes.fetch_sub(done, Ordering::Relaxed);
        match &result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => self.disk_full.store(true, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(?partition, %error, "writing a segment failed; the bytes stay in the commit log");
                partition.fail(&format!("writing its segment failed: {error}"));
            }
        }
        result.map(|()| done)
    }

    /// Syncs what was written of a partition. If that fails, what its segments lack is only in the commit log.
    pub(crate) fn sync_segments(&self, partition: &Partition) -> io::Result<()> {
        partition.sync(&self.files).inspect_err(|error| {
            tracing::error!(?partition, %error, "syncing a segment failed; the partition is closed, its bytes stay in the commit log");
            partition.fail(&format!("syncing its segment failed: {error}"));
            self.segment_lost.store(true, Ordering::Relaxed);
        })
    }

    pub(crate) fn read(&self, partition: &Partition, position: u64, max: usize, settled: Settled) -> io::Result<Read> {
        partition.read(position, max, settled, &self.files, || self.apply(partition).map(|_| ()))
    }

    /// Closes the directory for writing and tells everybody who waits.
    pub(crate) fn fail(&self, why: &str) {
        if self.closed.set(why.into()).is_ok() {
            tracing::error!(why, "the store is closed for writing until the broker is restarted");
        }
        self.wake(&[]);
    }

    pub(crate) fn wake(&self, ready: &[u32]) {
        for outlet in self.outlets.read().iter() {
            outlet.wake(ready);
        }
    }
}
