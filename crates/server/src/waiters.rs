//! Gets and fetches that wait for bytes, by the partitions that they wait for.

use crate::connection::Connection;
use metaq_log::Partition;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// A request that waits.
pub(crate) struct Waiter {
    pub connection: Rc<Connection>,
    /// Its line, to be read again when there is something.
    pub line: Vec<u8>,
    pub partitions: Vec<Arc<Partition>>,
    pub deadline: Instant,
    /// Taken from what all that wait may take.
    pub bytes: u64,
}

/// The requests of one thread that wait.
#[derive(Default)]
pub(crate) struct Waiters {
    next: u64,
    all: HashMap<u64, Waiter>,
    by_partition: BTreeSet<(u32, u64)>,
    by_deadline: BTreeSet<(Instant, u64)>,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Counts the waiter into its partitions, so that the log tells when they have more. Who parks looks once more
    /// afterwards: what came before the count isn't told.
    pub(crate) fn park(&mut self, waiter: Waiter) -> u64 {
        self.next += 1;
        let number = self.next;
        for partition in &waiter.partitions {
            self.by_partition.insert((partition.number, number));
            partition.waiting.fetch_add(1, SeqCst);
        }
        // The count before the look: whoever publishes more stores first and looks at the count then.
        std::sync::atomic::fence(SeqCst);
        self.by_deadline.insert((waiter.deadline, number));
        self.all.insert(number, waiter);
        number
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.all.remove(&number)?;
        for partition in &waiter.partitions {
            self.by_partition.remove(&(partition.number, number));
            partition.waiting.fetch_sub(1, SeqCst);
        }
        self.by_deadline.remove(&(waiter.deadline, number));
        Some(waiter)
    }

    /// The line of a waiter, to be looked at; it goes back with [`Waiters::return_line`].
    pub(crate) fn take_line(&mut self, number: u64) -> Option<Vec<u8>> {
        self.all.get_mut(&number).map(|waiter| std::mem::take(&mut waiter.line))
    }

    pub(crate) fn return_line(&mut self, number: u64, line: Vec<u8>) {
        if let Some(waiter) = self.all.get_mut(&number) {
            waiter.line = line;
        }
    }

    /// Who waits for a partition.
    pub(crate) fn of_partition(&self, partition: u32) -> Vec<u64> {
        self.by_partition.range((partition, 0)..=(partition, u64::MAX)).map(|(_, number)| *number).collect()
    }

    /// When the first one has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// One that has waited long enough.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        self.by_deadline.first().filter(|(deadline, _)| *deadline <= now).map(|(_, number)| *number)
    }
}
