//! Opens copies of the golden directories.

use metaq_disk::{RealDisk, read_exact_at};
use metaq_log::{
    Append, Change, Durability, Item, Log, Opened, Options, Outcome, Outlet, Partition, PartitionSettings, Read,
    Report, Stopped, Submission, What, stop_steps,
};
use metaq_protocol::record::{self, HEADER_BYTES, Header};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub const NOW: u64 = 1_800_000_000_000;

/// The folder of the fixtures: `METAQ_GOLDEN`, or the project's copy.
pub fn golden() -> PathBuf {
    match std::env::var_os("METAQ_GOLDEN") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden"),
    }
}

pub fn expected(fixture: &str) -> Value {
    let text = fs::read_to_string(golden().join(fixture).join("expected.json")).expect("the fixture is there");
    serde_json::from_str(&text).expect("the fixture is JSON")
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text"))
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is a list"))
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Topic and index of a folder's name.
pub fn named(folder: &str) -> (&str, u32) {
    metaq_log::parse_name(folder).unwrap_or_else(|| panic!("{folder} is a partition's folder"))
}

/// A copy of a data directory, open.
pub struct Copy {
    pub folder: TempDir,
    pub opened: Opened,
    answers: Arc<Answers>,
    outlet: metaq_log::OutletId,
}

#[derive(Default)]
struct Answers(Mutex<Vec<Outcome>>);

impl Outlet for Answers {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        let outcomes = sequenced.drain(..).flat_map(|submission| submission.outcomes);
        self.0.lock().expect("nobody panics").extend(outcomes);
    }
    fn wake(&self, _ready: &[u32]) {}
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("the folder can be listed");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("it has a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

impl Copy {
    /// Copies these partition folders and opens them; `empty`: folders that git doesn't keep.
    pub fn of(folders: &[PathBuf], empty: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let data = folder.path().join("data");
        fs::create_dir_all(&data).expect("a folder can be made");
        for from in folders {
            copy_folder(from, &data.join(from.file_name().expect("it has a name")));
        }
        empty.iter().for_each(|name| fs::create_dir_all(data.join(name)).expect("a folder can be made"));
        let opened = Self::open(folder.path());
        let answers = Arc::new(Answers::default());
        let outlet = opened.log.register(Arc::clone(&answers) as Arc<dyn Outlet>);
        Self { folder, opened, answers, outlet }
    }

    fn open(folder: &Path) -> Opened {
        let mut options = Options::new(folder.join("log"), folder.join("data"));
        options.ring.file_bytes = 1 << 20;
        metaq_log::open(Arc::new(RealDisk), options, NOW).expect("the directory opens")
    }

    /// Stops cleanly and opens again.
    pub fn restart(self) -> Self {
        let Self { folder, opened, .. } = self;
        let Opened { log, mut sequencer, mut applier, checkpointer, .. } = opened;
        assert_eq!(stop_steps(&mut sequencer, &mut applier, &checkpointer, NOW), Stopped::Clean);
        drop((log, sequencer, applier, checkpointer));
        let opened = Self::open(folder.path());
        let answers = Arc::new(Answers::default());
        let outlet = opened.log.register(Arc::clone(&answers) as Arc<dyn Outlet>);
        Self { folder, opened, answers, outlet }
    }

    pub fn log(&self) -> &Log {
        &self.opened.log
    }

    pub fn report(&self) -> &Report {
        &self.opened.report
    }

    pub fn partition(&self, folder: &str) -> Arc<Partition> {
        let (topic, index) = named(folder);
        self.log().partition(topic, index).unwrap_or_else(|| panic!("{folder} is a partition"))
    }

    /// Puts one message and syncs.
    pub fn put(&mut self, partition: &Arc<Partition>, body: &[u8]) -> Outcome {
        partition.configure(PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 20 });
        let mut bytes = Vec::new();
        record::encode(&mut bytes, 0, 0, body);
        let append = Append { partition: Arc::clone(partition), records: 0..bytes.len(), count: 1, producer: None };
        self.ask(What::Append(append), bytes)
    }

    /// Makes a change and syncs.
    pub fn change(&mut self, change: Change) -> Outcome {
        self.ask(What::Change(Box::new(change)), Vec::new())
    }

    fn ask(&mut self, what: What, bytes: Vec<u8>) -> Outcome {
        let items = vec![Item { tag: 0, what }];
        let outlet = self.outlet;
        let submission = Submission { outlet, token: 0, bytes, items, outcomes: Vec::new(), wait_durable: 0 };
        self.log().submit(Box::new(submission));
        self.opened.sequencer.write_turn(NOW);
        self.opened.sequencer.sync();
        self.answers.0.lock().expect("nobody panics").pop().expect("it is answered")
    }

    /// What one read gives.
    pub fn read(&self, partition: &Partition, position: u64, max: usize) -> Read {
        self.log().read(partition, position, max, self.log().settled()).expect("the disk is well")
    }

    /// The bytes that one read gives; `None` if there are none.
    pub fn bytes(&self, partition: &Partition, position: u64, max: usize) -> Option<Vec<u8>> {
        let Read::Slice(slice) = self.read(partition, position, max) else { return None };
        let mut bytes = vec![0; slice.len];
        read_exact_at(&*slice.file, &mut bytes, slice.offset).expect("the slice can be read");
        Some(bytes)
    }

    /// The whole record at `position`: header and body.
    pub fn record(&self, partition: &Partition, position: u64) -> Option<(Header, Vec<u8>)> {
        let bytes = self.bytes(partition, position, usize::MAX)?;
        let header = Header::decode(bytes.first_chunk::<HEADER_BYTES>()?);
        let body = bytes[HEADER_BYTES..].get(..usize::try_from(header.length).ok()?)?.to_vec();
        Some((header, body))
    }

    /// Every file of the data path: name and content.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let data = self.folder.path().join("data");
        for folder in fs::read_dir(&data).expect("it can be listed") {
            let folder = folder.expect("it can be listed").path();
            for file in fs::read_dir(&folder).expect("it can be listed") {
                let file = file.expect("it can be listed").path();
                let name = file.strip_prefix(&data).expect("it lies there").display().to_string();
                found.insert(name, fs::read(&file).expect("it can be read"));
            }
        }
        found
    }
}
