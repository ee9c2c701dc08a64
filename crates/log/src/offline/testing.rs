//! Directories for the tests of this module, on the simulated disk, and a broker's part in them.

use super::contents::Contents;
use super::{Directory, Verdict, verify};
use crate::checkpoint::{Checkpoint, Checkpointer};
use crate::log::Log;
use crate::options::Options;
use crate::recovery::{Opened, Report, open};
use crate::ring::Geometry;
use crate::sequencer::{Sequencer, Wrote};
use crate::submission::{Append, Change, Item, Outcome, Outlet, OutletId, Submission, What};
use crate::threads::{Stopped, stop_steps};
use crate::{Applier, StateChange};
use metaq_disk::{CrashChoice, Disk, FaultyDisk, File, Listed, Lock, Metadata, Open, Space, write_all_at};
use metaq_protocol::record;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The time of the first turn, milliseconds since 1970.
pub(super) const NOW: u64 = 1_800_000_000_000;
/// A segment in these tests: room for one mark and some more.
pub(super) const SEGMENT_BYTES: u64 = 100_000;
/// Bytes of the body of most messages.
pub(super) const BODY_BYTES: usize = 4000;
/// Bytes of a record of such a message.
pub(super) const RECORD_BYTES: u64 = BODY_BYTES as u64 + 20;

/// A directory on a simulated disk: log path and data path are one, `/data`.
pub(super) struct Bench {
    pub disk: FaultyDisk,
    pub directory: Directory,
}

impl Bench {
    pub(super) fn on(disk: FaultyDisk) -> Self {
        let directory = Directory::new(Arc::new(disk.clone()), "/data", [PathBuf::from("/data")]);
        Self { disk, directory }
    }

    pub(super) fn empty() -> Self {
        let disk = FaultyDisk::new(1);
        disk.create_dir(Path::new("/data")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        Self::on(disk)
    }

    /// An original's directory: `old-0` with two segments of three and two messages.
    pub(super) fn foreign() -> Self {
        let bench = Self::empty();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for id in 1..=3 {
            record::encode(&mut first, -id, 0, b"of the original");
        }
        for id in 4..=5 {
            record::encode(&mut second, -id, 0, b"of the original");
        }
        bench.write("/data/old-0/00000000000000000000.meta", &first);
        bench.write(&format!("/data/old-0/{:020}.meta", first.len()), &second);
        bench
    }

    /// A cleanly stopped directory: `t-0` with four segments of 25 messages each but for the last, `t-1` with a few, and a key.
    pub(super) fn stopped() -> Self {
        let bench = Self::empty();
        let mut broker = bench.open();
        broker.fill();
        assert_eq!(broker.stop(), Stopped::Clean);
        // Indexes wait for no sync.
        bench.disk.sync_all(Path::new("/")).unwrap();
        bench
    }

    /// The same, killed: the checkpoint is older than the log.
    pub(super) fn killed() -> Self {
        let bench = Self::empty();
        let mut broker = bench.open();
        broker.fill();
        broker.checkpoint();
        broker.put("t", 0, 3);
        broker.put("u", 0, 2);
        drop(broker);
        bench.disk.sync_all(Path::new("/")).unwrap();
        Self::on(bench.disk.crash_image(&mut CrashChoice::Everything))
    }

    pub(super) fn options() -> Options {
        let mut options = Options::new("/data", "/data");
        options.ring = Geometry { files: 4, file_bytes: 256 * 1024 };
        options.settings.segment_bytes_max = SEGMENT_BYTES;
        options
    }

    pub(super) fn open(&self) -> Broker {
        Broker::of(open(self.directory.disk.clone(), Self::options(), NOW).unwrap())
    }

    /// Changes the checkpoint, in both files.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Checkpoint)) {
        let mut checkpoint = Contents::read(&self.directory).unwrap().checkpoint().unwrap().clone();
        change(&mut checkpoint);
        checkpoint.write(&self.disk, Path::new("/data")).unwrap();
    }

