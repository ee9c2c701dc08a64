//! What a power cut may take from a simulated disk, and what it may not.

mod shared;

use std::collections::BTreeSet;
use std::path::Path;

use metaq_disk::{CrashChoice, Disk, FaultyDisk, Open};
use shared::{bytes_of, create, names, read, write, write_durably};

/// How many images each test looks at.
const IMAGES: usize = 600;

fn root() -> &'static Path {
    Path::new("/")
}

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// What `look` finds on images of the disk after a power cut.
fn outcomes<T: Ord>(disk: &FaultyDisk, look: impl Fn(&FaultyDisk) -> T) -> BTreeSet<T> {
    let mut choice = CrashChoice::Random(42);
    (0..IMAGES).map(|_| look(&disk.crash_image(&mut choice))).collect()
}

/// The first byte of each sector, which tests fill with one value.
fn first_bytes(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(512).map(|sector| sector[0]).collect()
}

#[test]
fn what_is_synced_survives_every_image() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), &[7; 5000]);
    disk.create_dir(path("/deep/er")).unwrap();
    write_durably(&disk, path("/deep/er/b"), &[8; 100]);
    for folder in ["/", "/deep"] {
        disk.sync_dir(path(folder)).unwrap();
    }
    write(&disk, path("/c"), &[9; 3000]);
    let kept = outcomes(&disk, |image| (read(image, path("/a")), read(image, path("/deep/er/b"))));
    assert_eq!(kept, BTreeSet::from([(Some(vec![7; 5000]), Some(vec![8; 100]))]));
    let nothing = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(names(&nothing, root()), ["a", "deep"]);
}

#[test]
fn unsynced_bytes_are_kept_or_lost_sector_by_sector() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 3 * 512]);
    file.write_at(&[2; 3 * 512], 0).unwrap();
    let kept = outcomes(&disk, |image| first_bytes(&read(image, path("/a")).unwrap()));
    assert_eq!(kept.len(), 8, "each sector on its own: {kept:?}");
}

#[test]
fn a_sector_may_be_left_in_any_of_its_versions() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 512]);
    for version in 2..5 {
        file.write_at(&[version; 512], 0).unwrap();
    }
    let kept = outcomes(&disk, |image| read(image, path("/a")).unwrap());
    assert_eq!(kept, (1..5).map(|version| vec![version; 512]).collect());
}

#[test]
fn a_grown_length_may_be_kept_without_its_bytes() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 100]);
    file.write_at(&[2; 512], 512).unwrap();
    let kept = outcomes(&disk, |image| first_bytes(&read(image, path("/a")).unwrap()));
    assert_eq!(kept, BTreeSet::from([vec![1], vec![1, 0], vec![1, 2]]));
}

#[test]
fn a_growing_write_may_end_with_any_of_its_pages() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 100]);
    file.write_at(&[2; 10_000], 100).unwrap();
    let kept = outcomes(&disk, |image| read(image, path("/a")).unwrap().len());
    assert_eq!(kept, BTreeSet::from([100, 4096, 8192, 10_100]));
}

#[test]
fn any_length_since_the_sync_may_be_left() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 100]);
    for len in [300, 50, 200] {
        file.set_len(len).unwrap();
    }
    let kept = outcomes(&disk, |image| read(image, path("/a")).unwrap().len());
    assert_eq!(kept, BTreeSet::from([50, 100, 200, 300]));
}

#[test]
fn what_was_cut_off_does_not_come_back_when_the_file_grows_again() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 2000]);
    file.write_at(&[2; 2000], 0).unwrap();
    file.set_len(700).unwrap();
    file.set_len(3000).unwrap();
    file.write_at(&[3; 100], 1900).unwrap();
    let kept = outcomes(&disk, |image| {
        let bytes = read(image, path("/a")).unwrap();
        let is_old_behind_the_cut = bytes[700..].iter().any(|&byte| byte == 1 || byte == 2);
        let is_new_behind_the_cut = bytes[700..].contains(&3);
        (bytes.len(), is_old_behind_the_cut, is_new_behind_the_cut)
    });
    let expected = [(700, false, false), (2000, true, false), (3000, false, false), (3000, false, true)];
    assert_eq!(kept, BTreeSet::from(expected));
}

#[test]
fn zeros_over_bytes_may_be_lost() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 4 * 512]);
    file.write_zeros(512..3 * 512).unwrap();
    let kept = outcomes(&disk, |image| first_bytes(&read(image, path("/a")).unwrap()));
    assert_eq!(kept, BTreeSet::from([vec![1, 1, 1, 1], vec![1, 0, 1, 1], vec![1, 1, 0, 1], vec![1, 0, 0, 1]]));
}

