//! The commit log's files: a ring that is zero-filled once, recycled, and never grows.
//!
//! Use number `g` of a file (its *generation*) lies in file `g % files`. A turn never spans files. A generation may be
//! overwritten once a durable checkpoint lies behind it.

use crate::turn::{self, BLOCK_BYTES, HEADER_BYTES, Header, Invalid};
use metaq_disk::{Disk, File, Open, read_exact_at, write_all_at};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many files of which size. Recorded in the checkpoint; changed only at a clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Number of files, at least 2.
    pub files: u32,
    /// Size of each, a multiple of 4 KiB.
    pub file_bytes: u64,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which use of a file.
    pub generation: u64,
    /// Byte in that file.
    pub offset: u64,
}

struct Slot {
    file: Arc<dyn File>,
    filled: AtomicBool,
}

/// The open files, shared between who writes turns and who fills files.
pub(crate) struct Ring {
    geometry: Geometry,
    slots: Vec<Slot>,
    /// First generation that a checkpoint still needs.
    tail: AtomicU64,
}

impl Ring {
    /// Opens the files in `folder`, creating those that are missing. Only file `first` is surely filled on return;
    /// [`Ring::fill_rest`] does the others.
    pub(crate) fn open(disk: &dyn Disk, folder: &Path, geometry: Geometry, first: u64) -> io::Result<Self> {
        disk.create_dir(folder)?;
        let slots = (0..geometry.files)
            .map(|number| {
                let file = disk.open(&file_path(folder, number), Open::Create)?;
                let filled = AtomicBool::new(file.len()? == geometry.file_bytes);
                Ok(Slot { file, filled })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let ring = Self { geometry, slots, tail: AtomicU64::new(first) };
        ring.fill(ring.slot(first))?;
        disk.sync_dir(folder)?;
        Ok(ring)
    }

    fn slot(&self, generation: u64) -> &Slot {
        let index = generation % u64::from(self.geometry.files);
        &self.slots[usize::try_from(index).expect("below the number of files")]
    }

    fn fill(&self, slot: &Slot) -> io::Result<()> {
        if slot.filled.load(Ordering::Acquire) {
            return Ok(());
        }
        slot.file.write_zeros(0..self.geometry.file_bytes)?;
        slot.file.sync()?;
        slot.filled.store(true, Ordering::Release);
        Ok(())
    }

    /// Fills one file that isn't yet; `false` when all are.
    pub(crate) fn fill_rest(&self) -> io::Result<bool> {
        match self.slots.iter().find(|slot| !slot.filled.load(Ordering::Acquire)) {
            Some(slot) => self.fill(slot).map(|()| true),
            None => Ok(false),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Generations below `generation` may be overwritten.
    pub(crate) fn release(&self, generation: u64) {
        self.tail.fetch_max(generation, Ordering::AcqRel);
    }

    /// Where a turn of `bytes` (padded) goes if `head` is where the last one ended; `None` while the log is full.
    pub(crate) fn place(&self, head: Place, bytes: u64) -> Option<Place> {
        if head.offset + bytes <= self.geometry.file_bytes {
            return Some(head);
        }
        let generation = head.generation + 1;
        let free = generation < self.tail.load(Ordering::Acquire) + u64::from(self.geometry.files);
        let filled = self.slot(generation).filled.load(Ordering::Acquire);
        (free && filled).then_some(Place { generation, offset: 0 })
    }

    /// The share of the ring between the tail and `head`, in thousandths.
    pub(crate) fn used_permille(&self, head: Place) -> u64 {
        let whole = head.generation.saturating_sub(self.tail.load(Ordering::Acquire)) * self.geometry.file_bytes;
        (whole + head.offset) * 1000 / (self.geometry.file_bytes * u64::from(self.geometry.files))
    }

    pub(crate) fn write(&self, place: Place, turn: &[u8]) -> io::Result<()> {
        debug_assert_eq!(turn.len() % BLOCK_BYTES, 0);
        write_all_at(&*self.slot(place.generation).file, turn, place.offset)
    }

    pub(crate) fn sync(&self, generation: u64) -> io::Result<()> {
        self.slot(generation).file.sync()
    }
}

/// The path of file `number` of the ring.
pub(crate) fn file_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(number.to_string())
}

/// Whether the folder holds the files of this log and nothing else, so that [`Ring::open`] overwrites nothing of them.
pub(crate) fn is_whole(disk: &dyn Disk, folder: &Path, geometry: Geometry, first: u64) -> io::Result<bool> {
    if disk.metadata(folder)?.is_none() {
        return Ok(false);
    }
    let names: Vec<String> = (0..geometry.files).map(|number| number.to_string()).collect();
    let listed = disk.list(folder)?;
    let mut lens = Vec::new();
    for name in &names {
        let metadata = disk.metadata(&folder.join(name))?;
        lens.push(metadata.map_or(0, |metadata| metadata.len));
    }
    let used = usize::try_from(first % u64::from(geometry.files)).expect("below the file count");
    Ok(listed.iter().all(|listed| names.contains(&listed.name))
        && lens.iter().all(|len| *len <= geometry.file_bytes)
        && lens[used] == geometry.file_bytes)
}

/// What is expected at the start of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct From {
    pub place: Place,
    pub lsn: u64,
    pub incarnation: u32,
}

/// How a walk over the log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Behind the last valid turn.
    pub end: Place,
    /// Number of the entry that the next turn begins with.
    pub next_lsn: u64,
    /// Turns that were valid.
    pub turns: u64,
    /// Something was written behind the end but isn't whole (an interrupted turn, or a flipped bit in the last one).
    pub torn: bool,
}

/// Why a log can't be walked to its end.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The disk failed.
    #[error("reading the commit log: {0}")]
    Io(#[from] io::Error),
    /// Entries that had been durable are damaged.
    #[error(
        "the commit log is damaged: entries {first_lost} to {last_lost} were durable and can't be read (file {file}, \
         byte {offset}). Nothing was changed; restore the file from a copy or a replica, or give up these entries with \
         `metaq log repair --yes`"
    )]
    Damaged {
        /// Number of the ring's file.
        file: u32,
        /// Byte in it where the next turn should be.
        offset: u64,
        /// First entry that can't be read.
        first_lost: u64,
        /// Last entry known to have been durable.
        last_lost: u64,
    },
    /// A file of the log is gone.
    #[error(
        "{path} is missing: what was durable in it is lost. Nothing was changed; restore the file from a copy or a replica"
    )]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// A later version wrote it.
    #[error("the commit log has turns of format {format}; this version reads format {known}: start a later version")]
    LaterFormat {
        /// The format found.
        format: u16,
        /// The format known.
        known: u16,
    },
}

