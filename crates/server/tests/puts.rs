//! Puts: their order, and what they are told when the disk stalls, fails, or the connection ends.

mod support;

use metaq_protocol::extension::Batch;
use metaq_protocol::record;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use support::Setup;
use support::client::Answer;

/// Puts that are decided late are answered as unknown soon.
const HASTY: &str = "putMsMax=300\n[topic=t]\nnumPartitions=2\n[topic=u]\ndurability=os\n";
/// Puts wait as long as a test may take.
const PATIENT: &str = "putMsMax=60000\n[topic=t]\nnumPartitions=2\n[topic=u]\ndurability=os\n";

fn put(topic: &str, partition: u32, body: &str, opaque: usize) -> String {
    format!("put {topic} {partition} {} 0 {opaque}\r\n{body}", body.len())
}

#[track_caller]
fn is_unknown(answer: &Answer) {
    assert!(answer.code == 500 && answer.text().starts_with("outcome-unknown: "), "{answer:?}");
}

#[test]
fn ten_thousand_pipelined_puts_are_stored_and_answered_in_order() {
    const PUTS: usize = 10_000;
    let bed = Setup::new("[topic=t]\nnumPartitions=3\n[topic=u]\ndurability=os\n").threads(2).start();
    // Some wait for a sync, some don't; some are refused.
    let place = |number: usize| match number % 5 {
        4 => ("u", 0),
        at => ("t", u32::try_from(at).unwrap()),
    };
    let mut client = bed.connect();
    let mut sender = support::client::Client::of(client.stream().try_clone().unwrap());
    let sending = std::thread::spawn(move || {
        for number in 0..PUTS {
            let (topic, partition) = place(number);
            sender.say(put(topic, partition, &format!("message {number}"), number));
        }
    });
    let mut last: HashMap<(&str, u32), usize> = HashMap::new();
    let mut ends: HashMap<(&str, u32), u64> = HashMap::new();
    for _ in 0..PUTS {
        let answer = client.answer();
        let number = usize::try_from(answer.opaque).unwrap();
        let place = place(number);
        assert!(last.insert(place, number) < Some(number), "{place:?} is answered out of order");
        if place == ("t", 3) {
            assert!(answer.text().starts_with("partition-out-of-range"), "{answer:?}");
            continue;
        }
        let end = ends.entry(place).or_default();
        assert_eq!(answer.position(), *end, "{place:?} is stored out of order");
        *end += 20 + format!("message {number}").len() as u64;
    }
    sending.join().unwrap();
}

#[test]
fn the_puts_of_one_read_are_one_submission() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    let puts: String = (0..1000).map(|number| put("t", 0, "hello", number)).collect();
    client.say(puts);
    assert_eq!(client.answers(1000).last().unwrap().position(), 999 * 25);
    let submissions = bed.count(|counters| &counters.submissions);
    assert!(submissions <= 10, "{submissions} submissions");
    let sends = bed.count(|counters| &counters.sends);
    assert!(sends <= 20, "{sends} sends");
}

#[test]
fn a_stalled_disk_holds_neither_version_nor_stats() {
    let bed = Setup::new(HASTY).start();
    let mut client = bed.connect();
    client.ask(put("t", 0, "hello", 1)).position();
    bed.gate.close();
    client.say(put("t", 0, "hello", 2));
    support::until("a sync waits", || bed.gate.holds_one());
    // This one isn't even taken by the sequencer.
    let began = Instant::now();
    client.say(put("t", 0, "hello", 3));
    client.say("version 4\r\nstats help 5\r\nget t g 0 0 100 6\r\n");
    let opaques: Vec<_> = client.answers(3).iter().map(|answer| answer.opaque).collect();
    assert_eq!(opaques, [4, 5, 6]);
    for opaque in [2, 3] {
        let answer = client.answer();
        assert_eq!(answer.opaque, opaque);
        is_unknown(&answer);
    }
    assert!(began.elapsed() >= Duration::from_millis(250), "puts were given up at once");
    assert_eq!(client.ask("version 7\r\n").opaque, 7);
    // What became of them is not told later, but it did happen.
    bed.gate.open();
    client.is_silent();
    assert_eq!(client.ask(put("t", 0, "hello", 8)).position(), 75);
    assert_eq!(bed.count(|counters| &counters.puts_unknown), 2);
}

#[test]
fn a_heartbeat_is_answered_all_through_a_stall() {
    let bed = Setup::new(PATIENT).start();
    let (mut busy, mut other) = (bed.connect(), bed.connect());
    busy.ask(put("t", 0, "hello", 0)).position();
    bed.gate.close();
    for number in 1..=50 {
        busy.say(put("t", 0, "hello", number));
        assert_eq!(busy.ask("version -9\r\n").opaque, -9);
        assert_eq!(other.ask("version -8\r\n").opaque, -8);
    }
    bed.gate.open();
    let opaques: Vec<_> = busy.answers(50).iter().map(|answer| answer.opaque).collect();
    assert_eq!(opaques, (1..=50).collect::<Vec<_>>());
}

#[test]
fn puts_that_need_no_sync_are_not_held_by_those_that_do() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    client.ask(put("t", 0, "hello", 0)).position();
    client.ask(put("u", 0, "hello", 0)).position();
    bed.gate.close();
    client.say(put("t", 0, "hello", 1));
    support::until("a sync waits", || bed.gate.holds_one());
    // Both kinds are in the next turn, in one read and in two.
    client.say([put("t", 0, "hello", 2), put("u", 0, "hello", 3)].concat());
    assert_eq!(client.ask("version 0\r\n").opaque, 0);
    client.say(put("u", 0, "hello", 4));
    assert_eq!(client.ask("version 0\r\n").opaque, 0);
    bed.gate.pass_one();
    let mut opaques: Vec<_> = client.answers(3).iter().map(|answer| answer.opaque).collect();
    opaques.sort_unstable();
    assert_eq!(opaques, [1, 3, 4]);
    client.is_silent();
    bed.gate.open();
    assert_eq!(client.answer().opaque, 2);
}

