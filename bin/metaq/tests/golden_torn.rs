//! The broker opens damaged data of the original, and does with each damage what is right.
//!
//! All that is expected comes from the fixture (`METAQ_GOLDEN`, else the project's copy).

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_testkit::golden::{self, Acknowledged, TornCase, TornDirectory, sha256};
use metaq_testkit::record::{bounds, read_all, walk};
use metaq_testkit::wait::PATIENCE;
use metaq_testkit::{Broker, Ini, Setup, Wire, file, until};
use std::collections::BTreeMap;
use std::path::PathBuf;

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

fn fixture() -> PathBuf {
    golden::folder().join("torn-data-directory")
}

fn configuration() -> Ini {
    Ini::new().system("numPartitions", 1).system("maxSegmentSize", 700).topic("*")
}

/// What a reader at an acknowledged message gets.
#[derive(Debug, PartialEq)]
enum Served {
    /// The message as it was acknowledged.
    Intact,
    /// An error or a move, or bytes that every client sees to be damaged.
    NotAsGood,
    /// Bytes that look like a message, and aren't this one.
    Wrong,
}

fn serve(wire: &mut Wire, topic: &str, message: &Acknowledged) -> Served {
    let size = message.length + 20;
    let frame = wire.ask(format!("get {topic} g 0 {} {size} 1\r\n", message.position));
    if !frame.is_value() {
        return Served::NotAsGood;
    }
    let found = walk(frame.value(), message.position);
    match found.first() {
        Some(found)
            if found.is_intact && found.body.len() == message.length && sha256(&found.body) == message.sha256 =>
        {
            Served::Intact
        }
        Some(found) if found.is_intact => Served::Wrong,
        _ => Served::NotAsGood,
    }
}

/// Whether a line of the log names both the topic and the position.
fn is_reported(broker: &Broker, case: &str, position: i64) -> bool {
    let position = position.to_string();
    let is_number = |word: &str| word == position;
    broker
        .log()
        .lines()
        .any(|line| line.contains(case) && line.split(|character: char| !character.is_ascii_digit()).any(is_number))
}

fn check_intact(wire: &mut Wire, case: &TornCase) {
    for (message, &is_intact) in case.acknowledged.iter().zip(&case.right.intact_on_disk) {
        let served = serve(wire, &case.case, message);
        if is_intact {
            assert_eq!(served, Served::Intact, "{} at {}", case.case, message.position);
        } else {
            assert_eq!(served, Served::NotAsGood, "{} at {}", case.case, message.position);
        }
    }
}

fn put_at(wire: &mut Wire, topic: &str) -> Option<i64> {
    let frame = wire.ask(format!("put {topic} 0 5 0 907060870 1\r\nhello"));
    (frame.status() == Some(200)).then(|| frame.stored().position)
}

/// The partition ends at `end` and goes on there; nothing but what was acknowledged is in it.
fn check_end(wire: &mut Wire, case: &TornCase, end: i64) {
    assert_eq!(bounds(wire, &case.case, 0), Some((0, end)), "{}", case.case);
    let ids: Vec<i64> = case
        .acknowledged
        .iter()
        .zip(&case.right.intact_on_disk)
        .filter(|(_, intact)| **intact)
        .map(|(message, _)| message.id)
        .collect();
    let found = read_all(wire, &case.case, 0);
    assert_eq!(found.len(), ids.len(), "{}", case.case);
    // A flipped bit of an id is a good id: nobody can tell.
    if case.case != "flip-in-last-id" {
        assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), ids, "{}", case.case);
    }
    assert_eq!(put_at(wire, &case.case), Some(end), "{}", case.case);
    assert_eq!(read_all(wire, &case.case, 0).last().unwrap().position, end, "{}", case.case);
}

/// The damage is reported and its files are as they were; what is intact is served.
fn check_reported(
    broker: &Broker,
    wire: &mut Wire,
    case: &TornCase,
    before: &BTreeMap<String, Vec<u8>>,
    setup: &Setup,
) {
    let position = case.right.report.as_ref().expect("a case to be reported says where").first_bad_position;
    until(PATIENCE, &format!("{} at {position} to be reported", case.case), || {
        is_reported(broker, &case.case, position).then_some(())
    });
    check_intact(wire, case);
    assert_eq!(&metas(setup, &case.case), before, "{}: files were changed", case.case);
    // Whether it takes puts is its own matter; if so, nothing is lost by them.
    if let Some(at) = put_at(wire, &case.case) {
        let end = before.iter().map(|(name, bytes)| start(name) + bytes.len()).max().unwrap();
        assert!(at >= i64::try_from(end).unwrap(), "{}: written over at {at}", case.case);
        check_intact(wire, case);
    }
}

