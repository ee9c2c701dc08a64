//! What becomes of a directory when its disk fails it: nothing acknowledged is lost, everybody who waits is told.

use metaq_disk::Fault;
use metaq_log::{Change, Clock, Condition, PerformError, Refusal, StateChange};
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
