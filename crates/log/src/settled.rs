//! How far the log has got: the watermarks that acknowledgements and readers wait for.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an entry waits for before it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Written to the log: a killed process keeps it, a power cut may not.
    Written,
    /// Synced: a power cut keeps it too.
    Durable,
}

/// Both watermarks at one moment, as entry numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// The last entry that is written.
    pub written: u64,
    /// The last entry that is durable; never above `written`.
    pub durable: u64,
}

impl Settled {
    /// Whether entry `lsn` of class `class` is settled.
    pub fn covers(&self, lsn: u64, class: Class) -> bool {
        lsn <= match class {
            Class::Written => self.written,
            Class::Durable => self.durable,
        }
    }
}

/// The watermarks. One store publishes a turn for all partitions.
#[derive(Debug, Default)]
pub(crate) struct Watermarks {
    written: AtomicU64,
    durable: AtomicU64,
}

impl Watermarks {
    pub(crate) fn at(lsn: u64) -> Self {
        Self { written: AtomicU64::new(lsn), durable: AtomicU64::new(lsn) }
    }

    pub(crate) fn load(&self) -> Settled {
        // Durable first: it never overtakes what is read as written afterwards.
        let durable = self.durable.load(Ordering::Acquire);
        Settled { written: self.written.load(Ordering::Acquire), durable }
    }

    pub(crate) fn wrote(&self, lsn: u64) {
        self.written.store(lsn, Ordering::Release);
    }

    pub(crate) fn synced(&self, lsn: u64) {
        self.durable.store(lsn, Ordering::Release);
    }
}