#[test]
fn a_name_that_is_not_synced_may_be_lost_with_a_synced_file() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), b"abc").sync().unwrap();
    let kept = outcomes(&disk, |image| read(image, path("/a")));
    assert_eq!(kept, BTreeSet::from([None, Some(b"abc".to_vec())]));
}

#[test]
fn a_file_that_is_not_synced_may_be_empty_under_a_synced_name() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), b"abc");
    disk.sync_dir(root()).unwrap();
    let kept = outcomes(&disk, |image| read(image, path("/a")).unwrap());
    assert_eq!(kept, BTreeSet::from([vec![], vec![0; 3], b"abc".to_vec()]));
}

#[test]
fn names_of_a_folder_arrive_in_their_order() {
    let disk = FaultyDisk::new(1);
    for name in ["a", "b", "c"] {
        create(&disk, &root().join(name));
    }
    disk.remove_file(path("/b")).unwrap();
    let kept = outcomes(&disk, |image| names(image, root()).concat());
    assert_eq!(kept, ["", "a", "ab", "abc", "ac"].map(str::to_owned).into());
}

#[test]
fn a_name_is_lost_with_its_folder() {
    let disk = FaultyDisk::new(1);
    disk.create_dir(path("/deep")).unwrap();
    write_durably(&disk, path("/deep/a"), b"x");
    let kept = outcomes(&disk, |image| (names(image, root()), read(image, path("/deep/a"))));
    let deep = vec!["deep".to_owned()];
    assert_eq!(kept, BTreeSet::from([(vec![], None), (deep, Some(b"x".to_vec()))]));
}

#[test]
fn a_rename_is_seen_whole_or_not_at_all() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), b"new");
    write_durably(&disk, path("/b"), b"old");
    disk.rename(path("/a"), path("/b")).unwrap();
    let kept = outcomes(&disk, |image| (read(image, path("/a")), read(image, path("/b")).unwrap()));
    let (new, old) = (b"new".to_vec(), b"old".to_vec());
    assert_eq!(kept, BTreeSet::from([(Some(new.clone()), old), (None, new)]));
}

#[test]
fn a_rename_across_folders_is_seen_in_both_or_in_neither() {
    let disk = FaultyDisk::new(1);
    for folder in ["/x", "/y"] {
        disk.create_dir(path(folder)).unwrap();
    }
    write_durably(&disk, path("/x/a"), b"a");
    disk.sync_dir(root()).unwrap();
    create(&disk, path("/x/first"));
    create(&disk, path("/y/before"));
    disk.rename(path("/x/a"), path("/y/a")).unwrap();
    create(&disk, path("/x/after"));
    let both = |image: &FaultyDisk| (names(image, path("/x")).join(" "), names(image, path("/y")).join(" "));
    let kept = outcomes(&disk, both);
    let expected = [
        ("a", ""),
        ("a", "before"),
        ("a first", ""),
        ("a first", "before"),
        ("first", "a before"),
        ("after first", "a before"),
    ];
    assert_eq!(kept, expected.map(|(x, y)| (x.to_owned(), y.to_owned())).into());

    disk.sync_dir(path("/y")).unwrap();
    let kept = outcomes(&disk, both);
    let expected = [("first", "a before"), ("after first", "a before")];
    assert_eq!(kept, expected.map(|(x, y)| (x.to_owned(), y.to_owned())).into());

    disk.remove_file(path("/y/a")).unwrap();
    disk.sync_dir(path("/y")).unwrap();
    disk.sync_dir(path("/x")).unwrap();
    let nothing = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(both(&nothing), ("after first".to_owned(), "before".to_owned()));
}

#[test]
fn a_file_that_came_and_went_unsynced_may_be_there_after_the_power_cut() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), b"x");
    disk.remove_file(path("/a")).unwrap();
    let killed = disk.crash_image(&mut CrashChoice::Everything);
    for disk in [&disk, &killed] {
        assert_eq!(outcomes(disk, |image| names(image, root()).len()), BTreeSet::from([0, 1]));
    }
}

#[test]
fn a_removed_name_may_come_back_until_its_folder_is_synced() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), b"x");
    disk.remove_file(path("/a")).unwrap();
    assert_eq!(outcomes(&disk, |image| read(image, path("/a"))).len(), 2);
    disk.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&disk, |image| read(image, path("/a"))), BTreeSet::from([None]));
}

