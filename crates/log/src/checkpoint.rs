//! The checkpoint: from where the log must be replayed, and everything that isn't in segments up to there.
//!
//! It is written twice (`checkpoint`, `checkpoint.copy`), so that a damaged sector costs nothing; each is written
//! under another name, synced and renamed. Log files are reused only after both are durable.
//!
//! ```text
//! "MQCP" · format u16 · clean u16 · fields as in `encode` · CRC-32C of everything before u32      (little-endian)
//! ```

use crate::bytes::{Put, Short, Take};
use crate::entry::Disposal;
use crate::partition::{Damage, Head, Partition};
use crate::producers::Producers;
use crate::ring::{Geometry, Place};
use crate::shared::Shared;
use crate::state::StateMap;
use metaq_disk::{Disk, Open, read_exact_at, write_all_at};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

const MAGIC: &[u8; 4] = b"MQCP";
/// The form of checkpoint this version writes.
pub const FORMAT: u16 = 1;
/// Name of the checkpoint in the log path.
pub const NAME: &str = "checkpoint";
/// Name of its copy.
pub const COPY: &str = "checkpoint.copy";
pub(crate) const UNFINISHED: &str = "checkpoint.new";
/// In place of how segments are disposed of: a whole folder is.
const DELETED: u8 = 0xff;
/// With more dirty partitions than this, one sync of the whole file system is cheaper than one each.
const SYNC_ALL_ABOVE: usize = 32;

/// What the sequencer takes down for a checkpoint.
pub struct Snapshot {
    pub(crate) lsn: u64,
    pub(crate) place: Place,
    pub(crate) incarnation: u32,
    pub(crate) epoch: u64,
    pub(crate) append_time: u64,
    pub(crate) id_ceiling: u64,
    pub(crate) next_partition: u32,
    pub(crate) partitions: Vec<(Arc<Partition>, Head)>,
    pub(crate) disposals: Vec<KeptDisposal>,
    pub(crate) dirty: Vec<Arc<Partition>>,
    pub(crate) state: StateMap,
    pub(crate) producers: Producers,
}

/// A partition as a checkpoint holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub number: u32,
    pub topic: String,
    pub index: u32,
    pub root: PathBuf,
    pub head: Head,
    pub failed: Option<String>,
    pub damage: Vec<Damage>,
    /// Segments below this position were adopted and their messages aren't counted yet; 0: all are.
    pub uncounted_below: u64,
}

/// What was no longer kept, but still there, when a checkpoint was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeptDisposal {
    /// Segments of the partition with this number below a position.
    Trim { partition: u32, first: u64, how: Disposal },
    /// The folder of a deleted partition, wherever it stands.
    Delete { topic: String, index: u32 },
}

/// A checkpoint as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Everything is in the segments and nothing in the log; they may have been changed by another program since.
    pub clean: bool,
    pub lsn: u64,
    pub place: Place,
    pub incarnation: u32,
    pub epoch: u64,
    pub append_time: u64,
    pub id_ceiling: u64,
    pub next_partition: u32,
    pub geometry: Geometry,
    pub partitions: Vec<Kept>,
    pub disposals: Vec<KeptDisposal>,
    pub state: StateMap,
    pub producers: Producers,
}

/// Why a checkpoint can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk failed.
    #[error("reading the checkpoint: {0}")]
    Io(#[from] io::Error),
    /// Both copies are damaged or missing.
    #[error(
        "both checkpoints in {folder} are damaged or missing; nothing was changed. Restore one of them from a copy, or \
         make them again from the segments with `metaq log recover --rebuild --yes` (what is only in the commit log is \
         lost then)"
    )]
    Damaged {
        /// The log path.
        folder: PathBuf,
    },
    /// A later version wrote it.
    #[error("the checkpoint has format {format}; this version reads format {FORMAT}: start a later version")]
    LaterFormat {
        /// The format found.
        format: u16,
    },
}

