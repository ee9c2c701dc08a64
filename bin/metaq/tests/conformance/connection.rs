//! Rows 80 to 83: other words, idle and half-closed connections.

use super::{BINARY, check, fixture, is_original, target};
use metaq_testkit::Setup;
use std::time::Duration;

#[test]
fn row_80_a_broker_that_is_no_slave_refuses_sync() {
    check(&[
        ">> sync t80 0 5 0 99 907060870 7\\r\\nhello
         < result 503 * 7
         >> sync t80 0 5 0 99 7\\r\\nhello
         < result 503 * 7",
        ">> sync t80 0 1 0 7\\r\\nx
         ! closed",
    ]);
}

#[test]
fn row_81_a_connection_is_closed_when_it_is_idle_and_only_then() {
    if target().own.is_none() {
        return;
    }
    let broker = Setup::with_ini(BINARY, &fixture().system("idleMsMax", 1500)).start();
    let (mut silent, mut lively) = (broker.connect(), broker.connect());
    let lively = std::thread::spawn(move || {
        for _ in 0..40 {
            lively.usable();
            std::thread::sleep(Duration::from_millis(100));
        }
        lively.usable();
    });
    let began = std::time::Instant::now();
    silent.closed();
    assert!(began.elapsed() >= Duration::from_millis(1400), "closed after {:?}", began.elapsed());
    lively.join().expect("a connection with a heartbeat stays");
    broker.stop();
}

#[test]
fn row_82_a_client_that_will_ask_nothing_more_is_answered_and_then_closed() {
    if is_original() {
        return;
    }
    check(&[
        "> version 3
         ! half-close
         < result 200 * 3
         ! closed",
        ">> put t82 0 5 0 1\\r\\nhelloget t82 g 0 0 100 2\\r\\nput t82 0 5 0 3\\r\\nhello
         ! half-close
         < *
         < *
         < *
         ! closed",
        ">> put t82 0 5 0 1\\r\\nhel
         ! half-close
         ! closed",
        "! half-close
         ! closed",
    ]);
}

#[test]
fn row_83_a_client_with_only_heartbeats_is_never_closed() {
    // The heartbeat of an original client, whose opaques begin at the smallest number; against a limit just above its pace.
    if target().own.is_none() {
        return;
    }
    let broker = Setup::with_ini(BINARY, &fixture().system("idleMsMax", 700)).start();
    let mut wire = broker.connect();
    for beat in 0..12 {
        let opaque = i32::MIN + beat;
        let frame = wire.ask(format!("version {opaque}\r\n"));
        assert_eq!((frame.status(), frame.opaque()), (Some(200), opaque));
        std::thread::sleep(Duration::from_millis(300));
    }
    broker.stop();
}
