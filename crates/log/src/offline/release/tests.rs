//! Tests of `release`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::checkpoint::KeptDisposal;
use crate::offline::testing::{Bench, RECORD_BYTES, TwoFileSystems};
use crate::offline::{How, recover};
use metaq_disk::Disk;
use std::sync::Arc;

/// All files below a folder, sorted.
fn files(bench: &Bench, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, kind) in names(&bench.disk, Path::new(folder)).unwrap() {
        let path = format!("{folder}/{name}");
        if kind == Kind::Folder { found.extend(files(bench, &path)) } else { found.push(path) }
    }
    found
}

/// Only folders with a `-` in their names stand in the data path, and only segments in them.
fn assert_is_an_originals(bench: &Bench, what: &str) {
    for (name, kind) in names(&bench.disk, Path::new("/data")).unwrap() {
        assert!(kind == Kind::Folder && name.contains('-'), "{what}: {name}");
    }
    for file in files(bench, "/data") {
        assert!(file.ends_with(".meta"), "{what}: {file}");
    }
}

#[test]
fn a_released_directory_holds_segments_only_and_everything_else_stands_beside_it() {
    let bench = Bench::stopped();
    bench.write("/data/metaq.aside/turns", b"of a repair");
    let before = files(&bench, "/data").len();
    let released = release(&bench.directory).unwrap();
    assert_eq!(released.to.as_deref(), Some(Path::new("/data.metaq")));
    assert!(released.to_string().ends_with("files were moved to /data.metaq"), "{released}");
    assert_is_an_originals(&bench, "released");
    let moved = files(&bench, "/data.metaq");
    // The lock is gone.
    assert_eq!(moved.len() + files(&bench, "/data").len() + 1, before);
    for name in ["checkpoint", "checkpoint.copy", "metaq.format", "commit/0", "t-0/00000000000000000000.index"] {
        assert!(moved.contains(&format!("/data.metaq/{name}")), "{name}: {moved:?}");
    }
    assert_eq!(released.files, u64::try_from(moved.len()).unwrap());
}

#[test]
fn what_was_released_and_put_back_is_as_it_was() {
    let bench = Bench::stopped();
    release(&bench.directory).unwrap();
    for (name, _) in names(&bench.disk, Path::new("/data.metaq")).unwrap() {
        if !name.contains('-') {
            bench.disk.rename(&Path::new("/data.metaq").join(&name), &Path::new("/data").join(&name)).unwrap();
        }
    }
    let broker = bench.open();
    assert_eq!(broker.log.state(7, b"key").unwrap().value[..], *b"value");
    assert_eq!(broker.bounds("t", 0), Some((80, 0, 80 * RECORD_BYTES)));
    assert!(broker.report.findings.is_empty(), "{:?}", broker.report.findings);
}

#[test]
fn releasing_twice_finds_nothing_and_an_original_directory_has_nothing() {
    let bench = Bench::stopped();
    release(&bench.directory).unwrap();
    let again = release(&bench.directory).unwrap();
    assert_eq!((again.to, again.files), (None, 0));
    let original = Bench::foreign();
    let before = files(&original, "/data");
    let released = release(&original.directory).unwrap();
    assert_eq!(released.to_string(), "there is nothing of ours in the directory");
    assert_eq!(files(&original, "/data"), before);
}

#[test]
fn a_directory_that_is_used_again_is_released_beside_the_first_release() {
    let bench = Bench::stopped();
    release(&bench.directory).unwrap();
    assert!(bench.open().stop() == crate::Stopped::Clean);
    let released = release(&bench.directory).unwrap();
    assert_eq!(released.to.as_deref(), Some(Path::new("/data.metaq.2")));
    assert_is_an_originals(&bench, "released again");
}

#[test]
fn an_unclean_directory_is_refused_until_it_is_recovered() {
    let bench = Bench::killed();
    let before = files(&bench, "/data");
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Unclean(_)), "{refused}");
    assert!(refused.to_string().contains("metaq log recover"), "{refused}");
    assert_eq!(files(&bench, "/data"), before);
    recover(bench.directory.disk.clone(), Bench::options(), How::Replay, 5).unwrap();
    release(&bench.directory).unwrap();
    assert_is_an_originals(&bench, "recovered and released");
}

#[test]
fn what_is_still_to_be_disposed_of_is_refused_until_it_is_recovered() {
    let bench = Bench::stopped();
    bench.edit(|checkpoint| {
        checkpoint.partitions.pop();
        checkpoint.disposals = vec![KeptDisposal::Delete { topic: "t".to_owned(), index: 1 }];
    });
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Unclean(_)), "{refused}");
    let refused = crate::offline::move_partitions(&bench.directory, "t", 0..=0, 3).unwrap_err();
    assert!(matches!(refused, crate::offline::RelocateError::Unclean(_)), "{refused}");
    recover(bench.directory.disk.clone(), Bench::options(), How::Replay, 5).unwrap();
    release(&bench.directory).unwrap();
    assert!(!bench.stands("/data/t-1"));
}

