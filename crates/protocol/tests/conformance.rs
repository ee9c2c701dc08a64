//! The rows of the conformance list that bytes alone decide. Numbers are the rows'; the rest of the list needs a broker.

mod support;

use metaq_protocol::limits::Limits;
use metaq_protocol::request::{OPAQUE_DEFAULT, Put, Request, Stats, Step};
use metaq_protocol::{Decoded, Decoder, Malformed, TransactionKey};
use support::{Ending, Said};

/// What a connection says, told shortly: the opaque of each request, `quit`, `answer`, `400 <opaque>`.
fn told(bytes: &[u8]) -> (Vec<String>, Ending) {
    let (said, ending) = support::requests(bytes, Limits::DEFAULT);
    let tell = |said: &Said<'_>| match said {
        Said::Request(Request::Quit) => "quit".to_owned(),
        Said::Request(Request::Answer(_)) => "answer".to_owned(),
        Said::Request(Request::Invalid { opaque, .. }) => format!("400 {opaque}"),
        Said::Request(Request::Version(version)) => format!("version {}", version.opaque),
        Said::Request(Request::Stats(stats)) => format!("stats {:?} {}", stats.item.as_deref(), stats.opaque),
        Said::Request(Request::Put(put)) => format!("put {} {}", put.body.len(), put.opaque),
        Said::Request(Request::Sync(sync)) => format!("sync {} {}", sync.body.len(), sync.opaque),
        Said::Request(Request::Get(get)) => format!("get {}", get.opaque),
        Said::Request(Request::Offset(offset)) => format!("offset {}", offset.opaque),
        Said::Request(Request::Transaction(step)) => format!("{} {}", step.step.as_str(), step.opaque),
        other => panic!("{other:?}"),
    };
    (said.iter().map(tell).collect(), ending)
}

/// Everything is understood.
#[track_caller]
fn understood(bytes: &str, expected: &[&str]) {
    let (said, ending) = told(bytes.as_bytes());
    assert_eq!(
        (said.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), ending),
        (expected, Ending::AllConsumed),
        "{bytes:?}"
    );
}

/// Something is understood, then the connection is closed.
#[track_caller]
fn closes_after(bytes: &str, expected: &[&str]) {
    let (said, ending) = told(bytes.as_bytes());
    assert_eq!(said, expected, "{bytes:?}");
    assert!(matches!(ending, Ending::Closes(_)), "{bytes:?} ended {ending:?}");
}

#[track_caller]
fn closes(bytes: &str) {
    closes_after(bytes, &[]);
}

/// Something is understood, and the rest waits.
#[track_caller]
fn waits(bytes: &str, expected: &[&str], left: usize) {
    let (said, ending) = told(bytes.as_bytes());
    assert_eq!(
        (said.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), ending),
        (expected, Ending::NeedsMore { left }),
        "{bytes:?}"
    );
}

#[test]
fn rows_1_to_9_version_takes_its_opaque_as_java_does() {
    understood("version 5\r\n", &["version 5"]);
    understood("version\r\n", &["version 2147483647"]);
    understood("version -3\r\n", &["version -3"]);
    understood("version +5\r\n", &["version 5"]);
    understood("version 5 \r\n", &["version 5"]);
    understood("version 7 8\r\n", &["version 7"]);
    closes("version  7\r\n");
    closes("version abc\r\n");
    closes("version 2147483648\r\n");
    closes("VERSION 5\r\n");
    understood("version\t5\r\n", &["version 2147483647"]);
}

#[test]
fn rows_10_to_13_blank_and_unknown_lines_close() {
    for bytes in [" version 5\r\n", "\r\n", "   \r\n", "foo\r\n"] {
        closes(bytes);
    }
    waits("version 5\n", &[], 10);
    closes("version 5\n\r\n");
}

#[test]
fn rows_14_to_16_a_request_may_come_in_pieces() {
    // Every run is also cut byte by byte, see `support`.
    understood("version 9\r\n", &["version 9"]);
    understood("put t 0 5 0 7\r\nhello", &["put 5 7"]);
    waits("put t 0 10 0 1\r\nhello", &[], 21);
    understood("put t 0 10 0 1\r\nhellohello", &["put 10 1"]);
}

