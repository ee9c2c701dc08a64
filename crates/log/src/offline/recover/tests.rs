//! Tests of `recover`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::checkpoint::CheckpointError;
use crate::offline::testing::{Bench, NOW, RECORD_BYTES};
use crate::offline::{Verdict, verify};
use metaq_disk::CrashChoice;

fn recover_bench(bench: &Bench, how: How) -> Result<Recovered, RecoverError> {
    recover(bench.directory.disk.clone(), Bench::options(), how, NOW + 1_000_000)
}

fn is_clean(bench: &Bench) -> bool {
    let verified = verify(&bench.directory, |_| {}).unwrap();
    verified.clean == Some(true) && verified.verdict() < Verdict::Damaged
}

fn lose_checkpoints(bench: &Bench) {
    bench.flip("/data/checkpoint", 30);
    bench.flip("/data/checkpoint.copy", 50);
}

#[test]
fn a_killed_directory_is_recovered_and_stopped_cleanly() {
    let bench = Bench::killed();
    let recovered = recover_bench(&bench, How::Replay).unwrap();
    assert_eq!((recovered.report.turns, recovered.report.entries, &recovered.set_aside), (5, 6, &None));
    assert!(recovered.to_string().contains("6 entries in 5 turns were replayed"), "{recovered}");
    assert!(is_clean(&bench));
    let broker = bench.open();
    assert!(broker.report.clean);
    assert_eq!(broker.bounds("t", 0), Some((83, 0, 83 * RECORD_BYTES)));
    assert_eq!(broker.bounds("u", 0), Some((2, 0, 2 * RECORD_BYTES)));
}

#[test]
fn the_commit_log_keeps_its_size() {
    let bench = Bench::killed();
    let mut options = Bench::options();
    options.ring.files = 2;
    recover(bench.directory.disk.clone(), options, How::Replay, NOW).unwrap();
    let contents = Contents::read(&bench.directory).unwrap();
    assert_eq!(contents.checkpoint().unwrap().geometry, Bench::options().ring);
}

#[test]
fn a_foreign_directory_is_adopted_and_all_its_messages_are_counted() {
    let bench = Bench::foreign();
    recover_bench(&bench, How::Replay).unwrap();
    assert!(is_clean(&bench));
    assert_eq!(bench.open().bounds("old", 0).unwrap().0, 5);
}

#[test]
fn a_directory_that_is_not_there_is_not_made() {
    let bench = Bench::empty();
    let mut options = Bench::options();
    (options.log_path, options.data_paths) = ("/dta".into(), vec!["/dta".into()]);
    assert!(recover(bench.directory.disk.clone(), options, How::Replay, NOW).is_err());
    assert!(!bench.stands("/dta"));
    // A log path of its own may be missing.
    let bench = Bench::foreign();
    let mut options = Bench::options();
    options.log_path = "/log".into();
    recover(bench.directory.disk.clone(), options, How::Replay, NOW).unwrap();
    assert!(bench.stands("/log/checkpoint") && !bench.stands("/data/checkpoint"));
}

#[test]
fn a_directory_in_use_and_one_with_something_unfinished_are_refused() {
    let bench = Bench::stopped();
    let broker = bench.open();
    let refused = recover_bench(&bench, How::Replay).unwrap_err();
    assert!(matches!(refused, RecoverError::Offline(OfflineError::Open(OpenError::Locked(_)))), "{refused}");
    drop(broker);
    bench.write("/data/metaq.unfinished", b"move t 0 1 4\n");
    for how in [How::Replay, How::Rebuild] {
        let refused = recover_bench(&bench, how).unwrap_err();
        assert!(refused.to_string().contains("metaq log move-partition t 0-1 4"), "{refused}");
    }
    bench.write("/data/metaq.unfinished", b"something");
    let refused = recover_bench(&bench, How::Replay).unwrap_err();
    assert!(matches!(refused, RecoverError::Offline(OfflineError::TaskMalformed(_))), "{refused}");
}

#[test]
fn what_still_keeps_an_original_from_starting_is_said() {
    let bench = Bench::killed();
    bench.disk.lose_name(Bench::segment(1).as_ref()).unwrap();
    bench.write("/data/t-1/copy of 0.meta", b"");
    let recovered = recover_bench(&bench, How::Replay).unwrap();
    assert_eq!(recovered.obstacles.len(), 2, "{recovered}");
    assert!(recovered.to_string().contains("copy of 0.meta is no position"), "{recovered}");
}

#[test]
fn a_replay_without_checkpoints_is_refused_and_names_the_way_out() {
    let bench = Bench::killed();
    lose_checkpoints(&bench);
    let refused = recover_bench(&bench, How::Replay).unwrap_err();
    let lost = |error: &RecoverError| {
        matches!(
            error,
            RecoverError::Offline(OfflineError::Open(OpenError::Checkpoint(CheckpointError::Damaged { .. })))
        )
    };
    assert!(lost(&refused), "{refused}");
    assert!(refused.to_string().contains("--rebuild"), "{refused}");
}

#[test]
fn rebuilding_is_refused_while_a_checkpoint_can_be_read_or_for_another_broker() {
    let bench = Bench::killed();
    bench.flip("/data/checkpoint", 30);
    let before = bench.disk.operations();
    let refused = recover_bench(&bench, How::Rebuild).unwrap_err();
    assert!(matches!(refused, RecoverError::NotLost("checkpoint.copy")), "{refused}");
    bench.flip("/data/checkpoint.copy", 30);
    let mut options = Bench::options();
    options.broker = 9;
    let refused = recover(bench.directory.disk.clone(), options, How::Rebuild, NOW).unwrap_err();
    assert!(matches!(refused, RecoverError::Offline(OfflineError::Open(OpenError::Format(_)))), "{refused}");
    assert_eq!(bench.disk.operations(), before, "nothing was changed");
}

