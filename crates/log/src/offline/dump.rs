//! What stands in a directory, piece by piece, for a person or a program to read. Changes nothing.

use super::contents::{self, COPIES, Contents};
use super::held::Held;
use super::records::{Piece, Records};
use super::{Directory, OfflineError};
use crate::checkpoint::{Kept, read_whole};
use crate::entry::{self, Entry};
use crate::files::{FileKind, path};
use crate::folder::{Folder, SegmentFile};
use crate::index::{MARK_BYTES, Mark};
use crate::recovery::doing;
use crate::ring::{self, Geometry};
use crate::turn::{self, BLOCK_BYTES, Header};
use metaq_disk::Open;
use metaq_protocol::id::IdParts;
use metaq_protocol::record::{HEADER_BYTES, Parts, checksum};
use std::io;
use std::path::{Path, PathBuf};

/// What of it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Only this partition's: topic and index.
    pub partition: Option<(String, u32)>,
    /// Only from this position on; of the commit log: from this entry on.
    pub from: u64,
    /// No more than so many lines.
    pub limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self { partition: None, from: 0, limit: usize::MAX }
    }
}

impl Filter {
    fn wants(&self, topic: &str, index: u32) -> bool {
        self.partition.as_ref().is_none_or(|(wanted, of)| wanted == topic && *of == index)
    }
}

/// A partition as the checkpoint holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionContent {
    /// Its number in the directory.
    pub number: u32,
    /// Topic.
    pub topic: String,
    /// Index in the topic.
    pub index: u32,
    /// The data path that its folder stands in.
    pub root: PathBuf,
    /// Start of its last segment.
    pub segment: u64,
    /// Its end.
    pub end: u64,
    /// Relative running number of the next message.
    pub sequence: i64,
    /// Relative running number of the oldest message.
    pub first_sequence: i64,
    /// Largest append time, milliseconds since 1970.
    pub append_time: u64,
    /// Why it takes no more messages, if so.
    pub failed: Option<String>,
    /// Ranges that are known to be damaged.
    pub damage: Vec<std::ops::Range<u64>>,
}

/// A key of the durable map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateKey {
    /// Which map.
    pub space: u8,
    /// The key.
    pub key: Vec<u8>,
    /// The entry that wrote its value.
    pub version: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// The checkpoint that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointContent {
    /// Name of the file.
    pub name: &'static str,
    /// Everything is in the segments.
    pub clean: bool,
    /// Last entry that it covers.
    pub lsn: u64,
    /// Use of a ring file that the log goes on in.
    pub generation: u64,
    /// Byte in it.
    pub offset: u64,
    /// Which opening of the directory wrote it.
    pub incarnation: u32,
    /// The leader's epoch.
    pub epoch: u64,
    /// Append time of the last turn, milliseconds since 1970.
    pub append_time: u64,
    /// Ids up to this clock value may have been given, milliseconds since 1970.
    pub id_ceiling: u64,
    /// Number that the next partition gets.
    pub next_partition: u32,
    /// Size of the ring.
    pub geometry: Geometry,
    /// Partitions, by number.
    pub partitions: Vec<PartitionContent>,
    /// The durable map.
    pub state: Vec<StateKey>,
}

/// The checkpoint's fields, with the partitions that the filter wants; `None` without a checkpoint that can be read.
pub fn dump_checkpoint(directory: &Directory, filter: &Filter) -> Result<Option<CheckpointContent>, OfflineError> {
    let _held = Held::to_look(directory)?;
    let contents = Contents::read(directory)?;
    let Some(found) = contents.checkpoint() else { return Ok(None) };
    let first = contents.copies[0].whole().is_some_and(|one| std::ptr::eq(one, found));
    let partitions = found.partitions.iter().filter(|kept| filter.wants(&kept.topic, kept.index)).take(filter.limit);
    let keys = (0..=u8::MAX).flat_map(|space| found.state.under(space, b"").into_iter().map(move |key| (space, key)));
    let state =
        keys.map(|(space, (key, value))| StateKey { space, key, version: value.version, value: value.value.to_vec() });
    Ok(Some(CheckpointContent {
        name: COPIES[usize::from(!first)],
        clean: found.clean,
        lsn: found.lsn,
        generation: found.place.generation,
        offset: found.place.offset,
        incarnation: found.incarnation,
        epoch: found.epoch,
        append_time: found.append_time,
        id_ceiling: found.id_ceiling,
        next_partition: found.next_partition,
        geometry: found.geometry,
        partitions: partitions.map(PartitionContent::of).collect(),
        state: state.collect(),
    }))
}

