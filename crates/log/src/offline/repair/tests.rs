//! Tests of `repair`: every outcome, and the power cut at every operation where something is changed.

use super::*;
use crate::offline::testing::{Bench, NOW, RECORD_BYTES};
use crate::offline::{How, Verdict, recover};
use metaq_disk::Disk;
use std::path::Path;

const SEGMENT: u64 = 25 * RECORD_BYTES;

fn plan(bench: &Bench, options: &RepairOptions) -> Plan {
    plan_repair(&bench.directory, options, |_| {}).unwrap()
}

fn cutting() -> RepairOptions {
    RepairOptions { truncate: Truncate::All, identity: None }
}

fn repair(bench: &Bench, options: &RepairOptions) -> Vec<Step> {
    let plan = plan(bench, options);
    let steps = plan.steps().to_vec();
    plan.carry_out().unwrap();
    steps
}

fn t(number: u32) -> String {
    format!("t-{number}")
}

#[test]
fn a_whole_directory_has_nothing_to_repair_and_planning_changes_nothing() {
    let bench = Bench::stopped();
    let checkpoint = bench.read("/data/checkpoint");
    let plan = plan(&bench, &cutting());
    assert_eq!((plan.steps(), plan.kept(), plan.next()), (&[][..], &[][..], None));
    assert_eq!(plan.to_string(), "there is nothing to repair\n");
    plan.carry_out().unwrap();
    assert_eq!(bench.read("/data/checkpoint"), checkpoint);
}

#[test]
fn a_plan_keeps_the_directory_locked_until_it_is_dropped() {
    let bench = Bench::stopped();
    let plan = plan(&bench, &cutting());
    assert!(plan_repair(&bench.directory, &cutting(), |_| {}).is_err());
    assert!(crate::recovery::open(bench.directory.disk.clone(), Bench::options(), NOW).is_err());
    drop(plan);
    bench.open();
}

#[test]
fn what_is_unfinished_is_refused() {
    let bench = Bench::stopped();
    bench.write("/data/metaq.unfinished", b"move t 0 1 4\n");
    let refused = plan_repair(&bench.directory, &cutting(), |_| {}).unwrap_err();
    assert!(matches!(refused, RepairError::Offline(OfflineError::Interrupted(_))), "{refused}");
}

#[test]
fn a_checkpoint_is_restored_from_the_other_one() {
    for (bad, good) in [("checkpoint", "checkpoint.copy"), ("checkpoint.copy", "checkpoint")] {
        for make in [Bench::stopped, Bench::killed] {
            let bench = make();
            let whole = bench.read(&format!("/data/{good}"));
            bench.flip(&format!("/data/{bad}"), 33);
            assert_eq!(repair(&bench, &RepairOptions::default()), [Step::RestoreCheckpoint { name: bad, from: good }]);
            assert_eq!(bench.read(&format!("/data/{bad}")), whole);
            assert!(bench.verdict() < Verdict::Damaged);
        }
    }
}

#[test]
fn both_checkpoints_lost_is_for_a_rebuild() {
    let bench = Bench::stopped();
    bench.flip("/data/checkpoint", 33);
    bench.flip("/data/checkpoint.copy", 33);
    bench.flip(&Bench::segment(0), 30);
    let plan = plan(&bench, &cutting());
    assert!(plan.steps().is_empty(), "{plan}");
    assert!(plan.next().unwrap().contains("--rebuild"));
    assert_eq!(plan.kept().len(), 2, "{plan}");
}

#[test]
fn a_lost_or_garbled_format_is_written_again_for_a_named_broker() {
    let harms: [fn(&Bench); 2] = [
        |bench| bench.disk.lose_name(Path::new("/data/metaq.format")).unwrap(),
        |bench| bench.flip("/data/metaq.format", 0),
    ];
    for harm in harms {
        let bench = Bench::stopped();
        harm(&bench);
        let without = plan(&bench, &cutting());
        assert!(without.steps().is_empty() && without.kept()[0].contains("which cluster"), "{without}");
        drop(without);
        let identity = Identity { cluster: "metaq".to_owned(), broker: 0, program: "metaq 1".to_owned() };
        let options = RepairOptions { identity: Some(identity.clone()), truncate: Truncate::Never };
        assert_eq!(repair(&bench, &options), [Step::RestoreFormat(identity)]);
        assert_eq!(bench.verdict(), Verdict::Ok);
        assert!(bench.open().report.clean);
    }
}

