//! What can be set right in a directory, said before anything is changed.
//!
//! Nothing moves: a message keeps its position or is gone. Damage in the middle of a partition stays where it is and is
//! written into the checkpoint, so that readers are led behind it; only on demand a partition is cut at its first damage.
//! A directory that wasn't stopped cleanly gets what it needs to be recovered; its partitions are looked at afterwards.

use super::contents::{COPIES, Contents, Foreseen};
use super::dump::{WholeTurn, whole_turns};
use super::held::Held;
use super::marks::{IndexTrouble, SegmentVerified};
use super::records::{Piece, Records};
use super::task::Task;
use super::trouble::{PartitionTrouble, Severity, Trouble};
use super::verify::{PartitionVerified, Standing, check, standing};
use super::{Directory, OfflineError};
use crate::checkpoint::{Checkpoint, Kept};
use crate::entry::{self, Entry};
use crate::files::{FileKind, path};
use crate::folder::Folder;
use crate::partition::Damage;
use crate::recovery::{OpenError, doing};
use crate::turn;
use metaq_disk::Open;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::ops::Range;

/// Whose directory it is: for one whose `metaq.format` is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster.
    pub cluster: String,
    /// Number of the broker, 0 to 1023.
    pub broker: u16,
    /// Name and version of this program.
    pub program: String,
}

/// Which partitions are cut at their first damage, with all that lies behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Truncate {
    /// None.
    #[default]
    Never,
    /// These: topic and index.
    These(Vec<(String, u32)>),
    /// All that are damaged.
    All,
}

impl Truncate {
    fn wants(&self, topic: &str, index: u32) -> bool {
        match self {
            Self::Never => false,
            Self::These(these) => these.iter().any(|(wanted, of)| wanted == topic && *of == index),
            Self::All => true,
        }
    }
}

/// How to repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Which partitions are cut.
    pub truncate: Truncate,
    /// For a directory whose `metaq.format` is lost.
    pub identity: Option<Identity>,
}

