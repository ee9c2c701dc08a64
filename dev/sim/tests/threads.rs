//! The same directory driven by its own threads, with producers, readers, trims and deletions at once: what the stepwise
//! simulator can't interleave. Nothing here depends on time; how the threads meet differs from run to run.

use metaq_disk::{CrashChoice, FaultyDisk, read_exact_at};
use metaq_log::{
    Append, Change, Disposal, Durability, Found, Geometry, Item, Log, Options, Outcome, Outlet, PartitionSettings,
    PerformError, Read, Refusal, Settled, Stopped, Submission, What,
};
use metaq_protocol::record::{self, Record, Walk};
use metaq_sim::Random;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NOW: u64 = 1_800_000_000_000;
const LIMIT: Duration = Duration::from_secs(60);

fn options() -> Options {
    let mut options = Options::new("/log", "/data");
    options.ring = Geometry { files: 3, file_bytes: 64 * 1024 };
    options.apply_after = Duration::from_millis(1);
    options.files_max = 8;
    options
}

fn settings(random: &mut Random) -> PartitionSettings {
    let durability = *random.pick(&[Durability::Fsync, Durability::Os]);
    PartitionSettings { durability, segment_bytes_max: random.within(2000..8000) }
}

/// One producer's way back.
#[derive(Default)]
struct Inbox {
    #[expect(clippy::vec_box, reason = "as they are handed over")]
    delivered: Mutex<Vec<Box<Submission>>>,
    changed: Condvar,
}

impl Outlet for Inbox {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        self.delivered.lock().append(sequenced);
        self.changed.notify_all();
    }

    fn wake(&self, _ready: &[u32]) {
        drop(self.delivered.lock());
        self.changed.notify_all();
    }
}

impl Inbox {
    /// The outcome of what was submitted, once it is settled.
    fn wait(&self, log: &Log) -> Outcome {
        let mut delivered = self.delivered.lock();
        loop {
            let settled = |one: &Submission| one.wait_durable <= log.settled().durable;
            if delivered.first().is_some_and(|one| settled(one)) {
                return delivered.remove(0).outcomes.remove(0);
            }
            assert!(!self.changed.wait_for(&mut delivered, LIMIT).timed_out(), "no answer within {LIMIT:?}");
        }
    }
}

type Acknowledged = BTreeMap<(u32, u64), Vec<u8>>;

