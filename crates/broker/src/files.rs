//! Where the log keeps a partition's files.

use metaq_log::{INDEX_SUFFIX, Partition, SEGMENT_SUFFIX};
use std::path::PathBuf;

/// The folder of a partition.
pub(crate) fn folder(partition: &Partition) -> PathBuf {
    partition.root.join(format!("{}-{}", partition.topic, partition.index))
}

/// The name of the segment that starts there.
pub(crate) fn segment_name(start: u64) -> String {
    format!("{start:020}{SEGMENT_SUFFIX}")
}

/// The name of its index.
pub(crate) fn index_name(start: u64) -> String {
    format!("{start:020}{INDEX_SUFFIX}")
}
