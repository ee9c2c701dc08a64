//! Moves or deletes whole partitions of a topic in a directory that no broker has open, as the original's tools for
//! partition files do; only in a directory that was stopped cleanly.
//!
//! What is to be done is written down first (see [`Task`]), so that a crash in the middle keeps brokers out until the
//! same command finishes it.

use super::contents::{Contents, FoundCheckpoint};
use super::held::Held;
use super::place::names;
use super::task::Task;
use super::trouble::Obstacle;
use super::{Directory, OfflineError};
use crate::applier::remove_folder;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::files::{INDEX_SUFFIX, segment_start};
use crate::folder::Folder;
use crate::recovery::OpenError;
use metaq_protocol::TopicName;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocated {
    /// Partitions that were moved or deleted: `<topic>-<index>` before, and after a move.
    pub partitions: Vec<(String, Option<String>)>,
    /// What keeps an original broker from starting.
    pub obstacles: Vec<Obstacle>,
}

impl fmt::Display for Relocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (from, to) in &self.partitions {
            match to {
                Some(to) => writeln!(f, "{from} is {to}")?,
                None => writeln!(f, "{from} is deleted")?,
            }
        }
        self.obstacles.iter().try_for_each(|obstacle| writeln!(f, "note: {obstacle}"))?;
        write!(f, "{} partitions", self.partitions.len())
    }
}

/// Why partitions weren't moved or deleted. But for a failing disk nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RelocateError {
    /// The directory can't be worked on, or the disk failed: then run it again.
    #[error(transparent)]
    Offline(#[from] OfflineError),
    /// Its segments aren't all there is.
    #[error("{0} wasn't stopped cleanly: run `metaq log recover` on it first; nothing was changed")]
    Unclean(PathBuf),
    /// The topic's name is none.
    #[error("\"{0}\" is no topic's name; nothing was changed")]
    Topic(String),
    /// The range is empty.
    #[error("there are no partitions from {from} to {to}; nothing was changed")]
    Empty {
        /// First index.
        from: u32,
        /// Last index.
        to: u32,
    },
    /// An offset of zero, or one that leads out of the numbers that partitions have.
    #[error("partition {index} can't be moved by {offset}; nothing was changed")]
    Offset {
        /// Index of a partition.
        index: u32,
        /// The offset.
        offset: i64,
    },
    /// A partition doesn't exist.
    #[error("there is no partition {0}; nothing was changed")]
    Missing(String),
    /// A partition stands where another is to be moved to.
    #[error("there is a partition {0} already; nothing was changed")]
    Taken(String),
    /// A partition's folder holds what isn't a segment, an index or an archive.
    #[error("{0} is no file of a partition: move it away first; nothing was changed")]
    Strange(PathBuf),
}

impl From<OpenError> for RelocateError {
    fn from(error: OpenError) -> Self {
        Self::Offline(error.into())
    }
}

/// Adds `offset` to the indexes of a topic's partitions. All of them must exist, and none where they go.
pub fn move_partitions(
    directory: &Directory,
    topic: &str,
    indexes: RangeInclusive<u32>,
    offset: i64,
) -> Result<Relocated, RelocateError> {
    check_name(topic, &indexes)?;
    for index in [*indexes.start(), *indexes.end()] {
        moved(index, offset).filter(|_| offset != 0).ok_or(RelocateError::Offset { index, offset })?;
    }
    carry_out(directory, &Task::Move { topic: topic.to_owned(), indexes, offset })
}

/// Deletes partitions of a topic with their messages and archives. All of them must exist.
pub fn delete_partitions(
    directory: &Directory,
    topic: &str,
    indexes: RangeInclusive<u32>,
) -> Result<Relocated, RelocateError> {
    check_name(topic, &indexes)?;
    carry_out(directory, &Task::Delete { topic: topic.to_owned(), indexes })
}

fn check_name(topic: &str, indexes: &RangeInclusive<u32>) -> Result<(), RelocateError> {
    TopicName::new(topic).map_err(|_| RelocateError::Topic(topic.to_owned()))?;
    let (from, to) = (*indexes.start(), *indexes.end());
    if from > to { Err(RelocateError::Empty { from, to }) } else { Ok(()) }
}

fn moved(index: u32, offset: i64) -> Option<u32> {
    i64::from(index).checked_add(offset).and_then(|index| u32::try_from(index).ok())
}

/// What is to be done with the partitions, by index: where each goes, if anywhere.
fn steps(task: &Task) -> (&str, Vec<(u32, Option<u32>)>) {
    match task {
        Task::Move { topic, indexes, offset } => {
            (topic, indexes.clone().map(|index| (index, moved(index, *offset))).collect())
        }
        Task::Delete { topic, indexes } => (topic, indexes.clone().map(|index| (index, None)).collect()),
    }
}

