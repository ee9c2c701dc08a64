//! One simulated file: what programs see, what the device holds, and every step between the two.
//!
//! Invariants: a sector without an entry in `written` or `doubtful` is on the device as programs see it, except behind
//! a cut in `lengths`. Versions of a sector and `lengths` are in the order of their operations.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use super::content::{Content, SECTOR, Sector};
use super::random::Random;

/// What the operating system brings to the device at once where it can, in bytes.
const PAGE: u64 = 4096;

/// Bytes that a sector had, and since which operation.
#[derive(Debug, Clone)]
struct Version {
    operation: u64,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
enum Bytes {
    Zeros,
    /// One sector of a write, beginning at this place in it.
    Slice(Arc<[u8]>, usize),
}

/// A length that the file had, and since which operation.
#[derive(Debug, Clone, Copy)]
struct Length {
    operation: u64,
    len: u64,
    by: By,
}

/// How a file came to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A write grew it: the length moves on with each page that arrives.
    Writing,
    /// It was extended at once.
    Extending,
    /// Bytes were cut off.
    Cutting,
}

type Versions = BTreeMap<u64, Vec<Version>>;

/// A file, whatever its names are.
#[derive(Debug, Clone)]
pub(super) struct Inode {
    current: Content,
    durable: Content,
    modified: SystemTime,
    durable_modified: SystemTime,
    /// Per sector what was written since the last sync.
    written: Versions,
    /// Per sector what a failed sync dropped: it may be on the device, and no later sync brings it there.
    doubtful: Versions,
    lengths: Vec<Length>,
}

impl Inode {
    pub(super) fn new(now: SystemTime) -> Self {
        Self::holding(Content::default(), now)
    }

    fn holding(content: Content, modified: SystemTime) -> Self {
        Self {
            current: content.clone(),
            durable: content,
            modified,
            durable_modified: modified,
            written: Versions::new(),
            doubtful: Versions::new(),
            lengths: Vec::new(),
        }
    }

    pub(super) fn content(&self) -> &Content {
        &self.current
    }

    pub(super) fn modified(&self) -> SystemTime {
        self.modified
    }

    pub(super) fn write(&mut self, operation: u64, now: SystemTime, bytes: &[u8], position: u64) {
        self.put(operation, bytes, position);
        self.grown(operation, now, position + bytes.len() as u64);
    }

    fn put(&mut self, operation: u64, bytes: &[u8], position: u64) {
        let end = position + bytes.len() as u64;
        let sectors = position / SECTOR as u64..end.div_ceil(SECTOR as u64);
        let before = self.copy_sectors(&sectors);
        self.current.write(bytes, position);
        let after: Arc<[u8]> = self.copy_sectors(&sectors).into();
        for (sector, start) in sectors.zip((0..).step_by(SECTOR)) {
            let place = start..start + SECTOR;
            if before[place.clone()] != after[place] || self.is_lost(sector) {
                self.record(sector, operation, Bytes::Slice(after.clone(), start));
            }
        }
    }

    pub(super) fn write_zeros(&mut self, operation: u64, now: SystemTime, range: Range<u64>) {
        let sector = SECTOR as u64;
        let first = range.start.next_multiple_of(sector).min(range.end);
        let last = (range.end - range.end % sector).max(first);
        for edge in [range.start..first, last..range.end] {
            let zeros = &[0; SECTOR][..usize::try_from(edge.end - edge.start).expect("an edge is short")];
            if !zeros.is_empty() {
                self.put(operation, zeros, edge.start);
            }
        }
        self.zero_sectors(operation, first / sector..last / sector);
        self.current.zero(range.clone());
        self.grown(operation, now, range.end);
    }

    fn zero_sectors(&mut self, operation: u64, sectors: Range<u64>) {
        let lost = self.doubtful.range(sectors.clone()).map(|(&sector, _)| sector);
        let lost = lost.filter(|&sector| self.is_lost(sector));
        let mut changed: Vec<u64> = self
            .current
            .written_sectors(sectors)
            .filter(|&sector| self.current.sector(sector) != [0; SECTOR])
            .chain(lost)
            .collect();
        changed.sort_unstable();
        changed.dedup();
        for sector in changed {
            self.record(sector, operation, Bytes::Zeros);
        }
    }

    pub(super) fn set_len(&mut self, operation: u64, now: SystemTime, len: u64) {
        let old = self.current.len();
        if len < old {
            self.cut(operation, len);
        } else {
            self.current.set_len(len);
        }
        self.modified = now;
        if len != old {
            let by = if len < old { By::Cutting } else { By::Extending };
            self.lengths.push(Length { operation, len, by });
        }
    }

