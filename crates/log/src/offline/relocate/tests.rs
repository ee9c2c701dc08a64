//! Tests of `relocate`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::offline::testing::{Bench, RECORD_BYTES};
use crate::offline::{Verdict, verify};
use crate::recovery::OpenError;
use metaq_disk::Disk;

/// The bounds of a partition as a broker finds them.
fn bounds(bench: &Bench, topic: &str, index: u32) -> Option<(u64, u64, u64)> {
    bench.open().bounds(topic, index)
}

#[test]
fn moved_partitions_are_the_same_under_other_indexes() {
    let bench = Bench::stopped();
    let moved = move_partitions(&bench.directory, "t", 0..=1, 5).unwrap();
    let wanted = [("t-0".to_owned(), Some("t-5".to_owned())), ("t-1".to_owned(), Some("t-6".to_owned()))];
    assert_eq!(moved.partitions, wanted);
    assert_eq!(moved.to_string(), "t-0 is t-5\nt-1 is t-6\n2 partitions");
    assert_eq!(bench.verdict(), Verdict::Ok);
    let broker = bench.open();
    assert!(broker.report.findings.is_empty(), "{:?}", broker.report.findings);
    assert_eq!(broker.bounds("t", 5), Some((80, 0, 80 * RECORD_BYTES)));
    assert_eq!((broker.bounds("t", 0), broker.bounds("t", 6).unwrap().0), (None, 5));
    drop(broker);
    let bench = Bench::stopped();
    move_partitions(&bench.directory, "t", 1..=1, 5).unwrap();
    move_partitions(&bench.directory, "t", 6..=6, -4).unwrap();
    assert_eq!(bounds(&bench, "t", 2).unwrap().0, 5);
}

#[test]
fn deleted_partitions_are_gone_and_the_others_stay() {
    let bench = Bench::stopped();
    bench.write("/data/t-0/00000000000000000000.meta.arc", b"an archive");
    let deleted = delete_partitions(&bench.directory, "t", 0..=0).unwrap();
    assert_eq!(deleted.to_string(), "t-0 is deleted\n1 partitions");
    assert!(!bench.stands("/data/t-0"));
    assert_eq!(bench.verdict(), Verdict::Ok);
    assert_eq!((bounds(&bench, "t", 0), bounds(&bench, "t", 1).unwrap().0), (None, 5));
}

#[test]
fn an_original_directory_is_changed_and_stays_an_originals() {
    let bench = Bench::foreign();
    move_partitions(&bench.directory, "old", 0..=0, 2).unwrap();
    let names: Vec<_> = names(&bench.disk, "/data".as_ref()).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["old-2"]);
    delete_partitions(&bench.directory, "old", 2..=2).unwrap();
    assert!(!bench.stands("/data/old-2"));
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_changed() {
    let bench = Bench::stopped();
    bench.write("/data/t-1/notes.txt", b"not ours");
    bench.write("/data/u-9/00000000000000000000.meta", b"");
    let before = verify(&bench.directory, |_| {}).unwrap();
    let move_t = |indexes, offset| move_partitions(&bench.directory, "t", indexes, offset).unwrap_err();
    assert!(matches!(move_t(0..=1, 0), RelocateError::Offset { offset: 0, .. }));
    assert!(matches!(move_t(0..=1, -1), RelocateError::Offset { index: 0, offset: -1 }));
    assert!(matches!(move_t(1..=1, i64::MAX), RelocateError::Offset { .. }));
    assert!(matches!(move_t(0..=2, 7), RelocateError::Missing(name) if name == "t-2"));
    assert!(matches!(move_t(0..=1, 1), RelocateError::Taken(name) if name == "t-1"));
    #[expect(clippy::reversed_empty_ranges, reason = "what a person may type")]
    let empty = move_t(1..=0, 1);
    assert!(matches!(empty, RelocateError::Empty { from: 1, to: 0 }));
    let topic = move_partitions(&bench.directory, "../t", 0..=0, 1).unwrap_err();
    assert!(matches!(topic, RelocateError::Topic(_)), "{topic}");
    let strange = delete_partitions(&bench.directory, "t", 0..=1).unwrap_err();
    assert!(matches!(&strange, RelocateError::Strange(path) if path.ends_with("notes.txt")), "{strange}");
    let missing = delete_partitions(&bench.directory, "t", 1..=4).unwrap_err();
    assert!(matches!(missing, RelocateError::Strange(_) | RelocateError::Missing(_)), "{missing}");
    assert_eq!(verify(&bench.directory, |_| {}).unwrap(), before);
}

