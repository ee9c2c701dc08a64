//! The entry: one durable change of the data directory, and its form inside a turn.
//!
//! ```text
//! kind u8 · flags u8 · reserved u16 · length u32 · body of that many bytes
//! ```
//!
//! Little-endian. Kinds 1–15 are this version's; 16–31 (by reference), 32–47 (transactions), 48–55 (groups) and 56–63
//! (epochs) are reserved. An unknown kind is refused with the format that is needed: nothing is skipped.

use crate::bytes::{Put, Short, Take};

const APPEND: u8 = 1;
const PARTITION_CREATED: u8 = 2;
const PARTITION_DELETED: u8 = 3;
const TRIM: u8 = 4;
const STATE: u8 = 5;
const ID_CEILING: u8 = 6;
const COUNTED: u8 = 7;

const STARTS_SEGMENT: u8 = 1;
const HAS_PRODUCER: u8 = 2;

const HEADER_BYTES: usize = 8;

/// Who sent a batch, so that sending it again changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The producer's own number.
    pub producer: u64,
    /// Raised when a producer starts again; a lower one is fenced.
    pub epoch: u32,
    /// The producer's running number of the first message, from 0, per partition.
    pub sequence: i64,
}

/// Messages for one partition: all or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended<'a> {
    /// The partition's number in this data directory.
    pub partition: u32,
    /// How many records there are.
    pub count: u32,
    /// Where the first byte goes in the partition.
    pub position: u64,
    /// Running number of the first message in the partition.
    pub sequence: u64,
    /// A segment begins at `position`.
    pub starts_segment: bool,
    /// Sent by a producer that numbers its batches.
    pub producer: Option<ProducerBatch>,
    /// The records as they stand in the segment.
    pub records: &'a [u8],
}

/// What happens to trimmed segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposal {
    /// They are removed.
    Delete,
    /// They are renamed to `….meta.arc`.
    Archive,
    /// They are packed as `….meta.zip`.
    ArchiveZip,
}

impl Disposal {
    pub(crate) fn encode(self) -> u8 {
        match self {
            Self::Delete => 0,
            Self::Archive => 1,
            Self::ArchiveZip => 2,
        }
    }

    pub(crate) fn decode(byte: u8) -> Option<Self> {
        [Self::Delete, Self::Archive, Self::ArchiveZip].into_iter().find(|how| how.encode() == byte)
    }
}

/// A change of one key of the durable map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Which map: the caller's number.
    pub space: u8,
    /// The key, at most 64 KiB.
    pub key: Vec<u8>,
    /// The value; `None` removes the key.
    pub value: Option<Vec<u8>>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry<'a> {
    /// Messages of one partition.
    Append(Appended<'a>),
    /// A partition exists from here on.
    PartitionCreated {
        /// Its number, never given again.
        partition: u32,
        /// Topic.
        topic: &'a str,
        /// Index in the topic.
        index: u32,
        /// The data path its folder stands in.
        root: &'a str,
    },
    /// A partition and its messages are gone.
    PartitionDeleted {
        /// Its number.
        partition: u32,
    },
    /// Everything below `first` is gone.
    Trim {
        /// The partition's number.
        partition: u32,
        /// Position of the first message that stays: a segment's start, or the partition's end.
        first: u64,
        /// Running number of that message, relative as in [`Entry::Counted`].
        first_sequence: i64,
        /// What becomes of the segments below.
        disposal: Disposal,
    },
    /// Changes of the durable map, all or none.
    State(Vec<StateChange>),
    /// No id above this clock value was given before a higher ceiling was written.
    IdCeiling {
        /// Milliseconds since 1970.
        clock: u64,
    },
    /// The messages of an adopted partition's sealed segments have been counted.
    Counted {
        /// The partition's number.
        partition: u32,
        /// Sequence of the oldest message, relative to the adopted last segment's first: zero or negative.
        first_sequence: i64,
    },
}

