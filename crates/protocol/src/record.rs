//! The stored message, as it lies in segments, in `value` answers and in batches. Big-endian:
//!
//! ```text
//!  0  i32  length of the body
//!  4  i32  checksum of the body
//!  8  i64  id
//! 16  i32  flag
//! 20       body: [ i32 n, n bytes of attribute ]  if flag bit 0;  then the payload
//! ```
//! The checksum covers the body only, so an id can be put in without computing anything again.

use thiserror::Error;

/// Bytes before a record's body.
pub const HEADER_BYTES: usize = 20;
/// Flag bit: the body begins with an attribute block.
pub const FLAG_ATTRIBUTE: i32 = 0x1;
/// Flag bit: the attribute block ends with a section of properties (see [`crate::section`]).
pub const FLAG_SECTION: i32 = 0x2;

const ID_AT: usize = 8;

/// CRC-32 (IEEE) without its top bit: never negative, so −1 can stand for "none".
pub fn checksum(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7fff_ffff).cast_signed()
}

/// The first 20 bytes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body; negative only in damaged bytes.
    pub length: i32,
    /// [`checksum`] of the body.
    pub checksum: i32,
    /// Message id; 0 in a batch on its way to a broker.
    pub id: i64,
    /// Stored verbatim: a producer may set any bit.
    pub flag: i32,
}

impl Header {
    /// Reads a header from exactly its bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Self {
        let i32_at = |at: usize| i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut id = [0; 8];
        id.copy_from_slice(&bytes[ID_AT..ID_AT + 8]);
        Header { length: i32_at(0), checksum: i32_at(4), id: i64::from_be_bytes(id), flag: i32_at(16) }
    }

    /// The header's bytes.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.checksum.to_be_bytes());
        bytes[ID_AT..ID_AT + 8].copy_from_slice(&self.id.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.flag.to_be_bytes());
        bytes
    }

    /// Nothing but zeros in length, checksum and id: what a hole or a zero-filled tail looks like.
    pub fn is_zero(self) -> bool {
        self.length == 0 && self.checksum == 0 && self.id == 0
    }
}

/// One whole record, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Stored checksum.
    pub checksum: i32,
    /// Message id.
    pub id: i64,
    /// Flag, verbatim.
    pub flag: i32,
    /// Attribute block and payload.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Bytes of the whole record.
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Whether the stored checksum is the body's.
    pub fn is_intact(&self) -> bool {
        self.checksum == checksum(self.body)
    }

    /// Takes the body apart.
    pub fn parts(&self) -> Result<Parts<'a>, AttributeOutOfBounds> {
        Parts::of(self.flag, self.body)
    }
}

/// A body taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The attribute block's bytes, normally UTF-8; `None` if flag bit 0 is clear. An empty attribute is one.
    pub attribute: Option<&'a [u8]>,
    /// The user's data.
    pub payload: &'a [u8],
}

/// Flag bit 0 announces an attribute, but its length doesn't fit the body: the producer erred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the attribute block says {length:?} bytes, but the body has {body}")]
pub struct AttributeOutOfBounds {
    /// Length as written; `None` if not even the length fits.
    pub length: Option<i32>,
    /// Bytes of the whole body.
    pub body: usize,
}

impl<'a> Parts<'a> {
    /// Takes `body` apart as `flag` says.
    pub fn of(flag: i32, body: &'a [u8]) -> Result<Self, AttributeOutOfBounds> {
        if flag & FLAG_ATTRIBUTE == 0 {
            return Ok(Parts { attribute: None, payload: body });
        }
        let refused = |length| AttributeOutOfBounds { length, body: body.len() };
        let (length, rest) = body.split_first_chunk::<4>().ok_or(refused(None))?;
        let length = i32::from_be_bytes(*length);
        let (attribute, payload) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(refused(Some(length)))?;
        Ok(Parts { attribute: Some(attribute), payload })
    }

