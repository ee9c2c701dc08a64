//! The applier: writes pending bytes into segments in the background, removes what was trimmed, and watches for room.

use crate::checkpoint::KeptDisposal;
use crate::entry;
use crate::files::{FileKey, FileKind, INDEX_SUFFIX, path};
use crate::folder::{SegmentFile, segments};
use crate::partition::Partition;
use crate::retention;
use crate::shared::Shared;
use metaq_disk::Disk;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is to be disposed of. Its entry is durable.
#[derive(Clone)]
pub(crate) enum Disposal {
    /// Segments below a position.
    Trim { partition: Arc<Partition>, first: u64, how: entry::Disposal },
    /// A whole partition.
    Delete { partition: Arc<Partition> },
}

/// How long to wait before a segment is written that couldn't be (there was no room, say), milliseconds.
const RETRY_MS: u64 = 200;
/// How often free space is looked at, milliseconds.
const SPACE_MS: u64 = 1000;
/// How long to wait before something is disposed of again that couldn't be, milliseconds.
const DISPOSE_AGAIN_MS: u64 = 60_000;

/// Writes segments. Owns no thread: whoever drives it calls [`Applier::step`].
pub struct Applier {
    shared: Arc<Shared>,
    /// What the clock said last.
    clock: u64,
    next_space: u64,
    next_dispose: u64,
}

impl Applier {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, clock: 0, next_space: 0, next_dispose: 0 }
    }

    /// Does what is due. Gives when to be called again, milliseconds since 1970.
    pub fn step(&mut self, now: u64) -> u64 {
        self.look_at_clock(now);
        if now >= self.next_space {
            self.next_space = now + SPACE_MS;
            self.look_for_room();
        }
        while let Some(partition) = self.next(now) {
            if !self.shared.may_apply(&partition) {
                self.shared.apply.lock().lazy.push_back((now + RETRY_MS, partition));
                continue;
            }
            match self.shared.apply(&partition) {
                Ok(done) => {
                    self.shared.statistics.applied_bytes.fetch_add(done as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    self.shared.apply.lock().lazy.push_back((now + RETRY_MS, partition));
                }
                Err(_) => {} // The partition is closed and said why.
            }
        }
        if now >= self.next_dispose {
            self.next_dispose = now + DISPOSE_AGAIN_MS;
            let mut queue = self.shared.apply.lock();
            let failed = std::mem::take(&mut queue.not_disposed);
            queue.disposals.extend(failed);
        }
        self.dispose();
        let lazy = self.shared.apply.lock().lazy.front().map_or(u64::MAX, |(due, _)| *due);
        lazy.min(self.next_space)
    }

    /// When the clock steps back, what is due at a time steps back with it.
    fn look_at_clock(&mut self, now: u64) {
        let back = self.clock.saturating_sub(now);
        self.clock = now;
        if back > 0 {
            self.next_space = self.next_space.saturating_sub(back);
            self.next_dispose = self.next_dispose.saturating_sub(back);
            self.shared.apply.lock().lazy.iter_mut().for_each(|(due, _)| *due = due.saturating_sub(back));
        }
    }

    fn next(&self, now: u64) -> Option<Arc<Partition>> {
        let mut queue = self.shared.apply.lock();
        if let Some(partition) = queue.eager.pop_front() {
            return Some(partition);
        }
        let due = queue.lazy.front().is_some_and(|(due, _)| *due <= now);
        if due { queue.lazy.pop_front().map(|(_, partition)| partition) } else { None }
    }

    fn look_for_room(&self) {
        let paths = self.shared.options.data_paths.iter();
        let free = paths.filter_map(|path| self.shared.disk.space(path).ok()).map(|space| space.free).min();
        let Some(free) = free else { return };
        // An empty reserve still keeps a block, so that a full disk is noticed before a write fails.
        let reserve = self.shared.tuning.load().disk_reserve_bytes;
        let full = free < reserve.max(4096);
        if self.shared.disk_full.swap(full, Ordering::Relaxed) != full {
            if full {
                tracing::error!(free, reserve, "the disk is full: appends are refused, reads go on");
            } else {
                tracing::warn!(free, "there is room on the disk again: appends are accepted");
            }
        }
    }

    /// Disposes of everything that waits for it; what fails waits to be tried again.
    pub(crate) fn dispose(&mut self) {
        loop {
            // It stays in the queue until it is done: a checkpoint made meanwhile says what isn't.
            let Some(disposal) = self.shared.apply.lock().disposals.front().cloned() else { return };
            let done = match &disposal {
                Disposal::Trim { partition, first, how, .. } => trim(&self.shared, partition, *first, *how),
                Disposal::Delete { partition } => delete(&self.shared, partition).inspect(|()| {
                    self.shared.table.write().deleting.remove(&(Arc::clone(&partition.topic), partition.index));
                }),
            };
            let mut queue = self.shared.apply.lock();
            queue.disposals.pop_front();
            let partition = disposal.partition();
            match done {
                Err(error) => {
                    tracing::error!(?partition, %error, "removing what is no longer kept failed; it is tried again");
                    queue.not_disposed.push(disposal);
                }
                Ok(()) if matches!(disposal, Disposal::Delete { .. }) => {
                    queue.not_disposed.retain(|other| other.partition().number != partition.number);
                }
                Ok(()) => {}
            }
        }
    }
}