/// Why bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// They end too early, or a field is out of range.
    #[error("a log entry is cut short or has a field out of range")]
    Malformed,
    /// Written by a later version.
    #[error("the log has an entry of kind {kind}, which needs a later version of metaq than this one")]
    UnknownKind {
        /// The kind found.
        kind: u8,
    },
}

impl From<Short> for EntryError {
    fn from(_: Short) -> Self {
        Self::Malformed
    }
}

/// Appends the entry for `records` to a turn and gives the range of the records in it.
///
/// The records are copied once; their ids are patched by the caller afterwards.
pub fn encode_append(turn: &mut Vec<u8>, append: &Appended<'_>) -> std::ops::Range<usize> {
    let fixed = 24 + if append.producer.is_some() { 20 } else { 0 };
    let flags = u8::from(append.starts_segment) * STARTS_SEGMENT + u8::from(append.producer.is_some()) * HAS_PRODUCER;
    head(turn, APPEND, flags, fixed + append.records.len());
    turn.u32(append.partition);
    turn.u32(append.count);
    turn.u64(append.position);
    turn.u64(append.sequence);
    if let Some(producer) = append.producer {
        turn.u64(producer.producer);
        turn.u32(producer.epoch);
        turn.i64(producer.sequence);
    }
    let start = turn.len();
    turn.extend_from_slice(append.records);
    start..turn.len()
}

/// Bytes that [`encode_append`] takes beside the records, at most.
pub const APPEND_OVERHEAD_BYTES: usize = HEADER_BYTES + 44;

impl Entry<'_> {
    /// Appends the entry to a turn.
    pub fn encode(&self, turn: &mut Vec<u8>) {
        match self {
            Entry::Append(append) => {
                encode_append(turn, append);
            }
            Entry::PartitionCreated { partition, topic, index, root } => body(turn, PARTITION_CREATED, |out| {
                out.u32(*partition);
                out.u32(*index);
                out.block(topic.as_bytes());
                out.block(root.as_bytes());
            }),
            Entry::PartitionDeleted { partition } => body(turn, PARTITION_DELETED, |out| out.u32(*partition)),
            Entry::Trim { partition, first, first_sequence, disposal } => body(turn, TRIM, |out| {
                out.u32(*partition);
                out.u64(*first);
                out.i64(*first_sequence);
                out.u8(disposal.encode());
            }),
            Entry::State(changes) => body(turn, STATE, |out| {
                for change in changes {
                    out.u8(change.space);
                    out.u8(u8::from(change.value.is_some()));
                    out.block(&change.key);
                    if let Some(value) = &change.value {
                        out.block(value);
                    }
                }
            }),
            Entry::IdCeiling { clock } => body(turn, ID_CEILING, |out| out.u64(*clock)),
            Entry::Counted { partition, first_sequence } => body(turn, COUNTED, |out| {
                out.u32(*partition);
                out.i64(*first_sequence);
            }),
        }
    }
}

fn head(turn: &mut Vec<u8>, kind: u8, flags: u8, length: usize) {
    turn.u8(kind);
    turn.u8(flags);
    turn.u16(0);
    turn.u32(u32::try_from(length).expect("a turn is far below 4 GiB"));
}

fn body(turn: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    head(turn, kind, 0, 0);
    let start = turn.len();
    write(turn);
    let length = u32::try_from(turn.len() - start).expect("a turn is far below 4 GiB");
    turn[start - 4..start].copy_from_slice(&length.to_le_bytes());
}

/// The entries of a turn, in order.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, EntryError>> {
    let mut take = Take::new(bytes);
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || take.is_empty() {
            return None;
        }
        let entry = decode(&mut take);
        failed = entry.is_err();
        Some(entry)
    })
}