fn start(name: &str) -> usize {
    name.split('.').next().unwrap().parse().unwrap()
}

/// The segments of a case's partition.
fn metas(setup: &Setup, case: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = file::contents(&setup.partition(case, 0));
    files.retain(|name, _| name.ends_with(".meta"));
    files
}

#[test]
fn golden_damage_is_cut_or_reported_as_is_right_and_stays_so() {
    let setup = Setup::with_ini(BINARY, &configuration());
    file::copy_folder(&fixture().join("data"), &setup.data());
    let cases = TornDirectory::read().cases;
    assert!(!cases.is_empty());
    let before: Vec<_> = cases.iter().map(|case| metas(&setup, &case.case)).collect();
    let broker = setup.start();
    let mut wire = broker.connect();
    for (case, before) in cases.iter().zip(&before) {
        let right = &case.right;
        let is_cut =
            right.max_if_cut.is_some() && bounds(&mut wire, &case.case, 0) == right.max_if_cut.map(|max| (0, max));
        match right.action.as_str() {
            "accept" => {
                assert_eq!(&metas(&setup, &case.case), before, "{}: files were changed", case.case);
                check_end(&mut wire, case, right.max_if_cut.unwrap());
            }
            "cut" | "cut-or-report" if is_cut => {
                let end = right.max_if_cut.unwrap();
                assert!(is_reported(&broker, &case.case, end), "{}: a cut at {end} isn't in the log", case.case);
                check_intact(&mut wire, case);
                check_end(&mut wire, case, end);
            }
            "cut-or-report" | "report" => check_reported(&broker, &mut wire, case, before, &setup),
            action => panic!("{}: should {action}, but ends at {:?}", case.case, bounds(&mut wire, &case.case, 0)),
        }
    }
    drop(wire);
    broker.stop();
    let broker = setup.start();
    let mut wire = broker.connect();
    for case in &cases {
        // Behind a cut stands `hello` now, where the message that was cut began.
        let cut = case.right.max_if_cut.unwrap_or(i64::MAX);
        for (message, _) in case.acknowledged.iter().zip(&case.right.intact_on_disk).filter(|(_, intact)| **intact) {
            assert_eq!(serve(&mut wire, &case.case, message), Served::Intact, "{} at {}", case.case, message.position);
            assert!(message.position < cut);
        }
    }
    broker.stop();
}

#[test]
fn golden_partitions_that_the_original_refuses_harm_no_other() {
    for refused in TornDirectory::read().refused {
        let case = refused.case.as_str();
        let setup = Setup::with_ini(BINARY, &configuration());
        file::copy_folder(&fixture().join("refused").join(case), &setup.data());
        file::copy_folder(&fixture().join("data/whole-0"), &setup.partition("whole", 0));
        let before = file::contents(&setup.partition(case, 0));
        let broker = setup.start();
        let mut wire = broker.connect();
        let whole = read_all(&mut wire, "whole", 0);
        assert!(!whole.is_empty());
        assert!(put_at(&mut wire, "whole").is_some(), "{case}");
        match refused.right.action.as_str() {
            "report" => {
                broker.logged(case);
                assert_eq!(put_at(&mut wire, case), None, "{case}: a put was taken");
                wire.usable();
            }
            "ignore-and-warn" => {
                let (odd, _) =
                    before.iter().find(|(name, _)| name.split('.').next().unwrap().parse::<u64>().is_err()).unwrap();
                broker.logged(odd);
                let end: usize = before.iter().filter(|(name, _)| *name != odd).map(|(_, bytes)| bytes.len()).sum();
                assert_eq!(bounds(&mut wire, case, 0), Some((0, i64::try_from(end).unwrap())));
                assert!(!read_all(&mut wire, case, 0).is_empty());
            }
            action => panic!("{case}: {action}?"),
        }
        drop(wire);
        broker.stop();
        let mut after = file::contents(&setup.partition(case, 0));
        after.retain(|name, _| before.contains_key(name));
        assert_eq!(after, before, "{case}: files were changed");
    }
}
