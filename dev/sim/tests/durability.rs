//! What crashes may and may not take back, step by step. Each of these was once wrong.

use metaq_disk::{CrashChoice, Disk, Fault, Open};
use metaq_log::{
    Change, Class, CreateError, Disposal, Durability, Geometry, Outcome, PartitionSettings, Refusal, Wrote,
};
use metaq_sim::{Machine, Rig};
use std::path::Path;

fn lsn(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Appended { lsn, .. } | Outcome::Changed { lsn } => *lsn,
        Outcome::Refused(why) => panic!("refused: {why}"),
    }
}

#[test]
fn the_folders_of_a_fresh_directory_survive_a_power_cut() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"kept"]);
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    let orders = rig.log.partition("orders", 0).expect("it is durable");
    assert_eq!(rig.bodies(&orders), [b"kept"]);
}

#[test]
fn a_partition_has_no_files_before_it_exists_durably() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Os);
    rig.put(&orders, &[&[7; 12_000]]);
    rig.put(&orders, &[&[8; 12_000]]);
    rig.applier.step(rig.machine.now + 10_000);
    let disk = rig.machine.disk.clone();
    assert!(disk.metadata(Path::new("/data/orders-0")).unwrap().is_none());
    rig.sync().unwrap();
    rig.applier.step(rig.machine.now + 20_000);
    assert!(disk.metadata(Path::new("/data/orders-0")).unwrap().is_some());
}

#[test]
fn nothing_of_a_partition_or_above_an_id_ceiling_is_settled_before_these_are_durable() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Os);
    let class = |outcome: Outcome| match outcome {
        Outcome::Appended { class, .. } => class,
        other => panic!("{other:?}"),
    };
    assert_eq!(class(rig.put(&orders, &[b"announces it"])), Class::Durable);
    assert_eq!(class(rig.put(&orders, &[b"in the next turn"])), Class::Durable);
    rig.sync().unwrap();
    assert_eq!(class(rig.put(&orders, &[b"as its topic says"])), Class::Written);
    rig.wait(60_000);
    assert_eq!(class(rig.put(&orders, &[b"raises the ceiling"])), Class::Durable);
    assert_eq!(class(rig.put(&orders, &[b"above it"])), Class::Durable);
    rig.sync().unwrap();
    assert_eq!(class(rig.put(&orders, &[b"below it"])), Class::Written);
}

#[test]
fn the_refusal_of_a_deleted_partition_waits_for_the_deletion() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"one"]);
    let deleted = rig.change(Change::Delete(orders.clone()));
    // The judge of the simulator checks that the answers wait for it.
    assert!(lsn(&deleted) > rig.log.settled().durable);
    assert_eq!(rig.put(&orders, &[b"two"]), Outcome::Refused(Refusal::PartitionDeleted));
    assert_eq!(rig.change(Change::Create(orders.clone())), Outcome::Refused(Refusal::PartitionDeleted));
    assert_eq!(rig.change(Change::Delete(orders)), Outcome::Refused(Refusal::PartitionDeleted));
}

#[test]
fn counting_a_deleted_partition_is_refused() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"one"]);
    rig.change(Change::Delete(orders.clone()));
    let counted = rig.change(Change::Counted { partition: orders, sealed: 3 });
    assert_eq!(counted, Outcome::Refused(Refusal::PartitionDeleted));
    rig.sync().unwrap();
    assert!(rig.crash(CrashChoice::Nothing).open().log.partitions().is_empty());
}

#[test]
fn what_recovery_carries_out_is_durable_in_the_log_before() {
    carries_out_what_is_durable(|_| {});
}

#[test]
fn what_recovery_carries_out_is_durable_though_a_sync_of_it_had_failed() {
    carries_out_what_is_durable(|rig| {
        rig.machine.disk.inject("/log/commit", Fault::FailSync, 0..1);
        rig.sequencer.sync();
        assert!(rig.log.closed().is_some());
    });
}

