//! Opening a data directory: reads the checkpoint, adopts what it doesn't know, replays the log, and says what it found.
//!
//! Nothing is changed before the log has been walked once and found whole up to a torn end. Replaying is idempotent:
//! a crash during it starts it again. A process kill, a power cut and an interrupted recovery are the same code.

use crate::applier::{self, Applier, Disposal};
use crate::checkpoint::{Checkpoint, CheckpointError, Checkpointer, Kept, KeptDisposal};
use crate::entry::{self, Entry, EntryError};
use crate::files::{FileKind, Files, path};
use crate::folder::{Folder, folders};
use crate::format::{Format, FormatError};
use crate::log::Log;
use crate::options::Options;
use crate::partition::{Damage, Head, Partition, Push, Segment};
use crate::producers::{Producers, Stored};
use crate::ring::{self, From as WalkFrom, Geometry, Place, Ring, WalkError};
use crate::sequencer::{Sequencer, Start};
use crate::settled::{Class, Settled, Watermarks};
use crate::shared::{ApplyQueue, Shared, Signal, Table};
use crate::state::StateMap;
use crate::statistics::Statistics;
use crate::survey::survey;
use arc_swap::ArcSwap;
use metaq_disk::{Disk, Lock, Open};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes pending in one partition during a replay before they are written.
const REPLAY_PENDING_BYTES: usize = 1 << 20;

/// Why a data directory can't be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the disk said.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("another process uses the data directory (it holds {0}); one process per directory")]
    Locked(PathBuf),
    /// The file that says whose it is.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The commit log.
    #[error(transparent)]
    Log(#[from] WalkError),
    /// An entry of the commit log.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The log and the checkpoint contradict each other.
    #[error(
        "entry {lsn} of the commit log doesn't fit: {why}. Nothing was changed; please report this with the output of `metaq log dump`"
    )]
    Contradiction {
        /// The entry.
        lsn: u64,
        /// What doesn't fit.
        why: String,
    },
    /// There are log files, but nothing that says from where to read them.
    #[error(
        "{0} holds commit log files but there is no checkpoint: restore the directory from a copy, or remove the files if they are not needed"
    )]
    LogWithoutCheckpoint(PathBuf),
    /// Options that don't go together.
    #[error("{0}")]
    Options(String),
}

pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
    let doing = what.into();
    move |source| OpenError::Io { doing, source }
}

/// Something that an operator should know about the directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `<topic>-<index>`.
    pub partition: String,
    /// What was found there.
    pub what: Found,
}

/// What was found in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Its segments were not known to this directory's log, and are now.
    Adopted {
        /// Segments.
        segments: usize,
        /// Its end.
        end: u64,
    },
    /// It was changed by another program since the last clean stop.
    ChangedElsewhere {
        /// Where it ended.
        was: u64,
        /// Where it ends.
        end: u64,
    },
    /// The last segment's tail was torn and has been cut.
    Cut {
        /// Where it ends.
        position: u64,
        /// Bytes that were cut.
        bytes: u64,
    },
    /// Bytes in the middle are no records; nothing was cut.
    Damaged {
        /// First bad position.
        from: u64,
        /// The next whole record.
        to: u64,
    },
    /// Segments are missing or overlap; the partition is closed for puts, its files are untouched.
    Closed {
        /// What is wrong.
        why: String,
    },
    /// Written bytes of a topic that isn't `fsync` were lost in a power cut.
    Shorter {
        /// Where it had ended, as far as is known.
        was: u64,
        /// Where it ends.
        end: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = &self.partition;
        match &self.what {
            Found::Adopted { segments, end } => {
                write!(f, "{partition}: adopted with {segments} segments up to position {end}")
            }
            Found::ChangedElsewhere { was, end } => {
                write!(
                    f,
                    "{partition}: another program moved its end from position {was} to {end} since the last clean stop"
                )
            }
            Found::Cut { position, bytes } => {
                write!(f, "{partition}: the last {bytes} bytes were torn and were cut at position {position}")
            }
            Found::Damaged { from, to } => write!(
                f,
                "{partition}: the bytes from position {from} to {to} are damaged; nothing was cut, messages behind them can be read from position {to}"
            ),
            Found::Closed { why } => write!(f, "{partition}: closed for puts, its files are untouched: {why}"),
            Found::Shorter { was, end } => {
                write!(f, "{partition}: a power cut took back what was not synced, from position {end} to {was}")
            }
        }
    }
}

