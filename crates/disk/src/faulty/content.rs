//! The bytes of a simulated file: chunks that are copied only when a shared one is written.
//!
//! Invariant: what lies behind the length is zero, so that growing needs no clean-up. A chunk that was never written
//! is a hole and takes no room.

use std::ops::Range;
use std::sync::Arc;

/// The unit that a power cut keeps or loses whole, in bytes.
pub(super) const SECTOR: usize = 512;

/// The unit of room and of copying, in bytes.
pub(super) const CHUNK: usize = 4096;

/// The bytes of one sector.
pub(super) type Sector = [u8; SECTOR];

#[derive(Debug, Clone)]
enum Chunk {
    Hole,
    Zeros,
    Bytes(Arc<[u8; CHUNK]>),
}

/// Bytes and length; cloning it copies no bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    len: u64,
    /// Missing ones at the end are holes.
    chunks: Arc<Vec<Chunk>>,
    /// How many chunks are no hole.
    taken: u64,
}

/// A piece of a range of bytes that lies in one chunk.
struct Piece {
    chunk: usize,
    inside: Range<usize>,
}

/// Cuts a range of positions at the borders of chunks.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Piece> {
    let mut position = range.start;
    std::iter::from_fn(move || {
        if position >= range.end {
            return None;
        }
        let inside = index(position % CHUNK as u64);
        let end = CHUNK.min(inside + index((range.end - position).min(CHUNK as u64)));
        let piece = Piece { chunk: index(position / CHUNK as u64), inside: inside..end };
        position += (end - inside) as u64;
        Some(piece)
    })
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a simulated file fits into memory")
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Room taken, in bytes.
    pub(super) fn allocated(&self) -> u64 {
        self.taken * CHUNK as u64
    }

    /// How much of a write at `range` fits if `free` more bytes may be taken.
    pub(super) fn fitting(&self, range: Range<u64>, mut free: u64) -> u64 {
        let mut fits = 0;
        for piece in pieces(range) {
            if matches!(self.chunk(piece.chunk), Chunk::Hole) {
                if free < CHUNK as u64 {
                    break;
                }
                free -= CHUNK as u64;
            }
            fits += piece.inside.len() as u64;
        }
        fits
    }

    /// Copies what is there at `position`; returns how much.
    pub(super) fn read(&self, bytes: &mut [u8], position: u64) -> usize {
        let len = index(self.len.saturating_sub(position).min(bytes.len() as u64));
        self.copy(&mut bytes[..len], position);
        len
    }

    /// Copies bytes, zeros for those behind the end.
    pub(super) fn copy(&self, bytes: &mut [u8], position: u64) {
        let mut done = 0;
        for piece in pieces(position..position + bytes.len() as u64) {
            let target = &mut bytes[done..done + piece.inside.len()];
            match self.chunk(piece.chunk) {
                Chunk::Bytes(chunk) => target.copy_from_slice(&chunk[piece.inside.clone()]),
                Chunk::Hole | Chunk::Zeros => target.fill(0),
            }
            done += piece.inside.len();
        }
    }

    /// Writes, growing as needed.
    pub(super) fn write(&mut self, bytes: &[u8], position: u64) {
        let range = position..position + bytes.len() as u64;
        self.grow_to(range.end);
        let mut done = 0;
        for piece in pieces(range) {
            let source = &bytes[done..done + piece.inside.len()];
            self.chunk_bytes(piece.chunk)[piece.inside.clone()].copy_from_slice(source);
            done += piece.inside.len();
        }
    }

    /// Fills with zeros that take room, growing as needed.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        self.grow_to(range.end);
        for piece in pieces(range) {
            let chunk = self.take_chunk(piece.chunk);
            match chunk {
                Chunk::Bytes(bytes) if piece.inside.len() < CHUNK => {
                    Arc::make_mut(bytes)[piece.inside].fill(0);
                }
                _ => *chunk = Chunk::Zeros,
            }
        }
    }

    /// Cuts, or grows with a hole.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let kept = index(len.div_ceil(CHUNK as u64));
            if kept < self.chunks.len() {
                let dropped = Arc::make_mut(&mut self.chunks).drain(kept..);
                self.taken -= dropped.filter(|chunk| !matches!(chunk, Chunk::Hole)).count() as u64;
            }
            let cut = index(len % CHUNK as u64);
            if cut > 0 && matches!(self.chunk(kept - 1), Chunk::Bytes(_)) {
                self.chunk_bytes(kept - 1)[cut..].fill(0);
            }
        }
        self.len = len;
    }

    /// The sector of that number, zeros where nothing is.
    pub(super) fn sector(&self, number: u64) -> Sector {
        let mut bytes = [0; SECTOR];
        self.copy(&mut bytes, number * SECTOR as u64);
        bytes
    }

    /// Replaces the sector of that number; the length stays and what lies behind it is dropped.
    pub(super) fn set_sector(&mut self, number: u64, bytes: &Sector) {
        let position = number * SECTOR as u64;
        let kept = index(self.len.saturating_sub(position).min(SECTOR as u64));
        if kept > 0 {
            self.write(&bytes[..kept], position);
        }
    }

    /// The numbers of the sectors in `range` that may hold something other than zeros.
    pub(super) fn written_sectors(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        const PER_CHUNK: u64 = (CHUNK / SECTOR) as u64;
        let first = index(range.start / PER_CHUNK);
        let end = index(range.end.div_ceil(PER_CHUNK)).min(self.chunks.len());
        (first..end)
            .filter(|&chunk| matches!(self.chunks[chunk], Chunk::Bytes(_)))
            .flat_map(|chunk| chunk as u64 * PER_CHUNK..(chunk as u64 + 1) * PER_CHUNK)
            .filter(move |sector| range.contains(sector))
    }

    fn grow_to(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    fn chunk(&self, number: usize) -> &Chunk {
        self.chunks.get(number).unwrap_or(&Chunk::Hole)
    }

    /// The chunk, which is no hole from here on.
    fn take_chunk(&mut self, number: usize) -> &mut Chunk {
        let chunks = Arc::make_mut(&mut self.chunks);
        if number >= chunks.len() {
            chunks.resize(number + 1, Chunk::Hole);
        }
        let chunk = &mut chunks[number];
        if matches!(chunk, Chunk::Hole) {
            *chunk = Chunk::Zeros;
            self.taken += 1;
        }
        chunk
    }

    fn chunk_bytes(&mut self, number: usize) -> &mut [u8; CHUNK] {
        let chunk = self.take_chunk(number);
        if !matches!(chunk, Chunk::Bytes(_)) {
            *chunk = Chunk::Bytes(Arc::new([0; CHUNK]));
        }
        match chunk {
            Chunk::Bytes(bytes) => Arc::make_mut(bytes),
            Chunk::Hole | Chunk::Zeros => unreachable!("the chunk was just given bytes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xff; index(content.len())];
        assert_eq!(content.read(&mut bytes, 0), bytes.len());
        bytes
    }

    #[test]
    fn what_was_written_is_read_across_chunks() {
        let mut content = Content::default();
        let bytes: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
        content.write(&bytes, 100);
        assert_eq!(content.len(), 10_100);
        assert_eq!(all(&content)[..100], [0; 100]);
        assert_eq!(all(&content)[100..], bytes);
    }

    #[test]
    fn a_cut_leaves_no_bytes_behind_the_end() {
        let mut content = Content::default();
        content.write(&[7; 9000], 0);
        content.set_len(5000);
        content.set_len(9000);
        assert_eq!(all(&content)[..5000], [7; 5000]);
        assert_eq!(all(&content)[5000..], [0; 4000]);
    }

    #[test]
    fn a_clone_does_not_change_with_its_original() {
        let mut content = Content::default();
        content.write(&[1; 5000], 0);
        let before = content.clone();
        content.write(&[2; 100], 4000);
        content.zero(0..4096);
        assert_eq!(all(&before), [1; 5000]);
    }

    #[test]
    fn zeros_take_room_and_holes_do_not() {
        let mut content = Content::default();
        content.set_len(1 << 30);
        assert_eq!(content.allocated(), 0);
        content.zero(0..8192);
        assert_eq!(content.allocated(), 8192);
        content.write(&[1], 100);
        assert_eq!(content.allocated(), 8192);
        assert_eq!(content.fitting(0..20_000, 4096), 12_288);
    }

    #[test]
    fn a_sector_is_cut_at_the_length() {
        let mut content = Content::default();
        content.set_len(700);
        content.set_sector(1, &[9; SECTOR]);
        assert_eq!(content.len(), 700);
        assert_eq!(all(&content)[512..], [9; 188]);
        content.set_len(1024);
        assert_eq!(all(&content)[700..], [0; 324]);
    }
}
