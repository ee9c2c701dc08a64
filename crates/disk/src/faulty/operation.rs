//! What was asked of a simulated disk, for a person who reads how a run went wrong.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An operation that changes or syncs something, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its place among all operations of the disk, from 1.
    pub number: u64,
    /// The path it was asked for; of an open file the one it was opened by.
    pub path: Arc<Path>,
    /// What was asked.
    pub asked: Asked,
}

/// What an [`Operation`] asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Create a file.
    Create,
    /// Create a folder and its missing parents.
    CreateFolder,
    /// Write bytes to these positions.
    Write(Range<u64>),
    /// Write zeros to these positions.
    WriteZeros(Range<u64>),
    /// Cut or extend to this length.
    SetLen(u64),
    /// Sync a file.
    Sync,
    /// Sync the names of a folder.
    SyncFolder,
    /// Sync everything.
    SyncAll,
    /// Move to this path.
    Rename(Arc<Path>),
    /// Give this second name.
    Link(Arc<Path>),
    /// Remove a file's name.
    RemoveFile,
    /// Remove a folder.
    RemoveFolder,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "{} ", self.number)?;
        match &self.asked {
            Asked::Create => write!(f, "create {path}"),
            Asked::CreateFolder => write!(f, "create folder {path}"),
            Asked::Write(range) => write!(f, "write {path} {}..{}", range.start, range.end),
            Asked::WriteZeros(range) => write!(f, "zero {path} {}..{}", range.start, range.end),
            Asked::SetLen(len) => write!(f, "set length {path} {len}"),
            Asked::Sync => write!(f, "sync {path}"),
            Asked::SyncFolder => write!(f, "sync folder {path}"),
            Asked::SyncAll => write!(f, "sync all {path}"),
            Asked::Rename(to) => write!(f, "rename {path} to {}", to.display()),
            Asked::Link(to) => write!(f, "link {path} as {}", to.display()),
            Asked::RemoveFile => write!(f, "remove file {path}"),
            Asked::RemoveFolder => write!(f, "remove folder {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_reads_as_a_line() {
        let operation = Operation { number: 7, path: Arc::from(Path::new("/log/a")), asked: Asked::Write(0..512) };
        assert_eq!(operation.to_string(), "7 write /log/a 0..512");
    }
}
