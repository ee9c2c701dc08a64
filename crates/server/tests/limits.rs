//! What is bounded: bodies, bytes in flight, unread answers, idle and slow connections.

mod support;

use std::io::{ErrorKind, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::client::Client;
use support::{Bed, Setup};

fn in_flight(bed: &Bed) -> u64 {
    bed.broker.gauges().bytes_in_flight.load(Ordering::Relaxed)
}

fn put(partition: u32, len: usize, opaque: usize) -> Vec<u8> {
    let mut bytes = format!("put t {partition} {len} 0 {opaque}\r\n").into_bytes();
    bytes.resize(bytes.len() + len, b'x');
    bytes
}

#[test]
fn an_oversized_body_is_passed_over_and_answered_with_both_sizes() {
    let bed = Setup::new("messageBytesMax=10000\ndiscardBytesMax=8*1024*1024\n[topic=t]\n").start();
    let mut client = bed.connect();
    client.say(put(0, 10_000, 1));
    client.say(put(0, 10_001, 2));
    client.say(put(0, 5 << 20, 3));
    client.say(put(0, 5, 4));
    assert_eq!(client.answer().position(), 0);
    for (opaque, size) in [(2, 10_001), (3, 5 << 20)] {
        let answer = client.answer();
        assert_eq!((answer.code, answer.opaque), (500, opaque));
        let text = answer.text();
        assert!(
            text.starts_with("message-too-large: ") && text.contains(&size.to_string()) && text.contains("10000"),
            "{text}"
        );
    }
    assert_eq!(client.answer().position(), 10_020);
    client.say(format!("put t 0 {} 0 5\r\n", (8 << 20) + 1));
    client.ends();
}

/// Bounds of 64 KiB for a connection, and messages of 8 KiB.
const NARROW: &str = "messageBytesMax=8192\nbatchBytesMax=8212\nconnectionBytesInFlightMax=65536\n";

#[test]
fn a_connection_over_its_bytes_in_flight_is_not_read_and_nothing_is_dropped() {
    let bed = Setup::new(&format!("{NARROW}putMsMax=60000\nstallMsMax=60000\n[topic=t]\n")).start();
    let mut client = bed.connect();
    client.ask(put(0, 8, 0)).position();
    bed.gate.close();
    let mut sender = Client::of(client.stream().try_clone().unwrap());
    let sending = std::thread::spawn(move || (1..=200).for_each(|opaque| sender.say(put(0, 8000, opaque))));
    support::until("the bound is reached", || in_flight(&bed) > 50_000);
    std::thread::sleep(Duration::from_millis(100));
    // What was read beyond the bound waits in memory, one read of the socket at most.
    assert!(in_flight(&bed) <= 65_536 + (128 << 10), "{} bytes", in_flight(&bed));
    bed.gate.open();
    for opaque in 1..=200 {
        let answer = client.answer();
        assert_eq!(answer.opaque, opaque);
        answer.position();
    }
    sending.join().unwrap();
    support::until("all was given back", || in_flight(&bed) == 0);
}

#[test]
fn after_a_stall_puts_are_refused_and_heartbeats_answered() {
    let bed = Setup::new(&format!("{NARROW}putMsMax=200\nstallMsMax=400\n[topic=t]\n")).start();
    let mut client = bed.connect();
    client.ask(put(0, 8, 0)).position();
    bed.gate.close();
    let began = Instant::now();
    (1..=30).for_each(|opaque| client.say(put(0, 8000, opaque)));
    client.say("version -5\r\n");
    let answers = client.answers(31);
    assert!(began.elapsed() >= Duration::from_millis(350));
    let count = |code: &str| answers.iter().filter(|answer| answer.text().starts_with(code)).count();
    let (unknown, busy) = (count("outcome-unknown: "), count("busy: "));
    assert_eq!(unknown + busy, 30);
    assert!(unknown >= 7 && busy >= 10, "{unknown} unknown, {busy} busy");
    assert!(answers.iter().any(|answer| answer.opaque == -5 && answer.code == 200));
    // While it lasts, puts are refused at once, and the heartbeat goes on.
    let began = Instant::now();
    for opaque in 0..20 {
        assert_eq!(client.ask(put(0, 8000, 1)).code, 503);
        assert_eq!(client.ask(format!("version {opaque}\r\n")).opaque, opaque);
    }
    assert!(began.elapsed() < Duration::from_secs(4));
    bed.gate.open();
    support::until("puts are taken again", || client.ask(put(0, 8, 7)).code == 200);
}

#[test]
fn a_full_partition_leaves_room_for_others() {
    let file = "messageBytesMax=8192\nbatchBytesMax=8212\npartitionBytesInFlightMax=16384\n\
                putMsMax=60000\nstallMsMax=60000\n[topic=t]\nnumPartitions=2\n";
    let bed = Setup::new(file).start();
    let mut first = bed.connect();
    first.ask(put(0, 8, 0)).position();
    first.ask(put(1, 8, 0)).position();
    bed.gate.close();
    (1..=4).for_each(|opaque| first.say(put(0, 4000, opaque)));
    support::until("the partition is nearly full", || in_flight(&bed) > 4 * 4000);
    let mut second = bed.connect();
    second.say(put(0, 4000, 5));
    support::until("one more goes over the bound", || in_flight(&bed) > 5 * 4000);
    second.say(put(0, 4000, 6));
    let mut third = bed.connect();
    third.say(put(1, 4000, 7));
    support::until("another partition is not full", || in_flight(&bed) > 6 * 4000);
    assert!(in_flight(&bed) < 7 * 4000);
    bed.gate.open();
    assert_eq!(third.answer().opaque, 7);
    assert_eq!(second.answers(2).iter().map(|answer| answer.opaque).collect::<Vec<_>>(), [5, 6]);
}

#[test]
fn to_announce_a_body_costs_nothing_and_large_ones_arrive_a_few_at_a_time() {
    let file = "messageBytesMax=1024*1024\nbatchBytesMax=1100*1024\nbrokerBytesInFlightMax=8*1024*1024\n\
                stallMsMax=300\n[topic=t]\n";
    let bed = Setup::new(file).start();
    let _announcers: Vec<_> = (0..50)
        .map(|_| {
            let mut client = bed.connect();
            client.say("put t 0 1000000 0 1\r\n");
            client.say("the first bytes of it");
            client
        })
        .collect();
    assert!(in_flight(&bed) < 100_000, "{} bytes", in_flight(&bed));
    // All but the last byte of a large body.
    let whole = put(0, 1_000_000, 1);
    let mut slow: Vec<_> = (0..8)
        .map(|_| {
            let client = bed.connect();
            let (stream, bytes) = (client.stream().try_clone().unwrap(), whole.clone());
            let sending = std::thread::spawn(move || (&stream).write_all(&bytes[..bytes.len() - 1]).unwrap());
            (client, sending)
        })
        .collect();
    support::until("some are refused", || bed.count(|counters| &counters.puts_busy) >= 5);
    assert!(in_flight(&bed) <= 3 << 20, "{} bytes", in_flight(&bed));
    // A small put finds room all the time.
    assert_eq!(bed.connect().ask(put(0, 100, 9)).code, 200);
    let mut codes = Vec::new();
    for (client, sending) in &mut slow {
        sending_done(sending);
        client.say("x");
        let answer = client.answer();
        codes.push(answer.code);
        assert_eq!(client.ask("version 2\r\n").opaque, 2, "the connection lives");
    }
    assert!(codes.contains(&200) && codes.contains(&503), "{codes:?}");
}

fn sending_done(sending: &mut std::thread::JoinHandle<()>) {
    support::until("it was sent", || sending.is_finished());
}

#[test]
fn unread_answers_are_bounded_and_none_is_lost() {
    let mut setup = Setup::new("[topic=t]\n");
    setup.options.unsent_bytes_max = 64 << 10;
    let bed = setup.start();
    let mut client = bed.connect();
    client.stream().set_nonblocking(true).unwrap();
    let line = b"stats help 1\r\n";
    let (mut sent, mut part) = (0_usize, 0);
    let mut blocked = Instant::now();
    while blocked.elapsed() < Duration::from_millis(300) {
        match (&mut client.stream()).write(&line[part..]) {
            Ok(written) => {
                part = (part + written) % line.len();
                sent += usize::from(part == 0);
                blocked = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
    let buffers = || bed.broker.gauges().buffer_bytes.load(Ordering::Relaxed);
    support::until("the gauge shows it", || buffers() > 0);
    assert!(buffers() < 1 << 20, "{} bytes for {sent} requests", buffers());
    client.stream().set_nonblocking(false).unwrap();
    assert!(sent > 1000);
    client.answers(sent);
}

#[test]
fn an_idle_connection_is_closed_and_one_with_a_heartbeat_is_not() {
    let bed = Setup::new("idleMsMax=400\n[topic=t]\n").start();
    let (mut idle, mut alive) = (bed.connect(), bed.connect());
    bed.connect().ask("put t 0 5 0 1\r\nhello").position();
    let mut waiting = bed.connect();
    waiting.say("get t g 0 25 100 1 wait=20000\r\n");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        assert_eq!(alive.ask("version 1\r\n").opaque, 1);
        std::thread::sleep(Duration::from_millis(50));
    }
    idle.ends();
    bed.connect().ask("put t 0 5 0 1\r\nhello").position();
    assert_eq!(waiting.answer().body.len(), 25, "who waits isn't idle");
}

#[test]
fn a_request_that_trickles_in_ends_the_connection() {
    let mut setup = Setup::new("[topic=t]\n");
    setup.options.arrival_max = Duration::from_millis(400);
    let bed = setup.start();
    for line in ["version 1\r\nver", "version 1\r\nput t 0 100 0 1\r\n"] {
        let mut client = bed.connect();
        client.say(line);
        assert_eq!(client.answer().opaque, 1);
        let began = Instant::now();
        while (&mut client.stream()).write_all(b"x").is_ok() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it was never closed");
        client.ends();
    }
    assert_eq!(bed.count(|counters| &counters.timed_out), 2);
}

#[test]
fn idle_connections_keep_no_buffers() {
    let bed = Setup::new("[topic=t]\n").threads(2).start();
    let mut clients: Vec<_> = (0..200).map(|_| bed.connect()).collect();
    for len in [20_000, 2_000] {
        for client in &mut clients {
            client.say(&put(0, len, 1)[..len / 2]);
        }
        for client in &mut clients {
            client.say(&put(0, len, 1)[len / 2..]);
            client.answer().position();
        }
    }
    support::until("all buffers are freed", || bed.broker.gauges().buffer_bytes.load(Ordering::Relaxed) == 0);
}

#[test]
fn a_connection_too_many_is_closed() {
    let mut setup = Setup::new("[topic=t]\n");
    setup.listen.connections_max = 2;
    let bed = setup.start();
    let (mut one, mut two) = (bed.connect(), bed.connect());
    one.ask("version 1\r\n");
    two.ask("version 1\r\n");
    bed.connect().ends();
    drop(one);
    support::until("there is a place again", || {
        let mut client = bed.connect();
        client.say("version 2\r\n");
        client.try_answer().is_some()
    });
}

#[test]
fn what_may_change_live_does_also_for_open_connections() {
    let bed = Setup::new("messageBytesMax=1000\nputMsMax=60000\n[topic=t]\n").start();
    let mut client = bed.connect();
    client.ask(put(0, 8, 1)).position();
    assert_eq!(client.ask(put(0, 1001, 1)).code, 500);
    bed.reload("messageBytesMax=1000", "messageBytesMax=1001");
    support::until("the larger one is taken", || client.ask(put(0, 1001, 1)).code == 200);
    bed.reload("putMsMax=60000", "putMsMax=100");
    bed.gate.close();
    // A put that is decided late is given up after the time that holds when it is late.
    assert!(client.ask(put(0, 8, 2)).text().starts_with("outcome-unknown: "));
}
