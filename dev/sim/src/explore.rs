//! Runs a directory at random, and at every operation of its disk asks what a crash there leaves: each image is opened,
//! checked, at times worked on, and at times crashed again while it is recovered.

use crate::history::{History, Seen};
use crate::machine::{Left, Machine, Rig};
use crate::profile::{Profile, ROOM};
use crate::random::Random;
use crate::watched::{Crash, Cut, Following, Image, Recorder};
use metaq_disk::{CrashChoice, Fault, FaultyDisk};
use metaq_log::Settled;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// When a run begins, milliseconds since 1970.
const START: u64 = 1_700_000_000_000;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Things done in a run.
    pub steps: usize,
    /// Random images at each operation.
    pub randoms: u64,
    /// In one of so many recoveries everything is crashed again at each operation.
    pub again_in: u64,
    /// In one of so many the work goes on, and crashes again.
    pub go_on_in: u64,
}

impl Effort {
    /// Enough for every test run.
    pub const QUICK: Self = Self { steps: 120, randoms: 1, again_in: 60, go_on_in: 12 };
    /// For long runs.
    pub const SOAK: Self = Self { steps: 200, randoms: 2, again_in: 40, go_on_in: 10 };
}

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Moments at which everything stopped.
    pub points: u64,
    /// Disks that were opened after one.
    pub recoveries: u64,
    /// Operations of the disks of the runs themselves, to compare runs by.
    pub operations: u64,
    /// Clean stops.
    pub stops: u64,
    /// Crashes after which the run itself went on.
    pub crashes: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.points += other.points;
        self.recoveries += other.recoveries;
        self.operations += other.operations;
        self.stops += other.stops;
        self.crashes += other.crashes;
    }
}

/// Something that must not happen, and how to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Of the run.
    pub seed: u64,
    /// Which thing was being done, from 0.
    pub step: usize,
    /// The crash, if one was tried.
    pub crash: String,
    /// What is wrong.
    pub why: String,
    /// What was done before.
    pub actions: Vec<String>,
    /// The last operations of the disk.
    pub operations: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.step, self.why)?;
        writeln!(f, "after {}", self.crash)?;
        writeln!(f, "what was done:")?;
        self.actions.iter().try_for_each(|action| writeln!(f, "  {action}"))?;
        writeln!(f, "the last operations of the disk:")?;
        self.operations.iter().try_for_each(|operation| writeln!(f, "  {operation}"))
    }
}

/// A disk and what was done to it.
#[derive(Clone)]
struct Shown {
    disk: FaultyDisk,
    actions: Vec<String>,
}

/// One run of a seed.
struct Run {
    effort: Effort,
    random: Random,
    tally: Tally,
    /// The crash that is being tried.
    trying: String,
    step: usize,
    /// What a failure is to show.
    shown: Shown,
}

/// Runs a seed.
pub fn run(seed: u64, effort: Effort) -> Result<Tally, Box<Failure>> {
    let mut run = Run {
        effort,
        random: Random::new(seed),
        tally: Tally::default(),
        trying: String::new(),
        step: 0,
        shown: Shown { disk: FaultyDisk::new(0), actions: Vec::new() },
    };
    let done = catch_unwind(AssertUnwindSafe(|| run.go(seed)));
    let why = match done {
        Ok(Ok(())) => return Ok(run.tally),
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
        }
    };
    let operations = run.shown.disk.history(30).iter().map(ToString::to_string).collect();
    let (step, crash, actions) = (run.step, run.trying, run.shown.actions);
    Err(Box::new(Failure { seed, step, crash, why, actions, operations }))
}

impl Run {
    fn go(&mut self, seed: u64) -> Result<(), String> {
        let profile = Profile::draw(&mut self.random);
        let machine = Machine::new(profile, seed, START);
        let mut rig = self.open(machine, Left::clean(0))?;
        for step in 0..self.effort.steps {
            self.step = step;
            rig = self.advance(rig)?;
        }
        if rig.strained {
            let seen = Before::of(&rig.machine.history);
            rig = self.crash(rig, seen)?;
        }
        let machine = self.stop(rig)?;
        self.tally.operations += machine.disk.operations();
        Ok(())
    }

    /// One step, with everything that a crash during it may leave.
    fn advance(&mut self, mut rig: Rig) -> Result<Rig, String> {
        self.see(&rig.machine);
        let seen = Before::of(&rig.machine.history);
        match self.random.below(60) {
            0 if !rig.strained => {
                self.tally.stops += 1;
                return self.restart(rig);
            }
            // Nothing but a restart helps then.
            0..10 if rig.log.closed().is_some() => return self.crash(rig, seen),
            1 | 2 if rig.machine.history.last_turn() > 0 => {
                // The crash comes in the middle of a step.
                let stepped = rig.step(&mut self.random);
                self.see(&rig.machine);
                stepped?;
                return self.crash(rig, seen);
            }
            _ => {}
        }
        let stepped = rig.step(&mut self.random);
        self.see(&rig.machine);
        stepped?;
        let cuts = take(&rig, true);
        self.try_all(&rig.machine, &cuts, &Known::of(&rig, seen), 1)?;
        rig.machine.history.forget(rig.log.settled().durable);
        Ok(rig)
    }