/// One thing that a repair does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `metaq.format` is written again.
    RestoreFormat(Identity),
    /// A checkpoint is written again from the other one.
    RestoreCheckpoint {
        /// Which.
        name: &'static str,
        /// From which.
        from: &'static str,
    },
    /// The commit log ends before its damage.
    GiveUp {
        /// Entries that had been durable.
        entries: Range<u64>,
        /// Whole turns behind the damage, given up too.
        turns: usize,
        /// What these held, by partition: messages and bytes. What the damaged turns held isn't known.
        held: BTreeMap<String, (u64, u64)>,
        /// Files of the log that are missing and are made again, empty.
        missing: Vec<u32>,
    },
    /// An incomplete record at the end of a partition goes.
    CutTail {
        /// `<topic>-<index>`.
        partition: String,
        /// Where it is cut.
        position: u64,
        /// Bytes that go.
        bytes: u64,
    },
    /// A partition ends before its first damage.
    Truncate {
        /// `<topic>-<index>`.
        partition: String,
        /// Where it is cut.
        position: u64,
        /// Bytes that go.
        bytes: u64,
        /// Whole messages among them.
        messages: u64,
    },
    /// An index is made again.
    RebuildIndex {
        /// `<topic>-<index>`.
        partition: String,
        /// Start of the segment.
        segment: u64,
    },
    /// An index that can't be made again is removed.
    RemoveIndex {
        /// `<topic>-<index>`.
        partition: String,
        /// Start of the segment.
        segment: u64,
    },
    /// The checkpoint says which bytes are damaged, so that readers step over them.
    RecordDamage {
        /// `<topic>-<index>`.
        partition: String,
        /// Positions.
        range: Range<u64>,
    },
    /// The checkpoint doesn't say any more that these bytes are damaged: they are whole (restored from a copy, say).
    ForgetDamage {
        /// `<topic>-<index>`.
        partition: String,
        /// Positions.
        range: Range<u64>,
    },
    /// A closed partition takes messages again.
    Reopen {
        /// `<topic>-<index>`.
        partition: String,
        /// Where it ends.
        end: u64,
        /// Where it had ended; positions from its end to here are given again.
        was: u64,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RestoreFormat(Identity { cluster, broker, .. }) => {
                write!(f, "write metaq.format again, for broker {broker} of cluster \"{cluster}\"")
            }
            Self::RestoreCheckpoint { name, from } => write!(f, "write {name} again from {from}"),
            Self::GiveUp { entries: Range { start, end }, turns, held, missing } => {
                write!(f, "give up what the commit log held from entry {start} on")?;
                if end > start {
                    write!(f, " (up to entry {} at least)", end - 1)?;
                }
                let before = start - 1;
                write!(
                    f,
                    ", with {turns} whole turns behind the damage; what is in segments up to entry {before} stays"
                )?;
                missing.iter().try_for_each(|file| write!(f, "\n  file {file} of the log is made again, empty"))?;
                held.iter().try_for_each(|(partition, (messages, bytes))| {
                    write!(f, "\n  of {partition} at least {messages} messages ({bytes} bytes) are lost")
                })
            }
            Self::CutTail { partition, position, bytes } => {
                write!(
                    f,
                    "cut the torn tail of {partition} at position {position}: {bytes} bytes of an incomplete record"
                )
            }
            Self::Truncate { partition, position, bytes, messages } => write!(
                f,
                "cut {partition} at position {position}: {bytes} bytes are lost, with {messages} whole messages; their \
                 positions are given again"
            ),
            Self::RebuildIndex { partition, segment } => {
                write!(f, "make the index of segment {segment} of {partition} again")
            }
            Self::RemoveIndex { partition, segment } => {
                write!(f, "remove the index of segment {segment} of {partition}")
            }
            Self::RecordDamage { partition, range: Range { start, end } } => {
                write!(f, "lead readers of {partition} from position {start} to {end}; the bytes between stay")
            }
            Self::ForgetDamage { partition, range: Range { start, end } } => {
                write!(f, "let {partition} be read from position {start} to {end} again: the bytes are whole")
            }
            Self::Reopen { partition, end, was } if end == was => {
                write!(f, "open {partition} for puts at position {end}; nothing is lost")
            }
            Self::Reopen { partition, end, was } => write!(
                f,
                "open {partition} for puts at position {end}: it had ended at {was}, what was between is lost and its \
                 positions are given again"
            ),
        }
    }
}

/// Why there is no plan, or it couldn't be carried out to its end. It can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The directory can't be worked on, or the disk failed.
    #[error(transparent)]
    Offline(#[from] OfflineError),
}

impl From<OpenError> for RepairError {
    fn from(error: OpenError) -> Self {
        Self::Offline(error.into())
    }
}

/// What a repair would do. Holds the directory's lock, so that it stays true.
#[derive(Debug)]
pub struct Plan {
    pub(super) directory: Directory,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) folders: Vec<Folder>,
    pub(super) turns: Vec<WholeTurn>,
    /// File of the ring in which its damage lies.
    pub(super) damaged_file: Option<u32>,
    steps: Vec<Step>,
    kept: Vec<String>,
    next: Option<&'static str>,
    _held: Held,
}

impl Plan {
    /// What is done, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What stays as it is, and why.
    pub fn kept(&self) -> &[String] {
        &self.kept
    }

    /// What is to be done after the repair, if anything.
    pub fn next(&self) -> Option<&'static str> {
        self.next
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        self.kept.iter().try_for_each(|kept| writeln!(f, "kept as it is: {kept}"))?;
        if self.steps.is_empty() {
            writeln!(f, "there is nothing to repair")?;
        }
        self.next.map_or(Ok(()), |next| writeln!(f, "then: {next}"))
    }
}

