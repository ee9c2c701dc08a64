//! Frees a cleanly stopped directory of everything of ours, so that an original broker can open it.
//!
//! It goes into `<log path>.metaq` (`.metaq.2`, …), outside all data paths: what stands in a data path without being a
//! partition makes an original lose partitions. Order: indexes, what lies beside, both checkpoints, the commit log, and
//! `metaq.format` last. Up to the checkpoints a broker of ours opens the directory as ever, from there on it refuses it
//! until `metaq.format` is gone too. A release folder without `metaq.format` is unfinished.
//!
//! Put back into a directory that no broker of ours has opened since, it is as it was: partitions that another broker
//! wrote to meanwhile are adopted.

use super::contents::{COPIES, Contents, FoundCheckpoint, FoundFormat, commit_folder};
use super::held::{self, Held};
use super::place::{create_folder, folder_of, move_names, names, numbered, same, with_suffix};
use super::recover::fits;
use super::task::Task;
use super::trouble::Obstacle;
use super::{Directory, OfflineError};
use crate::checkpoint::{Checkpoint, CheckpointError, UNFINISHED, read_whole};
use crate::files::INDEX_SUFFIX;
use crate::format::{self, FormatError};
use crate::recovery::{OpenError, doing};
use metaq_disk::Kind;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Ends the name of the folder that a directory's files are moved to.
const SUFFIX: &str = ".metaq";
/// Ends the name of an archive that wasn't finished.
const UNFINISHED_ARCHIVE: &str = ".zip.new";

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Where to; `None`: there was nothing of ours.
    pub to: Option<PathBuf>,
    /// How many files.
    pub files: u64,
    /// What still keeps an original broker from starting.
    pub obstacles: Vec<Obstacle>,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            None => write!(f, "there is nothing of ours in the directory")?,
            Some(to) => write!(f, "{} files were moved to {}", self.files, to.display())?,
        }
        self.obstacles.iter().try_for_each(|obstacle| write!(f, "\nnote: {obstacle}"))
    }
}

/// Why a directory isn't free of our files. It can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// It can't be worked on.
    #[error(transparent)]
    Offline(#[from] OfflineError),
    /// Its segments aren't all there is.
    #[error("{0} wasn't stopped cleanly: run `metaq log recover` on it, then release it again; nothing was changed")]
    Unclean(PathBuf),
    /// There is no folder outside the data paths beside it.
    #[error("there is no place beside {0} outside the data paths; name it by its full path; nothing was changed")]
    NoPlace(PathBuf),
}

impl From<OpenError> for ReleaseError {
    fn from(error: OpenError) -> Self {
        Self::Offline(error.into())
    }
}

/// Moves everything of ours out of the log path and the data paths.
pub fn release(directory: &Directory) -> Result<Released, ReleaseError> {
    Task::refuse_unfinished(directory)?;
    let mut held = Held::to_change(directory)?;
    let contents = Contents::read(directory)?;
    let io = |source| OpenError::Io { doing: "moving our files out of the directory".to_owned(), source };
    let base = base(directory)?;
    let to = target(directory, &contents, &base)?;
    let files = to.as_ref().map_or(Ok(0), |to| move_out(directory, &contents, to)).map_err(io)?;
    held.remove_at_end();
    drop(held);
    directory.disk.sync_dir(&directory.log_path).map_err(io)?;
    Ok(Released { to, files, obstacles: Obstacle::find(directory)? })
}

/// The name of the release folder, but for its number: beside the log path, or beside the data path that this lies in.
fn base(directory: &Directory) -> Result<PathBuf, ReleaseError> {
    let roots: Vec<PathBuf> = directory.data_paths.iter().map(|root| plain(root)).collect();
    let mut beside = plain(&directory.log_path);
    loop {
        let found = with_suffix(&beside, SUFFIX).map(|found| plain(&found));
        let found = found.ok_or_else(|| ReleaseError::NoPlace(directory.log_path.clone()))?;
        match roots.iter().find(|root| found.starts_with(root)) {
            Some(root) => beside.clone_from(root),
            None => return Ok(found),
        }
    }
}

/// The path without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}

