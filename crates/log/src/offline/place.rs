//! Moving files between folders so that a crash loses none: renamed where that is possible, copied to another file
//! system where it isn't.
//!
//! A file that stands in both places after a crash in the middle of a copy is the same in both: moving it again
//! finishes.

use metaq_disk::{Disk, Kind, Open, read_exact_at, write_all_at};
use std::io;
use std::path::{Path, PathBuf};

const PIECE_BYTES: usize = 1 << 20;

/// The folder that a path stands in; `.` for a bare name.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    }
}

/// The path with `suffix` behind its name; `None` for a path that has no name (`/`, `..`).
pub(super) fn with_suffix(path: &Path, suffix: &str) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(folder_of(path).join(name + suffix))
}

/// Creates a folder, durably.
pub(super) fn create_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    disk.create_dir(folder)?;
    disk.sync_dir(&folder_of(folder))
}

/// The names in a folder, sorted; none if it isn't there.
pub(super) fn names(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<(String, Kind)>> {
    let listed = match disk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut names: Vec<_> = listed.into_iter().map(|listed| (listed.name, listed.kind)).collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

/// Moves these names from one folder to another, durably: first they are safe there, then they are gone here. Names
/// that aren't there are passed over. Gives how many were moved.
pub(super) fn move_names(disk: &dyn Disk, names: &[String], from: &Path, to: &Path) -> io::Result<u64> {
    let mut moved = 0;
    for name in names {
        moved += move_tree(disk, &from.join(name), &to.join(name))?;
    }
    if moved > 0 {
        disk.sync_dir(to)?;
        disk.sync_dir(from)?;
    }
    Ok(moved)
}

fn move_tree(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<u64> {
    match disk.metadata(from)?.map(|found| found.kind) {
        None => Ok(0),
        Some(Kind::Folder) => {
            let names: Vec<String> = names(disk, from)?.into_iter().map(|(name, _)| name).collect();
            create_folder(disk, to)?;
            let moved = move_names(disk, &names, from, to)?;
            disk.remove_dir(from)?;
            Ok(moved.max(1))
        }
        Some(_) => {
            match disk.rename(from, to) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                    copy(disk, from, to)?;
                    disk.remove_file(from)?;
                }
                renamed => renamed?,
            }
            Ok(1)
        }
    }
}

/// Copies a file, durably; under its name it is never half there. Zeros become holes.
pub(super) fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
    let unfinished = with_suffix(to, ".unfinished").ok_or(io::ErrorKind::InvalidInput)?;
    let source = disk.open(from, Open::Read)?;
    let target = disk.open(&unfinished, Open::Create)?;
    let len = source.len()?;
    target.set_len(0)?;
    target.set_len(len)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < len {
        let bytes = usize::try_from((len - at).min(PIECE_BYTES as u64)).expect("at most a piece");
        read_exact_at(&*source, &mut piece[..bytes], at)?;
        if piece[..bytes].iter().any(|byte| *byte != 0) {
            write_all_at(&*target, &piece[..bytes], at)?;
        }
        at += bytes as u64;
    }
    target.sync()?;
    disk.rename(&unfinished, to)?;
    disk.sync_dir(&folder_of(to))
}

/// Whether two files hold the same bytes.
pub(super) fn same(disk: &dyn Disk, one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (disk.open(one, Open::Read)?, disk.open(other, Open::Read)?);
    let len = one.len()?;
    if len != other.len()? {
        return Ok(false);
    }
    let mut pieces = [vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]];
    let mut at = 0;
    while at < len {
        let bytes = usize::try_from((len - at).min(PIECE_BYTES as u64)).expect("at most a piece");
        for (file, piece) in [&one, &other].into_iter().zip(&mut pieces) {
            read_exact_at(&**file, &mut piece[..bytes], at)?;
        }
        if pieces[0][..bytes] != pieces[1][..bytes] {
            return Ok(false);
        }
        at += bytes as u64;
    }
    Ok(true)
}

/// The first of `base`, `base.2`, `base.3` … that is free, or that `usable` says may be gone on with.
pub(super) fn numbered(
    disk: &dyn Disk,
    base: &Path,
    mut usable: impl FnMut(&Path) -> io::Result<bool>,
) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!(".{number}") };
        let path = with_suffix(base, &suffix).ok_or(io::ErrorKind::InvalidInput)?;
        if disk.metadata(&path)?.is_none() || usable(&path)? {
            return Ok(path);
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::read_whole;
    use crate::offline::testing::TwoFileSystems;
    use metaq_disk::{CrashChoice, FaultyDisk};

    fn write(disk: &dyn Disk, path: &str, bytes: &[u8]) {
        let file = disk.open(Path::new(path), Open::Create).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(&folder_of(Path::new(path))).unwrap();
    }

    fn prepared() -> FaultyDisk {
        let disk = FaultyDisk::new(1);
        for folder in ["/a", "/a/inner", "/b"] {
            create_folder(&disk, Path::new(folder)).unwrap();
        }
        write(&disk, "/a/one", b"first");
        write(&disk, "/a/inner/two", b"second");
        disk
    }

    fn move_all(disk: &dyn Disk) -> io::Result<u64> {
        move_names(disk, &["one".to_owned(), "inner".to_owned(), "absent".to_owned()], Path::new("/a"), Path::new("/b"))
    }

    fn content(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
        read_whole(disk, Path::new(path)).unwrap_or(None)
    }

    #[test]
    fn a_move_that_is_interrupted_anywhere_loses_nothing_and_can_be_finished() {
        for crossing in [false, true] {
            let on = |disk: FaultyDisk| -> Box<dyn Disk> {
                if crossing { Box::new(TwoFileSystems(disk, "/b".into())) } else { Box::new(disk) }
            };
            let whole = prepared();
            let before = whole.operations();
            move_all(&*on(whole.clone())).unwrap();
            for cut in before..whole.operations() {
                let disk = prepared();
                disk.cut_power_after(cut);
                assert!(move_all(&*on(disk.clone())).is_err(), "cut after {cut}");
                for choice in [CrashChoice::Nothing, CrashChoice::Everything, CrashChoice::Random(cut)] {
                    let image = disk.crash_image(&mut choice.clone());
                    let held = ["/a/one", "/b/one"].into_iter().filter_map(|path| content(&image, path));
                    assert!(held.into_iter().all(|bytes| bytes == b"first"), "cut after {cut}, {choice:?}");
                    move_all(&*on(image.clone())).unwrap();
                    let found = (content(&image, "/b/one"), content(&image, "/b/inner/two"), content(&image, "/a/one"));
                    let wanted = (Some(b"first".to_vec()), Some(b"second".to_vec()), None);
                    assert_eq!(found, wanted, "crossing {crossing}, cut after {cut}, {choice:?}");
                }
            }
        }
    }

    #[test]
    fn only_equal_files_are_the_same() {
        let disk = prepared();
        write(&disk, "/b/one", b"first");
        write(&disk, "/b/longer", b"first and more");
        write(&disk, "/b/other", b"fiRst");
        for (other, equal) in [("/b/one", true), ("/b/longer", false), ("/b/other", false)] {
            assert_eq!(same(&disk, Path::new("/a/one"), Path::new(other)).unwrap(), equal, "{other}");
        }
    }

    #[test]
    fn a_bare_name_stands_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("data")), Path::new("."));
        assert_eq!(with_suffix(Path::new("data"), ".metaq"), Some("./data.metaq".into()));
        assert_eq!(with_suffix(Path::new("/"), ".metaq"), None);
    }
}
