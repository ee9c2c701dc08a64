//! The redo journal of an original broker: a data directory that holds one is refused, since what is prepared in it
//! would be forgotten.

use crate::exit::{Exit, Failure};
use metaq_disk::{Disk, Kind};
use std::io;
use std::path::{Path, PathBuf};

/// The folder of an original's transactions, in its `dataLogPath`.
const FOLDER: &str = "transactions";

/// The journals of an original that hold something.
fn journals(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<PathBuf>> {
    if disk.metadata(folder)?.is_none_or(|metadata| metadata.kind != Kind::Folder) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for listed in disk.list(folder)? {
        let path = folder.join(&listed.name);
        if listed.name.starts_with("redo.") && disk.metadata(&path)?.is_some_and(|metadata| metadata.len > 0) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Refuses a directory with transactions of an original broker; with `set_aside` their folder is renamed instead. Gives
/// the folder's new name if it was renamed.
pub fn refuse(disk: &dyn Disk, log_path: &Path, set_aside: bool) -> Result<Option<PathBuf>, Failure> {
    let folder = log_path.join(FOLDER);
    let failed = |error| Failure::new(Exit::Directory, format!("{} can't be looked at: {error}", folder.display()));
    let journals = journals(disk, &folder).map_err(failed)?;
    let Some(first) = journals.first() else { return Ok(None) };
    if !set_aside {
        let text = format!(
            "{} holds transactions of an original broker, which this version can't take over: prepared ones would be \
             forgotten. Start the original, let its transactions end and stop it; or start with \
             --set-aside-transactions, which renames the folder and forgets them",
            first.display()
        );
        return Err(Failure::new(Exit::Directory, text));
    }
    let aside = free_name(disk, log_path).map_err(failed)?;
    disk.rename(&folder, &aside)
        .and_then(|()| disk.sync_dir(log_path))
        .map_err(|error| Failure::new(Exit::Directory, format!("{} can't be renamed: {error}", folder.display())))?;
    Ok(Some(aside))
}

/// A name that nothing has. It holds no `-`: an original broker takes such a folder for a partition.
fn free_name(disk: &dyn Disk, log_path: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("_{number}") };
        let path = log_path.join(format!("{FOLDER}.set_aside{suffix}"));
        if disk.metadata(&path)?.is_none() {
            return Ok(path);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_disk::{FaultyDisk, Open, write_all_at};

    fn directory(files: &[(&str, &[u8])]) -> FaultyDisk {
        let disk = FaultyDisk::new(1);
        disk.create_dir(Path::new("/log/transactions")).unwrap();
        for (name, bytes) in files {
            let file = disk.open(&Path::new("/log").join(name), Open::CreateNew).unwrap();
            write_all_at(&*file, bytes, 0).unwrap();
        }
        disk
    }

    fn refused(disk: &FaultyDisk, set_aside: bool) -> Result<Option<PathBuf>, Failure> {
        refuse(disk, Path::new("/log"), set_aside)
    }

    #[test]
    fn a_directory_without_journals_or_with_empty_ones_is_taken() {
        assert_eq!(refused(&FaultyDisk::new(1), false), Ok(None));
        let disk = directory(&[("transactions/redo.1", b""), ("transactions/checkpoint.1", b"{}")]);
        assert_eq!(refused(&disk, true), Ok(None));
    }

    #[test]
    fn a_journal_that_holds_something_is_refused_and_stays_where_it_is() {
        let disk = directory(&[("transactions/redo.1", b""), ("transactions/redo.2", b"x")]);
        let failure = refused(&disk, false).unwrap_err();
        assert_eq!(failure.exit, Exit::Directory);
        assert!(failure.text.contains("/log/transactions/redo.2 holds transactions"), "{failure}");
        assert!(failure.text.contains("--set-aside-transactions"), "{failure}");
        assert!(disk.metadata(Path::new("/log/transactions/redo.2")).unwrap().is_some());
    }

    #[test]
    fn set_aside_is_a_name_that_no_original_takes_for_a_partition() {
        let disk = directory(&[("transactions/redo.1", b"x")]);
        let aside = refused(&disk, true).unwrap().unwrap();
        assert_eq!(aside, Path::new("/log/transactions.set_aside"));
        assert!(disk.metadata(&aside.join("redo.1")).unwrap().is_some());
        disk.create_dir(Path::new("/log/transactions")).unwrap();
        write_all_at(&*disk.open(Path::new("/log/transactions/redo.1"), Open::CreateNew).unwrap(), b"y", 0).unwrap();
        assert_eq!(refused(&disk, true).unwrap().unwrap(), Path::new("/log/transactions.set_aside_2"));
        assert_eq!(refused(&disk, false), Ok(None));
    }
}
