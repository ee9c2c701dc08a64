//! A data directory that was moved is opened where it stands.

use metaq_disk::{Disk, FaultyDisk};
use metaq_log::{
    Append, Durability, Item, Log, Opened, Options, Outlet, PartitionSettings, Read, Submission, What, open, stop_steps,
};
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

fn opened(disk: &FaultyDisk, at: &str) -> Opened {
    let mut options = Options::new(format!("{at}/log"), format!("{at}/data"));
    options.ring.file_bytes = 64 * 1024;
    open(Arc::new(disk.clone()), options, NOW).expect("the directory opens")
}

fn put(opened: &mut Opened, text: &str) {
    let log = &opened.log;
    let settings = PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 20 };
    let partition = log.create_partition("t", 0, None, settings).expect("a partition");
    let mut bytes = Vec::new();
    record::encode(&mut bytes, 0, 0, text.as_bytes());
    let append = Append { partition, records: 0..bytes.len(), count: 1, producer: None };
    let outlet = log.register(Arc::new(Nobody));
    let items = vec![Item { tag: 0, what: What::Append(append) }];
    log.submit(Box::new(Submission { outlet, token: 0, bytes, items, outcomes: Vec::new(), wait_durable: 0 }));
    opened.sequencer.write_turn(NOW);
    opened.sequencer.sync();
}

fn bytes(log: &Log) -> usize {
    let partition = log.partition("t", 0).expect("the partition is known");
    match log.read(&partition, 0, 1 << 20, log.settled()).expect("the disk is fine") {
        Read::Slice(slice) => slice.len,
        other => panic!("{other:?}"),
    }
}

fn moved(stop_cleanly: bool) {
    let disk = FaultyDisk::new(1);
    let mut before = opened(&disk, "/here");
    put(&mut before, "first");
    if stop_cleanly {
        stop_steps(&mut before.sequencer, &mut before.applier, &before.checkpointer, NOW);
    }
    drop(before);
    disk.rename(Path::new("/here"), Path::new("/there")).expect("a folder can be moved");
    let mut after = opened(&disk, "/there");
    assert_eq!(bytes(&after.log), 25);
    put(&mut after, "second");
    assert_eq!(bytes(&after.log), 51);
    assert!(disk.metadata(Path::new("/here")).expect("the disk is fine").is_none(), "nothing is made where it was");
    drop(after);
    assert_eq!(bytes(&opened(&disk, "/there").log), 51);
}

#[test]
fn a_directory_that_was_stopped_cleanly_may_be_moved() {
    moved(true);
}

#[test]
fn a_directory_that_crashed_may_be_moved() {
    moved(false);
}