/// What opening a directory found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The directory had been stopped cleanly, or is fresh.
    pub clean: bool,
    /// Turns replayed from the log.
    pub turns: u64,
    /// Entries replayed.
    pub entries: u64,
    /// The last turn was torn: an interrupted write, or a flipped bit in a turn that nobody was told of.
    pub torn: bool,
    /// What an operator should know.
    pub findings: Vec<Finding>,
    /// Partitions whose older segments should be counted and checked in the background.
    pub to_survey: Vec<Arc<Partition>>,
}

impl PartialEq for Partition {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Partition {}

/// An open data directory: the handle, and the steps that must be driven.
pub struct Opened {
    /// The handle.
    pub log: Log,
    /// To be driven by one thread.
    pub sequencer: Sequencer,
    /// To be driven by one thread.
    pub applier: Applier,
    /// To be driven by one thread.
    pub checkpointer: Checkpointer,
    /// What was found.
    pub report: Report,
}

/// Opens a data directory, creating it if it is empty. `now`: milliseconds since 1970.
pub fn open(disk: Arc<dyn Disk>, options: Options, now: u64) -> Result<Opened, OpenError> {
    check(&options)?;
    let log_path = options.log_path.clone();
    for folder in options.data_paths.iter().chain([&log_path]) {
        create_folder(&*disk, folder).map_err(doing(format!("creating {}", folder.display())))?;
    }
    let lock_path = log_path.join("lock");
    let lock = disk.lock(&lock_path).map_err(doing(format!("locking {}", lock_path.display())))?;
    let lock = lock.ok_or(OpenError::Locked(lock_path))?;
    let known = Format::read(&*disk, &log_path)?;
    let checkpoint = Checkpoint::read(&*disk, &log_path)?;
    match (&known, &checkpoint) {
        (Some(format), Some(_)) => format.check(&options.cluster, options.broker)?,
        (Some(_), None) => return Err(CheckpointError::Damaged { folder: log_path }.into()),
        (None, Some(checkpoint)) if checkpoint.lsn > 0 => return Err(FormatError::Missing { folder: log_path }.into()),
        (None, Some(_)) => {} // A first start was interrupted.
        (None, None) => refuse_log_files(&*disk, &options)?,
    }
    let fresh = known.is_none();
    Recovery::new(disk, options, checkpoint.filter(|_| !fresh), now)?.run(lock, fresh, now)
}

/// Creates a folder and makes its name durable, and those of its parents: an earlier start may have created them and
/// been interrupted. Parents that this process may not sync were there before.
fn create_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    disk.create_dir(folder)?;
    for parent in folder.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match disk.sync_dir(parent) {
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput) => {
                tracing::debug!(?parent, %error, "this folder can't be synced");
            }
            result => result?,
        }
    }
    Ok(())
}

fn check(options: &Options) -> Result<(), OpenError> {
    let refuse = |why: String| Err(OpenError::Options(why));
    if options.broker > 1023 {
        return refuse(format!("broker id {} is not in 0..=1023", options.broker));
    }
    if options.data_paths.is_empty() {
        return refuse("no data path is given".to_owned());
    }
    let ring = options.ring;
    if ring.files < 2
        || ring.file_bytes < 64 * 1024
        || !ring.file_bytes.is_multiple_of(4096)
        || ring.file_bytes > 1 << 30
    {
        return refuse(format!(
            "a commit log of {} files of {} bytes: at least 2 files, each a multiple of 4096 from 64 KiB to 1 GiB",
            ring.files, ring.file_bytes
        ));
    }
    Ok(())
}

/// Log files without a checkpoint hold something, unless they are nothing but zeros (a first start was interrupted).
fn refuse_log_files(disk: &dyn Disk, options: &Options) -> Result<(), OpenError> {
    let folder = options.log_path.join("commit");
    for number in 0..options.ring.files {
        let file = match disk.open(&ring::file_path(&folder, number), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(doing("opening the commit log")(error)),
        };
        let mut head = [0; 64];
        let read = file.read_at(&mut head, 0).map_err(doing("reading the commit log"))?;
        if head[..read].iter().any(|byte| *byte != 0) {
            return Err(OpenError::LogWithoutCheckpoint(folder));
        }
    }
    Ok(())
}

/// A directory being recovered.
struct Recovery {
    disk: Arc<dyn Disk>,
    options: Options,
    files: Files,
    checkpoint: Checkpoint,
    /// From a checkpoint: what it doesn't know was put there by another program.
    folders: HashMap<(String, u32), Folder>,
    table: Table,
    report: Report,
    trims: Vec<Disposal>,
    foreseen: Foreseen,
    /// Where files ended that were cut or removed because the log has what was in them.
    found_ends: HashMap<u32, u64>,
}