    /// Appends the body of these parts. The caller sets [`FLAG_ATTRIBUTE`] if there is an attribute.
    ///
    /// # Panics
    /// If the attribute is 2 GiB or longer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(attribute) = self.attribute {
            let length = i32::try_from(attribute.len()).expect("an attribute is shorter than 2 GiB");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(attribute);
        }
        out.extend_from_slice(self.payload);
    }

    /// Bytes of the encoded body.
    pub fn size(&self) -> usize {
        self.attribute.map_or(0, |attribute| 4 + attribute.len()) + self.payload.len()
    }

    /// The flag bit that these parts need: [`FLAG_ATTRIBUTE`] or none.
    pub fn flag(&self) -> i32 {
        if self.attribute.is_some() { FLAG_ATTRIBUTE } else { 0 }
    }
}

/// Appends a record whose checksum is computed here.
///
/// # Panics
/// If the body is 2 GiB or longer.
pub fn encode(out: &mut Vec<u8>, id: i64, flag: i32, body: &[u8]) {
    encode_verified(out, id, flag, checksum(body), body);
}

/// Appends a record whose checksum the caller has computed already.
///
/// # Panics
/// If the body is 2 GiB or longer.
pub fn encode_verified(out: &mut Vec<u8>, id: i64, flag: i32, checksum: i32, body: &[u8]) {
    let length = i32::try_from(body.len()).expect("a body is shorter than 2 GiB");
    out.reserve(HEADER_BYTES + body.len());
    out.extend_from_slice(&Header { length, checksum, id, flag }.encode());
    out.extend_from_slice(body);
}

/// Puts an id into an encoded record. Checksums don't cover the id.
///
/// # Panics
/// If `record` is shorter than a header.
pub fn patch_id(record: &mut [u8], id: i64) {
    record[ID_AT..ID_AT + 8].copy_from_slice(&id.to_be_bytes());
}

/// Puts `first_id`, `first_id + 1`, … into whole records that follow each other, and returns how many there are.
/// The caller has validated them: the walk stops at the first bytes that are no whole record.
pub fn patch_ids(records: &mut [u8], first_id: i64) -> u32 {
    let mut rest = records;
    let mut count = 0;
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
        let Some(size) = usize::try_from(Header::decode(header).length).ok().map(|length| HEADER_BYTES + length) else {
            break;
        };
        let Some((record, after)) = rest.split_at_mut_checked(size) else { break };
        patch_id(record, first_id.wrapping_add(i64::from(count)));
        count += 1;
        rest = after;
    }
    count
}

/// Where a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the end of the chunk, behind a whole record.
    Clean,
    /// The rest is the beginning of a record that the chunk doesn't hold whole.
    Partial {
        /// Where that record begins.
        position: usize,
        /// Bytes that the chunk must have for one step more: the whole record, or its header.
        needed: usize,
    },
    /// The bytes at `position` are no record.
    Invalid {
        /// Where they begin.
        position: usize,
        /// What is wrong with them.
        why: InvalidRecord,
    },
}

impl End {
    /// Bytes of whole records before the stop, in a chunk of `chunk` bytes.
    pub fn consumed(self, chunk: usize) -> usize {
        match self {
            End::Clean => chunk,
            End::Partial { position, .. } | End::Invalid { position, .. } => position,
        }
    }
}

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidRecord {
    /// The length is negative.
    #[error("its length {0} is negative")]
    NegativeLength(i32),
    /// The length is over the walk's limit.
    #[error("its length {length} is over the limit of {limit} bytes")]
    TooLong {
        /// As written.
        length: i32,
        /// Of the walk.
        limit: usize,
    },
    /// Length, checksum and id are zero: nothing was written here.
    #[error("it is made of zeros")]
    Zeros,
    /// The body isn't what was written.
    #[error("its checksum is {stored}, but its body has {computed}")]
    Checksum {
        /// In the header.
        stored: i32,
        /// Of the body.
        computed: i32,
    },
}

/// Which bytes a [`Walk`] takes for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strictness {
    /// Largest body.
    pub body_bytes_max: usize,
    /// Whether bodies are checked against their checksum.
    pub checksums: bool,
    /// Whether a zero length, checksum and id make a record: true only in a batch, whose ids aren't given yet.
    pub zeros: bool,
}

