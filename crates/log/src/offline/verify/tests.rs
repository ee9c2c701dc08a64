//! Tests of `verify`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::checkpoint::KeptDisposal;
use crate::offline::testing::{Bench, RECORD_BYTES};
use crate::recovery::OpenError;
use crate::turn::BLOCK_BYTES;
use metaq_disk::{CrashChoice, Disk, Fault};
use std::path::Path;

/// Position behind the messages that the only mark of a full segment covers.
const MARKED: u64 = 17 * RECORD_BYTES;
const SEGMENT: u64 = 25 * RECORD_BYTES;

fn changed(make: fn() -> Bench, change: impl FnOnce(&Bench)) -> (Verdict, Vec<String>) {
    let bench = make();
    change(&bench);
    (bench.verdict(), bench.said())
}

fn check_said(make: fn() -> Bench, change: impl FnOnce(&Bench), verdict: Verdict, said: &[&str]) {
    let (found, lines) = changed(make, change);
    assert_eq!((found, lines.len()), (verdict, said.len()), "{lines:#?}");
    for part in said {
        assert!(lines.iter().any(|line| line.contains(part)), "{part} isn't in {lines:#?}");
    }
}

#[test]
fn a_cleanly_stopped_directory_is_ok() {
    let bench = Bench::stopped();
    let before = bench.disk.operations();
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!((verified.verdict(), verified.clean, bench.said().len()), (Verdict::Ok, Some(true), 0), "{verified}");
    let found: Vec<_> =
        verified.partitions.iter().map(|found| (found.name(), found.records(), found.bytes())).collect();
    let wanted = [("t-0".to_owned(), 80, 80 * RECORD_BYTES), ("t-1".to_owned(), 5, 5 * RECORD_BYTES)];
    assert_eq!(found, wanted);
    assert_eq!(verified.partitions[0].covered(), 3 * MARKED);
    assert_eq!(bench.disk.operations(), before, "verifying changes nothing");
}

#[test]
fn every_byte_that_was_read_is_told() {
    let bench = Bench::stopped();
    let mut read = 0;
    let verified = verify(&bench.directory, |bytes| read += bytes).unwrap();
    assert_eq!(read, verified.partitions.iter().map(PartitionVerified::bytes).sum::<u64>());
}

#[test]
fn a_killed_broker_leaves_notes() {
    let verified = verify(&Bench::killed().directory, |_| {}).unwrap();
    assert_eq!((verified.verdict(), verified.clean), (Verdict::Notes, Some(false)), "{verified}");
    assert_eq!((verified.log.turns, verified.log.entries), (5, 6), "the second topic has an entry more");
    assert!(verified.troubles.contains(&Trouble::Unclean));
}

#[test]
fn an_original_directory_is_to_be_adopted_and_stays_an_originals() {
    let bench = Bench::foreign();
    check_said(Bench::foreign, |_| {}, Verdict::Notes, &["no broker of this kind"]);
    assert_eq!(bench.verdict(), Verdict::Notes);
    assert!(!bench.stands("/data/lock"));
}

#[test]
fn a_directory_in_use_is_refused() {
    let bench = Bench::stopped();
    let broker = bench.open();
    let refused = verify(&bench.directory, |_| {}).unwrap_err();
    assert!(matches!(refused, OfflineError::Open(OpenError::Locked(_))), "{refused}");
    drop(broker);
    assert_eq!(bench.verdict(), Verdict::Notes);
}

#[test]
fn a_changed_id_or_flag_in_an_old_segment_is_found_by_the_mark_behind_it() {
    for byte in [8, 15, 16, 19] {
        let at = SEGMENT + 3 * RECORD_BYTES + byte - SEGMENT;
        let wanted = format!("an id or a flag between positions {SEGMENT} and {}", SEGMENT + MARKED);
        check_said(Bench::stopped, |bench| bench.flip(&Bench::segment(1), at), Verdict::Damaged, &[&wanted]);
    }
}