    fn see(&mut self, machine: &Machine) {
        self.show(machine);
        self.trying = "no crash".to_owned();
    }

    fn show(&mut self, machine: &Machine) {
        self.shown = Shown { disk: machine.disk.clone(), actions: machine.actions.iter().cloned().collect() };
    }

    /// Opens a directory, with everything that a crash meanwhile may leave.
    fn open(&mut self, machine: Machine, left: Left) -> Result<Rig, String> {
        self.open_within(machine, left, 1)
    }

    fn open_within(&mut self, machine: Machine, left: Left, depth: u32) -> Result<Rig, String> {
        let recorder = Recorder::new(self.random.split(), self.effort.randoms);
        let before = machine.clone();
        if machine.profile.short {
            let rest = self.random.within(0..40)..u64::MAX;
            machine.disk.inject("/", Fault::ShortWrite, rest.clone());
            machine.disk.inject("/", Fault::ShortRead, rest);
        }
        let rig = machine.start(&left, Some(recorder))?;
        let lsn = rig.log.settled().durable;
        let known = Known {
            power: left.synced,
            kill: lsn,
            highest: lsn,
            known_id: if left.crash.is_some() { left.known_id } else { before.history.known_id },
            power_was_cut: left.power_was_cut,
            clean: left.may_be_clean,
        };
        let cuts = take(&rig, false);
        self.try_all(&before, &cuts, &known, depth - 1)?;
        Ok(rig)
    }

    /// Tries every image of every cut.
    fn try_all(&mut self, machine: &Machine, cuts: &[Cut], known: &Known, depth: u32) -> Result<(), String> {
        for cut in cuts {
            self.tally.points += 1;
            for &image in &cut.images {
                self.tally.recoveries += 1;
                let left = known.left(&machine.history, cut.settled, image);
                let trying = format!("{:?} ({:?}) behind operation {}", image.crash, image.choice, cut.operation);
                let outer = std::mem::replace(&mut self.trying, trying);
                self.trying = format!("{outer}, {}", self.trying);
                let disk = cut.disk_of(image);
                self.try_one(Machine { disk, ..machine.clone() }, left, depth)?;
                self.trying = outer;
            }
        }
        Ok(())
    }

    fn try_one(&mut self, mut crashed: Machine, left: Left, depth: u32) -> Result<(), String> {
        self.try_failing(&mut crashed);
        let mut rig = if depth > 0 && self.random.chance(1, self.effort.again_in) {
            let rig = self.open_within(crashed, left, depth)?;
            rig.recorder.iter().for_each(Following::stop);
            rig
        } else {
            crashed.start(&left, None)?
        };
        if depth == 0 || !self.random.chance(1, self.effort.go_on_in) {
            return Ok(());
        }
        let outer = self.shown.clone();
        let mut random = self.random.split();
        for _ in 0..random.below(20) {
            let stepped = rig.step(&mut random);
            self.show(&rig.machine);
            stepped?;
        }
        let (crash, choice) = match random.below(3) {
            0 => (Crash::Kill, CrashChoice::Everything),
            1 => (Crash::PowerCut, CrashChoice::Nothing),
            _ => (Crash::PowerCut, CrashChoice::Random(random.next_number())),
        };
        let known = Known::of(&rig, Before::of(&rig.machine.history));
        let disk = rig.machine.disk.crash_image(&mut { choice });
        disk.set_capacity(ROOM);
        self.trying = format!("{}, then {crash:?} ({choice:?})", self.trying);
        let image = Image { crash, choice };
        let settled = Some(rig.log.settled());
        let left = known.left(&rig.machine.history, settled, image);
        Machine { disk, ..rig.halt() }.start(&left, None)?;
        self.shown = outer;
        Ok(())
    }

    /// At times tries to open the directory while the disk fails or is full. What comes of it doesn't matter, but that
    /// it can be opened afterwards.
    fn try_failing(&mut self, machine: &mut Machine) {
        let Profile { fails, fills, .. } = machine.profile;
        if fails && self.random.chance(1, 8) {
            let (fault, path_part, after) = Profile::draw_fault(&mut self.random);
            machine.disk.inject(path_part, fault, after..after + self.random.within(1..4));
            self.trying = format!("{}, opened while {path_part} suffers {fault:?} after {after}", self.trying);
            drop(machine.clone().start_unchecked(None));
        } else if fills && self.random.chance(1, 3) {
            self.trying = format!("{}, opened while the disk is full", self.trying);
            drop(machine.clone().start_unchecked(None));
        }
        machine.disk = machine.disk.crash_image(&mut CrashChoice::Everything);
        machine.disk.set_capacity(ROOM);
    }