#[test]
fn rows_17_and_18_v_is_version_and_q_is_quit() {
    understood("v 9\r\nver 9\r\nv\r\n", &["version 9", "version 9", "version 2147483647"]);
    understood("q\r\nquit\r\nquit x\r\nquit now 5\r\n", &["quit"; 4]);
}

#[test]
fn rows_19_to_24_requests_follow_each_other() {
    closes_after("version 1\r\nbogus\r\nversion 2\r\n", &["version 1"]);
    understood("version 1\r\nversion 1\r\n", &["version 1", "version 1"]);
    understood("version 1\r\nquit\r\nversion 2\r\n", &["version 1", "quit", "version 2"]);
    understood("result 200 2 1\r\nhivalue 2 1\r\nhi", &["answer", "answer"]);
    understood(
        "get t g 0 0 9 1\r\nversion 2\r\noffset t g 0 0 3\r\nstats help 4\r\nget t g 0 0 9 5\r\n",
        &["get 1", "version 2", "offset 3", "stats Some(\"help\") 4", "get 5"],
    );
}

#[test]
fn rows_25_to_36_a_body_is_counted_and_has_no_end_mark() {
    understood("put t 0 5 0 907060870 3\r\nhello", &["put 5 3"]);
    understood("put t 0 0 0 9\r\n", &["put 0 9"]);
    understood("put t 0 5 0 1\r\nhelloversion 3\r\n", &["put 5 1", "version 3"]);
    closes_after("put t 0 5 0 1\r\nhello\r\nversion 3\r\n", &["put 5 1"]);
    understood("put t 0 7 0 1\r\n\r\nquit\r", &["put 7 1"]);
}

#[test]
fn row_37_a_put_that_is_none_closes() {
    for bytes in [
        "put t 0 5 0\r\nhello",
        "put t 0 5\r\nhello",
        "put t 0 x 0 1\r\nhello",
        "put t 0 -1 0 1\r\nhello",
        "put t 0 5 0 bogus 13\r\nhello",
        "put t 0 5 0 -1 TX:s:1 14 15\r\nhello",
        "put t 0 5 0  13\r\nhello",
        "put t 0 5 0 +1 13\r\nhello",
        "put\r\n",
        "puta t 0 5 0 1\r\nhello",
    ] {
        closes(bytes);
    }
    // All but the length is looked at when the body is there.
    waits("put t x 5 0 bogus 13\r\nhell", &[], 26);
    closes("put t 0 x\r\n");
}

#[test]
fn rows_38_to_40_a_put_says_its_transaction() {
    let key = |bytes: &'static str| match support::requests(bytes.as_bytes(), Limits::DEFAULT).0.remove(0) {
        Said::Request(Request::Put(Put { transaction, checksum, .. })) => {
            (transaction.map(|key| key.to_key()), checksum)
        }
        other => panic!("{other:?}"),
    };
    let local = TransactionKey::parse(b"TX:s:1").ok();
    assert_eq!(key("put t 0 5 0 TX:s:1 11\r\nhello"), (local.clone(), None));
    assert_eq!(key("put t 0 5 0 -1 TX:s:1 11\r\nhello"), (local.clone(), None));
    assert_eq!(key("put t 0 5 0 7 TX:s:1 11\r\nhello"), (local, Some(7)));
    assert_eq!(key("put t 0 5 0 XID:1:aa:bb:q 12\r\nhello"), (TransactionKey::parse(b"XID:1:aa:bb:q").ok(), None));
    assert_eq!(key("put t 0 5 0 null 10\r\nhello"), (Some(TransactionKey::Null), None));
    assert_eq!(key("put t 0 5 0 -5 10\r\nhello"), (None, Some(-5)));
}

#[test]
fn row_52_a_get_needs_its_words_and_ignores_more() {
    closes("get t g 0 0\r\n");
    closes("get t g 0 0 2147483648 1\r\n");
    closes("get t g 0 9223372036854775808 1 1\r\n");
    closes("get  t g 0 0 100 1\r\n");
    understood("get t g 0 0 100 1 extra\r\noffset t g 0 -5 1 extra more\r\n", &["get 1", "offset 1"]);
    understood("get t  0 0 100 1\r\n", &["get 1"]);
}