    pub(super) fn stands(&self, path: impl AsRef<Path>) -> bool {
        self.disk.metadata(path.as_ref()).unwrap().is_some()
    }

    pub(super) fn write(&self, path: &str, bytes: &[u8]) {
        let folder = Path::new(path).parent().unwrap();
        self.disk.create_dir(folder).unwrap();
        let file = self.disk.open(Path::new(path), Open::Create).unwrap();
        file.set_len(0).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        self.disk.sync_all(Path::new("/")).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> Vec<u8> {
        crate::checkpoint::read_whole(&self.disk, Path::new(path)).unwrap().unwrap_or_else(|| panic!("no {path}"))
    }

    pub(super) fn cut(&self, path: &str, len: u64) {
        let file = self.disk.open(Path::new(path), Open::Write).unwrap();
        file.set_len(len).unwrap();
        file.sync().unwrap();
    }

    pub(super) fn flip(&self, path: &str, byte: u64) {
        self.disk.flip_bit(Path::new(path), byte, 3).unwrap();
    }

    pub(super) fn verdict(&self) -> Verdict {
        verify(&self.directory, |_| {}).unwrap().verdict()
    }

    /// What verifying says of the directory and the partitions, a line each.
    pub(super) fn said(&self) -> Vec<String> {
        let text = verify(&self.directory, |_| {}).unwrap().to_string();
        text.lines().filter(|line| line.starts_with("note") || line.starts_with("damage")).map(str::to_owned).collect()
    }

    /// The path of a segment of `t-0`, by number.
    pub(super) fn segment(number: u64) -> String {
        format!("/data/t-0/{:020}.meta", number * 25 * RECORD_BYTES)
    }

    /// The path of the index of a segment of `t-0`, by number.
    pub(super) fn index(number: u64) -> String {
        format!("/data/t-0/{:020}.index", number * 25 * RECORD_BYTES)
    }

    /// Runs `act` once for the count of its operations, then with the power cut after each of them, and gives every
    /// image that may be left.
    pub(super) fn cuts(make: impl Fn() -> Bench, act: impl Fn(&Bench), mut each: impl FnMut(Bench, &str)) {
        let whole = make();
        let before = whole.disk.operations();
        act(&whole);
        let operations = whole.disk.operations();
        assert!(operations > before, "something is done");
        for cut in before..=operations {
            let bench = make();
            bench.disk.cut_power_after(cut);
            act(&bench);
            for choice in [CrashChoice::Nothing, CrashChoice::Everything, CrashChoice::Random(cut)] {
                let image = Bench::on(bench.disk.crash_image(&mut choice.clone()));
                each(image, &format!("power cut after operation {cut} of {operations}, {choice:?}"));
            }
        }
    }
}

/// Keeps what came back last.
#[derive(Default)]
struct Last(Mutex<Vec<Outcome>>);

impl Outlet for Last {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        *self.0.lock() = sequenced.drain(..).flat_map(|submission| submission.outcomes).collect();
    }

    fn wake(&self, _ready: &[u32]) {}
}

/// A broker's part: the steps, driven one by one.
pub(super) struct Broker {
    pub log: Log,
    pub report: Report,
    sequencer: Sequencer,
    applier: Applier,
    checkpointer: Checkpointer,
    last: Arc<Last>,
    outlet: OutletId,
    now: u64,
    sent: u64,
}

impl Broker {
    pub(super) fn of(opened: Opened) -> Self {
        let Opened { log, sequencer, applier, checkpointer, report } = opened;
        let last = Arc::new(Last::default());
        let outlet = log.register(last.clone());
        Self { log, report, sequencer, applier, checkpointer, last, outlet, now: NOW, sent: 0 }
    }

    fn fill(&mut self) {
        self.put("t", 0, 80);
        self.put("t", 1, 5);
        let change = StateChange { space: 7, key: b"key".to_vec(), value: Some(b"value".to_vec()) };
        let change = Change::State { conditions: Vec::new(), changes: vec![change] };
        self.submit(Vec::new(), What::Change(Box::new(change)));
    }

