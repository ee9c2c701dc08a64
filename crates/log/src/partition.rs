//! A partition: its segments, its end, what is visible of it, and the bytes not yet in its segments.
//!
//! Invariants, in positions: `first ≤ visible ≤ end` and `applied ≤ end`; `pending` holds exactly the bytes from
//! `applied` to `end`. Only the sequencer moves `end`. Bytes reach a segment in order, under the apply lock. Nobody
//! holds the state lock while touching a file.

use crate::files::{FileKey, FileKind, Files};
use crate::index::{IndexWriter, MARK_BYTES, MARK_EVERY_BYTES, Mark, read_marks};
use crate::settled::{Class, Settled};
use metaq_disk::{File, read_exact_at, write_all_at};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How durable an acknowledged message of a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced before it is acknowledged.
    Fsync,
    /// Acknowledged when written; the log is synced after so many messages of the partition or so much time.
    Interval {
        /// More than this many messages since the last sync cause one.
        messages: u32,
        /// The first unsynced message causes a sync after this time.
        time: Duration,
    },
    /// Acknowledged when written; synced when the log is synced for another reason, at checkpoints at the latest.
    Os,
}

impl Durability {
    /// What an append waits for.
    pub fn class(self) -> Class {
        match self {
            Self::Fsync => Class::Durable,
            Self::Interval { .. } | Self::Os => Class::Written,
        }
    }
}

/// What may change while a partition is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionSettings {
    /// When appends are acknowledged.
    pub durability: Durability,
    /// A segment at or above this size is followed by another.
    pub segment_bytes_max: u64,
}

/// Bytes pending in a partition that make it worth writing its segment.
pub(crate) const APPLY_BYTES: usize = 16 * 1024;

/// One segment: a file that holds a range of the partition.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub start: u64,
    /// Relative running number of its first message, where known.
    pub first_sequence: Option<i64>,
    /// Largest append time in it, where known.
    pub append_time: Option<u64>,
    /// Its file exists.
    pub created: bool,
}

/// The end of an append that may not be settled.
#[derive(Debug, Clone, Copy)]
struct Unsettled {
    lsn: u64,
    class: Class,
    end: u64,
}

/// How a partition stands in the queue of those to be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    Lazy,
    Eager,
}

/// An index mark whose checksum isn't known until its bytes are applied.
#[derive(Debug, Clone, Copy)]
struct PendingMark {
    position: u64,
    sequence: i64,
    append_time: u64,
}

/// What is wrong with a range of a partition's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// From the first bad byte to the next whole record.
    pub range: Range<u64>,
}

/// What changes of a partition, under its lock.
pub(crate) struct State {
    pub settings: PartitionSettings,
    pub segments: Vec<Segment>,
    pub end: u64,
    pub sequence: i64,
    pub first_sequence: i64,
    /// Segments below this position were adopted and their messages aren't counted yet; 0: all are.
    pub uncounted_below: u64,
    /// Everything below is trimmed, though segments may still stand there.
    pub trimmed: u64,
    pub append_time: u64,
    pub visible: u64,
    unsettled: VecDeque<Unsettled>,
    pub applied: u64,
    pub pending: Vec<u8>,
    marks: VecDeque<PendingMark>,
    last_mark: u64,
    /// How it stands in the queue of partitions to be applied.
    pub queued: Queued,
    /// Has appends that no checkpoint covers.
    pub dirty: bool,
    /// Segments written since their last sync.
    pub unsynced: Vec<u64>,
    /// The folder has names that aren't durable.
    pub new_names: bool,
    pub damage: Vec<Damage>,
    /// Why no more is written to it.
    pub failed: Option<Arc<str>>,
    /// Until it is repaired; else until the directory is opened again.
    pub failed_for_good: bool,
    pub deleted: bool,
    /// Appends since the last sync, and the sync they were counted after.
    pub interval: (u64, u32),
}