#[test]
fn a_changed_byte_of_a_body_a_length_or_a_checksum_is_found_by_the_record() {
    for byte in [0, 3, 4, 7, 20, RECORD_BYTES - 1] {
        let at = 3 * RECORD_BYTES + byte;
        let wanted = format!("from position {} to {} are no records", 3 * RECORD_BYTES, 4 * RECORD_BYTES);
        check_said(Bench::stopped, |bench| bench.flip(&Bench::segment(0), at), Verdict::Damaged, &[&wanted]);
    }
}

#[test]
fn marks_behind_damage_are_judged_again() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(0), 30);
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!(verified.partitions[0].segments[0].headers, vec![], "the record is named, not the marks around it");
    assert_eq!(verified.partitions[0].covered(), 2 * MARKED);
    let long = Bench::empty();
    let mut broker = long.open();
    for _ in 0..60 {
        // Two marks a segment.
        broker.put_body("t", 0, &[7; 2500]);
    }
    broker.stop();
    long.flip("/data/t-0/00000000000000000000.meta", 30);
    let verified = verify(&long.directory, |_| {}).unwrap();
    let PartitionTrouble::Records { range } = &verified.partitions[0].troubles[0] else { panic!("{verified}") };
    assert_eq!(*range, 0..2520);
}

#[test]
fn bytes_behind_the_last_mark_are_told_as_not_covered() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(0), MARKED + 8);
    let verified = verify(&bench.directory, |_| {}).unwrap();
    let segment = &verified.partitions[0].segments[0];
    assert_eq!((verified.verdict(), segment.covered, segment.len), (Verdict::Ok, MARKED, SEGMENT));
}

#[test]
fn the_last_record_of_a_clean_stop_was_durable() {
    let last = Bench::segment(3);
    let wanted = format!("from position {} to {}, where a segment ends", 79 * RECORD_BYTES, 80 * RECORD_BYTES);
    check_said(Bench::stopped, |bench| bench.flip(&last, 4 * RECORD_BYTES + 100), Verdict::Damaged, &[&wanted]);
}

#[test]
fn a_damaged_a_missing_and_a_foreign_index_are_notes() {
    for byte in 0..32 {
        let wanted = "segment 0: the index is damaged from its mark 0 on";
        check_said(Bench::stopped, |bench| bench.flip(&Bench::index(0), byte), Verdict::Notes, &[wanted]);
    }
    let cut = |bench: &Bench| bench.cut(&Bench::index(1), 31);
    check_said(Bench::stopped, cut, Verdict::Notes, &["segment 100500: the index is damaged from its mark 0 on"]);
    let remove = |bench: &Bench| bench.disk.remove_file(Path::new(&Bench::index(2))).unwrap();
    check_said(Bench::stopped, remove, Verdict::Notes, &["segment 201000: the segment has no index"]);
    let move_mark = |bench: &Bench| {
        let mark = crate::index::Mark { position: MARKED + 1, sequence: 17, append_time: 5, checksum: 9 };
        bench.write(&Bench::index(0), &mark.encode());
    };
    check_said(Bench::stopped, move_mark, Verdict::Notes, &["segment 0: the index doesn't belong to these bytes"]);
    let miscount = |bench: &Bench| {
        let bytes = bench.read(&Bench::index(0));
        let whole = crate::index::Mark::decode(&bytes).unwrap();
        let first = crate::index::Mark { position: RECORD_BYTES, ..whole };
        let first_bytes = &bench.read(&Bench::segment(0))[..usize::try_from(RECORD_BYTES).unwrap()];
        let first = crate::index::Mark { sequence: 1, checksum: crc32c::crc32c(first_bytes), ..first };
        let second = crate::index::Mark { sequence: 16, ..whole };
        bench.write(&Bench::index(0), &[first.encode(), second.encode()].concat());
    };
    check_said(Bench::stopped, miscount, Verdict::Notes, &["doesn't belong to these bytes from its mark 1 on"]);
}