    fn cut(&mut self, operation: u64, len: u64) {
        let straddling = len / SECTOR as u64;
        let before = self.current.sector(straddling);
        self.current.set_len(len);
        let after = self.current.sector(straddling);
        if !len.is_multiple_of(SECTOR as u64) && before != after {
            self.record(straddling, operation, Bytes::Slice(Arc::new(after), 0));
        }
        self.doubtful.split_off(&len.div_ceil(SECTOR as u64));
    }

    /// What is seen is on the device, but for the sectors that an earlier failed sync dropped.
    pub(super) fn sync(&mut self) {
        let before = std::mem::replace(&mut self.durable, self.current.clone());
        self.doubtful.retain(|sector, _| !self.written.contains_key(sector));
        for &sector in self.doubtful.keys() {
            self.durable.set_sector(sector, &before.sector(sector));
        }
        self.durable_modified = self.modified;
        self.written.clear();
        self.lengths.clear();
    }

    /// The dirty sectors are dropped as if they had been written; length and programs' view stay.
    pub(super) fn fail_sync(&mut self) {
        for (sector, mut versions) in std::mem::take(&mut self.written) {
            self.doubtful.entry(sector).or_default().append(&mut versions);
        }
    }

    /// Changes a bit everywhere it is held; `false` behind the end.
    pub(super) fn flip_bit(&mut self, byte: u64, mask: u8) -> bool {
        if byte >= self.current.len() {
            return false;
        }
        for content in [&mut self.current, &mut self.durable] {
            let mut held = [0];
            if content.read(&mut held, byte) == 1 {
                content.write(&[held[0] ^ mask], byte);
            }
        }
        true
    }

    /// The file with what is on the device and nothing else.
    pub(super) fn synced(&self) -> Self {
        Self::holding(self.durable.clone(), self.durable_modified)
    }

    /// The file as a power cut may leave it.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> Self {
        if self.written.is_empty() && self.doubtful.is_empty() && self.lengths.is_empty() {
            return self.synced();
        }
        let mood = Mood::any(self, random);
        let applied = mood.lengths(self, random);
        let cuts = Cuts::new(&self.lengths, applied);
        let mut content = self.durable.clone();
        let len = self.length_after(applied) + mood.growth(self, applied, random);
        if let Some(lowest) = cuts.lowest {
            content.set_len(content.len().min(lowest));
        }
        content.set_len(len);
        for sector in self.unsynced_sectors() {
            let versions = self.versions(sector).filter(|version| cuts.permit(sector, version));
            let versions: Vec<&Version> = versions.collect();
            if let Some(version) = mood.version(sector, &versions, random) {
                content.set_sector(sector, &cuts.masked(sector, version));
            }
        }
        let modified = match random.chance(50) {
            true => self.modified,
            false => self.durable_modified,
        };
        Self::holding(content, modified)
    }

    /// The length when this many changes of length arrived.
    fn length_after(&self, applied: usize) -> u64 {
        match applied {
            0 => self.durable.len(),
            _ => self.lengths[applied - 1].len,
        }
    }

    /// Sectors with something unsynced, in order.
    fn unsynced_sectors(&self) -> Vec<u64> {
        let mut sectors: Vec<u64> = self.written.keys().chain(self.doubtful.keys()).copied().collect();
        sectors.sort_unstable();
        sectors.dedup();
        sectors
    }

    fn versions(&self, sector: u64) -> impl Iterator<Item = &Version> {
        let dropped = self.doubtful.get(&sector).into_iter().flatten();
        dropped.chain(self.written.get(&sector).into_iter().flatten())
    }

    fn copy_sectors(&self, sectors: &Range<u64>) -> Vec<u8> {
        let count = usize::try_from(sectors.end - sectors.start).expect("a write fits into memory");
        let mut bytes = vec![0; count * SECTOR];
        self.current.copy(&mut bytes, sectors.start * SECTOR as u64);
        bytes
    }

    /// Whether a failed sync dropped the sector and nothing was written to it since.
    fn is_lost(&self, sector: u64) -> bool {
        self.doubtful.contains_key(&sector) && !self.written.contains_key(&sector)
    }

    fn record(&mut self, sector: u64, operation: u64, bytes: Bytes) {
        self.written.entry(sector).or_default().push(Version { operation, bytes });
    }

    /// Notes a write that reached up to `end`.
    fn grown(&mut self, operation: u64, now: SystemTime, end: u64) {
        self.modified = now;
        let before = self.lengths.last().map_or(self.durable.len(), |length| length.len);
        if end > before {
            self.lengths.push(Length { operation, len: end, by: By::Writing });
        }
    }
}

