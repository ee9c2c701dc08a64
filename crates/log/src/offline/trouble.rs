//! What an operator should know about a data directory that was looked at, as values and as sentences.

use super::marks::IndexTrouble;
use super::task::Task;
use crate::folder::{Folder, Gap, folders};
use crate::recovery::doing;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::{Directory, OfflineError};

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know: nothing that was durable is lost, and the next opening sets it right or goes on with it.
    Note,
    /// Bytes that had been durable aren't as they were written, or are missing.
    Damage,
}

/// Something about the directory as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No broker of ours has opened it: an original's directory, or a first start that was interrupted.
    NeverOpened,
    /// It wasn't stopped cleanly; the next opening replays the log.
    Unclean,
    /// There is a checkpoint but no `metaq.format`: brokers refuse the directory.
    FormatMissing,
    /// `metaq.format` can't be understood: brokers refuse the directory.
    FormatMalformed {
        /// Line, from 1.
        line: usize,
    },
    /// One of the checkpoints isn't there.
    CheckpointMissing {
        /// Name of the file.
        name: &'static str,
    },
    /// One of the checkpoints isn't as it was written.
    CheckpointDamaged {
        /// Name of the file.
        name: &'static str,
    },
    /// Neither checkpoint can be read: brokers refuse the directory.
    CheckpointsLost,
    /// The checkpoints differ; that is so after a crash between writing the two.
    CheckpointsDiffer {
        /// Name of the one that counts.
        counts: &'static str,
    },
    /// The last turn was being written when the broker or the power went; nobody was told of its entries.
    LogTorn,
    /// Entries of the log that had been durable can't be read: brokers refuse the directory.
    LogDamaged {
        /// Number of the ring's file.
        file: u32,
        /// Byte in it.
        offset: u64,
        /// The entries.
        entries: Range<u64>,
    },
    /// The file that the log goes on in is missing or short.
    LogFileShort {
        /// Number of the ring's file.
        file: u32,
        /// Its size; `None`: it is missing.
        len: Option<u64>,
        /// What it should be.
        expected: u64,
    },
    /// An entry doesn't fit what stands before it: brokers refuse the directory.
    Contradiction {
        /// The entry.
        lsn: u64,
        /// What doesn't fit.
        why: String,
    },
    /// Moving or deleting partitions was interrupted: brokers refuse the directory.
    Interrupted(Task),
}

impl Trouble {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NeverOpened
            | Self::Unclean
            | Self::CheckpointMissing { .. }
            | Self::CheckpointsDiffer { .. }
            | Self::LogTorn
            | Self::Interrupted(_) => Severity::Note,
            Self::FormatMissing
            | Self::FormatMalformed { .. }
            | Self::CheckpointDamaged { .. }
            | Self::CheckpointsLost
            | Self::LogDamaged { .. }
            | Self::LogFileShort { .. }
            | Self::Contradiction { .. } => Severity::Damage,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverOpened => write!(f, "no broker of this kind has opened the directory; it will be adopted"),
            Self::Unclean => write!(f, "it wasn't stopped cleanly; the next opening replays the commit log"),
            Self::FormatMissing => write!(f, "metaq.format is missing; brokers refuse the directory"),
            Self::FormatMalformed { line } => {
                write!(f, "metaq.format can't be understood at line {line}; brokers refuse the directory")
            }
            Self::CheckpointMissing { name } => write!(f, "{name} is missing; the other one is whole"),
            Self::CheckpointDamaged { name } => write!(f, "{name} is damaged; the other one is whole"),
            Self::CheckpointsLost => {
                write!(f, "neither checkpoint can be read; brokers refuse the directory")
            }
            Self::CheckpointsDiffer { counts } => {
                write!(f, "the two checkpoints differ, as after a crash between writing them; {counts} counts")
            }
            Self::LogTorn => write!(f, "the last turn of the commit log isn't whole; nobody was told of its entries"),
            Self::LogDamaged { file, offset, entries } => write!(
                f,
                "the commit log is damaged at byte {offset} of file {file}: entries {} to {} were durable and can't be \
                 read; brokers refuse the directory",
                entries.start,
                entries.end - 1
            ),
            Self::LogFileShort { file, len: None, expected } => {
                write!(f, "file {file} of the commit log is missing; it should have {expected} bytes")
            }
            Self::LogFileShort { file, len: Some(len), expected } => {
                write!(f, "file {file} of the commit log has {len} bytes; it should have {expected}")
            }
            Self::Contradiction { lsn, why } => {
                write!(f, "entry {lsn} of the commit log doesn't fit ({why}); brokers refuse the directory")
            }
            Self::Interrupted(task) => {
                write!(f, "`{task}` was interrupted; brokers refuse the directory until it is run again")
            }
        }
    }
}