#[test]
fn a_directory_in_use_or_with_lost_files_is_refused() {
    let bench = Bench::stopped();
    let broker = bench.open();
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Open(OpenError::Locked(_)))), "{refused}");
    broker.stop();
    bench.flip("/data/checkpoint", 20);
    bench.flip("/data/checkpoint.copy", 20);
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Open(OpenError::Checkpoint(_)))), "{refused}");
    let bench = Bench::stopped();
    bench.disk.lose_name(Path::new("/data/metaq.format")).unwrap();
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Open(OpenError::Format(_)))), "{refused}");
    let bench = Bench::stopped();
    bench.flip("/data/metaq.format", 0);
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Open(OpenError::Format(_)))), "{refused}");
    let bench = Bench::stopped();
    bench.write("/data/metaq.unfinished", b"delete t 0 1\n");
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Interrupted(_))), "{refused}");
}

#[test]
fn lost_checkpoints_are_not_taken_for_a_release_that_was_begun() {
    let bench = Bench::stopped();
    release(&bench.directory).unwrap();
    let mut broker = bench.open();
    broker.put("t", 0, 1);
    drop(broker);
    for name in COPIES {
        bench.disk.lose_name(&Path::new("/data").join(name)).unwrap();
    }
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Offline(OfflineError::Open(OpenError::Checkpoint(_)))), "{refused}");
    assert!(bench.stands("/data/commit/0"));
}

#[test]
fn an_interrupted_first_start_is_refused() {
    let bench = Bench::foreign();
    bench.write("/data/commit/0", &[0; 4096]);
    let refused = release(&bench.directory).unwrap_err();
    assert!(matches!(refused, ReleaseError::Unclean(_)), "{refused}");
}

#[test]
fn the_release_stands_outside_all_data_paths() {
    let disk: Arc<dyn Disk> = Bench::empty().directory.disk;
    let at = |log: &str, data: &[&str]| {
        let data: Vec<PathBuf> = data.iter().map(PathBuf::from).collect();
        base(&Directory::new(Arc::clone(&disk), log, data))
    };
    assert_eq!(at("/data", &["/data"]).unwrap(), Path::new("/data.metaq"));
    assert_eq!(at("/var/meta/log", &["/var/meta"]).unwrap(), Path::new("/var/meta.metaq"));
    assert_eq!(at("/var/log", &["/var/meta", "/more"]).unwrap(), Path::new("/var/log.metaq"));
    assert_eq!(at("./data", &["data"]).unwrap(), Path::new("data.metaq"));
    assert_eq!(at("/a/b/c", &["/a/b", "/a"]).unwrap(), Path::new("/a.metaq"));
    for nowhere in ["/", ".."] {
        assert!(matches!(at(nowhere, &[nowhere]), Err(ReleaseError::NoPlace(_))), "{nowhere}");
    }
}

#[test]
fn a_release_onto_another_file_system_copies_and_leaves_the_log_behind() {
    let bench = Bench::stopped();
    let disk = Arc::new(TwoFileSystems(bench.disk.clone(), "/data".into()));
    let checkpoint = bench.read("/data/checkpoint");
    let directory = Directory::new(disk, "/data", ["/data".into()]);
    release(&directory).unwrap();
    assert_is_an_originals(&bench, "released to another file system");
    assert_eq!(bench.read("/data.metaq/checkpoint"), checkpoint);
    assert!(!bench.stands("/data.metaq/commit/0"), "after a clean stop the log holds nothing");
}

#[test]
fn a_release_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let crossing = |bench: &Bench| {
        let disk = Arc::new(TwoFileSystems(bench.disk.clone(), "/data".into()));
        Directory::new(disk, "/data", ["/data".into()])
    };
    let wanted = {
        let bench = Bench::stopped();
        release(&bench.directory).unwrap();
        files(&bench, "/data.metaq").into_iter().filter(|file| !file.contains("/commit/")).collect::<Vec<_>>()
    };
    for across in [false, true] {
        let of = |bench: &Bench| if across { crossing(bench) } else { bench.directory.clone() };
        let act = |bench: &Bench| _ = release(&of(bench));
        Bench::cuts(Bench::stopped, act, |image, cut| {
            release(&of(&image)).unwrap_or_else(|error| panic!("{cut}: {error}"));
            assert_is_an_originals(&image, cut);
            for file in &wanted {
                assert!(image.stands(file), "{cut}: {file}");
            }
            assert!(!image.stands("/data.metaq.2"), "{cut}");
        });
    }
}

#[test]
fn a_broker_either_opens_a_half_released_directory_as_it_was_or_refuses_it() {
    let act = |bench: &Bench| _ = release(&bench.directory);
    Bench::cuts(Bench::stopped, act, |image, cut| {
        let released = !image.stands("/data/metaq.format");
        let opened = crate::recovery::open(image.directory.disk.clone(), Bench::options(), 5);
        match opened {
            Ok(opened) if !released => {
                let broker = crate::offline::testing::Broker::of(opened);
                assert_eq!(broker.log.state(7, b"key").unwrap().value[..], *b"value", "{cut}");
                assert_eq!(broker.bounds("t", 0).unwrap().0, 80, "{cut}");
            }
            Ok(_) => {}
            Err(error) => assert!(matches!(error, OpenError::Checkpoint(_)), "{cut}: {error}"),
        }
    });
}
