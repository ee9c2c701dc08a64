//! A segment's records, one after another, with the bytes between them that are none.
//!
//! It tells damage from a torn tail as [`crate::survey`] does; unlike that it gives every record, and can end before the
//! file does.

use crate::survey::Window;
use metaq_disk::File;
use metaq_protocol::record::{HEADER_BYTES, Header};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What stands at a place of a segment. Ranges are bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole record.
    Record(Range<u64>),
    /// No records, but a whole one behind them.
    Damage(Range<u64>),
    /// No records, up to the end.
    Tail(Range<u64>),
}

/// Walks over a file.
pub(super) struct Records {
    window: Window,
    at: u64,
}

impl Records {
    /// From byte `at`, a record's start, up to byte `end` or the file's end.
    pub(super) fn new(file: Arc<dyn File>, at: u64, end: u64) -> io::Result<Self> {
        let len = file.len()?.min(end);
        Ok(Self { window: Window { file, len, from: 0, bytes: Vec::new() }, at })
    }

    /// Where the walk ends.
    pub(super) fn len(&self) -> u64 {
        self.window.len
    }

    /// The next piece; `None` at the end.
    pub(super) fn step(&mut self) -> io::Result<Option<Piece>> {
        let start = self.at;
        if start >= self.window.len {
            return Ok(None);
        }
        self.load(start)?;
        if let Some(size) = self.window.record(start, false)? {
            self.at += size;
            return Ok(Some(Piece::Record(start..self.at)));
        }
        self.at += 1;
        while self.at < self.window.len && self.window.record(self.at, true)?.is_none() {
            self.at += 1;
        }
        let bad = start..self.at;
        Ok(Some(if self.at < self.window.len { Piece::Damage(bad) } else { Piece::Tail(bad) }))
    }

    /// Brings all that the header at `at` announces into memory at once.
    fn load(&mut self, at: u64) -> io::Result<()> {
        let Some(header) = self.header(at)? else { return Ok(()) };
        let Ok(length) = u64::try_from(header.length) else { return Ok(()) };
        self.window.slice(at, HEADER_BYTES as u64 + length)?;
        Ok(())
    }

    /// The header at `at`, whatever it says.
    pub(super) fn header(&mut self, at: u64) -> io::Result<Option<Header>> {
        let bytes = self.window.slice(at, HEADER_BYTES as u64)?;
        Ok(bytes.map(|bytes| Header::decode(bytes.try_into().expect("a header's bytes"))))
    }

    /// The bytes of a range that lies in what was walked over.
    pub(super) fn bytes(&mut self, range: Range<u64>) -> io::Result<&[u8]> {
        let bytes = self.window.slice(range.start, range.end - range.start)?;
        bytes.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Whole records that begin before byte `end`, from where the walk stands.
    pub(super) fn count_before(mut self, end: u64) -> io::Result<u64> {
        let mut count = 0;
        while self.at < end
            && let Some(piece) = self.step()?
        {
            count += u64::from(matches!(piece, Piece::Record(_)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::{Survey, survey};
    use metaq_disk::{Disk, FaultyDisk, Open, write_all_at};
    use metaq_protocol::record;
    use proptest::prelude::*;
    use std::path::Path;

    fn file_of(bytes: &[u8]) -> Arc<dyn File> {
        let disk = FaultyDisk::new(1);
        let file = disk.open(Path::new("/s"), Open::CreateNew).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        file
    }

    fn walked(bytes: &[u8]) -> (Survey, Vec<Piece>) {
        let mut records = Records::new(file_of(bytes), 0, u64::MAX).unwrap();
        let mut found = Survey { len: bytes.len() as u64, ..Survey::default() };
        let mut pieces = Vec::new();
        while let Some(piece) = records.step().unwrap() {
            match &piece {
                Piece::Record(range) => (found.records, found.end) = (found.records + 1, range.end),
                Piece::Damage(range) => found.damage.push(range.clone()),
                Piece::Tail(_) => {}
            }
            pieces.push(piece);
        }
        (found, pieces)
    }

    fn segment(count: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for id in 1..=count {
            record::encode(&mut bytes, id, 0, format!("message {id}").as_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn the_walk_finds_what_a_survey_finds(
            count in 0_i64..8,
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 0..3),
            zeros in 0_usize..50,
            cut in 0_usize..40,
        ) {
            let mut bytes = segment(count);
            for (index, bit) in flips {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                }
            }
            bytes.resize(bytes.len() + zeros, 0);
            bytes.truncate(bytes.len().saturating_sub(cut));
            let (mut found, pieces) = walked(&bytes);
            let surveyed = survey(file_of(&bytes), 0, || {}).unwrap();
            found.zeros = surveyed.zeros;
            prop_assert_eq!(found, surveyed);
            let mut at = 0;
            for piece in pieces {
                let (Piece::Record(range) | Piece::Damage(range) | Piece::Tail(range)) = piece;
                prop_assert_eq!(range.start, at);
                at = range.end;
            }
            prop_assert_eq!(at, bytes.len() as u64);
        }
    }

    #[test]
    fn a_walk_ends_where_it_is_told() {
        let bytes = segment(3);
        let first = bytes.len() as u64 / 3;
        let mut records = Records::new(file_of(&bytes), 0, first).unwrap();
        assert_eq!(records.step().unwrap(), Some(Piece::Record(0..first)));
        assert_eq!(records.step().unwrap(), None);
        let counted = Records::new(file_of(&bytes), 0, u64::MAX).unwrap().count_before(2 * first);
        assert_eq!(counted.unwrap(), 2);
    }
}