impl PartitionContent {
    fn of(kept: &Kept) -> Self {
        Self {
            number: kept.number,
            topic: kept.topic.clone(),
            index: kept.index,
            root: kept.root.clone(),
            segment: kept.head.segment,
            end: kept.head.end,
            sequence: kept.head.sequence,
            first_sequence: kept.head.first_sequence,
            append_time: kept.head.append_time,
            failed: kept.failed.clone(),
            damage: kept.damage.iter().map(|damage| damage.range.clone()).collect(),
        }
    }
}

/// Which turns of the commit log are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPart {
    /// Those that the next opening replays; after a clean stop none.
    Replayed,
    /// Every whole turn in the ring's files, also those that were reused for or left behind by earlier openings.
    Everything,
}

/// A line of the commit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogLine {
    /// A turn begins.
    Turn {
        /// Number of the ring's file.
        file: u32,
        /// Byte in it.
        offset: u64,
        /// Its header.
        header: Header,
    },
    /// An entry of the turn above.
    Entry {
        /// Its number.
        lsn: u64,
        /// Its kind, in a word.
        kind: &'static str,
        /// The partition that it is about.
        partition: Option<u32>,
        /// Where it goes in the partition, or what stays from there on.
        position: Option<u64>,
        /// Messages, or changes of the durable map.
        count: u32,
        /// Bytes of records or values.
        bytes: u64,
    },
    /// Entries of the turn above can't be read any further.
    Unreadable {
        /// The first that can't.
        lsn: u64,
        /// Why.
        why: String,
    },
}

/// Gives each line of the commit log to `each`, in the log's order. Filtered by partition, turns without entries of it
/// are left out; the limit counts entries.
pub fn dump_log(
    directory: &Directory,
    part: LogPart,
    filter: &Filter,
    mut each: impl FnMut(LogLine),
) -> Result<(), OfflineError> {
    let _held = Held::to_look(directory)?;
    let contents = Contents::read(directory)?;
    let Some(checkpoint) = contents.checkpoint() else { return Ok(()) };
    let partitions = checkpoint.partitions.iter().filter(|kept| filter.wants(&kept.topic, kept.index));
    let wanted: Vec<u32> = partitions.map(|kept| kept.number).collect();
    let mut lines = LogLines { filter, wanted, left: filter.limit, loaded: None, each: &mut each };
    let turns = whole_turns(directory, checkpoint.geometry)?;
    let (mut lsn, incarnation) = (checkpoint.lsn + 1, checkpoint.incarnation);
    for turn in turns {
        let next = turn.header.incarnation == incarnation && turn.header.first_lsn == lsn;
        if part == LogPart::Replayed {
            if checkpoint.clean || !next {
                continue;
            }
            lsn = turn.header.next_lsn();
        }
        lines.turn(directory, &turn)?;
    }
    Ok(())
}

/// A whole turn in the ring's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WholeTurn {
    pub file: u32,
    pub offset: u64,
    pub header: Header,
}

/// Every whole turn in the ring's files, in the order in which they were written.
pub(super) fn whole_turns(directory: &Directory, geometry: Geometry) -> Result<Vec<WholeTurn>, OfflineError> {
    let mut turns = Vec::new();
    for file in 0..geometry.files {
        let Some(bytes) = ring_file(directory, file)? else { continue };
        let mut offset = 0;
        while offset < bytes.len() {
            // What lies inside a turn is a producer's: it may look like anything.
            offset += match turn::open(&bytes[offset..]) {
                Ok((header, _)) => {
                    turns.push(WholeTurn { file, offset: offset as u64, header });
                    header.padded_bytes()
                }
                Err(_) => BLOCK_BYTES,
            };
        }
    }
    turns.sort_by_key(|turn| (turn.header.incarnation, turn.header.generation, turn.offset));
    Ok(turns)
}

