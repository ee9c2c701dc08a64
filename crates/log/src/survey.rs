//! Walks the records of a segment file and tells what is whole, what is torn and what is damaged.
//!
//! A bad record with whole records behind it is *damage*: nothing may be cut. Bad bytes with nothing whole behind them
//! are a torn tail. Zeros (length, checksum and id all 0) are no record.

use metaq_disk::{File, read_exact_at};
use metaq_protocol::record::{self, HEADER_BYTES, Header};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What a segment holds. Ranges are bytes of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Whole records.
    pub records: u64,
    /// Behind the last whole record.
    pub end: u64,
    /// Bytes of the file; more than `end` if the tail is torn.
    pub len: u64,
    /// Bad bytes with whole records behind them.
    pub damage: Vec<Range<u64>>,
    /// Some torn or damaged bytes are nothing but zeros.
    pub zeros: bool,
}

const PIECE_BYTES: u64 = 1 << 20;

/// A file read piece by piece.
pub(crate) struct Window {
    pub(crate) file: Arc<dyn File>,
    pub(crate) len: u64,
    pub(crate) from: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Window {
    /// `len` bytes at `at`; `None` if the file ends before.
    pub(crate) fn slice(&mut self, at: u64, len: u64) -> io::Result<Option<&[u8]>> {
        if at + len > self.len {
            return Ok(None);
        }
        if at < self.from || at + len > self.from + self.bytes.len() as u64 {
            let load = len.max(PIECE_BYTES).min(self.len - at);
            self.bytes.resize(usize::try_from(load).expect("a piece fits into memory"), 0);
            read_exact_at(&*self.file, &mut self.bytes, at)?;
            self.from = at;
        }
        let start = usize::try_from(at - self.from).expect("in the piece");
        Ok(Some(&self.bytes[start..start + usize::try_from(len).expect("in the piece")]))
    }

    /// The size of the whole record at `at`, if there is one. `evidence`: an empty record doesn't count.
    pub(crate) fn record(&mut self, at: u64, evidence: bool) -> io::Result<Option<u64>> {
        let Some(bytes) = self.slice(at, HEADER_BYTES as u64)? else { return Ok(None) };
        let header = Header::decode(bytes.try_into().expect("a header's bytes"));
        let Ok(length) = u64::try_from(header.length) else { return Ok(None) };
        if header.id == 0 || header.checksum < 0 || (evidence && length == 0) {
            return Ok(None);
        }
        let Some(body) = self.slice(at + HEADER_BYTES as u64, length)? else { return Ok(None) };
        Ok((record::checksum(body) == header.checksum).then_some(HEADER_BYTES as u64 + length))
    }

    fn is_zero(&mut self, range: Range<u64>) -> io::Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(PIECE_BYTES);
            if self.slice(at, len)?.is_none_or(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                return Ok(false);
            }
            at += len;
        }
        Ok(true)
    }
}

/// Surveys a segment file from byte `from` (a record's start) on. `pause` is called after each MiB.
pub fn survey(file: Arc<dyn File>, from: u64, mut pause: impl FnMut()) -> io::Result<Survey> {
    let len = file.len()?;
    let mut window = Window { file, len, from: 0, bytes: Vec::new() };
    let mut survey = Survey { end: from, len, ..Survey::default() };
    let mut at = from;
    let mut paused = from;
    while at < len {
        if let Some(size) = window.record(at, false)? {
            at += size;
            survey.records += 1;
            survey.end = at;
        } else {
            let bad = at;
            while at < len && window.record(at, true)?.is_none() {
                at += 1;
            }
            survey.zeros |= window.is_zero(bad..at)?;
            if at < len {
                survey.damage.push(bad..at);
            }
        }
        if at - paused >= PIECE_BYTES {
            paused = at;
            pause();
        }
    }
    Ok(survey)
}

/// Where a walk to a record stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    /// It begins at this byte of the file.
    At(u64),
    /// The file ends before; the record behind it has this running number.
    Behind(i64),
    /// There is something else on the way.
    Damaged,
}

/// Walks from (`at`, `number`) to the record with running number `target`.
pub(crate) fn seek_record(file: Arc<dyn File>, mut at: u64, mut number: i64, target: i64) -> io::Result<Sought> {
    let len = file.len()?;
    let mut window = Window { file, len, from: 0, bytes: Vec::new() };
    while at < len {
        if number == target {
            return Ok(Sought::At(at));
        }
        match window.record(at, false)? {
            Some(size) => (at, number) = (at + size, number + 1),
            None => return Ok(Sought::Damaged),
        }
    }
    Ok(Sought::Behind(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_disk::{Disk, FaultyDisk, Open, write_all_at};
    use std::path::Path;

    fn records(count: i64) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for id in 1..=count {
            starts.push(bytes.len() as u64);
            record::encode(&mut bytes, id, 0, format!("message {id}").as_bytes());
        }
        (bytes, starts)
    }

    fn surveyed(bytes: &[u8]) -> Survey {
        let disk = FaultyDisk::new(1);
        let file = disk.open(Path::new("/s"), Open::CreateNew).unwrap();
        write_all_at(&*file, bytes, 0).unwrap();
        survey(file, 0, || {}).unwrap()
    }

    #[test]
    fn whole_records_are_counted_to_the_end() {
        let (bytes, _) = records(5);
        let survey = surveyed(&bytes);
        assert_eq!((survey.records, survey.end, survey.damage.len()), (5, bytes.len() as u64, 0));
    }

    #[test]
    fn a_tail_cut_anywhere_ends_before_the_torn_record() {
        let (bytes, starts) = records(3);
        for len in usize::try_from(starts[2]).unwrap()..bytes.len() {
            let survey = surveyed(&bytes[..len]);
            assert_eq!((survey.records, survey.end, survey.damage.len()), (2, starts[2], 0), "{len} bytes");
        }
    }

    #[test]
    fn zeros_behind_the_last_record_are_a_torn_tail() {
        let (mut bytes, _) = records(3);
        let end = bytes.len() as u64;
        bytes.resize(bytes.len() + 4096, 0);
        let survey = surveyed(&bytes);
        assert_eq!((survey.records, survey.end, survey.zeros), (3, end, true));
    }

    #[test]
    fn a_bad_record_with_whole_ones_behind_it_is_damage() {
        let (mut bytes, starts) = records(4);
        bytes[usize::try_from(starts[1]).unwrap() + 25] ^= 1;
        let survey = surveyed(&bytes);
        assert_eq!((survey.records, survey.end), (3, bytes.len() as u64));
        assert_eq!(survey.damage, vec![starts[1]..starts[2]]);
    }

    #[test]
    fn a_record_is_found_by_its_number_or_the_number_behind_the_file_is() {
        let (bytes, starts) = records(4);
        let disk = FaultyDisk::new(1);
        let file = disk.open(Path::new("/s"), Open::CreateNew).unwrap();
        write_all_at(&*file, &bytes, 0).unwrap();
        assert_eq!(seek_record(Arc::clone(&file), starts[1], 11, 13).unwrap(), Sought::At(starts[3]));
        assert_eq!(seek_record(Arc::clone(&file), starts[1], 11, 14).unwrap(), Sought::Behind(14));
        assert_eq!(seek_record(file, starts[1] + 1, 11, 13).unwrap(), Sought::Damaged);
    }

    #[test]
    fn a_bad_length_is_damage_up_to_the_next_whole_record() {
        let (mut bytes, starts) = records(4);
        bytes[usize::try_from(starts[1]).unwrap()] = 0x7f;
        assert_eq!(surveyed(&bytes).damage, vec![starts[1]..starts[2]]);
    }
}