#[test]
fn a_get_waits_only_as_it_says() {
    let wait = |bytes: &'static str| match support::requests(bytes.as_bytes(), Limits::DEFAULT).0.remove(0) {
        Said::Request(Request::Get(get)) => (get.wait.ms, get.wait.min_bytes),
        other => panic!("{other:?}"),
    };
    assert_eq!(wait("get t g 0 0 100 1\r\n"), (0, 1));
    assert_eq!(wait("get t g 0 0 100 1 wait=500 min=64\r\n"), (500, 64));
    assert_eq!(wait("get t g 0 0 100 1 min=64 x=y wait=x  wait=500 wait=-1\r\n"), (500, 64));
}

#[test]
fn row_72_a_transaction_that_is_none_closes() {
    for bytes in [
        "transaction TX:a:1 s begin 1\r\n",
        "transaction TX:a s BEGIN 1\r\n",
        "transaction TX:a:b:1 s BEGIN 1\r\n",
        "transaction TX:a:2147483648 s BEGIN 1\r\n",
        "transaction XID:1:aa:bb s BEGIN 1\r\n",
        "transaction XID:1:zz:bb:uq s BEGIN 1\r\n",
        "transaction TX:a:1 s BEGIN  1\r\n",
        "transaction TX:a:1 s BEGIN 5 uq 1 2\r\n",
        "transaction TX:a:1 s BEGIN uq uq 1\r\n",
        "transaction 2\r\n",
    ] {
        closes(bytes);
    }
    for step in Step::ALL {
        understood(&format!("transaction TX:a:1 s {} 5 uq -7\r\n", step.as_str()), &[&format!("{} -7", step.as_str())]);
    }
    understood("transaction TX::1  BEGIN 1\r\n", &["BEGIN 1"]);
}

#[test]
fn rows_74_to_79_stats_takes_its_item_first() {
    understood("stats\r\n", &["stats None 2147483647"]);
    understood("stats  5\r\n", &["stats Some(\"\") 5"]);
    understood("stats 5\r\n", &["stats Some(\"5\") 2147483647"]);
    understood("stats topics 6 7\r\n", &["stats Some(\"topics\") 6"]);
    understood("stats a\rb 5\r\n", &["stats Some(\"a\\rb\") 5"]);
    closes("stats a b 5\r\n");
    closes("statsx help 5\r\n");
}

#[test]
fn row_80_a_sync_has_two_forms() {
    understood("sync t 0 5 0 99 907060870 7\r\nhellosync t 0 5 0 99 7\r\nhello", &["sync 5 7", "sync 5 7"]);
    closes("sync t 0 1 0 7\r\nx");
    closes("synca t 0 1 0 99 7\r\nx");
}

#[test]
fn bytes_that_are_not_utf_8_become_replacement_characters() {
    let (said, ending) = support::requests(b"stats a\xffb\xc3\xa9 5\r\n", Limits::DEFAULT);
    let stats = Stats { item: Some("a\u{fffd}bé".into()), opaque: 5 };
    assert_eq!((said, ending), (vec![Said::Request(Request::Stats(stats))], Ending::AllConsumed));
}

const SMALL: Limits = Limits {
    line_bytes_max: 40,
    message_bytes_max: 8,
    batch_bytes_max: 30,
    answer_bytes_max: 8,
    discard_bytes_max: 100,
};

#[test]
fn a_line_over_the_limit_closes() {
    let line = |length: usize| format!("stats {} 5\r\n", "x".repeat(length - 8));
    let ending = |length| support::requests(line(length).as_bytes(), SMALL).1;
    assert_eq!(ending(40), Ending::AllConsumed);
    assert_eq!(ending(41), Ending::Closes(Malformed::LineTooLong { limit: 40 }));
    let endless = "x".repeat(1000);
    assert_eq!(support::requests(endless.as_bytes(), SMALL).1, Ending::Closes(Malformed::LineTooLong { limit: 40 }));
}