/// A killed directory whose second turn behind the checkpoint is damaged.
fn with_a_damaged_turn() -> Bench {
    let bench = Bench::killed();
    let contents = Contents::read(&bench.directory).unwrap();
    let checkpoint = contents.checkpoint().unwrap();
    let turns = whole_turns(&bench.directory, checkpoint.geometry).unwrap();
    let second = turns
        .iter()
        .find(|turn| turn.header.incarnation == checkpoint.incarnation && turn.header.first_lsn == checkpoint.lsn + 2);
    let second = second.unwrap();
    bench.flip(&format!("/data/commit/{}", second.file), second.offset + 200);
    bench
}

#[test]
fn damaged_entries_are_given_up_and_what_stands_before_them_stays() {
    let bench = with_a_damaged_turn();
    assert!(crate::recovery::open(bench.directory.disk.clone(), Bench::options(), NOW).is_err());
    let plan = plan(&bench, &RepairOptions::default());
    let [Step::GiveUp { entries, turns, held, missing }] = plan.steps() else { panic!("{plan}") };
    let lsn = plan.checkpoint.as_ref().unwrap().lsn;
    assert_eq!((entries.start, *turns, &missing[..]), (lsn + 2, 3, &[][..]));
    let lost = BTreeMap::from([("t-0".to_owned(), (1, RECORD_BYTES)), ("u-0".to_owned(), (2, 2 * RECORD_BYTES))]);
    assert_eq!(*held, lost);
    assert!(plan.to_string().contains("of u-0 at least 2 messages"), "{plan}");
    assert!(plan.next().unwrap().contains("metaq log recover"));
    let set_aside = plan.carry_out().unwrap().unwrap();
    assert!(bench.disk.list(&set_aside.join("commit")).unwrap().len() == 1);
    let broker = bench.open();
    assert_eq!(broker.bounds("t", 0).unwrap().0, 81);
    assert_eq!(broker.bounds("u", 0), None);
}

#[test]
fn a_missing_file_of_the_log_is_made_again_and_what_it_held_is_given_up() {
    let second = |bench: &Bench| {
        let contents = Contents::read(&bench.directory).unwrap();
        let checkpoint = contents.checkpoint().unwrap();
        u32::try_from(checkpoint.place.generation % u64::from(checkpoint.geometry.files)).unwrap()
    };
    for offset in 0..4 {
        let bench = Bench::killed();
        let file = (second(&bench) + offset) % 4;
        bench.disk.lose_name(Path::new(&format!("/data/commit/{file}"))).unwrap();
        assert!(crate::recovery::open(bench.directory.disk.clone(), Bench::options(), NOW).is_err());
        let plan = plan(&bench, &RepairOptions::default());
        let [Step::GiveUp { missing, .. }] = plan.steps() else { panic!("{plan}") };
        assert_eq!(*missing, [file]);
        assert!(plan.to_string().contains(&format!("file {file} of the log is made again, empty")), "{plan}");
        plan.carry_out().unwrap();
        let broker = bench.open();
        let (messages, _, end) = broker.bounds("t", 0).unwrap();
        assert!((80..=83).contains(&messages) && end == messages * RECORD_BYTES, "file {file}: {messages}");
    }
}

#[test]
fn giving_up_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let act = |bench: &Bench| _ = plan_repair(&bench.directory, &cutting(), |_| {}).map(Plan::carry_out);
    Bench::cuts(with_a_damaged_turn, act, |image, cut| {
        repair(&image, &RepairOptions::default());
        recover(image.directory.disk.clone(), Bench::options(), How::Replay, NOW).unwrap();
        assert_eq!(image.verdict(), Verdict::Ok, "{cut}");
        let broker = image.open();
        assert_eq!((broker.bounds("t", 0).unwrap().0, broker.bounds("u", 0)), (81, None), "{cut}");
    });
}