pub(super) fn ring_file(directory: &Directory, file: u32) -> Result<Option<Vec<u8>>, OfflineError> {
    let path = ring::file_path(&contents::commit_folder(directory), file);
    Ok(read_whole(&*directory.disk, &path).map_err(doing(format!("reading {}", path.display())))?)
}

struct LogLines<'a> {
    filter: &'a Filter,
    /// Numbers of the partitions that the filter wants.
    wanted: Vec<u32>,
    left: usize,
    /// The ring's file that was read last.
    loaded: Option<(u32, Vec<u8>)>,
    each: &'a mut dyn FnMut(LogLine),
}

impl LogLines<'_> {
    fn turn(&mut self, directory: &Directory, turn: &WholeTurn) -> Result<(), OfflineError> {
        if self.left == 0 || turn.header.next_lsn() <= self.filter.from {
            return Ok(());
        }
        let bytes = match self.loaded.take() {
            Some((file, bytes)) if file == turn.file => bytes,
            _ => ring_file(directory, turn.file)?.unwrap_or_default(),
        };
        let offset = usize::try_from(turn.offset).expect("files are far below 4 GiB");
        let Ok((header, entries)) = turn::open(bytes.get(offset..).unwrap_or_default()) else { return Ok(()) };
        let mut told = false;
        for (lsn, entry) in (header.first_lsn..).zip(entry::entries(entries)) {
            let line = match entry {
                Ok(entry) => self.entry(lsn, &entry),
                Err(error) => Some(LogLine::Unreadable { lsn, why: error.to_string() }),
            };
            let Some(line) = line.filter(|_| lsn >= self.filter.from && self.left > 0) else { continue };
            if !std::mem::replace(&mut told, true) {
                (self.each)(LogLine::Turn { file: turn.file, offset: turn.offset, header });
            }
            (self.each)(line);
            self.left -= 1;
        }
        self.loaded = Some((turn.file, bytes));
        Ok(())
    }

    fn entry(&mut self, lsn: u64, entry: &Entry<'_>) -> Option<LogLine> {
        let line =
            |kind, partition, position, count, bytes| LogLine::Entry { lsn, kind, partition, position, count, bytes };
        let (partition, line) = match entry {
            Entry::Append(append) => {
                let (number, bytes) = (Some(append.partition), append.records.len() as u64);
                (number, line("append", number, Some(append.position), append.count, bytes))
            }
            Entry::PartitionCreated { partition, topic, index, .. } => {
                if self.filter.wants(topic, *index) && !self.wanted.contains(partition) {
                    self.wanted.push(*partition);
                }
                (Some(*partition), line("partition-created", Some(*partition), None, 0, 0))
            }
            Entry::PartitionDeleted { partition } => {
                (Some(*partition), line("partition-deleted", Some(*partition), None, 0, 0))
            }
            Entry::Trim { partition, first, .. } => {
                (Some(*partition), line("trim", Some(*partition), Some(*first), 0, 0))
            }
            Entry::State(changes) => {
                let bytes = changes.iter().filter_map(|change| change.value.as_ref()).map(|value| value.len() as u64);
                let count = u32::try_from(changes.len()).unwrap_or(u32::MAX);
                (None, line("state", None, None, count, bytes.sum()))
            }
            Entry::IdCeiling { .. } => (None, line("id-ceiling", None, None, 0, 0)),
            Entry::Counted { partition, .. } => (Some(*partition), line("counted", Some(*partition), None, 0, 0)),
        };
        let all = self.filter.partition.is_none();
        (all || partition.is_some_and(|number| self.wanted.contains(&number))).then_some(line)
    }
}

/// A line of a partition's segments. Places are positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordLine {
    /// A record.
    Record {
        /// Where it begins.
        position: u64,
        /// Bytes of its body.
        length: u64,
        /// Its body fits its checksum. If not, a record follows it all the same.
        intact: bool,
        /// Its id.
        id: i64,
        /// What the id is made of.
        parts: IdParts,
        /// Its flag.
        flag: i32,
        /// Its attribute, if it has one.
        attribute: Option<String>,
    },
    /// Bytes that are no records.
    Damage {
        /// Where they begin.
        from: u64,
        /// Where the next record, or the end, is.
        to: u64,
    },
}

impl RecordLine {
    fn end(&self) -> u64 {
        match self {
            Self::Record { position, length, .. } => position + HEADER_BYTES as u64 + length,
            Self::Damage { to, .. } => *to,
        }
    }
}