/// Walks the valid turns from `from` on, giving each to `each`, and tells where they end.
///
/// An invalid turn ends the log, unless a later turn says that what is missing had been durable.
pub(crate) fn walk(
    disk: &dyn Disk,
    folder: &Path,
    geometry: Geometry,
    from: From,
    mut each: impl FnMut(&Header, &[u8]),
) -> Result<Walked, WalkError> {
    let mut at = from;
    let mut turns = 0;
    let mut torn = false;
    let mut reader = Reader { disk, folder, geometry, loaded: None };
    loop {
        let bytes = reader.file(at.place.generation)?;
        match next_turn(bytes, at) {
            Ok((header, entries)) => {
                each(&header, entries);
                turns += 1;
                at.place.offset += header.padded_bytes() as u64;
                at.lsn = header.next_lsn();
                continue;
            }
            Err(Invalid::Format(format)) => {
                return Err(WalkError::LaterFormat { format, known: turn::FORMAT });
            }
            Err(Invalid::NoMagic) => {}
            Err(Invalid::Torn) => torn = true,
        }
        let next = From { place: Place { generation: at.place.generation + 1, offset: 0 }, ..at };
        if next_turn(reader.file(next.place.generation)?, next).is_ok() {
            at = next;
            torn = false;
            continue;
        }
        break;
    }
    judge_end(&mut reader, at)?;
    Ok(Walked { end: at.place, next_lsn: at.lsn, turns, torn })
}

