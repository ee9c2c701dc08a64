//! The sequencer: gives everything submitted its number, position, id and time, and writes it as turns; and the syncer:
//! makes what was written durable and publishes it.
//!
//! Both are steps of one object that owns no thread and no clock: whoever drives it calls [`Sequencer::write_turn`],
//! [`Sequencer::sync`] and [`Sequencer::checkpoint`] in any order, with the time.

use crate::applier::Disposal;
use crate::checkpoint::Snapshot;
use crate::entry::{self, APPEND_OVERHEAD_BYTES, Appended, Entry, StateChange, encode_append};
use crate::id::Ids;
use crate::partition::{APPLY_BYTES, Durability, Partition, Push, Queued};
use crate::producers::{Judgement, Producers, Stored};
use crate::ring::Place;
use crate::settled::Class;
use crate::shared::Shared;
use crate::state::StateMap;
use crate::submission::{Append, Change, Item, Outcome, Refusal, Submission, What};
use crate::turn::{self, BLOCK_BYTES, HEADER_BYTES, Header};
use metaq_protocol::record;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// What a call of [`Sequencer::write_turn`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// A turn.
    Turn,
    /// Nothing was submitted.
    Nothing,
    /// Nothing: the log is full until a checkpoint is done.
    LogFull,
}

/// Above this share of the log (in thousandths) a checkpoint is due.
const CHECKPOINT_PERMILLE: u64 = 400;
/// Above this share (in thousandths) producers are slowed.
const SLOW_PERMILLE: u64 = 750;
/// So many bytes of turns are synced though nobody waits for it: a checkpoint never meets a long sync.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;
/// The longest pause between turns that slows producers.
const SLOW_PAUSE_MAX: Duration = Duration::from_millis(4);

/// Orders, writes and syncs.
pub struct Sequencer {
    shared: Arc<Shared>,
    incarnation: u32,
    epoch: u64,
    head: Place,
    next_lsn: u64,
    append_time: u64,
    /// What the clock said last.
    clock: u64,
    ids: Ids,
    /// The entry that raised the ceiling of ids last.
    ceiling_lsn: u64,
    latest: StateMap,
    producers: Producers,
    backlog: VecDeque<Box<Submission>>,
    turn: Vec<u8>,
    /// Log files written since the last sync.
    unsynced: Vec<u64>,
    unsynced_bytes: u64,
    sync_due: bool,
    /// When messages of interval topics must be synced, milliseconds since 1970.
    sync_by: Option<u64>,
    syncs: u64,
    touched: Vec<Arc<Partition>>,
    #[expect(clippy::vec_box, reason = "submissions come and go boxed: moving one moves a pointer")]
    sequenced: Vec<Vec<Box<Submission>>>,
    unpublished: Vec<(u64, Vec<StateChange>)>,
    /// For the applier, once their entries are durable.
    disposals: Vec<Disposal>,
    dirty: Vec<Arc<Partition>>,
    last_checkpoint: u64,
    checkpoint_lsn: u64,
}

/// Where a sequencer begins.
pub(crate) struct Start {
    pub incarnation: u32,
    pub epoch: u64,
    pub head: Place,
    pub next_lsn: u64,
    pub append_time: u64,
    pub id_ceiling: u64,
    pub state: StateMap,
    pub producers: Producers,
    pub now: u64,
}

impl Sequencer {
    pub(crate) fn new(shared: Arc<Shared>, start: Start) -> Self {
        let ids = Ids::new(shared.options.broker, start.id_ceiling);
        Self {
            ids,
            ceiling_lsn: 0,
            incarnation: start.incarnation,
            epoch: start.epoch,
            head: start.head,
            next_lsn: start.next_lsn,
            append_time: start.append_time,
            clock: start.now,
            latest: start.state,
            producers: start.producers,
            backlog: VecDeque::new(),
            turn: Vec::new(),
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            sync_due: false,
            sync_by: None,
            syncs: 0,
            touched: Vec::new(),
            sequenced: Vec::new(),
            unpublished: Vec::new(),
            disposals: Vec::new(),
            dirty: Vec::new(),
            last_checkpoint: start.now,
            checkpoint_lsn: start.next_lsn - 1,
            shared,
        }
    }