/// A trim is written but not durable when the process is killed; the power goes while it is carried out.
fn carries_out_what_is_durable(before: impl Fn(&mut Rig)) {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[&[2; 5000]]);
    rig.sync().expect("the disk is well");
    rig.checkpoint();
    rig.change(Change::Trim { partition: orders, first: 5020, disposal: Disposal::Delete });
    before(&mut rig);
    let killed = rig.crash(CrashChoice::Everything);
    let until = killed.clone().on(killed.disk.crash_image(&mut CrashChoice::Everything));
    let operations = {
        let rig = until.open();
        rig.machine.disk.operations()
    };
    for cut in 0..operations {
        let machine = killed.clone().on(killed.disk.crash_image(&mut CrashChoice::Everything));
        machine.disk.cut_power_after(cut);
        let disk = machine.disk.clone();
        assert!(machine.clone().start_unchecked(None).is_err(), "the power goes behind operation {cut}");
        let rig = machine.on(disk.crash_image(&mut CrashChoice::Nothing)).open();
        let orders = rig.log.partition("orders", 0).expect("it is durable");
        let first = orders.bounds(rig.log.settled()).first;
        let (kept, counted) = (rig.bodies(&orders).len(), orders.bounds(rig.log.settled()).messages);
        let possible = [(0, 2, 2), (5020, 1, 1)];
        assert!(
            possible.contains(&(first, kept, counted)),
            "behind operation {cut}: {kept} messages from {first}, {counted} counted"
        );
    }
}

#[test]
fn a_message_is_found_by_its_number_across_segments_after_a_restart() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..6 {
        rig.put(&orders, &[&[body; 3000]]);
    }
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    let orders = rig.log.partition("orders", 0).expect("it is durable");
    assert_eq!(rig.log.segments(&orders).unwrap().len(), 3);
    for number in 0..6 {
        let position = rig.log.position_of(&orders, number).unwrap();
        assert_eq!(position, Some(number.cast_unsigned() * 3020));
    }
    assert_eq!(rig.log.position_of(&orders, 6).unwrap(), None);
}

#[test]
fn what_is_disposed_of_after_a_checkpoint_is_disposed_of_after_a_crash_too() {
    let mut rig = Machine::scripted().open();
    let kept = rig.partition_of("kept", 0, Durability::Fsync);
    let gone = rig.partition_of("gone", 0, Durability::Fsync);
    for partition in [&kept, &gone] {
        rig.put(partition, &[&[1; 5000]]);
        rig.put(partition, &[&[2; 5000]]);
    }
    rig.checkpoint();
    rig.change(Change::Trim { partition: kept, first: 5020, disposal: Disposal::Archive });
    rig.change(Change::Delete(gone));
    rig.checkpoint();
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert!(rig.log.partition("gone", 0).is_none());
    let disk = &rig.machine.disk;
    assert!(disk.metadata(Path::new("/data/gone-0")).unwrap().is_none());
    assert!(disk.metadata(Path::new("/data/kept-0/00000000000000000000.meta.arc")).unwrap().is_some());
    let kept = rig.log.partition("kept", 0).expect("it is durable");
    assert_eq!(kept.bounds(rig.log.settled()).first, 5020);
    assert_eq!(rig.bodies(&kept), [[2; 5000]]);
}

#[test]
fn a_name_stays_taken_until_the_files_of_its_deleted_partition_are_gone() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"of the old one"]);
    rig.checkpoint();
    rig.change(Change::Delete(orders.clone()));
    rig.sync().unwrap();
    rig.machine.disk.inject("orders-0", Fault::FailName, 0..1);
    rig.applier.step(rig.machine.now);
    let settings = PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 4000 };
    assert_eq!(rig.log.create_partition("orders", 0, None, settings).unwrap_err(), CreateError::BeingDeleted);
    rig.applier.step(rig.machine.now + 60_000);
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    assert!(rig.machine.disk.metadata(Path::new("/data/orders-0")).unwrap().is_none());
    rig.put(&orders, &[b"of the next one"]);
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).expect("it is durable")), [b"of the next one"]);
}

#[test]
fn a_trim_below_an_earlier_one_is_refused() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..3 {
        rig.put(&orders, &[&[body; 5000]]);
    }
    let trim = |first| Change::Trim { partition: orders.clone(), first, disposal: Disposal::Delete };
    lsn(&rig.change(trim(10_040)));
    assert_eq!(rig.change(trim(5020)), Outcome::Refused(Refusal::NoSegmentThere { first: 5020 }));
    assert_eq!(orders.bounds(rig.log.settled()).messages, 1);
}