/// Looks at the whole directory and says what a repair would do. Changes nothing. `done` is told of the bytes that were
/// read.
pub fn plan_repair(
    directory: &Directory,
    options: &RepairOptions,
    mut done: impl FnMut(u64),
) -> Result<Plan, RepairError> {
    Task::refuse_unfinished(directory)?;
    let held = Held::to_change(directory)?;
    let contents = Contents::read(directory)?;
    let verified = check(directory, &contents, &mut done)?;
    let checkpoint = contents.checkpoint().cloned();
    let (known, steps, kept) = (contents.kept(), Vec::new(), Vec::new());
    let mut planner = Planner { directory, options, contents: &contents, known, steps, kept };
    planner.about_directory(&verified.troubles);
    let (mut turns, mut damaged_file) = (Vec::new(), None);
    if let Some(checkpoint) = checkpoint.as_ref().filter(|checkpoint| !checkpoint.clean) {
        let foreseen = Foreseen::read(directory, checkpoint)?;
        if foreseen.lost.is_some() || foreseen.missing.is_some() {
            turns = planner.give_up(checkpoint, &foreseen)?;
            damaged_file = foreseen.lost.as_ref().map(|lost| lost.file);
        }
    }
    let clean = checkpoint.is_none() || contents.is_clean();
    let lost = contents.checkpoints_lost();
    for partition in &verified.partitions {
        if clean && !lost { planner.about_partition(partition)? } else { planner.keep_all(partition) }
    }
    let next = match (lost, clean) {
        (true, _) => Some("`metaq log recover --rebuild`, which makes the checkpoints again from the segments"),
        (false, false) => Some("`metaq log recover`, or start the broker; then look at the partitions again"),
        (false, true) => None,
    };
    let Planner { steps, kept, .. } = planner;
    let (directory, folders) = (directory.clone(), contents.folders);
    Ok(Plan { directory, checkpoint, folders, turns, damaged_file, steps, kept, next, _held: held })
}

struct Planner<'a> {
    directory: &'a Directory,
    options: &'a RepairOptions,
    contents: &'a Contents,
    /// What the checkpoint holds of the partitions.
    known: HashMap<(&'a str, u32), &'a Kept>,
    steps: Vec<Step>,
    kept: Vec<String>,
}

