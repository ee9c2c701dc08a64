//! Administration, line by line, on a running broker.

use crate::lines::Fields;
use crate::testbed::Testbed;
use metaq_disk::Fault;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const FILE: &str = "stat=true\n[topic=t]\nnumPartitions=2\n[topic=wild*]\nnumPartitions=3\n";

/// The lines of an answer, as (kind, line).
fn ask(bed: &Testbed, line: &str) -> Vec<Fields> {
    match bed.administer(&format!("{line} 1\r\n")) {
        Ok(text) => Fields::parse_all(&text).unwrap(),
        Err(refused) => panic!("{line}: {refused}"),
    }
}

fn refused(bed: &Testbed, line: &str, expected: &str) {
    let refused = bed.administer(&format!("{line} 1\r\n")).expect_err(line).to_string();
    assert!(refused.starts_with(expected), "{line}: {refused}");
}

fn value<'a>(lines: &'a [Fields], kind: &str, name: &str, key: &str) -> &'a str {
    let line = lines.iter().find(|line| line.kind() == kind && line.value(kind) == Some(name));
    line.unwrap_or_else(|| panic!("{kind}={name}: {lines:?}")).value(key).unwrap_or_else(|| panic!("{key}: {lines:?}"))
}

#[test]
fn topics_of_the_file_and_of_administrators_are_listed_and_described() {
    let bed = Testbed::begin(FILE);
    bed.put("wildcard", 2, "hello");
    ask(&bed, "topic create own numPartitions=2*2 durability=os");
    let list = ask(&bed, "topic list");
    let names: Vec<_> = list.iter().filter_map(|line| line.value("topic")).collect();
    assert_eq!(names, ["own", "t", "wildcard"]);
    assert_eq!(value(&list, "topic", "wildcard", "messages"), "1");
    assert_eq!(value(&list, "topic", "own", "created"), "true");
    let own = ask(&bed, "topic describe own");
    assert_eq!(value(&own, "setting", "numPartitions", "value"), "4");
    assert_eq!(value(&own, "setting", "numPartitions", "from"), "administration");
    assert_eq!(value(&own, "setting", "durability", "value"), "os");
    let wild = ask(&bed, "topic describe wildcard");
    assert!(value(&wild, "setting", "numPartitions", "from").starts_with("line "));
    assert_eq!(value(&wild, "partition", "0-2", "end"), "25");
    refused(&bed, "topic describe nosuch", "topic-unknown");
}

#[test]
fn what_an_administrator_made_survives_a_power_cut() {
    let bed = Testbed::begin(FILE);
    ask(&bed, "topic create own numPartitions=4");
    ask(&bed, "topic alter own stat=false");
    ask(&bed, "topic alter t numPartitions=5");
    ask(&bed, "partition close t 1-3");
    let bed = bed.crash(FILE);
    let own = ask(&bed, "topic describe own");
    assert_eq!(value(&own, "setting", "numPartitions", "value"), "4");
    assert_eq!(value(&own, "setting", "stat", "value"), "false");
    assert_eq!(bed.put("t", 4, "x"), 0);
    assert!(bed.answer("put t 2 1 0 1\r\nx").contains("0-2 closed"));
    assert_eq!(bed.put("own", 3, "x"), 0);
}

#[test]
fn a_topic_is_created_once_and_altered_back() {
    let bed = Testbed::begin(FILE);
    refused(&bed, "topic create t", "conflict");
    refused(&bed, "topic create a/b", "malformed-argument");
    refused(&bed, "topic create metaq.own", "malformed-argument");
    refused(&bed, "topic create own brokerId=3", "malformed-argument");
    refused(&bed, "topic create own dataPath=/elsewhere", "malformed-argument");
    refused(&bed, "topic alter own stat=true", "topic-unknown");
    ask(&bed, "topic alter t numPartitions=9");
    assert_eq!(bed.put("t", 8, "x"), 0);
    ask(&bed, "topic alter t numPartitions=");
    assert!(bed.answer("put t 8 1 0 1\r\nx").contains("partition-out-of-range"));
    assert!(bed.answer("get t g 8 0 100 1\r\n").starts_with("value 21 "), "what is there can be read");
}

