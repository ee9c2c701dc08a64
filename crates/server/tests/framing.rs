//! How requests are cut and connections end: rows 1 to 24 of the conformance list, and 35, 36, 74 to 80, 82.

mod support;

use std::time::Duration;
use support::client::Client;
use support::{Bed, Setup};

/// Says something on a connection of its own; it is answered with these opaques, and the connection lives.
#[track_caller]
fn answers(bed: &Bed, bytes: &str, opaques: &[i32]) -> Client {
    let mut client = bed.connect();
    client.say(bytes);
    let found: Vec<_> = opaques.iter().map(|_| client.answer().opaque).collect();
    assert_eq!(found, opaques, "{bytes:?}");
    client
}

/// Says something on a connection of its own; it is answered with these opaques, then the connection ends.
#[track_caller]
fn answers_and_ends(bed: &Bed, bytes: &str, opaques: &[i32]) {
    answers(bed, bytes, opaques).ends();
}

#[test]
fn rows_1_to_12_version_and_what_is_none() {
    let bed = Bed::start();
    let mut client = bed.connect();
    let answer = client.ask("version 5\r\n");
    assert_eq!((answer.code, answer.opaque, answer.text()), (200, 5, "1.4.6.3-test"));
    answers(&bed, "version\r\n", &[i32::MAX]);
    answers(&bed, "version -3\r\n", &[-3]);
    answers(&bed, "version +5\r\n", &[5]);
    answers(&bed, "version 5 \r\n", &[5]);
    answers(&bed, "version 7 8\r\n", &[7]);
    for line in [
        "version  7\r\n",
        "version abc\r\n",
        "version 2147483648\r\n",
        "VERSION 5\r\n",
        " version 5\r\n",
        "\r\n",
        "foo\r\n",
        "statsx help 5\r\n",
        "get t g 0 0\r\n",
        "get t g 0 0 2147483648 1\r\n",
    ] {
        answers_and_ends(&bed, line, &[]);
    }
}

#[test]
fn rows_13_to_16_what_isnt_whole_is_waited_for() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.say("version 5\n");
    client.is_silent();
    client.say("\r\n");
    client.ends();

    let mut client = bed.connect();
    client.say("ver");
    client.is_silent();
    assert_eq!(client.ask("sion 9\r\n").opaque, 9);

    let mut client = bed.connect();
    for part in ["put t 0 5 0 7\r", "\nhe"] {
        client.say(part);
        client.is_silent();
    }
    assert_eq!(client.ask("llo").position(), 0);
    client.say("put t 0 10 0 1\r\nhello");
    client.is_silent();
    assert_eq!(client.ask("hello").position(), 25);
}

#[test]
fn rows_17_to_21_prefixes_quit_and_a_malformed_line() {
    let bed = Bed::start();
    answers(&bed, "v 9\r\n", &[9]);
    answers(&bed, "ver 9\r\n", &[9]);
    for quit in ["q\r\n", "quit\r\n", "quit x\r\n"] {
        answers_and_ends(&bed, quit, &[]);
    }
    answers_and_ends(&bed, "version 1\r\nbogus\r\nversion 2\r\n", &[1]);
    answers(&bed, "version 1\r\nversion 1\r\n", &[1, 1]);
    answers_and_ends(&bed, "version 1\r\nquit\r\nversion 2\r\n", &[1]);
}

#[test]
fn rows_22_and_23_answers_are_skipped() {
    let bed = Bed::start();
    for answer in ["result 200 2 1\r\nhi", "value 2 1\r\nhi"] {
        let mut client = bed.connect();
        client.say(answer);
        client.is_silent();
        assert_eq!(client.ask("version 4\r\n").opaque, 4);
    }
}

#[test]
fn row_24_each_of_many_requests_gets_its_whole_answer() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.ask("put t 0 5 0 7\r\nhello");
    client.say(
        "get t g 0 0 100 1\r\nversion 2\r\noffset t g 0 0 3\r\nstats help 4\r\nget t g 0 0 100 5\r\ntransaction TX:s:1 s END 6\r\n",
    );
    let mut opaques: Vec<_> = client.answers(5).iter().map(|answer| answer.opaque).collect();
    opaques.sort_unstable();
    assert_eq!(opaques, [1, 2, 3, 4, 5]);
    client.is_silent();
}

#[test]
fn rows_35_and_36_a_body_ends_where_it_says() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.say("put t 0 5 0 1\r\nhelloversion 3\r\n");
    let mut opaques = [client.answer().opaque, client.answer().opaque];
    opaques.sort_unstable();
    assert_eq!(opaques, [1, 3]);
    client.say("put t 0 5 0 1\r\nhello\r\nversion 3\r\n");
    assert_eq!(client.answer().position(), 25, "what was accepted before the blank line is answered");
    client.ends();
}