    /// Writes one turn of what was submitted. `now`: milliseconds since 1970.
    pub fn write_turn(&mut self, now: u64) -> Wrote {
        self.look_at_clock(now);
        if self.backlog.is_empty() {
            let mut queue = self.shared.queue.lock();
            self.backlog.extend(queue.drain(..));
        }
        if self.backlog.is_empty() {
            return Wrote::Nothing;
        }
        if let Some(why) = self.shared.closed.get().cloned() {
            self.refuse_all(&Refusal::StoreClosed(why));
            return Wrote::Nothing;
        }
        let (count, bytes) = self.next_batch();
        let padded = (HEADER_BYTES + bytes).next_multiple_of(BLOCK_BYTES) as u64;
        let Some(place) = self.shared.ring.place(self.head, padded) else {
            self.shared.checkpoint_wanted.store(true, Ordering::Relaxed);
            return Wrote::LogFull;
        };
        self.append_time = self.append_time.max(now);
        self.turn.clear();
        self.turn.resize(HEADER_BYTES, 0);
        let first_lsn = self.next_lsn;
        let mut batch: Vec<Box<Submission>> = self.backlog.drain(..count).collect();
        for submission in &mut batch {
            self.sequence(submission, first_lsn, now);
        }
        if self.next_lsn > first_lsn && !self.write(place, first_lsn) {
            batch.iter_mut().for_each(|submission| self.refuse_closed(submission));
        }
        self.deliver(batch);
        self.queue_apply(now);
        Wrote::Turn
    }

    /// When the clock steps back, what is due at a time steps back with it.
    fn look_at_clock(&mut self, now: u64) {
        let back = self.clock.saturating_sub(now);
        self.clock = now;
        self.sync_by = self.sync_by.map(|by| by.saturating_sub(back));
        self.last_checkpoint = self.last_checkpoint.saturating_sub(back);
    }

    /// Answers everything that is queued with `LogFull`.
    pub fn refuse_for_full_log(&mut self) {
        self.backlog.extend(self.shared.queue.lock().drain(..));
        self.shared.statistics.log_full.fetch_add(self.backlog.len() as u64, Ordering::Relaxed);
        self.refuse_all(&Refusal::LogFull);
    }

    fn refuse_all(&mut self, why: &Refusal) {
        let mut batch: Vec<_> = self.backlog.drain(..).collect();
        for submission in &mut batch {
            submission.outcomes = submission.items.iter().map(|_| Outcome::Refused(why.clone())).collect();
            submission.wait_durable = 0;
        }
        self.deliver(batch);
        self.shared.wake(&[]);
    }

    fn refuse_closed(&self, submission: &mut Submission) {
        let why = self.shared.closed.get().cloned().unwrap_or_else(|| "the log failed".into());
        submission.outcomes =
            submission.items.iter().map(|_| Outcome::Refused(Refusal::StoreClosed(why.clone()))).collect();
        submission.wait_durable = 0;
    }