#[test]
fn a_removed_folder_may_come_back_with_what_was_in_it() {
    let disk = FaultyDisk::new(1);
    disk.create_dir(path("/deep")).unwrap();
    write_durably(&disk, path("/deep/a"), b"x");
    disk.sync_dir(root()).unwrap();
    disk.remove_file(path("/deep/a")).unwrap();
    disk.remove_dir(path("/deep")).unwrap();
    let nothing = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(read(&nothing, path("/deep/a")).unwrap(), b"x");
    disk.sync_dir(root()).unwrap();
    let kept = outcomes(&disk, |image| names(image, root()));
    assert_eq!(kept, BTreeSet::from([vec![]]));
}

#[test]
fn links_lead_to_one_file_in_images_too() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), b"one");
    disk.link(path("/a"), path("/b")).unwrap();
    disk.sync_dir(root()).unwrap();
    create(&disk, path("/a")).write_at(b"two", 0).unwrap();
    let kept = outcomes(&disk, |image| {
        assert_eq!(read(image, path("/a")), read(image, path("/b")));
        create(image, path("/a")).write_at(b"x", 0).unwrap();
        read(image, path("/b")).unwrap()
    });
    assert_eq!(kept, [b"xne", b"xwo"].map(|bytes| bytes.to_vec()).into());
}

#[test]
fn syncing_all_makes_bytes_and_names_durable() {
    let disk = FaultyDisk::new(1);
    disk.create_dir(path("/x/y")).unwrap();
    write(&disk, path("/x/y/a"), b"abc");
    disk.sync_all(path("/x")).unwrap();
    let nothing = disk.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(read(&nothing, path("/x/y/a")).unwrap(), b"abc");
}

#[test]
fn what_a_killed_process_left_unsynced_is_there_but_not_yet_durable() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), b"old");
    write(&disk, path("/a"), b"new");
    write(&disk, path("/b"), b"b");
    let killed = disk.crash_image(&mut CrashChoice::Everything);
    assert_eq!(read(&killed, path("/a")).unwrap(), b"new");
    assert_eq!(read(&killed, path("/b")).unwrap(), b"b");
    let dark = killed.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(read(&dark, path("/a")).unwrap(), b"old");
    assert_eq!(read(&dark, path("/b")), None);
    killed.sync_all(root()).unwrap();
    let dark = killed.crash_image(&mut CrashChoice::Nothing);
    assert_eq!(read(&dark, path("/a")).unwrap(), b"new");
}

#[test]
fn what_a_power_cut_left_is_durable() {
    let disk = FaultyDisk::new(1);
    write(&disk, path("/a"), &[1; 5000]);
    let mut choice = CrashChoice::Random(3);
    for _ in 0..IMAGES {
        let image = disk.crash_image(&mut choice);
        let again = image.crash_image(&mut CrashChoice::Nothing);
        assert_eq!(read(&image, path("/a")), read(&again, path("/a")));
    }
}

#[test]
fn the_write_during_which_the_power_goes_is_torn() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 4 * 512]);
    disk.cut_power_after(disk.operations());
    assert_eq!(file.read_at(&mut [0; 8], 0).unwrap(), 8, "the power is still on");
    let error = file.write_at(&[2; 4 * 512], 0).unwrap_err();
    assert_eq!(error.to_string(), "power is off");
    let kept = outcomes(&disk, |image| first_bytes(&read(image, path("/a")).unwrap()));
    assert_eq!(kept.len(), 16, "any of its sectors: {kept:?}");
}

#[test]
fn the_sync_during_which_the_power_goes_promises_nothing() {
    let disk = FaultyDisk::new(1);
    let file = write(&disk, path("/a"), b"abc");
    disk.cut_power_after(disk.operations());
    file.sync().unwrap_err();
    assert_eq!(outcomes(&disk, |image| read(image, path("/a"))).len(), 4);
    assert!(disk.operations() > 0);
}

#[test]
fn names_that_change_while_the_power_goes_are_seen_or_not() {
    type Change = fn(&FaultyDisk) -> bool;
    let changes: [(Change, &str); 6] = [
        (|disk| disk.open(path("/new"), Open::CreateNew).is_err(), "a b new"),
        (|disk| disk.lock(path("/new")).is_err(), "a b new"),
        (|disk| disk.create_dir(path("/new")).is_err(), "a b new"),
        (|disk| disk.rename(path("/a"), path("/b")).is_err(), "b"),
        (|disk| disk.link(path("/a"), path("/c")).is_err(), "a b c"),
        (|disk| disk.remove_file(path("/a")).is_err(), "b"),
    ];
    for (change, after) in changes {
        let disk = FaultyDisk::new(1);
        for name in ["/a", "/b"] {
            write_durably(&disk, path(name), b"x");
        }
        disk.cut_power_after(disk.operations());
        assert!(change(&disk));
        let kept = outcomes(&disk, |image| names(image, root()).join(" "));
        assert_eq!(kept, ["a b", after].map(str::to_owned).into());
    }
}

