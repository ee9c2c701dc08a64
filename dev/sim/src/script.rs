//! Plain calls for tests that say each step by hand. They panic where a test would.

use crate::machine::{Machine, Rig};
use crate::profile::Profile;
use crate::random::Random;
use metaq_disk::{CrashChoice, FaultyDisk, read_exact_at};
use metaq_log::{
    Append, Change, Durability, Geometry, Item, Options, Outcome, Partition, PartitionSettings, ProducerBatch, Read,
    Refusal, Submission, What, Wrote,
};
use metaq_protocol::record::{self, HEADER_BYTES, Header};
use std::sync::Arc;
use std::time::Duration;

/// When scripts begin, milliseconds since 1970.
pub const START: u64 = 1_700_000_000_000;

impl Machine {
    /// A machine for scripts: an empty disk, a commit log of 4 × 64 KiB, and nothing happens by itself.
    #[must_use]
    pub fn scripted() -> Self {
        let mut profile = Profile::draw(&mut Random::new(1));
        let options = Options {
            ring: Geometry { files: 4, file_bytes: 64 * 1024 },
            turn_bytes: 16 * 1024,
            apply_after: Duration::from_secs(1),
            ..Options::new(crate::LOG_PATH, crate::DATA_PATH)
        };
        profile.options = options;
        profile.forgets_producers = false;
        Self::new(profile, 1, START)
    }

    /// Opens the directory.
    ///
    /// # Panics
    /// If it can't be opened.
    #[must_use]
    pub fn open(self) -> Rig {
        let mut rig = self.start_unchecked(None).expect("the directory opens").0;
        let lsn = rig.log.settled().durable;
        if let Some(picture) = rig.machine.history.picture(lsn) {
            rig.machine.history.rewind(lsn, picture);
        }
        rig
    }

    /// This machine with another disk.
    #[must_use]
    pub fn on(self, disk: FaultyDisk) -> Self {
        Self { disk, ..self }
    }
}

impl Rig {
    /// The partition, created if need be: `durability`, segments of 4,000 bytes.
    ///
    /// # Panics
    /// If it can't be created.
    pub fn partition_of(&self, topic: &str, index: u32, durability: Durability) -> Arc<Partition> {
        let settings = PartitionSettings { durability, segment_bytes_max: 4000 };
        let partition = self.log.create_partition(topic, index, None, settings).expect("the partition can be created");
        partition.configure(settings);
        partition
    }

    /// Writes one turn with a batch of messages; doesn't sync.
    ///
    /// # Panics
    /// If the answer contradicts the history.
    pub fn put(&mut self, partition: &Arc<Partition>, bodies: &[&[u8]]) -> Outcome {
        self.put_numbered(partition, bodies, None)
    }

    /// As [`Rig::put`], from a producer that numbers its batches.
    ///
    /// # Panics
    /// If the answer contradicts the history.
    pub fn put_numbered(
        &mut self,
        partition: &Arc<Partition>,
        bodies: &[&[u8]],
        producer: Option<ProducerBatch>,
    ) -> Outcome {
        self.submit_numbered(partition, bodies, producer);
        self.answer()
    }

    /// As [`Rig::put`], of what must be refused for what the disk did.
    ///
    /// # Panics
    /// If it isn't.
    pub fn put_refused(&mut self, partition: &Arc<Partition>) -> Refusal {
        self.submit_put(partition, &[b"refused"]);
        self.sequencer.write_turn(self.machine.now);
        self.put_refused_before()
    }

    /// Why what was put last was refused.
    ///
    /// # Panics
    /// If it wasn't.
    pub fn put_refused_before(&mut self) -> Refusal {
        let delivered = self.inbox.delivered.lock().pop().expect("it is answered");
        match delivered.outcomes.into_iter().next() {
            Some(Outcome::Refused(why)) => why,
            outcome => panic!("it should be refused: {outcome:?}"),
        }
    }

