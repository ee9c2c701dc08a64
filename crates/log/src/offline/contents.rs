//! What stands in a data directory, read without changing anything: format, both checkpoints, folders, and the commit
//! log from the checkpoint on.

use super::task::Task;
use super::{Directory, OfflineError};
use crate::checkpoint::{COPY, Checkpoint, CheckpointError, Kept, KeptDisposal, NAME, read_whole};
use crate::entry::{self, Entry, EntryError};
use crate::folder::{Folder, folders};
use crate::format::{Format, FormatError};
use crate::recovery::{OpenError, doing};
use crate::ring::{self, From as WalkFrom, WalkError};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;

/// `metaq.format` as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundFormat {
    Missing,
    Whole(Format),
    Malformed { line: usize },
}

/// One of the two checkpoints as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FoundCheckpoint {
    Missing,
    Whole(Box<Checkpoint>),
    Damaged,
}

impl FoundCheckpoint {
    pub(super) fn whole(&self) -> Option<&Checkpoint> {
        match self {
            Self::Whole(checkpoint) => Some(checkpoint),
            Self::Missing | Self::Damaged => None,
        }
    }
}

/// What stands in a directory.
pub(super) struct Contents {
    pub format: FoundFormat,
    /// Something was begun, and `metaq.format` stands aside meanwhile.
    begun: bool,
    /// `checkpoint` and `checkpoint.copy`.
    pub copies: [FoundCheckpoint; 2],
    /// By topic and index.
    pub folders: Vec<Folder>,
    /// Folders whose partition stands in another data path too.
    pub twice: Vec<Folder>,
}

/// Names of the two checkpoints, in the order of [`Contents::copies`].
pub(super) const COPIES: [&str; 2] = [NAME, COPY];

impl Contents {
    pub(super) fn read(directory: &Directory) -> Result<Self, OfflineError> {
        let disk = &*directory.disk;
        let format = match Format::read(disk, &directory.log_path) {
            Ok(None) => FoundFormat::Missing,
            Ok(Some(format)) => FoundFormat::Whole(format),
            Err(FormatError::Malformed { line, .. }) => FoundFormat::Malformed { line },
            Err(error) => return Err(OpenError::from(error).into()),
        };
        let begun = Task::unfinished(directory)?.is_some();
        let copies = [read_checkpoint(directory, NAME)?, read_checkpoint(directory, COPY)?];
        let (mut found, mut twice) = (Vec::new(), Vec::new());
        let mut names = HashSet::new();
        for root in &directory.data_paths {
            for folder in folders(disk, root).map_err(doing(format!("listing {}", root.display())))? {
                let first = names.insert((folder.topic.clone(), folder.index));
                if first { found.push(folder) } else { twice.push(folder) }
            }
        }
        found.sort_by(|one: &Folder, other| (&one.topic, one.index).cmp(&(&other.topic, other.index)));
        Ok(Self { format, begun, copies, folders: found, twice })
    }

    /// The checkpoint that counts: the newer one of those that are whole. A checkpoint of a first start that was
    /// interrupted counts as none.
    pub(super) fn checkpoint(&self) -> Option<&Checkpoint> {
        let [one, copy] = self.copies.each_ref().map(FoundCheckpoint::whole);
        let newest = match (one, copy) {
            (Some(one), Some(copy)) if copy.age() > one.age() => Some(copy),
            (one, copy) => one.or(copy),
        };
        newest.filter(|newest| newest.lsn > 0 || self.format != FoundFormat::Missing || self.begun)
    }

    /// The checkpoint says that everything that is kept is in the segments, and nothing else is.
    pub(super) fn is_clean(&self) -> bool {
        self.checkpoint().is_some_and(|checkpoint| checkpoint.clean && checkpoint.disposals.is_empty())
    }

    /// A checkpoint was there and none can be read, or should be there and isn't.
    pub(super) fn checkpoints_lost(&self) -> bool {
        let damaged = self.copies.contains(&FoundCheckpoint::Damaged);
        let whole = self.copies.iter().any(|copy| copy.whole().is_some());
        !whole && (damaged || self.format != FoundFormat::Missing)
    }

    pub(super) fn folder(&self, topic: &str, index: u32) -> Option<&Folder> {
        let by_name = |folder: &Folder| (folder.topic.as_str(), folder.index).cmp(&(topic, index));
        self.folders.binary_search_by(by_name).ok().map(|at| &self.folders[at])
    }

    /// What the checkpoint holds of the partitions, by topic and index.
    pub(super) fn kept(&self) -> HashMap<(&str, u32), &Kept> {
        let kept = self.checkpoint().map_or(&[][..], |checkpoint| &checkpoint.partitions);
        kept.iter().map(|kept| ((kept.topic.as_str(), kept.index), kept)).collect()
    }
}

fn read_checkpoint(directory: &Directory, name: &str) -> Result<FoundCheckpoint, OfflineError> {
    let path = directory.log_path.join(name);
    let bytes = match read_whole(&*directory.disk, &path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(FoundCheckpoint::Missing),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(doing(format!("reading {}", path.display()))(error).into());
        }
        // A sector that can't be read is as good as one that was changed.
        Err(_) => return Ok(FoundCheckpoint::Damaged),
    };
    match Checkpoint::decode(&bytes) {
        Ok(checkpoint) => Ok(FoundCheckpoint::Whole(Box::new(checkpoint))),
        Err(Some(format)) if format > crate::checkpoint::FORMAT => {
            Err(OpenError::from(CheckpointError::LaterFormat { format }).into())
        }
        Err(_) => Ok(FoundCheckpoint::Damaged),
    }
}

