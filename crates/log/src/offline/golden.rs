//! What the original left behind, whole and damaged, on a real disk. The fixture is the folder that METAQ_GOLDEN names,
//! or the project's copy; every expectation comes out of it.

use super::testing::{Bench, NOW};
use super::*;
use crate::options::Options;
use metaq_disk::RealDisk;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

/// A copy of a fixture's data directory, and what is expected of it.
struct Golden {
    folder: tempfile::TempDir,
    expected: Value,
}

impl Golden {
    fn copy(fixture: &str, data: &str) -> Self {
        let golden = env::var_os("METAQ_GOLDEN")
            .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev/golden")), PathBuf::from);
        let fixture = golden.join(fixture);
        let text = fs::read_to_string(fixture.join("expected.json")).unwrap();
        let expected = serde_json::from_str(&text).unwrap();
        let copy = Self { folder: tempfile::tempdir().unwrap(), expected };
        copy_folder(&fixture.join(data), &copy.data());
        copy
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn directory(&self) -> Directory {
        Directory::new(Arc::new(RealDisk), self.data(), [self.data()])
    }

    fn options(&self) -> Options {
        let mut options = Options::new(self.data(), self.data());
        options.ring = Bench::options().ring;
        options
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

/// The bytes of all files below a folder, by path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn name(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Whole records of a directory, by partition: position and length of the body.
fn records(directory: &Directory) -> BTreeMap<String, BTreeSet<(u64, u64)>> {
    let mut found: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    dump_records(directory, &Filter::default(), |folder, line| {
        if let RecordLine::Record { position, length, intact: true, .. } = line {
            found.entry(folder.name()).or_default().insert((position, length));
        }
    })
    .unwrap();
    found
}

/// The acknowledged records of a case that are still on the disk.
fn intact(case: &Value) -> BTreeSet<(u64, u64)> {
    let records = case["acknowledged"].as_array().unwrap().iter();
    let intact = case["right"]["intact_on_disk"].as_array().unwrap().iter();
    let kept = records.zip(intact).filter(|(_, intact)| intact.as_bool().unwrap());
    kept.map(|(record, _)| (number(&record["position"]), number(&record["length"]))).collect()
}

fn of<'a>(verified: &'a Verified, topic: &str) -> &'a PartitionVerified {
    verified.partitions.iter().find(|partition| partition.topic == topic).unwrap_or_else(|| panic!("no {topic}"))
}

/// Where a partition's first trouble with records is, and whether something whole lies behind it.
fn first_bad(partition: &PartitionVerified) -> Option<(u64, bool)> {
    let bad = partition.troubles.iter().filter_map(|trouble| match trouble {
        PartitionTrouble::Records { range } => Some((range.start, true)),
        PartitionTrouble::TornTail { position, .. } => Some((*position, false)),
        _ => None,
    });
    bad.min()
}

#[test]
fn golden_torn_cases_are_found_as_they_are_right() {
    let golden = Golden::copy("torn-data-directory", "data");
    let before = files(&golden.data());
    let verified = verify(&golden.directory(), |_| {}).unwrap();
    assert_eq!(files(&golden.data()), before, "verifying changes nothing");
    let found = records(&golden.directory());
    for case in golden.expected["cases"].as_array().unwrap() {
        let (topic, right) = (name(&case["case"]), &case["right"]);
        let partition = of(&verified, topic);
        let wanted = match name(&right["action"]) {
            "accept" => None,
            "cut" | "cut-or-report" => Some((number(&right["max_if_cut"]), false)),
            "report" => Some((number(&right["report"]["first_bad_position"]), true)),
            action => panic!("{action}"),
        };
        assert_eq!(first_bad(partition), wanted, "{topic}: {verified}");
        let lost: Vec<_> = intact(case).difference(&found[&partition.name()]).copied().collect();
        assert!(lost.is_empty(), "{topic}: {lost:?}");
    }
}

#[test]
fn golden_torn_cases_are_repaired_as_is_right() {
    let golden = Golden::copy("torn-data-directory", "data");
    let before = files(&golden.data());
    let plan = plan_repair(&golden.directory(), &RepairOptions::default(), |_| {}).unwrap();
    let cut: BTreeMap<String, u64> = plan
        .steps()
        .iter()
        .map(|step| match step {
            Step::CutTail { partition, position, .. } => (partition.clone(), *position),
            step => panic!("{step}"),
        })
        .collect();
    plan.carry_out().unwrap();
    let found = records(&golden.directory());
    for case in golden.expected["cases"].as_array().unwrap() {
        let (topic, right) = (name(&case["case"]), &case["right"]);
        let partition = format!("{topic}-0");
        let folder = golden.data().join(&partition);
        let cuts = name(&right["action"]).starts_with("cut");
        assert_eq!(cut.get(&partition).copied(), cuts.then(|| number(&right["max_if_cut"])), "{topic}");
        let unchanged = files(&folder).iter().all(|(path, bytes)| before[path] == *bytes);
        assert_eq!(unchanged, !cuts, "{topic}");
        assert!(intact(case).is_subset(&found[&partition]), "{topic}");
    }
    let again = plan_repair(&golden.directory(), &RepairOptions::default(), |_| {}).unwrap();
    assert!(again.steps().is_empty(), "{again}");
}

#[test]
fn golden_torn_cases_are_cut_at_their_damage_on_demand() {
    let golden = Golden::copy("torn-data-directory", "data");
    let options = RepairOptions { truncate: Truncate::All, identity: None };
    let plan = plan_repair(&golden.directory(), &options, |_| {}).unwrap();
    let truncated: BTreeMap<String, (u64, u64)> = plan
        .steps()
        .iter()
        .filter_map(|step| match step {
            Step::Truncate { partition, position, messages, .. } => Some((partition.clone(), (*position, *messages))),
            _ => None,
        })
        .collect();
    plan.carry_out().unwrap();
    let found = records(&golden.directory());
    for case in golden.expected["cases"].as_array().unwrap() {
        let (topic, right) = (name(&case["case"]), &case["right"]);
        let partition = format!("{topic}-0");
        if name(&right["action"]) != "report" {
            assert!(!truncated.contains_key(&partition), "{topic}");
            continue;
        }
        let position = number(&right["report"]["first_bad_position"]);
        let (before, behind): (BTreeSet<_>, BTreeSet<_>) =
            intact(case).into_iter().partition(|(at, ..)| *at < position);
        assert_eq!(truncated[&partition], (position, behind.len() as u64), "{topic}");
        assert_eq!(found[&partition], before, "{topic}");
    }
    assert_eq!(verify(&golden.directory(), |_| {}).unwrap().verdict(), Verdict::Notes);
}

#[test]
fn golden_torn_cases_are_recovered_and_released_to_what_an_original_opens() {
    let golden = Golden::copy("torn-data-directory", "data");
    let recovered = recover(Arc::new(RealDisk), golden.options(), How::Replay, NOW).unwrap();
    assert_eq!(recovered.obstacles, [], "{recovered}");
    let released = release(&golden.directory()).unwrap();
    assert_eq!(released.to, Some(golden.folder.path().join("data.metaq")));
    let found = records(&golden.directory());
    for case in golden.expected["cases"].as_array().unwrap() {
        assert!(intact(case).is_subset(&found[&format!("{}-0", name(&case["case"]))]), "{}", case["case"]);
    }
    for entry in fs::read_dir(golden.data()).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.path().is_dir() && entry.file_name().to_string_lossy().ends_with("-0"), "{entry:?}");
    }
}

