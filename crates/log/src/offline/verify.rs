//! Checks a directory that no broker has open, and changes nothing.
//!
//! Of a directory that wasn't stopped cleanly only what its checkpoint says to be durable is judged: what lies behind is
//! written again when the log is replayed, whatever stands there.

use super::contents::{COPIES, Contents, Foreseen, FoundCheckpoint, FoundFormat};
use super::held::Held;
use super::marks::{self, IndexTrouble, SegmentVerified};
use super::task::Task;
use super::trouble::{PartitionTrouble, Severity, Trouble};
use super::{Directory, OfflineError, contents};
use crate::checkpoint::{Checkpoint, Kept};
use crate::folder::{Folder, SegmentFile};
use crate::format::Format;
use crate::recovery::doing;
use crate::ring;
use std::fmt;
use std::path::PathBuf;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Everything is as it was written.
    Ok,
    /// Nothing that was durable is lost; there is something to know.
    Notes,
    /// Something that was durable is lost or isn't as it was written.
    Damaged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Notes => "notes",
            Self::Damaged => "damaged",
        })
    }
}

/// What was found in the commit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogVerified {
    /// Entry that the checkpoint covers; 0 without one.
    pub checkpoint: u64,
    /// Whole turns behind it.
    pub turns: u64,
    /// Their entries.
    pub entries: u64,
}

/// What was found of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionVerified {
    /// Topic.
    pub topic: String,
    /// Index in the topic.
    pub index: u32,
    /// Its folder; `None`: there is none.
    pub folder: Option<PathBuf>,
    /// Its segments that were checked, by position.
    pub segments: Vec<SegmentVerified>,
    /// What is to be said of it.
    pub troubles: Vec<PartitionTrouble>,
}

impl PartitionVerified {
    /// `<topic>-<index>`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.topic, self.index)
    }

    /// Whole records.
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|segment| segment.records).sum()
    }

    /// Bytes that were checked.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// Those of them that index marks cover: in the others a changed id or flag can't be seen.
    pub fn covered(&self) -> u64 {
        self.segments.iter().map(|segment| segment.covered).sum()
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Whose directory it is, if that can be read.
    pub format: Option<Format>,
    /// Whether it was stopped cleanly; `None` without a checkpoint.
    pub clean: Option<bool>,
    /// The commit log.
    pub log: LogVerified,
    /// What is to be said of the directory as a whole.
    pub troubles: Vec<Trouble>,
    /// The partitions, by topic and index.
    pub partitions: Vec<PartitionVerified>,
}

impl Verified {
    /// How the check ended.
    pub fn verdict(&self) -> Verdict {
        let of_partitions = self.partitions.iter().flat_map(|partition| &partition.troubles);
        let severities = self.troubles.iter().map(Trouble::severity);
        match severities.chain(of_partitions.map(PartitionTrouble::severity)).max() {
            None => Verdict::Ok,
            Some(Severity::Note) => Verdict::Notes,
            Some(Severity::Damage) => Verdict::Damaged,
        }
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Format { format, cluster, broker, program }) = &self.format {
            writeln!(f, "format {format} of broker {broker} in cluster \"{cluster}\", made by {program}")?;
        }
        if let Some(clean) = self.clean {
            let LogVerified { checkpoint, turns, entries } = self.log;
            let how = if clean { "of a clean stop" } else { "of a running broker" };
            writeln!(f, "checkpoint {how} at entry {checkpoint}; {entries} entries in {turns} turns behind it")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "{}: {trouble}", mark(trouble.severity()))?;
        }
        for partition in &self.partitions {
            let (segments, records, bytes) = (partition.segments.len(), partition.records(), partition.bytes());
            let covered = (partition.covered() * 100).checked_div(bytes).unwrap_or(100);
            let name = partition.name();
            writeln!(f, "{name}: {records} messages, {bytes} bytes in {segments} segments, {covered} % under marks")?;
            for trouble in &partition.troubles {
                writeln!(f, "{}: {name}: {trouble}", mark(trouble.severity()))?;
            }
        }
        write!(f, "verdict: {}", self.verdict())
    }
}

fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Damage => "damage",
    }
}

/// Checks a directory: format, checkpoints, commit log, segments and indexes. `done` is told of the bytes of segments
/// that were read.
pub fn verify(directory: &Directory, mut done: impl FnMut(u64)) -> Result<Verified, OfflineError> {
    let _held = Held::to_look(directory)?;
    let contents = Contents::read(directory)?;
    check(directory, &contents, &mut done)
}

/// [`verify`] by somebody who holds the lock.
pub(super) fn check(
    directory: &Directory,
    contents: &Contents,
    done: &mut dyn FnMut(u64),
) -> Result<Verified, OfflineError> {
    let checkpoint = contents.checkpoint();
    let foreseen = match checkpoint {
        Some(checkpoint) => Foreseen::read(directory, checkpoint)?,
        None => Foreseen::default(),
    };
    let mut troubles = directory_troubles(directory, contents)?;
    if let Some(checkpoint) = checkpoint {
        log_troubles(directory, checkpoint, &foreseen, &mut troubles)?;
    }
    let log = LogVerified {
        checkpoint: checkpoint.map_or(0, |checkpoint| checkpoint.lsn),
        turns: foreseen.turns,
        entries: foreseen.entries,
    };
    let format = match &contents.format {
        FoundFormat::Whole(format) => Some(format.clone()),
        FoundFormat::Missing | FoundFormat::Malformed { .. } => None,
    };
    let clean = checkpoint.map(|checkpoint| checkpoint.clean);
    let partitions = partitions(directory, contents, clean.unwrap_or(true), &foreseen, done);
    Ok(Verified { format, clean, log, troubles, partitions })
}

fn directory_troubles(directory: &Directory, contents: &Contents) -> Result<Vec<Trouble>, OfflineError> {
    let mut troubles: Vec<_> = Task::unfinished(directory)?.into_iter().map(Trouble::Interrupted).collect();
    match &contents.format {
        FoundFormat::Malformed { line } => troubles.push(Trouble::FormatMalformed { line: *line }),
        // While a task is unfinished it stands under another name.
        FoundFormat::Missing if contents.checkpoint().is_some() && troubles.is_empty() => {
            troubles.push(Trouble::FormatMissing);
        }
        FoundFormat::Missing | FoundFormat::Whole(_) => {}
    }
    let [one, copy] = &contents.copies;
    if contents.checkpoints_lost() {
        troubles.push(Trouble::CheckpointsLost);
        return Ok(troubles);
    }
    let Some(counts) = contents.checkpoint() else {
        troubles.push(Trouble::NeverOpened);
        return Ok(troubles);
    };
    for (name, found) in COPIES.into_iter().zip([one, copy]) {
        match found {
            FoundCheckpoint::Missing => troubles.push(Trouble::CheckpointMissing { name }),
            FoundCheckpoint::Damaged => troubles.push(Trouble::CheckpointDamaged { name }),
            FoundCheckpoint::Whole(_) => {}
        }
    }
    if let (Some(one), Some(copy)) = (one.whole(), copy.whole())
        && one != copy
    {
        let counts = COPIES[usize::from(!std::ptr::eq(counts, one))];
        troubles.push(Trouble::CheckpointsDiffer { counts });
    }
    if !counts.clean {
        troubles.push(Trouble::Unclean);
    }
    Ok(troubles)
}

fn log_troubles(
    directory: &Directory,
    checkpoint: &Checkpoint,
    foreseen: &Foreseen,
    troubles: &mut Vec<Trouble>,
) -> Result<(), OfflineError> {
    if checkpoint.clean {
        return Ok(());
    }
    let geometry = checkpoint.geometry;
    let used = u32::try_from(checkpoint.place.generation % u64::from(geometry.files)).expect("below the file count");
    let file = foreseen.missing.unwrap_or(used);
    let path = ring::file_path(&contents::commit_folder(directory), file);
    let found = directory.disk.metadata(&path).map_err(doing(format!("looking at {}", path.display())))?;
    let len = found.map(|found| found.len);
    if len != Some(geometry.file_bytes) {
        troubles.push(Trouble::LogFileShort { file, len, expected: geometry.file_bytes });
    }
    if let Some(lost) = &foreseen.lost {
        let entries = lost.first..lost.last + 1;
        troubles.push(Trouble::LogDamaged { file: lost.file, offset: lost.offset, entries });
    } else if foreseen.torn {
        troubles.push(Trouble::LogTorn);
    }
    if let Some((lsn, why)) = &foreseen.contradiction {
        troubles.push(Trouble::Contradiction { lsn: *lsn, why: why.clone() });
    }
    Ok(())
}

