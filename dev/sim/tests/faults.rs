//! What becomes of a directory when its disk fails it: nothing acknowledged is lost, everybody who waits is told.

use metaq_disk::{CrashChoice, Disk, Fault, FaultyDisk, Kind, Open, read_exact_at};
use metaq_log::{
    Change, CheckpointError, Clock, Condition, Damage, Disposal, Durability, Found, OpenError, PerformError, Read,
    Refusal, StateChange, WalkError, Wrote,
};
use metaq_sim::{Machine, Rig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn who_waits_for_a_change_is_told_at_once_that_the_log_failed() {
    let machine = Machine::scripted();
    let disk = machine.disk.clone();
    let opened = metaq_log::open(Arc::new(disk.clone()), machine.profile.options, machine.now).unwrap();
    let clock: Clock = Arc::new(move || machine.now);
    let running = metaq_log::run(opened, clock).unwrap();
    disk.inject("/log/commit", Fault::FailSync, 0..1);
    let started = Instant::now();
    let change = StateChange { space: 1, key: b"k".to_vec(), value: Some(b"v".to_vec()) };
    let change = Change::State {
        conditions: vec![Condition { space: 1, key: b"k".to_vec(), version: None }],
        changes: vec![change],
    };
    let refused = running.log().perform(vec![change], Duration::from_secs(60)).unwrap_err();
    assert!(matches!(refused, PerformError::Refused(Refusal::StoreClosed(_))), "{refused}");
    assert!(started.elapsed() < Duration::from_secs(20), "it waited for {:?}", started.elapsed());
}

#[test]
fn what_was_written_before_a_segment_failed_is_not_pending_any_more() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..3 {
        rig.put(&orders, &[&[body; 5000]]);
    }
    rig.sync().unwrap();
    assert_eq!(rig.log.gauges().pending_bytes, 15_060);
    // The first segment is written, the second isn't.
    rig.machine.disk.inject("00000000000000005020.meta", Fault::NoSpace, 0..1);
    rig.applier.step(rig.machine.now + 2000);
    assert_eq!(rig.log.gauges().pending_bytes, 10_040);
    rig.applier.step(rig.machine.now + 4000);
    assert_eq!(rig.log.gauges().pending_bytes, 0);
    assert_eq!(rig.bodies(&orders).len(), 3);
}

/// A machine that crashed with one acknowledged message behind the last checkpoint and one before it.
fn crashed() -> Machine {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"before"]);
    rig.checkpoint();
    rig.put(&orders, &[b"behind"]);
    rig.sync().expect("the disk is well");
    rig.crash(CrashChoice::Nothing)
}

fn holds_both(machine: Machine) {
    let rig = machine.open();
    let orders = rig.log.partition("orders", 0).expect("it is durable");
    assert_eq!(rig.bodies(&orders), [b"before", b"behind"]);
    assert_eq!(orders.bounds(rig.log.settled()).failed, None);
}

#[test]
fn one_checkpoint_that_is_damaged_missing_or_unreadable_costs_nothing() {
    for name in ["/log/checkpoint", "/log/checkpoint.copy"] {
        let path = Path::new(name);
        let machine = crashed();
        machine.disk.flip_bit(path, 40, 3).unwrap();
        holds_both(machine);
        let machine = crashed();
        machine.disk.lose_name(path).unwrap();
        holds_both(machine);
    }
    let machine = crashed();
    machine.disk.inject("/log/checkpoint", Fault::FailRead, 0..1);
    holds_both(machine);
}

#[test]
fn a_directory_with_two_damaged_checkpoints_is_refused_and_left_as_it_is() {
    let machine = crashed();
    for name in ["/log/checkpoint", "/log/checkpoint.copy"] {
        machine.disk.flip_bit(Path::new(name), 40, 3).unwrap();
    }
    let before = contents(&machine.disk);
    let refused = refusal(&machine);
    assert!(matches!(refused, OpenError::Checkpoint(CheckpointError::Damaged { .. })), "{refused}");
    assert_eq!(contents(&machine.disk), before);
}

/// Why the directory can't be opened.
fn refusal(machine: &Machine) -> OpenError {
    let disk = Arc::new(machine.disk.clone());
    match metaq_log::open(disk, machine.profile.options.clone(), machine.now) {
        Ok(_) => panic!("it can be opened"),
        Err(error) => error,
    }
}

/// Every file and its bytes.
fn contents(disk: &FaultyDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![PathBuf::from("/")];
    while let Some(folder) = ahead.pop() {
        for listed in disk.list(&folder).expect("the disk is well") {
            let path = folder.join(&listed.name);
            match listed.kind {
                Kind::Folder => ahead.push(path),
                _ => _ = found.insert(path.clone(), metaq_sim::whole(disk, &path).expect("the disk is well")),
            }
        }
    }
    found
}

