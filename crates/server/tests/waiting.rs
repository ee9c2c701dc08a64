//! Gets and fetches that wait.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::client::Client;
use support::{Bed, Setup};

const FILE: &str = "[topic=t]\nnumPartitions=3\n[topic=u]\ndurability=os\n";

fn start() -> Bed {
    let bed = Setup::new(FILE).threads(2).start();
    let mut client = bed.connect();
    for (topic, partition) in [("t", 0), ("t", 1), ("t", 2), ("u", 0)] {
        client.ask(format!("put {topic} {partition} 5 0 1\r\nhello")).position();
    }
    bed
}

fn waits(bed: &Bed, count: u64) {
    let waiters = &bed.broker.gauges().waiters;
    support::until("so many wait", || waiters.load(Ordering::Relaxed) == count);
}

fn waiting(bed: &Bed, line: &str) -> Client {
    let before = bed.broker.gauges().waiters.load(Ordering::Relaxed);
    let mut client = bed.connect();
    client.say(line);
    waits(bed, before + 1);
    client
}

#[test]
fn a_get_at_the_end_is_answered_when_there_is_more() {
    let bed = start();
    for topic in ["t", "u"] {
        let mut reader = waiting(&bed, &format!("get {topic} g 0 25 100 1 wait=20000\r\n"));
        // It holds nothing back.
        assert_eq!(reader.ask("version 2\r\n").opaque, 2);
        let began = Instant::now();
        bed.connect().ask(format!("put {topic} 0 5 0 1\r\nthere")).position();
        let answer = reader.answer();
        assert_eq!((answer.opaque, answer.body.len()), (1, 25));
        assert!(answer.body.ends_with(b"there"));
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    waits(&bed, 0);
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    let bed = start();
    let began = Instant::now();
    let answer = bed.connect().ask("get t g 0 25 100 1 wait=200\r\n");
    assert_eq!(answer.code, 404);
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert_eq!(bed.connect().ask("get t g 0 25 100 1 wait=0\r\n").code, 404);
    assert_eq!(bed.connect().ask("get t g 0 25 100 1 min=5\r\n").code, 404);
    // A position in the future, or no such partition, is told at once.
    assert_eq!(bed.connect().ask("get t g 0 99 100 1 wait=20000\r\n").code, 404);
    assert_eq!(bed.connect().ask("get t g 7 0 100 1 wait=20000\r\n").code, 404);
    assert_eq!(bed.connect().ask("get t g 0 0 0 1 wait=20000\r\n").code, 400);
}

#[test]
fn min_is_waited_for() {
    let bed = start();
    let mut reader = waiting(&bed, "get t g 0 0 1000 1 wait=20000 min=60\r\n");
    let mut writer = bed.connect();
    writer.ask("put t 0 5 0 1\r\nhello").position();
    reader.is_silent();
    writer.ask("put t 0 5 0 1\r\nhello").position();
    assert_eq!(reader.answer().body.len(), 75);
    // When the time is over, there is what there is.
    assert_eq!(reader.ask("get t g 0 0 1000 2 wait=100 min=5000\r\n").body.len(), 75);
    // More than was asked for is not waited for.
    assert_eq!(reader.ask("get t g 0 0 30 3 wait=20000 min=5000\r\n").body.len(), 30);
}

#[test]
fn a_fetch_waits_for_any_of_its_partitions() {
    let bed = start();
    let mut reader = waiting(&bed, "fetch g 1000 t:0:25,t:1:25,t:2:25 1 wait=20000\r\n");
    bed.connect().ask("put t 2 5 0 1\r\nthere").position();
    let answer = reader.answer();
    let expected = b"t:0:25 404 0\r\nt:1:25 404 0\r\nt:2:25 200 25\r\n";
    assert!(answer.body.starts_with(expected), "{:?}", String::from_utf8_lossy(&answer.body));
    assert!(answer.body.ends_with(b"there"));
    assert_eq!(answer.body.len(), expected.len() + 25);
    waits(&bed, 0);
    // One that must move has no time to wait.
    let moved = reader.ask("fetch g 1000 t:0:25,t:1:-7 2 wait=20000\r\n");
    assert!(moved.text().contains("t:1:-7 301 1\r\n0"), "{}", moved.text());
    let sum = reader.ask("fetch g 1000 t:0:0,t:1:0 3 wait=20000 min=50\r\n");
    assert!(sum.body.len() > 50);
}

#[test]
fn many_wait_for_one_partition() {
    let bed = start();
    let mut readers: Vec<_> =
        (0..50).map(|opaque| waiting(&bed, &format!("get t g 1 25 100 {opaque} wait=20000\r\n"))).collect();
    bed.connect().ask("put t 1 5 0 1\r\nthere").position();
    for (opaque, reader) in readers.iter_mut().enumerate() {
        let answer = reader.answer();
        assert_eq!((usize::try_from(answer.opaque).unwrap(), answer.body.len()), (opaque, 25));
    }
    waits(&bed, 0);
}

#[test]
fn no_wake_is_lost_between_looking_and_waiting() {
    let bed = start();
    let (mut reader, mut writer) = (bed.connect(), bed.connect());
    for number in 1..=3000 {
        // Both at once: one of a thousand puts falls between the look and the wait.
        writer.say("put u 0 5 0 1\r\nhello");
        reader.say(format!("get u g 0 {} 1000 1 wait=4000\r\n", number * 25));
        let began = Instant::now();
        assert_eq!(reader.answer().body.len(), 25);
        assert!(began.elapsed() < Duration::from_secs(3), "a wake was lost at {number}");
        writer.answer().position();
    }
}

#[test]
fn a_connection_that_ends_waits_no_longer() {
    let bed = start();
    let reader = waiting(&bed, "get t g 0 25 100 1 wait=20000\r\n");
    drop(reader);
    waits(&bed, 0);
    for end in ["quit\r\n", "bogus\r\n"] {
        let mut reader = waiting(&bed, "get t g 0 25 100 1 wait=20000\r\n");
        reader.say(end);
        assert_eq!(reader.answer().code, 404);
        reader.ends();
    }
    let mut reader = bed.connect();
    reader.say("get t g 0 25 100 1 wait=20000\r\n");
    reader.end();
    assert_eq!(reader.answer().code, 404);
    reader.ends();
    waits(&bed, 0);
}

#[test]
fn one_too_many_is_answered_at_once() {
    let bed = Setup::new(&format!("waitersMax=2\n{FILE}")).start();
    bed.connect().ask("put t 0 5 0 1\r\nhello").position();
    let _waiting = [1, 2].map(|_| waiting(&bed, "get t g 0 25 100 1 wait=20000\r\n"));
    assert_eq!(bed.connect().ask("get t g 0 25 100 1 wait=20000\r\n").code, 404);
}
