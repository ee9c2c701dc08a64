//! Files of a data directory, looked at and damaged from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a folder with all below it.
///
/// # Panics
/// If it can't be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("can't make {}: {error}", to.display()));
    for path in list(from) {
        let target = to.join(path.file_name().expect("a listed path has a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap_or_else(|error| panic!("can't copy {}: {error}", path.display()));
        }
    }
}

/// What is in a folder, sorted by name.
///
/// # Panics
/// If it can't be read.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("can't list {}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    paths
}

/// The segments of a partition's folder, sorted by position.
pub fn segments(partition: &Path) -> Vec<PathBuf> {
    list(partition).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "meta")).collect()
}

/// The content of each file in a folder by its name, folders left out.
///
/// # Panics
/// If a file can't be read.
pub fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    list(folder)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().expect("a listed path has a name").to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap_or_else(|error| panic!("can't read {}: {error}", path.display())))
        })
        .collect()
}

/// Flips one bit of a file.
///
/// # Panics
/// If the file is shorter, or can't be read or written.
pub fn flip_bit(path: &Path, byte: usize, bit: u32) {
    let mut bytes = fs::read(path).unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()));
    bytes[byte] ^= 1 << bit;
    fs::write(path, bytes).unwrap_or_else(|error| panic!("can't write {}: {error}", path.display()));
}

/// Makes a file shorter or longer.
///
/// # Panics
/// If it can't be changed.
pub fn set_len(path: &Path, len: u64) {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(len))
        .unwrap_or_else(|error| panic!("can't change {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_copy_has_all_and_damage_stays_in_it() {
        let folder = Folder::new();
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("t-0")).unwrap();
        fs::write(from.join("t-0/1.meta"), [1, 2, 3]).unwrap();
        fs::write(from.join("t-0/notes.txt"), "x").unwrap();
        copy_folder(&from, &to);
        assert_eq!(contents(&from.join("t-0")), contents(&to.join("t-0")));
        flip_bit(&to.join("t-0/1.meta"), 1, 0);
        assert_eq!(fs::read(to.join("t-0/1.meta")).unwrap(), [1, 3, 3]);
        set_len(&to.join("t-0/1.meta"), 1);
        assert_eq!(fs::read(to.join("t-0/1.meta")).unwrap(), [1]);
        assert_eq!(segments(&from.join("t-0")), [from.join("t-0/1.meta")]);
        assert_eq!(fs::read(from.join("t-0/1.meta")).unwrap(), [1, 2, 3]);
    }
}
