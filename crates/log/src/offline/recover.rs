//! Brings a directory to the state of a clean stop, which an original broker can open too.
//!
//! Rebuilding, when both checkpoints are lost, first moves the commit log and what is left of the checkpoints into
//! `metaq.aside` (`metaq.aside.2`, …) in the log path, `metaq.format` last, and then adopts the segments as an
//! original's. What was only in the commit log isn't in the segments; the durable map (topics, offsets) is gone with the
//! checkpoints.

use super::contents::{COPIES, Contents, FoundCheckpoint, FoundFormat, commit_folder};
use super::held::Held;
use super::place::{create_folder, move_names, names, numbered, same};
use super::records::{Piece, Records};
use super::task::Task;
use super::trouble::Obstacle;
use super::{Directory, OfflineError};
use crate::files::{FileKind, path};
use crate::folder::Folder;
use crate::format;
use crate::id::EPOCH_MS;
use crate::options::Options;
use crate::partition::Partition;
use crate::recovery::{Finding, Found, OpenError, Opened, Report, doing, open};
use crate::sequencer::Wrote;
use crate::settled::Settled;
use crate::submission::{Item, Outlet, Submission, What};
use crate::threads::{Stopped, stop_steps};
use metaq_disk::{Disk, Open};
use metaq_protocol::id::IdParts;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Base of the names of folders that hold what was set aside.
pub(super) const ASIDE: &str = "metaq.aside";
/// Ids given before both checkpoints were lost may run ahead of the clock that far; further ahead is damage.
const CLOCK_AHEAD_MAX_MS: u64 = 24 * 3600 * 1000;
/// Ids are given no further above the last durable ceiling than that.
const CEILING_MS: u64 = 10_000;

/// How a directory is recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// From the checkpoint, replaying the commit log.
    Replay,
    /// From the segments alone; only if no checkpoint can be read. What is only in the commit log is lost, and so are
    /// topics and offsets.
    Rebuild,
}

/// What recovering found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// What opening found and did.
    pub report: Report,
    /// Where the commit log and the lost checkpoints were set aside.
    pub set_aside: Option<PathBuf>,
    /// What still keeps an original broker from starting.
    pub obstacles: Vec<Obstacle>,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(set_aside) = &self.set_aside {
            writeln!(f, "the commit log and the lost checkpoints are in {}", set_aside.display())?;
        }
        let Report { turns, entries, torn, findings, .. } = &self.report;
        writeln!(f, "{entries} entries in {turns} turns were replayed")?;
        if *torn {
            writeln!(f, "note: the last turn wasn't whole; nobody was told of its entries")?;
        }
        findings.iter().try_for_each(|finding| writeln!(f, "note: {finding}"))?;
        self.obstacles.iter().try_for_each(|obstacle| writeln!(f, "note: {obstacle}"))?;
        write!(f, "the directory is as after a clean stop")
    }
}

