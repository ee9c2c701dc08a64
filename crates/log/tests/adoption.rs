//! Directories that another program wrote: what is adopted is counted, however often the broker is restarted meanwhile.

use metaq_disk::{Disk, FaultyDisk, Open, write_all_at};
use metaq_log::{Change, Opened, Options, Outlet, Submission, open, stop_steps};
use metaq_log::{Item, What};
use metaq_protocol::record;
use std::path::Path;
use std::sync::Arc;

const NOW: u64 = 1_800_000_000_000;

struct Nobody;

impl Outlet for Nobody {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        sequenced.clear();
    }
    fn wake(&self, _ready: &[u32]) {}
}

fn opened(disk: &FaultyDisk) -> Opened {
    let mut options = Options::new("/log", "/data");
    options.ring.file_bytes = 64 * 1024;
    open(Arc::new(disk.clone()), options, NOW).expect("the directory opens")
}

/// Two segments of three and two messages.
fn original() -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.create_dir(Path::new("/data/t-0")).expect("the disk is fine");
    let (mut first, mut second) = (Vec::new(), Vec::new());
    (1..4).for_each(|id| record::encode(&mut first, id, 0, b"hello"));
    (4..6).for_each(|id| record::encode(&mut second, id, 0, b"hello"));
    for (start, bytes) in [(0, &first), (75, &second)] {
        let path = format!("/data/t-0/{start:020}.meta");
        let file = disk.open(Path::new(&path), Open::CreateNew).expect("the disk is fine");
        write_all_at(&*file, bytes, 0).expect("the disk is fine");
    }
    disk
}

fn check(between: impl Fn(&mut Opened)) {
    let disk = original();
    let mut first = opened(&disk);
    assert_eq!(first.report.to_survey.len(), 1);
    between(&mut first);
    drop(first);
    let mut again = opened(&disk);
    let partition = again.report.to_survey.first().cloned().expect("it is still to be counted");
    let (_, change) = again.log.survey_sealed(&partition, || {}).expect("the disk is fine");
    assert!(matches!(change, Change::Counted { sealed: 3, .. }), "{change:?}");
    let outlet = again.log.register(Arc::new(Nobody));
    let items = vec![Item { tag: 0, what: What::Change(Box::new(change)) }];
    again.log.submit(Box::new(Submission {
        outlet,
        token: 0,
        bytes: Vec::new(),
        items,
        outcomes: Vec::new(),
        wait_durable: 0,
    }));
    again.sequencer.write_turn(NOW);
    again.sequencer.sync();
    assert_eq!(partition.bounds(again.log.settled()).messages, 5);
    drop((partition, again));
    let last = opened(&disk);
    assert!(last.report.to_survey.is_empty());
    assert_eq!(last.log.partition("t", 0).expect("known").bounds(last.log.settled()).messages, 5);
}

#[test]
fn adopted_segments_are_counted_though_the_broker_was_killed_before() {
    check(|_| {});
}

#[test]
fn adopted_segments_are_counted_though_the_broker_was_stopped_before() {
    check(|opened| {
        stop_steps(&mut opened.sequencer, &mut opened.applier, &opened.checkpointer, NOW);
    });
}