#[test]
fn damage_in_the_middle_is_kept_and_readers_are_led_behind_it() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
    let range = SEGMENT + 2 * RECORD_BYTES..SEGMENT + 3 * RECORD_BYTES;
    let bytes = bench.read(&Bench::segment(1));
    let steps = repair(&bench, &RepairOptions::default());
    assert_eq!(steps, [Step::RecordDamage { partition: t(0), range: range.clone() }]);
    assert_eq!(bench.read(&Bench::segment(1)), bytes, "no byte of the segment is changed");
    let again = plan(&bench, &RepairOptions::default());
    assert_eq!((again.steps().len(), again.kept().len()), (0, 1));
    drop(again);
    let broker = bench.open();
    let partition = broker.log.partition("t", 0).unwrap();
    let read = broker.log.read(&partition, range.start, 1000, broker.log.settled()).unwrap();
    assert!(matches!(read, crate::Read::Damaged { next } if next == range.end), "{read:?}");
}

#[test]
fn damage_that_was_mended_is_forgotten() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
    bench.flip(&Bench::segment(2), 100);
    assert_eq!(repair(&bench, &RepairOptions::default()).len(), 2);
    bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
    let range = SEGMENT + 2 * RECORD_BYTES..SEGMENT + 3 * RECORD_BYTES;
    let steps = repair(&bench, &RepairOptions::default());
    assert_eq!(steps, [Step::ForgetDamage { partition: t(0), range }]);
    let broker = bench.open();
    let damage = broker.log.partition("t", 0).unwrap().bounds(broker.log.settled()).damage;
    assert_eq!(damage, [crate::Damage { range: 2 * SEGMENT..2 * SEGMENT + RECORD_BYTES }]);
}

#[test]
fn on_demand_a_partition_ends_before_its_first_damage() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
    bench.flip(&Bench::segment(2), 100);
    let position = SEGMENT + 2 * RECORD_BYTES;
    let these = RepairOptions { truncate: Truncate::These(vec![("t".to_owned(), 1)]), identity: None };
    assert!(plan(&bench, &these).steps().iter().all(|step| matches!(step, Step::RecordDamage { .. })));
    let these = RepairOptions { truncate: Truncate::These(vec![("t".to_owned(), 0)]), identity: None };
    let steps = repair(&bench, &these);
    // Of 53 messages behind it two are damaged.
    let wanted = Step::Truncate { partition: t(0), position, bytes: 53 * RECORD_BYTES, messages: 51 };
    assert_eq!(steps, [wanted]);
    assert_eq!(bench.verdict(), Verdict::Ok);
    let mut broker = bench.open();
    assert!(broker.report.findings.is_empty(), "{:?}", broker.report.findings);
    assert_eq!(broker.bounds("t", 0), Some((27, 0, position)));
    broker.put("t", 0, 30);
    assert_eq!(broker.bounds("t", 0), Some((57, 0, position + 30 * RECORD_BYTES)));
    let partition = broker.log.partition("t", 0).unwrap();
    assert_eq!(broker.log.position_of(&partition, 40).unwrap(), Some(40 * RECORD_BYTES));
    broker.stop();
    assert_eq!(bench.verdict(), Verdict::Ok);
}

#[test]
fn a_damaged_last_record_is_kept_unless_cutting_is_demanded() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(3), 4 * RECORD_BYTES + 100);
    let range = 79 * RECORD_BYTES..80 * RECORD_BYTES;
    let kept = plan(&bench, &RepairOptions::default());
    assert_eq!(kept.steps(), [Step::RecordDamage { partition: t(0), range: range.clone() }]);
    drop(kept);
    let steps = repair(&bench, &cutting());
    let wanted = Step::Truncate { partition: t(0), position: range.start, bytes: RECORD_BYTES, messages: 0 };
    assert_eq!(steps, [wanted]);
    assert_eq!(bench.verdict(), Verdict::Ok);
}