#[test]
fn an_archived_segment_is_whole_after_a_power_cut() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[0; 100]]);
    rig.checkpoint();
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[&[2; 5000]]);
    rig.change(Change::Trim { partition: orders, first: 5140, disposal: Disposal::Archive });
    rig.sync().unwrap();
    rig.applier.step(rig.machine.now);
    let rig = rig.crash(CrashChoice::Nothing).open();
    let archive = Path::new("/data/orders-0/00000000000000000000.meta.arc");
    assert_eq!(rig.machine.disk.metadata(archive).unwrap().expect("it is archived").len, 5140);
}

#[test]
fn a_checkpoint_keeps_what_a_partition_had_whose_deletion_is_not_durable() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"acknowledged"]);
    rig.begin_checkpoint().unwrap();
    rig.change(Change::Delete(orders));
    rig.end_checkpoint().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    let orders = rig.log.partition("orders", 0).expect("its deletion was lost");
    assert_eq!(rig.bodies(&orders), [b"acknowledged"]);
}

#[test]
fn a_checkpoint_passes_over_a_partition_that_was_deleted_meanwhile() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"one"]);
    rig.begin_checkpoint().unwrap();
    rig.applier.step(rig.machine.now + 10_000);
    rig.change(Change::Delete(orders));
    rig.sync().unwrap();
    rig.applier.step(rig.machine.now + 20_000);
    rig.end_checkpoint().unwrap();
    assert!(rig.crash(CrashChoice::Nothing).open().log.partitions().is_empty());
}

#[test]
fn a_segment_that_recovery_removed_does_not_come_back() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.checkpoint();
    // The next segment is written, its turn isn't synced; the power cut keeps the segment and loses the turn.
    rig.put(&orders, &[&[2; 5000]]);
    rig.applier.step(rig.machine.now + 10_000);
    let disk = rig.machine.disk.clone();
    let folder = Path::new("/data/orders-0");
    disk.open(&folder.join("00000000000000005020.meta"), Open::Write).unwrap().sync().unwrap();
    disk.sync_dir(folder).unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert!(rig.machine.disk.metadata(&folder.join("00000000000000005020.meta")).unwrap().is_none());
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert!(rig.machine.disk.metadata(&folder.join("00000000000000005020.meta")).unwrap().is_none());
    let machine = rig.stop().unwrap();
    let disk = machine.disk.crash_image(&mut CrashChoice::Nothing);
    let rig = machine.on(disk).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).expect("it is durable")), [[1; 5000]]);
}

#[test]
fn a_deleted_partition_leaves_no_unfinished_archive_behind() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[&[2; 5000]]);
    rig.change(Change::Trim { partition: orders.clone(), first: 5020, disposal: Disposal::ArchiveZip });
    rig.change(Change::Delete(orders));
    rig.sync().unwrap();
    // The process is killed while the archive is written.
    rig.machine.disk.inject(".zip.new", Fault::FailWrite, 3..1000);
    rig.applier.step(rig.machine.now);
    let rig = rig.crash(CrashChoice::Everything).open();
    assert!(rig.machine.disk.metadata(Path::new("/data/orders-0")).unwrap().is_none());
}

#[test]
fn an_empty_partition_has_its_files_after_a_crash_and_a_clean_stop() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.change(Change::Create(orders));
    rig.sync().unwrap();
    let rig = rig.crash(CrashChoice::Nothing).open();
    // The simulator checks that a segment says where each partition ends.
    rig.stop().unwrap();
}