#[test]
fn a_missing_file_of_the_log_is_not_taken_for_its_end() {
    let machine = crashed();
    machine.disk.lose_name(Path::new("/log/commit/0")).unwrap();
    let before = contents(&machine.disk);
    let refused = refusal(&machine);
    assert!(matches!(refused, OpenError::Log(WalkError::Missing { .. })), "{refused}");
    assert_eq!(contents(&machine.disk), before);
}

#[test]
fn a_log_file_of_another_size_is_made_anew_only_when_nothing_of_it_is_needed() {
    let shortened = || {
        let machine = crashed();
        let file = machine.disk.open(Path::new("/log/commit/0"), Open::Write).unwrap();
        file.set_len(16 * 1024).unwrap();
        file.sync().unwrap();
        drop(file);
        machine
    };
    let operations = shortened().open().machine.disk.operations();
    for cut in 0..operations {
        let machine = shortened();
        machine.disk.cut_power_after(cut);
        refusal(&machine);
        let disk = machine.disk.crash_image(&mut CrashChoice::Nothing);
        holds_both(machine.on(disk));
    }
}

/// A machine that was stopped cleanly, with two segments: 0..5020 and 5020..10040.
fn stopped() -> Machine {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[&[2; 5000]]);
    rig.stop().expect("the disk is well")
}

const FIRST: &str = "/data/orders-0/00000000000000000000.meta";
const LAST: &str = "/data/orders-0/00000000000000005020.meta";

#[test]
fn a_partition_that_lost_something_while_it_was_stopped_gives_no_position_again() {
    type Harm = fn(&FaultyDisk);
    let harms: [(Harm, std::ops::Range<u64>); 3] = [
        (|disk| disk.lose_name(Path::new(LAST)).unwrap(), 5020..10_040),
        (|disk| [FIRST, LAST].iter().for_each(|path| disk.lose_name(Path::new(path)).unwrap()), 5020..10_040),
        (|disk| disk.open(Path::new(LAST), Open::Write).unwrap().set_len(100).unwrap(), 5120..10_040),
    ];
    for (harm, lost) in harms {
        let machine = stopped();
        harm(&machine.disk);
        // It is closed now, after a crash, and after another clean stop.
        let (mut rig, report) = machine.start_unchecked(None).unwrap();
        assert!(matches!(report.findings[0].what, Found::Closed { .. }), "{:?}", report.findings);
        for restart in 0..3 {
            let orders = rig.log.partition("orders", 0).expect("it is kept");
            let bounds = orders.bounds(rig.log.settled());
            assert_eq!(bounds.end, 10_040, "start {restart}");
            assert!(bounds.damage.contains(&Damage { range: lost.clone() }), "start {restart}: {:?}", bounds.damage);
            let refused = rig.put_refused(&orders);
            assert!(matches!(refused, Refusal::PartitionFailed(_)), "start {restart}: {refused:?}");
            let machine = match restart {
                0 => rig.crash(CrashChoice::Nothing),
                _ => rig.stop_unchecked(),
            };
            rig = machine.open();
        }
    }
}

#[test]
fn an_empty_last_segment_that_is_missing_is_made_again() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 3000]]);
    rig.change(Change::Trim { partition: orders, first: 3020, disposal: Disposal::Delete });
    let machine = rig.stop().unwrap();
    machine.disk.lose_name(Path::new("/data/orders-0/00000000000000003020.meta")).unwrap();
    let mut rig = machine.open();
    let orders = rig.log.partition("orders", 0).expect("it is kept");
    rig.put(&orders, &[b"more"]);
    rig.sync().unwrap();
    assert_eq!(rig.bodies(&orders), [b"more"]);
    rig.stop().unwrap();
}

#[test]
fn a_partition_whose_segment_failed_takes_messages_after_a_restart() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"one"]);
    rig.sync().unwrap();
    rig.machine.disk.inject(FIRST, Fault::FailWrite, 0..1);
    rig.applier.step(rig.machine.now + 2000);
    let refused = rig.put_refused(&orders);
    assert!(matches!(refused, Refusal::PartitionFailed(_)), "{refused}");
    // The next try succeeds, so the checkpoint passes.
    rig.checkpoint();
    let mut rig = rig.crash(CrashChoice::Nothing).open();
    let orders = rig.log.partition("orders", 0).expect("it is durable");
    rig.put(&orders, &[b"two"]);
    rig.sync().unwrap();
    assert_eq!(rig.bodies(&orders), [b"one", b"two"]);
}