impl Planner<'_> {
    fn about_directory(&mut self, troubles: &[Trouble]) {
        for trouble in troubles {
            match (trouble, &self.options.identity) {
                (Trouble::FormatMissing | Trouble::FormatMalformed { .. }, Some(identity)) => {
                    self.steps.push(Step::RestoreFormat(identity.clone()));
                }
                (Trouble::FormatMissing | Trouble::FormatMalformed { .. }, None) => {
                    self.kept.push(format!(
                        "{trouble}; say which cluster and broker it belongs to, and it is written again"
                    ));
                }
                (
                    Trouble::CheckpointsLost
                    | Trouble::Contradiction { .. }
                    | Trouble::LogFileShort { len: Some(_), .. },
                    _,
                ) => {
                    self.kept.push(trouble.to_string());
                }
                _ => {}
            }
        }
        if let Some(counts) = self.contents.checkpoint() {
            let from = self.contents.copies.iter().position(|copy| copy.whole() == Some(counts)).unwrap_or(0);
            let restored =
                COPIES.into_iter().zip(&self.contents.copies).filter(|(_, copy)| copy.whole() != Some(counts));
            let steps = restored.map(|(name, _)| Step::RestoreCheckpoint { name, from: COPIES[from] });
            self.steps.extend(steps);
        }
    }

    /// The whole turns behind the damage, which go.
    fn give_up(&mut self, checkpoint: &Checkpoint, foreseen: &Foreseen) -> Result<Vec<WholeTurn>, OfflineError> {
        let first = checkpoint.lsn + foreseen.entries + 1;
        let mut turns = whole_turns(self.directory, checkpoint.geometry)?;
        let ours = |turn: &WholeTurn| turn.header.incarnation == checkpoint.incarnation;
        turns.retain(|turn| ours(turn) && turn.header.first_lsn >= first);
        let settled = turns.iter().map(|turn| turn.header.settled_lsn).max().unwrap_or(0);
        let end = foreseen.lost.as_ref().map_or(first.max(settled + 1), |lost| lost.last + 1);
        let mut missing = Vec::new();
        for file in 0..checkpoint.geometry.files {
            if super::dump::ring_file(self.directory, file)?.is_none() {
                missing.push(file);
            }
        }
        let mut names: BTreeMap<u32, String> =
            checkpoint.partitions.iter().map(|kept| (kept.number, format!("{}-{}", kept.topic, kept.index))).collect();
        names.extend(foreseen.created.iter().map(|((topic, index), number)| (*number, format!("{topic}-{index}"))));
        let mut held: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for turn in &turns {
            let bytes = super::dump::ring_file(self.directory, turn.file)?.unwrap_or_default();
            let offset = usize::try_from(turn.offset).expect("files are far below 4 GiB");
            let Ok((_, entries)) = turn::open(bytes.get(offset..).unwrap_or_default()) else { continue };
            for entry in entry::entries(entries).flatten() {
                match entry {
                    Entry::Append(append) => {
                        let unknown = || format!("partition number {}", append.partition);
                        let name = names.get(&append.partition).cloned().unwrap_or_else(unknown);
                        let sum = held.entry(name).or_default();
                        *sum = (sum.0 + u64::from(append.count), sum.1 + append.records.len() as u64);
                    }
                    Entry::PartitionCreated { partition, topic, index, .. } => {
                        names.insert(partition, format!("{topic}-{index}"));
                    }
                    _ => {}
                }
            }
        }
        self.steps.push(Step::GiveUp { entries: first..end, turns: turns.len(), held, missing });
        Ok(turns)
    }

    fn keep_all(&mut self, partition: &PartitionVerified) {
        let worse = partition.troubles.iter().filter(|trouble| trouble.severity() == Severity::Damage);
        self.kept.extend(worse.map(|trouble| format!("{}: {trouble}", partition.name())));
    }

    fn about_partition(&mut self, partition: &PartitionVerified) -> Result<(), OpenError> {
        let Some(folder) = self.contents.folder(&partition.topic, partition.index) else {
            self.keep_all(partition);
            return Ok(());
        };
        let kept = self.known.get(&(folder.topic.as_str(), folder.index)).copied();
        let standing = standing(folder, kept, true, &Foreseen::default());
        let whole = !partition
            .troubles
            .iter()
            .any(|trouble| matches!(trouble, PartitionTrouble::Unreadable { .. } | PartitionTrouble::Twice { .. }));
        let gap = partition.troubles.iter().any(|trouble| matches!(trouble, PartitionTrouble::Gap(_)));
        let wanted = whole && self.options.truncate.wants(&partition.topic, partition.index);
        match first_bad(partition).filter(|_| wanted) {
            Some(bad) => self.truncate(folder, partition, bad).map_err(doing(format!("reading {}", folder.name())))?,
            None => {
                self.keep(partition, kept.filter(|_| standing != Standing::Foreign), gap);
                self.forget(partition, kept.filter(|_| standing != Standing::Foreign && whole && !gap));
                self.reopen(partition, kept, standing, whole && !gap);
                self.about_indexes(partition, kept.filter(|_| standing != Standing::Foreign));
            }
        }
        Ok(())
    }

    fn truncate(&mut self, folder: &Folder, partition: &PartitionVerified, bad: u64) -> io::Result<()> {
        let at = partition.segments.partition_point(|segment| segment.start < bad).saturating_sub(1);
        let Some(segment) = partition.segments.get(at) else { return Ok(()) };
        let file = self.directory.disk.open(&path(&folder.path, segment.start, FileKind::Segment), Open::Read)?;
        let mut records = Records::new(file, 0, u64::MAX)?;
        let (mut position, mut before) = (segment.start, 0);
        while let Some(Piece::Record(range)) = records.step()?
            && segment.start + range.end <= bad
        {
            (position, before) = (segment.start + range.end, before + 1);
        }
        let behind: u64 = partition.segments[at..].iter().map(|segment| segment.records).sum();
        let bytes: u64 = partition.segments[at..].iter().map(|segment| segment.len).sum();
        let (bytes, messages) = (bytes - (position - segment.start), behind - before);
        self.steps.push(Step::Truncate { partition: partition.name(), position, bytes, messages });
        Ok(())
    }

    /// Damage that stays: readers are led behind it where the checkpoint says so.
    fn keep(&mut self, partition: &PartitionVerified, kept: Option<&Kept>, gap: bool) {
        let name = partition.name();
        for trouble in &partition.troubles {
            match trouble {
                PartitionTrouble::Records { range } | PartitionTrouble::End { range } => {
                    let covers = |damage: &Damage| damage.range.start <= range.start && damage.range.end >= range.end;
                    let known = kept.map(|kept| kept.damage.iter().any(covers));
                    if known == Some(false) {
                        let (partition, range) = (name.clone(), range.clone());
                        self.steps.push(Step::RecordDamage { partition, range });
                    }
                    self.kept.push(format!("{name}: {trouble}"));
                }
                PartitionTrouble::TornTail { position, bytes } if !gap => {
                    let (partition, position, bytes) = (name.clone(), *position, *bytes);
                    self.steps.push(Step::CutTail { partition, position, bytes });
                }
                _ if trouble.severity() == Severity::Damage => self.kept.push(format!("{name}: {trouble}")),
                _ => {}
            }
        }
    }

    /// Known damage in a partition without gaps where no damage is found any more.
    fn forget(&mut self, partition: &PartitionVerified, kept: Option<&Kept>) {
        let Some(kept) = kept else { return };
        let end = partition.segments.last().map_or(0, |last| last.whole_to);
        let bad = |range: &Range<u64>| {
            partition.troubles.iter().any(|trouble| match trouble {
                PartitionTrouble::Records { range: bad } | PartitionTrouble::End { range: bad } => {
                    bad.start < range.end && range.start < bad.end
                }
                _ => false,
            })
        };
        let ranges = kept.damage.iter().map(|damage| damage.range.clone());
        let whole = ranges.filter(|range| range.end <= end && !bad(range));
        let name = partition.name();
        self.steps.extend(whole.map(|range| Step::ForgetDamage { partition: name.clone(), range }));
    }

    /// A closed partition, or one that is closed when it is opened next because it ends before it did at a clean stop,
    /// is opened if its segments follow each other and end with a whole record.
    fn reopen(&mut self, partition: &PartitionVerified, kept: Option<&Kept>, standing: Standing<'_>, follow: bool) {
        let Some(last) = partition.segments.last().filter(|last| last.tail().is_none()) else { return };
        let shorter = |kept: &Kept| last.whole_to < kept.head.end && self.contents.is_clean();
        let Some(kept) = kept.filter(|kept| kept.failed.is_some() || shorter(kept)) else { return };
        let (end, was) = (last.whole_to, kept.head.end);
        let known = matches!(standing, Standing::Known(_));
        if follow && (known || end < was) {
            self.steps.push(Step::Reopen { partition: partition.name(), end, was });
        }
    }

    fn about_indexes(&mut self, partition: &PartitionVerified, kept: Option<&Kept>) {
        let unharmed = |segment: &SegmentVerified| segment.damage.is_empty() && segment.tail().is_none();
        for (at, segment) in partition.segments.iter().enumerate() {
            let Some(trouble) = segment.index else { continue };
            let countable = kept.is_some() && partition.segments[at..].iter().all(unharmed);
            let (name, segment) = (partition.name(), segment.start);
            if countable {
                self.steps.push(Step::RebuildIndex { partition: name, segment });
            } else if trouble != IndexTrouble::Missing {
                self.steps.push(Step::RemoveIndex { partition: name, segment });
            }
        }
    }
}

/// Position of a partition's first damage.
fn first_bad(partition: &PartitionVerified) -> Option<u64> {
    let bad = partition.troubles.iter().filter_map(|trouble| match trouble {
        PartitionTrouble::Records { range } | PartitionTrouble::End { range } => Some(range.start),
        PartitionTrouble::Gap(gap) => Some(gap.end.min(gap.next)),
        PartitionTrouble::TornTail { position, .. } => Some(*position),
        _ => None,
    });
    bad.min().filter(|_| partition.troubles.iter().any(|trouble| trouble.severity() == Severity::Damage))
}

#[cfg(test)]
mod tests;
