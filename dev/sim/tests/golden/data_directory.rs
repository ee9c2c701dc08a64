//! The directory that the original stopped cleanly: opened in place, it holds every record, answers every probe, and
//! not a byte of it changes.

use super::fixture::{Copy, expected, golden, list, named, number, sha256, text};
use metaq_log::{Found, Outcome, Read};
use serde_json::Value;
use std::fs;

const FIXTURE: &str = "data-directory";

fn copy(expected: &Value) -> Copy {
    let data = golden().join(FIXTURE).join("data");
    let names: Vec<&str> = list(&expected["partitions"]).iter().map(|one| text(&one["partition"])).collect();
    let (kept, empty): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| data.join(name).is_dir());
    // Whatever else is there is copied too: nothing may stumble over it.
    let all = fs::read_dir(&data).expect("the fixture is there").map(|entry| entry.expect("it can be listed").path());
    let folders: Vec<_> = all.filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= kept.len());
    Copy::of(&folders, &empty)
}

#[test]
fn golden_every_record_of_the_original_is_where_it_was() {
    let expected = expected(FIXTURE);
    let copy = copy(&expected);
    for one in list(&expected["partitions"]) {
        let name = text(&one["partition"]);
        let partition = copy.partition(name);
        let bounds = partition.bounds(copy.log().settled());
        assert_eq!((bounds.first, bounds.end), (number(&one["min"]), number(&one["max"])), "{name}");
        assert_eq!((bounds.failed, bounds.damage.len()), (None, 0), "{name}");
        let mut all = Vec::new();
        while let Some(bytes) = copy.bytes(&partition, bounds.first + all.len() as u64, 3000) {
            all.extend(bytes);
        }
        assert_eq!(sha256(&all), text(&one["log_sha256"]), "{name}");
        for wanted in list(&one["records"]) {
            let position = number(&wanted["position"]);
            let (header, body) = copy.record(&partition, position).unwrap_or_else(|| panic!("{name} at {position}"));
            assert_eq!(Some(i64::from(header.length)), wanted["length"].as_i64(), "{name} at {position}");
            assert_eq!(Some(i64::from(header.checksum)), wanted["checksum"].as_i64(), "{name} at {position}");
            assert_eq!(Some(header.id), wanted["id"].as_i64(), "{name} at {position}");
            assert_eq!(Some(i64::from(header.flag)), wanted["flag"].as_i64(), "{name} at {position}");
            assert_eq!(sha256(&body), text(&wanted["body_sha256"]), "{name} at {position}");
        }
        let found = Found::Adopted {
            segments: list(&one["segments"]).iter().filter(|file| text(&file[0]).ends_with(".meta")).count(),
            end: bounds.end,
        };
        let finding = copy.report().findings.iter().find(|finding| finding.partition == name);
        assert_eq!(finding.map(|finding| &finding.what), Some(&found), "{name}");
    }
    assert_eq!(copy.report().findings.len(), list(&expected["partitions"]).len());
}

#[test]
fn golden_all_messages_are_counted_once_the_sealed_segments_are() {
    let expected = expected(FIXTURE);
    let mut copy = copy(&expected);
    for one in list(&expected["partitions"]) {
        let name = text(&one["partition"]);
        let partition = copy.partition(name);
        if copy.log().segments(&partition).expect("the disk is well").len() > 1 {
            let (surveys, counted) = copy.log().survey_sealed(&partition, || {}).expect("the disk is well");
            assert!(surveys.iter().all(|survey| survey.damage.is_empty() && survey.end == survey.len), "{name}");
            copy.change(counted);
        }
        let messages = list(&one["records"]).len() as u64;
        assert_eq!(partition.bounds(copy.log().settled()).messages, messages, "{name}");
    }
}