/// Sends `count` messages to random partitions; gives what was acknowledged, by partition number and position.
fn produce(log: &Log, seed: u64, count: usize) -> Acknowledged {
    let mut random = Random::new(seed);
    let inbox = Arc::new(Inbox::default());
    let outlet = log.register(Arc::clone(&inbox) as Arc<dyn Outlet>);
    let mut acknowledged = BTreeMap::new();
    while acknowledged.len() < count {
        let index = u32::try_from(random.below(3)).expect("few");
        let settings = settings(&mut random);
        // One that is being deleted can't be made yet.
        let Ok(partition) = log.create_partition("t", index, None, settings) else { continue };
        let number = partition.number;
        let len = random.below(900);
        let body = random.bytes(len);
        let mut bytes = Vec::new();
        record::encode(&mut bytes, 0, 0, &body);
        let append = Append { partition, records: 0..bytes.len(), count: 1, producer: None };
        let items = vec![Item { tag: 0, what: What::Append(append) }];
        log.submit(Box::new(Submission { outlet, token: 0, bytes, items, outcomes: Vec::new(), wait_durable: 0 }));
        match inbox.wait(log) {
            Outcome::Appended { position, lsn, class, .. } => {
                let settled = log.settled();
                assert!(settled.covers(lsn, class), "{lsn} {class:?} at {settled:?}");
                acknowledged.insert((number, position), body);
            }
            Outcome::Refused(Refusal::PartitionDeleted | Refusal::LogFull) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    acknowledged
}

/// Trims, deletes and archives at random until it is told to stop.
fn prune(log: &Log, seed: u64, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Acquire) {
        let Some(partition) = log.partition("t", u32::try_from(random.below(3)).expect("few")) else { continue };
        let change = if random.chance(1, 12) {
            Change::Delete(partition)
        } else {
            let Ok(segments) = log.segments(&partition) else { continue };
            if segments.is_empty() {
                continue;
            }
            let disposal = *random.pick(&[Disposal::Delete, Disposal::Archive, Disposal::ArchiveZip]);
            let Ok(change) = log.trim(&partition, random.pick(&segments).start, disposal) else { continue };
            change
        };
        match log.perform(vec![change], LIMIT) {
            Ok(_) => {}
            Err(PerformError::Refused(
                Refusal::PartitionDeleted | Refusal::NoSegmentThere { .. } | Refusal::LogFull,
            )) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Follows all partitions until it is told to stop: every record is whole, ids grow.
fn consume(log: &Log, stop: &AtomicBool) -> usize {
    let mut places: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
    let mut seen = 0;
    while !stop.load(Ordering::Acquire) {
        for partition in log.partitions() {
            let (at, last) = places.entry(partition.number).or_insert((0, 0));
            match log.read(&partition, *at, 6000, log.settled()).expect("a reader isn't disturbed by trims") {
                Read::Slice(slice) => {
                    let mut bytes = vec![0; slice.len];
                    read_exact_at(&*slice.file, &mut bytes, slice.offset).expect("a slice stays readable");
                    let mut records = Walk::new(&bytes);
                    for Record { id, .. } in records.by_ref().map(|found| found.record) {
                        assert!(id > *last, "{id} after {last} in {partition:?}");
                        (*last, seen) = (id, seen + 1);
                    }
                    let read = records.position();
                    assert!(read > 0 || bytes.len() == 6000, "nothing whole at {at} in {partition:?}");
                    *at += read as u64;
                }
                Read::Below { first } => *at = (*at).max(first),
                Read::AtEnd => {}
                read => panic!("{read:?} at {at} in {partition:?}"),
            }
        }
    }
    seen
}

fn bodies_from(log: &Log, acknowledged: &Acknowledged, settled: Settled) {
    for ((number, position), body) in acknowledged {
        // A partition that was deleted took its messages along.
        let Some(partition) = log.partition_numbered(*number) else { continue };
        match log.read(&partition, *position, usize::MAX, settled).expect("the disk is well") {
            Read::Slice(slice) => {
                let mut bytes = vec![0; record::HEADER_BYTES + body.len()];
                read_exact_at(&*slice.file, &mut bytes, slice.offset).expect("the slice can be read");
                assert_eq!(&bytes[record::HEADER_BYTES..], body, "at {position} in {partition:?}");
            }
            Read::Below { first } => assert!(*position < first),
            read => panic!("{read:?} at {position} in {partition:?}"),
        }
    }
}

#[test]
fn nothing_is_lost_between_the_threads_of_a_directory() {
    for seed in 0..4 {
        let disk = FaultyDisk::new(seed);
        let opened = metaq_log::open(Arc::new(disk.clone()), options(), NOW).expect("the directory opens");
        let running = metaq_log::run(opened, Arc::new(|| NOW)).expect("threads can be started");
        let (log, stop) = (running.log().clone(), AtomicBool::new(false));
        let acknowledged = std::thread::scope(|scope| {
            let pruner = scope.spawn(|| prune(&log, seed, &stop));
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| consume(&log, &stop))).collect();
            let producers: Vec<_> = (0..3)
                .map(|n| {
                    let log = &log;
                    scope.spawn(move || produce(log, seed * 10 + n, 150))
                })
                .collect();
            let mut all = Acknowledged::new();
            for producer in producers {
                for (place, body) in producer.join().expect("the producer ends") {
                    assert_eq!(all.insert(place, body), None, "{place:?} was given twice");
                }
            }
            stop.store(true, Ordering::Release);
            pruner.join().expect("the pruner ends");
            let seen: usize = readers.into_iter().map(|reader| reader.join().expect("the reader ends")).sum();
            assert!(seen > 0);
            all
        });
        bodies_from(&log, &acknowledged, log.settled());
        drop(log);
        let stops = seed % 2 == 0;
        let disk = if stops {
            assert_eq!(running.stop(), Stopped::Clean, "seed {seed}");
            disk.crash_image(&mut CrashChoice::Nothing)
        } else {
            let killed = disk.crash_image(&mut CrashChoice::Everything);
            running.stop();
            killed
        };
        let opened = metaq_log::open(Arc::new(disk), options(), NOW).expect("the directory opens");
        assert_eq!(opened.report.clean, stops, "seed {seed}");
        // A kill may come between the write of a segment and that of the turn.
        let harmless = |found: &Found| matches!(found, Found::Shorter { .. }) && !stops;
        let strange = opened.report.findings.iter().find(|finding| !harmless(&finding.what));
        assert_eq!(strange, None, "seed {seed}");
        bodies_from(&opened.log, &acknowledged, opened.log.settled());
    }
}
