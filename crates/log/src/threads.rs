//! Drives the steps of a data directory with three threads, and stops them.

use crate::applier::Applier;
use crate::checkpoint::{Checkpointer, Snapshot};
use crate::log::Log;
use crate::partition::Partition;
use crate::recovery::Opened;
use crate::sequencer::{Sequencer, Wrote};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The clock that a running log goes by: milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How long a step waits at most for something to do.
const IDLE: Duration = Duration::from_millis(500);
/// How long submissions wait for a checkpoint when the log is full.
const FULL_LIMIT: Duration = Duration::from_millis(1000);
/// How long the sequencer rests between looks at a full log.
const FULL_REST: Duration = Duration::from_millis(2);

/// The running threads of a data directory.
pub struct Running {
    log: Log,
    clock: Clock,
    stop: Arc<AtomicBool>,
    sequencer: JoinHandle<Sequencer>,
    applier: JoinHandle<Applier>,
    checkpoints: Arc<Checkpoints>,
    checkpointer: JoinHandle<Checkpointer>,
}

/// One snapshot on its way to a checkpoint.
#[derive(Default)]
struct Checkpoints {
    slot: Mutex<Slot>,
    changed: Condvar,
}

#[derive(Default)]
struct Slot {
    wanted: Option<Snapshot>,
    busy: bool,
    failed: Vec<Arc<Partition>>,
    stop: bool,
}

/// Starts the threads.
pub fn run(opened: Opened, clock: Clock) -> io::Result<Running> {
    let Opened { log, sequencer, applier, checkpointer, .. } = opened;
    let stop = Arc::new(AtomicBool::new(false));
    let checkpoints = Arc::new(Checkpoints::default());
    let spawn = |name: &str| Builder::new().name(format!("metaq-{name}"));
    let sequencer = {
        let (log, clock, stop, checkpoints) =
            (log.clone(), Arc::clone(&clock), Arc::clone(&stop), Arc::clone(&checkpoints));
        spawn("log").spawn(move || drive_sequencer(sequencer, &log, &clock, &stop, &checkpoints))?
    };
    let applier = {
        let (log, clock, stop) = (log.clone(), Arc::clone(&clock), Arc::clone(&stop));
        spawn("apply").spawn(move || drive_applier(applier, &log, &clock, &stop))?
    };
    let checkpointer = {
        let (clock, checkpoints) = (Arc::clone(&clock), Arc::clone(&checkpoints));
        spawn("checkpoint").spawn(move || drive_checkpointer(checkpointer, &clock, &checkpoints))?
    };
    Ok(Running { log, clock, stop, sequencer, applier, checkpoints, checkpointer })
}

fn drive_sequencer(
    mut sequencer: Sequencer,
    log: &Log,
    clock: &Clock,
    stop: &AtomicBool,
    checkpoints: &Checkpoints,
) -> Sequencer {
    let mut full_since: Option<Instant> = None;
    loop {
        let now = clock();
        let wrote = sequencer.write_turn(now);
        if sequencer.sync_is_due(now) {
            sequencer.sync();
        }
        checkpoints.offer(&mut sequencer, now);
        match wrote {
            Wrote::Turn => {
                full_since = None;
                let pause = sequencer.pause();
                if !pause.is_zero() {
                    std::thread::sleep(pause);
                }
            }
            Wrote::LogFull => {
                if full_since.get_or_insert_with(Instant::now).elapsed() > FULL_LIMIT {
                    sequencer.refuse_for_full_log();
                }
                log.shared().submitted.wait(FULL_REST);
            }
            Wrote::Nothing if stop.load(Ordering::Acquire) => return sequencer,
            Wrote::Nothing => {
                let until = sequencer.next_deadline().map_or(IDLE, |by| Duration::from_millis(by.saturating_sub(now)));
                log.shared().submitted.wait(until.min(IDLE));
            }
        }
    }
}

impl Checkpoints {
    /// Gives the checkpointer a snapshot if one is due and it has nothing to do.
    fn offer(&self, sequencer: &mut Sequencer, now: u64) {
        if !sequencer.checkpoint_is_due(now) {
            return;
        }
        let failed = {
            let mut slot = self.slot.lock();
            if slot.busy {
                return;
            }
            std::mem::take(&mut slot.failed)
        };
        sequencer.return_dirty(failed);
        let Some(snapshot) = sequencer.checkpoint(now) else { return };
        let mut slot = self.slot.lock();
        (slot.wanted, slot.busy) = (Some(snapshot), true);
        self.changed.notify_all();
    }
}

fn drive_applier(mut applier: Applier, log: &Log, clock: &Clock, stop: &AtomicBool) -> Applier {
    while !stop.load(Ordering::Acquire) {
        let now = clock();
        let due = applier.step(now);
        let limit = Duration::from_millis(due.saturating_sub(clock())).min(IDLE);
        if !limit.is_zero() {
            log.shared().apply_signal.wait(limit);
        }
    }
    applier
}

