//! What is done to a data directory that no broker has open: looking, checking, recovering, repairing, freeing it for an
//! original broker, and moving or deleting partitions.
//!
//! Invariants: everything takes the directory's lock and refuses a directory that is in use. What only looks changes
//! nothing. What changes something is finished by running it again after a crash at any moment; in between a broker
//! either opens the directory as if nothing had been asked, or refuses it.

mod carry_out;
mod contents;
mod dump;
#[cfg(test)]
mod golden;
mod held;
mod marks;
mod place;
mod records;
mod recover;
mod release;
mod relocate;
mod repair;
mod task;
#[cfg(test)]
mod testing;
mod trouble;
mod verify;

pub use dump::{
    CheckpointContent, Filter, LogLine, LogPart, MarkLine, PartitionContent, RecordLine, StateKey, dump_checkpoint,
    dump_index, dump_log, dump_records,
};
pub use marks::{IndexTrouble, SegmentVerified};
pub use recover::{How, RecoverError, Recovered, recover};
pub use release::{ReleaseError, Released, release};
pub use relocate::{RelocateError, Relocated, delete_partitions, move_partitions};
pub use repair::{Identity, Plan, RepairError, RepairOptions, Step, Truncate, plan_repair};
pub use task::Task;
pub use trouble::{Obstacle, PartitionTrouble, Severity, Trouble};
pub use verify::{LogVerified, PartitionVerified, Verdict, Verified, verify};

use crate::recovery::OpenError;
use metaq_disk::Disk;
use std::path::PathBuf;
use std::sync::Arc;

/// A data directory that is looked at or changed while no broker has it open.
#[derive(Debug, Clone)]
pub struct Directory {
    /// The disk it lies on.
    pub disk: Arc<dyn Disk>,
    /// Where everything of ours lies (the original's `dataLogPath`).
    pub log_path: PathBuf,
    /// Folders that hold partition folders; may be the log path.
    pub data_paths: Vec<PathBuf>,
}

impl Directory {
    /// A directory with these paths; several data paths where topics have their own.
    pub fn new(disk: Arc<dyn Disk>, log_path: impl Into<PathBuf>, data_paths: impl Into<Vec<PathBuf>>) -> Self {
        Self { disk, log_path: log_path.into(), data_paths: data_paths.into() }
    }
}

/// Why a directory can't be worked on. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The disk failed, a broker has the directory open, or a later version wrote it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Moving or deleting partitions was interrupted.
    #[error("`{0}` was interrupted: run it again first")]
    Interrupted(Task),
    /// The file that says what was interrupted isn't ours.
    #[error("{0} can't be understood; it is written while partitions are moved or deleted: remove it if you made it")]
    TaskMalformed(PathBuf),
}