#[test]
fn cutting_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let make = || {
        let bench = Bench::stopped();
        bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
        bench
    };
    let act = |bench: &Bench| _ = plan_repair(&bench.directory, &cutting(), |_| {}).map(Plan::carry_out);
    Bench::cuts(make, act, |image, cut| {
        let gap = Contents::read(&image.directory).unwrap().folder("t", 0).unwrap().gap();
        assert_eq!(gap, None, "{cut}: a broker that opens it now finds no gap");
        repair(&image, &cutting());
        let broker = image.open();
        let (messages, first, end) = broker.bounds("t", 0).unwrap();
        assert_eq!((first, end), (0, 27 * RECORD_BYTES), "{cut}");
        let adopted = !broker.report.findings.is_empty();
        assert!(messages == 27 || adopted, "{cut}: {messages}");
    });
}

#[test]
fn the_torn_tail_of_a_foreign_partition_is_cut() {
    let bench = Bench::foreign();
    let path = "/data/old-9/00000000000000000000.meta";
    let mut bytes = Vec::new();
    metaq_protocol::record::encode(&mut bytes, -1, 0, b"whole");
    let whole = bytes.len() as u64;
    bytes.extend_from_slice(b"torn");
    bench.write(path, &bytes);
    let steps = repair(&bench, &RepairOptions::default());
    assert_eq!(steps, [Step::CutTail { partition: "old-9".to_owned(), position: whole, bytes: 4 }]);
    assert_eq!(bench.read(path).len() as u64, whole);
    assert!(!bench.stands("/data/lock"));
}

#[test]
fn a_foreign_partition_with_a_gap_is_left_alone_unless_cutting_is_demanded() {
    let bench = Bench::foreign();
    bench.write("/data/old-0/00000000000000009999.meta", b"torn");
    assert!(plan(&bench, &RepairOptions::default()).steps().is_empty());
    let steps = repair(&bench, &cutting());
    let position = 5 * (20 + 15);
    assert_eq!(steps, [Step::Truncate { partition: "old-0".to_owned(), position, bytes: 4, messages: 0 }]);
    assert!(!bench.stands("/data/old-0/00000000000000009999.meta"));
    assert_eq!(bench.open().bounds("old", 0).unwrap().2, position);
}

/// A cleanly stopped directory whose first partition was closed, its second segment being away.
fn closed() -> (Bench, Vec<u8>) {
    let bench = Bench::stopped();
    let bytes = bench.read(&Bench::segment(1));
    bench.disk.lose_name(Path::new(&Bench::segment(1))).unwrap();
    bench.open().stop();
    (bench, bytes)
}

#[test]
fn a_closed_partition_opens_again_when_its_missing_segment_is_back() {
    let (bench, bytes) = closed();
    let away = plan(&bench, &RepairOptions::default());
    assert!(away.steps().is_empty() && away.kept().len() == 1, "{away}");
    drop(away);
    bench.write(&Bench::segment(1), &bytes);
    let end = 80 * RECORD_BYTES;
    let steps = repair(&bench, &RepairOptions::default());
    assert_eq!(steps.last(), Some(&Step::Reopen { partition: t(0), end, was: end }), "{steps:?}");
    let mut broker = bench.open();
    assert!(broker.log.partition("t", 0).unwrap().bounds(broker.log.settled()).damage.is_empty());
    broker.put("t", 0, 1);
    assert_eq!(broker.bounds("t", 0), Some((81, 0, 81 * RECORD_BYTES)));
}

#[test]
fn a_closed_partition_is_cut_at_its_gap_on_demand_and_opens_again() {
    let (bench, _) = closed();
    let steps = repair(&bench, &cutting());
    let (bytes, messages) = (30 * RECORD_BYTES, 30);
    assert_eq!(steps, [Step::Truncate { partition: t(0), position: SEGMENT, bytes, messages }]);
    let mut broker = bench.open();
    broker.put("t", 0, 1);
    assert_eq!(broker.bounds("t", 0), Some((26, 0, 26 * RECORD_BYTES)));
}