/// One partition of this data directory.
pub struct Partition {
    /// Its number in this data directory, never given again.
    pub number: u32,
    /// Topic.
    pub topic: Arc<str>,
    /// Index in the topic.
    pub index: u32,
    /// The data path that its folder stands in.
    pub root: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) state: Mutex<State>,
    writer: Mutex<Option<IndexWriter>>,
    /// Readers waiting for more; who waits counts itself in.
    pub waiting: AtomicU32,
    /// The entry that says it exists; 0: none does.
    pub(crate) announced: AtomicU64,
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{} (number {})", self.topic, self.index, self.number)
    }
}

/// What a checkpoint keeps of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Start of the last segment.
    pub segment: u64,
    pub end: u64,
    pub sequence: i64,
    pub first_sequence: i64,
    pub append_time: u64,
}

/// The bytes a read may send: a range of one open file.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The segment, kept open (and readable, even if retention removes its name).
    pub file: Arc<dyn File>,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes, at least 1.
    pub len: usize,
    /// Position of the first byte in the partition.
    pub position: u64,
}

/// What a read found.
#[derive(Debug, Clone)]
pub enum Read {
    /// Bytes from the position asked for.
    Slice(Slice),
    /// Nothing yet: the position is the visible end.
    AtEnd,
    /// The position lies behind the visible end.
    Beyond {
        /// The visible end.
        end: u64,
    },
    /// The position lies before the oldest segment.
    Below {
        /// Where the oldest segment begins.
        first: u64,
    },
    /// The position lies in a damaged range.
    Damaged {
        /// The next whole record.
        next: u64,
    },
}

/// Counts and bounds of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Where the oldest segment begins.
    pub first: u64,
    /// The visible end.
    pub end: u64,
    /// Messages kept, those not yet visible included.
    pub messages: u64,
    /// Largest append time, milliseconds since 1970; 0 if unknown.
    pub append_time: u64,
    /// Why no more is written to it, if so.
    pub failed: Option<Arc<str>>,
    /// Damaged ranges that were found.
    pub damage: Vec<Damage>,
}

/// A segment as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Position of its first byte.
    pub start: u64,
    /// Position behind its last byte.
    pub end: u64,
    /// Append time of its newest message, milliseconds since 1970.
    pub append_time: u64,
    /// It takes no more appends.
    pub sealed: bool,
}

/// Where the next append goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub position: u64,
    pub sequence: i64,
    pub starts_segment: bool,
}

/// An append on its way into a partition.
pub(crate) struct Push<'a> {
    pub target: Target,
    pub lsn: u64,
    /// First entry of the turn it is in.
    pub turn_lsn: u64,
    pub class: Class,
    pub count: u32,
    pub records: &'a [u8],
    pub append_time: u64,
    pub settled: Settled,
}

impl Partition {
    /// A partition with the segments that stand on disk (`segments`, in order) and everything applied up to `head.end`.
    pub(crate) fn new(
        number: u32,
        topic: &str,
        index: u32,
        root: PathBuf,
        settings: PartitionSettings,
        segments: Vec<Segment>,
        head: Head,
    ) -> Self {
        let folder = root.join(format!("{topic}-{index}"));
        let state = State {
            settings,
            trimmed: segments.first().map_or(head.end, |segment| segment.start),
            segments,
            end: head.end,
            sequence: head.sequence,
            first_sequence: head.first_sequence,
            uncounted_below: 0,
            append_time: head.append_time,
            visible: head.end,
            unsettled: VecDeque::new(),
            applied: head.end,
            pending: Vec::new(),
            marks: VecDeque::new(),
            last_mark: head.end,
            queued: Queued::No,
            dirty: false,
            unsynced: Vec::new(),
            new_names: false,
            damage: Vec::new(),
            failed: None,
            failed_for_good: false,
            deleted: false,
            interval: (0, 0),
        };
        let (state, writer) = (Mutex::new(state), Mutex::new(None));
        Self {
            number,
            topic: topic.into(),
            index,
            root,
            folder,
            state,
            writer,
            waiting: AtomicU32::new(0),
            announced: AtomicU64::new(0),
        }
    }

