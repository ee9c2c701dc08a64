//! The faults of a simulated disk that are no power cut.

mod shared;

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use metaq_disk::{CrashChoice, Disk, Fault, FaultyDisk, Open, read_exact_at, write_all_at};
use shared::{bytes_of, create, names, read, write, write_durably};

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// `EIO`, which has no kind of its own.
const INPUT_OUTPUT: Option<i32> = Some(5);

#[test]
fn short_writes_are_gone_on_with() {
    let disk = FaultyDisk::new(1);
    let file = create(&disk, path("/a"));
    disk.inject("/a", Fault::ShortWrite, 0..u64::MAX);
    let bytes: Vec<u8> = (0..1000u16).map(|number| (number % 251) as u8).collect();
    assert!(file.write_at(&bytes, 0).unwrap() < bytes.len());
    write_all_at(&*file, &bytes, 0).unwrap();
    assert_eq!(bytes_of(&*file), bytes);
    assert!(disk.faults_fired() > 2);
}

#[test]
fn short_reads_are_gone_on_with() {
    let disk = FaultyDisk::new(1);
    let file = write(&disk, path("/a"), b"0123456789");
    disk.inject("", Fault::ShortRead, 0..1);
    let mut bytes = [0; 10];
    let len = file.read_at(&mut bytes, 0).unwrap();
    assert!((1..10).contains(&len));
    disk.inject("", Fault::ShortRead, 0..u64::MAX);
    read_exact_at(&*file, &mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"0123456789");
}

#[test]
fn the_seed_decides_how_short_writes_are() {
    let lengths = |seed| {
        let disk = FaultyDisk::new(seed);
        disk.inject("", Fault::ShortWrite, 0..u64::MAX);
        let file = create(&disk, path("/a"));
        (0..10).map(|_| file.write_at(&[1; 1000], 0).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(5), lengths(5));
    assert_ne!(lengths(5), lengths(6));
}

#[test]
fn failed_reads_and_writes_change_nothing() {
    let disk = FaultyDisk::new(1);
    let file = write(&disk, path("/a"), b"abc");
    disk.inject("/a", Fault::FailWrite, 0..2);
    disk.inject("/a", Fault::FailRead, 0..1);
    disk.inject("/a", Fault::FailSetLen, 0..1);
    assert_eq!(file.write_at(b"x", 0).unwrap_err().raw_os_error(), INPUT_OUTPUT);
    assert_eq!(file.write_zeros(0..2).unwrap_err().raw_os_error(), INPUT_OUTPUT);
    assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), INPUT_OUTPUT);
    assert_eq!(file.read_at(&mut [0], 0).unwrap_err().raw_os_error(), INPUT_OUTPUT);
    assert_eq!(bytes_of(&*file), b"abc");
    assert_eq!(disk.faults_fired(), 4);
}

#[test]
fn failed_changes_of_names_change_nothing() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), b"abc");
    disk.inject("", Fault::FailName, 0..u64::MAX);
    assert!(disk.open(path("/b"), Open::CreateNew).is_err());
    assert!(disk.create_dir(path("/b")).is_err());
    assert!(disk.rename(path("/a"), path("/b")).is_err());
    assert!(disk.link(path("/a"), path("/b")).is_err());
    assert!(disk.remove_file(path("/a")).is_err());
    assert_eq!(names(&disk, path("/")), ["a"]);
    disk.clear_faults();
    disk.remove_file(path("/a")).unwrap();
}

#[test]
fn a_file_may_fail_to_open() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), b"abc");
    disk.inject("/a", Fault::FailOpen, 0..1);
    assert_eq!(disk.open(path("/a"), Open::Read).unwrap_err().raw_os_error(), INPUT_OUTPUT);
    assert_eq!(read(&disk, path("/a")).unwrap(), b"abc");
}

#[test]
fn a_fault_strikes_its_path_and_occurrence_only() {
    let disk = FaultyDisk::new(1);
    let (a, b) = (create(&disk, path("/log/../a")), create(&disk, path("/b")));
    disk.inject("a", Fault::FailWrite, 1..2);
    b.write_at(b"x", 0).unwrap();
    a.write_at(b"x", 0).unwrap();
    b.write_at(b"x", 0).unwrap();
    assert!(a.write_at(b"x", 0).is_err());
    a.write_at(b"x", 0).unwrap();
    assert_eq!(disk.faults_fired(), 1);
}

#[test]
fn what_a_failed_sync_dropped_is_lost_though_the_next_one_succeeds() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 1024]);
    file.write_at(&[2; 512], 0).unwrap();
    disk.inject("/a", Fault::FailSync, 0..1);
    assert_eq!(file.sync().unwrap_err().raw_os_error(), INPUT_OUTPUT);
    file.write_at(&[3; 512], 512).unwrap();
    file.sync().unwrap();
    assert_eq!(bytes_of(&*file)[0], 2, "readers still see it");
    let lost = read(&disk.crash_image(&mut CrashChoice::Nothing), path("/a")).unwrap();
    assert_eq!((lost[0], lost[512]), (1, 3));
}