#[test]
fn a_body_over_the_limit_is_told_with_both_sizes_and_the_connection_lives() {
    for (line, word, size, limit) in [
        ("put t 0 9 0 7\r\n", "put", 9, 8),
        ("put t 0 9 0 -1 TX:s:1 7\r\n", "put", 9, 8),
        ("sync t 0 100 0 99 7\r\n", "sync", 100, 8),
        ("puts t 0 31 1 - - 7\r\n", "puts", 31, 30),
    ] {
        let bytes = format!("{line}{}version 3\r\n", "\r".repeat(size));
        let (said, ending) = support::requests(bytes.as_bytes(), SMALL);
        assert_eq!((said.len(), ending), (2, Ending::AllConsumed), "{line:?}");
        let Said::Oversized(oversized) = &said[0] else { panic!("{said:?}") };
        assert_eq!((oversized.word, oversized.size, oversized.limit, oversized.used), (word, size, limit, line.len()));
        assert_eq!((&*oversized.topic, oversized.partition, oversized.opaque), ("t", 0, 7));
    }
    for line in [
        "put t 0 101 0 7\r\n",
        "puts t 0 101 1 - - 7\r\n",
        "put t 0 9 0\r\n",
        "put t 0 9 0 x\r\n",
        "put t x 9 0 7\r\n",
        "value 9 1\r\n",
        "result 200 9 1\r\n",
    ] {
        assert!(matches!(support::requests(line.as_bytes(), SMALL).1, Ending::Closes(_)), "{line:?}");
    }
    assert_eq!(support::requests(b"put t 0 8 0 7\r\n12345678", SMALL).1, Ending::AllConsumed);
    assert!(matches!(support::answers(b"value 9 1\r\n", SMALL).1, Ending::Closes(_)));
}

#[test]
fn bytes_that_were_scanned_are_not_looked_at_again() {
    // The decoder is shown other bytes where it has been: it doesn't notice.
    let mut decoder = Decoder::new(Limits::DEFAULT);
    assert_eq!(decoder.decode(b"version"), Ok(Decoded::Incomplete { needed: 8 }));
    assert_eq!(decoder.decode(b"quit\r\n."), Ok(Decoded::Incomplete { needed: 8 }));
    assert!(matches!(decoder.decode(b"version\r\n"), Ok(Decoded::Request { used: 9, .. })));
    assert_eq!(decoder.decode(b"put t 0 5 0 1\r\nhe"), Ok(Decoded::Incomplete { needed: 20 }));
    assert_eq!(decoder.decode(b"quit\r\n............."), Ok(Decoded::Incomplete { needed: 20 }));
    assert!(matches!(decoder.decode(b"put t 0 5 0 1\r\nhello"), Ok(Decoded::Request { used: 20, .. })));
}

#[test]
fn an_answer_decoder_takes_answers_only() {
    for bytes in ["version 1\r\n", "resultx 200 0 1\r\n", "values 1 1\r\nx", "\r\n", "result 200 -1 1\r\n", "puts\r\n"]
    {
        assert!(matches!(support::answers(bytes.as_bytes(), Limits::DEFAULT).1, Ending::Closes(_)), "{bytes:?}");
    }
}

#[test]
fn the_opaque_of_an_answer_is_the_requests() {
    for (bytes, expected) in [
        ("put t 0 0 0 3\r\n", Some(3)),
        ("version\r\n", Some(OPAQUE_DEFAULT)),
        ("quit\r\n", None),
        ("result 200 0 3\r\n", None),
        ("transaction TX:a:1 s END 3\r\n", None),
        ("transaction TX:a:1 s BEGIN 3\r\n", Some(3)),
        ("topic list 3\r\n", Some(3)),
        ("ack x 3\r\n", Some(3)),
        ("topic 3\r\n", Some(3)),
    ] {
        let (said, _) = support::requests(bytes.as_bytes(), Limits::DEFAULT);
        let [Said::Request(request)] = said.as_slice() else { panic!("{bytes:?} gave {said:?}") };
        assert_eq!(request.opaque(), expected, "{bytes:?}");
    }
}
