//! The broker opens a data directory of the original in place and answers as the original did.
//!
//! All that is expected comes from the fixture (`METAQ_GOLDEN`, else the project's copy). Error texts are free, lines of `stats` come
//! in any order, its message counts are those of all records (the original's forget sealed segments), its realtime counters depend on
//! what was asked before.

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_testkit::golden::{self, DataDirectory, Probe, hex, sha256};
use metaq_testkit::record::{Found, read_all, read_bytes};
use metaq_testkit::{Broker, Frame, Ini, Setup, Wire, file};
use std::collections::BTreeSet;
use std::fs;

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

/// The fixture's own configuration, on free ports, without ZooKeeper and retention.
fn configuration() -> Ini {
    let text = fs::read_to_string(golden::folder().join("data-directory/server.ini")).unwrap();
    Ini::parse(&text)
        .without_section("zookeeper")
        .without("dataLogPath")
        .system("serverPort", 0)
        .system("dashboardHttpPort", 0)
        .system("deletePolicy", "delete,876000")
        .system("commitFileBytes", 16 << 20)
        .system("diskReserveBytes", 16 << 20)
}

fn opened() -> (Setup, Broker) {
    let setup = Setup::with_ini(BINARY, &configuration());
    file::copy_folder(&golden::folder().join("data-directory/data"), &setup.data());
    let broker = setup.start();
    (setup, broker)
}

/// Topic and index of a partition's folder.
fn place(partition: &str) -> (&str, i32) {
    let (topic, index) = partition.rsplit_once('-').unwrap();
    (topic, index.parse().unwrap())
}

fn expect_answer(probe: &Probe, frame: &Frame, golden: &DataDirectory) {
    let came = || panic!("{:?} should be {:?}, came {frame}", probe.request, probe.head);
    let status = |head: &str| head.strip_prefix("result ").map(|rest| rest[..3].parse::<i32>().unwrap());
    match status(&probe.head) {
        Some(code @ (400 | 404 | 500)) => {
            let opaque = probe.head.rsplit(' ').next().unwrap();
            if frame.status() != Some(code) || frame.opaque().to_string() != opaque {
                came();
            }
        }
        _ => {
            if is_whole_large_message(probe, frame, golden) {
                return;
            }
            if frame.head != probe.head || frame_sha256(&frame.head, &frame.body) != probe.frame_sha256 {
                came();
            }
            assert_eq!(frame.body.len(), probe.body_bytes);
            if let Some(body) = &probe.body_hex {
                assert_eq!(&hex(&frame.body), body);
            }
        }
    }
}

fn frame_sha256(head: &str, body: &[u8]) -> String {
    sha256(&[head.as_bytes(), b"\r\n", body].concat())
}

/// Where the original cuts a message that is larger than `maxTransferSize`, the whole message may come, so that consumers get past it.
fn is_whole_large_message(probe: &Probe, frame: &Frame, golden: &DataDirectory) -> bool {
    let words: Vec<&str> = probe.request.trim_end().split(' ').collect();
    let ["get", topic, _, index, position, ..] = words[..] else { return false };
    let partition = golden.partitions.iter().find(|known| known.partition == format!("{topic}-{index}"));
    let is_message = partition.is_some_and(|partition| {
        let mut records = partition.records.iter();
        records.any(|record| record.position.to_string() == position && record.length + 20 == frame.body.len())
    });
    is_message
        && frame.body.len() > probe.body_bytes
        && frame_sha256(&probe.head, &frame.body[..probe.body_bytes]) == probe.frame_sha256
}

#[test]
fn golden_probes_are_answered_as_by_the_original() {
    let (_setup, broker) = opened();
    let mut wire = broker.connect();
    let golden = DataDirectory::read();
    for probe in &golden.probes {
        let frame = wire.ask(&probe.request);
        expect_answer(probe, &frame, &golden);
    }
    wire.usable();
    drop(wire);
    broker.stop();
}

#[test]
fn golden_records_are_read_byte_for_byte() {
    let (_setup, broker) = opened();
    let mut wire = broker.connect();
    let golden = DataDirectory::read();
    let seen: BTreeSet<&str> = golden.partitions.iter().map(|partition| partition.partition.as_str()).collect();
    assert_eq!(seen.len(), golden.partitions.len());
    for partition in &golden.partitions {
        let (topic, index) = place(&partition.partition);
        let (min, bytes) = read_bytes(&mut wire, topic, index);
        assert_eq!((min, sha256(&bytes)), (partition.min, partition.log_sha256.clone()), "{}", partition.partition);
        let found = read_all(&mut wire, topic, index);
        assert_eq!(found.len(), partition.records.len(), "{}", partition.partition);
        for (found, record) in found.iter().zip(&partition.records) {
            assert_eq!((found.position, found.id, found.flag), (record.position, record.id, record.flag));
            assert_eq!((found.body.len(), sha256(&found.body)), (record.length, record.body_sha256.clone()));
            assert_payload(found, record);
        }
        assert_eq!(found.last().map_or(min, Found::next_position), partition.max);
    }
    broker.stop();
}

