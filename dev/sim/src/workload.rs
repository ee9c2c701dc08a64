//! What is done to a running directory, at random: everything that its users and its steps may do, in any order.

use crate::check::{self, SPACES};
use crate::machine::Rig;
use crate::picture::Name;
use crate::profile::{Profile, ROOM};
use crate::random::Random;
use metaq_disk::{Disk, read_exact_at};
use metaq_log::{
    Append, Change, Condition, Disposal, Item, Partition, ProducerBatch, Read, StateChange, Submission, What, Wrote,
};
use metaq_protocol::record;
use std::path::Path;
use std::sync::Arc;

/// Slices that are kept to be read again later.
const SLICES: usize = 4;

impl Rig {
    /// Does one thing.
    pub fn step(&mut self, random: &mut Random) -> Result<(), String> {
        match random.below(100) {
            0..30 => self.submit(random),
            30..52 => _ = self.write_turn()?,
            52..64 => self.sync_if_due(random)?,
            64..71 => self.apply(),
            71..74 => self.begin_checkpoint()?,
            74..79 => self.end_checkpoint()?,
            79..89 => self.read(random)?,
            89..95 => self.pass_time(random),
            95 => self.configure(random),
            96 => self.look_at_state()?,
            97 => self.read_again()?,
            98 => self.look_at_bounds(random)?,
            _ if random.chance(1, 2) => self.fill()?,
            _ => self.strain(random),
        }
        self.absorb()
    }

    fn note(&mut self, action: String) {
        self.machine.note(action);
    }

    /// Writes a turn; a full log is relieved.
    pub fn write_turn(&mut self) -> Result<Wrote, String> {
        let wrote = self.sequencer.write_turn(self.machine.now);
        self.absorb()?;
        let settled = self.log.settled();
        self.note(format!("write a turn: {wrote:?}, up to entry {}", settled.written));
        if wrote == Wrote::LogFull {
            self.fill()?;
            self.end_checkpoint()?;
            self.begin_checkpoint()?;
            self.end_checkpoint()?;
            if self.strained {
                // What a checkpoint can't relieve is refused after a while.
                self.sequencer.refuse_for_full_log();
                self.absorb()?;
            }
        }
        Ok(wrote)
    }

    fn sync_if_due(&mut self, random: &mut Random) -> Result<(), String> {
        if self.sequencer.sync_is_due(self.machine.now) || random.chance(1, 10) {
            self.sync()?;
        }
        Ok(())
    }

    /// Syncs the log.
    pub fn sync(&mut self) -> Result<(), String> {
        self.sequencer.sync();
        let settled = self.log.settled();
        self.note(format!("sync: durable up to entry {}", settled.durable));
        match self.log.closed() {
            Some(_) if self.strained => Ok(()),
            Some(why) => Err(format!("the log closed on a disk without faults: {why}")),
            None if settled.durable == settled.written => Ok(()),
            None => Err(format!("{settled:?} after a sync")),
        }
    }

    fn apply(&mut self) {
        let due = self.applier.step(self.machine.now);
        self.note(format!("apply; next in {} ms", due.saturating_sub(self.machine.now)));
    }

    /// Takes a snapshot for a checkpoint, unless one is on its way.
    pub fn begin_checkpoint(&mut self) -> Result<(), String> {
        if self.snapshot.is_none() {
            self.snapshot = self.sequencer.checkpoint(self.machine.now);
            if self.snapshot.is_none() && !self.strained {
                return Err("no snapshot of an open log".to_owned());
            }
            self.note("begin a checkpoint".to_owned());
        }
        Ok(())
    }

    /// Makes the checkpoint that was begun.
    pub fn end_checkpoint(&mut self) -> Result<(), String> {
        if let Some(snapshot) = self.snapshot.take() {
            let made = self.checkpointer.run(snapshot, false, self.machine.now);
            self.note(format!("make the checkpoint: {}", if made.is_ok() { "done" } else { "failed" }));
            if let Err(dirty) = made {
                if !self.strained {
                    return Err(format!("the checkpoint of {} partitions failed", dirty.len()));
                }
                self.sequencer.return_dirty(dirty);
            }
        }
        Ok(())
    }

