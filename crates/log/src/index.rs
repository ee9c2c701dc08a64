//! The sparse index beside a segment: from sequence and append time to position, with a checksum of the raw bytes.
//!
//! ```text
//! position u64 · sequence i64 · append time u64 · CRC-32C of the bytes since the previous mark u32 · CRC-32C of this mark u32
//! ```
//!
//! One 32-byte mark about every 64 KiB, always at the end of an append. It can be rebuilt and is never trusted over the
//! log: a mark that isn't whole, isn't in order, or lies behind the segment's end, ends the index.

use crate::bytes::{Put, Take};
use metaq_disk::{File, read_exact_at};
use std::io;

/// Bytes of one mark.
pub const MARK_BYTES: usize = 32;
/// About how far marks lie apart.
pub const MARK_EVERY_BYTES: u64 = 64 * 1024;

/// One mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// A record begins (or the segment ends) here.
    pub position: u64,
    /// Running number of the message at `position`.
    pub sequence: i64,
    /// Append time of the last message below, milliseconds since 1970.
    pub append_time: u64,
    /// Of the segment's bytes from the previous mark (or the segment's start) to `position`.
    pub checksum: u32,
}

impl Mark {
    /// The mark's bytes.
    pub fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = Vec::with_capacity(MARK_BYTES);
        bytes.u64(self.position);
        bytes.i64(self.sequence);
        bytes.u64(self.append_time);
        bytes.u32(self.checksum);
        bytes.u32(crc32c::crc32c(&bytes));
        bytes.try_into().expect("the fields have 32 bytes")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut take = Take::new(bytes);
        let mark = Self {
            position: take.u64().ok()?,
            sequence: take.i64().ok()?,
            append_time: take.u64().ok()?,
            checksum: take.u32().ok()?,
        };
        (take.u32().ok()? == crc32c::crc32c(&bytes[..MARK_BYTES - 4])).then_some(mark)
    }
}

/// The whole, ordered marks of an index whose segment covers `segment`; the rest is ignored.
pub fn read_marks(file: &dyn File, segment: &std::ops::Range<u64>) -> io::Result<Vec<Mark>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).expect("an index is small")];
    read_exact_at(file, &mut bytes, 0)?;
    let mut below = segment.start;
    let marks = bytes.chunks_exact(MARK_BYTES).map_while(|chunk| {
        let mark = Mark::decode(chunk)?;
        let fits = mark.position > below && mark.position <= segment.end;
        below = mark.position;
        fits.then_some(mark)
    });
    Ok(marks.collect())
}

/// The index of the segment that is being written.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    /// Marks in the file.
    pub marks: u64,
    /// Of the bytes from the last one (or the segment's start) to what was applied.
    pub checksum: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_disk::{Disk, FaultyDisk, Open, write_all_at};
    use std::path::Path;

    #[test]
    fn a_damaged_mark_ends_the_index() {
        let disk = FaultyDisk::new(1);
        let file = disk.open(Path::new("/i"), Open::CreateNew).unwrap();
        let marks: Vec<_> = (1..5)
            .map(|n| Mark { position: 100 + n * 70_000, sequence: n as i64, append_time: n, checksum: 7 })
            .collect();
        let bytes: Vec<u8> = marks.iter().flat_map(Mark::encode).collect();
        write_all_at(&*file, &bytes, 0).unwrap();
        assert_eq!(read_marks(&*file, &(100..1_000_000)).unwrap(), marks);
        assert_eq!(read_marks(&*file, &(100..200_000)).unwrap(), marks[..2]);
        write_all_at(&*file, &[0xff], 2 * MARK_BYTES as u64 + 3).unwrap();
        assert_eq!(read_marks(&*file, &(100..1_000_000)).unwrap(), marks[..2]);
    }
}