#[test]
fn a_closed_partition_that_lost_its_end_opens_where_it_ends_if_nothing_lies_behind() {
    let bench = Bench::killed();
    // Less than the checkpoint says.
    bench.cut(&Bench::segment(3), RECORD_BYTES);
    recover(bench.directory.disk.clone(), Bench::options(), How::Replay, NOW).unwrap();
    bench.cut(&Bench::segment(3), RECORD_BYTES);
    let plan = plan(&bench, &RepairOptions::default());
    let reopens =
        |step: &&Step| matches!(step, Step::Reopen { end, was, .. } if *end == 76 * RECORD_BYTES && was > end);
    assert_eq!(plan.steps().iter().filter(reopens).count(), 1, "{plan}");
    plan.carry_out().unwrap();
    let mut broker = bench.open();
    broker.put("t", 0, 1);
    assert_eq!(broker.bounds("t", 0), Some((77, 0, 77 * RECORD_BYTES)));
}

#[test]
fn indexes_are_made_again_as_they_were() {
    let bench = Bench::stopped();
    let marks = |number| {
        let bytes = bench.read(&Bench::index(number));
        let marks = bytes.chunks(32).map(|chunk| crate::index::Mark::decode(chunk).unwrap());
        marks.map(|mark| (mark.position, mark.sequence, mark.checksum)).collect::<Vec<_>>()
    };
    let before: Vec<_> = (0..3).map(marks).collect();
    bench.flip(&Bench::index(0), 3);
    bench.disk.lose_name(Path::new(&Bench::index(1))).unwrap();
    let stale = crate::index::Mark { position: 2 * SEGMENT + 9, sequence: 1, append_time: 1, checksum: 1 };
    bench.write(&Bench::index(2), &stale.encode());
    let steps = repair(&bench, &RepairOptions::default());
    let wanted: Vec<_> = (0..3).map(|at| Step::RebuildIndex { partition: t(0), segment: at * SEGMENT }).collect();
    assert_eq!(steps, wanted);
    assert_eq!((0..3).map(marks).collect::<Vec<_>>(), before);
    let times = bench.read(&Bench::index(1));
    let time = crate::index::Mark::decode(&times).unwrap().append_time;
    assert!((NOW..NOW + 3_600_000).contains(&time), "{time}");
    assert_eq!(bench.verdict(), Verdict::Ok);
}

#[test]
fn an_index_of_a_damaged_or_foreign_segment_is_removed() {
    let bench = Bench::stopped();
    bench.flip(&Bench::index(0), 3);
    bench.flip(&Bench::segment(0), 30);
    bench.write("/data/u-0/00000000000000000000.meta", &bench.read(&Bench::segment(3)));
    bench.write("/data/u-0/00000000000000000000.index", b"not a mark");
    let steps = repair(&bench, &RepairOptions::default());
    assert!(steps.contains(&Step::RemoveIndex { partition: t(0), segment: 0 }), "{steps:?}");
    assert!(steps.contains(&Step::RemoveIndex { partition: "u-0".to_owned(), segment: 0 }), "{steps:?}");
    assert!(!bench.stands(Bench::index(0)) && !bench.stands("/data/u-0/00000000000000000000.index"));
}

#[test]
fn a_changed_id_is_kept_and_said() {
    let bench = Bench::stopped();
    bench.flip(&Bench::segment(0), 9);
    let plan = plan(&bench, &cutting());
    assert!(plan.steps().is_empty(), "nothing can restore it, and nothing is cut for it");
    assert!(plan.kept()[0].contains("an id or a flag"), "{plan}");
}

#[test]
fn repairing_that_is_interrupted_anywhere_is_finished_by_running_it_again() {
    let make = || {
        let bench = Bench::stopped();
        bench.flip("/data/checkpoint.copy", 33);
        bench.flip(&Bench::index(2), 3);
        bench.flip(&Bench::segment(1), 2 * RECORD_BYTES + 100);
        bench.write("/data/u-0/00000000000000000000.meta", b"torn");
        bench
    };
    let act = |bench: &Bench| _ = plan_repair(&bench.directory, &RepairOptions::default(), |_| {}).map(Plan::carry_out);
    Bench::cuts(make, act, |image, cut| {
        repair(&image, &RepairOptions::default());
        let again = plan(&image, &RepairOptions::default());
        assert!(again.steps().is_empty(), "{cut}: {again}");
        drop(again);
        let mut broker = image.open();
        assert_eq!(broker.bounds("t", 0).unwrap().0, 80, "{cut}");
        broker.put("t", 0, 1);
        assert!(image.stands(Bench::index(2)), "{cut}");
    });
}