#[test]
fn what_a_failed_sync_dropped_may_have_arrived_all_the_same() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 512]);
    file.write_at(&[2; 512], 0).unwrap();
    disk.inject("/a", Fault::FailSync, 0..1);
    file.sync().unwrap_err();
    file.sync().unwrap();
    let mut choice = CrashChoice::Random(1);
    let mut seen = [false; 3];
    for _ in 0..100 {
        let image = disk.crash_image(&mut choice);
        seen[usize::from(read(&image, path("/a")).unwrap()[0])] = true;
    }
    assert_eq!(seen, [false, true, true]);
}

#[test]
fn what_is_written_anew_after_a_failed_sync_can_be_synced() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 2048]);
    file.write_at(&[2; 2048], 0).unwrap();
    disk.inject("/a", Fault::FailSync, 0..1);
    file.sync().unwrap_err();
    file.write_at(&[2; 512], 0).unwrap();
    file.write_zeros(512..1024).unwrap();
    file.set_len(1500).unwrap();
    file.sync().unwrap();
    let kept = read(&disk.crash_image(&mut CrashChoice::Nothing), path("/a")).unwrap();
    assert_eq!(kept.len(), 1500);
    assert_eq!((kept[0], kept[512], kept[1024]), (2, 0, 2), "the last one was written by the cut");
}

#[test]
fn zeros_dropped_by_a_failed_sync_are_written_by_zeros_again() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 1024]);
    file.write_zeros(0..1024).unwrap();
    disk.inject("/a", Fault::FailSync, 0..1);
    file.sync().unwrap_err();
    file.write_zeros(0..512).unwrap();
    file.sync().unwrap();
    let kept = read(&disk.crash_image(&mut CrashChoice::Nothing), path("/a")).unwrap();
    assert_eq!((kept[0], kept[512]), (0, 1));
}

#[test]
fn what_a_failed_sync_dropped_and_a_cut_took_does_not_come_back() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 1024]);
    file.write_at(&[2; 1024], 0).unwrap();
    disk.inject("/a", Fault::FailSync, 0..1);
    file.sync().unwrap_err();
    file.set_len(0).unwrap();
    file.set_len(1024).unwrap();
    file.sync().unwrap();
    let mut choice = CrashChoice::Random(1);
    for _ in 0..100 {
        assert_eq!(read(&disk.crash_image(&mut choice), path("/a")).unwrap(), [0; 1024]);
    }
}

#[test]
fn a_failed_sync_of_all_drops_the_bytes_of_all() {
    let disk = FaultyDisk::new(1);
    for name in ["/a", "/b"] {
        write_durably(&disk, path(name), b"old").write_at(b"new", 0).unwrap();
    }
    disk.inject("", Fault::FailSync, 0..1);
    disk.sync_all(path("/")).unwrap_err();
    disk.sync_all(path("/")).unwrap();
    let image = disk.crash_image(&mut CrashChoice::Nothing);
    for name in ["/a", "/b"] {
        assert_eq!(read(&image, path(name)).unwrap(), b"old");
    }
}

#[test]
fn a_failed_sync_of_a_folder_leaves_its_names_unsynced() {
    let disk = FaultyDisk::new(1);
    create(&disk, path("/a"));
    disk.inject("", Fault::FailSync, 0..1);
    disk.sync_dir(path("/")).unwrap_err();
    let is_kept = || read(&disk.crash_image(&mut CrashChoice::Nothing), path("/a")).is_some();
    assert!(!is_kept());
    disk.sync_dir(path("/")).unwrap();
    assert!(is_kept());
}

