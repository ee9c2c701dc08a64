//! What every disk does, run on the operating system's and on the simulated one.
#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

mod shared;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, SystemTime};

use metaq_disk::{Disk, FaultyDisk, Kind, Listed, Open, RealDisk, read_exact_at};
use shared::{bytes_of, create, names, read, write, write_durably};

/// Makes each function a test of both disks, in an empty folder.
macro_rules! on_both_disks {
    ($($test:ident)*) => {
        mod real {
            $(#[test]
            fn $test() {
                let folder = tempfile::tempdir().expect("a folder for the test");
                super::$test(&super::RealDisk, folder.path());
            })*
        }
        mod simulated {
            $(#[test]
            fn $test() {
                let disk = super::FaultyDisk::new(1);
                let folder = super::Path::new("/test");
                super::Disk::create_dir(&disk, folder).expect("a folder for the test");
                super::$test(&disk, folder);
            })*
        }
    };
}

on_both_disks! {
    reading_stops_at_the_end
    writing_behind_the_end_leaves_zeros
    opening_for_reading_forbids_writing
    each_way_to_open_says_what_must_exist
    creating_keeps_what_is_there
    folders_do_not_open
    zeros_replace_and_extend
    zeros_far_behind_the_end_leave_a_hole
    cutting_and_extending
    renaming_replaces
    renaming_over_a_second_name_of_the_same_file_changes_nothing
    renaming_follows_the_kind
    renaming_moves_a_folder_with_all_in_it
    a_removed_file_stays_readable_where_it_is_open
    a_removed_name_can_be_created_anew
    links_share_bytes
    folders_are_created_with_their_parents
    only_empty_folders_are_removed
    listing_names_kinds
    metadata_of_what_is_there_and_what_is_not
    a_missing_parent_is_an_error
    a_lock_excludes_until_it_is_dropped
    a_lock_keeps_the_bytes_of_its_file
    syncing_succeeds
    space_is_within_the_total
    written_files_are_dated
    clones_of_a_handle_write_one_file
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("an error was due"),
        Err(error) => error.kind(),
    }
}

fn reading_stops_at_the_end(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), b"0123456789");
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(&mut bytes, 4).unwrap(), 6);
    assert_eq!(&bytes[..6], b"456789");
    assert_eq!(file.read_at(&mut bytes, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut bytes, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(kind(read_exact_at(&*file, &mut bytes, 4)), ErrorKind::UnexpectedEof);
    assert!(!file.is_empty().unwrap());
}

fn writing_behind_the_end_leaves_zeros(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), b"ab");
    assert_eq!(file.write_at(b"cd", 5000).unwrap(), 2);
    assert_eq!(file.write_at(b"", 9000).unwrap(), 0);
    let bytes = bytes_of(&*file);
    assert_eq!(bytes.len(), 5002);
    assert_eq!(bytes[..2], *b"ab");
    assert_eq!(bytes[2..5000], [0; 4998]);
    assert_eq!(bytes[5000..], *b"cd");
}

fn opening_for_reading_forbids_writing(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("a");
    write(disk, &path, b"abc");
    let file = disk.open(&path, Open::Read).unwrap();
    assert!(file.write_at(b"x", 0).is_err());
    assert!(file.write_zeros(0..8192).is_err());
    assert!(file.set_len(0).is_err());
    file.sync().unwrap();
    assert_eq!(bytes_of(&*file), b"abc");
}

fn each_way_to_open_says_what_must_exist(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("a");
    assert_eq!(kind(disk.open(&path, Open::Read)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open(&path, Open::Write)), ErrorKind::NotFound);
    assert!(disk.open(&path, Open::CreateNew).unwrap().is_empty().unwrap());
    assert_eq!(kind(disk.open(&path, Open::CreateNew)), ErrorKind::AlreadyExists);
    for how in [Open::Write, Open::Create] {
        let file = disk.open(&path, how).unwrap();
        assert_eq!(file.write_at(b"x", 0).unwrap(), 1);
        assert_eq!(file.read_at(&mut [0; 4], 0).unwrap(), 1);
    }
}