#[test]
fn a_damaged_checkpoint_is_found_and_the_other_one_counts() {
    for (name, flip) in [("checkpoint", "/data/checkpoint"), ("checkpoint.copy", "/data/checkpoint.copy")] {
        let wanted = format!("{name} is damaged; the other one is whole");
        check_said(Bench::stopped, |bench| bench.flip(flip, 40), Verdict::Damaged, &[&wanted]);
        let wanted = format!("{name} is missing; the other one is whole");
        let lose = |bench: &Bench| bench.disk.lose_name(Path::new(flip)).unwrap();
        check_said(Bench::stopped, lose, Verdict::Notes, &[&wanted]);
    }
    let unreadable = |bench: &Bench| bench.disk.inject("/data/checkpoint.copy", Fault::FailRead, 0..u64::MAX);
    check_said(Bench::stopped, unreadable, Verdict::Damaged, &["checkpoint.copy is damaged; the other one is whole"]);
    let both = |bench: &Bench| {
        bench.flip("/data/checkpoint", 40);
        bench.flip("/data/checkpoint.copy", 50);
    };
    check_said(Bench::stopped, both, Verdict::Damaged, &["neither checkpoint can be read"]);
}

#[test]
fn checkpoints_that_differ_are_a_note_and_the_newer_one_counts() {
    let bench = Bench::stopped();
    let old = bench.read("/data/checkpoint.copy");
    let mut broker = bench.open();
    broker.put("t", 1, 1);
    broker.stop();
    bench.write("/data/checkpoint", &old);
    assert_eq!((bench.verdict(), bench.said().len()), (Verdict::Notes, 1));
    assert!(bench.said()[0].contains("checkpoint.copy counts"), "{:?}", bench.said());
}

#[test]
fn a_lost_or_garbled_format_is_damage() {
    let lose = |bench: &Bench| bench.disk.lose_name(Path::new("/data/metaq.format")).unwrap();
    check_said(Bench::stopped, lose, Verdict::Damaged, &["metaq.format is missing"]);
    let flip = |bench: &Bench| bench.flip("/data/metaq.format", 0);
    check_said(Bench::stopped, flip, Verdict::Damaged, &["metaq.format can't be understood at line 1"]);
}

#[test]
fn a_later_format_cannot_be_judged() {
    let bench = Bench::stopped();
    bench.write("/data/metaq.format", b"format 9\ncluster metaq\nbroker 0\nprogram metaq 9\n");
    let refused = verify(&bench.directory, |_| {}).unwrap_err();
    assert!(matches!(refused, OfflineError::Open(OpenError::Format(_))), "{refused}");
}

/// File and byte of the turns behind the checkpoint.
fn turns(bench: &Bench) -> Vec<(u32, u64)> {
    let contents = Contents::read(&bench.directory).unwrap();
    let checkpoint = contents.checkpoint().unwrap();
    let all = crate::offline::dump::whole_turns(&bench.directory, checkpoint.geometry).unwrap();
    let ours = |turn: &&crate::offline::dump::WholeTurn| {
        turn.header.incarnation == checkpoint.incarnation && turn.header.first_lsn > checkpoint.lsn
    };
    all.iter().filter(ours).map(|turn| (turn.file, turn.offset)).collect()
}

#[test]
fn a_damaged_turn_is_damage_unless_it_is_the_last() {
    let places = turns(&Bench::killed());
    assert_eq!(places.len(), 5);
    let path = |file| format!("/data/commit/{file}");
    let (file, offset) = places[1];
    for byte in [0, 30, 59, 70, 2000] {
        let flip = |bench: &Bench| bench.flip(&path(file), offset + byte);
        let wanted = format!("damaged at byte {offset} of file {file}: entries ");
        let (verdict, said) = changed(Bench::killed, flip);
        assert!(said.iter().any(|line| line.contains(&wanted)), "byte {byte}: {said:#?}");
        assert_eq!(verdict, Verdict::Damaged);
    }
    let (file, offset) = places[4];
    let flip = |bench: &Bench| bench.flip(&path(file), offset + 100);
    let (verdict, said) = changed(Bench::killed, flip);
    assert!(said.iter().any(|line| line.contains("the last turn of the commit log isn't whole")), "{said:#?}");
    assert_eq!(verdict, Verdict::Notes);
}

