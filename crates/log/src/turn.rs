//! The turn: what one write and one sync cover, and its form in the commit log.
//!
//! ```text
//!  0  magic "MQTN"          32  settled lsn when written
//!  4  format      u16       40  entries        u32
//!  6  reserved    u16       44  bytes          u32  (of the entries, without header and padding)
//!  8  generation  u64       48  append time    u64  (milliseconds since 1970)
//! 16  epoch       u64       56  CRC-32C        u32  (header with this field zero, then the entries)
//! 24  first lsn   u64       60  incarnation    u32
//! 64  entries …             padded with zeros to a multiple of 4 KiB
//! ```
//!
//! Little-endian. A turn is valid if magic, format, generation, incarnation and checksum fit and its first lsn is the
//! one that is expected: what an earlier round of the ring, or an earlier opening of the directory, left behind never is.

use crate::bytes::Take;

/// Turns begin at multiples of this many bytes: no block holding acknowledged bytes is rewritten.
pub const BLOCK_BYTES: usize = 4096;
/// Length of the header.
pub const HEADER_BYTES: usize = 64;
/// The form of turn this version writes.
pub const FORMAT: u16 = 1;
const MAGIC: [u8; 4] = *b"MQTN";
const CHECKSUM_AT: usize = 56;

/// What the header of a turn says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which use of a ring file this turn belongs to.
    pub generation: u64,
    /// The leader's epoch.
    pub epoch: u64,
    /// Which opening of the data directory wrote it.
    pub incarnation: u32,
    /// Number of its first entry.
    pub first_lsn: u64,
    /// Every entry up to here was durable when the turn was written.
    pub settled_lsn: u64,
    /// How many entries it has.
    pub entries: u32,
    /// Bytes of all entries.
    pub bytes: u32,
    /// Milliseconds since 1970, never lower than an earlier turn's.
    pub append_time: u64,
}

/// Why bytes are no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// No turn was ever written here.
    NoMagic,
    /// A form this version doesn't know.
    Format(u16),
    /// Length or checksum don't fit.
    Torn,
}

impl Header {
    /// Bytes the turn takes in its file.
    pub fn padded_bytes(&self) -> usize {
        (HEADER_BYTES + self.bytes as usize).next_multiple_of(BLOCK_BYTES)
    }

    /// Number of the entry after the last.
    pub fn next_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.entries)
    }

    /// Reads a header without judging the entries.
    pub fn decode(bytes: &[u8]) -> Result<Self, Invalid> {
        let mut take = Take::new(bytes);
        let mut read = || -> Result<Result<Self, Invalid>, crate::bytes::Short> {
            if take.bytes(4)? != MAGIC {
                return Ok(Err(Invalid::NoMagic));
            }
            let format = take.u16()?;
            if format != FORMAT {
                return Ok(Err(Invalid::Format(format)));
            }
            take.u16()?;
            let (generation, epoch, first_lsn, settled_lsn) = (take.u64()?, take.u64()?, take.u64()?, take.u64()?);
            let (entries, bytes, append_time) = (take.u32()?, take.u32()?, take.u64()?);
            take.u32()?;
            let incarnation = take.u32()?;
            Ok(Ok(Self { generation, epoch, incarnation, first_lsn, settled_lsn, entries, bytes, append_time }))
        };
        read().unwrap_or(Err(Invalid::NoMagic))
    }
}

/// Writes the header into the first 64 bytes of `turn` (header, then entries) and pads it to whole blocks.
pub fn seal(turn: &mut Vec<u8>, header: &Header) {
    assert_eq!(turn.len(), HEADER_BYTES + header.bytes as usize, "the header speaks of these entries");
    let head = &mut turn[..HEADER_BYTES];
    head[0..4].copy_from_slice(&MAGIC);
    head[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    head[6..8].fill(0);
    for (at, value) in [
        (8, header.generation),
        (16, header.epoch),
        (24, header.first_lsn),
        (32, header.settled_lsn),
        (48, header.append_time),
    ] {
        head[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    for (at, value) in [(40, header.entries), (44, header.bytes), (CHECKSUM_AT, 0), (60, header.incarnation)] {
        head[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let checksum = crc32c::crc32c(turn);
    turn[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    turn.resize(turn.len().next_multiple_of(BLOCK_BYTES), 0);
}

/// Checks a whole turn (header and at least its entries) and gives its header and entries.
pub fn open(turn: &[u8]) -> Result<(Header, &[u8]), Invalid> {
    let header = Header::decode(turn)?;
    let end = HEADER_BYTES + header.bytes as usize;
    let whole = turn.get(..end).ok_or(Invalid::Torn)?;
    let said = Take::new(&whole[CHECKSUM_AT..]).u32().map_err(|_| Invalid::Torn)?;
    let mut head = [0; HEADER_BYTES];
    head.copy_from_slice(&whole[..HEADER_BYTES]);
    head[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    let found = crc32c::crc32c_append(crc32c::crc32c(&head), &whole[HEADER_BYTES..]);
    if said == found { Ok((header, &whole[HEADER_BYTES..])) } else { Err(Invalid::Torn) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> (Vec<u8>, Header) {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(b"two entries, say");
        let header = Header {
            generation: 3,
            epoch: 1,
            incarnation: 9,
            first_lsn: 77,
            settled_lsn: 70,
            entries: 2,
            bytes: 16,
            append_time: 1_700_000_000_000,
        };
        seal(&mut bytes, &header);
        (bytes, header)
    }

    #[test]
    fn a_sealed_turn_opens_with_what_was_sealed() {
        let (bytes, header) = turn();
        assert_eq!(bytes.len(), BLOCK_BYTES);
        assert_eq!(open(&bytes), Ok((header, &b"two entries, say"[..])));
        assert_eq!(header.next_lsn(), 79);
    }

    #[test]
    fn any_flipped_bit_of_header_or_entries_makes_a_turn_invalid() {
        let (bytes, _) = turn();
        for bit in 0..(HEADER_BYTES + 16) * 8 {
            let reserved = (6 * 8..8 * 8).contains(&bit);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&flipped).is_err(), "bit {bit}, reserved: {reserved}");
        }
    }

    #[test]
    fn zeros_are_no_turn() {
        assert_eq!(open(&[0; BLOCK_BYTES]), Err(Invalid::NoMagic));
    }
}