fn creating_keeps_what_is_there(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("a");
    write(disk, &path, b"abc");
    assert_eq!(bytes_of(&*create(disk, &path)), b"abc");
}

fn folders_do_not_open(disk: &dyn Disk, folder: &Path) {
    for how in [Open::Read, Open::Write, Open::Create] {
        assert_eq!(kind(disk.open(folder, how)), ErrorKind::IsADirectory);
    }
    assert_eq!(kind(disk.open(folder, Open::CreateNew)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.lock(folder)), ErrorKind::IsADirectory);
}

fn zeros_replace_and_extend(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), &[7; 20_000]);
    file.write_zeros(100..100).unwrap();
    file.write_zeros(100..200).unwrap();
    file.write_zeros(5000..15_000).unwrap();
    file.write_zeros(19_000..30_000).unwrap();
    let mut expected = vec![7; 30_000];
    for zeros in [100..200, 5000..15_000, 19_000..30_000] {
        expected[zeros].fill(0);
    }
    assert!(bytes_of(&*file) == expected);
    file.sync().unwrap();
    assert!(bytes_of(&*file) == expected);
}

fn zeros_far_behind_the_end_leave_a_hole(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), b"ab");
    file.write_zeros(3 << 20..(5 << 20) + 7).unwrap();
    assert_eq!(file.len().unwrap(), (5 << 20) + 7);
    let bytes = bytes_of(&*file);
    assert_eq!(bytes[..2], *b"ab");
    assert!(bytes[2..].iter().all(|&byte| byte == 0));
}

fn cutting_and_extending(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), &[7; 10_000]);
    file.set_len(4500).unwrap();
    assert!(bytes_of(&*file) == [7; 4500]);
    file.set_len(9000).unwrap();
    let bytes = bytes_of(&*file);
    assert_eq!(bytes[..4500], [7; 4500]);
    assert_eq!(bytes[4500..], [0; 4500]);
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
}

fn renaming_replaces(disk: &dyn Disk, folder: &Path) {
    let (a, b) = (folder.join("a"), folder.join("b"));
    write(disk, &a, b"new");
    let old = write(disk, &b, b"old");
    disk.rename(&a, &b).unwrap();
    assert_eq!(names(disk, folder), ["b"]);
    assert_eq!(read(disk, &b).unwrap(), b"new");
    assert_eq!(bytes_of(&*old), b"old");
    assert_eq!(kind(disk.rename(&a, &b)), ErrorKind::NotFound);
    disk.rename(&b, &b).unwrap();
    assert_eq!(read(disk, &b).unwrap(), b"new");
}

fn renaming_over_a_second_name_of_the_same_file_changes_nothing(disk: &dyn Disk, folder: &Path) {
    let (a, b) = (folder.join("a"), folder.join("b"));
    write(disk, &a, b"x");
    disk.link(&a, &b).unwrap();
    disk.rename(&a, &b).unwrap();
    assert_eq!(names(disk, folder), ["a", "b"]);
}

fn renaming_follows_the_kind(disk: &dyn Disk, folder: &Path) {
    let (file, empty, full) = (folder.join("file"), folder.join("empty"), folder.join("full"));
    write(disk, &file, b"x");
    disk.create_dir(&empty).unwrap();
    disk.create_dir(&full.join("inner")).unwrap();
    assert_eq!(kind(disk.rename(&file, &empty)), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(&empty, &file)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.rename(&empty, &full)), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.rename(&full, &full.join("inner/deep"))), ErrorKind::InvalidInput);
    disk.rename(&full, &empty).unwrap();
    assert_eq!(names(disk, folder), ["empty", "file"]);
    assert_eq!(names(disk, &empty), ["inner"]);
}

fn renaming_moves_a_folder_with_all_in_it(disk: &dyn Disk, folder: &Path) {
    let (from, to) = (folder.join("from/deep"), folder.join("to"));
    disk.create_dir(&from).unwrap();
    disk.create_dir(&to).unwrap();
    let file = write(disk, &from.join("a"), b"x");
    disk.rename(&from, &to.join("moved")).unwrap();
    assert_eq!(names(disk, &folder.join("from")), [""; 0]);
    assert_eq!(read(disk, &to.join("moved/a")).unwrap(), b"x");
    file.write_at(b"y", 0).unwrap();
    assert_eq!(read(disk, &to.join("moved/a")).unwrap(), b"y");
}