    /// Changes what may change.
    pub fn configure(&self, settings: PartitionSettings) {
        self.state.lock().settings = settings;
    }

    /// Whether the log has an entry that says it exists.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed) > 0
    }

    /// Whether somebody waits for more of it.
    pub(crate) fn awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Counts and bounds as of `settled`.
    pub fn bounds(&self, settled: Settled) -> Bounds {
        let mut state = self.state.lock();
        state.settle(settled);
        Bounds {
            first: state.first(),
            end: state.visible,
            messages: u64::try_from(state.sequence - state.first_sequence).unwrap_or(0),
            append_time: state.append_time,
            failed: state.failed.clone(),
            damage: state.damage.clone(),
        }
    }

    /// The segments, oldest first; append times that aren't known are the files' times.
    pub(crate) fn segments(&self, files: &Files) -> io::Result<Vec<SegmentSummary>> {
        let (segments, end, limit) = {
            let state = self.state.lock();
            (state.segments.clone(), state.end, state.settings.segment_bytes_max)
        };
        let ends = segments.iter().skip(1).map(|segment| segment.start).chain([end]);
        let last = segments.len().saturating_sub(1);
        segments
            .iter()
            .zip(ends)
            .enumerate()
            .map(|(at, (segment, end))| {
                let append_time = match segment.append_time {
                    Some(time) => time,
                    None => self.file_time(files, segment.start)?,
                };
                let sealed = at < last || end - segment.start >= limit;
                Ok(SegmentSummary { start: segment.start, end, append_time, sealed })
            })
            .collect()
    }

    /// Start of the segment that holds `position`; the oldest one's if it lies below.
    pub(crate) fn segment_start(&self, position: u64) -> u64 {
        let state = self.state.lock();
        state.segments.get(state.segment_at(position)).map_or(0, |segment| segment.start)
    }

    fn file_time(&self, files: &Files, start: u64) -> io::Result<u64> {
        let path = crate::files::path(&self.folder, start, FileKind::Segment);
        let modified = files.disk().metadata(&path)?.map(|metadata| metadata.modified);
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        Ok(since.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }

    /// What stands at `position`: at most `max` bytes, never across a segment's end, never beyond what is settled.
    pub(crate) fn read(
        &self,
        position: u64,
        max: usize,
        settled: Settled,
        files: &Files,
        apply: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Read> {
        let (segment, end, applied) = {
            let mut state = self.state.lock();
            state.settle(settled);
            if position < state.first() {
                return Ok(Read::Below { first: state.first() });
            }
            if position >= state.visible {
                let end = state.visible;
                return Ok(if position == end { Read::AtEnd } else { Read::Beyond { end } });
            }
            let limit = state.visible.min(position.saturating_add(max as u64));
            let damage = state.damage.iter().find(|damage| damage.range.end > position);
            let limit = match damage {
                Some(damage) if damage.range.start <= position => {
                    return Ok(Read::Damaged { next: damage.range.end });
                }
                Some(damage) => limit.min(damage.range.start),
                None => limit,
            };
            let at = state.segment_at(position);
            let segment_end = state.segments.get(at + 1).map_or(u64::MAX, |next| next.start);
            (state.segments[at].start, limit.min(segment_end), state.applied)
        };
        let end = if end > applied { self.read_end(position, end, apply())? } else { end };
        if end > applied && !self.has_segment(segment) {
            // It was deleted since the lock was held, and what was pending with it.
            return Ok(Read::Below { first: self.state.lock().first() });
        }
        let key = FileKey { partition: self.number, start: segment, kind: FileKind::Segment };
        let file = match files.open(&self.folder, key, false) {
            // It was trimmed since the lock was held.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.has_segment(segment) => {
                return Ok(Read::Below { first: self.state.lock().first() });
            }
            file => file?,
        };
        let len = usize::try_from(end - position).expect("a slice is bounded by usize");
        Ok(Read::Slice(Slice { file, offset: position - segment, len, position }))
    }

    /// Where a read ends whose last bytes were pending: what couldn't be written can't be read, what stands before it can.
    fn read_end(&self, position: u64, end: u64, applied: io::Result<()>) -> io::Result<u64> {
        match applied {
            Ok(()) => Ok(end),
            Err(error) => {
                let applied = self.state.lock().applied;
                if applied > position { Ok(end.min(applied)) } else { Err(error) }
            }
        }
    }

    /// Writes all pending bytes into the segments; gives how many were. On an error the rest stays pending.
    pub(crate) fn apply(&self, files: &Files) -> (usize, io::Result<()>) {
        let mut writer = self.writer.lock();
        let (mut from, mut bytes, marks, segments) = {
            let mut state = self.state.lock();
            state.queued = Queued::No;
            if state.pending.is_empty() {
                return (0, Ok(()));
            }
            let at = state.segment_at(state.applied);
            let segments = state.segments[at..].to_vec();
            (state.applied, std::mem::take(&mut state.pending), std::mem::take(&mut state.marks), segments)
        };
        let started = from;
        let whole = bytes.len();
        let result = self.write_segments(&mut writer, files, &mut from, &bytes, &marks, &segments);
        let done = usize::try_from(from - started).expect("no more than was pending");
        let mut state = self.state.lock();
        state.applied = from;
        for segment in segments.iter().filter(|segment| segment.start < from) {
            state.wrote(segment.start);
        }
        if done < whole {
            bytes.drain(..done);
            bytes.append(&mut state.pending);
            state.pending = bytes;
            let later = std::mem::take(&mut state.marks);
            state.marks = marks.into_iter().filter(|mark| mark.position > from).chain(later).collect();
        }
        (done, result)
    }

    fn write_segments(
        &self,
        writer: &mut Option<IndexWriter>,
        files: &Files,
        from: &mut u64,
        bytes: &[u8],
        marks: &VecDeque<PendingMark>,
        segments: &[Segment],
    ) -> io::Result<()> {
        let started = *from;
        for (at, segment) in segments.iter().enumerate() {
            let end = segments.get(at + 1).map_or(u64::MAX, |next| next.start).min(started + bytes.len() as u64);
            if end <= *from {
                continue;
            }
            let part = &bytes[usize::try_from(*from - started).expect("within the bytes")..]
                [..usize::try_from(end - *from).expect("within the bytes")];
            if !segment.created {
                files.disk().create_dir(&self.folder)?;
            }
            let key = FileKey { partition: self.number, start: segment.start, kind: FileKind::Segment };
            let file = files.open(&self.folder, key, !segment.created)?;
            write_all_at(&*file, part, *from - segment.start)?;
            if let Err(error) = self.write_marks(writer, files, segment.start, *from, part, marks) {
                tracing::warn!(partition = ?self, segment = segment.start, %error, "the index can't be written; it will be made again");
                *writer = None;
            }
            *from = end;
        }
        Ok(())
    }

    /// Adds to the index the marks that lie in `part`, which begins at `from`.
    fn write_marks(
        &self,
        writer: &mut Option<IndexWriter>,
        files: &Files,
        segment: u64,
        from: u64,
        part: &[u8],
        marks: &VecDeque<PendingMark>,
    ) -> io::Result<()> {
        if from == segment {
            let old = crate::files::path(&self.folder, segment, FileKind::Index);
            if files.disk().metadata(&old)?.is_some() {
                let key = FileKey { partition: self.number, start: segment, kind: FileKind::Index };
                shorten(&*files.open(&self.folder, key, false)?, 0)?;
            }
            *writer = Some(IndexWriter { marks: 0, checksum: 0 });
        } else if writer.is_none() {
            *writer = Some(self.reopen_index(files, segment, from)?);
        }
        let Some(index) = writer.as_mut() else { return Ok(()) };
        let end = from + part.len() as u64;
        let mut at = from;
        for mark in marks.iter().filter(|mark| mark.position > from && mark.position <= end) {
            let piece = &part[usize::try_from(at - from).expect("in the part")..]
                [..usize::try_from(mark.position - at).expect("in the part")];
            index.checksum = crc32c::crc32c_append(index.checksum, piece);
            at = mark.position;
            let PendingMark { position, sequence, append_time } = *mark;
            let whole = Mark { position, sequence, append_time, checksum: index.checksum };
            let key = FileKey { partition: self.number, start: segment, kind: FileKind::Index };
            let file = files.open(&self.folder, key, true)?;
            write_all_at(&*file, &whole.encode(), index.marks * MARK_BYTES as u64)?;
            *index = IndexWriter { marks: index.marks + 1, checksum: 0 };
        }
        index.checksum =
            crc32c::crc32c_append(index.checksum, &part[usize::try_from(at - from).expect("in the part")..]);
        Ok(())
    }

    /// The state of the index of `segment` when bytes up to `from` were applied in an earlier run.
    fn reopen_index(&self, files: &Files, segment: u64, from: u64) -> io::Result<IndexWriter> {
        let key = FileKey { partition: self.number, start: segment, kind: FileKind::Index };
        let marks = match files.open(&self.folder, key, false) {
            Ok(file) => {
                let marks = read_marks(&*file, &(segment..from))?;
                shorten(&*file, (marks.len() * MARK_BYTES) as u64)?;
                marks
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let since = marks.last().map_or(segment, |mark| mark.position);
        let checksum = self.checksum_of(files, segment, since..from)?;
        Ok(IndexWriter { marks: marks.len() as u64, checksum })
    }

    fn checksum_of(&self, files: &Files, segment: u64, range: Range<u64>) -> io::Result<u32> {
        let key = FileKey { partition: self.number, start: segment, kind: FileKind::Segment };
        let file = files.open(&self.folder, key, false)?;
        let mut checksum = 0;
        let mut at = range.start;
        let mut bytes = vec![0; 64 * 1024];
        while at < range.end {
            let len = usize::try_from((range.end - at).min(bytes.len() as u64)).expect("at most the buffer");
            read_exact_at(&*file, &mut bytes[..len], at - segment)?;
            checksum = crc32c::crc32c_append(checksum, &bytes[..len]);
            at += len as u64;
        }
        Ok(checksum)
    }

    /// Makes what was applied durable. Gives the segments back on an error.
    pub(crate) fn sync(&self, files: &Files) -> io::Result<()> {
        let (segments, new_names) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.new_names))
        };
        let result = segments.iter().try_for_each(|start| {
            let key = FileKey { partition: self.number, start: *start, kind: FileKind::Segment };
            match files.open(&self.folder, key, false) {
                Ok(file) => file.sync(),
                // It was trimmed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.has_segment(*start) => Ok(()),
                Err(error) => Err(error),
            }
        });
        let result = result.and_then(|()| if new_names { self.sync_folder(files) } else { Ok(()) });
        if result.is_err() {
            let mut state = self.state.lock();
            state.unsynced.extend(segments);
            state.new_names |= new_names;
        }
        result
    }

    fn sync_folder(&self, files: &Files) -> io::Result<()> {
        match files.disk().sync_dir(&self.folder) {
            // It was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.state.lock().segments.is_empty() => Ok(()),
            result => result,
        }
    }

    fn has_segment(&self, start: u64) -> bool {
        self.state.lock().segments.iter().any(|segment| segment.start == start)
    }

    /// Keeps everybody else from writing its files.
    pub(crate) fn writer(&self) -> impl Drop + '_ {
        self.writer.lock()
    }

    /// Creates the folder and an empty last segment if they don't exist, so that the folder says where the partition
    /// ends. Segments that hold something are created when that is written.
    pub(crate) fn create_files(&self, files: &Files) -> io::Result<()> {
        let _writer = self.writer.lock();
        let start = {
            let state = self.state.lock();
            let last = state.segments.last().filter(|last| !last.created && last.start == state.end);
            last.map(|last| last.start)
        };
        let Some(start) = start else { return Ok(()) };
        files.disk().create_dir(&self.folder)?;
        let key = FileKey { partition: self.number, start, kind: FileKind::Segment };
        files.open(&self.folder, key, true)?;
        self.state.lock().wrote(start);
        Ok(())
    }

    /// What a checkpoint keeps. Meaningful between turns.
    pub(crate) fn head(&self) -> Head {
        let state = self.state.lock();
        Head {
            segment: state.segments.last().map_or(state.end, |segment| segment.start),
            end: state.end,
            sequence: state.sequence,
            first_sequence: state.first_sequence,
            append_time: state.append_time,
        }
    }

    /// Closes the partition for writing, until the directory is opened again.
    pub(crate) fn fail(&self, why: &str) {
        self.state.lock().failed.get_or_insert_with(|| why.into());
    }
}

