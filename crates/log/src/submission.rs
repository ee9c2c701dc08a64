//! What is asked of the log, and what became of it.
//!
//! A submission carries everything that one caller has at one moment (for a connection: all puts cut from one read of
//! its socket). The sequencer hands it back through the caller's [`Outlet`] with an outcome for each item; the caller
//! answers once the watermark covers the submission.

use crate::entry::{Disposal, ProducerBatch, StateChange};
use crate::partition::Partition;
use crate::settled::Class;
use std::sync::Arc;

/// Number of a registered [`Outlet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutletId(pub(crate) usize);

/// Where submissions go back to. Called by the log's own thread: it must not block.
pub trait Outlet: Send + Sync {
    /// Takes sequenced submissions, in log order; leaves the vector empty. They are written but may not be settled: once
    /// the log is closed ([`Log::closed`](crate::Log::closed)), what isn't never will be.
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>);
    /// A watermark moved, or the log closed: look at what waits. `ready`: partitions that have more and are waited for.
    fn wake(&self, ready: &[u32]);
}

/// Everything one caller asks for at one moment.
#[derive(Debug)]
pub struct Submission {
    /// Where it goes back to.
    pub outlet: OutletId,
    /// The caller's own mark.
    pub token: u64,
    /// The records of all appends, back to back, in the disk's layout with ids zero.
    pub bytes: Vec<u8>,
    /// What is asked, in order.
    pub items: Vec<Item>,
    /// What became of each item; filled by the sequencer.
    pub outcomes: Vec<Outcome>,
    /// The caller may answer once this entry is durable; 0: when it is delivered.
    pub wait_durable: u64,
}

/// One thing asked.
#[derive(Debug)]
pub struct Item {
    /// The caller's own mark (a connection's: the opaque).
    pub tag: i64,
    /// What.
    pub what: What,
}

/// The kinds of things asked.
#[derive(Debug)]
pub enum What {
    /// Messages for one partition.
    Append(Append),
    /// A rare change.
    Change(Box<Change>),
}

/// Messages for one partition: all or nothing.
#[derive(Debug)]
pub struct Append {
    /// Where to.
    pub partition: Arc<Partition>,
    /// The records' bytes in [`Submission::bytes`].
    pub records: std::ops::Range<usize>,
    /// How many records, 1 to 4,096.
    pub count: u32,
    /// Sent by a producer that numbers its batches.
    pub producer: Option<ProducerBatch>,
}

/// Rare changes of the data directory.
#[derive(Debug)]
pub enum Change {
    /// Announces a partition made with [`crate::Log::create_partition`].
    Create(Arc<Partition>),
    /// Removes a partition with its messages.
    Delete(Arc<Partition>),
    /// Removes everything below `first`.
    Trim {
        /// Of this partition.
        partition: Arc<Partition>,
        /// A segment's start, not below an earlier trim's, or the partition's end.
        first: u64,
        /// What becomes of the segments.
        disposal: Disposal,
    },
    /// Changes the durable map if all conditions hold: all or nothing.
    State {
        /// What must hold.
        conditions: Vec<Condition>,
        /// What is changed.
        changes: Vec<StateChange>,
    },
    /// The sealed segments of an adopted partition have been counted.
    Counted {
        /// Of this partition.
        partition: Arc<Partition>,
        /// Messages in the segments sealed before the adoption.
        sealed: u64,
    },
    /// Nothing, but durable: everything asked for before is settled when this is.
    Barrier,
}

/// What must hold of a key before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Which map.
    pub space: u8,
    /// The key.
    pub key: Vec<u8>,
    /// The version it must have; `None`: it must not exist.
    pub version: Option<u64>,
}

/// What became of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Stored.
    Appended {
        /// Id of the first message; the others follow it.
        first_id: i64,
        /// Position of the first message.
        position: u64,
        /// The entry it is in.
        lsn: u64,
        /// What it waits for.
        class: Class,
    },
    /// Done.
    Changed {
        /// The entry it is in; also the version of the keys that were changed.
        lsn: u64,
    },
    /// Not done, and nothing of it is stored (but see [`Refusal::StoreClosed`]).
    Refused(Refusal),
}

/// Why something wasn't done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The commit log failed; nothing is written until the broker is restarted and has recovered. What was being
    /// written then may be there afterwards all the same.
    #[error("the store is closed for writing: {0}")]
    StoreClosed(Arc<str>),
    /// This partition takes no more.
    #[error("the partition takes no more messages: {0}")]
    PartitionFailed(Arc<str>),
    /// The partition was deleted.
    #[error("the partition was deleted")]
    PartitionDeleted,
    /// The commit log is full because checkpoints don't keep up; try again.
    #[error("the commit log is full until the next checkpoint is done; try again")]
    LogFull,
    /// The disk has no room left but the reserve; try again when there is.
    #[error("the disk is full; try again when there is room")]
    DiskFull,
    /// More than fits into one entry.
    #[error("{bytes} bytes in one batch; the limit is {limit}")]
    TooLarge {
        /// What was sent.
        bytes: usize,
        /// What is possible.
        limit: usize,
    },
    /// A newer instance of the producer has taken over.
    #[error("a producer with epoch {epoch} has taken over")]
    Fenced {
        /// The epoch that is accepted.
        epoch: u32,
    },
    /// The batch doesn't follow the last one.
    #[error("the batch doesn't follow the last one: sequence {expected} is expected")]
    SequenceGap {
        /// The sequence that is expected.
        expected: i64,
    },
    /// A condition didn't hold.
    #[error("it was changed by somebody else meanwhile")]
    Conflict {
        /// Which condition, counted from 0.
        condition: usize,
        /// The key's version, if it exists.
        version: Option<u64>,
    },
    /// A trim to a place where no segment begins.
    #[error("no segment begins at position {first}")]
    NoSegmentThere {
        /// The position asked for.
        first: u64,
    },
}

impl Refusal {
    /// Whether asking again later may succeed.
    pub fn retriable(&self) -> bool {
        matches!(self, Self::LogFull | Self::DiskFull | Self::Conflict { .. })
    }
}