#[test]
fn an_answer_leaves_when_the_watermark_moves() {
    let bed = Setup::new(PATIENT).threads(2).start();
    let mut clients = [bed.connect(), bed.connect()];
    let began = Instant::now();
    for number in 0..200 {
        for (client, topic) in clients.iter_mut().zip(["t", "u"]) {
            client.ask(put(topic, 0, "hello", number)).position();
        }
    }
    // Whoever only looked now and then would take ten times as long.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_quit_waits_for_what_came_before_it() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    bed.gate.close();
    let puts: String = (0..20).map(|number| put("t", number % 2, "hello", number as usize)).collect();
    client.say(format!("{puts}quit\r\n{}", put("t", 0, "late", 99)));
    client.is_silent();
    bed.gate.open();
    let mut opaques: Vec<_> = client.answers(20).iter().map(|answer| answer.opaque).collect();
    opaques.sort_unstable();
    assert_eq!(opaques, (0..20).collect::<Vec<_>>());
    client.ends();
    assert_eq!(bed.connect().ask("offset t g 0 9223372036854775807 1\r\n").text(), "250", "nothing behind it is done");
}

#[test]
fn a_malformed_line_takes_no_answer_away() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    bed.gate.close();
    client.say(format!("{}bogus\r\n{}", put("t", 0, "hello", 1), put("t", 0, "late", 2)));
    client.is_silent();
    bed.gate.open();
    assert_eq!(client.answer().position(), 0);
    client.ends();
    assert_eq!(bed.connect().ask("offset t g 0 9223372036854775807 1\r\n").text(), "25");
}

#[test]
fn after_a_malformed_line_a_stalled_put_is_waited_for_a_bounded_time() {
    let bed = Setup::new(HASTY).start();
    let mut client = bed.connect();
    client.ask(put("t", 0, "hello", 0)).position();
    bed.gate.close();
    client.say(format!("{}bogus\r\n", put("t", 0, "hello", 1)));
    is_unknown(&client.answer());
    client.ends();
}

#[test]
fn a_refused_put_does_not_overtake() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    client.ask(put("t", 0, "hello", 0)).position();
    bed.gate.close();
    client.say(put("t", 0, "hello", 1));
    support::until("a sync waits", || bed.gate.holds_one());
    // In the read of an accepted one, and in one of its own.
    client.say(format!("{}{}", put("t", 9, "hello", 2), put("t", 0, "hello", 3)));
    client.say(put("t", 9, "hello", 4));
    client.is_silent();
    bed.gate.open();
    let answers = client.answers(4);
    let told: Vec<_> = answers.iter().map(|answer| (answer.opaque, answer.code)).collect();
    assert_eq!((told[0], told[3]), ((1, 200), (4, 500)), "{told:?}");
    assert!(told.contains(&(2, 500)) && told.contains(&(3, 200)), "{told:?}");
}

#[test]
fn when_the_store_closes_who_waits_is_told_at_once() {
    let bed = Setup::new(PATIENT).start();
    let (mut one, mut other) = (bed.connect(), bed.connect());
    one.ask(put("t", 0, "hello", 0)).position();
    bed.gate.close();
    one.say(put("t", 0, "hello", 1));
    support::until("a sync waits", || bed.gate.holds_one());
    other.say(put("t", 1, "hello", 2));
    other.say("version 3\r\n");
    assert_eq!(other.answer().opaque, 3);
    let began = Instant::now();
    bed.gate.fail();
    bed.gate.open();
    // Written and not synced: nobody knows.
    is_unknown(&one.answer());
    // Never written.
    let refused = other.answer();
    assert!(refused.code == 503 && refused.text().starts_with("store-closed"), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(one.ask(put("t", 0, "hello", 4)).code, 503);
    assert_eq!(one.ask("get t g 0 0 100 5\r\n").body.len(), 25, "what was visible stays so");
}

#[test]
fn a_batch_is_stored_whole_and_once() {
    let bed = Setup::new(PATIENT).start();
    let mut client = bed.connect();
    let mut body = Vec::new();
    (0..100).for_each(|_| record::encode(&mut body, 0, 0, b"hello"));
    let mut line = Vec::new();
    let stamp = metaq_protocol::extension::Stamp { producer: 7, epoch: 0, sequence: 0 };
    let batch = Batch { topic: "t".into(), partition: 1, count: 100, stamp: Some(stamp), opaque: 1, body: &body };
    batch.encode(&mut line).unwrap();
    let first = client.ask(&line);
    assert_eq!(first.position(), 0);
    assert_eq!(client.ask(&line), first, "sent again, stored once");
    assert_eq!(client.ask(put("t", 1, "hello", 2)).position(), 2500);
    client.say("puts t 1 5 1 - - 9\r\nhello");
    assert_eq!(client.answer().code, 400);
}

#[test]
fn puts_of_a_closed_connection_are_stored_all_the_same() {
    let bed = Setup::new(PATIENT).start();
    bed.gate.close();
    let mut client = bed.connect();
    client.say(put("t", 0, "hello", 1));
    client.say("version 2\r\n");
    client.answer();
    drop(client);
    bed.gate.open();
    let mut other = bed.connect();
    support::until("it is stored", || other.ask("offset t g 0 9223372036854775807 1\r\n").text() == "25");
}