    /// How many submissions the next turn takes, and the most bytes they need.
    fn next_batch(&self) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        for submission in &self.backlog {
            let needed = needed_bytes(submission);
            let too_large = needed > self.shared.options.submission_bytes_max();
            if count > 0 && bytes + needed > self.shared.options.turn_bytes_max() && !too_large {
                break;
            }
            count += 1;
            bytes += if too_large { 0 } else { needed };
        }
        (count, bytes)
    }

    fn sequence(&mut self, submission: &mut Submission, turn_lsn: u64, now: u64) {
        let (bytes, limit) = (needed_bytes(submission), self.shared.options.submission_bytes_max());
        submission.outcomes.clear();
        submission.wait_durable = 0;
        for item in &submission.items {
            let outcome = if bytes > limit {
                Err((Refusal::TooLarge { bytes, limit }, 0))
            } else {
                match &item.what {
                    What::Append(append) => self.sequence_append(append, &submission.bytes, turn_lsn, now),
                    What::Change(change) => self.sequence_change(change),
                }
            };
            let (outcome, wait) = match outcome {
                Ok(outcome) => {
                    let wait = match outcome {
                        Outcome::Appended { lsn, class: Class::Durable, .. } | Outcome::Changed { lsn } => lsn,
                        Outcome::Appended { .. } | Outcome::Refused(_) => 0,
                    };
                    (outcome, wait)
                }
                Err((why, wait)) => (Outcome::Refused(why), wait),
            };
            submission.wait_durable = submission.wait_durable.max(wait);
            submission.outcomes.push(outcome);
        }
        // Also for what only was judged against entries that wait for no sync of their own.
        self.sync_due |= submission.wait_durable > self.shared.settled().durable;
    }

    fn lsn(&mut self) -> u64 {
        self.next_lsn += 1;
        self.next_lsn - 1
    }

    fn encode(&mut self, entry: &Entry<'_>) -> u64 {
        entry.encode(&mut self.turn);
        self.sync_due = true;
        self.lsn()
    }

    /// Tells the log of a partition before anything else of it.
    fn announce(&mut self, partition: &Arc<Partition>) -> Option<u64> {
        if partition.is_announced() {
            return None;
        }
        let Partition { number, topic, index, root, .. } = &**partition;
        let root = root.to_string_lossy();
        let lsn = self.encode(&Entry::PartitionCreated { partition: *number, topic, index: *index, root: &root });
        partition.announced.store(lsn, Ordering::Relaxed);
        self.mark_dirty(partition);
        Some(lsn)
    }

    fn mark_dirty(&mut self, partition: &Arc<Partition>) {
        let mut state = partition.state.lock();
        if !state.dirty {
            state.dirty = true;
            self.dirty.push(Arc::clone(partition));
        }
    }

    fn sequence_append(
        &mut self,
        append: &Append,
        bytes: &[u8],
        turn_lsn: u64,
        now: u64,
    ) -> Result<Outcome, (Refusal, u64)> {
        let partition = &append.partition;
        if self.shared.disk_full.load(Ordering::Relaxed) {
            return Err((Refusal::DiskFull, 0));
        }
        if let Some(batch) = append.producer {
            match self.producers.judge(partition.number, batch, append.count) {
                Judgement::Fresh => {}
                Judgement::Repeated(Stored { first_id, position, lsn, .. }) => {
                    let class = self.class(partition, partition.state.lock().settings.durability);
                    return Ok(Outcome::Appended { first_id, position, lsn, class });
                }
                Judgement::Fenced { epoch, lsn } => return Err((Refusal::Fenced { epoch }, lsn)),
                Judgement::Gap { expected, lsn } => return Err((Refusal::SequenceGap { expected }, lsn)),
            }
        }
        self.refuse_deleted(partition)?;
        if let Some(why) = &partition.state.lock().failed {
            return Err((Refusal::PartitionFailed(Arc::clone(why)), 0));
        }
        self.announce(partition);
        let (first_id, ceiling) = self.ids.run(now, append.count);
        if let Some(clock) = ceiling {
            self.ceiling_lsn = self.encode(&Entry::IdCeiling { clock });
        }
        let lsn = self.lsn();
        let records = &bytes[append.records.clone()];
        let settled = self.shared.settled();
        let mut state = partition.state.lock();
        let target = state.target();
        let head = Appended {
            partition: partition.number,
            count: append.count,
            position: target.position,
            sequence: target.sequence.cast_unsigned(),
            starts_segment: target.starts_segment,
            producer: append.producer,
            records,
        };
        let range = encode_append(&mut self.turn, &head);
        record::patch_ids(&mut self.turn[range.clone()], first_id);
        let class = self.class(partition, state.settings.durability);
        let (count, append_time) = (append.count, self.append_time);
        let records = &self.turn[range];
        state.push(Push { target, lsn, turn_lsn, class, count, records, append_time, settled });
        self.shared.pending_bytes.fetch_add(records.len(), Ordering::Relaxed);
        if !state.dirty {
            state.dirty = true;
            self.dirty.push(Arc::clone(partition));
        }
        self.sync_due |= class == Class::Durable;
        if let Durability::Interval { messages, time } = state.settings.durability {
            let counted = if state.interval.0 == self.syncs { state.interval.1 } else { 0 };
            state.interval = (self.syncs, counted.saturating_add(count));
            self.sync_due |= state.interval.1 > messages;
            let by = now.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            self.sync_by = Some(self.sync_by.map_or(by, |earlier| earlier.min(by)));
        }
        drop(state);
        if let Some(batch) = append.producer {
            let stored = Stored { sequence: batch.sequence, count, first_id, position: target.position, lsn };
            self.producers.stored(partition.number, batch, stored, append_time);
        }
        if self.touched.last().is_none_or(|last| last.number != partition.number) {
            self.touched.push(Arc::clone(partition));
        }
        Ok(Outcome::Appended { first_id, position: target.position, lsn, class })
    }

    /// What an append waits for: for a sync too, until all that it rests on is durable (that its partition exists, and
    /// the ceiling of its ids, which else would be given again after a power cut).
    fn class(&self, partition: &Partition, durability: Durability) -> Class {
        let rests_on = self.ceiling_lsn.max(partition.announced.load(Ordering::Relaxed));
        if rests_on > self.shared.settled().durable { Class::Durable } else { durability.class() }
    }

    /// The answer waits until the deletion is durable: a crash may take it back.
    fn refuse_deleted(&self, partition: &Partition) -> Result<(), (Refusal, u64)> {
        if partition.state.lock().deleted { Err((Refusal::PartitionDeleted, self.next_lsn - 1)) } else { Ok(()) }
    }

    fn sequence_change(&mut self, change: &Change) -> Result<Outcome, (Refusal, u64)> {
        let lsn = match change {
            Change::Create(partition) => {
                self.refuse_deleted(partition)?;
                self.announce(partition).unwrap_or(self.next_lsn - 1)
            }
            Change::Delete(partition) => {
                self.refuse_deleted(partition)?;
                partition.state.lock().deleted = true;
                self.announce(partition);
                let lsn = self.encode(&Entry::PartitionDeleted { partition: partition.number });
                let mut table = self.shared.table.write();
                table.remove(partition);
                table.deleting.insert((Arc::clone(&partition.topic), partition.index));
                drop(table);
                self.producers.forget_partition(partition.number);
                self.disposals.push(Disposal::Delete { partition: Arc::clone(partition) });
                lsn
            }
            Change::Trim { partition, first, disposal } => self.sequence_trim(partition, *first, *disposal)?,
            Change::State { conditions, changes } => {
                if let Some((condition, version)) = self.latest.unmet(conditions) {
                    return Err((Refusal::Conflict { condition, version }, self.next_lsn - 1));
                }
                let lsn = self.encode(&Entry::State(changes.clone()));
                self.latest.change(lsn, changes);
                self.unpublished.push((lsn, changes.clone()));
                lsn
            }
            Change::Counted { partition, sealed } => {
                self.refuse_deleted(partition)?;
                let first_sequence = -i64::try_from(*sealed).unwrap_or(0);
                let lsn = self.encode(&Entry::Counted { partition: partition.number, first_sequence });
                let mut state = partition.state.lock();
                (state.first_sequence, state.uncounted_below) = (first_sequence, 0);
                drop(state);
                self.mark_dirty(partition);
                lsn
            }
            Change::Barrier => {
                self.sync_due = true;
                self.next_lsn - 1
            }
        };
        Ok(Outcome::Changed { lsn })
    }

    fn sequence_trim(
        &mut self,
        partition: &Arc<Partition>,
        first: u64,
        how: entry::Disposal,
    ) -> Result<u64, (Refusal, u64)> {
        self.refuse_deleted(partition)?;
        let mut state = partition.state.lock();
        let first_sequence = if first == state.end {
            let sequence = state.sequence;
            state.start_segment(first, sequence);
            Some(sequence)
        } else {
            state
                .segments
                .iter()
                .find(|segment| segment.start == first && first >= state.trimmed)
                .map(|segment| segment.first_sequence.unwrap_or(state.first_sequence))
        };
        let Some(first_sequence) = first_sequence else { return Err((Refusal::NoSegmentThere { first }, 0)) };
        (state.trimmed, state.first_sequence) = (first, first_sequence);
        drop(state);
        self.announce(partition);
        self.mark_dirty(partition);
        let lsn = self.encode(&Entry::Trim { partition: partition.number, first, first_sequence, disposal: how });
        self.disposals.push(Disposal::Trim { partition: Arc::clone(partition), first, how });
        Ok(lsn)
    }

    fn write(&mut self, place: Place, first_lsn: u64) -> bool {
        let started = Instant::now();
        let header = Header {
            generation: place.generation,
            epoch: self.epoch,
            incarnation: self.incarnation,
            first_lsn,
            settled_lsn: self.shared.settled().durable,
            entries: u32::try_from(self.next_lsn - first_lsn).expect("a turn has far fewer entries"),
            bytes: u32::try_from(self.turn.len() - HEADER_BYTES).expect("a turn is far below 4 GiB"),
            append_time: self.append_time,
        };
        turn::seal(&mut self.turn, &header);
        if let Err(error) = self.shared.ring.write(place, &self.turn) {
            self.shared.fail(&format!("writing the commit log failed: {error}"));
            return false;
        }
        self.head = Place { generation: place.generation, offset: place.offset + self.turn.len() as u64 };
        if self.unsynced.last() != Some(&place.generation) {
            self.unsynced.push(place.generation);
        }
        self.unsynced_bytes += self.turn.len() as u64;
        self.sync_due |= self.unsynced_bytes > UNSYNCED_BYTES_MAX;
        self.shared.watermarks.wrote(self.next_lsn - 1);
        let statistics = &self.shared.statistics;
        statistics.turns.fetch_add(1, Ordering::Relaxed);
        statistics.entries.fetch_add(u64::from(header.entries), Ordering::Relaxed);
        statistics.turn_bytes.fetch_add(self.turn.len() as u64, Ordering::Relaxed);
        statistics.log_used_permille.store(self.shared.ring.used_permille(self.head), Ordering::Relaxed);
        statistics.write.record(started.elapsed());
        true
    }

    #[expect(clippy::vec_box, reason = "submissions come and go boxed: moving one moves a pointer")]
    fn deliver(&mut self, batch: Vec<Box<Submission>>) {
        let outlets = self.shared.outlets.read();
        self.sequenced.resize_with(outlets.len(), Vec::new);
        let mut answerable = false;
        for submission in batch {
            answerable |= submission.wait_durable == 0;
            self.sequenced[submission.outlet.0].push(submission);
        }
        for (outlet, sequenced) in outlets.iter().zip(&mut self.sequenced) {
            if !sequenced.is_empty() {
                outlet.deliver(sequenced);
                sequenced.clear();
            }
        }
        drop(outlets);
        if answerable {
            self.publish();
        }
    }

    /// Wakes everybody; those who wait for more of a partition are told of it.
    fn publish(&self) {
        // Who counts itself in as waiting looks at the watermark afterwards: one of both sees the other.
        fence(Ordering::SeqCst);
        let ready: Vec<u32> =
            self.touched.iter().filter(|partition| partition.awaited()).map(|partition| partition.number).collect();
        self.shared.wake(&ready);
    }

    fn queue_apply(&mut self, now: u64) {
        let pressed = self.shared.pending_bytes.load(Ordering::Relaxed) > self.shared.tuning.load().pending_bytes_max;
        let due = now + u64::try_from(self.shared.options.apply_after.as_millis()).unwrap_or(u64::MAX);
        let mut raised = false;
        for partition in &self.touched {
            let mut state = partition.state.lock();
            let eager = state.pending.len() >= APPLY_BYTES;
            if pressed && self.shared.may_apply(partition) {
                drop(state);
                // An error is remembered by the partition or the disk; the bytes stay in the commit log.
                let _ = self.shared.apply(partition);
            } else if eager && state.queued != Queued::Eager {
                state.queued = Queued::Eager;
                self.shared.apply.lock().eager.push_back(Arc::clone(partition));
                raised = true;
            } else if state.queued == Queued::No && !state.pending.is_empty() {
                state.queued = Queued::Lazy;
                self.shared.apply.lock().lazy.push_back((due, Arc::clone(partition)));
            }
        }
        if raised {
            self.shared.apply_signal.raise();
        }
        if !self.sync_due {
            self.touched.clear();
        }
    }

    /// Whether something waits for a sync.
    pub fn sync_is_due(&self, now: u64) -> bool {
        self.sync_due || self.sync_by.is_some_and(|by| by <= now)
    }

    /// When the next sync falls due without further submissions, milliseconds since 1970.
    pub fn next_deadline(&self) -> Option<u64> {
        self.sync_by
    }

    /// How long to pause before the next turn, to slow producers while the log fills.
    pub fn pause(&self) -> Duration {
        let used = self.shared.ring.used_permille(self.head);
        if used <= SLOW_PERMILLE {
            return Duration::ZERO;
        }
        let over = u32::try_from((used - SLOW_PERMILLE).min(1000)).unwrap_or(1000);
        SLOW_PAUSE_MAX * over / u32::try_from(1000 - SLOW_PERMILLE).unwrap_or(1)
    }

    /// Makes all turns written durable and publishes them.
    pub fn sync(&mut self) {
        if self.shared.closed.get().is_some() {
            (self.sync_due, self.sync_by) = (false, None);
            return;
        }
        let started = Instant::now();
        for generation in &self.unsynced {
            if let Err(error) = self.shared.ring.sync(*generation) {
                self.shared.fail(&format!("syncing the commit log failed: {error}"));
                return;
            }
        }
        let settled = self.next_lsn - 1;
        self.unsynced.clear();
        self.unsynced_bytes = 0;
        (self.sync_due, self.sync_by) = (false, None);
        self.syncs += 1;
        if !self.unpublished.is_empty() {
            let mut state = self.shared.state.write();
            self.unpublished.drain(..).for_each(|(lsn, changes)| state.change(lsn, &changes));
        }
        self.shared.watermarks.synced(settled);
        self.shared.statistics.syncs.fetch_add(1, Ordering::Relaxed);
        self.shared.statistics.sync.record(started.elapsed());
        self.publish();
        self.touched.clear();
        if !self.disposals.is_empty() {
            self.shared.apply.lock().disposals.extend(self.disposals.drain(..));
            self.shared.apply_signal.raise();
        }
    }

    /// Whether a checkpoint should be made.
    pub fn checkpoint_is_due(&self, now: u64) -> bool {
        let every = u64::try_from(self.shared.tuning.load().checkpoint_every.as_millis()).unwrap_or(u64::MAX);
        let changed = self.next_lsn - 1 > self.checkpoint_lsn;
        self.shared.checkpoint_wanted.load(Ordering::Relaxed)
            || changed && now.saturating_sub(self.last_checkpoint) >= every
            || self.shared.ring.used_permille(self.head) > CHECKPOINT_PERMILLE
    }

    /// Syncs, and takes down what a checkpoint holds; `None` if the log is closed.
    pub fn checkpoint(&mut self, now: u64) -> Option<Snapshot> {
        self.sync();
        if self.shared.closed.get().is_some() {
            return None;
        }
        self.shared.checkpoint_wanted.store(false, Ordering::Relaxed);
        self.last_checkpoint = now;
        self.checkpoint_lsn = self.next_lsn - 1;
        let expiry = u64::try_from(self.shared.options.producer_expiry.as_millis()).unwrap_or(u64::MAX);
        self.producers.expire(now.saturating_sub(expiry));
        let table = self.shared.table.read();
        let mut partitions: Vec<_> = table
            .by_number
            .values()
            .filter(|partition| partition.is_announced())
            .map(|partition| (Arc::clone(partition), partition.head()))
            .collect();
        partitions.sort_by_key(|(partition, _)| partition.number);
        let disposals = {
            let queue = self.shared.apply.lock();
            queue.disposals.iter().chain(&queue.not_disposed).map(Disposal::kept).collect()
        };
        let dirty = std::mem::take(&mut self.dirty);
        dirty.iter().for_each(|partition| partition.state.lock().dirty = false);
        Some(Snapshot {
            lsn: self.checkpoint_lsn,
            place: self.head,
            incarnation: self.incarnation,
            epoch: self.epoch,
            append_time: self.append_time,
            id_ceiling: self.ids.ceiling(),
            next_partition: table.next,
            partitions,
            disposals,
            dirty,
            state: self.latest.clone(),
            producers: self.producers.clone(),
        })
    }

    /// Takes back the partitions of a checkpoint that failed ([`Checkpointer::run`](crate::Checkpointer::run)), for the
    /// next one.
    pub fn return_dirty(&mut self, dirty: Vec<Arc<Partition>>) {
        dirty.iter().for_each(|partition| self.mark_dirty(partition));
    }
}

/// The most bytes a submission takes in a turn.
fn needed_bytes(submission: &Submission) -> usize {
    submission.bytes.len() + submission.items.iter().map(needed_by_item).sum::<usize>()
}

fn needed_by_item(item: &Item) -> usize {
    /// An announcement and a ceiling beside the item itself.
    const EXTRA: usize = 64;
    let partition = match &item.what {
        What::Append(append) => &append.partition,
        What::Change(change) => match &**change {
            Change::State { changes, .. } => {
                let bytes = |change: &StateChange| change.key.len() + change.value.as_ref().map_or(0, Vec::len) + 16;
                return EXTRA + changes.iter().map(bytes).sum::<usize>();
            }
            Change::Create(partition) | Change::Delete(partition) => partition,
            Change::Trim { partition, .. } | Change::Counted { partition, .. } => partition,
            Change::Barrier => return 0,
        },
    };
    let announcement =
        if partition.is_announced() { 0 } else { partition.topic.len() + partition.root.as_os_str().len() * 3 };
    APPEND_OVERHEAD_BYTES + EXTRA + announcement
}
