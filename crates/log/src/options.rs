//! What a data directory is opened with. Relations between limits are checked when it is opened.

use crate::partition::{Durability, PartitionSettings};
use crate::ring::Geometry;
use std::path::PathBuf;
use std::time::Duration;

/// What may change while a data directory is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes that may wait to be written into segments before the sequencer writes them itself.
    pub pending_bytes_max: usize,
    /// A checkpoint at least this often, if anything was written.
    pub checkpoint_every: Duration,
    /// Below this much free space, appends are refused.
    pub disk_reserve_bytes: u64,
}

/// What a data directory is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where everything of ours lies: `commit/`, `checkpoint`, `metaq.format` (the original's `dataLogPath`).
    pub log_path: PathBuf,
    /// Folders that hold partition folders; the first is for partitions that name none.
    pub data_paths: Vec<PathBuf>,
    /// Number of this broker, 0 to 1023: part of message ids and of the directory's identity.
    pub broker: u16,
    /// Name of the cluster; written into a fresh directory.
    pub cluster: String,
    /// Name and version of this program; written into a fresh directory.
    pub program: String,
    /// Size of the commit log.
    pub ring: Geometry,
    /// A turn that has this many bytes takes no further submission; at most half a log file.
    pub turn_bytes: usize,
    /// What may change meanwhile, at the start.
    pub tuning: Tuning,
    /// Pending bytes are written at the latest after this time.
    pub apply_after: Duration,
    /// Segments and indexes open at once.
    pub files_max: usize,
    /// Producers that sent nothing for this long are forgotten.
    pub producer_expiry: Duration,
    /// For partitions whose settings nobody says.
    pub settings: PartitionSettings,
}

impl Options {
    /// Defaults for a directory with one data path.
    pub fn new(log_path: impl Into<PathBuf>, data_path: impl Into<PathBuf>) -> Self {
        Self {
            log_path: log_path.into(),
            data_paths: vec![data_path.into()],
            broker: 0,
            cluster: "metaq".to_owned(),
            program: concat!("metaq ", env!("CARGO_PKG_VERSION")).to_owned(),
            ring: Geometry { files: 4, file_bytes: 64 << 20 },
            turn_bytes: 1 << 20,
            tuning: Tuning {
                pending_bytes_max: 256 << 20,
                checkpoint_every: Duration::from_secs(30),
                disk_reserve_bytes: 0,
            },
            apply_after: Duration::from_secs(1),
            files_max: 4096,
            producer_expiry: Duration::from_secs(24 * 3600),
            settings: PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 30 },
        }
    }

    /// The most bytes of a turn that has several submissions: it must fit into a log file.
    pub(crate) fn turn_bytes_max(&self) -> usize {
        let half = usize::try_from(self.ring.file_bytes / 2).expect("log files are far below 4 GiB");
        self.turn_bytes.min(half)
    }

    /// The most bytes of one submission, overhead included: a quarter of a log file.
    pub fn submission_bytes_max(&self) -> usize {
        usize::try_from(self.ring.file_bytes / 4).expect("log files are far below 4 GiB")
    }
}