#[test]
fn golden_refused_directories_are_reported_and_left_as_they_are() {
    let expected = Golden::copy("torn-data-directory", "data").expected;
    for case in expected["refused"].as_array().unwrap() {
        let topic = name(&case["case"]);
        let golden = Golden::copy("torn-data-directory", &format!("refused/{topic}"));
        let before = files(&golden.data());
        let verified = verify(&golden.directory(), |_| {}).unwrap();
        let reported = name(&case["right"]["action"]) == "report";
        let gap = of(&verified, topic).troubles.iter().any(|trouble| matches!(trouble, PartitionTrouble::Gap(_)));
        assert_eq!(gap, reported, "{topic}: {verified}");
        let plan = plan_repair(&golden.directory(), &RepairOptions::default(), |_| {}).unwrap();
        assert!(plan.steps().is_empty(), "{topic}: {plan}");
        drop(plan);
        let recovered = recover(Arc::new(RealDisk), golden.options(), How::Replay, NOW).unwrap();
        assert_eq!(recovered.obstacles.len(), 1, "{topic}: {recovered}");
        release(&golden.directory()).unwrap();
        assert_eq!(files(&golden.data()), before, "{topic}");
    }
}

#[test]
fn golden_gaps_are_cut_on_demand() {
    let expected = Golden::copy("torn-data-directory", "data").expected;
    for case in expected["refused"].as_array().unwrap() {
        let topic = name(&case["case"]);
        let golden = Golden::copy("torn-data-directory", &format!("refused/{topic}"));
        let before = records(&golden.directory());
        let options = RepairOptions { truncate: Truncate::All, identity: None };
        let plan = plan_repair(&golden.directory(), &options, |_| {}).unwrap();
        let truncated = plan.steps().iter().find_map(|step| match step {
            Step::Truncate { position, messages, .. } => Some((*position, *messages)),
            _ => None,
        });
        plan.carry_out().unwrap();
        let found = records(&golden.directory());
        let left = |all: &BTreeMap<String, BTreeSet<_>>| all.values().map(BTreeSet::len).sum::<usize>() as u64;
        assert_eq!(left(&found), left(&before) - truncated.map_or(0, |(_, messages)| messages), "{topic}");
        assert_eq!(truncated.is_some(), name(&case["right"]["action"]) == "report", "{topic}");
        let verified = verify(&golden.directory(), |_| {}).unwrap();
        assert_eq!(verified.verdict(), Verdict::Notes, "{topic}: {verified}");
    }
}