/// What the log says about partitions whose files may already be gone.
#[derive(Default)]
struct Foreseen {
    trimmed: HashMap<u32, u64>,
    deleted: HashSet<u32>,
}

impl Foreseen {
    fn note(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Trim { partition, first, .. } => {
                let to = self.trimmed.entry(*partition).or_default();
                *to = (*to).max(*first);
            }
            Entry::PartitionDeleted { partition } => {
                self.deleted.insert(*partition);
            }
            _ => {}
        }
    }
}

impl Recovery {
    fn new(disk: Arc<dyn Disk>, options: Options, checkpoint: Option<Checkpoint>, now: u64) -> Result<Self, OpenError> {
        let mut found = HashMap::new();
        for root in &options.data_paths {
            for folder in folders(&*disk, root).map_err(doing(format!("listing {}", root.display())))? {
                let key = (folder.topic.clone(), folder.index);
                if let Some(other) = found.insert(key, folder) {
                    let twice = format!("{} stands in two data paths ({} is one)", other.name(), other.root.display());
                    return Err(OpenError::Options(twice));
                }
            }
        }
        let checkpoint = checkpoint.unwrap_or_else(|| Checkpoint {
            clean: true,
            lsn: 0,
            place: Place { generation: 0, offset: 0 },
            incarnation: 0,
            epoch: 0,
            append_time: 0,
            id_ceiling: now,
            next_partition: 0,
            geometry: options.ring,
            partitions: Vec::new(),
            disposals: Vec::new(),
            state: StateMap::default(),
            producers: Producers::default(),
        });
        let mut checkpoint = checkpoint;
        for kept in &mut checkpoint.partitions {
            // Where it is counts, not where it was: a directory may be moved, or a backup opened.
            let folder = found.get(&(kept.topic.clone(), kept.index));
            kept.root = folder.map_or_else(|| known_root(&options, &kept.root), |folder| folder.root.clone());
        }
        let files = Files::new(Arc::clone(&disk), options.files_max);
        let table = Table { next: checkpoint.next_partition, ..Table::default() };
        let report = Report { clean: checkpoint.clean, ..Report::default() };
        let (trims, foreseen, found_ends) = (Vec::new(), Foreseen::default(), HashMap::new());
        Ok(Self { disk, options, files, checkpoint, folders: found, table, report, trims, foreseen, found_ends })
    }

    fn commit_folder(&self) -> PathBuf {
        self.options.log_path.join("commit")
    }

    fn run(mut self, lock: Box<dyn Lock>, fresh: bool, now: u64) -> Result<Opened, OpenError> {
        let from = WalkFrom {
            place: self.checkpoint.place,
            lsn: self.checkpoint.lsn + 1,
            incarnation: self.checkpoint.incarnation,
        };
        let commit = self.commit_folder();
        let geometry = self.checkpoint.geometry;
        if !self.checkpoint.clean {
            self.look_ahead(&commit, geometry, from)?;
        }
        let clean = self.checkpoint.clean;
        self.delete_rest()?;
        for kept in std::mem::take(&mut self.checkpoint.partitions) {
            if clean { self.load_clean(kept)? } else { self.load(kept)? }
        }
        self.trim_rest();
        let mut next_lsn = from.lsn;
        if !clean {
            next_lsn = self.replay(&commit, from)?;
        }
        self.adopt_rest()?;
        self.finish(lock, fresh, next_lsn, now)
    }

    /// Walks the log without changing anything but that what it holds is durable afterwards: what is replayed (that a
    /// segment goes, say) must not be lost after it was carried out.
    fn look_ahead(&mut self, commit: &Path, geometry: Geometry, from: WalkFrom) -> Result<(), OpenError> {
        let mut bad = None;
        let (mut place, mut turns, mut settled) = (from.place, Vec::new(), 0);
        ring::walk(&*self.disk, commit, geometry, from, |header, entries| {
            if header.generation != place.generation {
                place = Place { generation: header.generation, offset: 0 };
            }
            turns.push((header.next_lsn() - 1, (place, header.padded_bytes())));
            place.offset += header.padded_bytes() as u64;
            settled = header.settled_lsn;
            for (lsn, entry) in (header.first_lsn..).zip(entry::entries(entries)) {
                match entry {
                    Ok(entry) => self.foreseen.note(&entry),
                    Err(error) => _ = bad.get_or_insert((lsn, error)),
                }
            }
        })?;
        match bad {
            None => {
                turns.retain(|(last, _)| *last > settled);
                let turns: Vec<_> = turns.into_iter().map(|(_, turn)| turn).collect();
                ring::rewrite(&*self.disk, commit, geometry, &turns).map_err(doing("syncing the commit log"))
            }
            Some((_, error @ EntryError::UnknownKind { .. })) => Err(error.into()),
            Some((lsn, EntryError::Malformed)) => {
                Err(OpenError::Contradiction { lsn, why: EntryError::Malformed.to_string() })
            }
        }
    }