#[test]
fn nothing_works_without_power() {
    let disk = FaultyDisk::new(1);
    let file = write(&disk, path("/a"), b"abc");
    let counted = disk.operations();
    disk.cut_power_after(counted - 1);
    assert!(!disk.has_power());
    let is_off = |error: std::io::Error| error.to_string() == "power is off";
    assert!(is_off(disk.open(path("/a"), Open::Read).unwrap_err()));
    assert!(is_off(disk.metadata(path("/a")).unwrap_err()));
    assert!(is_off(disk.list(root()).unwrap_err()));
    assert!(is_off(disk.space(root()).unwrap_err()));
    assert!(is_off(disk.lock(path("/lock")).unwrap_err()));
    assert!(is_off(disk.sync_dir(root()).unwrap_err()));
    assert!(is_off(disk.sync_all(root()).unwrap_err()));
    assert!(is_off(disk.remove_file(path("/a")).unwrap_err()));
    assert!(is_off(file.read_at(&mut [0], 0).unwrap_err()));
    assert!(is_off(file.write_at(&[0], 0).unwrap_err()));
    assert!(is_off(file.write_zeros(0..1).unwrap_err()));
    assert!(is_off(file.set_len(0).unwrap_err()));
    assert!(is_off(file.len().unwrap_err()));
    assert!(is_off(file.modified().unwrap_err()));
    assert!(is_off(file.sync().unwrap_err()));
    assert_eq!(disk.operations(), counted);
    assert!(disk.crash_image(&mut CrashChoice::Nothing).has_power());
}

#[test]
fn operations_that_change_or_sync_are_counted_and_remembered() {
    let disk = FaultyDisk::new(1);
    disk.create_dir(path("/d")).unwrap();
    let file = create(&disk, path("/d/a"));
    create(&disk, path("/d/a"));
    file.write_at(&[1; 10], 5).unwrap();
    file.write_zeros(0..4096).unwrap();
    file.set_len(9).unwrap();
    file.sync().unwrap();
    file.read_at(&mut [0; 4], 0).unwrap();
    disk.sync_dir(path("/d")).unwrap();
    disk.rename(path("/d/a"), path("/d/b")).unwrap();
    disk.link(path("/d/b"), path("/d/c")).unwrap();
    disk.remove_file(path("/d/b")).unwrap();
    disk.remove_dir(path("/d")).unwrap_err();
    disk.sync_all(root()).unwrap();
    let lines: Vec<String> = disk.history(100).iter().map(ToString::to_string).collect();
    let expected = [
        "1 create folder /d",
        "2 create /d/a",
        "3 write /d/a 5..15",
        "4 zero /d/a 0..4096",
        "5 set length /d/a 9",
        "6 sync /d/a",
        "7 sync folder /d",
        "8 rename /d/a to /d/b",
        "9 link /d/b as /d/c",
        "10 remove file /d/b",
        "11 remove folder /d",
        "12 sync all /",
    ];
    assert_eq!(lines, expected);
    assert_eq!(disk.operations(), 12);
    assert_eq!(disk.history(2).len(), 2);
}

#[test]
fn a_seed_gives_one_image() {
    let disk = FaultyDisk::new(1);
    write_durably(&disk, path("/a"), &[1; 8192]);
    write(&disk, path("/a"), &[2; 9000]);
    let look = |seed| {
        let mut choice = CrashChoice::Random(seed);
        let image = |_| read(&disk.crash_image(&mut choice), path("/a"));
        (0..20).map(image).collect::<Vec<_>>()
    };
    assert_eq!(look(7), look(7));
    assert_ne!(look(7), look(8));
}

#[test]
fn an_image_and_its_disk_go_separate_ways() {
    let disk = FaultyDisk::new(1);
    let file = write_durably(&disk, path("/a"), &[1; 600]);
    let lock = disk.lock(path("/lock")).unwrap();
    for mut choice in [CrashChoice::Nothing, CrashChoice::Everything, CrashChoice::Random(1)] {
        let image = disk.crash_image(&mut choice);
        assert!(image.lock(path("/lock")).unwrap().is_some());
        write_durably(&image, path("/a"), &[2; 600]);
        assert_eq!(bytes_of(&*file), [1; 600]);
        assert_eq!(read(&image, path("/a")).unwrap(), [2; 600]);
    }
    assert!(lock.is_some() && disk.lock(path("/lock")).unwrap().is_none());
}