impl Checkpoint {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.u16(FORMAT);
        out.u16(u16::from(self.clean));
        out.u64(self.lsn);
        out.u64(self.place.generation);
        out.u64(self.place.offset);
        out.u32(self.incarnation);
        out.u64(self.epoch);
        out.u64(self.append_time);
        out.u64(self.id_ceiling);
        out.u32(self.next_partition);
        out.u32(self.geometry.files);
        out.u64(self.geometry.file_bytes);
        out.u32(u32::try_from(self.partitions.len()).expect("partitions are numbered by u32"));
        self.partitions.iter().for_each(|kept| kept.encode(&mut out));
        out.u32(u32::try_from(self.disposals.len()).expect("disposals are done soon"));
        self.disposals.iter().for_each(|disposal| disposal.encode(&mut out));
        self.state.encode(&mut out);
        self.producers.encode(&mut out);
        let checksum = crc32c::crc32c(&out);
        out.u32(checksum);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Option<u16>> {
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or(None)?;
        if !body.starts_with(MAGIC) || crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(None);
        }
        let mut take = Take::new(&body[MAGIC.len()..]);
        let format = take.u16().map_err(|_| None)?;
        if format != FORMAT {
            return Err(Some(format));
        }
        Self::decode_fields(&mut take).map_err(|Short| None)
    }

    fn decode_fields(take: &mut Take<'_>) -> Result<Self, Short> {
        let clean = take.u16()? != 0;
        let lsn = take.u64()?;
        let place = Place { generation: take.u64()?, offset: take.u64()? };
        let (incarnation, epoch, append_time, id_ceiling) = (take.u32()?, take.u64()?, take.u64()?, take.u64()?);
        let next_partition = take.u32()?;
        let geometry = Geometry { files: take.u32()?, file_bytes: take.u64()? };
        let partitions = (0..take.u32()?).map(|_| Kept::decode(take)).collect::<Result<_, _>>()?;
        let disposals = (0..take.u32()?).map(|_| KeptDisposal::decode(take)).collect::<Result<_, _>>()?;
        let (state, producers) = (StateMap::decode(take)?, Producers::decode(take)?);
        Ok(Self {
            clean,
            lsn,
            place,
            incarnation,
            epoch,
            append_time,
            id_ceiling,
            next_partition,
            geometry,
            partitions,
            disposals,
            state,
            producers,
        })
    }

    /// Writes both copies, durably.
    pub(crate) fn write(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        let bytes = self.encode();
        for name in [NAME, COPY] {
            replace(disk, folder, name, &bytes)?;
        }
        Ok(())
    }

    /// Reads the newer of the two copies that are whole and can be read. `None`: neither exists.
    pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let mut best: Option<Self> = None;
        let mut seen = false;
        let mut unreadable = None;
        for name in [NAME, COPY] {
            let bytes = match read_whole(disk, &folder.join(name)) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    tracing::error!(name, ?folder, %error, "this checkpoint can't be read; the other one is used");
                    unreadable = Some(error);
                    continue;
                }
            };
            seen = true;
            match Self::decode(&bytes) {
                Ok(read) if best.as_ref().is_none_or(|best| read.age() > best.age()) => best = Some(read),
                Ok(_) => {}
                Err(Some(format)) if format > FORMAT => return Err(CheckpointError::LaterFormat { format }),
                Err(_) => tracing::error!(name, ?folder, "this checkpoint is damaged; the other one is used"),
            }
        }
        match (best, unreadable) {
            (None, Some(error)) => Err(error.into()),
            (None, None) if seen => Err(CheckpointError::Damaged { folder: folder.to_owned() }),
            (best, _) => Ok(best),
        }
    }

    pub(crate) fn age(&self) -> (u32, u64, bool) {
        (self.incarnation, self.lsn, self.clean)
    }
}

impl KeptDisposal {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Trim { partition, first, how } => {
                out.u8(how.encode());
                out.u32(*partition);
                out.u64(*first);
            }
            Self::Delete { topic, index } => {
                out.u8(DELETED);
                out.u32(*index);
                out.block(topic.as_bytes());
            }
        }
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Short> {
        let kind = take.u8()?;
        if kind == DELETED {
            return Ok(Self::Delete { index: take.u32()?, topic: take.text()?.to_owned() });
        }
        let how = Disposal::decode(kind).ok_or(Short)?;
        Ok(Self::Trim { partition: take.u32()?, first: take.u64()?, how })
    }
}

