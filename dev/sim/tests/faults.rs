//! What becomes of a directory when its disk fails it: nothing acknowledged is lost, everybody who waits is told.

use metaq_disk::Fault;
use metaq_log::{Change, Clock, Condition, Durability, PerformError, Refusal, StateChange};
use metaq_sim::Machine;
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
