//! What becomes of a directory in which a bit flipped: nothing is cut that may have been acknowledged, nothing that is
//! damaged is taken for whole, and the rest goes on.

use metaq_disk::{CrashChoice, Disk};
use metaq_log::index::read_marks;
use metaq_log::{Change, Disposal, Durability, OpenError, PartitionSettings, WalkError};
use metaq_sim::{Machine, Rig};
use std::path::Path;
use std::sync::Arc;

const FIRST: &str = "/data/orders-0/00000000000000000000.meta";
const LAST: &str = "/data/orders-0/00000000000000005020.meta";

fn refusal(machine: &Machine) -> OpenError {
    let disk = Arc::new(machine.disk.clone());
    match metaq_log::open(disk, machine.profile.options.clone(), machine.now) {
        Ok(_) => panic!("it can be opened"),
        Err(error) => error,
    }
}

/// Every file of the partition and of the log, with its bytes.
fn contents(machine: &Machine) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in ["/data/orders-0", "/log", "/log/commit"] {
        for listed in machine.disk.list(Path::new(folder)).unwrap_or_default() {
            let path = format!("{folder}/{}", listed.name);
            if let Ok(bytes) = metaq_sim::whole(&machine.disk, Path::new(&path)) {
                found.push((path, bytes));
            }
        }
    }
    found
}

/// Two segments that a checkpoint covers, and a message in the log behind it.
fn rig() -> Rig {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[&[2; 3000]]);
    rig.checkpoint();
    rig.put(&orders, &[&[3; 100]]);
    rig.sync().expect("the disk is well");
    rig
}

#[test]
fn a_flip_in_a_segment_that_a_checkpoint_covers_changes_nothing_else() {
    for (path, byte) in [(FIRST, 2000), (LAST, 2000), (FIRST, 2), (LAST, 10)] {
        for stop in [false, true] {
            let rig = rig();
            let machine = if stop { rig.stop().unwrap() } else { rig.crash(CrashChoice::Nothing) };
            let before = metaq_sim::whole(&machine.disk, Path::new(path)).unwrap();
            machine.disk.flip_bit(Path::new(path), byte, 1).unwrap();
            let rig = machine.open();
            let orders = rig.log.partition("orders", 0).expect("it is kept");
            let bounds = orders.bounds(rig.log.settled());
            assert_eq!((bounds.first, bounds.end, bounds.messages), (0, 5020 + 3020 + 120, 3));
            let mut after = metaq_sim::whole(&rig.machine.disk, Path::new(path)).unwrap();
            after[usize::try_from(byte).unwrap()] ^= 2;
            assert!(after.starts_with(&before), "nothing was cut");
        }
    }
}

#[test]
fn a_flip_in_what_the_log_still_holds_is_mended() {
    let mut rig = rig();
    rig.applier.step(rig.machine.now + 2000);
    let machine = rig.crash(CrashChoice::Everything);
    machine.disk.flip_bit(Path::new(LAST), 3020 + 50, 4).unwrap();
    let rig = machine.open();
    let orders = rig.log.partition("orders", 0).expect("it is kept");
    assert_eq!(rig.bodies(&orders), [vec![1; 5000], vec![2; 3000], vec![3; 100]]);
}

/// Turns at bytes 0, 8192, 12288, … of log file 0, the settled ones said to be by the last.
fn turns() -> Machine {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, Durability::Fsync);
    rig.put(&orders, &[&[1; 5000]]);
    rig.put(&orders, &[b"two"]);
    rig.sync().expect("the disk is well");
    rig.put(&orders, &[b"three"]);
    rig.sync().expect("the disk is well");
    rig.crash(CrashChoice::Nothing)
}

#[test]
fn a_flip_in_a_settled_turn_is_corruption_and_changes_nothing() {
    for byte in [0, 30, 100, 5000, 8192 + 60, 8192 + 70] {
        for bit in 0..8 {
            let machine = turns();
            machine.disk.flip_bit(Path::new("/log/commit/0"), byte, bit).unwrap();
            let before = contents(&machine);
            let refused = refusal(&machine);
            let OpenError::Log(WalkError::Damaged { file: 0, offset, first_lost, last_lost }) = refused else {
                panic!("byte {byte}, bit {bit}: {refused}");
            };
            assert_eq!((offset, last_lost), (if byte < 8192 { 0 } else { 8192 }, 4), "{first_lost}");
            assert_eq!(contents(&machine), before);
        }
    }
}

#[test]
fn a_flip_in_the_last_turn_is_a_torn_end_and_said() {
    let machine = turns();
    machine.disk.flip_bit(Path::new("/log/commit/0"), 12_288 + 70, 0).unwrap();
    let (rig, report) = machine.start_unchecked(None).unwrap();
    assert!(report.torn);
    let orders = rig.log.partition("orders", 0).expect("it is kept");
    assert_eq!(rig.bodies(&orders), [&[1; 5000][..], b"two"]);
}

#[test]
fn a_flip_in_metaq_format_is_refused_or_means_nothing() {
    for byte in 0..10 {
        let machine = turns();
        machine.disk.flip_bit(Path::new("/log/metaq.format"), byte, 0).unwrap();
        let before = contents(&machine);
        let refused = refusal(&machine);
        assert!(matches!(refused, OpenError::Format(_)), "byte {byte}: {refused}");
        assert_eq!(contents(&machine), before);
    }
}

#[test]
fn a_flip_in_an_index_costs_nothing() {
    let indexed = || {
        let mut rig = Machine::scripted().open();
        let orders = rig.partition_of("orders", 0, Durability::Fsync);
        orders.configure(PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 20 });
        for body in 0..30 {
            rig.put(&orders, &[&[body; 8000]]);
        }
        rig.stop().unwrap()
    };
    let index = Path::new("/data/orders-0/00000000000000000000.index");
    let len = indexed().disk.metadata(index).unwrap().expect("it has marks").len;
    assert_eq!(len, 3 * 32);
    for byte in (0..len).step_by(5) {
        let machine = indexed();
        machine.disk.flip_bit(index, byte, 6).unwrap();
        let mut rig = machine.open();
        let orders = rig.log.partition("orders", 0).expect("it is kept");
        for number in [0, 8, 9, 10, 20, 29] {
            assert_eq!(rig.log.position_of(&orders, number).unwrap(), Some(number.cast_unsigned() * 8020));
        }
        // What is appended is marked again, behind the last mark that is whole.
        for body in 30..50 {
            rig.put(&orders, &[&[body; 8000]]);
        }
        let machine = rig.stop().unwrap();
        let file = machine.disk.open(index, metaq_disk::Open::Read).unwrap();
        assert!(read_marks(&*file, &(0..50 * 8020)).unwrap().len() >= 2);
    }
}

#[test]
fn a_trim_after_a_flip_counts_what_it_can() {
    let rig = rig();
    let machine = rig.stop().unwrap();
    machine.disk.flip_bit(Path::new(FIRST), 2000, 1).unwrap();
    let mut rig = machine.open();
    let orders = rig.log.partition("orders", 0).expect("it is kept");
    let trim = rig.log.trim(&orders, 5020, Disposal::Delete).unwrap();
    rig.change(trim);
    rig.sync().unwrap();
    rig.applier.step(rig.machine.now);
    assert_eq!(orders.bounds(rig.log.settled()).first, 5020);
    let changed = rig.change(Change::Barrier);
    assert!(matches!(changed, metaq_log::Outcome::Changed { .. }));
}
