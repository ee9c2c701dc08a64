//! Short words for what the tests of disks do all the time.
#![allow(dead_code, reason = "each test binary uses its share")]

use std::path::Path;
use std::sync::Arc;

use metaq_disk::{Disk, File, Open, read_exact_at, write_all_at};

/// Opens a file, created if it isn't there.
pub fn create(disk: &dyn Disk, path: &Path) -> Arc<dyn File> {
    disk.open(path, Open::Create).expect("the file can be created")
}

/// Creates a file with these bytes; nothing is synced.
pub fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(disk, path);
    file.set_len(0).expect("the file can be cut");
    write_all_at(&*file, bytes, 0).expect("the file can be written");
    file
}

/// Creates a file whose bytes and name are durable.
pub fn write_durably(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Arc<dyn File> {
    let file = write(disk, path, bytes);
    file.sync().expect("the file can be synced");
    disk.sync_dir(path.parent().expect("the file is in a folder")).expect("the folder can be synced");
    file
}

/// All bytes of an open file.
pub fn bytes_of(file: &dyn File) -> Vec<u8> {
    let len = usize::try_from(file.len().expect("the length is known")).expect("the file is small");
    let mut bytes = vec![0xee; len];
    read_exact_at(file, &mut bytes, 0).expect("the file is readable up to its length");
    bytes
}

/// All bytes of a file; `None` if it isn't there.
pub fn read(disk: &dyn Disk, path: &Path) -> Option<Vec<u8>> {
    let found = disk.metadata(path).expect("the path can be looked up");
    found.map(|_| bytes_of(&*disk.open(path, Open::Read).expect("what is there can be opened")))
}

/// The names in a folder, sorted.
pub fn names(disk: &dyn Disk, folder: &Path) -> Vec<String> {
    let listed = disk.list(folder).expect("the folder can be listed");
    let mut names: Vec<String> = listed.into_iter().map(|listed| listed.name).collect();
    names.sort();
    names
}