#[test]
fn golden_records_are_told_as_the_original_wrote_them() {
    let golden = Golden::copy("data-directory", "data");
    let verified = verify(&golden.directory(), |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Notes, "{verified}");
    let mut lines = BTreeMap::<String, Vec<RecordLine>>::new();
    let told = dump_records(&golden.directory(), &Filter::default(), |folder, line| {
        lines.entry(folder.name()).or_default().push(line);
    });
    told.unwrap();
    let partitions = golden.expected["partitions"].as_array().unwrap();
    assert!(!partitions.is_empty());
    for partition in partitions {
        let found = lines.remove(name(&partition["partition"])).unwrap_or_default();
        let wanted = partition["records"].as_array().unwrap();
        assert_eq!(found.len(), wanted.len(), "{}", partition["partition"]);
        for (line, wanted) in found.iter().zip(wanted) {
            let RecordLine::Record { position, length, intact, id, flag, attribute, .. } = line else {
                panic!("{line:?}")
            };
            assert!(*intact);
            assert_eq!((*position, *length), (number(&wanted["position"]), number(&wanted["length"])));
            assert_eq!((Some(*id), Some(i64::from(*flag))), (wanted["id"].as_i64(), wanted["flag"].as_i64()));
            assert_eq!(attribute.as_deref(), wanted["attribute"].as_str(), "at {position}");
        }
    }
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_golden_directory_that_was_recovered_and_released_is_byte_for_byte_the_originals() {
    let golden = Golden::copy("data-directory", "data");
    let before = files(&golden.data());
    recover(Arc::new(RealDisk), golden.options(), How::Replay, NOW).unwrap();
    assert_ne!(files(&golden.data()), before);
    // A segment that is large enough for an index gets one.
    let plan = plan_repair(&golden.directory(), &RepairOptions::default(), |_| {}).unwrap();
    assert!(plan.steps().iter().all(|step| matches!(step, Step::RebuildIndex { .. })), "{plan}");
    plan.carry_out().unwrap();
    let verified = verify(&golden.directory(), |_| {}).unwrap();
    assert_eq!(verified.verdict(), Verdict::Ok, "{verified}");
    release(&golden.directory()).unwrap();
    assert_eq!(files(&golden.data()), before);
}

#[test]
fn golden_partitions_are_moved_and_deleted() {
    let golden = Golden::copy("data-directory", "data");
    let before = records(&golden.directory());
    recover(Arc::new(RealDisk), golden.options(), How::Replay, NOW).unwrap();
    move_partitions(&golden.directory(), "orders", 0..=1, 10).unwrap();
    let moved = records(&golden.directory());
    assert_eq!((moved.get("orders-10"), moved.get("orders-0")), (before.get("orders-0"), None));
    delete_partitions(&golden.directory(), "archived", 0..=0).unwrap();
    assert!(!golden.data().join("archived-0").exists());
    assert!(verify(&golden.directory(), |_| {}).unwrap().verdict() < Verdict::Damaged);
}