/// Where everything goes; `None` if there is nothing. Refuses what wasn't stopped cleanly.
fn target(directory: &Directory, contents: &Contents, base: &Path) -> Result<Option<PathBuf>, ReleaseError> {
    let unclean = || ReleaseError::Unclean(directory.log_path.clone());
    let (disk, log_path) = (&*directory.disk, &directory.log_path);
    match contents.format {
        FoundFormat::Whole(_) => {}
        FoundFormat::Malformed { line } => {
            let path = log_path.join(format::NAME);
            return Err(OpenError::from(FormatError::Malformed { path, line }).into());
        }
        FoundFormat::Missing if contents.checkpoint().is_some() => {
            return Err(OpenError::from(FormatError::Missing { folder: log_path.clone() }).into());
        }
        FoundFormat::Missing => {
            let copies = contents.copies.iter().any(|copy| *copy != FoundCheckpoint::Missing);
            let commit = commit_folder(directory);
            let log = disk.metadata(&commit).map_err(doing(format!("looking at {}", commit.display())))?.is_some();
            return if copies || log { Err(unclean()) } else { Ok(None) };
        }
    }
    let lost = contents.checkpoints_lost();
    if !lost && !contents.is_clean() {
        return Err(unclean());
    }
    // Without a checkpoint of its own the directory must be half released, its checkpoints being there already.
    let found = numbered(disk, base, |folder| {
        let open = is_unfinished(directory, folder)?;
        Ok(open && fits(disk, &COPIES, log_path, folder)? && (!lost || holds_clean(directory, folder)?))
    });
    let found = found.map_err(doing(format!("looking for a place beside {}", log_path.display())))?;
    let begun = disk.metadata(&found).map_err(doing(format!("looking at {}", found.display())))?.is_some();
    if lost && !begun {
        return Err(OpenError::from(CheckpointError::Damaged { folder: log_path.clone() }).into());
    }
    Ok(Some(found))
}

/// Whether a release into a folder wasn't finished: its `metaq.format` isn't there, or still here when all else is gone
/// (it was being copied).
fn is_unfinished(directory: &Directory, folder: &Path) -> io::Result<bool> {
    let disk = &*directory.disk;
    let (here, there) = (directory.log_path.join(format::NAME), folder.join(format::NAME));
    if disk.metadata(&there)?.is_none() {
        return Ok(true);
    }
    Ok(disk.metadata(&commit_folder(directory))?.is_none() && same(disk, &here, &there)?)
}

/// Whether a checkpoint of a clean stop stands in a folder.
fn holds_clean(directory: &Directory, folder: &Path) -> io::Result<bool> {
    for name in COPIES {
        let bytes = read_whole(&*directory.disk, &folder.join(name))?;
        let whole = bytes.and_then(|bytes| Checkpoint::decode(&bytes).ok());
        if whole.is_some_and(|checkpoint| checkpoint.clean) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn move_out(directory: &Directory, contents: &Contents, to: &Path) -> io::Result<u64> {
    let (disk, log_path) = (&*directory.disk, &directory.log_path);
    create_folder(disk, to)?;
    let mut moved = 0;
    for folder in contents.folders.iter().chain(&contents.twice) {
        let mut ours = names(disk, &folder.path)?;
        ours.retain(|(name, kind)| {
            *kind == Kind::File && (name.ends_with(INDEX_SUFFIX) || name.ends_with(UNFINISHED_ARCHIVE))
        });
        if ours.is_empty() {
            continue;
        }
        let ours: Vec<String> = ours.into_iter().map(|(name, _)| name).collect();
        let target = to.join(folder.name());
        create_folder(disk, &target)?;
        moved += move_names(disk, &ours, &folder.path, &target)?;
    }
    let beside = names(disk, log_path)?.into_iter().map(|(name, _)| name);
    let beside: Vec<String> = beside.filter(|name| is_ours_beside(name)).collect();
    moved += move_names(disk, &beside, log_path, to)?;
    if disk.metadata(&log_path.join(UNFINISHED))?.is_some() {
        disk.remove_file(&log_path.join(UNFINISHED))?;
    }
    for name in COPIES {
        moved += move_names(disk, &[name.to_owned()], log_path, to)?;
    }
    moved += move_log(directory, to)?;
    moved += move_names(disk, &[format::NAME.to_owned()], log_path, to)?;
    disk.sync_dir(&folder_of(to))?;
    Ok(moved)
}

/// What stands in the log path beside the files that every directory has.
fn is_ours_beside(name: &str) -> bool {
    name.starts_with("metaq.") && name != format::NAME && name != held::NAME
}

/// The commit log of a clean stop holds nothing that is needed: where it can't be renamed it is removed.
fn move_log(directory: &Directory, to: &Path) -> io::Result<u64> {
    let (disk, from) = (&*directory.disk, commit_folder(directory));
    if disk.metadata(&from)?.is_none() {
        return Ok(0);
    }
    let target = to.join("commit");
    create_folder(disk, &target)?;
    let mut moved = 0;
    for (name, _) in names(disk, &from)? {
        match disk.rename(&from.join(&name), &target.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => disk.remove_file(&from.join(&name))?,
            renamed => renamed?,
        }
        moved += 1;
    }
    disk.sync_dir(&target)?;
    disk.remove_dir(&from)?;
    disk.sync_dir(&directory.log_path)?;
    Ok(moved)
}

#[cfg(test)]
mod tests;