/// The folder of the commit log.
pub(super) fn commit_folder(directory: &Directory) -> PathBuf {
    directory.log_path.join("commit")
}

/// Entries that had been durable and can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lost {
    pub file: u32,
    pub offset: u64,
    pub first: u64,
    pub last: u64,
}

/// What the log does to the partitions behind a checkpoint.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Foreseen {
    pub turns: u64,
    pub entries: u64,
    /// The last turn isn't whole.
    pub torn: bool,
    pub lost: Option<Lost>,
    /// Number of a file of the ring that is missing: what stood in it isn't known.
    pub missing: Option<u32>,
    /// An entry that doesn't fit the checkpoint and those before it.
    pub contradiction: Option<(u64, String)>,
    /// Partitions made behind the checkpoint, by name.
    pub created: HashMap<(String, u32), u32>,
    pub deleted: HashSet<u32>,
    pub trimmed: HashMap<u32, u64>,
    /// Folders of partitions that were deleted before the checkpoint and are still there.
    pub removed: HashSet<(String, u32)>,
    /// Where partitions end, by number.
    ends: HashMap<u32, u64>,
}

impl Foreseen {
    /// Walks the log from the checkpoint on; of a clean one it holds nothing.
    pub(super) fn read(directory: &Directory, checkpoint: &Checkpoint) -> Result<Self, OfflineError> {
        let mut foreseen = Self::default();
        checkpoint.disposals.iter().for_each(|disposal| match disposal {
            KeptDisposal::Trim { partition, first, .. } => foreseen.trim(*partition, *first),
            KeptDisposal::Delete { topic, index } => _ = foreseen.removed.insert((topic.clone(), *index)),
        });
        if checkpoint.clean {
            return Ok(foreseen);
        }
        foreseen.ends = checkpoint.partitions.iter().map(|kept| (kept.number, kept.head.end)).collect();
        let (place, lsn) = (checkpoint.place, checkpoint.lsn + 1);
        let from = WalkFrom { place, lsn, incarnation: checkpoint.incarnation };
        let mut later = None;
        let commit = commit_folder(directory);
        let (mut turns, mut last) = (0, checkpoint.lsn);
        let walked = ring::walk(&*directory.disk, &commit, checkpoint.geometry, from, |header, entries| {
            (turns, last) = (turns + 1, header.next_lsn() - 1);
            for (lsn, entry) in (header.first_lsn..).zip(entry::entries(entries)) {
                match entry {
                    Ok(entry) => foreseen.note(lsn, &entry),
                    Err(error @ EntryError::UnknownKind { .. }) => later = later.or(Some(error)),
                    Err(error) => foreseen.contradict(lsn, error.to_string()),
                }
            }
        });
        if let Some(error) = later {
            return Err(OpenError::from(error).into());
        }
        (foreseen.turns, foreseen.entries) = (turns, last - checkpoint.lsn);
        match walked {
            Ok(walked) => foreseen.torn = walked.torn,
            Err(WalkError::Damaged { file, offset, first_lost: first, last_lost: last }) => {
                foreseen.lost = Some(Lost { file, offset, first, last });
            }
            Err(WalkError::Missing { path }) => {
                let name = path.file_name().and_then(|name| name.to_str());
                foreseen.missing = name.and_then(|name| name.parse().ok());
            }
            Err(error) => return Err(OpenError::from(error).into()),
        }
        Ok(foreseen)
    }

    fn trim(&mut self, partition: u32, first: u64) {
        let to = self.trimmed.entry(partition).or_default();
        *to = (*to).max(first);
    }

    fn contradict(&mut self, lsn: u64, why: String) {
        self.contradiction.get_or_insert((lsn, why));
    }

    fn note(&mut self, lsn: u64, entry: &Entry<'_>) {
        let known = match entry {
            Entry::Append(append) => self.ends.get(&append.partition).copied().map(|end| (append.partition, end)),
            Entry::PartitionCreated { partition, .. } => Some((*partition, 0)),
            Entry::PartitionDeleted { partition }
            | Entry::Trim { partition, .. }
            | Entry::Counted { partition, .. } => self.ends.get(partition).map(|end| (*partition, *end)),
            Entry::State(_) | Entry::IdCeiling { .. } => return,
        };
        let Some((number, end)) = known else {
            return self.contradict(lsn, "its partition is unknown".to_owned());
        };
        match entry {
            Entry::Append(append) if append.position != end => {
                let why = format!("partition number {number} ends at {end}, the append goes to {}", append.position);
                self.contradict(lsn, why);
            }
            Entry::Append(append) => _ = self.ends.insert(number, end + append.records.len() as u64),
            Entry::PartitionCreated { topic, index, .. } => {
                self.ends.insert(number, 0);
                self.created.insert(((*topic).to_owned(), *index), number);
            }
            Entry::PartitionDeleted { .. } => {
                self.ends.remove(&number);
                self.deleted.insert(number);
            }
            Entry::Trim { first, .. } => self.trim(number, *first),
            Entry::Counted { .. } | Entry::State(_) | Entry::IdCeiling { .. } => {}
        }
    }
}