#[test]
fn a_flipped_bit_is_flipped_for_readers_and_on_the_device() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), &[0b100; 600]);
    disk.flip_bit(path("/a"), 599, 0).unwrap();
    disk.flip_bit(path("/a"), 1, 2).unwrap();
    let image = disk.crash_image(&mut CrashChoice::Nothing);
    for disk in [&disk, &image] {
        let bytes = read(disk, path("/a")).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[599]), (0b100, 0, 0b101));
    }
    assert_eq!(disk.flip_bit(path("/a"), 600, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_lost_name_is_lost_for_readers_and_on_the_device() {
    let disk = FaultyDisk::new(1);
    for name in ["/a", "/b"] {
        write_durably(&disk, path(name), b"x");
    }
    disk.lose_name(path("/a")).unwrap();
    assert_eq!(names(&disk, path("/")), ["b"]);
    assert_eq!(names(&disk.crash_image(&mut CrashChoice::Nothing), path("/")), ["b"]);
    assert_eq!(disk.lose_name(path("/a")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_full_disk_takes_what_fits_and_refuses_the_rest() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(8192);
    let file = create(&disk, path("/a"));
    assert_eq!(file.write_at(&[1; 10_000], 0).unwrap(), 8192);
    assert_eq!(file.write_at(&[1; 10], 8192).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_zeros(8000..9000).unwrap_err().kind(), ErrorKind::StorageFull);
    file.set_len(1 << 20).unwrap();
    assert_eq!(disk.space(path("/")).unwrap().free, 0);
    assert_eq!(bytes_of(&*file)[..8000], [1; 8000]);
}

#[test]
fn overwriting_what_is_allocated_never_fills_the_disk() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(1 << 20);
    let file = create(&disk, path("/a"));
    file.write_zeros(0..1 << 20).unwrap();
    assert_eq!(disk.space(path("/")).unwrap().free, 0);
    for position in (0..1 << 20).step_by(5000) {
        write_all_at(&*file, &[7; 3000], position.min((1 << 20) - 3000)).unwrap();
    }
    file.write_zeros(100..10_000).unwrap();
    assert!(create(&disk, path("/b")).write_at(&[1], 0).is_err());
}

#[test]
fn room_comes_free_when_nothing_leads_to_a_file() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(1 << 20);
    let free = || disk.space(path("/")).unwrap().free;
    let file = write(&disk, path("/a"), &[1; 100_000]);
    let full = free();
    disk.link(path("/a"), path("/b")).unwrap();
    disk.rename(path("/a"), path("/c")).unwrap();
    disk.remove_file(path("/b")).unwrap();
    disk.remove_file(path("/c")).unwrap();
    assert_eq!(free(), full, "it is still open");
    let killed = disk.crash_image(&mut CrashChoice::Everything);
    assert_eq!(killed.space(path("/")).unwrap().free, 1 << 20);
    drop(file);
    assert_eq!(free(), 1 << 20);
    let file = write(&disk, path("/a"), &[1; 100_000]);
    file.set_len(4096).unwrap();
    assert_eq!(free(), (1 << 20) - 4096);
    write(&disk, path("/b"), &[1; 4096]);
    disk.rename(path("/b"), path("/a")).unwrap();
    drop(file);
    assert_eq!(free(), (1 << 20) - 4096);
    disk.remove_file(path("/a")).unwrap();
    assert_eq!(free(), 1 << 20);
}

#[test]
fn files_that_a_killed_process_had_open_are_closed() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(1 << 20);
    let _open = write(&disk, path("/a"), &[1; 100_000]);
    let killed = disk.crash_image(&mut CrashChoice::Everything);
    killed.remove_file(path("/a")).unwrap();
    assert_eq!(killed.space(path("/")).unwrap().free, 1 << 20);
}

#[test]
fn room_in_an_image_is_that_of_what_is_left() {
    let disk = FaultyDisk::new(1);
    disk.set_capacity(1 << 20);
    write_durably(&disk, path("/a"), &[1; 4096]);
    write(&disk, path("/b"), &[1; 8192]);
    let image = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(image.space(path("/")).unwrap().free, (1 << 20) - 4096);
    assert_eq!(image.space(path("/")).unwrap().total, 1 << 20);
}

#[test]
fn a_disk_may_be_full_for_one_path() {
    let disk = FaultyDisk::new(1);
    let file = create(&disk, path("/a"));
    disk.inject("/a", Fault::NoSpace, 0..2);
    assert_eq!(file.write_at(&[1], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_zeros(0..1).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(&[1], 0).unwrap();
}

#[test]
fn the_clock_of_the_disk_dates_changes() {
    let disk = FaultyDisk::new(1);
    let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    disk.set_time(time(100));
    let file = write(&disk, path("/a"), b"x");
    assert_eq!(file.modified().unwrap(), time(100));
    disk.set_time(time(200));
    assert_eq!(disk.metadata(path("/a")).unwrap().unwrap().modified, time(100));
    file.write_at(b"y", 0).unwrap();
    assert_eq!(disk.metadata(path("/a")).unwrap().unwrap().modified, time(200));
    file.sync().unwrap();
    disk.sync_dir(path("/")).unwrap();
    let image = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(image.metadata(path("/a")).unwrap().unwrap().modified, time(200));
}

#[test]
fn a_cold_disk_has_nothing_cached() {
    let disk = FaultyDisk::new(1);
    let file = write(&disk, path("/a"), b"x");
    assert!(file.is_cached(0..1));
    disk.set_cold(true);
    assert!(!file.is_cached(0..1));
}
