//! One data directory: a commit log, the partitions it feeds, checkpoints and recovery.
//!
//! Everything durable is an entry of the commit log; segments are its materialisation. [`open`] recovers a directory
//! and hands out a [`Log`] (the handle that everybody uses) and three steps to be driven by somebody: [`Sequencer`],
//! [`Applier`] and [`Checkpointer`]. [`run`] drives them with threads; a simulator drives them one by one.
//!
//! Absent on purpose: sockets, topics and their rules, who may do what, the text protocol.

mod applier;
mod bytes;
mod checkpoint;
pub mod entry;
mod files;
mod folder;
mod format;
mod id;
pub mod index;
mod log;
pub mod offline;
mod options;
mod partition;
mod producers;
mod recovery;
mod retention;
mod ring;
mod sequencer;
mod settled;
mod shared;
mod state;
pub mod statistics;
mod submission;
mod survey;
mod threads;
pub mod turn;

pub use applier::Applier;
pub use checkpoint::{CheckpointError, Checkpointer, Snapshot};
pub use entry::{Disposal, ProducerBatch, StateChange};
pub use files::{INDEX_SUFFIX, SEGMENT_SUFFIX};
pub use folder::{Folder, Gap, SegmentFile, folders, parse_name, segments};
pub use format::{Format, FormatError};
pub use id::RUN_MAX;
pub use log::{CheckpointCopy, CopiedPartition, CreateError, Gauges, Log, PerformError};
pub use options::{Options, Tuning};
pub use partition::{Bounds, Damage, Durability, Partition, PartitionSettings, Read, SegmentSummary, Slice};
pub use recovery::{Finding, Found, OpenError, Opened, Report, open};
pub use ring::{Geometry, Place, WalkError};
pub use sequencer::{Sequencer, Wrote};
pub use settled::{Class, Settled};
pub use state::Versioned;
pub use submission::{Append, Change, Condition, Item, Outcome, Outlet, OutletId, Refusal, Submission, What};
pub use survey::{Survey, survey};
pub use threads::{Clock, Running, Stopped, run, stop_steps};