/// Something about one partition. Ranges and places are positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionTrouble {
    /// Bytes that are no records, with whole ones behind them.
    Records {
        /// Which.
        range: Range<u64>,
    },
    /// Bytes at the end of a segment that had been durable and are no records.
    End {
        /// Which.
        range: Range<u64>,
    },
    /// Records here are whole, but an id or a flag among them was changed.
    Headers {
        /// Between these marks.
        range: Range<u64>,
    },
    /// Bytes that had been durable aren't there.
    Missing {
        /// Which.
        range: Range<u64>,
    },
    /// Segments don't follow each other: the partition is closed for puts.
    Gap(Gap),
    /// It stands in two data paths: brokers refuse the directory.
    Twice {
        /// The other folder.
        folder: PathBuf,
    },
    /// A segment can't be read.
    Unreadable {
        /// Its start.
        segment: u64,
        /// What the disk said.
        why: String,
    },
    /// The last record is incomplete and nobody of ours had said that it is durable: the next opening cuts it.
    TornTail {
        /// Where it is cut.
        position: u64,
        /// How many bytes go.
        bytes: u64,
    },
    /// Another program wrote to it since the last clean stop: it is adopted again.
    ChangedElsewhere {
        /// Where it ended.
        was: u64,
        /// Where it ends.
        end: u64,
    },
    /// The directory's log doesn't know it: it will be adopted.
    Unknown,
    /// The next opening writes these bytes again, out of the log.
    Replayed {
        /// Where they begin.
        from: u64,
        /// How many there are.
        bytes: u64,
    },
    /// The log says that it was deleted: the next opening removes what is left.
    Deleted,
    /// Old segments aren't kept any more: the next opening removes them.
    Trimmed {
        /// How many.
        segments: usize,
    },
    /// It takes no more messages.
    Closed {
        /// Why.
        why: String,
    },
    /// The checkpoint says that it stands in another data path.
    StandsElsewhere {
        /// The path in the checkpoint.
        root: PathBuf,
    },
    /// Something is wrong with an index.
    Index {
        /// Start of its segment.
        segment: u64,
        /// What.
        trouble: IndexTrouble,
    },
}

impl PartitionTrouble {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Records { .. }
            | Self::End { .. }
            | Self::Headers { .. }
            | Self::Missing { .. }
            | Self::Gap(_)
            | Self::Twice { .. }
            | Self::Unreadable { .. } => Severity::Damage,
            Self::TornTail { .. }
            | Self::ChangedElsewhere { .. }
            | Self::Unknown
            | Self::Replayed { .. }
            | Self::Deleted
            | Self::Trimmed { .. }
            | Self::Closed { .. }
            | Self::StandsElsewhere { .. }
            | Self::Index { .. } => Severity::Note,
        }
    }
}

impl fmt::Display for PartitionTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records { range: Range { start, end } } => {
                write!(f, "the bytes from position {start} to {end} are no records; whole ones follow them")
            }
            Self::End { range: Range { start, end } } => {
                write!(
                    f,
                    "the bytes from position {start} to {end}, where a segment ends, are no records and had been durable"
                )
            }
            Self::Headers { range: Range { start, end } } => write!(
                f,
                "an id or a flag between positions {start} and {end} was changed: the records are whole, but the bytes \
                 aren't those that were written"
            ),
            Self::Missing { range: Range { start, end } } => {
                write!(f, "the bytes from position {start} to {end} had been durable and are missing")
            }
            Self::Gap(gap) => write!(f, "{gap}"),
            Self::Twice { folder } => write!(f, "it also stands in {}", folder.display()),
            Self::Unreadable { segment, why } => write!(f, "the segment at {segment} can't be read: {why}"),
            Self::TornTail { position, bytes } => {
                write!(
                    f,
                    "the last {bytes} bytes are an incomplete record; the next opening cuts them at position {position}"
                )
            }
            Self::ChangedElsewhere { was, end } => {
                write!(f, "another program moved its end from position {was} to {end} since the last clean stop")
            }
            Self::Unknown => write!(f, "the log doesn't know it; it will be adopted"),
            Self::Replayed { from, bytes } => {
                write!(f, "{bytes} bytes from position {from} on are written again when the log is replayed")
            }
            Self::Deleted => write!(f, "it was deleted; the next opening removes what is left of it"),
            Self::Trimmed { segments } => {
                write!(f, "{segments} old segments aren't kept any more; the next opening removes them")
            }
            Self::Closed { why } => write!(f, "it is closed for puts: {why}"),
            Self::StandsElsewhere { root } => {
                write!(f, "the checkpoint says that it stands in {}", root.display())
            }
            Self::Index { segment, trouble } => write!(f, "segment {segment}: {trouble}"),
        }
    }
}

/// What keeps an original broker from starting on a directory, or makes it lose something there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Segments that don't follow each other.
    Gap {
        /// `<topic>-<index>`.
        partition: String,
        /// Where.
        gap: Gap,
    },
    /// A file that ends in `.meta` and isn't named by a position.
    Name {
        /// The file.
        file: PathBuf,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { partition, gap } => write!(f, "an original broker doesn't start: {partition}: {gap}"),
            Self::Name { file } => {
                write!(f, "an original broker doesn't start: the name of {} is no position", file.display())
            }
        }
    }
}

impl Obstacle {
    /// All that stand in an original's way in a directory.
    pub(super) fn find(directory: &Directory) -> Result<Vec<Self>, OfflineError> {
        let mut found = Vec::new();
        for root in &directory.data_paths {
            for folder in folders(&*directory.disk, root).map_err(doing(format!("listing {}", root.display())))? {
                found.extend(folder.gap().map(|gap| Self::Gap { partition: folder.name(), gap }));
                found.extend(names(directory, &folder)?);
            }
        }
        Ok(found)
    }
}

fn names(directory: &Directory, folder: &Folder) -> Result<Vec<Obstacle>, OfflineError> {
    let path = &folder.path;
    let listed = directory.disk.list(path).map_err(doing(format!("listing {}", path.display())))?;
    let odd = listed.into_iter().filter(|listed| {
        listed.name.ends_with(crate::files::SEGMENT_SUFFIX) && crate::files::segment_start(&listed.name).is_none()
    });
    Ok(odd.map(|listed| Obstacle::Name { file: path.join(listed.name) }).collect())
}