#[test]
fn a_deleted_topic_is_gone_for_good_until_it_is_created_again() {
    let bed = Testbed::begin("");
    bed.put("t", 0, "one");
    bed.put("t", 0, "two");
    ask(&bed, "offsets commit g t 0 23 -");
    ask(&bed, "topic delete t confirm=t");
    let check = |bed: &Testbed| {
        assert!(
            bed.answer("put t 0 1 0 1\r\nx").contains("topic-not-accepted: topic t is not accepted: it was deleted")
        );
        assert!(bed.answer("get t g 0 0 100 1\r\n").starts_with("result 404 "));
        assert!(bed.answer("stats t 1\r\n").contains("resultCode 1"));
        refused(bed, "offsets fetch g", "topic-unknown");
        refused(bed, "topic delete t confirm=t", "topic-unknown");
    };
    check(&bed);
    let bed = bed.crash("");
    check(&bed);
    // A file that names it doesn't bring it back either.
    let bed = bed.restart("[topic=t]\n");
    assert!(bed.answer("put t 0 1 0 1\r\nx").contains("topic-not-accepted"));
    ask(&bed, "topic create t");
    assert_eq!(bed.put("t", 0, "anew"), 0, "positions begin again");
    let bed = bed.restart("");
    assert!(bed.answer("get t g 0 0 100 1\r\n").starts_with("value 24 "));
}

#[test]
fn a_deletion_that_cannot_be_kept_leaves_the_topic_as_it_was() {
    let bed = Testbed::begin("");
    bed.put("t", 0, "one");
    bed.disk.inject("/log/commit", Fault::FailWrite, 0..1000);
    refused(&bed, "topic delete t confirm=t", "store-closed");
    assert!(bed.answer("get t g 0 0 100 1\r\n").starts_with("value 23 "));
    assert!(bed.answer("put t 0 1 0 1\r\nx").contains("store-closed"), "it is accepted, but can't be stored");
}

#[test]
fn closed_partitions_refuse_puts_and_gets_but_tell_positions() {
    let bed = Testbed::begin(FILE);
    bed.put("t", 0, "hello");
    ask(&bed, "partition close t 0");
    for line in ["put t 0 5 0 1\r\nhello", "get t g 0 0 100 1\r\n", "get t g 0 0 0 1\r\n"] {
        let answer = bed.answer(line);
        assert!(answer.starts_with("result 403 ") && answer.contains("0-0 closed"), "{line:?}: {answer}");
    }
    assert!(bed.answer("offset t g 0 0 1\r\n").starts_with("result 200 "));
    for _ in 0..30 {
        assert!(bed.answer("put t -1 1 0 1\r\nx").contains(" 1 "), "any partition is an open one");
    }
    ask(&bed, "partition close t 1");
    assert!(bed.answer("put t -1 1 0 1\r\nx").starts_with("result 403 "));
    ask(&bed, "partition open t 0-1");
    assert_eq!(bed.put("t", 0, "hello"), 25);
    refused(&bed, "partition close t 2", "partition-out-of-range");
    refused(&bed, "partition close nosuch 0", "topic-unknown");
}

#[test]
fn only_a_closed_and_drained_partition_can_be_deleted() {
    let bed = Testbed::begin(FILE);
    bed.put("t", 1, "hello");
    refused(&bed, "partition delete t 1 confirm=t", "conflict: topic t: 0-1 is open");
    ask(&bed, "partition close t 1");
    refused(&bed, "partition delete t 1 confirm=t", "conflict: t 0-1 isn't drained: it holds 1 messages");
    ask(&bed, "offsets commit slow t 1 0 -");
    ask(&bed, "offsets commit quick t 1 25 -");
    refused(&bed, "partition delete t 1 confirm=t", "conflict: t 0-1 isn't drained: group slow has read up to 0");
    ask(&bed, "offsets commit slow t 1 25 7");
    ask(&bed, "partition delete t 1 confirm=t");
    assert!(bed.answer("put t 1 1 0 1\r\nx").starts_with("result 403 "), "it stays closed");
    assert!(bed.answer("offset t g 1 0 1\r\n").starts_with("result 404 "));
    refused(&bed, "offsets fetch slow t 1", "topic-unknown");
    let bed = bed.crash(FILE);
    ask(&bed, "partition open t 1");
    assert_eq!(bed.put("t", 1, "anew"), 0);
}