#[test]
fn rows_74_to_80_stats_sync_and_transactions() {
    let bed = Bed::start();
    let mut client = bed.connect();
    let answer = client.ask("stats\r\n");
    assert_eq!(answer.opaque, i32::MAX);
    assert!(answer.text().starts_with("STATS\r\npid ") && answer.text().ends_with("END\r\n"));
    assert_eq!(client.ask("stats  5\r\n").opaque, 5);
    assert!(client.ask("stats 5\r\n").text().starts_with("STATS\r\n5\r\n"));
    let file = client.ask("stats config 6\r\n");
    assert_eq!(file, client.ask("stats config 6\r\n"), "answered again");
    assert_eq!(client.ask("sync t 0 5 0 99 907060870 7\r\nhello").code, 503);
    assert_eq!(client.ask("transaction TX:s:1 s BEGIN 8\r\n").code, 503);
    assert_eq!(client.ask("put t 0 5 0 TX:s:1 11\r\nhello").code, 500);
    for word in ["group", "outbox", "ack", "auth", "hole"] {
        let answer = client.ask(format!("{word} something 9\r\n"));
        assert_eq!((answer.code, answer.opaque), (503, 9));
    }
    assert_eq!(client.ask("topic remove t 9\r\n").code, 400);
}

#[test]
fn the_gauges_are_shown() {
    let bed = Setup::new("[topic=t]\n").threads(2).start();
    let (mut client, _other) = (bed.connect(), bed.connect());
    let port = bed.address().port();
    support::until("both connections are counted", || {
        let text = client.ask("stats\r\n").text().to_owned();
        text.contains("curr_connections 2\r\n")
            && text.contains("threads 2\r\n")
            && text.contains(&format!("port {port}\r\n"))
    });
}

#[test]
fn row_82_what_was_received_before_the_end_is_answered() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.say("version 3\r\nput t 0 5 0 1\r\nhelloget t g 1 0 100 2\r\nput t 0 9 0 1\r\nhel");
    client.end();
    let mut opaques: Vec<_> = client.answers(3).iter().map(|answer| answer.opaque).collect();
    opaques.sort_unstable();
    assert_eq!(opaques, [1, 2, 3]);
    client.ends();
}

#[test]
fn a_hello_is_told_what_there_is() {
    let bed = Bed::start();
    let mut client = bed.connect();
    let answer = client.ask("version 5 hello 1 test/1\r\n");
    assert!(answer.text().starts_with("metaq 2\r\nserver metaq/"), "{}", answer.text());
    assert!(answer.text().contains("\r\nfeatures puts wait fetch"), "{}", answer.text());
    assert_eq!(client.ask("hello 6\r\n").opaque, 6);
}

#[test]
fn every_way_to_cut_a_conversation_gives_the_same_answers() {
    let bed = Bed::start();
    let talk = "version 1\r\nput u 0 5 0 2\r\nhellooffset u g 0 0 3\r\nresult 200 3 1\r\na\r\nstats help 4\r\nfetch g 100 u:0:0 5\r\n";
    for step in [1, 2, 3, 7, 20] {
        let mut client = bed.connect();
        for part in talk.as_bytes().chunks(step) {
            client.say(part);
        }
        let mut opaques: Vec<_> = client.answers(5).iter().map(|answer| answer.opaque).collect();
        opaques.sort_unstable();
        assert_eq!(opaques, [1, 2, 3, 4, 5]);
    }
}

#[test]
fn a_line_too_long_ends_the_connection() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.say("version 1\r\n");
    client.say(vec![b'x'; 80 << 10]);
    assert_eq!(client.answer().opaque, 1);
    client.ends();
    assert_eq!(bed.count(|counters| &counters.malformed), 1);
}

#[test]
fn administration_is_answered_when_it_is_done_and_holds_nothing_back() {
    let bed = Bed::start();
    let mut client = bed.connect();
    client.say(
        "topic create made numPartitions=3 1\r\nversion 2\r\ntopic list 3\r\noffsets list 4\r\nadmin config 5\r\n",
    );
    let answers = client.answers(5);
    let of = |opaque: i32| answers.iter().find(|answer| answer.opaque == opaque).unwrap();
    assert_eq!(of(1).code, 200, "{}", of(1).text());
    assert_eq!(of(2).code, 200);
    assert!(of(5).text().contains("numPartitions"));
    assert!(client.ask("topic list 6\r\n").text().contains("made"));
    client.say("topic describe made 7\r\nquit\r\n");
    assert_eq!(client.answer().opaque, 7);
    client.ends();
}

#[test]
fn a_connection_that_is_reset_leaves_nothing_behind() {
    let bed = Bed::start();
    bed.connect().ask("put u 0 5 0 1\r\nhello").position();
    for _ in 0..20 {
        let mut client = bed.connect();
        socket2::SockRef::from(client.stream()).set_linger(Some(Duration::ZERO)).unwrap();
        client.say("get u g 0 25 100 1 wait=20000\r\nput t 0 5 0 1\r\nhellover");
    }
    let gauges = bed.broker.gauges();
    let load = |gauge: &std::sync::atomic::AtomicU64| gauge.load(std::sync::atomic::Ordering::Relaxed);
    support::until("all connections are closed", || load(&gauges.connections) == 0);
    support::until("nothing is in flight", || load(&gauges.bytes_in_flight) == 0);
    assert_eq!(load(&gauges.waiters), 0);
}
