//! The handle of an open data directory: what everybody but the three steps uses. Cheap to clone.

use crate::checkpoint::{Checkpoint, Kept};
use crate::files::{FileKey, FileKind, path};
use crate::format::Format;
use crate::index::read_marks;
use crate::options::Tuning;
use crate::partition::{Partition, PartitionSettings, Read, Segment, SegmentSummary};
use crate::settled::Settled;
use crate::shared::Shared;
use crate::state::Versioned;
use crate::statistics::Statistics;
use crate::submission::{Change, Item, Outcome, Outlet, OutletId, Refusal, Submission, What};
use crate::survey::{Sought, Survey, seek_record, survey};
use metaq_disk::{Disk, Lock, Open};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An open data directory.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    callers: Arc<Callers>,
    callers_id: OutletId,
    _lock: Arc<dyn Lock>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the log in {}", self.shared.options.log_path.display())
    }
}

/// Why a partition can't be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The data path isn't one that the directory was opened with.
    #[error("{0} is none of the data paths that the broker was started with")]
    UnknownRoot(PathBuf),
    /// Its predecessor is still being removed.
    #[error("the partition was just deleted and its files are still being removed; try again")]
    BeingDeleted,
}

/// Why [`Log::perform`] didn't do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PerformError {
    /// It was refused; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It wasn't settled in time: it may be done, or be done later.
    #[error("it wasn't settled within {0:?}; it may be done all the same")]
    Unknown(Duration),
}

/// Facts about the directory, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauges {
    /// Bytes waiting to be written into segments.
    pub pending_bytes: usize,
    /// Segments and indexes open.
    pub files_open: usize,
    /// Share of the commit log in use, in thousandths.
    pub log_used_permille: u64,
    /// Appends are refused for want of room.
    pub disk_full: bool,
    /// Entry that the last checkpoint covers.
    pub checkpoint_lsn: u64,
    /// Keys of the durable map.
    pub state_keys: usize,
}

impl Log {
    pub(crate) fn new(shared: Arc<Shared>, lock: Box<dyn Lock>) -> Self {
        let callers = Arc::new(Callers { shared: Arc::downgrade(&shared), ..Callers::default() });
        let callers_id = register(&shared, Arc::clone(&callers) as Arc<dyn Outlet>);
        Self { shared, callers, callers_id, _lock: lock.into() }
    }

    /// Registers where submissions go back to.
    pub fn register(&self, outlet: Arc<dyn Outlet>) -> OutletId {
        register(&self.shared, outlet)
    }

    /// Hands something to the sequencer. It comes back through its outlet, whatever happens.
    pub fn submit(&self, submission: Box<Submission>) {
        self.shared.queue.lock().push(submission);
        self.shared.submitted.raise();
    }