    /// Stops cleanly a directory that isn't as the history says.
    ///
    /// # Panics
    /// If the stop isn't clean.
    #[must_use]
    pub fn stop_unchecked(mut self) -> Machine {
        let now = self.machine.now;
        let stopped = metaq_log::stop_steps(&mut self.sequencer, &mut self.applier, &self.checkpointer, now);
        assert_eq!(stopped, metaq_log::Stopped::Clean);
        self.halt()
    }

    /// Submits a batch of messages; writes no turn.
    pub fn submit_put(&mut self, partition: &Arc<Partition>, bodies: &[&[u8]]) {
        self.submit_numbered(partition, bodies, None);
    }

    fn submit_numbered(&mut self, partition: &Arc<Partition>, bodies: &[&[u8]], producer: Option<ProducerBatch>) {
        let mut bytes = Vec::new();
        bodies.iter().for_each(|body| record::encode(&mut bytes, 0, 0, body));
        let count = u32::try_from(bodies.len()).expect("few");
        let append = Append { partition: Arc::clone(partition), records: 0..bytes.len(), count, producer };
        self.ask(What::Append(append), bytes);
    }

    /// Writes one turn with a change; doesn't sync.
    ///
    /// # Panics
    /// If the answer contradicts the history.
    pub fn change(&mut self, change: Change) -> Outcome {
        self.ask(What::Change(Box::new(change)), Vec::new());
        self.answer()
    }

    fn ask(&self, what: What, bytes: Vec<u8>) {
        self.log.submit(Box::new(Submission {
            outlet: self.outlet,
            token: 0,
            bytes,
            items: vec![Item { tag: 0, what }],
            outcomes: Vec::new(),
            wait_durable: 0,
        }));
    }

    /// Writes a turn and gives the outcome of the last thing asked.
    fn answer(&mut self) -> Outcome {
        while self.sequencer.write_turn(self.machine.now) == Wrote::LogFull {
            self.fill().expect("the disk is well");
            self.checkpoint();
        }
        let delivered = self.inbox.delivered.lock().last().and_then(|last| last.outcomes.first().cloned());
        if self.log.closed().is_some() {
            self.inbox.delivered.lock().clear();
        } else {
            self.absorb().expect("the answer is that of the history");
        }
        delivered.expect("what is written in a turn is delivered")
    }

    /// A whole checkpoint.
    ///
    /// # Panics
    /// If it fails.
    pub fn checkpoint(&mut self) {
        self.begin_checkpoint().expect("the log is open");
        self.end_checkpoint().expect("the checkpoint succeeds");
    }

    /// Goes on to a later time.
    pub fn wait(&mut self, ms: u64) {
        self.machine.now += ms;
        self.machine.history.latest_time = self.machine.history.latest_time.max(self.machine.now);
    }

    /// The bodies of all messages that a reader sees.
    ///
    /// # Panics
    /// If reading fails or what is read are no records.
    #[must_use]
    pub fn bodies(&self, partition: &Partition) -> Vec<Vec<u8>> {
        let settled = self.log.settled();
        let mut at = partition.bounds(settled).first;
        let mut bytes = Vec::new();
        while let Read::Slice(slice) = self.log.read(partition, at, usize::MAX, settled).expect("it can be read") {
            let start = bytes.len();
            bytes.resize(start + slice.len, 0);
            read_exact_at(&*slice.file, &mut bytes[start..], slice.offset).expect("the slice can be read");
            at += slice.len as u64;
        }
        let mut bodies = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let len = usize::try_from(Header::decode(header).length).expect("a record");
            bodies.push(after[..len].to_vec());
            rest = &after[len..];
        }
        bodies
    }

    /// Stops everything at once and leaves what `choice` says.
    #[must_use]
    pub fn crash(self, mut choice: CrashChoice) -> Machine {
        let disk = self.machine.disk.crash_image(&mut choice);
        self.halt().on(disk)
    }
}