impl Strictness {
    /// For chunks of a log: everything is checked, any length is believed.
    pub const LOG: Strictness = Strictness { body_bytes_max: i32::MAX as usize, checksums: true, zeros: false };
    /// For a batch that has no ids yet.
    pub const BATCH: Strictness = Strictness { zeros: true, ..Strictness::LOG };
    /// For bytes that were checked before: lengths only.
    pub const CHECKED: Strictness = Strictness { checksums: false, zeros: true, ..Strictness::LOG };
}

/// Walks over the whole records of a chunk; [`Walk::end`] says where and why it stopped.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    chunk: &'a [u8],
    position: usize,
    strictness: Strictness,
    end: Option<End>,
}

/// A record and where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Bytes from the beginning of the chunk.
    pub position: usize,
    /// The record.
    pub record: Record<'a>,
}

impl Found<'_> {
    /// Bytes from the beginning of the chunk to the next record.
    pub fn next_position(&self) -> usize {
        self.position + self.record.size()
    }
}

impl<'a> Walk<'a> {
    /// A walk over a chunk of a log, see [`Strictness::LOG`].
    pub fn new(chunk: &'a [u8]) -> Self {
        Walk::with(chunk, Strictness::LOG)
    }

    /// A walk that is as strict as you say.
    pub fn with(chunk: &'a [u8], strictness: Strictness) -> Self {
        Walk { chunk, position: 0, strictness, end: None }
    }

    /// Where and why the walk stopped; `None` while the iterator still has records.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes walked so far: the position behind the last record given out.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Walks to the end without looking at the records.
    pub fn run(mut self) -> End {
        loop {
            match self.step() {
                Ok(_) => {}
                Err(end) => return end,
            }
        }
    }

    fn step(&mut self) -> Result<Found<'a>, End> {
        let position = self.position;
        let rest = &self.chunk[position..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Err(match rest {
                [] => End::Clean,
                _ => End::Partial { position, needed: position + HEADER_BYTES },
            });
        };
        let header = Header::decode(header);
        let invalid = |why| End::Invalid { position, why };
        let length =
            usize::try_from(header.length).map_err(|_| invalid(InvalidRecord::NegativeLength(header.length)))?;
        if length > self.strictness.body_bytes_max {
            let limit = self.strictness.body_bytes_max;
            return Err(invalid(InvalidRecord::TooLong { length: header.length, limit }));
        }
        if !self.strictness.zeros && header.is_zero() {
            return Err(invalid(InvalidRecord::Zeros));
        }
        let needed = position + HEADER_BYTES + length;
        let body = rest.get(..length).ok_or(End::Partial { position, needed })?;
        if self.strictness.checksums {
            let computed = checksum(body);
            if computed != header.checksum {
                return Err(invalid(InvalidRecord::Checksum { stored: header.checksum, computed }));
            }
        }
        self.position = needed;
        Ok(Found { position, record: Record { checksum: header.checksum, id: header.id, flag: header.flag, body } })
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        if self.end.is_some() {
            return None;
        }
        match self.step() {
            Ok(found) => Some(found),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}

impl std::iter::FusedIterator for Walk<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk() -> Vec<u8> {
        let mut chunk = Vec::new();
        encode(&mut chunk, 99, 0, b"hello");
        encode(&mut chunk, 100, 1, b"\0\0\0\x03taghello");
        chunk
    }

    fn check(chunk: &[u8], ids: &[i64], end: End) {
        let mut walk = Walk::new(chunk);
        let found: Vec<i64> = walk.by_ref().map(|found| found.record.id).collect();
        assert_eq!((found.as_slice(), walk.end()), (ids, Some(end)));
        assert_eq!(walk.next(), None);
        assert_eq!(walk.position(), end.consumed(chunk.len()));
        assert_eq!(Walk::new(chunk).run(), end);
    }

    #[test]
    fn a_whole_chunk_ends_clean() {
        check(&chunk(), &[99, 100], End::Clean);
        check(&[], &[], End::Clean);
    }