    /// Makes rare changes and waits until they are settled. Not for the sequencer's or a network thread.
    pub fn perform(&self, changes: Vec<Change>, limit: Duration) -> Result<Vec<Outcome>, PerformError> {
        let token = self.callers.next.fetch_add(1, Ordering::Relaxed);
        self.callers.waiting.lock().insert(token, None);
        let items = changes.into_iter().map(|change| Item { tag: 0, what: What::Change(Box::new(change)) }).collect();
        self.submit(Box::new(Submission {
            outlet: self.callers_id,
            token,
            bytes: Vec::new(),
            items,
            outcomes: Vec::new(),
            wait_durable: 0,
        }));
        let outcomes = self.callers.wait(token, limit)?;
        let refused = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Refused(why) => Some(why.clone()),
            _ => None,
        });
        refused.map_or(Ok(outcomes), |why| Err(why.into()))
    }

    /// The watermarks.
    pub fn settled(&self) -> Settled {
        self.shared.settled()
    }

    /// Why the directory is closed for writing, if it is.
    pub fn closed(&self) -> Option<Arc<str>> {
        self.shared.closed.get().cloned()
    }

    /// The partition of that topic and index.
    pub fn partition(&self, topic: &str, index: u32) -> Option<Arc<Partition>> {
        self.shared.table.read().by_name.get(&(topic.into(), index)).cloned()
    }

    /// The partition with that number.
    pub fn partition_numbered(&self, number: u32) -> Option<Arc<Partition>> {
        self.shared.table.read().by_number.get(&number).cloned()
    }

    /// All partitions, by topic and index.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        let mut all: Vec<_> = self.shared.table.read().by_number.values().cloned().collect();
        all.sort_by(|one, other| (&one.topic, one.index).cmp(&(&other.topic, other.index)));
        all
    }

    /// The partition of that topic and index, made if there is none. It exists durably with its first append, or
    /// once [`Change::Create`] is settled. `root`: `None` is the first data path.
    pub fn create_partition(
        &self,
        topic: &str,
        index: u32,
        root: Option<&Path>,
        settings: PartitionSettings,
    ) -> Result<Arc<Partition>, CreateError> {
        let roots = &self.shared.options.data_paths;
        let root = match root {
            Some(root) => {
                roots.iter().find(|known| *known == root).ok_or_else(|| CreateError::UnknownRoot(root.to_owned()))?
            }
            None => &roots[0],
        };
        let mut table = self.shared.table.write();
        let key: (Arc<str>, u32) = (topic.into(), index);
        if let Some(partition) = table.by_name.get(&key) {
            return Ok(Arc::clone(partition));
        }
        if table.deleting.contains(&key) {
            return Err(CreateError::BeingDeleted);
        }
        let head = crate::partition::Head { segment: 0, end: 0, sequence: 0, first_sequence: 0, append_time: 0 };
        let first = crate::partition::Segment { start: 0, first_sequence: Some(0), append_time: None, created: false };
        let partition = Arc::new(Partition::new(table.next, topic, index, root.clone(), settings, vec![first], head));
        table.add(Arc::clone(&partition));
        Ok(partition)
    }

    /// Reads from a partition: at most `max` bytes, not across a segment's end, nothing that isn't settled.
    pub fn read(&self, partition: &Partition, position: u64, max: usize, settled: Settled) -> io::Result<Read> {
        self.shared.read(partition, position, max, settled)
    }

    /// The segments of a partition, oldest first.
    pub fn segments(&self, partition: &Partition) -> io::Result<Vec<SegmentSummary>> {
        partition.segments(&self.shared.files)
    }

    /// Start of the segment that holds `position`; the oldest one's if it lies below.
    pub fn segment_start(&self, partition: &Partition, position: u64) -> u64 {
        partition.segment_start(position)
    }

    /// The value of a key, as far as settled.
    pub fn state(&self, space: u8, key: &[u8]) -> Option<Versioned> {
        self.shared.state.read().value(space, key).cloned()
    }

    /// All settled keys of a space that begin with `prefix`, in order.
    pub fn state_under(&self, space: u8, prefix: &[u8]) -> Vec<(Vec<u8>, Versioned)> {
        self.shared.state.read().under(space, prefix)
    }

    /// Counts and times.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// Facts of this moment.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            pending_bytes: self.shared.pending_bytes.load(Ordering::Relaxed),
            files_open: self.shared.files.count(),
            log_used_permille: self.shared.statistics.log_used_permille.load(Ordering::Relaxed),
            disk_full: self.shared.disk_full.load(Ordering::Relaxed),
            checkpoint_lsn: self.shared.checkpoint_lsn.load(Ordering::Relaxed),
            state_keys: self.shared.state.read().len(),
        }
    }

    /// Changes what may change while the directory is open.
    pub fn tune(&self, tuning: Tuning) {
        self.shared.tuning.store(Arc::new(tuning));
    }

    /// Asks for a checkpoint soon.
    pub fn want_checkpoint(&self) {
        self.shared.checkpoint_wanted.store(true, Ordering::Relaxed);
        self.shared.submitted.raise();
    }

    /// Prepares a trim: makes sure that it is known how many messages lie below `first`, counting them if need be.
    pub fn trim(&self, partition: &Arc<Partition>, first: u64, disposal: crate::entry::Disposal) -> io::Result<Change> {
        let unknown = {
            let state = partition.state.lock();
            let at = state.segments.iter().position(|segment| segment.start == first);
            at.filter(|at| *at > 0 && state.segments[*at].first_sequence.is_none()).map(|at| {
                let before = state.segments[at - 1].start;
                let kept = state.segments[..at].iter().filter(|segment| segment.start >= state.trimmed);
                (before, kept.map(|segment| segment.start).collect::<Vec<_>>())
            })
        };
        if let Some((before, below)) = unknown {
            let sequence = self.sequence_at_end(partition, before, first, &below)?;
            let mut state = partition.state.lock();
            if let Some(segment) = state.segments.iter_mut().find(|segment| segment.start == first) {
                segment.first_sequence = Some(sequence);
            }
        }
        Ok(Change::Trim { partition: Arc::clone(partition), first, disposal })
    }

    /// Relative running number of the message at `end`, where the segment that starts at `start` ends.
    fn sequence_at_end(&self, partition: &Partition, start: u64, end: u64, below: &[u64]) -> io::Result<i64> {
        let marks = self.marks(partition, start, end)?;
        if let Some(mark) = marks.last() {
            let file = self.segment_file(partition, start)?;
            let rest = survey(file, mark.position - start, || {})?;
            return Ok(mark.sequence + i64::try_from(rest.records).unwrap_or(0));
        }
        let first = partition.state.lock().first_sequence;
        let counted: io::Result<u64> =
            below.iter().map(|start| Ok(survey(self.segment_file(partition, *start)?, 0, || {})?.records)).sum();
        Ok(first + i64::try_from(counted?).unwrap_or(0))
    }

    fn marks(&self, partition: &Partition, start: u64, end: u64) -> io::Result<Vec<crate::index::Mark>> {
        match self.shared.disk.open(&path(&partition.folder, start, FileKind::Index), Open::Read) {
            Ok(file) => read_marks(&*file, &(start..end)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn segment_file(&self, partition: &Partition, start: u64) -> io::Result<Arc<dyn metaq_disk::File>> {
        let key = FileKey { partition: partition.number, start, kind: FileKind::Segment };
        self.shared.files.open(&partition.folder, key, false)
    }

    /// Position of the first message whose append time is not before `time` (milliseconds since 1970), as exactly as
    /// the index tells (about 64 KiB early); the visible end if all are older.
    pub fn position_at(&self, partition: &Partition, time: u64) -> io::Result<u64> {
        let bounds = partition.bounds(self.settled());
        for segment in self.segments(partition)? {
            if segment.append_time < time || segment.end == segment.start {
                continue;
            }
            let marks = self.marks(partition, segment.start, segment.end)?;
            let older = marks.iter().take_while(|mark| mark.append_time < time).last();
            return Ok(older.map_or(segment.start, |mark| mark.position).min(bounds.end));
        }
        Ok(bounds.end)
    }

    /// Position of the message with relative running number `sequence`; `None` if it isn't kept or not yet written.
    pub fn position_of(&self, partition: &Partition, sequence: i64) -> io::Result<Option<u64>> {
        let (segments, end) = {
            let state = partition.state.lock();
            (state.segments.clone(), state.end)
        };
        self.shared.apply(partition)?;
        for (at, segment) in segments.iter().enumerate().rev() {
            let segment_end = segments.get(at + 1).map_or(end, |next| next.start);
            let marks = self.marks(partition, segment.start, segment_end)?;
            let known = marks.iter().rev().find(|mark| mark.sequence <= sequence);
            let known = known.map(|mark| (mark.position, mark.sequence)).or_else(|| {
                let first = if at == 0 { Some(partition.state.lock().first_sequence) } else { segment.first_sequence };
                first.filter(|first| *first <= sequence).map(|first| (segment.start, first))
            });
            if let Some((position, number)) = known {
                return self.walk_to(partition, &segments[at..], position, number, sequence);
            }
        }
        Ok(None)
    }

    /// Position of message `target`, walking over `segments` from `position`, where message `number` begins. The numbers
    /// that segments begin with are remembered.
    fn walk_to(
        &self,
        partition: &Partition,
        segments: &[Segment],
        mut position: u64,
        mut number: i64,
        target: i64,
    ) -> io::Result<Option<u64>> {
        for segment in segments {
            position = position.max(segment.start);
            if let Some(known) = partition.state.lock().segments.iter_mut().find(|known| known.start == position) {
                known.first_sequence = Some(number);
            }
            let file = self.segment_file(partition, segment.start)?;
            match seek_record(file, position - segment.start, number, target)? {
                Sought::At(at) => return Ok(Some(segment.start + at)),
                Sought::Behind(next) => number = next,
                Sought::Damaged => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Checks and counts the sealed segments of an adopted partition. `pause` is called after each MiB. What is found
    /// damaged is reported and remembered; the count is given as a change to be submitted.
    pub fn survey_sealed(
        &self,
        partition: &Arc<Partition>,
        mut pause: impl FnMut(),
    ) -> io::Result<(Vec<Survey>, Change)> {
        let starts: Vec<u64> = {
            let state = partition.state.lock();
            let adopted = |segment: &&Segment| segment.start < state.uncounted_below;
            state.segments.iter().filter(adopted).map(|segment| segment.start).collect()
        };
        let mut surveys = Vec::new();
        for start in starts {
            let survey = survey(self.segment_file(partition, start)?, 0, &mut pause)?;
            let mut damage: Vec<_> = survey.damage.clone();
            if survey.end < survey.len {
                damage.push(survey.end..survey.len);
            }
            let mut state = partition.state.lock();
            for bad in damage {
                let range = start + bad.start..start + bad.end;
                tracing::error!(
                    ?partition,
                    from = range.start,
                    to = range.end,
                    "an old segment is damaged; messages behind it can be read"
                );
                state.damage.push(crate::partition::Damage { range });
            }
            state.damage.sort_by_key(|damage| damage.range.start);
            drop(state);
            surveys.push(survey);
        }
        let sealed = surveys.iter().map(|survey| survey.records).sum();
        Ok((surveys, Change::Counted { partition: Arc::clone(partition), sealed }))
    }

    /// The last checkpoint, for a backup.
    pub fn checkpoint_copy(&self) -> io::Result<CheckpointCopy> {
        let (disk, folder) = (&*self.shared.disk, &self.shared.options.log_path);
        let checkpoint = Checkpoint::read(disk, folder).map_err(io::Error::other)?;
        let format = Format::read(disk, folder).map_err(io::Error::other)?;
        let (checkpoint, format) = checkpoint.zip(format).ok_or(io::ErrorKind::NotFound)?;
        Ok(CheckpointCopy { checkpoint, format })
    }

    /// The disk that the directory lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// What the directory was opened with.
    pub fn options(&self) -> &crate::options::Options {
        &self.shared.options
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// The last checkpoint, to be written beside copies of the segments that it speaks of.
#[derive(Debug)]
pub struct CheckpointCopy {
    checkpoint: Checkpoint,
    format: Format,
}

/// What of a partition belongs to a copy of a checkpoint: its segments up to the last one, and of that the bytes up to `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedPartition {
    /// The partition's number.
    pub number: u32,
    /// Where its last segment begins.
    pub segment: u64,
    /// Where it ends.
    pub end: u64,
}

impl CheckpointCopy {
    /// Everything up to this entry is in it.
    pub fn lsn(&self) -> u64 {
        self.checkpoint.lsn
    }

    /// The partitions.
    pub fn partitions(&self) -> Vec<CopiedPartition> {
        let copied =
            |kept: &Kept| CopiedPartition { number: kept.number, segment: kept.head.segment, end: kept.head.end };
        self.checkpoint.partitions.iter().map(copied).collect()
    }

    /// Makes `folder`, which holds the copied partition folders, the data directory of a broker that was stopped cleanly.
    pub fn write(mut self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        self.checkpoint.clean = true;
        self.checkpoint.partitions.iter_mut().for_each(|kept| folder.clone_into(&mut kept.root));
        self.checkpoint.write(disk, folder)?;
        self.format.write(disk, folder)
    }
}

fn register(shared: &Shared, outlet: Arc<dyn Outlet>) -> OutletId {
    let mut outlets = shared.outlets.write();
    outlets.push(outlet);
    OutletId(outlets.len() - 1)
}

/// Threads that wait in [`Log::perform`].
#[derive(Default)]
struct Callers {
    shared: std::sync::Weak<Shared>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Option<Box<Submission>>>>,
    changed: Condvar,
}

impl Callers {
    fn wait(&self, token: u64, limit: Duration) -> Result<Vec<Outcome>, PerformError> {
        let until = Instant::now() + limit;
        let mut waiting = self.waiting.lock();
        loop {
            let done =
                waiting.get(&token).and_then(Option::as_ref).is_some_and(|submission| self.is_settled(submission));
            let closed = if done { None } else { self.closed() };
            let late = !done && closed.is_none() && self.changed.wait_until(&mut waiting, until).timed_out();
            if done || late || closed.is_some() {
                let submission = waiting.remove(&token).flatten().filter(|_| done);
                let why = closed.map_or(PerformError::Unknown(limit), |why| Refusal::StoreClosed(why).into());
                return submission.map(|submission| submission.outcomes).ok_or(why);
            }
        }
    }

    fn closed(&self) -> Option<Arc<str>> {
        self.shared.upgrade().and_then(|shared| shared.closed.get().cloned())
    }

    fn is_settled(&self, submission: &Submission) -> bool {
        self.shared.upgrade().is_none_or(|shared| shared.settled().durable >= submission.wait_durable)
    }
}

impl Outlet for Callers {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        let mut waiting = self.waiting.lock();
        for submission in sequenced.drain(..) {
            if let Some(slot) = waiting.get_mut(&submission.token) {
                *slot = Some(submission);
            }
        }
    }

    fn wake(&self, _ready: &[u32]) {
        if !self.waiting.lock().is_empty() {
            self.changed.notify_all();
        }
    }
}