/// How a partition stands to the checkpoint and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing<'a> {
    /// The checkpoint doesn't know it, or another program changed it: it is adopted as it is.
    Foreign,
    /// Durable up to where the checkpoint says it ends.
    Known(&'a Kept),
    /// The log holds all of it.
    Replayed,
    /// The log says that it is deleted, or that all that the checkpoint knows of it is trimmed.
    Gone,
}

pub(super) fn standing<'a>(folder: &Folder, kept: Option<&'a Kept>, clean: bool, foreseen: &Foreseen) -> Standing<'a> {
    if foreseen.removed.contains(&(folder.topic.clone(), folder.index)) {
        return Standing::Gone;
    }
    let Some(kept) = kept else {
        let created = foreseen.created.contains_key(&(folder.topic.clone(), folder.index));
        return if created { Standing::Replayed } else { Standing::Foreign };
    };
    let end = folder.segments.last().map_or((0, 0), |last| (last.start, last.start + last.len));
    // Another program only adds: what ends before has lost something, and is kept as it was known.
    let grown = end > (kept.head.segment, kept.head.end) && kept.failed.is_none();
    let trimmed = foreseen.trimmed.get(&kept.number).is_some_and(|first| *first > kept.head.segment);
    match clean {
        true if grown => Standing::Foreign,
        true => Standing::Known(kept),
        false if foreseen.deleted.contains(&kept.number) || trimmed => Standing::Gone,
        false => Standing::Known(kept),
    }
}

fn partitions(
    directory: &Directory,
    contents: &Contents,
    clean: bool,
    foreseen: &Foreseen,
    done: &mut dyn FnMut(u64),
) -> Vec<PartitionVerified> {
    let mut by_name = contents.kept();
    let mut found = Vec::new();
    for folder in &contents.folders {
        let kept = by_name.remove(&(folder.topic.as_str(), folder.index));
        let standing = standing(folder, kept, clean, foreseen);
        let kept = kept.filter(|_| standing != Standing::Gone);
        let mut checked = one(directory, folder, standing, clean, foreseen, done);
        if let Some(kept) = kept {
            about_kept(&mut checked, folder, kept, standing, clean);
        } else if standing == Standing::Foreign && contents.checkpoint().is_some() {
            checked.troubles.push(PartitionTrouble::Unknown);
        }
        let twice = contents.twice.iter().filter(|other| (&other.topic, other.index) == (&folder.topic, folder.index));
        checked.troubles.extend(twice.map(|other| PartitionTrouble::Twice { folder: other.path.clone() }));
        found.push(checked);
    }
    for (_, kept) in by_name {
        let gone = foreseen.deleted.contains(&kept.number)
            || foreseen.trimmed.get(&kept.number).is_some_and(|first| *first > kept.head.segment);
        if gone || kept.head.end == kept.head.segment {
            continue;
        }
        let troubles = vec![PartitionTrouble::Missing { range: kept.head.segment..kept.head.end }];
        let (topic, index) = (kept.topic.clone(), kept.index);
        found.push(PartitionVerified { topic, index, folder: None, segments: Vec::new(), troubles });
    }
    found.sort_by(|one, other| (&one.topic, one.index).cmp(&(&other.topic, other.index)));
    found
}

