//! Partitions that were damaged after the original was killed: what is whole is served, what is torn is cut and said,
//! what is damaged in the middle is said and never cut.

use super::fixture::{Copy, expected, golden, list, number, sha256, text};
use metaq_log::{Found, Outcome, Read, Refusal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

const FIXTURE: &str = "torn-data-directory";

/// What was found of one case when it was opened.
struct Opened {
    copy: Copy,
    name: String,
    before: BTreeMap<String, Vec<u8>>,
}

fn data(name: &str) -> PathBuf {
    golden().join(FIXTURE).join("data").join(name)
}

fn open(case: &Value) -> Opened {
    let name = format!("{}-0", text(&case["case"]));
    let copy = Copy::of(&[data(&name)], &[]);
    let files = case["files"].as_object().expect("sizes by name");
    let read = |file: &String| (format!("{name}/{file}"), std::fs::read(data(&name).join(file)).expect("it is there"));
    let before: BTreeMap<_, _> = files.keys().map(read).collect();
    for (file, size) in files {
        assert_eq!(before[&format!("{name}/{file}")].len() as u64, number(size), "{name}/{file}");
    }
    Opened { copy, name, before }
}

impl Opened {
    fn cut(&self) -> Option<(u64, u64)> {
        self.copy.report().findings.iter().find_map(|finding| match finding.what {
            Found::Cut { position, bytes } if finding.partition == self.name => Some((position, bytes)),
            _ => None,
        })
    }

    fn damage_at_start(&self) -> Vec<u64> {
        let findings = self.copy.report().findings.iter().filter(|finding| finding.partition == self.name);
        let from = findings.filter_map(|finding| match finding.what {
            Found::Damaged { from, .. } => Some(from),
            _ => None,
        });
        from.collect()
    }

    /// Checks the sealed segments, as is done in the background.
    fn survey(&self) {
        let partition = self.copy.partition(&self.name);
        self.copy.log().survey_sealed(&partition, || {}).expect("the disk is well");
    }

    /// Which of the acknowledged records are served as they were acknowledged.
    fn served(&self, case: &Value) -> Vec<bool> {
        let partition = self.copy.partition(&self.name);
        let served = list(&case["acknowledged"]).iter().map(|one| {
            let Some((header, body)) = self.copy.record(&partition, number(&one["position"])) else { return false };
            sha256(&body) == text(&one["sha256"]) && u64::try_from(header.length) == Ok(number(&one["length"]))
        });
        served.collect()
    }

    fn accept(&self, case: &Value) {
        let end = number(&case["right"]["max_if_cut"]);
        let bounds = self.copy.partition(&self.name).bounds(self.copy.log().settled());
        assert_eq!((bounds.end, bounds.failed, bounds.damage.len()), (end, None, 0), "{}", self.name);
        assert_eq!((self.cut(), self.damage_at_start()), (None, Vec::new()), "{}", self.name);
        assert_eq!(self.copy.files(), self.before, "{}", self.name);
    }

    fn cut_at(&self, case: &Value) {
        let end = number(&case["right"]["max_if_cut"]);
        let bounds = self.copy.partition(&self.name).bounds(self.copy.log().settled());
        assert_eq!((bounds.end, bounds.failed, bounds.damage.len()), (end, None, 0), "{}", self.name);
        let (last, bytes) = self.before.last_key_value().expect("there are segments");
        let start: u64 = last[self.name.len() + 1..][..20].parse().expect("a position");
        assert_eq!(self.cut(), Some((end, start + bytes.len() as u64 - end)), "{}", self.name);
        let mut wanted = self.before.clone();
        wanted.get_mut(last).expect("it is there").truncate(usize::try_from(end - start).expect("small"));
        assert_eq!(self.copy.files(), wanted, "{}: only the tail is cut", self.name);
    }

    fn reported(&self, case: &Value) {
        let bad = number(&case["right"]["report"]["first_bad_position"]);
        self.survey();
        let partition = self.copy.partition(&self.name);
        let bounds = partition.bounds(self.copy.log().settled());
        assert_eq!(bounds.damage.first().map(|damage| damage.range.start), Some(bad), "{}", self.name);
        assert!(matches!(self.copy.read(&partition, bad, 100), Read::Damaged { .. }), "{}", self.name);
        assert_eq!((self.cut(), bounds.failed), (None, None), "{}", self.name);
        assert_eq!(self.copy.files(), self.before, "{}: no byte is cut", self.name);
    }
}

#[test]
fn golden_every_torn_partition_is_opened_as_is_right() {
    let expected = expected(FIXTURE);
    let cases = list(&expected["cases"]);
    assert!(!cases.is_empty());
    for case in cases {
        let opened = open(case);
        let name = opened.name.clone();
        match text(&case["right"]["action"]) {
            "accept" => opened.accept(case),
            "cut" => opened.cut_at(case),
            "cut-or-report" if opened.cut().is_some() => opened.cut_at(case),
            "cut-or-report" | "report" => opened.reported(case),
            action => panic!("{name}: what is to {action}?"),
        }
        let intact: Vec<bool> =
            list(&case["right"]["intact_on_disk"]).iter().map(|one| one.as_bool().expect("yes or no")).collect();
        assert_eq!(opened.served(case), intact, "{name}: which records are served");
        // It takes messages behind its end, and is as it is after a clean stop too.
        let mut copy = opened.copy;
        let partition = copy.partition(&name);
        let bounds = partition.bounds(copy.log().settled());
        let outcome = copy.put(&partition, b"next");
        assert!(matches!(outcome, Outcome::Appended { position, .. } if position == bounds.end), "{name}: {outcome:?}");
        let copy = copy.restart();
        let partition = copy.partition(&name);
        assert_eq!(copy.record(&partition, bounds.end).expect("it is there").1, b"next", "{name}");
        assert_eq!(partition.bounds(copy.log().settled()).damage, bounds.damage, "{name}");
        assert_eq!(copy.report().findings, [], "{name}");
        let opened = Opened { copy, name: name.clone(), before: BTreeMap::new() };
        assert_eq!(opened.served(case), intact, "{name}: after a clean stop");
    }
}

#[test]
fn golden_what_the_original_refuses_is_closed_and_the_rest_is_served() {
    let expected = expected(FIXTURE);
    let healthy = "whole-0";
    for case in list(&expected["refused"]) {
        let case_name = text(&case["case"]);
        let name = format!("{case_name}-0");
        let folder = golden().join(FIXTURE).join("refused").join(case_name).join(&name);
        let mut copy = Copy::of(&[folder.clone(), data(healthy)], &[]);
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.expect("it can be listed").path();
            let file = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            (format!("{name}/{file}"), std::fs::read(path).expect("it can be read"))
        };
        let before: BTreeMap<_, _> = std::fs::read_dir(&folder).expect("the fixture is there").map(read).collect();
        let unchanged = |copy: &Copy| {
            let mut files = copy.files();
            files.retain(|file, _| file.starts_with(&name));
            assert_eq!(files, before, "{name}");
        };
        unchanged(&copy);
        let right = &case["right"];
        assert_eq!(
            (right["broker_starts"].as_bool(), right["other_partitions_are_served"].as_bool()),
            (Some(true), Some(true))
        );
        let other = copy.partition(healthy);
        assert!(copy.record(&other, 0).is_some(), "{name}: the others are served");
        assert!(matches!(copy.put(&other, b"next"), Outcome::Appended { .. }), "{name}");
        let partition = copy.partition(&name);
        let closed = copy.report().findings.iter().any(|finding| {
            finding.partition == name && matches!(&finding.what, Found::Closed { why } if !why.is_empty())
        });
        let outcome = copy.put(&partition, b"next");
        match text(&right["action"]) {
            "report" => {
                assert!(closed, "{name}: {:?}", copy.report().findings);
                assert!(matches!(outcome, Outcome::Refused(Refusal::PartitionFailed(_))), "{name}: {outcome:?}");
                unchanged(&copy);
                let mut copy = copy.restart();
                let partition = copy.partition(&name);
                let outcome = copy.put(&partition, b"next");
                assert!(matches!(outcome, Outcome::Refused(Refusal::PartitionFailed(_))), "{name}: {outcome:?}");
                unchanged(&copy);
            }
            "ignore-and-warn" => {
                assert!(!closed && matches!(outcome, Outcome::Appended { .. }), "{name}: {outcome:?}");
                assert!(copy.record(&partition, partition.bounds(copy.log().settled()).first).is_some(), "{name}");
                let strange = before.keys().find(|file| !file[name.len() + 1..].starts_with('0'));
                let strange = strange.expect("a file whose name is no number");
                assert_eq!(copy.files()[strange], before[strange], "{name}");
            }
            action => panic!("{name}: what is to {action}?"),
        }
    }
}
