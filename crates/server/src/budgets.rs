//! Bytes of puts that aren't decided: of the whole broker and of each partition. Each connection counts its own.
//!
//! * A thread takes before it lets bytes into memory that stay there, and gives back when the log is done with them:
//!   also of puts that were answered as unknown meanwhile.
//! * Who takes last may go over the bound by one read of a socket; who comes next waits.

use metaq_broker::Gauges;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counters for partitions; those whose numbers agree modulo this share one.
const PARTITIONS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Budgets {
    /// `bytes_in_flight` is what the broker has in flight.
    gauges: Arc<Gauges>,
    arriving: AtomicU64,
    partitions: Box<[AtomicU64]>,
}

impl Budgets {
    pub(crate) fn new(gauges: Arc<Gauges>) -> Self {
        let partitions = (0..PARTITIONS).map(|_| AtomicU64::new(0)).collect();
        Self { gauges, arriving: AtomicU64::new(0), partitions }
    }

    /// Bytes in flight of all connections.
    pub(crate) fn in_flight(&self) -> u64 {
        self.gauges.bytes_in_flight.load(Relaxed)
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.gauges.bytes_in_flight.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.gauges.bytes_in_flight.fetch_sub(bytes, Relaxed);
    }

    /// Takes bytes for the rest of a request that hasn't arrived; `false`: there is no room, nothing was taken.
    pub(crate) fn arrive(&self, bytes: u64, arriving_max: u64, broker_max: u64) -> bool {
        let (arriving, in_flight) = (self.arriving.fetch_add(bytes, Relaxed), self.in_flight());
        let fits = |taken: u64, max| taken == 0 || taken + bytes <= max;
        if fits(arriving, arriving_max) && fits(in_flight, broker_max) {
            self.take(bytes);
            return true;
        }
        self.arriving.fetch_sub(bytes, Relaxed);
        false
    }

    /// Takes bytes that are in memory already.
    pub(crate) fn hold(&self, bytes: u64) {
        self.arriving.fetch_add(bytes, Relaxed);
        self.take(bytes);
    }

    /// Gives back what [`Budgets::arrive`] or [`Budgets::hold`] took.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.arriving.fetch_sub(bytes, Relaxed);
        self.give_back(bytes);
    }

    /// Bytes in flight to the partition with that number.
    pub(crate) fn partition(&self, number: u32) -> &AtomicU64 {
        &self.partitions[number as usize % PARTITIONS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_arrive_leave_room_for_others() {
        let budgets = Budgets::new(Arc::default());
        assert!(budgets.arrive(60, 100, 1000));
        assert!(!budgets.arrive(60, 100, 1000));
        assert_eq!(budgets.in_flight(), 60);
        budgets.arrived(60);
        assert_eq!(budgets.in_flight(), 0);
        budgets.take(999);
        assert!(!budgets.arrive(60, 100, 1000));
    }

    #[test]
    fn one_request_always_fits() {
        let budgets = Budgets::new(Arc::default());
        assert!(budgets.arrive(5000, 100, 1000));
    }

    #[test]
    fn a_partition_counts_for_itself() {
        let budgets = Budgets::new(Arc::default());
        budgets.partition(3).fetch_add(10, Relaxed);
        assert_eq!(budgets.partition(3).load(Relaxed), 10);
        assert_eq!(budgets.partition(4).load(Relaxed), 0);
    }
}