    /// Fills all files of the log.
    pub fn fill(&mut self) -> Result<(), String> {
        loop {
            match self.checkpointer.fill_log() {
                Ok(true) => self.note("fill a log file".to_owned()),
                Ok(false) => return Ok(()),
                Err(_) if self.strained => return Ok(()),
                Err(error) => return Err(format!("filling the log failed: {error}")),
            }
        }
    }

    /// Lets the disk fail or fill up, or gives it room again.
    fn strain(&mut self, random: &mut Random) {
        let disk = self.machine.disk.clone();
        if self.machine.profile.fails && random.chance(1, 2) {
            let (fault, path_part, after) = Profile::draw_fault(random);
            let times = random.within(1..4);
            self.note(format!("let {times} operations on {path_part} suffer {fault:?}, after {after}"));
            disk.inject(path_part, fault, after..after + times);
            self.strained = true;
        } else if self.machine.profile.fills {
            let space = disk.space(Path::new("/")).ok();
            let used = space.map_or(0, |space| space.total - space.free);
            let room = if random.chance(1, 2) { ROOM } else { used + random.within(0..40_000) };
            self.note(format!("let the disk have {} bytes left", room.saturating_sub(used)));
            disk.set_capacity(room);
            self.strained = true;
        }
    }

    fn pass_time(&mut self, random: &mut Random) {
        let now = self.machine.now;
        self.machine.now = match random.below(20) {
            0 if self.machine.profile.jumps => now - random.within(0..3_600_000),
            1 if self.machine.profile.jumps => now + random.within(0..24 * 3_600_000),
            2..8 => now,
            _ => now + random.within(0..2000),
        };
        self.machine.history.latest_time = self.machine.history.latest_time.max(self.machine.now);
        self.note(format!("the clock goes by {} ms", self.machine.now.cast_signed() - now.cast_signed()));
    }

    fn partition(&mut self, random: &mut Random) -> Option<Arc<Partition>> {
        let name = random.pick(&self.machine.profile.names).clone();
        let settings = self.machine.profile.draw_settings(random);
        let root = self.machine.profile.root(&name).to_owned();
        self.log.create_partition(&name.0, name.1, Some(&root), settings).ok()
    }

    fn configure(&mut self, random: &mut Random) {
        if let Some(partition) = self.partition(random) {
            let settings = self.machine.profile.draw_settings(random);
            self.note(format!("configure {partition:?}: {settings:?}"));
            partition.configure(settings);
        }
    }

    /// Asks for one to four things.
    pub fn submit(&mut self, random: &mut Random) {
        let mut submission = Submission {
            outlet: self.outlet,
            token: self.sent,
            bytes: Vec::new(),
            items: Vec::new(),
            outcomes: Vec::new(),
            wait_durable: 0,
        };
        self.sent += 1;
        for _ in 0..=random.below(4) {
            let Some(what) = self.draw(random, &mut submission.bytes) else { continue };
            self.note(match &what {
                What::Append(append) => format!(
                    "submit {} messages, {} bytes, to {:?}, {:?}",
                    append.count,
                    append.records.len(),
                    append.partition,
                    append.producer
                ),
                What::Change(change) => format!("submit {change:?}"),
            });
            submission.items.push(Item { tag: 0, what });
        }
        if !submission.items.is_empty() {
            self.log.submit(Box::new(submission));
        }
    }

    fn draw(&mut self, random: &mut Random, bytes: &mut Vec<u8>) -> Option<What> {
        let change = match random.below(40) {
            0..3 => self.draw_state(random),
            3..5 => self.draw_trim(random)?,
            5 if random.chance(1, 2) => Change::Delete(self.partition(random)?),
            6 => Change::Create(self.partition(random)?),
            7 => Change::Barrier,
            8 => return self.draw_repetition(random, bytes),
            _ => return self.draw_append(random, bytes),
        };
        Some(What::Change(Box::new(change)))
    }