#[test]
fn a_missing_and_a_short_file_of_the_log_are_damage() {
    let (file, offset) = turns(&Bench::killed())[0];
    let path = format!("/data/commit/{file}");
    let lose = |bench: &Bench| bench.disk.lose_name(Path::new(&path)).unwrap();
    let (verdict, said) = changed(Bench::killed, lose);
    assert!(said.iter().any(|line| line.contains(&format!("file {file} of the commit log is missing"))), "{said:#?}");
    assert_eq!(verdict, Verdict::Damaged);
    let (verdict, said) = changed(Bench::killed, |bench| bench.cut(&path, offset + BLOCK_BYTES as u64));
    assert!(said.iter().any(|line| line.contains("it should have 262144")), "{said:#?}");
    assert_eq!(verdict, Verdict::Damaged);
}

#[test]
fn missing_short_and_unreadable_segments_are_damage() {
    let lose = |bench: &Bench| bench.disk.lose_name(Path::new(&Bench::segment(1))).unwrap();
    check_said(
        Bench::stopped,
        lose,
        Verdict::Damaged,
        &["the segment at 0 ends at 100500, but the next one begins at 201000"],
    );
    let cut = |bench: &Bench| bench.cut(&Bench::segment(3), 2 * RECORD_BYTES);
    let missing = format!("from position {} to {} had been durable", 77 * RECORD_BYTES, 80 * RECORD_BYTES);
    check_said(Bench::stopped, cut, Verdict::Damaged, &[&missing]);
    let fail = |bench: &Bench| bench.disk.inject(&Bench::segment(2), Fault::FailRead, 0..u64::MAX);
    check_said(Bench::stopped, fail, Verdict::Damaged, &["the segment at 201000 can't be read"]);
    let all = |bench: &Bench| bench.disk.rename(Path::new("/data/t-0"), Path::new("/elsewhere")).unwrap();
    check_said(
        Bench::stopped,
        all,
        Verdict::Damaged,
        &["t-0: the bytes from position 301500 to 321600 had been durable"],
    );
}

#[test]
fn what_an_unclean_checkpoint_covers_is_judged_and_what_lies_behind_is_not() {
    let last = Bench::segment(3);
    let damage = |bench: &Bench| bench.flip(&last, RECORD_BYTES + 500);
    assert_eq!(changed(Bench::killed, damage).0, Verdict::Damaged);
    let behind = |bench: &Bench| bench.write("/data/t-0/00000000000000500000.meta", b"whatever the power cut left");
    let (verdict, said) = changed(Bench::killed, behind);
    assert_eq!(verdict, Verdict::Notes, "{said:#?}");
    let short = |bench: &Bench| bench.cut(&last, RECORD_BYTES);
    let (verdict, said) = changed(Bench::killed, short);
    assert_eq!(verdict, Verdict::Damaged, "{said:#?}");
}

#[test]
fn what_another_program_wrote_is_a_note() {
    let bench = Bench::stopped();
    let mut bytes = bench.read("/data/t-1/00000000000000000000.meta");
    metaq_protocol::record::encode(&mut bytes, -5, 0, b"an original was here");
    bench.write("/data/t-1/00000000000000000000.meta", &bytes);
    bytes.extend_from_slice(b"torn");
    bench.write("/data/u-3/00000000000000000000.meta", &bytes);
    assert_eq!(bench.verdict(), Verdict::Notes);
    let said = bench.said();
    assert_eq!(said.len(), 3, "{said:#?}");
    for part in ["t-1: another program moved its end", "u-3: the log doesn't know it", "u-3: the last 4 bytes are"] {
        assert!(said.iter().any(|line| line.contains(part)), "{part}: {said:#?}");
    }
}