#[test]
fn an_archive_that_fails_anywhere_is_made_again_later() {
    let trim = |rig: &mut Rig, times: std::ops::Range<u64>| {
        let orders = rig.partition_of("orders", 0, Durability::Fsync);
        rig.put(&orders, &[&[1; 5000]]);
        rig.put(&orders, &[&[2; 5000]]);
        rig.change(Change::Trim { partition: orders, first: 5020, disposal: Disposal::ArchiveZip });
        rig.sync().expect("the disk is well");
        rig.machine.disk.inject(".zip.new", Fault::FailWrite, times);
        rig.applier.step(rig.machine.now);
    };
    let archive = Path::new("/data/orders-0/00000000000000000000.meta.zip");
    let mut failed = 0;
    for write in 0.. {
        let mut rig = Machine::scripted().open();
        trim(&mut rig, write..write + 1);
        if rig.machine.disk.metadata(archive).unwrap().is_some() {
            break;
        }
        failed += 1;
        rig.applier.step(rig.machine.now + 60_000);
        // The simulator checks what the archive holds.
        rig.stop().unwrap();
    }
    assert!(failed > 10, "{failed} writes");
}

#[test]
fn a_failed_sync_of_the_log_closes_it_at_once_and_reads_go_on() {
    for cut in [CrashChoice::Everything, CrashChoice::Nothing] {
        let mut rig = Machine::scripted().open();
        let orders = rig.partition_of("orders", 0, Durability::Fsync);
        let logs = rig.partition_of("logs", 0, Durability::Os);
        rig.put(&logs, &[b"acknowledged when written"]);
        rig.put(&orders, &[b"acknowledged"]);
        rig.sync().unwrap();
        rig.put(&logs, &[b"written"]);
        rig.put(&orders, &[b"never acknowledged"]);
        rig.machine.disk.inject("/log/commit", Fault::FailSync, 0..1);
        rig.sequencer.sync();
        assert!(rig.log.closed().is_some_and(|why| why.contains("sync")));
        assert!(matches!(rig.put_refused(&orders), Refusal::StoreClosed(_)));
        // Nothing is tried again on the same pages.
        rig.sequencer.sync();
        assert!(rig.log.settled().durable < rig.log.settled().written);
        assert!(rig.sequencer.checkpoint(rig.machine.now).is_none());
        assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
        assert_eq!(rig.bodies(&logs), [&b"acknowledged when written"[..], b"written"]);
        let rig = rig.crash(cut).open();
        let orders = rig.bodies(&rig.log.partition("orders", 0).unwrap());
        let logs = rig.bodies(&rig.log.partition("logs", 0).unwrap());
        match cut {
            CrashChoice::Everything => assert_eq!((orders.len(), logs.len()), (2, 2)),
            _ => assert_eq!((orders.len(), logs.len()), (1, 1)),
        }
        // What was brought back is durable, though the sync had failed.
        let rig = rig.crash(CrashChoice::Nothing).open();
        assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()), orders);
        assert_eq!(rig.bodies(&rig.log.partition("logs", 0).unwrap()), logs);
    }
}

#[test]
fn a_failed_write_of_the_log_closes_it_and_what_was_refused_is_not_there() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"acknowledged"]);
    rig.sync().unwrap();
    rig.machine.disk.inject("/log/commit", Fault::FailWrite, 0..1);
    assert!(matches!(rig.put_refused(&orders), Refusal::StoreClosed(_)));
    assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
    let mut rig = rig.crash(CrashChoice::Everything).open();
    let orders = rig.log.partition("orders", 0).unwrap();
    assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
    rig.put(&orders, &[b"and on"]);
}