#[test]
fn golden_every_probe_is_answered_as_by_the_original() {
    let expected = expected(FIXTURE);
    let copy = copy(&expected);
    let limit = usize::try_from(number(&expected["system"]["maxTransferSize"])).expect("small");
    let mut tried = 0;
    for probe in list(&expected["probes"]) {
        let words: Vec<&str> = text(&probe["request"]).split_whitespace().collect();
        let head: Vec<&str> = text(&probe["head"]).split_whitespace().collect();
        let said = || {
            let hex = text(&probe["body_hex"]);
            let digits = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"));
            String::from_utf8(digits.collect()).expect("digits").parse::<u64>().expect("a position")
        };
        let Some(partition) = words[3].parse().ok().and_then(|index| copy.log().partition(words[1], index)) else {
            assert_eq!(head[..2], ["result", "404"], "{probe}");
            continue;
        };
        let Ok(position) = words[4].parse::<u64>() else { continue };
        let bounds = partition.bounds(copy.log().settled());
        tried += 1;
        if words[0] == "offset" {
            if position < bounds.end {
                assert_eq!(copy.log().segment_start(&partition, position), said(), "{probe}");
            }
            continue;
        }
        let Some(max) = words[5].parse::<usize>().ok().filter(|max| *max > 0) else { continue };
        match (copy.read(&partition, position, max.min(limit)), head[0], head[1]) {
            (Read::Slice(slice), "value", len) => {
                assert_eq!(slice.len.to_string(), len, "{probe}");
                let mut frame = format!("{}\r\n", text(&probe["head"])).into_bytes();
                frame.extend(copy.bytes(&partition, position, max.min(limit)).expect("there are bytes"));
                assert_eq!(sha256(&frame), text(&probe["frame_sha256"]), "{probe}");
            }
            (Read::AtEnd | Read::Beyond { .. }, "result", "404") => {}
            (Read::Below { first: at } | Read::Beyond { end: at }, "result", "301") => {
                assert_eq!(at, said(), "{probe}")
            }
            (read, ..) => panic!("{read:?} to {probe}"),
        }
    }
    assert!(tried * 2 > list(&expected["probes"]).len(), "{tried}");
}

#[test]
fn golden_the_next_put_goes_where_the_original_would_put_it() {
    let expected = expected(FIXTURE);
    let mut copy = copy(&expected);
    for (name, wanted) in expected["position_of_the_next_put"].as_object().expect("positions by partition") {
        let partition = copy.partition(name);
        let outcome = copy.put(&partition, b"next");
        let Outcome::Appended { position, first_id, .. } = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(position, number(wanted), "{name}");
        assert!(first_id > 0, "{name}");
        assert_eq!(copy.record(&partition, position).expect("it is there").1, b"next", "{name}");
    }
    let copy = copy.restart();
    assert!(copy.report().clean);
    assert_eq!(copy.report().findings, []);
    for (name, wanted) in expected["position_of_the_next_put"].as_object().expect("positions by partition") {
        let partition = copy.partition(name);
        assert_eq!(copy.record(&partition, number(wanted)).expect("it is there").1, b"next", "{name}");
    }
}

#[test]
fn golden_opening_and_stopping_changes_no_byte() {
    let expected = expected(FIXTURE);
    let copy = copy(&expected).restart();
    let files = copy.files();
    let listed = list(&expected["files"]);
    for file in listed {
        let (name, len, hash) = (text(&file[0]), number(&file[1]), text(&file[2]));
        let bytes = files.get(name).unwrap_or_else(|| panic!("{name} is gone"));
        assert_eq!((bytes.len() as u64, sha256(bytes).as_str()), (len, hash), "{name}");
    }
    let strange = files.keys().filter(|name| !listed.iter().any(|file| text(&file[0]) == name.as_str()));
    for name in strange {
        let (folder, file) = name.split_once('/').expect("it lies in a folder");
        let empty = files[name].is_empty() && file.ends_with(".meta");
        let known = list(&expected["partitions"]).iter().find(|one| text(&one["partition"]) == folder);
        assert!(empty && known.is_some_and(|one| list(&one["records"]).is_empty()), "{name} wasn't there");
    }
    assert!(copy.report().clean && copy.report().findings.is_empty());
    assert!(list(&expected["partitions"]).iter().all(|one| !named(text(&one["partition"])).0.is_empty()));
}