fn a_removed_file_stays_readable_where_it_is_open(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("a");
    let file = write(disk, &path, b"abc");
    disk.remove_file(&path).unwrap();
    assert_eq!(disk.metadata(&path).unwrap(), None);
    assert_eq!(kind(disk.remove_file(&path)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open(&path, Open::Read)), ErrorKind::NotFound);
    assert_eq!(file.write_at(b"d", 3).unwrap(), 1);
    file.write_zeros(4..5000).unwrap();
    file.sync().unwrap();
    assert_eq!(bytes_of(&*file)[..4], *b"abcd");
}

fn a_removed_name_can_be_created_anew(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("a");
    let old = write(disk, &path, b"old");
    disk.remove_file(&path).unwrap();
    let new = disk.open(&path, Open::CreateNew).unwrap();
    assert!(new.is_empty().unwrap());
    assert_eq!(bytes_of(&*old), b"old");
}

fn links_share_bytes(disk: &dyn Disk, folder: &Path) {
    let (a, b) = (folder.join("a"), folder.join("b"));
    let file = write(disk, &a, b"one");
    disk.link(&a, &b).unwrap();
    file.write_at(b"two", 0).unwrap();
    assert_eq!(read(disk, &b).unwrap(), b"two");
    assert_eq!(kind(disk.link(&a, &b)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.link(&folder.join("none"), &folder.join("c"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.link(folder, &folder.join("c"))), ErrorKind::PermissionDenied);
    disk.remove_file(&a).unwrap();
    assert_eq!(read(disk, &b).unwrap(), b"two");
}

fn folders_are_created_with_their_parents(disk: &dyn Disk, folder: &Path) {
    let deep = folder.join("x/y/z");
    disk.create_dir(&deep).unwrap();
    disk.create_dir(&deep).unwrap();
    assert_eq!(disk.metadata(&deep).unwrap().unwrap().kind, Kind::Folder);
    write(disk, &folder.join("file"), b"x");
    assert_eq!(kind(disk.create_dir(&folder.join("file"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.create_dir(&folder.join("file/inner"))), ErrorKind::NotADirectory);
}

fn only_empty_folders_are_removed(disk: &dyn Disk, folder: &Path) {
    let inner = folder.join("inner");
    disk.create_dir(&inner).unwrap();
    write(disk, &inner.join("a"), b"x");
    assert_eq!(kind(disk.remove_dir(&inner)), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_dir(&inner.join("a"))), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.remove_file(&inner)), ErrorKind::IsADirectory);
    disk.remove_file(&inner.join("a")).unwrap();
    disk.remove_dir(&inner).unwrap();
    assert_eq!(kind(disk.remove_dir(&inner)), ErrorKind::NotFound);
    assert_eq!(kind(disk.list(&inner)), ErrorKind::NotFound);
}

fn listing_names_kinds(disk: &dyn Disk, folder: &Path) {
    write(disk, &folder.join("file"), b"x");
    disk.create_dir(&folder.join("inner/deep")).unwrap();
    let mut listed = disk.list(folder).unwrap();
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let expected = [("file", Kind::File), ("inner", Kind::Folder)];
    assert_eq!(listed, expected.map(|(name, kind)| Listed { name: name.to_owned(), kind }));
    assert_eq!(kind(disk.list(&folder.join("file"))), ErrorKind::NotADirectory);
}

fn metadata_of_what_is_there_and_what_is_not(disk: &dyn Disk, folder: &Path) {
    write(disk, &folder.join("a"), b"abc");
    let file = disk.metadata(&folder.join("a")).unwrap().unwrap();
    assert_eq!((file.kind, file.len), (Kind::File, 3));
    let inside = disk.metadata(folder).unwrap().unwrap();
    assert_eq!((inside.kind, inside.len), (Kind::Folder, 0));
    for nothing in ["b", "b/c", "a/c"] {
        assert_eq!(disk.metadata(&folder.join(nothing)).unwrap(), None, "{nothing}");
    }
}

fn a_missing_parent_is_an_error(disk: &dyn Disk, folder: &Path) {
    write(disk, &folder.join("a"), b"x");
    let (nowhere, inside_file) = (folder.join("none/b"), folder.join("a/b"));
    assert_eq!(kind(disk.open(&nowhere, Open::Create)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open(&inside_file, Open::Create)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.rename(&folder.join("a"), &nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.link(&folder.join("a"), &nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.lock(&nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.sync_dir(&nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.sync_all(&nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.space(&nowhere)), ErrorKind::NotFound);
}

fn a_lock_excludes_until_it_is_dropped(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("lock");
    let held = disk.lock(&path).unwrap().expect("nobody holds it");
    assert!(disk.lock(&path).unwrap().is_none());
    let other = disk.lock(&folder.join("other")).unwrap();
    assert!(other.is_some());
    drop(held);
    assert!(disk.lock(&path).unwrap().is_some());
}

fn a_lock_keeps_the_bytes_of_its_file(disk: &dyn Disk, folder: &Path) {
    let path = folder.join("lock");
    write(disk, &path, b"4711");
    let _held = disk.lock(&path).unwrap().expect("nobody holds it");
    assert_eq!(read(disk, &path).unwrap(), b"4711");
}

fn syncing_succeeds(disk: &dyn Disk, folder: &Path) {
    let file = write_durably(disk, &folder.join("a"), b"abc");
    file.sync().unwrap();
    disk.sync_all(folder).unwrap();
    disk.sync_all(&folder.join("a")).unwrap();
    assert_eq!(kind(disk.sync_dir(&folder.join("a"))), ErrorKind::NotADirectory);
    assert!(file.is_cached(0..3));
    assert!(file.is_cached(0..0));
}

fn space_is_within_the_total(disk: &dyn Disk, folder: &Path) {
    let space = disk.space(folder).unwrap();
    assert!(0 < space.free && space.free <= space.total, "{space:?}");
}

fn written_files_are_dated(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), b"abc");
    let by_name = disk.metadata(&folder.join("a")).unwrap().unwrap().modified;
    assert_eq!(file.modified().unwrap(), by_name);
    assert!(by_name > SystemTime::UNIX_EPOCH + Duration::from_secs(1));
}

fn clones_of_a_handle_write_one_file(disk: &dyn Disk, folder: &Path) {
    let file = write(disk, &folder.join("a"), &[0; 8]);
    std::thread::scope(|scope| {
        for place in 0..8 {
            let file = file.clone();
            scope.spawn(move || file.write_at(&[place], u64::from(place)).expect("the file can be written"));
        }
    });
    assert_eq!(bytes_of(&*file), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn links_and_sockets_are_listed_as_other() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    let listed = RealDisk.list(folder.path()).unwrap();
    assert_eq!(listed, [Listed { name: "link".to_owned(), kind: Kind::Other }]);
    let found = RealDisk.metadata(&folder.path().join("link")).unwrap().unwrap();
    assert_eq!((found.kind, found.len), (Kind::Other, 0));
}

#[test]
fn a_real_file_has_a_descriptor_and_a_simulated_one_has_not() {
    let folder = tempfile::tempdir().unwrap();
    assert!(create(&RealDisk, &folder.path().join("a")).descriptor().is_some());
    assert!(create(&FaultyDisk::new(1), Path::new("/a")).descriptor().is_none());
}

/// Both descriptors of a file agree on its bytes, and its blocks are its own: a hole would take no room.
#[test]
fn real_zeros_own_their_blocks() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let file = create(&RealDisk, &path);
    file.write_zeros(0..4 << 20).unwrap();
    file.sync().unwrap();
    assert_eq!(file.len().unwrap(), 4 << 20);
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 4 << 20);
    file.write_at(&[9; 4096], 1 << 20).unwrap();
    file.write_zeros(1 << 20..(1 << 20) + 4096).unwrap();
    assert!(bytes_of(&*file).iter().all(|&byte| byte == 0));
}