    /// Crashes in the step that was just done, and goes on from there.
    fn crash(&mut self, rig: Rig, seen: Before) -> Result<Rig, String> {
        let cuts = take(&rig, true);
        let known = Known::of(&rig, seen);
        let now = Cut::of(&rig.machine.disk, rig.log.settled());
        let cut = if cuts.is_empty() { &now } else { self.random.pick(&cuts) };
        let image = *self.random.pick(&cut.images);
        let left = known.left(&rig.machine.history, cut.settled, image);
        let disk = cut.disk_of(image);
        disk.set_capacity(ROOM);
        self.try_all(&rig.machine, &cuts, &known, 1)?;
        self.tally.crashes += 1;
        let operations = rig.machine.disk.operations();
        self.tally.operations += operations;
        let mut machine = Machine { disk, ..rig.halt() };
        machine
            .note(format!("{:?} ({:?}) behind operation {} of {operations}", image.crash, image.choice, cut.operation));
        self.see(&machine);
        let mut left = left;
        if self.random.chance(1, 6) {
            machine.profile.options.ring = Profile::draw_ring(&mut self.random, machine.profile.body_bytes.start > 0);
            machine.note(format!("change the log to {:?}", machine.profile.options.ring));
            left.may_be_clean = true;
        }
        self.open(machine, left)
    }

    fn restart(&mut self, rig: Rig) -> Result<Rig, String> {
        let mut machine = self.stop(rig)?;
        let lsn = machine.history.last_turn();
        if self.random.chance(1, 2) {
            machine.profile.options.ring = Profile::draw_ring(&mut self.random, machine.profile.body_bytes.start > 0);
            machine.note(format!("change the log to {:?}", machine.profile.options.ring));
        }
        let mut choice = *self.random.pick(&[CrashChoice::Nothing, CrashChoice::Everything]);
        machine.disk = machine.disk.crash_image(&mut choice);
        self.see(&machine);
        self.open(machine, Left::clean(lsn))
    }

    /// Stops cleanly, with everything that a crash meanwhile may leave.
    fn stop(&mut self, mut rig: Rig) -> Result<Machine, String> {
        let seen = Before::of(&rig.machine.history);
        rig.machine.note("stop");
        rig.finish_queue()?;
        let known = Known::of(&rig, seen);
        let cuts = take(&rig, true);
        self.try_all(&rig.machine, &cuts, &known, 1)?;
        let recorder = rig.recorder.as_ref().map(Following::recorder);
        let before = rig.machine.clone();
        let machine = rig.stop()?;
        let cuts = recorder.map(|recorder| recorder.lock().take()).unwrap_or_default();
        let known = Known { clean: true, ..known };
        self.try_all(&before, &cuts, &known, 1)?;
        Ok(machine)
    }
}

/// All cuts of a rig since the last time, `end`: and the moment that it stands at.
fn take(rig: &Rig, end: bool) -> Vec<Cut> {
    rig.recorder.as_ref().map(|recorder| recorder.take(&rig.machine.disk, end)).unwrap_or_default()
}

/// What readers have seen, and which ids are known, before something is done.
#[derive(Clone, Copy)]
struct Before {
    seen: Seen,
    known_id: i64,
}

impl Before {
    fn of(history: &History) -> Self {
        Self { seen: history.seen, known_id: history.known_id }
    }
}

/// What is known of where a crash may bring the directory back to.
struct Known {
    /// A power cut keeps this entry.
    power: u64,
    /// A kill keeps this entry.
    kill: u64,
    /// The last entry there is.
    highest: u64,
    /// The highest id that somebody knows.
    known_id: i64,
    power_was_cut: bool,
    /// It may turn out to be stopped cleanly.
    clean: bool,
}

impl Known {
    fn of(rig: &Rig, before: Before) -> Self {
        let highest = rig.machine.history.last_turn();
        let Before { seen, known_id } = before;
        let (power, kill) = (seen.durable, seen.durable.max(seen.written));
        Self { power, kill, highest, known_id, power_was_cut: false, clean: false }
    }

    fn left(&self, history: &History, settled: Option<Settled>, image: Image) -> Left {
        let settled = settled.unwrap_or_default();
        let power = self.power.max(settled.durable);
        let (lowest, synced) = match image.crash {
            Crash::Kill => (self.kill.max(settled.written), power),
            // Then the log is what it is: what is read of it is on the device.
            Crash::PowerCut => (power, self.highest.min(power)),
        };
        Left {
            crash: Some(image.crash),
            lsns: lowest..=self.highest,
            synced,
            known_id: self.known_id.max(history.known_by(settled)),
            power_was_cut: self.power_was_cut || image.crash == Crash::PowerCut,
            may_be_clean: self.clean,
        }
    }
}