fn assert_payload(found: &Found, record: &golden::GoldenRecord) {
    let (attribute, payload) = if found.flag & 1 == 1 {
        let length = usize::try_from(i32::from_be_bytes(found.body[..4].try_into().unwrap())).unwrap();
        (Some(String::from_utf8_lossy(&found.body[4..4 + length]).into_owned()), &found.body[4 + length..])
    } else {
        (None, &found.body[..])
    };
    assert_eq!(attribute, record.attribute, "at {}", record.position);
    assert_eq!((payload.len(), sha256(payload)), (record.payload_bytes, record.payload_sha256.clone()));
}

/// The lines of a `stats` answer, without what depends on what was asked before and what the original counts wrongly.
fn comparable(text: &str, golden: &DataDirectory) -> BTreeSet<String> {
    let mut topic = String::new();
    let lines = text
        .strip_prefix("STATS\r\n")
        .and_then(|rest| rest.strip_suffix("END\r\n"))
        .unwrap_or_else(|| panic!("{text}"));
    let mut comparable = BTreeSet::new();
    for line in lines.split_terminator("\r\n") {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [name] => name.clone_into(&mut topic),
            [_, "partitions", _, "message_count", _, ..] => topic = words[0].to_owned(),
            _ => {}
        }
        let count = golden.partitions.iter().filter(|partition| place(&partition.partition).0 == topic);
        let count: usize = count.map(|partition| partition.records.len()).sum();
        let line = match words[..] {
            ["message_count", _] => format!("message_count {count}"),
            [_, "partitions", _, "message_count", was, ..] => {
                line.replace(&format!("message_count {was} "), &format!("message_count {count} "))
            }
            [key, value] if value.starts_with("Count=") => format!("{key} Count=…"),
            _ => line.to_owned(),
        };
        assert!(comparable.insert(line.clone()), "{line:?} comes twice in {text}");
    }
    comparable
}

/// The message counts in a `stats` answer, with the topic of each.
fn message_counts(text: &str) -> Vec<(String, usize)> {
    let mut topic = String::new();
    let mut counts = Vec::new();
    for line in text.split("\r\n") {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [name] if name != "STATS" => name.clone_into(&mut topic),
            ["message_count", count] => counts.push((topic.clone(), count.parse().unwrap())),
            [name, "partitions", _, "message_count", count, ..] => counts.push((name.into(), count.parse().unwrap())),
            _ => {}
        }
    }
    counts
}

#[test]
fn golden_stats_say_what_the_original_said_and_count_all_records() {
    let (_setup, broker) = opened();
    let mut wire = broker.connect();
    let golden = DataDirectory::read();
    for probe in &golden.probes {
        wire.ask(&probe.request);
    }
    // Sealed segments of a directory that wasn't ours are counted after serving began.
    metaq_testkit::until(metaq_testkit::wait::PATIENCE, "all records to be counted", || {
        let text = wire.ask("stats topics 1\r\n").text();
        let counted: usize = message_counts(&text).iter().map(|(_, count)| count).sum();
        (counted == golden.partitions.iter().map(|partition| partition.records.len()).sum::<usize>()).then_some(())
    });
    for (item, text) in &golden.stats {
        let frame = wire.ask(format!("stats {item} 1\r\n"));
        assert_eq!(frame.status(), Some(200), "{frame}");
        assert_eq!(comparable(&frame.text(), &golden), comparable(text, &golden), "{item}");
        for (topic, count) in message_counts(&frame.text()) {
            let partitions = golden.partitions.iter().filter(|partition| place(&partition.partition).0 == topic);
            assert_eq!(count, partitions.map(|partition| partition.records.len()).sum::<usize>(), "{item} {topic}");
        }
    }
    broker.stop();
}

#[test]
fn golden_partitions_go_on_where_they_end() {
    let (setup, broker) = opened();
    let mut wire = broker.connect();
    let golden = DataDirectory::read();
    for (partition, position) in &golden.position_of_the_next_put {
        let (topic, index) = place(partition);
        let stored = wire.ask(format!("put {topic} {index} 5 0 907060870 1\r\nhello")).stored();
        assert_eq!((stored.partition, stored.position), (index, *position), "{partition}");
    }
    drop(wire);
    let expect_all = |wire: &mut Wire| {
        for partition in &golden.partitions {
            let (topic, index) = place(&partition.partition);
            let found = read_all(wire, topic, index);
            assert_eq!(found.len(), partition.records.len() + 1, "{}", partition.partition);
            assert_eq!(found.last().unwrap().body, b"hello");
            assert!(found.iter().zip(&partition.records).all(|(found, record)| found.id == record.id));
        }
    };
    expect_all(&mut broker.connect());
    broker.stop();
    let broker = setup.start();
    expect_all(&mut broker.connect());
    broker.kill();
    let broker = setup.start();
    expect_all(&mut broker.connect());
    broker.stop();
}

#[test]
fn golden_files_are_not_changed_by_opening_and_closing() {
    let (setup, broker) = opened();
    let mut wire = broker.connect();
    let golden = DataDirectory::read();
    for probe in &golden.probes {
        wire.ask(&probe.request);
    }
    drop(wire);
    broker.stop();
    for (name, size, hash) in &golden.files {
        let bytes = fs::read(setup.data().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((bytes.len() as u64, &sha256(&bytes)), (*size, hash), "{name}");
    }
}