#[test]
fn positions_of_groups_are_kept_copied_and_deleted() {
    let bed = Testbed::begin(FILE);
    (0..3).for_each(|_| _ = bed.put("t", 0, "hello"));
    bed.put("t", 1, "hello");
    let line = ask(&bed, "offsets commit g t 0 50 -77");
    assert_eq!(value(&line, "group", "g", "lag"), "25");
    refused(&bed, "offsets commit g t 0 76 -", "position-out-of-range");
    refused(&bed, "offsets commit g nosuch 0 0 -", "topic-unknown");
    refused(&bed, "offsets commit a/b t 0 0 -", "malformed-argument");
    refused(&bed, "offsets copy other t 0 t 1", "topic-unknown");
    ask(&bed, "offsets copy g t 0 t 1");
    refused(&bed, "offsets copy g t 0 t 1", "conflict");
    let bed = bed.crash(FILE);
    let fetched = ask(&bed, "offsets fetch g t");
    assert_eq!(fetched.len(), 2);
    assert_eq!((fetched[0].value("id"), fetched[0].value("position")), (Some("-77"), Some("50")));
    let list = ask(&bed, "offsets list");
    assert_eq!((value(&list, "group", "g", "partitions"), value(&list, "group", "g", "lag")), ("2", "25"));
    assert!(bed.answer("stats metaq.groups 1\r\n").contains("g topic t part 0 offset 50 max_offset 75 lag 25\r\n"));
    ask(&bed, "offsets delete g t confirm=g");
    refused(&bed, "offsets fetch g", "topic-unknown");
}

#[test]
fn a_position_can_be_committed_with_puts() {
    let bed = Testbed::begin(FILE);
    bed.put("t", 0, "hello");
    let commit = |position| metaq_protocol::extension::OffsetsCommand::Commit {
        group: "g".into(),
        topic: "t".into(),
        partition: 0,
        position,
        id: None,
    };
    let mut submission = bed.submission();
    bed.broker.commit_position(&commit(26), 5, &mut submission).unwrap_err();
    bed.broker.commit_position(&commit(25), 5, &mut submission).unwrap();
    assert_eq!(submission.items.len(), 1);
    let done = bed.settle(submission);
    let mut out = Vec::new();
    bed.broker.answer_change(done.items[0].tag, &done.outcomes[0], &mut out);
    assert!(out.starts_with(b"result 200 ") && out.windows(12).any(|part| part == b" 5\r\nchanged="), "{out:?}");
    assert_eq!(ask(&bed, "offsets fetch g t 0")[0].value("position"), Some("25"));
}

#[test]
fn a_reload_changes_what_can_be_changed_and_names_the_rest() {
    let bed = Testbed::begin(FILE);
    bed.put("t", 0, "x");
    bed.rewrite("stat=true\nserverPort=9999\nmessageBytesMax=16*1024\n[topic=t]\n[topic=come]\nacceptPublish=false\n");
    refused(&bed, "admin reload", "malformed-argument: nothing was changed: line 8: messageBytesMax was given");
    assert!(bed.answer("put come 0 1 0 1\r\nx").contains("topic-not-accepted"));
    bed.rewrite("stat=true\nserverPort=9999\n[topic=t]\n[topic=come]\nacceptPublish=false\n");
    let before = bed.answer("stats config 1\r\n");
    let lines = ask(&bed, "admin reload");
    let felt = |when: &str| lines.iter().filter(|line| line.value("felt") == Some(when)).count();
    assert_eq!((felt("restart"), felt("created")), (1, 0), "{lines:?}");
    assert!(bed.answer("put come 0 1 0 1\r\nx").contains("publish-not-accepted"));
    assert!(bed.answer("put t 1 1 0 1\r\nx").contains("partition-out-of-range"));
    assert!(bed.answer("put wildcard 0 1 0 1\r\nx").contains("topic-not-accepted"));
    assert_ne!(bed.answer("stats config 1\r\n"), before);
    assert!(bed.answer("stats topics 1\r\n").contains("come *Empty*"));
}