#[test]
fn a_failed_sync_of_a_segment_closes_its_partition_and_loses_nothing() {
    for cut in [CrashChoice::Everything, CrashChoice::Nothing] {
        let mut rig = Machine::scripted().open();
        let orders = rig.partition_of("orders", 0, Durability::Fsync);
        let others = rig.partition_of("others", 0, Durability::Fsync);
        rig.put(&orders, &[b"acknowledged"]);
        rig.put(&others, &[b"acknowledged too"]);
        rig.sync().unwrap();
        rig.machine.disk.inject("/data/orders-0", Fault::FailSync, 0..1);
        rig.begin_checkpoint().unwrap();
        let snapshot = rig.snapshot.take().unwrap();
        let dirty = rig.checkpointer.run(snapshot, false, rig.machine.now).unwrap_err();
        rig.sequencer.return_dirty(dirty);
        assert!(matches!(rig.put_refused(&orders), Refusal::PartitionFailed(_)));
        rig.put(&others, &[b"goes on"]);
        rig.sync().unwrap();
        assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
        // No later checkpoint may pass what only the log has.
        rig.begin_checkpoint().unwrap();
        let snapshot = rig.snapshot.take().unwrap();
        assert!(rig.checkpointer.run(snapshot, false, rig.machine.now).is_err());
        let mut rig = rig.crash(cut).open();
        let orders = rig.log.partition("orders", 0).unwrap();
        assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
        assert_eq!(rig.bodies(&rig.log.partition("others", 0).unwrap()), [&b"acknowledged too"[..], b"goes on"]);
        rig.put(&orders, &[b"and on"]);
        rig.stop().unwrap();
    }
}

#[test]
fn a_segment_that_cannot_be_read_fails_its_readers_and_nobody_else() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    let others = rig.partition_of("others", 0, Durability::Fsync);
    rig.put(&orders, &[b"one"]);
    rig.put(&others, &[b"two"]);
    rig.checkpoint();
    rig.machine.disk.inject("/data/orders-0", Fault::FailRead, 0..2);
    let settled = rig.log.settled();
    let Read::Slice(slice) = rig.log.read(&orders, 0, 100, settled).unwrap() else { panic!("there is a message") };
    assert!(read_exact_at(&*slice.file, &mut [0; 10], slice.offset).is_err());
    assert_eq!(rig.bodies(&others), [b"two"]);
    rig.put(&orders, &[b"three"]);
    rig.sync().unwrap();
    rig.machine.disk.clear_faults();
    assert_eq!(rig.bodies(&orders), [&b"one"[..], b"three"]);
}

#[test]
fn a_full_disk_refuses_appends_goes_on_otherwise_and_recovers_by_itself() {
    let mut rig = Machine::scripted().open();
    rig.fill().unwrap();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..3 {
        rig.put(&orders, &[&[body; 5000]]);
    }
    rig.sync().unwrap();
    rig.checkpoint();
    rig.machine.disk.set_capacity(0);
    rig.applier.step(rig.machine.now + 2000);
    assert_eq!(rig.put_refused(&orders), Refusal::DiskFull);
    // Reads, the durable map and trims go on; the trim makes room.
    assert_eq!(rig.bodies(&orders).len(), 3);
    let changes = vec![StateChange { space: 1, key: b"k".to_vec(), value: Some(b"v".to_vec()) }];
    rig.change(Change::State { conditions: Vec::new(), changes });
    rig.change(Change::Trim { partition: Arc::clone(&orders), first: 5020, disposal: Disposal::Delete });
    rig.sync().unwrap();
    assert_eq!(rig.log.state(1, b"k").unwrap().value.as_ref(), b"v");
    rig.applier.step(rig.machine.now + 3000);
    assert_eq!(orders.bounds(rig.log.settled()).first, 5020);
    assert_eq!(rig.put_refused(&orders), Refusal::DiskFull);
    rig.machine.disk.set_capacity(1 << 30);
    rig.applier.step(rig.machine.now + 4000);
    rig.put(&orders, &[b"there is room"]);
    rig.sync().unwrap();
    assert_eq!(rig.bodies(&orders).len(), 3);
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()).len(), 3);
}

#[test]
fn what_was_taken_before_the_disk_was_full_stands_in_the_log_until_there_is_room() {
    let mut rig = Machine::scripted().open();
    rig.fill().unwrap();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"in a segment"]);
    rig.checkpoint();
    rig.put(&orders, &[&[1; 9000]]);
    rig.sync().unwrap();
    rig.machine.disk.set_capacity(0);
    rig.applier.step(rig.machine.now + 2000);
    let settled = rig.log.settled();
    // What stands in a segment can be read, the rest can't be yet.
    let Read::Slice(slice) = rig.log.read(&orders, 0, 100_000, settled).unwrap() else { panic!("there is a message") };
    assert!(slice.len >= 32);
    // A crash and a recovery in want of room change nothing.
    let machine = rig.crash(CrashChoice::Nothing);
    assert!(machine.clone().start_unchecked(None).is_err());
    let disk = machine.disk.crash_image(&mut CrashChoice::Everything);
    disk.set_capacity(1 << 30);
    let rig = machine.on(disk).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()).len(), 2);
}