impl Kept {
    pub(crate) fn of(partition: &Partition, head: Head) -> Self {
        let state = partition.state.lock();
        Self {
            number: partition.number,
            topic: partition.topic.to_string(),
            index: partition.index,
            root: partition.root.clone(),
            head,
            failed: state.failed.as_ref().filter(|_| state.failed_for_good).map(ToString::to_string),
            damage: state.damage.clone(),
            uncounted_below: state.uncounted_below,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.u32(self.number);
        out.u32(self.index);
        out.block(self.topic.as_bytes());
        out.block(self.root.to_string_lossy().as_bytes());
        out.u64(self.head.segment);
        out.u64(self.head.end);
        out.i64(self.head.sequence);
        out.i64(self.head.first_sequence);
        out.u64(self.head.append_time);
        out.u8(u8::from(self.failed.is_some()));
        if let Some(failed) = &self.failed {
            out.block(failed.as_bytes());
        }
        out.u32(u32::try_from(self.damage.len()).expect("damage is rare"));
        for damage in &self.damage {
            out.u64(damage.range.start);
            out.u64(damage.range.end);
        }
        out.u64(self.uncounted_below);
    }

    fn decode(take: &mut Take<'_>) -> Result<Self, Short> {
        let (number, index) = (take.u32()?, take.u32()?);
        let (topic, root) = (take.text()?.to_owned(), PathBuf::from(take.text()?));
        let head = Head {
            segment: take.u64()?,
            end: take.u64()?,
            sequence: take.i64()?,
            first_sequence: take.i64()?,
            append_time: take.u64()?,
        };
        let failed = if take.u8()? == 0 { None } else { Some(take.text()?.to_owned()) };
        let damage =
            (0..take.u32()?).map(|_| Ok(Damage { range: take.u64()?..take.u64()? })).collect::<Result<_, _>>()?;
        let uncounted_below = take.u64()?;
        Ok(Self { number, topic, index, root, head, failed, damage, uncounted_below })
    }
}

impl Snapshot {
    pub(crate) fn into_checkpoint(self, geometry: Geometry, clean: bool) -> Checkpoint {
        Checkpoint {
            clean,
            lsn: self.lsn,
            place: self.place,
            incarnation: self.incarnation,
            epoch: self.epoch,
            append_time: self.append_time,
            id_ceiling: self.id_ceiling,
            next_partition: self.next_partition,
            geometry,
            partitions: self.partitions.iter().map(|(partition, head)| Kept::of(partition, *head)).collect(),
            disposals: self.disposals,
            state: self.state,
            producers: self.producers,
        }
    }
}

/// Makes checkpoints of snapshots. Owns no thread.
pub struct Checkpointer {
    shared: Arc<Shared>,
}

impl Checkpointer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Fills one file of the commit log that isn't yet; `false` when all are. Until then turns have only the filled ones.
    /// Where there is no room for it, it may be tried again; any other error closes the log.
    pub fn fill_log(&self) -> io::Result<bool> {
        self.shared.ring.fill_rest().inspect_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => tracing::error!("there is no room to fill the commit log; it is tried again"),
            _ => self.shared.fail(&format!("filling the commit log failed: {error}")),
        })
    }

    /// Brings everything of the snapshot into durable segments and writes the checkpoint. On an error the log below
    /// stays, and the partitions that are still to be synced come back.
    pub fn run(&self, snapshot: Snapshot, clean: bool, now: u64) -> Result<(), Vec<Arc<Partition>>> {
        let started = Instant::now();
        let (place, lsn) = (snapshot.place, snapshot.lsn);
        let dirty = snapshot.dirty.clone();
        let statistics = &self.shared.statistics;
        let result = self.settle(&dirty).and_then(|()| {
            let checkpoint = snapshot.into_checkpoint(self.shared.ring.geometry(), clean);
            checkpoint.write(&*self.shared.disk, &self.shared.options.log_path)
        });
        if let Err(error) = result {
            statistics.checkpoints_failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, "the checkpoint failed; the commit log keeps everything since the last one");
            return Err(dirty);
        }
        self.shared.ring.release(place.generation);
        self.shared.checkpoint_lsn.store(lsn, Ordering::Release);
        statistics.checkpoints.fetch_add(1, Ordering::Relaxed);
        statistics.checkpoint_time.store(now, Ordering::Relaxed);
        statistics.checkpoint.record(started.elapsed());
        self.shared.submitted.raise();
        Ok(())
    }

    /// Writes and syncs the segments of `dirty`: of partitions too that are being deleted, since a crash may take that back.
    fn settle(&self, dirty: &[Arc<Partition>]) -> io::Result<()> {
        if self.shared.segment_lost.load(Ordering::Relaxed) {
            return Err(io::Error::other("a segment failed to sync; the broker must be restarted to write it again"));
        }
        for partition in dirty {
            self.shared.apply(partition)?;
            partition.create_files(&self.shared.files)?;
        }
        if dirty.len() > SYNC_ALL_ABOVE && self.sync_all(dirty).is_ok() {
            return Ok(());
        }
        for partition in dirty {
            self.shared.sync_segments(partition)?;
        }
        let roots = &self.shared.options.data_paths;
        roots.iter().try_for_each(|root| self.shared.disk.sync_dir(root))
    }

    fn sync_all(&self, dirty: &[Arc<Partition>]) -> io::Result<()> {
        let taken: Vec<_> = dirty
            .iter()
            .map(|partition| {
                let mut state = partition.state.lock();
                (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.new_names))
            })
            .collect();
        let result = self.shared.options.data_paths.iter().try_for_each(|root| self.shared.disk.sync_all(root));
        if let Err(error) = &result {
            tracing::error!(%error, "syncing the file system failed; each segment is synced to find which");
            for (partition, (unsynced, new_names)) in dirty.iter().zip(taken) {
                let mut state = partition.state.lock();
                state.unsynced.extend(unsynced);
                state.new_names |= new_names;
            }
        }
        result
    }
}

/// Replaces a small file: written under another name, synced, renamed, the folder synced.
pub(crate) fn replace(disk: &dyn Disk, folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(UNFINISHED);
    let file = disk.open(&unfinished, Open::Create)?;
    file.set_len(0)?;
    write_all_at(&*file, bytes, 0)?;
    file.sync()?;
    disk.rename(&unfinished, &folder.join(name))?;
    disk.sync_dir(folder)
}

/// All bytes of a file; `None` if it doesn't exist.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; usize::try_from(file.len()?).expect("the file fits into memory")];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(Some(bytes))
}
