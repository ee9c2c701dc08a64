//! What a clock that steps back must not delay.

use metaq_disk::Disk;
use metaq_log::Durability;
use metaq_sim::{Machine, Rig};
use std::path::Path;
use std::time::Duration;

const HOUR: u64 = 3_600_000;

fn interval() -> Durability {
    Durability::Interval { messages: 1000, time: Duration::from_millis(500) }
}

/// A rig whose clock stands, with a partition that exists durably.
fn rig() -> Rig {
    let mut rig = Machine::scripted().open();
    let orders = rig.partition_of("orders", 0, interval());
    rig.put(&orders, &[b"first"]);
    rig.sync().expect("the disk is well");
    rig.checkpoint();
    rig.applier.step(rig.machine.now);
    rig
}

#[test]
fn an_interval_topic_is_synced_in_time_though_the_clock_steps_back() {
    let mut rig = rig();
    let orders = rig.log.partition("orders", 0).unwrap();
    rig.put(&orders, &[b"second"]);
    let back = rig.machine.now - HOUR;
    rig.sequencer.write_turn(back);
    assert!(!rig.sequencer.sync_is_due(back + 499));
    assert!(rig.sequencer.sync_is_due(back + 500));
    assert_eq!(rig.sequencer.next_deadline(), Some(back + 500));
}

#[test]
fn a_checkpoint_comes_in_time_though_the_clock_steps_back() {
    let mut rig = rig();
    let orders = rig.log.partition("orders", 0).unwrap();
    rig.put(&orders, &[b"second"]);
    let back = rig.machine.now - HOUR;
    rig.sequencer.write_turn(back);
    assert!(!rig.sequencer.checkpoint_is_due(back + 29_999));
    assert!(rig.sequencer.checkpoint_is_due(back + 30_000));
}

#[test]
fn segments_are_written_in_time_though_the_clock_steps_back() {
    let mut rig = rig();
    let orders = rig.log.partition("orders", 0).unwrap();
    rig.put(&orders, &[b"second"]);
    let back = rig.machine.now - HOUR;
    rig.applier.step(back);
    let segment = Path::new("/data/orders-0/00000000000000000000.meta");
    let len = |rig: &Rig| rig.machine.disk.metadata(segment).unwrap().unwrap().len;
    assert_eq!(len(&rig), 25);
    rig.applier.step(back + 1000);
    assert_eq!(len(&rig), 51);
}

#[test]
fn room_on_the_disk_is_noticed_in_time_though_the_clock_steps_back() {
    let mut rig = rig();
    rig.machine.disk.set_capacity(0);
    rig.applier.step(rig.machine.now + 1000);
    assert!(rig.log.gauges().disk_full);
    rig.machine.disk.set_capacity(1 << 30);
    let back = rig.machine.now - HOUR;
    rig.applier.step(back);
    rig.applier.step(back + 1000);
    assert!(!rig.log.gauges().disk_full);
}