#[test]
fn a_partition_in_two_data_paths_is_damage() {
    let bench = Bench::stopped();
    bench.write("/more/t-0/00000000000000000000.meta", b"");
    let directory = Directory::new(bench.directory.disk.clone(), "/data", ["/data".into(), "/more".into()]);
    let verified = verify(&directory, |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Damaged);
    let twice = PartitionTrouble::Twice { folder: "/more/t-0".into() };
    assert!(verified.partitions[0].troubles.contains(&twice), "{verified}");
}

#[test]
fn a_deleted_and_a_trimmed_partition_leave_notes_until_they_are_replayed() {
    let bench = Bench::empty();
    let mut broker = bench.open();
    broker.put("t", 0, 80);
    broker.put("t", 1, 2);
    broker.checkpoint();
    let first = broker.log.partition("t", 0).unwrap();
    let trim = broker.log.trim(&first, 2 * SEGMENT, crate::Disposal::Delete).unwrap();
    broker.submit(Vec::new(), crate::What::Change(Box::new(trim)));
    let second = broker.log.partition("t", 1).unwrap();
    broker.submit(Vec::new(), crate::What::Change(Box::new(crate::Change::Delete(second))));
    drop(broker);
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Notes, "{verified}");
    // The half that wasn't removed yet.
    bench.write("/data/t-1/00000000000000000000.meta", b"rest");
    bench.write(&Bench::segment(1), b"rest");
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Notes, "{verified}");
    assert!(verified.partitions[1].troubles.contains(&PartitionTrouble::Deleted), "{verified}");
}

#[test]
fn what_is_still_to_be_disposed_of_leaves_notes() {
    let bench = Bench::stopped();
    bench.write("/data/t-7/00000000000000000000.meta", b"half removed");
    bench.edit(|checkpoint| {
        let trim = KeptDisposal::Trim { partition: 0, first: 2 * SEGMENT, how: crate::Disposal::Delete };
        checkpoint.disposals = vec![trim, KeptDisposal::Delete { topic: "t".to_owned(), index: 7 }];
    });
    bench.disk.remove_file(Path::new(&Bench::segment(0))).unwrap();
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Notes, "{verified}");
    let troubles: Vec<_> = verified.partitions.iter().flat_map(|partition| partition.troubles.clone()).collect();
    assert_eq!(troubles, [PartitionTrouble::Trimmed { segments: 1 }, PartitionTrouble::Deleted]);
    bench.open().stop();
    let verified = verify(&bench.directory, |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Ok, "{verified}");
    assert!(!bench.stands("/data/t-7") && !bench.stands(Bench::segment(1)));
}

#[test]
fn no_power_cut_makes_damage() {
    let run = |bench: &Bench| {
        let broker =
            crate::recovery::open(bench.directory.disk.clone(), Bench::options(), crate::offline::testing::NOW);
        let Ok(opened) = broker else { return };
        let mut broker = crate::offline::testing::Broker::of(opened);
        broker.try_put("t", 0, 40);
        broker.try_checkpoint();
        broker.try_put("t", 0, 45);
        broker.try_put("u", 0, 3);
        broker.stop();
    };
    let whole = Bench::stopped();
    let before = whole.disk.operations();
    run(&whole);
    let operations = whole.disk.operations();
    for cut in (before..=operations).step_by(11) {
        let bench = Bench::stopped();
        bench.disk.cut_power_after(cut);
        run(&bench);
        for choice in [CrashChoice::Nothing, CrashChoice::Everything, CrashChoice::Random(cut)] {
            let image = Bench::on(bench.disk.crash_image(&mut choice.clone()));
            let verified = verify(&image.directory, |_| {}).unwrap();
            assert!(verified.verdict() < Verdict::Damaged, "{cut} of {operations}, {choice:?}: {verified}");
            run(&image);
            let verified = verify(&image.directory, |_| {}).unwrap();
            assert_eq!(verified.clean, Some(true));
            assert!(verified.verdict() < Verdict::Damaged, "run again, {cut} of {operations}, {choice:?}: {verified}");
        }
    }
}