/// Cuts an index, durably: marks that were cut must not come back behind others.
fn shorten(index: &dyn File, len: u64) -> io::Result<()> {
    if index.len()? == len {
        return Ok(());
    }
    index.set_len(len)?;
    index.sync()
}

impl State {
    /// Where the oldest segment begins.
    pub(crate) fn first(&self) -> u64 {
        self.segments.first().map_or(self.end, |segment| segment.start)
    }

    fn segment_at(&self, position: u64) -> usize {
        self.segments.partition_point(|segment| segment.start <= position).saturating_sub(1)
    }

    fn wrote(&mut self, start: u64) {
        if !self.unsynced.contains(&start) {
            self.unsynced.push(start);
        }
        if let Some(segment) = self.segments.iter_mut().rfind(|segment| segment.start == start)
            && !segment.created
        {
            segment.created = true;
            self.new_names = true;
        }
    }

    /// Moves the visible end over everything that is settled.
    pub(crate) fn settle(&mut self, settled: Settled) {
        while let Some(front) = self.unsettled.front().filter(|front| settled.covers(front.lsn, front.class)) {
            self.visible = front.end;
            self.unsettled.pop_front();
        }
    }

    /// Where the next append goes; a full segment is followed by another.
    pub(crate) fn target(&self) -> Target {
        let starts_segment = match self.segments.last() {
            Some(last) => self.end - last.start >= self.settings.segment_bytes_max && self.end > last.start,
            None => true,
        };
        Target { position: self.end, sequence: self.sequence, starts_segment }
    }