    fn draw_state(&self, random: &mut Random) -> Change {
        let state = &self.machine.history.latest.state;
        let key = |random: &mut Random| {
            let space = u8::try_from(random.below(usize::from(SPACES))).expect("few");
            (space, vec![b'k', random.below(6).to_le_bytes()[0]])
        };
        let conditions = (0..random.below(2)).map(|_| {
            let (space, key) = key(random);
            let version = state.get(&(space, key.clone())).map(|(version, _)| *version);
            let version = if random.chance(1, 5) { Some(random.next_number()) } else { version };
            Condition { space, key, version }
        });
        let conditions = conditions.collect();
        let changes = (0..=random.below(3)).map(|_| {
            let (space, key) = key(random);
            let value = if random.chance(1, 4) { None } else { Some(random.next_number().to_le_bytes().to_vec()) };
            StateChange { space, key, value }
        });
        Change::State { conditions, changes: changes.collect() }
    }

    fn draw_trim(&self, random: &mut Random) -> Option<Change> {
        let name = random.pick(&self.machine.profile.names);
        let partition = self.log.partition(&name.0, name.1)?;
        let segments = self.log.segments(&partition).ok()?;
        let first = match random.below(4) {
            0 => segments.last()?.end,
            _ => random.pick(&segments).start,
        };
        let disposal = *random.pick(&[Disposal::Delete, Disposal::Archive, Disposal::ArchiveZip]);
        self.log.trim(&partition, first, disposal).ok()
    }

    fn draw_append(&mut self, random: &mut Random, bytes: &mut Vec<u8>) -> Option<What> {
        let partition = self.partition(random)?;
        let name = Rig::name_of(&partition);
        let count = u32::try_from(random.within(1..self.machine.profile.batch_max + 1)).expect("few");
        let producer = random.chance(1, 3).then(|| {
            let producer = random.within(1..4);
            let known = self.machine.history.latest.producers.get(&(producer, name.clone()));
            let (epoch, next) = self.producers.get(&(producer, name.clone())).copied().unwrap_or_else(|| {
                let last = known.and_then(|window| window.batches.back());
                let next = last.and_then(|batch| Some(batch.producer?.sequence + i64::from(batch.count)));
                (known.map_or(0, |window| window.epoch), next.unwrap_or(0))
            });
            let (epoch, sequence) = match random.below(20) {
                0 => (epoch, next + 1),
                1 => (epoch.saturating_sub(1), next),
                2 => (epoch + 1, 0),
                _ => (epoch, next),
            };
            self.producers.insert((producer, name), (epoch, sequence + i64::from(count)));
            ProducerBatch { producer, epoch, sequence }
        });
        Some(self.append(random, bytes, partition, count, producer))
    }

    fn append(
        &self,
        random: &mut Random,
        bytes: &mut Vec<u8>,
        partition: Arc<Partition>,
        count: u32,
        producer: Option<ProducerBatch>,
    ) -> What {
        let start = bytes.len();
        for _ in 0..count {
            let len = usize::try_from(random.within(self.machine.profile.body_bytes.clone())).expect("small");
            record::encode(bytes, 0, 0, &random.bytes(len));
        }
        What::Append(Append { partition, records: start..bytes.len(), count, producer })
    }

    fn draw_repetition(&self, random: &mut Random, bytes: &mut Vec<u8>) -> Option<What> {
        let windows: Vec<_> = self.machine.history.latest.producers.iter().collect();
        if windows.is_empty() {
            return None;
        }
        let ((_, name), window) = *random.pick(&windows);
        let batch = &window.batches[random.below(window.batches.len())];
        let partition = self.log.partition(&name.0, name.1)?;
        Some(self.append(random, bytes, partition, batch.count, batch.producer))
    }