impl Disposal {
    pub(crate) fn partition(&self) -> &Partition {
        match self {
            Self::Trim { partition, .. } | Self::Delete { partition } => partition,
        }
    }

    /// As a checkpoint keeps it.
    pub(crate) fn kept(&self) -> KeptDisposal {
        match self {
            Self::Trim { partition, first, how } => {
                KeptDisposal::Trim { partition: partition.number, first: *first, how: *how }
            }
            Self::Delete { partition } => {
                KeptDisposal::Delete { topic: partition.topic.to_string(), index: partition.index }
            }
        }
    }
}

/// Removes or archives the segments below `first`. Who reads them goes on.
pub(crate) fn trim(shared: &Shared, partition: &Partition, first: u64, how: entry::Disposal) -> io::Result<()> {
    shared.apply(partition)?;
    partition.create_files(&shared.files)?;
    if how == entry::Disposal::Archive {
        // The log may be reused before anybody syncs the segment under its other name.
        shared.sync_segments(partition)?;
    }
    {
        let mut state = partition.state.lock();
        let keep = state.segments.partition_point(|segment| segment.start < first);
        state.unsynced.retain(|start| *start >= first);
        state.damage.retain(|damage| damage.range.end > first);
        state.new_names = true;
        state.segments.drain(..keep);
    }
    // What stands there, as an earlier attempt may have been interrupted.
    let mut gone = segments(&*shared.disk, &partition.folder)?;
    gone.retain(|segment| segment.start < first);
    for SegmentFile { start, .. } in &gone {
        forget(shared, partition, *start);
        let segment = path(&partition.folder, *start, FileKind::Segment);
        retention::dispose(&*shared.disk, &segment, how)?;
        remove_if_there(&*shared.disk, &path(&partition.folder, *start, FileKind::Index))?;
    }
    tracing::info!(?partition, segments = gone.len(), first, ?how, "old segments are gone");
    Ok(())
}

/// Removes a partition's folder with everything of ours in it.
pub(crate) fn delete(shared: &Shared, partition: &Partition) -> io::Result<()> {
    let _writer = partition.writer();
    let (starts, pending) = {
        let mut state = partition.state.lock();
        let pending = std::mem::take(&mut state.pending).len();
        state.applied += pending as u64;
        state.unsynced.clear();
        (std::mem::take(&mut state.segments), pending)
    };
    shared.pending_bytes.fetch_sub(pending, Ordering::Relaxed);
    starts.iter().for_each(|segment| forget(shared, partition, segment.start));
    remove_folder(&*shared.disk, &partition.folder)?;
    tracing::info!(?partition, "the partition is deleted");
    Ok(())
}

/// Removes a partition folder: segments, indexes and archives, whole or not; whatever else lies in it stays, and so does the folder then.
pub(crate) fn remove_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    if disk.metadata(folder)?.is_none() {
        return Ok(());
    }
    let names = disk.list(folder)?;
    let ours = |name: &str| {
        let base = [".arc", ".zip", retention::UNFINISHED_SUFFIX].iter().find_map(|suffix| name.strip_suffix(suffix));
        let base = base.unwrap_or(name);
        crate::files::segment_start(base).is_some() || name.ends_with(INDEX_SUFFIX)
    };
    let mut foreign = false;
    for listed in &names {
        if ours(&listed.name) {
            disk.remove_file(&folder.join(&listed.name))?;
        } else {
            foreign = true;
        }
    }
    if foreign {
        tracing::warn!(?folder, "the folder holds files that aren't segments: it stays");
    } else {
        disk.remove_dir(folder)?;
    }
    disk.sync_dir(folder.parent().unwrap_or(folder))
}

fn forget(shared: &Shared, partition: &Partition, start: u64) {
    for kind in [FileKind::Segment, FileKind::Index] {
        shared.files.forget(FileKey { partition: partition.number, start, kind });
    }
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