    /// Puts so many messages of [`BODY_BYTES`] one by one, durably.
    pub(super) fn put(&mut self, topic: &str, index: u32, messages: usize) {
        for _ in 0..messages {
            self.sent += 1;
            let mut body = vec![0; BODY_BYTES];
            body[..8].copy_from_slice(&self.sent.to_be_bytes());
            body[8..].fill(u8::try_from(self.sent % 251).unwrap());
            self.put_body(topic, index, &body);
        }
    }

    /// The same on a disk that may fail.
    pub(super) fn try_put(&mut self, topic: &str, index: u32, messages: usize) {
        for _ in 0..messages {
            self.sent += 1;
            self.send(topic, index, &[u8::try_from(self.sent % 251).unwrap(); BODY_BYTES]);
        }
    }

    pub(super) fn put_body(&mut self, topic: &str, index: u32, body: &[u8]) {
        self.send(topic, index, body);
        assert!(matches!(self.last.0.lock()[..], [Outcome::Appended { .. }]), "{:?}", self.last.0.lock());
    }

    fn send(&mut self, topic: &str, index: u32, body: &[u8]) {
        let settings = Bench::options().settings;
        let partition = self.log.create_partition(topic, index, None, settings).unwrap();
        let mut bytes = Vec::new();
        record::encode(&mut bytes, 0, 0, body);
        let append = Append { partition, records: 0..bytes.len(), count: 1, producer: None };
        self.submit(bytes, What::Append(append));
    }

    pub(super) fn submit(&mut self, bytes: Vec<u8>, what: What) {
        let items = vec![Item { tag: 0, what }];
        let outlet = self.outlet;
        let submission = Submission { outlet, token: 0, bytes, items, outcomes: Vec::new(), wait_durable: 0 };
        self.log.submit(Box::new(submission));
        self.now += 10;
        while self.log.closed().is_none() && self.sequencer.write_turn(self.now) == Wrote::LogFull {
            if !self.try_checkpoint() {
                return;
            }
        }
        self.sequencer.sync();
        self.applier.step(self.now);
        while self.log.shared().ring.fill_rest().unwrap_or(false) {}
        if self.sequencer.checkpoint_is_due(NOW) {
            self.try_checkpoint();
        }
    }

    pub(super) fn checkpoint(&mut self) {
        assert!(self.try_checkpoint());
    }

    pub(super) fn try_checkpoint(&mut self) -> bool {
        let snapshot = self.sequencer.checkpoint(self.now);
        snapshot.is_some_and(|snapshot| self.checkpointer.run(snapshot, false, self.now).is_ok())
    }

    pub(super) fn stop(mut self) -> Stopped {
        stop_steps(&mut self.sequencer, &mut self.applier, &self.checkpointer, self.now)
    }

    /// Messages kept and where the partition begins and ends.
    pub(super) fn bounds(&self, topic: &str, index: u32) -> Option<(u64, u64, u64)> {
        let bounds = self.log.partition(topic, index)?.bounds(self.log.settled());
        Some((bounds.messages, bounds.first, bounds.end))
    }
}

/// A disk on which nothing can be renamed into or out of a folder: it is another file system's.
#[derive(Debug)]
pub(super) struct TwoFileSystems(pub FaultyDisk, pub PathBuf);

impl Disk for TwoFileSystems {
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if from.starts_with(&self.1) == to.starts_with(&self.1) {
            return self.0.rename(from, to);
        }
        Err(io::ErrorKind::CrossesDevices.into())
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.0.open(path, how)
    }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.0.metadata(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        self.0.list(folder)
    }
    fn create_dir(&self, folder: &Path) -> io::Result<()> {
        self.0.create_dir(folder)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        self.0.remove_dir(folder)
    }
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.0.sync_dir(folder)
    }
    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.0.sync_all(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.0.space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.0.lock(path)
    }
}
