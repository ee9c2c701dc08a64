//! "Raw": the log driven without sockets, in a closed loop, on the real disk. What a broker is measured against.

use hdrhistogram::Histogram;
use metaq_disk::RealDisk;
use metaq_log::{
    Append, Durability, Item, Log, Options, Outcome, Outlet, OutletId, Partition, PartitionSettings, Submission, What,
    open, run,
};
use metaq_protocol::record;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One measured shape.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Shape {
    /// Messages in flight.
    pub in_flight: usize,
    /// Submissions that they are spread over, as connections would.
    pub groups: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Partitions, chosen at random.
    pub partitions: u32,
    /// Synced before acknowledged.
    pub durable: bool,
}

/// What a shape reached.
#[derive(Debug, Clone, Serialize)]
pub struct Reached {
    /// The shape.
    pub shape: Shape,
    /// Messages a second.
    pub rate: f64,
    /// Microseconds, median.
    pub p50_us: u64,
    /// Microseconds, 99th percentile.
    pub p99_us: u64,
    /// Messages a sync.
    pub per_sync: f64,
    /// CPU of the whole process, microseconds a message.
    pub cpu_us: f64,
}

/// Each in the box in which it goes to the log and comes back.
type Submissions = Vec<Box<Submission>>;

#[derive(Default)]
struct Returned {
    sequenced: Mutex<(Submissions, bool)>,
    changed: Condvar,
}

impl Outlet for Returned {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        self.sequenced.lock().0.append(sequenced);
    }
    fn wake(&self, _ready: &[u32]) {
        self.sequenced.lock().1 = true;
        self.changed.notify_one();
    }
}

struct Loop {
    log: Log,
    outlet: OutletId,
    partitions: Vec<Arc<Partition>>,
    record: Vec<u8>,
    random: u64,
}

impl Loop {
    /// Creates all partitions and waits until their files exist: that is no part of what is measured.
    fn touch(&mut self, returned: &Returned) {
        let creations =
            self.partitions.iter().map(|partition| metaq_log::Change::Create(Arc::clone(partition))).collect();
        self.log.perform(creations, Duration::from_secs(60)).expect("partitions are created");
        let lsn = self.log.settled().durable;
        while self.log.gauges().checkpoint_lsn < lsn {
            self.log.want_checkpoint();
            std::thread::sleep(Duration::from_millis(20));
        }
        *returned.sequenced.lock() = (Vec::new(), false);
    }

    fn submit(&mut self, messages: usize) {
        let mut submission = Box::new(Submission {
            outlet: self.outlet,
            token: 0,
            bytes: Vec::with_capacity(messages * self.record.len()),
            items: Vec::with_capacity(messages),
            outcomes: Vec::with_capacity(messages),
            wait_durable: 0,
        });
        for _ in 0..messages {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let at = usize::try_from(self.random % self.partitions.len() as u64).expect("an index");
            let start = submission.bytes.len();
            submission.bytes.extend_from_slice(&self.record);
            let append = Append {
                partition: Arc::clone(&self.partitions[at]),
                records: start..submission.bytes.len(),
                count: 1,
                producer: None,
            };
            submission.items.push(Item { tag: 0, what: What::Append(append) });
        }
        self.log.submit(submission);
    }
}

/// Runs one shape for `time` in a fresh directory under `folder`.
pub fn measure(folder: &Path, shape: Shape, time: Duration) -> Reached {
    let clock: metaq_log::Clock = Arc::new(crate::now_ms);
    let options = Options::new(folder.join("log"), folder.join("data"));
    let opened = open(Arc::new(RealDisk), options, clock()).expect("a fresh directory opens");
    let running = run(opened, clock).expect("threads start");
    let log = running.log().clone();
    let returned = Arc::new(Returned::default());
    let outlet = log.register(Arc::clone(&returned) as Arc<dyn Outlet>);
    let durability = if shape.durable { Durability::Fsync } else { Durability::Os };
    let settings = PartitionSettings { durability, segment_bytes_max: 1 << 30 };
    let partitions =
        (0..shape.partitions).map(|index| log.create_partition("raw", index, None, settings).expect("a partition"));
    let mut body = vec![0; shape.bytes];
    body.iter_mut().enumerate().for_each(|(at, byte)| *byte = u8::try_from(at % 251).expect("below 251"));
    let mut record = Vec::new();
    record::encode(&mut record, 0, 0, &body);
    let mut driver =
        Loop { outlet, partitions: partitions.collect(), record, random: 0x9e37_79b9_7f4a_7c15, log: log.clone() };
    let mut times = Histogram::<u64>::new(3).expect("three digits");
    let (mut done, mut syncs, mut cpu, mut warm) = (0u64, 0, 0.0, false);
    driver.touch(&returned);
    let (mut started, mut until) = (Instant::now(), Instant::now() + time / 4);
    let mut sent = std::collections::VecDeque::new();
    for _ in 0..shape.groups {
        driver.submit(shape.in_flight / shape.groups);
        sent.push_back(Instant::now());
    }
    let usage = || crate::process::Usage::of(std::process::id());
    let mut waiting: std::collections::VecDeque<Box<Submission>> = std::collections::VecDeque::new();
    let sync_count = || log.statistics().syncs.load(std::sync::atomic::Ordering::Relaxed);
    loop {
        {
            let mut slot = returned.sequenced.lock();
            while !slot.1 {
                returned.changed.wait_for(&mut slot, Duration::from_millis(100));
            }
            slot.1 = false;
            waiting.extend(slot.0.drain(..));
        }
        let now = Instant::now();
        let durable = log.settled().durable;
        let mut released = Vec::new();
        while waiting.front().is_some_and(|submission| submission.wait_durable <= durable) {
            let submission = waiting.pop_front().expect("there is a front");
            assert!(
                submission.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Appended { .. })),
                "{:?}",
                submission.outcomes.first()
            );
            released.push(submission.outcomes.len());
            let began = sent.pop_front().expect("sent before");
            let micros = u64::try_from((now - began).as_micros()).unwrap_or(u64::MAX);
            times.record_n(micros, submission.outcomes.len() as u64).expect("in range");
        }
        done += released.iter().sum::<usize>() as u64;
        if now >= until {
            if warm {
                break;
            }
            warm = true;
            (started, until) = (now, now + time);
            (done, syncs, cpu) = (0, sync_count(), usage().cpu_seconds);
            times.reset();
        }
        for messages in released {
            driver.submit(messages);
            sent.push_back(now);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let reached = Reached {
        shape,
        rate: done as f64 / seconds,
        p50_us: times.value_at_quantile(0.5),
        p99_us: times.value_at_quantile(0.99),
        per_sync: done as f64 / (sync_count() - syncs).max(1) as f64,
        cpu_us: (usage().cpu_seconds - cpu) * 1e6 / done.max(1) as f64,
    };
    running.stop();
    reached
}