    /// Reads on where a reader stands.
    fn read(&mut self, random: &mut Random) -> Result<(), String> {
        let name = random.pick(&self.machine.profile.names).clone();
        let Some(partition) = self.log.partition(&name.0, name.1) else { return Ok(()) };
        let contents = self.machine.history.latest.partitions.get(&name).cloned().unwrap_or_default();
        let position = match self.readers.get(&name) {
            Some(position) if !random.chance(1, 6) => *position,
            _ if contents.messages.is_empty() => 0,
            _ => *random.pick(&contents.messages),
        };
        let max = usize::try_from(random.within(1..5000)).expect("small");
        let settled = self.log.settled();
        let read = self.log.read(&partition, position, max, settled);
        self.note(format!("read {partition:?} at {position}"));
        let visible = self.machine.history.visible_end(&name, settled).unwrap_or(0);
        if self.strained && read.is_err() {
            return Ok(());
        }
        let next = match read.map_err(|error| format!("reading {name:?} at {position}: {error}"))? {
            Read::Slice(slice) => {
                let end = slice.position + slice.len as u64;
                let mut bytes = vec![0; slice.len];
                match read_exact_at(&*slice.file, &mut bytes, slice.offset) {
                    Err(_) if self.strained => return Ok(()),
                    read => read.map_err(|error| error.to_string())?,
                }
                if end > visible {
                    return Err(format!("{name:?} is read up to {end}, but visible only up to {visible}"));
                }
                if contents.slice(position..end) != Some(&bytes) {
                    return Err(format!("{name:?}: what is read at {position} wasn't stored there"));
                }
                self.keep_slice(slice, bytes);
                end
            }
            Read::AtEnd if position == visible => visible,
            Read::Beyond { end } if end == visible && position > visible => visible,
            Read::Below { first } if position < first && first <= contents.first => first,
            read => return Err(format!("{name:?} at {position}: {read:?}, visible up to {visible}")),
        };
        self.machine.history.saw(&name, next);
        self.readers.insert(name, next);
        Ok(())
    }

    fn keep_slice(&mut self, slice: metaq_log::Slice, bytes: Vec<u8>) {
        if self.slices.len() == SLICES {
            self.slices.remove(0);
        }
        self.slices.push((slice.file, slice.offset, bytes));
    }

    /// Reads slices again that were given out before: they must stay as they were.
    fn read_again(&self) -> Result<(), String> {
        for (file, offset, expected) in &self.slices {
            let mut bytes = vec![0; expected.len()];
            match read_exact_at(&**file, &mut bytes, *offset) {
                Err(_) if self.strained => continue,
                read => read.map_err(|error| format!("a slice: {error}"))?,
            }
            if bytes != *expected {
                return Err("a slice that was given out has changed".to_owned());
            }
        }
        Ok(())
    }

    fn look_at_state(&self) -> Result<(), String> {
        let durable = self.log.settled().durable;
        let picture = self.machine.history.picture(durable);
        check::state(self, &picture.ok_or_else(|| format!("entry {durable} is durable, but ends no turn"))?)
    }

    fn look_at_bounds(&self, random: &mut Random) -> Result<(), String> {
        let name: &Name = random.pick(&self.machine.profile.names);
        let Some(partition) = self.log.partition(&name.0, name.1) else { return Ok(()) };
        let Some(contents) = self.machine.history.latest.partitions.get(name) else { return Ok(()) };
        if self.log.closed().is_some() {
            // What was being written when it failed is counted, and never seen.
            return Ok(());
        }
        let settled = self.log.settled();
        let bounds = partition.bounds(settled);
        let visible = self.machine.history.visible_end(name, settled).unwrap_or(0);
        if bounds.end != visible || bounds.messages != contents.kept() || bounds.first > contents.first {
            let (first, kept) = (contents.first, contents.kept());
            return Err(format!("{name:?}: {bounds:?}; visible {visible}, first {first}, {kept} messages"));
        }
        Ok(())
    }
}