    /// Removes the folders of partitions that were deleted before the checkpoint, but not yet gone then.
    fn delete_rest(&mut self) -> Result<(), OpenError> {
        for disposal in &self.checkpoint.disposals {
            if let KeptDisposal::Delete { topic, index } = disposal
                && let Some(folder) = self.folders.remove(&(topic.clone(), *index))
            {
                let removed = applier::remove_folder(&*self.disk, &folder.path);
                removed.map_err(doing(format!("removing {}", folder.path.display())))?;
            }
        }
        Ok(())
    }

    /// Takes up the trims that were settled before the checkpoint, but not yet carried out then.
    fn trim_rest(&mut self) {
        for disposal in &self.checkpoint.disposals {
            if let KeptDisposal::Trim { partition, first, how } = disposal
                && let Some(partition) = self.table.by_number.get(partition)
            {
                self.trims.push(Disposal::Trim { partition: Arc::clone(partition), first: *first, how: *how });
            }
        }
    }

    /// A partition of a directory that was stopped cleanly. If it ends further on than it did, another program wrote to
    /// it: it is adopted again, never cut. If it ends before, something was lost: its positions must not be given again.
    fn load_clean(&mut self, kept: Kept) -> Result<(), OpenError> {
        let name = (kept.topic.clone(), kept.index);
        let last = self.folders.get(&name).and_then(|folder| folder.segments.last().copied());
        let (start, end) = last.map_or((0, 0), |last| (last.start, last.start + last.len));
        let Head { segment: was_start, end: was_end, .. } = kept.head;
        if kept.failed.is_some() || (start, end) == (was_start, was_end) {
            let folder = self.folders.remove(&name);
            return self.keep(kept, folder);
        }
        if start < was_start || (start == was_start && end < was_end) {
            return self.load(kept);
        }
        match self.folders.remove(&name) {
            Some(folder) => self.adopt(folder, Some(kept)),
            None => self.keep(kept, None),
        }
    }

    fn keep(&mut self, kept: Kept, folder: Option<Folder>) -> Result<(), OpenError> {
        let segments = folder.as_ref().map_or(&[][..], |folder| &folder.segments);
        let segments = segments.iter().map(|segment| found_segment(segment.start)).collect();
        let partition = self.partition(&kept, segments, kept.head);
        if let Some(folder) = &folder {
            note_gaps(&partition, folder);
        }
        if let Some(gap) = folder.and_then(|folder| folder.gap()) {
            self.close(&partition, gap.to_string());
        }
        Ok(())
    }

    fn partition(&mut self, kept: &Kept, mut segments: Vec<Segment>, head: Head) -> Arc<Partition> {
        if segments.last().is_none_or(|last| last.start < head.segment) {
            segments.push(Segment { start: head.segment, first_sequence: None, append_time: None, created: false });
        }
        let root = kept.root.clone();
        let partition =
            Partition::new(kept.number, &kept.topic, kept.index, root, self.options.settings, segments, head);
        partition.announced.store(1, Ordering::Relaxed);
        {
            let mut state = partition.state.lock();
            state.failed = kept.failed.as_deref().map(Into::into);
            state.failed_for_good = kept.failed.is_some();
            state.damage.clone_from(&kept.damage);
            state.uncounted_below = kept.uncounted_below;
        }
        let partition = Arc::new(partition);
        self.table.add(Arc::clone(&partition));
        partition
    }

