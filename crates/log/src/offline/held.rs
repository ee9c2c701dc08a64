//! The directory's lock, held while something works on it.

use super::{Directory, OfflineError};
use crate::recovery::{OpenError, doing};
use metaq_disk::{Disk, Lock};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the lock file in the log path.
pub(super) const NAME: &str = "lock";

/// The lock. A lock file that was made for it goes with it: an original's directory stays an original's.
#[derive(Debug)]
pub(super) struct Held {
    lock: Option<Box<dyn Lock>>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    made: bool,
}

impl Held {
    /// For looking: no lock file is made. Without one no broker was ever here.
    pub(super) fn to_look(directory: &Directory) -> Result<Self, OfflineError> {
        Self::take(directory, false)
    }

    /// For changing.
    pub(super) fn to_change(directory: &Directory) -> Result<Self, OfflineError> {
        Self::take(directory, true)
    }

    fn take(directory: &Directory, make: bool) -> Result<Self, OfflineError> {
        let disk = Arc::clone(&directory.disk);
        let path = directory.log_path.join(NAME);
        let io = |path: &Path| doing(format!("locking {}", path.display()));
        let stands = disk.metadata(&path).map_err(io(&path))?.is_some();
        if !stands && !make {
            return Ok(Self { lock: None, disk, path, made: false });
        }
        let lock = disk.lock(&path).map_err(io(&path))?;
        let lock = lock.ok_or_else(|| OpenError::Locked(path.clone()))?;
        Ok(Self { lock: Some(lock), disk, path, made: !stands })
    }

    /// The lock file goes when the lock is given back.
    pub(super) fn remove_at_end(&mut self) {
        self.made = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.made {
            // An empty file that stays behind hurts nobody.
            let _ = self.disk.remove_file(&self.path);
        }
        self.lock = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::testing::Bench;

    #[test]
    fn looking_makes_no_lock_file_and_changing_takes_its_own_away() {
        let bench = Bench::foreign();
        let lock = bench.directory.log_path.join(NAME);
        drop(Held::to_look(&bench.directory).unwrap());
        assert!(!bench.stands(&lock));
        let held = Held::to_change(&bench.directory).unwrap();
        assert!(bench.stands(&lock));
        drop(held);
        assert!(!bench.stands(&lock));
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let bench = Bench::foreign();
        let _held = Held::to_change(&bench.directory).unwrap();
        for take in [Held::to_look, Held::to_change] {
            let refused = take(&bench.directory).unwrap_err();
            assert!(matches!(refused, OfflineError::Open(OpenError::Locked(_))), "{refused}");
        }
    }
}
