//! How the bytes of messages leave: by `sendfile` where it pays, contiguous, and never waiting for a disk.

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

mod support;

use metaq_protocol::record::Walk;
use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Bed, Setup};

const FILE: &str = "[topic=t]\nnumPartitions=3\nmaxSegmentSize=8*1024*1024\n";

fn body(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((number * 31 + at) % 251).unwrap()).collect()
}

/// A broker with so many messages of that size in each partition.
fn filled(real: bool, messages: usize, len: usize) -> Bed {
    let bed = Setup { real, ..Setup::new(FILE) }.start();
    let mut client = bed.connect();
    for partition in 0..3 {
        for number in 0..messages {
            let body = body(number, len);
            let mut put = format!("put t {partition} {len} 0 {number}\r\n").into_bytes();
            put.extend_from_slice(&body);
            client.ask(put).position();
        }
    }
    bed
}

fn is_what_was_put(chunk: &[u8], first: usize, len: usize) {
    let mut count = 0;
    for found in Walk::new(chunk) {
        assert_eq!(found.record.body, body(first + count, len), "message {}", first + count);
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn large_gets_leave_by_sendfile() {
    let bed = filled(true, 64, 64 << 10);
    let mut client = bed.connect();
    let record = (64 << 10) + 20;
    for _ in 0..4 {
        let (mut position, mut first) = (0, 0);
        while first < 64 {
            let chunk = client.ask(format!("get t g 0 {position} 1048576 1\r\n")).body;
            is_what_was_put(&chunk, first, 64 << 10);
            first += chunk.len() / record;
            position = first * record;
        }
    }
    let sent = bed.count(|counters| &counters.sendfile_bytes);
    let copied = bed.count(|counters| &counters.copied_large_bytes);
    assert!(sent >= 4 * 64 * (64 << 10) && copied * 100 <= sent, "{sent} by sendfile, {copied} copied");
}

#[test]
fn small_gets_are_copied_behind_their_heads() {
    let bed = filled(true, 10, 100);
    let mut client = bed.connect();
    is_what_was_put(&client.ask("get t g 0 0 1048576 1\r\n").body, 0, 100);
    assert_eq!(bed.count(|counters| &counters.sendfile_bytes), 0);
    assert_eq!(bed.count(|counters| &counters.copied_small_bytes), 1200);
    // One send for each of the 30 puts, and one.
    support::until("all sends are counted", || bed.count(|counters| &counters.sends) == 31);
    assert_eq!(client.ask("version 1\r\n").opaque, 1);
    assert!(bed.count(|counters| &counters.sends) <= 32);
}

#[test]
fn pipelined_gets_of_every_size_stay_whole() {
    for real in [true, false] {
        let bed = filled(real, 40, 10_000);
        let mut client = bed.connect();
        let sizes = [1, 19, 20, 5_000, 16_383, 16_384, 65_536, 100_000, 390_000];
        let lines: String = sizes
            .iter()
            .enumerate()
            .map(|(at, size)| format!("get t g {} 0 {size} {size}\r\nversion {at}\r\n", at % 3))
            .collect();
        client.say(lines.repeat(3));
        let answers = client.answers(sizes.len() * 6);
        for answer in answers.iter().filter(|answer| answer.code == 0) {
            assert_eq!(answer.body.len(), usize::try_from(answer.opaque).unwrap());
            if answer.body.len() > 10_020 {
                is_what_was_put(&answer.body, 0, 10_000);
            }
        }
        assert_eq!(answers.iter().filter(|answer| answer.code == 0).count(), sizes.len() * 3);
    }
}

#[test]
fn cold_bytes_are_read_elsewhere() {
    let bed = filled(true, 64, 64 << 10);
    bed.gate.set_cold(true);
    let mut client = bed.connect();
    let before = bed.count(|counters| &counters.sendfile_bytes);
    let chunk = client.ask("get t g 1 0 1048576 1\r\n").body;
    assert_eq!(chunk.len(), 1 << 20);
    is_what_was_put(&chunk, 0, 64 << 10);
    let small = client.ask("get t g 1 0 2000 1\r\n").body;
    assert_eq!(small, chunk[..2000]);
    assert_eq!(bed.count(|counters| &counters.sendfile_bytes), before);
    assert_eq!(bed.count(|counters| &counters.copied_large_bytes), 1 << 20);
    assert!(bed.count(|counters| &counters.cold_reads) >= 2);
}

#[test]
fn a_fetch_sends_its_parts_in_order() {
    let bed = filled(true, 5, 30_000);
    let mut client = bed.connect();
    let answer = client.ask("fetch g 1000000 t:2:0,t:9:0,t:0:30020,t:1:150100 7\r\n");
    let mut rest = &answer.body[..];
    let mut part = |head: &str| {
        let text = String::from_utf8_lossy(&rest[..rest.len().min(60)]).into_owned();
        let len: usize = {
            let line = text.split("\r\n").next().unwrap();
            assert!(line.starts_with(head), "{line}");
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let at = text.find("\r\n").unwrap() + 2;
        let bytes = rest[at..at + len].to_vec();
        rest = &rest[at + len..];
        bytes
    };
    is_what_was_put(&part("t:2:0 200 "), 0, 30_000);
    assert!(part("t:9:0 404 ").is_empty());
    let third = part("t:0:30020 200 ");
    assert_eq!(third.len(), 4 * 30_020);
    is_what_was_put(&third, 1, 30_000);
    assert!(part("t:1:150100 404 ").is_empty());
    assert!(rest.is_empty());
}

#[test]
fn who_reads_slowly_holds_nobody_up_and_gets_everything() {
    let bed = filled(true, 64, 64 << 10);
    let mut slow = bed.connect();
    slow.say("get t g 0 0 1048576 1\r\n".repeat(20));
    let mut probe = bed.connect();
    for opaque in 0..50 {
        assert_eq!(probe.ask(format!("put t 2 5 0 {opaque}\r\nhello")).opaque, opaque);
    }
    let buffers = bed.broker.gauges().buffer_bytes.load(Ordering::Relaxed);
    assert!(buffers < 1 << 20, "{buffers} bytes of buffers for slices of files");
    for answer in slow.answers(20) {
        assert_eq!(answer.body.len(), 1 << 20);
        is_what_was_put(&answer.body, 0, 64 << 10);
    }
}

#[test]
fn who_never_reads_is_closed() {
    let mut setup = Setup { real: true, ..Setup::new(FILE) };
    setup.options.sending_max = Duration::from_millis(300);
    let bed = setup.start();
    let mut client = bed.connect();
    let mut put = format!("put t 0 {} 0 1\r\n", 1 << 20).into_bytes();
    put.extend_from_slice(&body(0, 1 << 20));
    client.ask(put).position();
    let mut lazy = bed.connect();
    lazy.say("get t g 0 0 1048576 1\r\n".repeat(100));
    support::until("it is closed", || bed.count(|counters| &counters.timed_out) == 1);
    let mut read = Vec::new();
    // What was sent can be read, then the connection is over, in order or not.
    drop(lazy.stream().read_to_end(&mut read));
    assert!(read.len() < 100 << 20);
    assert_eq!(client.ask("version 2\r\n").opaque, 2);
}

#[test]
fn a_segment_that_is_too_short_ends_the_connection_and_nothing_else() {
    let bed = filled(true, 5, 30_000);
    let segment = bed.folder().join("data/t-0/00000000000000000000.meta");
    let mut client = bed.connect();
    assert_eq!(client.ask("get t g 0 0 1000 1\r\n").body.len(), 1000);
    std::fs::File::options().write(true).open(segment).unwrap().set_len(10).unwrap();
    client.say("get t g 0 0 1000000 2\r\n");
    let mut bytes = Vec::new();
    drop(client.stream().read_to_end(&mut bytes));
    assert!(bytes.len() < 1000, "{} bytes", bytes.len());
    assert_eq!(bed.connect().ask("get t g 1 0 1000 1\r\n").body.len(), 1000);
}

#[test]
fn answers_arrive_though_their_client_went_on_talking() {
    let bed = filled(true, 64, 64 << 10);
    let mut client = bed.connect();
    client.say("get t g 0 0 1048576 1\r\n".repeat(2) + "bogus\r\n");
    // The server has ended its side; what comes now must not make it take back what isn't read yet.
    std::thread::sleep(Duration::from_millis(50));
    client.say(vec![b'x'; 10_000]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(client.answers(2).iter().all(|answer| answer.body.len() == 1 << 20));
    client.ends();
}