#[test]
fn the_configuration_is_told_with_its_origins() {
    let bed = Testbed::begin(FILE);
    let lines = ask(&bed, "admin config");
    assert_eq!(value(&lines, "setting", "commitFileBytes", "value"), "262144");
    assert_eq!(value(&lines, "setting", "deleteWhen", "value"), "0 0 6,18 * * ?");
    assert_eq!(value(&lines, "setting", "deleteWhen", "from"), "default");
}

#[test]
fn a_checkpoint_is_made_when_it_is_asked_for() {
    let bed = Testbed::begin(FILE);
    bed.put("t", 0, "x");
    let before = bed.broker.log().gauges().checkpoint_lsn;
    ask(&bed, "admin checkpoint");
    assert!(bed.broker.log().gauges().checkpoint_lsn > before);
    bed.disk.inject("/log/checkpoint", Fault::FailSync, 0..1);
    bed.put("t", 0, "x");
    refused(&bed, "admin checkpoint", "unavailable: the checkpoint failed");
}

#[test]
fn verify_names_each_damaged_range() {
    let bed = Testbed::begin("maxSegmentSize=1240\n");
    (0..5).for_each(|_| _ = bed.put("t", 0, &"x".repeat(600)));
    assert_eq!(value(&ask(&bed, "admin verify"), "verified", "3", "records"), "5");
    bed.disk.flip_bit(std::path::Path::new("/data/t-0/00000000000000001240.meta"), 30, 1).unwrap();
    let lines = ask(&bed, "admin verify");
    assert_eq!(value(&lines, "verified", "3", "damaged_ranges"), "1");
    assert_eq!((value(&lines, "damage", "0-0", "from"), value(&lines, "damage", "0-0", "to")), ("1240", "1860"));
}

/// Puts until told to stop; counts what was stored.
fn put_until(bed: &Testbed, stop: &AtomicBool, partition: i32) -> (u64, u64) {
    let (mut stored, mut refused) = (0, 0);
    while !stop.load(SeqCst) {
        let answer = bed.answer(&format!("put t {partition} 5 0 1\r\nhello"));
        let known = ["0-", "topic-not-accepted", "being removed", "partition-out-of-range"];
        match answer.starts_with("result 200 ") {
            true => stored += 1,
            false if known.iter().any(|text| answer.contains(text)) => refused += 1,
            false => panic!("{answer}"),
        }
    }
    (stored, refused)
}

#[test]
fn puts_race_with_administration_and_what_is_stored_last_is_there() {
    let bed = Testbed::begin(FILE);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let putters = [-1, 0, 1, 4].map(|partition| {
            scope.spawn({
                let (bed, stop) = (&bed, &stop);
                move || put_until(bed, stop, partition)
            })
        });
        for round in 0..15 {
            ask(&bed, "topic alter t numPartitions=5 stat=true");
            ask(&bed, "partition close t 0-1");
            bed.rewrite(&format!("stat={}\n[topic=t]\n", round % 2 == 0));
            ask(&bed, "admin reload");
            ask(&bed, "partition open t 0-1");
            ask(&bed, "topic delete t confirm=t");
            ask(&bed, "topic create t numPartitions=2");
        }
        stop.store(true, SeqCst);
        let sums = putters.map(|putter| putter.join().unwrap());
        assert!(sums.iter().take(3).all(|(stored, refused)| *stored > 0 && *refused > 0), "{sums:?}");
    });
    // The files of the last deletion may still be being removed.
    let deadline = Instant::now() + Duration::from_secs(20);
    for index in 0..2 {
        while !bed.answer(&format!("put t {index} 5 0 1\r\nhello")).starts_with("result 200 ") {
            assert!(Instant::now() < deadline, "the files of a deleted partition go");
        }
    }
    let (first, second) = (bed.put("t", 0, "hello"), bed.put("t", 1, "hello"));
    let bed = bed.crash(FILE);
    let offsets = bed.answer("stats offsets 1\r\n");
    for (index, end) in [(0, first + 25), (1, second + 25)] {
        assert!(offsets.contains(&format!("t part {index} min_offset 0 max_offset {end}\r\n")), "{offsets}");
    }
}