/// What is to be said of a partition that the checkpoint knows.
fn about_kept(checked: &mut PartitionVerified, folder: &Folder, kept: &Kept, standing: Standing<'_>, clean: bool) {
    let end = folder.segments.last().map_or(0, |last| last.start + last.len);
    if clean && standing == Standing::Foreign {
        let was = kept.head.end;
        checked.troubles.push(PartitionTrouble::ChangedElsewhere { was, end });
        if end < was {
            checked.troubles.push(PartitionTrouble::Missing { range: end..was });
        }
    }
    if let Some(why) = &kept.failed {
        checked.troubles.push(PartitionTrouble::Closed { why: why.clone() });
    }
    if kept.root != folder.root {
        checked.troubles.push(PartitionTrouble::StandsElsewhere { root: kept.root.clone() });
    }
}

fn one(
    directory: &Directory,
    folder: &Folder,
    standing: Standing<'_>,
    clean: bool,
    foreseen: &Foreseen,
    done: &mut dyn FnMut(u64),
) -> PartitionVerified {
    let (topic, index, path) = (folder.topic.clone(), folder.index, Some(folder.path.clone()));
    let mut checked = PartitionVerified { topic, index, folder: path, segments: Vec::new(), troubles: Vec::new() };
    let troubles = &mut checked.troubles;
    let (from, last, to) = match standing {
        Standing::Gone => {
            troubles.push(PartitionTrouble::Deleted);
            return checked;
        }
        Standing::Replayed => (u64::MAX, 0, 0),
        Standing::Known(kept) => {
            let from = foreseen.trimmed.get(&kept.number).copied().unwrap_or(0);
            if clean { (from, u64::MAX, u64::MAX) } else { (from, kept.head.segment, kept.head.end) }
        }
        Standing::Foreign => (0, u64::MAX, u64::MAX),
    };
    let known: Vec<SegmentFile> =
        folder.segments.iter().filter(|segment| (from..=last).contains(&segment.start)).copied().collect();
    let trimmed =
        folder.segments.iter().filter(|segment| segment.start < from && standing != Standing::Replayed).count();
    if trimmed > 0 {
        troubles.push(PartitionTrouble::Trimmed { segments: trimmed });
    }
    let behind: u64 = folder.segments.iter().map(|one| (one.start + one.len).saturating_sub(one.start.max(to))).sum();
    if behind > 0 {
        troubles.push(PartitionTrouble::Replayed { from: to, bytes: behind });
    }
    let part = Folder { segments: known.clone(), ..folder.clone() };
    troubles.extend(part.gap().map(PartitionTrouble::Gap));
    if let Standing::Known(kept) = standing {
        let end = known.last().map_or(kept.head.segment, |last| (last.start + last.len).max(kept.head.segment));
        if end < kept.head.end {
            troubles.push(PartitionTrouble::Missing { range: end..kept.head.end });
        }
    }
    for (at, segment) in known.iter().enumerate() {
        match marks::check(&*directory.disk, folder, *segment, to, done) {
            Ok(found) => {
                let last = at + 1 == known.len();
                about_segment(troubles, &found, standing, last);
                checked.segments.push(found);
            }
            Err(error) => {
                troubles.push(PartitionTrouble::Unreadable { segment: segment.start, why: error.to_string() });
            }
        }
    }
    checked
}

fn about_segment(troubles: &mut Vec<PartitionTrouble>, found: &SegmentVerified, standing: Standing<'_>, last: bool) {
    let records = found.damage.iter().map(|range| PartitionTrouble::Records { range: range.clone() });
    troubles.extend(records);
    troubles.extend(found.headers.iter().map(|range| PartitionTrouble::Headers { range: range.clone() }));
    if let Some(range) = found.tail() {
        troubles.push(if last && standing == Standing::Foreign {
            PartitionTrouble::TornTail { position: range.start, bytes: range.end - range.start }
        } else {
            PartitionTrouble::End { range }
        });
    }
    match found.index {
        // An original makes none.
        None => {}
        Some(IndexTrouble::Missing) if standing == Standing::Foreign => {}
        Some(trouble) => troubles.push(PartitionTrouble::Index { segment: found.start, trouble }),
    }
}

#[cfg(test)]
mod tests;