#[test]
fn rebuilding_sets_the_log_aside_and_adopts_what_is_in_segments() {
    let bench = Bench::killed();
    lose_checkpoints(&bench);
    let recovered = recover_bench(&bench, How::Rebuild).unwrap();
    assert_eq!(recovered.set_aside.as_deref(), Some(Path::new("/data/metaq.aside")));
    for name in ["commit/0", "checkpoint", "checkpoint.copy", "metaq.format"] {
        assert!(bench.stands(format!("/data/metaq.aside/{name}")), "{name}");
    }
    assert!(is_clean(&bench));
    let mut broker = bench.open();
    let (messages, first, end) = broker.bounds("t", 0).unwrap();
    assert!((80..=83).contains(&messages) && first == 0 && end == messages * RECORD_BYTES);
    broker.put("t", 0, 1);
    assert_eq!(broker.bounds("t", 0).unwrap().0, messages + 1);
}

#[test]
fn ids_after_rebuilding_lie_above_those_in_segments() {
    let bench = Bench::killed();
    lose_checkpoints(&bench);
    let contents = Contents::read(&bench.directory).unwrap();
    let before = contents.folders.iter().filter_map(|folder| newest_clock(&bench.directory, folder).unwrap()).max();
    let long_ago = before.unwrap() - 3_600_000;
    recover(bench.directory.disk.clone(), Bench::options(), How::Rebuild, long_ago).unwrap();
    let contents = Contents::read(&bench.directory).unwrap();
    assert!(contents.checkpoint().unwrap().id_ceiling > before.unwrap());
}

#[test]
fn an_absurd_id_does_not_carry_ids_away() {
    let bench = Bench::foreign();
    let mut bytes = Vec::new();
    metaq_protocol::record::encode(&mut bytes, i64::MAX, 0, b"a flipped bit");
    bench.write("/data/old-1/00000000000000000000.meta", &bytes);
    let contents = Contents::read(&bench.directory).unwrap();
    assert_eq!(ids_above(&bench.directory, &contents, NOW), 0);
}

#[test]
fn rebuilding_twice_keeps_what_was_set_aside_first() {
    let bench = Bench::killed();
    lose_checkpoints(&bench);
    recover_bench(&bench, How::Rebuild).unwrap();
    lose_checkpoints(&bench);
    let recovered = recover_bench(&bench, How::Rebuild).unwrap();
    assert_eq!(recovered.set_aside.as_deref(), Some(Path::new("/data/metaq.aside.2")));
}

#[test]
fn rebuilding_a_log_without_any_checkpoint_or_format_sets_it_aside() {
    let bench = Bench::killed();
    for name in ["checkpoint", "checkpoint.copy", "metaq.format"] {
        bench.disk.lose_name(&Path::new("/data").join(name)).unwrap();
    }
    assert!(recover_bench(&bench, How::Replay).is_err());
    let recovered = recover_bench(&bench, How::Rebuild).unwrap();
    assert!(recovered.set_aside.is_some());
    assert!(is_clean(&bench));
}

#[test]
fn damage_that_is_found_while_counting_is_said() {
    let bench = Bench::killed();
    lose_checkpoints(&bench);
    bench.flip(&Bench::segment(1), 30);
    let recovered = recover_bench(&bench, How::Rebuild).unwrap();
    let said = format!("t-0: the bytes from position {} to {} are damaged", 25 * RECORD_BYTES, 26 * RECORD_BYTES);
    assert!(recovered.to_string().contains(&said), "{recovered}");
}

#[test]
fn recovering_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let act = |bench: &Bench| _ = recover_bench(bench, How::Replay);
    Bench::cuts(Bench::killed, act, |image, cut| {
        recover_bench(&image, How::Replay).unwrap_or_else(|error| panic!("{cut}: {error}"));
        assert!(is_clean(&image), "{cut}");
        let broker = image.open();
        assert_eq!(broker.bounds("t", 0).unwrap().0, 83, "{cut}");
        assert_eq!(broker.bounds("u", 0).unwrap().0, 2, "{cut}");
    });
}

#[test]
fn rebuilding_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let make = || {
        let bench = Bench::on(Bench::killed().disk.crash_image(&mut CrashChoice::Everything));
        lose_checkpoints(&bench);
        bench
    };
    let act = |bench: &Bench| _ = recover_bench(bench, How::Rebuild);
    Bench::cuts(make, act, |image, cut| {
        match recover_bench(&image, How::Rebuild) {
            // It was done but for what follows the last checkpoint.
            Ok(_) | Err(RecoverError::NotLost(_)) => {}
            Err(error) => panic!("{cut}: {error}"),
        }
        recover_bench(&image, How::Replay).unwrap_or_else(|error| panic!("{cut}: {error}"));
        assert!(is_clean(&image), "{cut}");
        let (_, first, end) = image.open().bounds("t", 0).unwrap();
        assert!(first == 0 && (80..=83).contains(&(end / RECORD_BYTES)), "{cut}: {end}");
        assert!(image.stands("/data/metaq.aside/checkpoint"), "{cut}");
    });
}