fn decode<'a>(take: &mut Take<'a>) -> Result<Entry<'a>, EntryError> {
    let (kind, flags) = (take.u8()?, take.u8()?);
    take.u16()?;
    let mut body = Take::new(take.block()?);
    Ok(match kind {
        APPEND => Entry::Append(decode_append(&mut body, flags)?),
        PARTITION_CREATED => Entry::PartitionCreated {
            partition: body.u32()?,
            index: body.u32()?,
            topic: body.text()?,
            root: body.text()?,
        },
        PARTITION_DELETED => Entry::PartitionDeleted { partition: body.u32()? },
        TRIM => Entry::Trim {
            partition: body.u32()?,
            first: body.u64()?,
            first_sequence: body.i64()?,
            disposal: Disposal::decode(body.u8()?).ok_or(EntryError::Malformed)?,
        },
        STATE => Entry::State(decode_state(&mut body)?),
        ID_CEILING => Entry::IdCeiling { clock: body.u64()? },
        COUNTED => Entry::Counted { partition: body.u32()?, first_sequence: body.i64()? },
        kind => return Err(EntryError::UnknownKind { kind }),
    })
}

fn decode_append<'a>(body: &mut Take<'a>, flags: u8) -> Result<Appended<'a>, EntryError> {
    let (partition, count, position, sequence) = (body.u32()?, body.u32()?, body.u64()?, body.u64()?);
    let producer = if flags & HAS_PRODUCER == 0 {
        None
    } else {
        Some(ProducerBatch { producer: body.u64()?, epoch: body.u32()?, sequence: body.i64()? })
    };
    let starts_segment = flags & STARTS_SEGMENT != 0;
    Ok(Appended { partition, count, position, sequence, starts_segment, producer, records: body.rest() })
}

fn decode_state(body: &mut Take<'_>) -> Result<Vec<StateChange>, EntryError> {
    let mut changes = Vec::new();
    while !body.is_empty() {
        let (space, present) = (body.u8()?, body.u8()?);
        let key = body.block()?.to_vec();
        let value = if present == 0 { None } else { Some(body.block()?.to_vec()) };
        changes.push(StateChange { space, key, value });
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_as_it_was_written() {
        let all = [
            Entry::PartitionCreated { partition: 7, topic: "orders", index: 3, root: "/data" },
            Entry::Append(Appended {
                partition: 7,
                count: 2,
                position: 1 << 40,
                sequence: 9,
                starts_segment: true,
                producer: Some(ProducerBatch { producer: 5, epoch: 1, sequence: 4 }),
                records: b"records",
            }),
            Entry::Append(Appended {
                partition: 7,
                count: 1,
                position: 0,
                sequence: 0,
                starts_segment: false,
                producer: None,
                records: b"",
            }),
            Entry::Trim { partition: 7, first: 12, first_sequence: -3, disposal: Disposal::ArchiveZip },
            Entry::State(vec![
                StateChange { space: 1, key: b"a".to_vec(), value: Some(b"b".to_vec()) },
                StateChange { space: 2, key: b"c".to_vec(), value: None },
            ]),
            Entry::IdCeiling { clock: 99 },
            Entry::Counted { partition: 7, first_sequence: -8 },
            Entry::PartitionDeleted { partition: 7 },
        ];
        let mut turn = Vec::new();
        for entry in &all {
            entry.encode(&mut turn);
        }
        let read: Vec<_> = entries(&turn).map(Result::unwrap).collect();
        assert_eq!(read, all);
    }

    #[test]
    fn an_unknown_kind_is_refused_and_ends_the_reading() {
        let mut turn = Vec::new();
        body(&mut turn, 200, |out| out.u32(1));
        Entry::IdCeiling { clock: 1 }.encode(&mut turn);
        let read: Vec<_> = entries(&turn).collect();
        assert_eq!(read, [Err(EntryError::UnknownKind { kind: 200 })]);
    }

    #[test]
    fn half_an_entry_is_malformed() {
        let mut turn = Vec::new();
        Entry::Trim { partition: 7, first: 12, first_sequence: 0, disposal: Disposal::Delete }.encode(&mut turn);
        for len in 1..turn.len() {
            assert_eq!(entries(&turn[..len]).next(), Some(Err(EntryError::Malformed)), "{len} bytes");
        }
    }
}