    /// A partition of a directory that wasn't stopped cleanly: brought back to where the checkpoint says it was.
    fn load(&mut self, mut kept: Kept) -> Result<(), OpenError> {
        let folder = self.folders.remove(&(kept.topic.clone(), kept.index));
        let head = kept.head;
        let mut segments = Vec::new();
        let mut trouble = None;
        let mut last_end = None;
        let mut removed = false;
        if let Some(folder) = &folder {
            for segment in &folder.segments {
                let end = self.found_ends.entry(kept.number).or_default();
                *end = (*end).max(segment.start + segment.len);
                if segment.start > head.segment {
                    // Made after the checkpoint: the log has all of it.
                    let file = path(&folder.path, segment.start, FileKind::Segment);
                    self.disk.remove_file(&file).map_err(doing(format!("removing {}", file.display())))?;
                    removed = true;
                } else {
                    segments.push(found_segment(segment.start));
                    last_end = Some((segment.start, segment.start + segment.len));
                }
            }
            let below = Folder {
                segments: folder.segments.iter().filter(|one| one.start <= head.segment).copied().collect(),
                ..folder.clone()
            };
            trouble = below.gap().map(|gap| gap.to_string());
        }
        let gone = self.foreseen.deleted.contains(&kept.number)
            || self.foreseen.trimmed.get(&kept.number).is_some_and(|first| *first > head.segment);
        let mut cut = false;
        if let Some(folder) = folder.as_ref().filter(|_| trouble.is_some() && !gone) {
            kept.damage.extend(missing(folder, head.segment, &kept.damage));
        }
        match last_end {
            _ if gone => trouble = None,
            Some((start, end)) if start == head.segment => {
                let file = path(
                    &folder.as_ref().map_or_else(PathBuf::new, |folder| folder.path.clone()),
                    start,
                    FileKind::Segment,
                );
                if end > head.end {
                    let open = self.disk.open(&file, Open::Write).and_then(|file| file.set_len(head.end - start));
                    open.map_err(doing(format!("cutting {}", file.display())))?;
                    cut = true;
                } else if end < head.end {
                    let why = format!("the segment at {start} ends at {end}; it had been synced up to {}", head.end);
                    note(&mut kept.damage, end..head.end);
                    trouble = trouble.or(Some(why));
                }
            }
            _ if head.end > head.segment => {
                let why = format!("the segment at {} is missing; it had been synced up to {}", head.segment, head.end);
                note(&mut kept.damage, head.segment..head.end);
                trouble = trouble.or(Some(why));
            }
            _ => {}
        }
        let partition = self.partition(&kept, segments, head);
        {
            // Else what is gone may come back, and then the checkpoint doesn't fit it any more.
            let mut state = partition.state.lock();
            state.unsynced.extend(cut.then_some(head.segment));
            state.new_names = removed;
        }
        if let Some(why) = trouble {
            self.close(&partition, why);
        }
        Ok(())
    }

    fn close(&mut self, partition: &Partition, why: String) {
        partition.fail(&why);
        partition.state.lock().failed_for_good = true;
        self.find(partition, Found::Closed { why });
    }

    fn find(&mut self, partition: &Partition, what: Found) {
        let partition = format!("{}-{}", partition.topic, partition.index);
        self.report.findings.push(Finding { partition, what });
    }