/// Writes turns again where they stand, and syncs them: they were read, but they may never have reached the device (a
/// sync that failed forgets what it was about).
pub(crate) fn rewrite(disk: &dyn Disk, folder: &Path, geometry: Geometry, turns: &[(Place, usize)]) -> io::Result<()> {
    let mut written: Vec<Arc<dyn File>> = Vec::new();
    let mut last = None;
    for (place, len) in turns {
        let number = u32::try_from(place.generation % u64::from(geometry.files)).expect("below the file count");
        if last.replace(number) != Some(number) {
            written.push(disk.open(&file_path(folder, number), Open::Write)?);
        }
        let Some(file) = written.last() else { continue };
        let mut turn = vec![0; *len];
        read_exact_at(&**file, &mut turn, place.offset)?;
        write_all_at(&**file, &turn, place.offset)?;
    }
    written.iter().try_for_each(|file| file.sync())
}

/// Looks for turns behind the end that say more had been durable.
fn judge_end(reader: &mut Reader<'_>, end: From) -> Result<(), WalkError> {
    let mut last_lost = 0;
    for generation in end.place.generation..end.place.generation + u64::from(reader.geometry.files) {
        let bytes = reader.file(generation)?;
        let start = if generation == end.place.generation { end.place.offset } else { 0 };
        let mut offset = usize::try_from(start).expect("files are far below 4 GiB");
        while offset + HEADER_BYTES <= bytes.len() {
            if let Ok((header, _)) = turn::open(&bytes[offset..])
                && header.incarnation == end.incarnation
                && header.generation >= end.place.generation
                && header.settled_lsn >= end.lsn
            {
                last_lost = header.settled_lsn.max(last_lost);
            }
            offset += BLOCK_BYTES;
        }
    }
    if last_lost == 0 {
        return Ok(());
    }
    let file = u32::try_from(end.place.generation % u64::from(reader.geometry.files)).expect("below the file count");
    Err(WalkError::Damaged { file, offset: end.place.offset, first_lost: end.lsn, last_lost })
}

fn next_turn(bytes: &[u8], at: From) -> Result<(Header, &[u8]), Invalid> {
    let offset = usize::try_from(at.place.offset).expect("files are far below 4 GiB");
    let (header, entries) = turn::open(bytes.get(offset..).ok_or(Invalid::NoMagic)?)?;
    let expected =
        header.generation == at.place.generation && header.incarnation == at.incarnation && header.first_lsn == at.lsn;
    if expected { Ok((header, entries)) } else { Err(Invalid::NoMagic) }
}

/// Reads whole ring files, one at a time.
struct Reader<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    geometry: Geometry,
    loaded: Option<(u64, Vec<u8>)>,
}

impl Reader<'_> {
    fn file(&mut self, generation: u64) -> Result<&[u8], WalkError> {
        let number = generation % u64::from(self.geometry.files);
        if self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != number) {
            self.loaded = Some((number, self.load(u32::try_from(number).expect("below the file count"))?));
        }
        Ok(self.loaded.as_ref().map_or(&[], |(_, bytes)| bytes))
    }

    fn load(&self, number: u32) -> Result<Vec<u8>, WalkError> {
        // All files were made before the checkpoint that the walk begins at.
        let path = file_path(self.folder, number);
        let file = match self.disk.open(&path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(WalkError::Missing { path }),
            file => file?,
        };
        let len = usize::try_from(file.len()?.min(self.geometry.file_bytes)).expect("files are far below 4 GiB");
        let mut bytes = vec![0; len];
        read_exact_at(&*file, &mut bytes, 0)?;
        Ok(bytes)
    }
}
