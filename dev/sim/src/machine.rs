//! A simulated machine: stopped with its disk ([`Machine`]), or running the steps of a data directory ([`Rig`]).

use crate::check;
use crate::history::History;
use crate::picture::Name;
use crate::profile::Profile;
use crate::random::Random;
use crate::watched::{Crash, Following, Recorder, Watched};
use metaq_disk::{Disk, FaultyDisk, File};
use metaq_log::{Applier, Checkpointer, Log, Opened, Outlet, OutletId, Report, Sequencer, Snapshot, Submission, Wrote};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Actions that are remembered for who reads how a run went wrong.
const ACTIONS: usize = 60;

/// What is known of how a directory was left.
#[derive(Debug, Clone)]
pub struct Left {
    /// How it was stopped; `None`: cleanly.
    pub crash: Option<Crash>,
    /// Entries that it may be brought back to.
    pub lsns: RangeInclusive<u64>,
    /// The last entry that a power cut keeps even then.
    pub synced: u64,
    /// The highest id that somebody knew.
    pub known_id: i64,
    /// The power went before, during this opening or an interrupted one: what wasn't synced may be gone.
    pub power_was_cut: bool,
    /// It may have been marked as stopped cleanly.
    pub may_be_clean: bool,
}

impl Left {
    /// Stopped cleanly after this entry.
    #[must_use]
    pub fn clean(lsn: u64) -> Self {
        Self { crash: None, lsns: lsn..=lsn, synced: lsn, known_id: 0, power_was_cut: false, may_be_clean: true }
    }
}

/// A machine that is off.
#[derive(Clone)]
pub struct Machine {
    /// Its disk.
    pub disk: FaultyDisk,
    /// What the run is like.
    pub profile: Profile,
    /// What was asked and answered.
    pub history: History,
    /// The clock, milliseconds since 1970.
    pub now: u64,
    /// What was done last.
    pub actions: VecDeque<String>,
}

/// A machine that runs.
pub struct Rig {
    /// The machine.
    pub machine: Machine,
    /// Takes images, if anything does.
    pub recorder: Option<Following>,
    /// The handle.
    pub log: Log,
    /// Orders, writes and syncs.
    pub sequencer: Sequencer,
    /// Writes segments.
    pub applier: Applier,
    /// Makes checkpoints.
    pub checkpointer: Checkpointer,
    /// A checkpoint that was begun.
    pub snapshot: Option<Snapshot>,
    /// Where submissions go back to.
    pub outlet: OutletId,
    /// The disk failed or filled up since the directory was opened: things may be refused.
    pub strained: bool,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) deleted: BTreeMap<u32, u64>,
    pub(crate) sent: u64,
    /// Per producer and partition: epoch and next sequence.
    pub(crate) producers: BTreeMap<(u64, Name), (u32, i64)>,
    /// Where readers stand.
    pub(crate) readers: BTreeMap<Name, u64>,
    /// Slices that somebody still sends, with what they must hold.
    pub(crate) slices: Vec<(Arc<dyn File>, u64, Vec<u8>)>,
}

/// Takes submissions back.
#[derive(Default)]
pub(crate) struct Inbox {
    #[expect(clippy::vec_box, reason = "as they are handed over")]
    pub(crate) delivered: Mutex<Vec<Box<Submission>>>,
}

impl Outlet for Inbox {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        self.delivered.lock().append(sequenced);
    }

    fn wake(&self, _ready: &[u32]) {}
}

impl Machine {
    /// A machine with an empty disk.
    #[must_use]
    pub fn new(profile: Profile, seed: u64, now: u64) -> Self {
        let mut history = History::default();
        history.latest_time = now;
        Self { disk: FaultyDisk::new(seed), profile, history, now, actions: VecDeque::new() }
    }

    /// Remembers what is done.
    pub fn note(&mut self, action: impl Into<String>) {
        if self.actions.len() == ACTIONS {
            self.actions.pop_front();
        }
        self.actions.push_back(action.into());
    }

    /// Opens the directory and checks that it is as it must be.
    pub fn start(self, left: &Left, recorder: Option<Arc<Mutex<Recorder>>>) -> Result<Rig, String> {
        let (mut rig, report) = self.start_unchecked(recorder)?;
        rig.resume(left, &report)?;
        Ok(rig)
    }

    /// Opens the directory.
    pub fn start_unchecked(self, recorder: Option<Arc<Mutex<Recorder>>>) -> Result<(Rig, Report), String> {
        let disk: Arc<dyn Disk> = match &recorder {
            Some(recorder) => Arc::new(Watched::new(self.disk.clone(), Arc::clone(recorder))),
            None => Arc::new(self.disk.clone()),
        };
        let opened = metaq_log::open(disk, self.profile.options.clone(), self.now);
        let Opened { log, sequencer, applier, checkpointer, report } =
            opened.map_err(|error| format!("opening failed: {error}"))?;
        let inbox = Arc::new(Inbox::default());
        let outlet = log.register(Arc::clone(&inbox) as Arc<dyn Outlet>);
        let recorder = recorder.map(|recorder| Following::new(recorder, log.clone()));
        let rig = Rig {
            machine: self,
            recorder,
            log,
            sequencer,
            applier,
            checkpointer,
            snapshot: None,
            outlet,
            strained: false,
            inbox,
            deleted: BTreeMap::new(),
            sent: 0,
            producers: BTreeMap::new(),
            readers: BTreeMap::new(),
            slices: Vec::new(),
        };
        Ok((rig, report))
    }
}

impl Rig {
    /// Finds out which entry the directory was brought back to, and checks everything against that.
    fn resume(&mut self, left: &Left, report: &Report) -> Result<(), String> {
        let lsn = self.log.settled().durable;
        if !left.lsns.contains(&lsn) {
            return Err(format!("it came back as of entry {lsn}, but only {:?} are possible", left.lsns));
        }
        let picture = self.machine.history.picture(lsn);
        let picture = picture.ok_or_else(|| format!("it came back as of entry {lsn}, where no turn ends"))?;
        self.machine.history.rewind(lsn, picture);
        if left.crash.is_some() {
            self.machine.history.known_id = left.known_id;
        }
        check::opened(self, left, report)?;
        let mut settings = Random::new(lsn ^ self.machine.now);
        for partition in self.log.partitions() {
            partition.configure(self.machine.profile.draw_settings(&mut settings));
        }
        Ok(())
    }

    /// What the history says of a partition, or why not.
    pub(crate) fn name_of(partition: &metaq_log::Partition) -> Name {
        (Arc::clone(&partition.topic), partition.index)
    }

    /// Writes everything that was submitted, and makes the checkpoint that was begun.
    pub fn finish_queue(&mut self) -> Result<(), String> {
        self.end_checkpoint()?;
        while self.write_turn()? != Wrote::Nothing {}
        Ok(())
    }

    /// Stops everything at once: what is left is on the disk.
    #[must_use]
    pub fn halt(self) -> Machine {
        self.machine
    }

    /// Stops cleanly.
    pub fn stop(mut self) -> Result<Machine, String> {
        let now = self.machine.now;
        let stopped = metaq_log::stop_steps(&mut self.sequencer, &mut self.applier, &self.checkpointer, now);
        if stopped != metaq_log::Stopped::Clean {
            return Err("a clean stop failed on a disk without faults".to_owned());
        }
        check::stopped(&self.machine)?;
        Ok(self.machine)
    }
}