#[test]
fn short_reads_and_writes_change_nothing() {
    let machine = Machine::scripted();
    machine.disk.inject("/", Fault::ShortWrite, 0..u64::MAX);
    machine.disk.inject("/", Fault::ShortRead, 0..u64::MAX);
    let mut rig = machine.open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..5 {
        rig.put(&orders, &[&[body; 3000]]);
    }
    rig.sync().unwrap();
    rig.checkpoint();
    rig.put(&orders, &[&[5; 3000]]);
    rig.sync().unwrap();
    let machine = rig.crash(CrashChoice::Nothing);
    machine.disk.inject("/", Fault::ShortWrite, 0..u64::MAX);
    machine.disk.inject("/", Fault::ShortRead, 0..u64::MAX);
    let rig = machine.open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()).len(), 6);
    rig.stop().unwrap();
}

#[test]
fn a_failed_checkpoint_frees_nothing_of_the_log() {
    let mut rig = Machine::scripted().open();
    rig.fill().unwrap();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.machine.disk.inject("/log/checkpoint", Fault::FailWrite, 0..u64::MAX);
    let mut put = 0;
    let refused = loop {
        rig.submit_put(&orders, &[&[1; 9000]]);
        let wrote = rig.sequencer.write_turn(rig.machine.now);
        rig.sequencer.sync();
        if wrote == Wrote::LogFull {
            rig.sequencer.refuse_for_full_log();
            break rig.put_refused_before();
        }
        rig.absorb().unwrap();
        put += 1;
        let snapshot = rig.sequencer.checkpoint(rig.machine.now).unwrap();
        let dirty = rig.checkpointer.run(snapshot, false, rig.machine.now).unwrap_err();
        rig.sequencer.return_dirty(dirty);
        assert!(put < 100, "the log never fills");
    };
    assert_eq!(refused, Refusal::LogFull);
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()).len(), put);
}

#[test]
fn a_turn_of_an_earlier_opening_is_never_taken_for_one_of_this() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"before"]);
    rig.checkpoint();
    let mut rig = rig.crash(CrashChoice::Nothing).open();
    // Two turns that nobody was told of; the power cut tears the first and keeps the second.
    let orders = rig.log.partition("orders", 0).unwrap();
    rig.put(&orders, &[b"torn"]);
    rig.put(&orders, &[b"kept"]);
    let machine = rig.crash(CrashChoice::Everything);
    machine.disk.flip_bit(Path::new("/log/commit/0"), 100, 0).unwrap();
    let mut rig = machine.open();
    let orders = rig.log.partition("orders", 0).unwrap();
    assert_eq!(rig.bodies(&orders), [b"before"]);
    // A turn like the first takes its place: what stands behind it is older.
    rig.put(&orders, &[b"anew"]);
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()), [&b"before"[..], b"anew"]);
}

#[test]
fn a_log_file_that_begins_behind_a_torn_turn_does_not_continue_the_log() {
    let mut rig = Machine::scripted().open();
    rig.fill().unwrap();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    let logs = rig.partition_of("logs", 0, Durability::Fsync);
    rig.put(&orders, &[&[0; 9000]]);
    rig.put(&logs, &[&[0; 9000]]);
    for body in 1..4 {
        rig.put(&orders, &[&[body; 9000]]);
    }
    rig.sync().unwrap();
    // The first of these ends the first file of the log, the second begins the next.
    rig.put(&orders, &[b"torn"]);
    rig.put(&logs, &[b"kept"]);
    let machine = rig.crash(CrashChoice::Everything);
    machine.disk.flip_bit(Path::new("/log/commit/0"), 61_440 + 100, 0).unwrap();
    let rig = machine.open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).unwrap()).len(), 4);
    assert_eq!(rig.bodies(&rig.log.partition("logs", 0).unwrap()).len(), 1);
}

#[test]
fn a_log_that_found_no_room_for_its_files_goes_on_with_one_and_is_filled_later() {
    let machine = Machine::scripted();
    machine.disk.set_capacity(96 * 1024);
    let mut rig = machine.open();
    assert_eq!(rig.checkpointer.fill_log().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(rig.log.closed(), None);
    let logs = rig.partition_of("logs", 0, Durability::Fsync);
    for body in 0..5 {
        rig.put(&logs, &[&[body; 9000]]);
    }
    rig.sync().unwrap();
    rig.submit_put(&logs, &[&[5; 9000]]);
    assert_eq!(rig.sequencer.write_turn(rig.machine.now), Wrote::LogFull);
    rig.machine.disk.set_capacity(1 << 30);
    rig.fill().unwrap();
    assert_eq!(rig.sequencer.write_turn(rig.machine.now), Wrote::Turn);
    rig.absorb().unwrap();
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("logs", 0).unwrap()).len(), 6);
}