fn carry_out(directory: &Directory, task: &Task) -> Result<Relocated, RelocateError> {
    let _held = Held::to_change(directory)?;
    let unfinished = Task::unfinished(directory)?;
    if let Some(other) = unfinished.as_ref().filter(|other| *other != task) {
        return Err(OfflineError::Interrupted(other.clone()).into());
    }
    let contents = Contents::read(directory)?;
    refuse_unclean(directory, &contents)?;
    check(directory, &contents, task, unfinished.is_some())?;
    let io = |source| OpenError::Io { doing: task.to_string(), source };
    task.begin(directory).map_err(io)?;
    change_folders(directory, &contents, task).map_err(io)?;
    if let Some(checkpoint) = contents.checkpoint() {
        changed(checkpoint, task).write(&*directory.disk, &directory.log_path).map_err(io)?;
    }
    task.end(directory).map_err(io)?;
    let (topic, steps) = steps(task);
    let name = |index: u32| format!("{topic}-{index}");
    let partitions = steps.into_iter().map(|(from, to)| (name(from), to.map(name))).collect();
    Ok(Relocated { partitions, obstacles: Obstacle::find(directory)? })
}

fn refuse_unclean(directory: &Directory, contents: &Contents) -> Result<(), RelocateError> {
    match contents.checkpoint() {
        Some(_) if contents.is_clean() => Ok(()),
        Some(_) => Err(RelocateError::Unclean(directory.log_path.clone())),
        None if contents.checkpoints_lost() => {
            let folder = directory.log_path.clone();
            Err(OpenError::from(CheckpointError::Damaged { folder }).into())
        }
        // A first start that was interrupted may have begun to adopt what is here.
        None if contents.copies.iter().any(|copy| *copy != FoundCheckpoint::Missing) => {
            Err(RelocateError::Unclean(directory.log_path.clone()))
        }
        None => Ok(()),
    }
}

/// All sources must exist, no target may. In what was interrupted, each partition is at one of its places.
fn check(directory: &Directory, contents: &Contents, task: &Task, begun: bool) -> Result<(), RelocateError> {
    let (topic, steps) = steps(task);
    let name = |index: u32| format!("{topic}-{index}");
    let kept = contents.kept();
    for (from, to) in steps {
        let source = contents.folder(topic, from);
        let taken = to.filter(|to| contents.folder(topic, *to).is_some());
        let known = to.filter(|to| !begun && kept.contains_key(&(topic, *to)));
        match (source, taken.or(known)) {
            (Some(_), Some(to)) => return Err(RelocateError::Taken(name(to))),
            (None, _) if !begun => return Err(RelocateError::Missing(name(from))),
            (None, None) if to.is_some() => return Err(RelocateError::Missing(name(from))),
            (Some(source), None) if to.is_none() => refuse_strange(directory, source)?,
            _ => {}
        }
    }
    Ok(())
}

/// What [`remove_folder`] would leave.
fn refuse_strange(directory: &Directory, folder: &Folder) -> Result<(), RelocateError> {
    let io = |source| OpenError::Io { doing: format!("listing {}", folder.path.display()), source };
    for (name, _) in names(&*directory.disk, &folder.path).map_err(io)? {
        let base = name.strip_suffix(".arc").or_else(|| name.strip_suffix(".zip")).unwrap_or(&name);
        if segment_start(base).is_none() && !name.ends_with(INDEX_SUFFIX) {
            return Err(RelocateError::Strange(folder.path.join(name)));
        }
    }
    Ok(())
}

fn change_folders(directory: &Directory, contents: &Contents, task: &Task) -> io::Result<()> {
    let disk = &*directory.disk;
    let (topic, steps) = steps(task);
    let mut roots = Vec::new();
    for (from, to) in steps {
        let Some(folder) = contents.folder(topic, from) else { continue };
        match to {
            Some(to) => disk.rename(&folder.path, &folder.root.join(format!("{topic}-{to}")))?,
            None => remove_folder(disk, &folder.path)?,
        }
        if !roots.contains(&folder.root) {
            roots.push(folder.root.clone());
        }
    }
    roots.iter().try_for_each(|root| disk.sync_dir(root))
}

/// The checkpoint afterwards.
fn changed(checkpoint: &Checkpoint, task: &Task) -> Checkpoint {
    let mut changed = checkpoint.clone();
    let (topic, steps) = steps(task);
    for (from, to) in steps {
        let Some(at) = changed.partitions.iter().position(|kept| kept.topic == topic && kept.index == from) else {
            continue;
        };
        match to {
            Some(to) => changed.partitions[at].index = to,
            None => {
                let gone = changed.partitions.remove(at);
                changed.producers.forget_partition(gone.number);
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests;