/// How the device went about its work until the power went: one for the whole file, since choices that are independent
/// for each sector hardly ever give an image where most is kept or most is lost.
enum Mood {
    /// All up to this operation arrived and nothing later.
    Orderly(u64),
    /// Each sector on its own: how many of 100 arrived, and of those how many in their last version.
    Scattered { arrived: usize, newest: usize },
    /// As `Scattered` for whole pages of 4 KiB; the number makes the choice.
    Pages(u64),
}

impl Mood {
    fn any(inode: &Inode, random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Orderly(inode.any_operation(random)),
            1 => Self::Pages(random.next()),
            _ => Self::Scattered {
                arrived: [5, 50, 50, 95, 100][random.below(5)],
                newest: [50, 90, 100][random.below(3)],
            },
        }
    }

    /// How many of the changes of length arrived.
    fn lengths(&self, inode: &Inode, random: &mut Random) -> usize {
        let all = inode.lengths.len();
        match self {
            Self::Orderly(last) => inode.lengths.partition_point(|length| length.operation <= *last),
            Self::Scattered { .. } | Self::Pages(_) => match random.below(4) {
                0 => 0,
                1 => random.below(all + 1),
                _ => all,
            },
        }
    }

    /// How far the next write grew the file before the power went: up to the end of one of its pages.
    fn growth(&self, inode: &Inode, applied: usize, random: &mut Random) -> u64 {
        let next = inode.lengths.get(applied).filter(|next| next.by == By::Writing);
        let (Some(next), Self::Scattered { .. } | Self::Pages(_)) = (next, self) else { return 0 };
        let len = inode.length_after(applied);
        let pages = (next.len - 1) / PAGE - len / PAGE;
        match usize::try_from(pages) {
            Ok(pages) if pages > 0 && random.chance(50) => (len / PAGE + 1 + random.below(pages) as u64) * PAGE - len,
            Ok(_) | Err(_) => 0,
        }
    }

    /// The version that arrived; `None`: none did.
    fn version<'a>(&self, sector: u64, versions: &[&'a Version], random: &mut Random) -> Option<&'a Version> {
        let newest = versions.last().copied();
        match *self {
            Self::Orderly(last) => versions.iter().rev().find(|version| version.operation <= last).copied(),
            Self::Pages(choice) => {
                let page = sector * SECTOR as u64 / PAGE;
                newest.filter(|_| Random(choice ^ page).chance(50))
            }
            Self::Scattered { arrived, newest: share } => {
                if versions.is_empty() || !random.chance(arrived) {
                    None
                } else if random.chance(share) {
                    newest
                } else {
                    Some(versions[random.below(versions.len())])
                }
            }
        }
    }
}

impl Inode {
    /// The number of one of the unsynced operations.
    fn any_operation(&self, random: &mut Random) -> u64 {
        let versions = self.written.values().chain(self.doubtful.values()).flatten();
        let mut operations: Vec<u64> = versions.map(|version| version.operation).collect();
        operations.extend(self.lengths.iter().map(|length| length.operation));
        operations.sort_unstable();
        operations.dedup();
        operations[random.below(operations.len())]
    }
}

/// The cuts among the changes of length. A cut that arrived leaves nothing older behind it; nothing that was written
/// behind a cut after it arrives before it.
struct Cuts {
    arrived: Vec<Length>,
    missed: Vec<Length>,
    lowest: Option<u64>,
}

impl Cuts {
    fn new(lengths: &[Length], applied: usize) -> Self {
        let (arrived, missed) = lengths.split_at(applied);
        let cuts = |lengths: &[Length]| -> Vec<Length> {
            lengths.iter().filter(|length| length.by == By::Cutting).copied().collect()
        };
        let arrived = cuts(arrived);
        Self { lowest: arrived.iter().map(|cut| cut.len).min(), arrived, missed: cuts(missed) }
    }

    fn permit(&self, sector: u64, version: &Version) -> bool {
        let is_behind = |cut: &Length| sector * SECTOR as u64 >= cut.len;
        !self.arrived.iter().any(|cut| is_behind(cut) && version.operation < cut.operation)
            && !self.missed.iter().any(|cut| is_behind(cut) && version.operation >= cut.operation)
    }

    /// The bytes of a version without what later cuts took from its end.
    fn masked(&self, sector: u64, version: &Version) -> Sector {
        let mut bytes = version.bytes.copy();
        for cut in self.arrived.iter().filter(|cut| version.operation < cut.operation) {
            if cut.len / SECTOR as u64 == sector {
                let kept = usize::try_from(cut.len % SECTOR as u64).expect("less than a sector");
                bytes[kept..].fill(0);
            }
        }
        bytes
    }
}

impl Bytes {
    fn copy(&self) -> Sector {
        match self {
            Self::Zeros => [0; SECTOR],
            Self::Slice(bytes, start) => bytes[*start..start + SECTOR].try_into().expect("a slice is one sector long"),
        }
    }
}