/// Why a directory wasn't recovered. It can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// It can't be worked on, or not be opened; nothing was changed.
    #[error(transparent)]
    Offline(#[from] OfflineError),
    /// To rebuild what isn't lost would lose what is only in the commit log.
    #[error("{0} can be read: recover without rebuilding; nothing was changed")]
    NotLost(&'static str),
    /// It was replayed, but the last checkpoint couldn't be written.
    #[error("the directory was recovered, but it couldn't be stopped cleanly; see the log, and run it again")]
    NotStopped,
}

impl From<OpenError> for RecoverError {
    fn from(error: OpenError) -> Self {
        Self::Offline(error.into())
    }
}

/// Opens the directory, counts what it adopted, and stops it cleanly. The commit log keeps its size. `now`: milliseconds
/// since 1970.
pub fn recover(disk: Arc<dyn Disk>, options: Options, how: How, now: u64) -> Result<Recovered, RecoverError> {
    let directory = Directory::new(Arc::clone(&disk), options.log_path.clone(), options.data_paths.clone());
    let mut options = options;
    let mut opened_at = now;
    let mut set_aside = None;
    Task::refuse_unfinished(&directory)?;
    let stands = disk.metadata(&directory.log_path).map_err(doing("looking for the log path"))?.is_some();
    {
        let _held = if stands { Held::to_change(&directory)? } else { Held::to_look(&directory)? };
        let contents = Contents::read(&directory)?;
        if how == How::Rebuild {
            refuse_rebuild(&contents, &options)?;
            opened_at = now.max(ids_above(&directory, &contents, now));
            set_aside = put_aside(&directory, &contents)?;
        } else if let Some(checkpoint) = contents.checkpoint() {
            options.ring = checkpoint.geometry;
        }
    }
    let opened = open(disk, options, opened_at)?;
    let report = finish(opened, now)?;
    Ok(Recovered { report, set_aside, obstacles: Obstacle::find(&directory)? })
}

fn refuse_rebuild(contents: &Contents, options: &Options) -> Result<(), RecoverError> {
    if contents.checkpoint().is_some() {
        let whole = COPIES.into_iter().zip(&contents.copies).find(|(_, copy)| copy.whole().is_some());
        return Err(RecoverError::NotLost(whole.map_or(COPIES[0], |(name, _)| name)));
    }
    match &contents.format {
        FoundFormat::Whole(format) => Ok(format.check(&options.cluster, options.broker).map_err(OpenError::from)?),
        FoundFormat::Missing | FoundFormat::Malformed { .. } => Ok(()),
    }
}

/// A clock value that lies above all ids that were given, as far as the newest segments tell.
fn ids_above(directory: &Directory, contents: &Contents, now: u64) -> u64 {
    let clocks = contents.folders.iter().filter_map(|folder| newest_clock(directory, folder).ok().flatten());
    let likely = clocks.filter(|clock| *clock <= now + CLOCK_AHEAD_MAX_MS);
    likely.max().map_or(0, |clock| clock + CEILING_MS)
}

/// The largest clock value among the ids of the last segment that has bytes, milliseconds since 1970.
fn newest_clock(directory: &Directory, folder: &Folder) -> io::Result<Option<u64>> {
    let Some(last) = folder.segments.iter().rfind(|segment| segment.len > 0) else { return Ok(None) };
    let file = directory.disk.open(&path(&folder.path, last.start, FileKind::Segment), Open::Read)?;
    let mut records = Records::new(file, 0, u64::MAX)?;
    let mut newest = None;
    while let Some(piece) = records.step()? {
        let Piece::Record(range) = piece else { continue };
        let id = records.header(range.start)?.map_or(0, |header| header.id);
        newest = newest.max(u64::try_from(IdParts::of(id).clock_ms).ok().filter(|clock| *clock > EPOCH_MS));
    }
    Ok(newest)
}

/// Moves the commit log and what is left of the checkpoints aside, `metaq.format` last.
fn put_aside(directory: &Directory, contents: &Contents) -> Result<Option<PathBuf>, OpenError> {
    let (disk, log_path) = (&*directory.disk, &directory.log_path);
    let io = |source| OpenError::Io { doing: "setting the commit log aside".to_owned(), source };
    let lost = contents.format != FoundFormat::Missing || contents.copies.contains(&FoundCheckpoint::Damaged);
    if !lost && log_is_blank(directory).map_err(io)? {
        return Ok(None);
    }
    let target = aside(directory, &COPIES).map_err(io)?;
    create_folder(disk, &target).map_err(io)?;
    let names = ["commit", COPIES[0], COPIES[1]].map(str::to_owned);
    move_names(disk, &names, log_path, &target).map_err(io)?;
    move_names(disk, &[format::NAME.to_owned()], log_path, &target).map_err(io)?;
    Ok(Some(target))
}

/// Whether there is no commit log, or one that no turn was written to.
fn log_is_blank(directory: &Directory) -> io::Result<bool> {
    let folder = commit_folder(directory);
    for (name, _) in names(&*directory.disk, &folder)? {
        let mut head = [0; 64];
        let read = directory.disk.open(&folder.join(name), Open::Read)?.read_at(&mut head, 0)?;
        if head[..read].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The folder to set something aside in: one that an interrupted attempt began (it holds no `metaq.format`, and none of
/// `files` with other bytes), or the next free one.
pub(super) fn aside(directory: &Directory, files: &[&str]) -> io::Result<PathBuf> {
    let disk = &*directory.disk;
    numbered(disk, &directory.log_path.join(ASIDE), |folder| {
        Ok(disk.metadata(&folder.join(format::NAME))?.is_none() && fits(disk, files, &directory.log_path, folder)?)
    })
}

/// Whether none of `files`, and no file of the commit log, stands in both folders with different bytes.
pub(super) fn fits(disk: &dyn Disk, files: &[&str], from: &Path, to: &Path) -> io::Result<bool> {
    let commit = Path::new("commit");
    let ring = names(disk, &from.join(commit))?.into_iter().map(|(name, _)| commit.join(name));
    for file in files.iter().map(PathBuf::from).chain(ring) {
        let (one, other) = (from.join(&file), to.join(&file));
        let both = disk.metadata(&one)?.is_some() && disk.metadata(&other)?.is_some();
        if both && !same(disk, &one, &other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Damage of a partition that the report doesn't name.
fn damage_of(partition: &Partition, report: &Report, settled: Settled) -> Vec<Finding> {
    let name = format!("{}-{}", partition.topic, partition.index);
    let ranges = partition.bounds(settled).damage.into_iter().map(|damage| damage.range);
    let found = ranges
        .map(|range| Finding { partition: name.clone(), what: Found::Damaged { from: range.start, to: range.end } });
    found.filter(|finding| !report.findings.contains(finding)).collect()
}

/// Takes what comes back from the log and forgets it.
struct Discard;

impl Outlet for Discard {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        sequenced.clear();
    }

    fn wake(&self, _ready: &[u32]) {}
}

/// Counts the sealed segments of what was adopted, and stops.
fn finish(opened: Opened, now: u64) -> Result<Report, RecoverError> {
    let Opened { log, mut sequencer, mut applier, checkpointer, mut report } = opened;
    let outlet = log.register(Arc::new(Discard));
    for partition in std::mem::take(&mut report.to_survey) {
        let surveyed = log.survey_sealed(&partition, || {});
        let (_, counted) = surveyed.map_err(doing(format!("counting the messages of {partition:?}")))?;
        report.findings.extend(damage_of(&partition, &report, log.settled()));
        let items = vec![Item { tag: 0, what: What::Change(Box::new(counted)) }];
        let (bytes, outcomes) = (Vec::new(), Vec::new());
        log.submit(Box::new(Submission { outlet, token: 0, bytes, items, outcomes, wait_durable: 0 }));
        while sequencer.write_turn(now) == Wrote::Turn {}
    }
    match stop_steps(&mut sequencer, &mut applier, &checkpointer, now) {
        Stopped::Clean => Ok(report),
        Stopped::ToBeRecovered => Err(RecoverError::NotStopped),
    }
}

#[cfg(test)]
mod tests;