/// Gives each record of the partitions that the filter wants to `each`, with its partition. The limit counts lines.
pub fn dump_records(
    directory: &Directory,
    filter: &Filter,
    mut each: impl FnMut(&Folder, RecordLine),
) -> Result<(), OfflineError> {
    let mut left = filter.limit;
    each_segment(directory, filter, |folder, segment, file| {
        let mut records = Records::new(directory.disk.open(file, Open::Read)?, 0, u64::MAX)?;
        while left > 0
            && let Some(piece) = records.step()?
        {
            for line in lines_of(&mut records, segment.start, piece)? {
                if line.end() > filter.from && left > 0 {
                    left -= 1;
                    each(folder, line);
                }
            }
        }
        Ok(())
    })
}

/// Calls `each` for every segment that the filter wants, with the path of its file.
fn each_segment(
    directory: &Directory,
    filter: &Filter,
    mut each: impl FnMut(&Folder, &SegmentFile, &Path) -> io::Result<()>,
) -> Result<(), OfflineError> {
    let _held = Held::to_look(directory)?;
    let contents = Contents::read(directory)?;
    for folder in contents.folders.iter().filter(|folder| filter.wants(&folder.topic, folder.index)) {
        for segment in folder.segments.iter().filter(|segment| segment.start + segment.len > filter.from) {
            let file = path(&folder.path, segment.start, FileKind::Segment);
            each(folder, segment, &file).map_err(doing(format!("reading {}", file.display())))?;
        }
    }
    Ok(())
}

/// A piece as lines: bytes that look like records, although their checksums don't fit, are told as such.
fn lines_of(records: &mut Records, start: u64, piece: Piece) -> io::Result<Vec<RecordLine>> {
    let range = match piece {
        Piece::Record(range) => return Ok(vec![record_line(records, start, range)?]),
        Piece::Damage(range) | Piece::Tail(range) => range,
    };
    let mut ends = vec![range.start];
    let mut at = range.start;
    while let Some(header) = records.header(at)? {
        let Ok(length) = u64::try_from(header.length) else { break };
        at += HEADER_BYTES as u64 + length;
        if header.is_zero() || at > range.end {
            break;
        }
        ends.push(at);
    }
    if ends.last() != Some(&range.end) {
        return Ok(vec![RecordLine::Damage { from: start + range.start, to: start + range.end }]);
    }
    ends.windows(2).map(|pair| record_line(records, start, pair[0]..pair[1])).collect()
}

fn record_line(records: &mut Records, start: u64, range: std::ops::Range<u64>) -> io::Result<RecordLine> {
    let position = start + range.start;
    let header = records.header(range.start)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let body = records.bytes(range.start + HEADER_BYTES as u64..range.end)?;
    let attribute = Parts::of(header.flag, body).ok().and_then(|parts| parts.attribute);
    Ok(RecordLine::Record {
        position,
        length: body.len() as u64,
        intact: checksum(body) == header.checksum,
        id: header.id,
        parts: IdParts::of(header.id),
        flag: header.flag,
        attribute: attribute.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// A mark of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkLine {
    /// Start of its segment.
    pub segment: u64,
    /// Its number in the index, from 0.
    pub number: u64,
    /// The mark; `None`: its own checksum doesn't fit.
    pub mark: Option<Mark>,
}

/// Gives each mark of the indexes that the filter wants to `each`, with its partition, whether it counts or not. The
/// limit counts marks.
pub fn dump_index(
    directory: &Directory,
    filter: &Filter,
    mut each: impl FnMut(&Folder, MarkLine),
) -> Result<(), OfflineError> {
    let mut left = filter.limit;
    each_segment(directory, filter, |folder, segment, _| {
        let start = segment.start;
        let bytes = read_whole(&*directory.disk, &path(&folder.path, start, FileKind::Index))?.unwrap_or_default();
        for (number, chunk) in (0..).zip(bytes.chunks(MARK_BYTES)) {
            let mark = Some(chunk).filter(|chunk| chunk.len() == MARK_BYTES).and_then(Mark::decode);
            if left > 0 && mark.is_none_or(|mark| mark.position > filter.from) {
                left -= 1;
                each(folder, MarkLine { segment: start, number, mark });
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