#[test]
fn a_turn_fits_into_a_log_file_however_large_turns_may_be() {
    let mut machine = Machine::scripted();
    machine.profile.options.turn_bytes = 1 << 20;
    let mut rig = machine.open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    for body in 0..10 {
        rig.submit_put(&orders, &[&[body; 9000]]);
    }
    rig.write_turn().unwrap();
    while rig.write_turn().unwrap() != Wrote::Nothing {}
    rig.sync().unwrap();
    assert_eq!(rig.bodies(&orders).len(), 10);
    for file in 0..4 {
        let path = format!("/log/commit/{file}");
        let len = rig.machine.disk.metadata(Path::new(&path)).unwrap().unwrap().len;
        assert!([0, 64 * 1024].contains(&len), "{path} has {len} bytes");
    }
    let rig = rig.crash(CrashChoice::Nothing).open();
    assert_eq!(rig.bodies(&rig.log.partition("orders", 0).expect("it is durable")).len(), 10);
}

#[test]
fn what_is_disposed_of_in_a_moved_directory_is_what_stands_there() {
    let mut rig = Machine::scripted().open();
    let gone = rig.partition_of("gone", 0, Durability::Fsync);
    rig.put(&gone, &[b"one"]);
    rig.checkpoint();
    rig.change(Change::Delete(gone));
    rig.checkpoint();
    let mut machine = rig.crash(CrashChoice::Everything);
    let disk = machine.disk.clone();
    disk.create_dir(Path::new("/moved")).unwrap();
    for folder in ["log", "data"] {
        disk.rename(&Path::new("/").join(folder), &Path::new("/moved").join(folder)).unwrap();
    }
    let another = Path::new("/data/gone-0/00000000000000000000.meta");
    disk.create_dir(Path::new("/data/gone-0")).unwrap();
    disk.open(another, Open::CreateNew).unwrap();
    machine.profile.options.log_path = "/moved/log".into();
    machine.profile.options.data_paths = vec!["/moved/data".into()];
    drop(machine.open());
    assert!(disk.metadata(Path::new("/moved/data/gone-0")).unwrap().is_none());
    assert!(disk.metadata(another).unwrap().is_some());
}

#[test]
fn messages_of_a_partition_that_the_original_wrote_to_are_found_by_their_numbers() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    // The first message goes, so that an adoption counts from another; enough others for index marks.
    rig.put(&orders, &[&[0; 8000]]);
    rig.put(&orders, &[&[1; 8000]]);
    orders.configure(PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 20 });
    for body in 2..20 {
        rig.put(&orders, &[&[body; 8000]]);
    }
    rig.change(Change::Trim { partition: orders, first: 8020, disposal: Disposal::Delete });
    let machine = rig.stop().unwrap();
    let segment = Path::new("/data/orders-0/00000000000000008020.meta");
    let file = machine.disk.open(segment, Open::Write).unwrap();
    let mut record = Vec::new();
    metaq_protocol::record::encode(&mut record, -7, 0, b"by the original");
    metaq_disk::write_all_at(&*file, &record, 19 * 8020).unwrap();
    drop(file);
    let rig = machine.open();
    let orders = rig.log.partition("orders", 0).expect("it is adopted again");
    assert_eq!(rig.bodies(&orders).len(), 20);
    for number in 0..20 {
        assert_eq!(rig.log.position_of(&orders, number).unwrap(), Some((number + 1).cast_unsigned() * 8020));
    }
}

#[test]
fn a_log_of_another_size_after_a_crash_costs_nothing_whenever_the_power_goes() {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[b"acknowledged"]);
    rig.sync().unwrap();
    let mut crashed = rig.crash(CrashChoice::Nothing);
    crashed.profile.options.ring = Geometry { files: 3, file_bytes: 128 * 1024 };
    let machine = || crashed.clone().on(crashed.disk.crash_image(&mut CrashChoice::Everything));
    let operations = machine().open().machine.disk.operations();
    for cut in 0..operations {
        let machine = machine();
        machine.disk.cut_power_after(cut);
        assert!(machine.clone().start_unchecked(None).is_err(), "the power goes behind operation {cut}");
        let disk = machine.disk.crash_image(&mut CrashChoice::Nothing);
        let rig = machine.on(disk).open();
        let orders = rig.log.partition("orders", 0).expect("it is durable");
        assert_eq!(rig.bodies(&orders), [b"acknowledged"], "behind operation {cut}");
        assert_eq!(orders.bounds(rig.log.settled()).failed, None, "behind operation {cut}");
    }
}