#[test]
fn a_partition_that_only_the_checkpoint_knows_is_in_the_way() {
    let bench = Bench::stopped();
    bench.disk.rename("/data/t-1".as_ref(), "/elsewhere".as_ref()).unwrap();
    let taken = move_partitions(&bench.directory, "t", 0..=0, 1).unwrap_err();
    assert!(matches!(taken, RelocateError::Taken(name) if name == "t-1"));
}

#[test]
fn unclean_and_used_directories_and_lost_checkpoints_are_refused() {
    let refused = delete_partitions(&Bench::killed().directory, "t", 0..=0).unwrap_err();
    assert!(matches!(refused, RelocateError::Unclean(_)), "{refused}");
    let bench = Bench::stopped();
    let broker = bench.open();
    let refused = delete_partitions(&bench.directory, "t", 0..=0).unwrap_err();
    assert!(matches!(refused, RelocateError::Offline(OfflineError::Open(OpenError::Locked(_)))), "{refused}");
    broker.stop();
    bench.flip("/data/checkpoint", 30);
    bench.flip("/data/checkpoint.copy", 30);
    let refused = delete_partitions(&bench.directory, "t", 0..=0).unwrap_err();
    assert!(matches!(refused, RelocateError::Offline(OfflineError::Open(OpenError::Checkpoint(_)))), "{refused}");
}

/// Runs a task with the power cut at every moment; then brokers are kept out or find all, and running it again finishes.
fn check_interrupted(task: impl Fn(&Bench) -> Result<Relocated, RelocateError>, done: impl Fn(&Bench) -> bool) {
    let act = |bench: &Bench| _ = task(bench);
    let mut refusals = 0;
    Bench::cuts(Bench::stopped, act, |image, cut| {
        let begun = image.stands("/data/metaq.unfinished");
        match crate::recovery::open(image.directory.disk.clone(), Bench::options(), 5) {
            Err(error) => {
                assert!(matches!(error, OpenError::Format(_)) && begun, "{cut}: {error}");
                refusals += 1;
            }
            Ok(opened) => {
                let findings = opened.report.findings;
                assert!(findings.is_empty(), "{cut}: {findings:?}");
                return;
            }
        }
        let said = image.said();
        assert!(said.iter().any(|line| line.contains("was interrupted")), "{cut}: {said:?}");
        let other = delete_partitions(&image.directory, "t", 7..=7).unwrap_err();
        assert!(matches!(other, RelocateError::Offline(OfflineError::Interrupted(_))), "{cut}: {other}");
        task(&image).unwrap_or_else(|error| panic!("{cut}: {error}"));
        assert_eq!(image.verdict(), Verdict::Ok, "{cut}");
        assert!(done(&image), "{cut}");
    });
    assert!(refusals > 10, "{refusals} refusals");
}

#[test]
fn moving_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    check_interrupted(
        |bench| move_partitions(&bench.directory, "t", 0..=1, 5),
        |bench| bounds(bench, "t", 5).is_some_and(|bounds| bounds.0 == 80) && bounds(bench, "t", 0).is_none(),
    );
}

#[test]
fn deleting_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    check_interrupted(
        |bench| delete_partitions(&bench.directory, "t", 0..=1),
        |bench| bounds(bench, "t", 0).is_none() && bounds(bench, "t", 1).is_none() && !bench.stands("/data/t-0"),
    );
}
