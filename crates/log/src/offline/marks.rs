//! One segment, checked: every record against its checksum, and every mark of its index against the raw bytes.
//!
//! A record's checksum covers its body alone. What lies between two marks is covered whole, ids and flags too: whole
//! records whose bytes don't fit the mark behind them have a header that was changed.

use super::records::{Piece, Records};
use crate::checkpoint::read_whole;
use crate::files::{FileKind, path};
use crate::folder::{Folder, SegmentFile};
use crate::index::{MARK_BYTES, MARK_EVERY_BYTES, Mark};
use metaq_disk::{Disk, Open};
use std::fmt;
use std::io;
use std::ops::Range;

/// What is wrong with an index. It can be made again; nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTrouble {
    /// There is none, although the segment is large enough for one.
    Missing,
    /// A mark isn't whole, or doesn't follow the one before it; those from here on don't count.
    Torn {
        /// Counted from 0.
        mark: u64,
    },
    /// A mark stands where no record begins, or counts other messages than there are: the index is of other bytes.
    Stale {
        /// Counted from 0.
        mark: u64,
    },
}

impl fmt::Display for IndexTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "the segment has no index"),
            Self::Torn { mark } => write!(f, "the index is damaged from its mark {mark} on"),
            Self::Stale { mark } => write!(f, "the index doesn't belong to these bytes from its mark {mark} on"),
        }
    }
}

/// A segment as it was found. Ranges are positions in the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentVerified {
    /// Position of its first byte.
    pub start: u64,
    /// Bytes that were checked.
    pub len: u64,
    /// Whole records.
    pub records: u64,
    /// Behind the last whole record, or the end of what was checked if that is no record's.
    pub whole_to: u64,
    /// Bytes that are no records, with whole ones behind them.
    pub damage: Vec<Range<u64>>,
    /// Whole records in a range that isn't as it was written: an id or a flag was changed.
    pub headers: Vec<Range<u64>>,
    /// Bytes that marks cover; in the others a changed id or flag can't be seen.
    pub covered: u64,
    /// What is wrong with its index, if anything.
    pub index: Option<IndexTrouble>,
}

impl SegmentVerified {
    /// Bytes at the end that are no record, with nothing whole behind them.
    pub fn tail(&self) -> Option<Range<u64>> {
        let end = self.start + self.len;
        (self.whole_to < end).then_some(self.whole_to..end)
    }
}

/// The marks of an index, those up to position `end`, and where the index is torn.
fn marks(disk: &dyn Disk, folder: &Folder, start: u64, end: u64) -> io::Result<Option<(Vec<Mark>, Option<u64>)>> {
    let Some(bytes) = read_whole(disk, &path(&folder.path, start, FileKind::Index))? else { return Ok(None) };
    let mut marks: Vec<Mark> = Vec::new();
    for chunk in bytes.chunks(MARK_BYTES) {
        let below = marks.last().map_or(start, |mark| mark.position);
        let whole = Some(chunk).filter(|chunk| chunk.len() == MARK_BYTES).and_then(Mark::decode);
        match whole.filter(|mark| mark.position > below) {
            Some(mark) if mark.position > end => break,
            Some(mark) => marks.push(mark),
            None => {
                let torn = marks.len() as u64;
                return Ok(Some((marks, Some(torn))));
            }
        }
    }
    Ok(Some((marks, None)))
}

/// Compares marks with the bytes while records are walked over.
struct Comparison {
    marks: std::vec::IntoIter<Mark>,
    next: Option<Mark>,
    passed: u64,
    last: Option<Mark>,
    since: u64,
    records: u64,
    checksum: u32,
    /// Bytes since the last mark are no records: what the next mark says isn't theirs.
    tainted: bool,
    covered: u64,
    stale: Option<u64>,
    headers: Vec<Range<u64>>,
}

impl Comparison {
    fn new(marks: Vec<Mark>, start: u64) -> Self {
        let mut marks = marks.into_iter();
        let next = marks.next();
        Self {
            marks,
            next,
            passed: 0,
            last: None,
            since: start,
            records: 0,
            checksum: 0,
            tainted: false,
            covered: 0,
            stale: None,
            headers: Vec::new(),
        }
    }

    fn record(&mut self, end: u64, bytes: &[u8]) {
        let Some(mark) = self.next else { return };
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.records += 1;
        if mark.position < end {
            self.is_stale();
        } else if mark.position == end {
            self.judge(mark);
        }
    }

    fn judge(&mut self, mark: Mark) {
        let counted = self.last.map(|last| mark.sequence.saturating_sub(last.sequence));
        let counts = counted.is_none_or(|counted| counted == i64::try_from(self.records).unwrap_or(i64::MAX));
        if !self.tainted && self.checksum == mark.checksum {
            self.covered += mark.position - self.since;
        } else if !self.tainted && counts {
            self.headers.push(self.since..mark.position);
        } else if !self.tainted {
            return self.is_stale();
        }
        self.last = Some(mark);
        self.pass(mark);
    }

    fn pass(&mut self, mark: Mark) {
        (self.since, self.records, self.checksum, self.tainted) = (mark.position, 0, 0, false);
        self.passed += 1;
        self.next = self.marks.next();
    }

    fn is_stale(&mut self) {
        self.stale = Some(self.passed);
        self.next = None;
    }

    /// Bytes up to `end` are no records.
    fn bad(&mut self, end: u64) {
        while let Some(mark) = self.next.filter(|mark| mark.position <= end) {
            self.pass(mark);
        }
        self.last = None;
        self.tainted = true;
    }
}

/// Checks a segment up to position `limit`. `done` is told of the bytes that were read.
pub(super) fn check(
    disk: &dyn Disk,
    folder: &Folder,
    segment: SegmentFile,
    limit: u64,
    done: &mut dyn FnMut(u64),
) -> io::Result<SegmentVerified> {
    let start = segment.start;
    let file = disk.open(&path(&folder.path, start, FileKind::Segment), Open::Read)?;
    let mut records = Records::new(file, 0, limit.saturating_sub(start))?;
    let end = start + records.len();
    let index = marks(disk, folder, start, end)?;
    let missing = index.is_none() && records.len() >= MARK_EVERY_BYTES;
    let (marks, torn) = index.unwrap_or_default();
    let mut comparison = Comparison::new(marks, start);
    let (mut count, mut whole_to, mut damage, mut told) = (0, start, Vec::new(), 0);
    while let Some(piece) = records.step()? {
        let at = match piece {
            Piece::Record(range) => {
                (count, whole_to) = (count + 1, start + range.end);
                comparison.record(whole_to, records.bytes(range.clone())?);
                range.end
            }
            Piece::Damage(range) => {
                damage.push(start + range.start..start + range.end);
                comparison.bad(start + range.end);
                range.end
            }
            Piece::Tail(range) => range.end,
        };
        if at - told >= MARK_EVERY_BYTES {
            done(at - told);
            told = at;
        }
    }
    done(records.len() - told);
    let torn = torn.map(|mark| IndexTrouble::Torn { mark });
    let stale = comparison.stale.map(|mark| IndexTrouble::Stale { mark });
    Ok(SegmentVerified {
        start,
        len: records.len(),
        records: count,
        whole_to,
        damage,
        headers: comparison.headers,
        covered: comparison.covered,
        index: stale.or(torn).or(missing.then_some(IndexTrouble::Missing)),
    })
}