    /// Takes an append that the log will hold.
    pub(crate) fn push(&mut self, append: Push<'_>) {
        let Push { target, lsn, turn_lsn, class, count, records, append_time, settled } = append;
        assert_eq!(target.position, self.end, "appends follow each other");
        self.settle(settled);
        if target.starts_segment {
            self.start_segment(target.position, target.sequence);
        }
        self.end += records.len() as u64;
        self.sequence += i64::from(count);
        self.append_time = self.append_time.max(append_time);
        if let Some(segment) = self.segments.last_mut() {
            segment.append_time = Some(self.append_time);
        }
        self.pending.extend_from_slice(records);
        if self.end - self.last_mark >= MARK_EVERY_BYTES {
            self.last_mark = self.end;
            let (position, sequence, append_time) = (self.end, self.sequence, self.append_time);
            self.marks.push_back(PendingMark { position, sequence, append_time });
        }
        match self.unsettled.back_mut() {
            Some(back) if back.class == class && back.lsn >= turn_lsn => (back.lsn, back.end) = (lsn, self.end),
            _ => self.unsettled.push_back(Unsettled { lsn, class, end: self.end }),
        }
    }

    /// A segment begins at `start`.
    pub(crate) fn start_segment(&mut self, start: u64, sequence: i64) {
        if self.segments.last().is_none_or(|last| last.start != start) {
            self.segments.push(Segment { start, first_sequence: Some(sequence), append_time: None, created: false });
        }
        self.last_mark = start;
    }
}