fn drive_checkpointer(checkpointer: Checkpointer, clock: &Clock, checkpoints: &Checkpoints) -> Checkpointer {
    // The rest of the commit log is filled while the first file is in use.
    while checkpointer.fill_log().is_ok_and(|more| more) {}
    loop {
        let snapshot = {
            let mut slot = checkpoints.slot.lock();
            loop {
                if let Some(snapshot) = slot.wanted.take() {
                    break snapshot;
                }
                if slot.stop {
                    return checkpointer;
                }
                checkpoints.changed.wait(&mut slot);
            }
        };
        // There may not have been room.
        while checkpointer.fill_log().is_ok_and(|more| more) {}
        let failed = checkpointer.run(snapshot, false, clock()).err().unwrap_or_default();
        let rest = !failed.is_empty();
        if rest {
            std::thread::sleep(Duration::from_millis(200));
        }
        let mut slot = checkpoints.slot.lock();
        (slot.busy, slot.failed) = (false, failed);
    }
}

/// How a stop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything is in the segments: the next start, or an original broker, finds a clean directory.
    Clean,
    /// The log must be replayed at the next start; nothing is lost.
    ToBeRecovered,
}

impl Running {
    /// The handle.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Writes what was submitted, makes a last checkpoint, marks the directory as clean, and ends the threads.
    pub fn stop(self) -> Stopped {
        self.stop.store(true, Ordering::Release);
        self.log.shared().submitted.raise();
        self.log.shared().apply_signal.raise();
        {
            let mut slot = self.checkpoints.slot.lock();
            slot.stop = true;
            self.checkpoints.changed.notify_all();
        }
        let (Ok(mut sequencer), Ok(mut applier), Ok(checkpointer)) =
            (self.sequencer.join(), self.applier.join(), self.checkpointer.join())
        else {
            tracing::error!("a thread of the log ended with a panic; the log will be replayed at the next start");
            return Stopped::ToBeRecovered;
        };
        let (failed, offered) = {
            let mut slot = self.checkpoints.slot.lock();
            (std::mem::take(&mut slot.failed), slot.wanted.take())
        };
        sequencer.return_dirty(failed);
        // The checkpointer may have ended before the sequencer offered it a last snapshot: its partitions are still to
        // be written.
        if let Some(snapshot) = offered {
            sequencer.return_dirty(snapshot.dirty);
        }
        stop_steps(&mut sequencer, &mut applier, &checkpointer, (self.clock)())
    }
}

/// The last steps of a clean stop: what a driver without threads calls too.
pub fn stop_steps(sequencer: &mut Sequencer, applier: &mut Applier, checkpointer: &Checkpointer, now: u64) -> Stopped {
    sequencer.sync();
    applier.step(now);
    let Some(snapshot) = sequencer.checkpoint(now) else { return Stopped::ToBeRecovered };
    match checkpointer.run(snapshot, true, now) {
        Ok(()) => Stopped::Clean,
        Err(_) => Stopped::ToBeRecovered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::partition::Read;
    use crate::recovery::open;
    use crate::submission::{Append, Change, Item, Outlet, Submission, What};
    use metaq_disk::{Disk, FaultyDisk};

    struct Nowhere;

    impl Outlet for Nowhere {
        fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
            sequenced.clear();
        }

        fn wake(&self, _ready: &[u32]) {}
    }

    fn running(disk: &FaultyDisk) -> Running {
        let mut options = Options::new("/log", "/data");
        options.ring.file_bytes = 1 << 20;
        options.apply_after = Duration::from_secs(60);
        let opened = open(Arc::new(disk.clone()) as Arc<dyn Disk>, options, 1_800_000_000_000).unwrap();
        run(opened, Arc::new(|| 1_800_000_000_000)).unwrap()
    }

    /// The sequencer may offer a snapshot when the checkpointer has ended already.
    #[test]
    fn a_clean_stop_has_everything_in_its_segments_though_a_checkpoint_was_about_to_begin() {
        for round in 0..200 {
            let disk = FaultyDisk::new(round);
            let before = running(&disk);
            let log = before.log().clone();
            let settings = log.options().settings;
            let partition = log.create_partition("t", 0, None, settings).unwrap();
            log.perform(vec![Change::Create(Arc::clone(&partition))], Duration::from_secs(20)).unwrap();
            let mut bytes = Vec::new();
            metaq_protocol::record::encode(&mut bytes, 0, 0, b"hello");
            let append = Append { partition, records: 0..bytes.len(), count: 1, producer: None };
            log.submit(Box::new(Submission {
                outlet: log.register(Arc::new(Nowhere)),
                token: 1,
                bytes,
                items: vec![Item { tag: 1, what: What::Append(append) }],
                outcomes: Vec::new(),
                wait_durable: 0,
            }));
            log.perform(vec![Change::Barrier], Duration::from_secs(20)).unwrap();
            log.want_checkpoint();
            drop(log);
            assert_eq!(before.stop(), Stopped::Clean);
            let after = running(&disk);
            let partition = after.log().partition("t", 0).unwrap();
            let read = after.log().read(&partition, 0, 100, after.log().settled()).unwrap();
            assert!(matches!(read, Read::Slice(ref slice) if slice.len == 25), "round {round}: {read:?}");
            assert_eq!(after.stop(), Stopped::Clean);
        }
    }
}
