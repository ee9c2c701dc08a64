//! What other threads have for one network thread: what the log sequenced, who waits for more, connections, results.
//!
//! It is filled at any time and emptied by the thread in its turns; it wakes the thread once, however much comes.

use metaq_listen::Accepted;
use metaq_log::{Outlet, Submission};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use tokio::sync::Notify;

/// Submissions, each in the box in which it goes to the log and comes back.
pub(crate) type Submissions = Vec<Box<Submission>>;

/// The mailbox of one network thread.
#[derive(Default)]
pub(crate) struct Mailbox {
    sequenced: Mutex<Submissions>,
    ready: Mutex<Vec<u32>>,
    arrived: Mutex<Vec<Accepted>>,
    finished: Mutex<Vec<Finished>>,
    /// The thread waits for submissions, or for a watermark.
    owes: AtomicBool,
    /// The thread has gets that wait.
    waits: AtomicBool,
    /// The thread has connections that wait for room.
    pub stalled: AtomicUsize,
    /// Connections of the thread, those that are on their way to it too.
    pub connections: AtomicUsize,
    /// The thread is gone; what comes is thrown away.
    gone: AtomicBool,
    notify: Notify,
}

/// The answer to a request that was carried out elsewhere.
pub(crate) struct Finished {
    pub slot: usize,
    pub serial: u64,
    pub answer: Vec<u8>,
}

impl Mailbox {
    /// Returns when something came since the last call.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn wake_thread(&self) {
        self.notify.notify_one();
    }

    pub(crate) fn bring(&self, accepted: Accepted) {
        self.arrived.lock().push(accepted);
        self.notify.notify_one();
    }

    pub(crate) fn finish(&self, finished: Finished) {
        self.finished.lock().push(finished);
        self.notify.notify_one();
    }

    pub(crate) fn set_owes(&self, owes: bool) {
        self.owes.store(owes, Release);
    }

    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Release);
    }

    /// Exchanges what was sequenced for an empty vector.
    pub(crate) fn take_sequenced(&self, empty: &mut Submissions) {
        std::mem::swap(&mut *self.sequenced.lock(), empty);
    }

    pub(crate) fn take_ready(&self) -> Vec<u32> {
        std::mem::take(&mut *self.ready.lock())
    }

    pub(crate) fn take_arrived(&self) -> Vec<Accepted> {
        std::mem::take(&mut *self.arrived.lock())
    }

    pub(crate) fn take_finished(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.finished.lock())
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Acquire)
    }

    /// The thread ends.
    pub(crate) fn close(&self) {
        self.gone.store(true, Release);
        self.take_arrived();
        self.sequenced.lock().clear();
    }
}

impl Outlet for Mailbox {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        if self.is_gone() {
            sequenced.clear();
        } else {
            self.sequenced.lock().append(sequenced);
        }
    }

    fn wake(&self, ready: &[u32]) {
        let mut is_due = self.owes.load(Acquire);
        if !ready.is_empty() && self.waits.load(Acquire) {
            self.ready.lock().extend_from_slice(ready);
            is_due = true;
        }
        if is_due && !self.is_gone() {
            self.notify.notify_one();
        }
    }
}