    fn replay(&mut self, commit: &Path, from: WalkFrom) -> Result<u64, OpenError> {
        let mut failed = None;
        let (disk, geometry) = (Arc::clone(&self.disk), self.checkpoint.geometry);
        let walked = ring::walk(&*disk, commit, geometry, from, |header, entries| {
            for (lsn, entry) in (header.first_lsn..).zip(entry::entries(entries).flatten()) {
                if failed.is_none() {
                    failed = self.replay_entry(lsn, &entry, header.append_time).err();
                }
            }
            self.checkpoint.append_time = self.checkpoint.append_time.max(header.append_time);
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.report.turns = walked.turns;
        self.report.entries = walked.next_lsn - from.lsn;
        self.report.torn = walked.torn;
        Ok(walked.next_lsn)
    }

    fn known(&self, lsn: u64, number: u32) -> Result<Arc<Partition>, OpenError> {
        let partition = self.table.by_number.get(&number).cloned();
        partition.ok_or_else(|| OpenError::Contradiction { lsn, why: format!("partition number {number} is unknown") })
    }

    fn replay_entry(&mut self, lsn: u64, entry: &Entry<'_>, append_time: u64) -> Result<(), OpenError> {
        match entry {
            Entry::Append(append) => {
                let partition = self.known(lsn, append.partition)?;
                self.replay_append(lsn, &partition, append, append_time)?;
            }
            Entry::PartitionCreated { partition, topic, index, root } => {
                let head = Head { segment: 0, end: 0, sequence: 0, first_sequence: 0, append_time: 0 };
                let folder = self.folders.remove(&((*topic).to_owned(), *index));
                let stood = folder.is_some();
                if let Some(folder) = folder {
                    // What it holds the log holds too: nothing of it was in a checkpoint.
                    for segment in &folder.segments {
                        let file = path(&folder.path, segment.start, FileKind::Segment);
                        self.disk.remove_file(&file).map_err(doing(format!("removing {}", file.display())))?;
                    }
                }
                let root = known_root(&self.options, Path::new(root));
                let (topic, failed, damage) = ((*topic).to_owned(), None, Vec::new());
                let kept =
                    Kept { number: *partition, topic, index: *index, root, head, failed, damage, uncounted_below: 0 };
                self.partition(&kept, Vec::new(), head).state.lock().new_names = stood;
            }
            Entry::PartitionDeleted { partition } => {
                let partition = self.known(lsn, *partition)?;
                self.table.remove(&partition);
                self.checkpoint.producers.forget_partition(partition.number);
                self.trims.retain(|trim| trim.partition().number != partition.number);
                // At once: another partition of the same name may follow in the log.
                self.files.forget_partition(partition.number);
                let removed = applier::remove_folder(&*self.disk, &partition.folder);
                removed.map_err(doing(format!("removing the deleted {partition:?}")))?;
            }
            Entry::Trim { partition, first, first_sequence, disposal } => {
                let partition = self.known(lsn, *partition)?;
                let mut state = partition.state.lock();
                state.first_sequence = *first_sequence;
                if *first == state.end {
                    state.start_segment(*first, *first_sequence);
                }
                drop(state);
                self.trims.push(Disposal::Trim { partition, first: *first, how: *disposal });
            }
            Entry::State(changes) => self.checkpoint.state.change(lsn, changes),
            Entry::IdCeiling { clock } => self.checkpoint.id_ceiling = self.checkpoint.id_ceiling.max(*clock),
            Entry::Counted { partition, first_sequence } => {
                let partition = self.known(lsn, *partition)?;
                let mut state = partition.state.lock();
                (state.first_sequence, state.uncounted_below) = (*first_sequence, 0);
            }
        }
        Ok(())
    }

    fn replay_append(
        &mut self,
        lsn: u64,
        partition: &Partition,
        append: &entry::Appended<'_>,
        append_time: u64,
    ) -> Result<(), OpenError> {
        let mut state = partition.state.lock();
        if append.position != state.end {
            let why = format!("{partition:?} ends at {}, the append goes to {}", state.end, append.position);
            return Err(OpenError::Contradiction { lsn, why });
        }
        let target = crate::partition::Target {
            position: append.position,
            sequence: append.sequence.cast_signed(),
            starts_segment: append.starts_segment,
        };
        let settled = Settled { written: lsn, durable: lsn };
        let (count, records, class) = (append.count, append.records, Class::Durable);
        state.push(Push { target, lsn, turn_lsn: lsn, class, count, records, append_time, settled });
        let pending = state.pending.len();
        drop(state);
        if pending >= REPLAY_PENDING_BYTES {
            partition.apply(&self.files).1.map_err(doing(format!("writing a segment of {partition:?}")))?;
        }
        if let (Some(batch), Some(first)) = (append.producer, append.records.get(8..16)) {
            let first_id = i64::from_be_bytes(first.try_into().expect("eight bytes"));
            let stored = Stored { sequence: batch.sequence, count, first_id, position: append.position, lsn };
            self.checkpoint.producers.stored(partition.number, batch, stored, append_time);
        }
        Ok(())
    }

    /// Folders that neither the checkpoint nor the log know: an original's.
    fn adopt_rest(&mut self) -> Result<(), OpenError> {
        let mut rest: Vec<_> = std::mem::take(&mut self.folders).into_values().collect();
        rest.sort_by(|one, other| (&one.topic, one.index).cmp(&(&other.topic, other.index)));
        rest.into_iter().try_for_each(|folder| self.adopt(folder, None))
    }

    /// Takes a folder as it is. `kept`: what was known of it at the last clean stop.
    fn adopt(&mut self, folder: Folder, kept: Option<Kept>) -> Result<(), OpenError> {
        let gap = folder.gap();
        let was = kept.as_ref().map(|kept| kept.head);
        let last = folder.segments.last().copied();
        let mut trouble = gap.map(|gap| gap.to_string());
        let mut surveyed = None;
        if let Some(last) = last.filter(|_| trouble.is_none()) {
            let file = path(&folder.path, last.start, FileKind::Segment);
            match self.disk.open(&file, Open::Write).and_then(|file| survey(file, 0, || {})) {
                Ok(survey) => surveyed = Some(survey),
                Err(error) => trouble = Some(format!("{} can't be read: {error}", file.display())),
            }
        }
        let start = last.map_or(0, |last| last.start);
        let end =
            surveyed.as_ref().map_or_else(|| last.map_or(0, |last| last.start + last.len), |survey| start + survey.end);
        let records = surveyed.as_ref().map_or(0, |survey| survey.records);
        let sequence = i64::try_from(records).unwrap_or(0);
        let head = Head {
            segment: start,
            end,
            sequence,
            first_sequence: 0,
            append_time: was.map_or(0, |was| was.append_time),
        };
        let number = kept.as_ref().map_or(self.table.next, |kept| kept.number);
        let segments = folder.segments.iter().map(|segment| found_segment(segment.start)).collect::<Vec<_>>();
        let count = segments.len();
        let kept = Kept {
            number,
            topic: folder.topic.clone(),
            index: folder.index,
            root: folder.root.clone(),
            head,
            failed: None,
            damage: Vec::new(),
            uncounted_below: if trouble.is_none() && count > 1 { start } else { 0 },
        };
        let partition = self.partition(&kept, segments, head);
        note_gaps(&partition, &folder);
        self.remove_indexes(&partition, &folder)?;
        match was {
            Some(was) => self.find(&partition, Found::ChangedElsewhere { was: was.end, end }),
            None => self.find(&partition, Found::Adopted { segments: count, end }),
        }
        if let Some(survey) = surveyed {
            self.judge(&partition, &folder, start, &survey)?;
        }
        if let Some(why) = trouble {
            self.close(&partition, why);
        }
        Ok(())
    }

    /// Indexes that stand beside adopted segments count from another message than the partition does from here on.
    fn remove_indexes(&self, partition: &Partition, folder: &Folder) -> Result<(), OpenError> {
        for segment in &folder.segments {
            let index = path(&folder.path, segment.start, FileKind::Index);
            match self.disk.remove_file(&index) {
                Ok(()) => partition.state.lock().new_names = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(doing(format!("removing {}", index.display()))(error)),
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        partition: &Partition,
        folder: &Folder,
        start: u64,
        survey: &crate::survey::Survey,
    ) -> Result<(), OpenError> {
        for bad in &survey.damage {
            let range = start + bad.start..start + bad.end;
            self.find(partition, Found::Damaged { from: range.start, to: range.end });
            partition.state.lock().damage.push(Damage { range });
        }
        if survey.end < survey.len {
            let file = path(&folder.path, start, FileKind::Segment);
            let cut =
                self.disk.open(&file, Open::Write).and_then(|file| file.set_len(survey.end).and_then(|()| file.sync()));
            cut.map_err(doing(format!("cutting {}", file.display())))?;
            self.find(partition, Found::Cut { position: start + survey.end, bytes: survey.len - survey.end });
        }
        Ok(())
    }

    /// Makes everything durable, writes a checkpoint of its own, and hands out the parts.
    fn finish(mut self, lock: Box<dyn Lock>, fresh: bool, next_lsn: u64, now: u64) -> Result<Opened, OpenError> {
        let io = |what: &str| doing(what.to_owned());
        let mut partitions: Vec<_> = self.table.by_number.values().cloned().collect();
        partitions.sort_by_key(|partition| partition.number);
        for partition in &partitions {
            partition.create_files(&self.files).map_err(io("creating an empty segment"))?;
        }
        if !self.report.clean {
            for partition in &partitions {
                partition.apply(&self.files).1.map_err(io("writing a recovered segment"))?;
                partition.sync(&self.files).map_err(io("syncing a recovered segment"))?;
                let end = partition.state.lock().end;
                if let Some(was) = self.found_ends.get(&partition.number).copied().filter(|was| *was > end) {
                    self.find(partition, Found::Shorter { was, end });
                }
            }
        }
        for root in &self.options.data_paths {
            self.disk.sync_dir(root).map_err(io("syncing the data path"))?;
        }
        let settled = next_lsn - 1;
        let incarnation = self.checkpoint.incarnation + 1;
        let generation =
            if fresh { 0 } else { self.checkpoint.place.generation + u64::from(self.checkpoint.geometry.files) };
        let place = Place { generation, offset: 0 };
        let commit = self.commit_folder();
        let whole = |disk: &dyn Disk| ring::is_whole(disk, &commit, self.options.ring, generation);
        let same = self.checkpoint.geometry == self.options.ring;
        let keeps = fresh || same && whole(&*self.disk).map_err(io("looking at the commit log"))?;
        if !keeps {
            // The log's files are made anew, and only after a checkpoint says that nothing of them is needed.
            let interim = Checkpoint {
                lsn: settled,
                place,
                incarnation,
                geometry: self.options.ring,
                partitions: partitions.iter().map(|partition| Kept::of(partition, partition.head())).collect(),
                disposals: self.trims.iter().map(Disposal::kept).collect(),
                next_partition: self.table.next,
                clean: true,
                ..self.checkpoint.clone()
            };
            interim.write(&*self.disk, &self.options.log_path).map_err(io("writing the checkpoint"))?;
            remove_ring(&*self.disk, &commit).map_err(io("removing the commit log to make it anew"))?;
        }
        let ring =
            Ring::open(&*self.disk, &commit, self.options.ring, generation).map_err(io("filling the commit log"))?;
        let shared = Shared {
            files: self.files,
            ring,
            watermarks: Watermarks::at(settled),
            table: RwLock::new(self.table),
            state: RwLock::new(self.checkpoint.state.clone()),
            closed: OnceLock::new(),
            queue: Mutex::new(Vec::new()),
            submitted: Signal::default(),
            outlets: RwLock::new(Vec::new()),
            apply: Mutex::new(ApplyQueue::default()),
            apply_signal: Signal::default(),
            pending_bytes: AtomicUsize::new(0),
            disk_full: AtomicBool::new(false),
            segment_lost: AtomicBool::new(false),
            checkpoint_wanted: AtomicBool::new(false),
            checkpoint_lsn: AtomicU64::new(settled),
            statistics: Statistics::default(),
            disk: Arc::clone(&self.disk),
            tuning: ArcSwap::from_pointee(self.options.tuning),
            options: self.options,
        };
        let shared = Arc::new(shared);
        shared.apply.lock().disposals.extend(std::mem::take(&mut self.trims));
        let mut applier = Applier::new(Arc::clone(&shared));
        applier.dispose();
        for partition in &partitions {
            partition.sync(&shared.files).map_err(io("syncing a trimmed partition"))?;
        }
        let start = Start {
            incarnation,
            epoch: self.checkpoint.epoch,
            head: place,
            next_lsn,
            append_time: self.checkpoint.append_time,
            id_ceiling: self.checkpoint.id_ceiling,
            state: self.checkpoint.state,
            producers: self.checkpoint.producers,
            now,
        };
        let mut sequencer = Sequencer::new(Arc::clone(&shared), start);
        let snapshot = sequencer.checkpoint(now).expect("a log that was just opened isn't closed");
        let checkpoint = snapshot.into_checkpoint(shared.ring.geometry(), false);
        checkpoint.write(&*self.disk, &shared.options.log_path).map_err(io("writing the checkpoint"))?;
        shared.statistics.checkpoint_time.store(now, Ordering::Relaxed);
        if fresh {
            let Options { cluster, program, broker, .. } = &shared.options;
            let format = Format {
                format: crate::format::FORMAT,
                cluster: cluster.clone(),
                broker: *broker,
                program: program.clone(),
            };
            format.write(&*self.disk, &shared.options.log_path).map_err(io("writing metaq.format"))?;
        }
        let log = Log::new(Arc::clone(&shared), lock);
        let checkpointer = Checkpointer::new(shared);
        self.report.findings.sort_by(|one, other| one.partition.cmp(&other.partition));
        self.report.to_survey = log.partitions();
        self.report.to_survey.retain(|partition| partition.state.lock().uncounted_below > 0);
        Ok(Opened { log, sequencer, applier, checkpointer, report: self.report })
    }
}

/// What readers are to be told of the places where segments don't follow each other: nothing stands there.
fn missing(folder: &Folder, below: u64, known: &[Damage]) -> Vec<Damage> {
    folder
        .gaps()
        .filter(|gap| gap.end < gap.next && gap.next <= below)
        .map(|gap| Damage { range: gap.end..gap.next })
        .filter(|damage| !known.contains(damage))
        .collect()
}

fn note(damage: &mut Vec<Damage>, range: Range<u64>) {
    if !damage.iter().any(|known| known.range.start <= range.start && range.end <= known.range.end) {
        damage.push(Damage { range });
    }
}

fn note_gaps(partition: &Partition, folder: &Folder) {
    let mut state = partition.state.lock();
    let missing = missing(folder, u64::MAX, &state.damage);
    state.damage.extend(missing);
    state.damage.sort_by_key(|damage| damage.range.start);
}

/// The data path that was written down, if it is still one; else the first.
fn known_root(options: &Options, root: &Path) -> PathBuf {
    let known = options.data_paths.iter().find(|known| *known == root);
    known.unwrap_or(&options.data_paths[0]).clone()
}

fn found_segment(start: u64) -> Segment {
    Segment { start, first_sequence: None, append_time: None, created: true }
}

fn remove_ring(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    if disk.metadata(folder)?.is_none() {
        return Ok(());
    }
    for listed in disk.list(folder)? {
        disk.remove_file(&folder.join(&listed.name))?;
    }
    Ok(())
}