    #[test]
    fn a_cut_record_is_a_partial_tail_wherever_it_is_cut() {
        let chunk = chunk();
        for length in 26..45 {
            check(&chunk[..length], &[99], End::Partial { position: 25, needed: 45 });
        }
        for length in 45..chunk.len() {
            check(&chunk[..length], &[99], End::Partial { position: 25, needed: 57 });
        }
    }

    #[test]
    fn zeros_are_no_records_but_an_empty_message_is() {
        let mut chunk = chunk();
        encode(&mut chunk, 101, 0, b"");
        chunk.extend_from_slice(&[0; 40]);
        check(&chunk, &[99, 100, 101], End::Invalid { position: 77, why: InvalidRecord::Zeros });
        let walk = Walk::with(&chunk, Strictness::BATCH);
        assert_eq!(walk.count(), 5);
    }

    #[test]
    fn damage_is_named_with_its_position() {
        let mut chunk = chunk();
        chunk[50] ^= 1;
        let stored = checksum(b"\0\0\0\x03taghello");
        let computed = checksum(&chunk[45..]);
        check(&chunk, &[99], End::Invalid { position: 25, why: InvalidRecord::Checksum { stored, computed } });
        chunk[25] = 0xff;
        let why = InvalidRecord::NegativeLength(i32::from_be_bytes([0xff, 0, 0, 12]));
        check(&chunk, &[99], End::Invalid { position: 25, why });
    }

    #[test]
    fn a_length_over_the_limit_is_no_partial_tail() {
        let chunk = chunk();
        let strictness = Strictness { body_bytes_max: 11, ..Strictness::LOG };
        let end = Walk::with(&chunk[..45], strictness).run();
        assert_eq!(end, End::Invalid { position: 25, why: InvalidRecord::TooLong { length: 12, limit: 11 } });
    }

    #[test]
    fn an_attribute_longer_than_its_body_is_refused_without_allocating() {
        let refused = |body: &'static [u8]| Parts::of(FLAG_ATTRIBUTE, body).unwrap_err().length;
        assert_eq!(refused(b"abc"), None);
        assert_eq!(refused(b"\x7f\xff\xff\xffx"), Some(i32::MAX));
        assert_eq!(refused(b"\xff\xff\xff\xffx"), Some(-1));
        assert_eq!(refused(b"\0\0\0\x02x"), Some(2));
        let empty = Parts { attribute: Some(&b""[..]), payload: b"x" };
        assert_eq!(Parts::of(FLAG_ATTRIBUTE, b"\0\0\0\0x"), Ok(empty));
        assert_eq!(Parts::of(-2, b"\0\0\0\0x"), Ok(Parts { attribute: None, payload: b"\0\0\0\0x" }));
    }

    #[test]
    fn ids_are_put_into_a_batch_in_place() {
        let mut chunk = chunk();
        assert_eq!(patch_ids(&mut chunk, 7), 2);
        check(&chunk, &[7, 8], End::Clean);
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were_written(
            messages in prop::collection::vec(
                (any::<i64>(), any::<i32>(), prop::option::of(".{0,20}"), prop::collection::vec(any::<u8>(), 0..40)), 0..8)
        ) {
            let mut chunk = Vec::new();
            let mut bodies = Vec::new();
            for (id, flag, attribute, payload) in &messages {
                let parts = Parts { attribute: attribute.as_deref().map(str::as_bytes), payload };
                let mut body = Vec::new();
                parts.encode(&mut body);
                prop_assert_eq!(body.len(), parts.size());
                let flag = flag & !FLAG_ATTRIBUTE | parts.flag();
                prop_assert_eq!(Parts::of(flag, &body), Ok(parts));
                encode(&mut chunk, *id, flag, &body);
                bodies.push((*id, flag, body));
            }
            let found: Vec<_> = Walk::with(&chunk, Strictness::BATCH)
                .map(|found| (found.record.id, found.record.flag, found.record.body.to_vec()))
                .collect();
            prop_assert_eq!(found, bodies);
        }

        #[test]
        fn any_bytes_are_walked_to_an_end(chunk in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut walk = Walk::new(&chunk);
            for found in walk.by_ref() {
                prop_assert!(found.next_position() <= chunk.len());
            }
            prop_assert!(walk.end().is_some());
        }
    }
}
