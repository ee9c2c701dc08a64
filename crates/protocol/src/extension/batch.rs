//! `puts`: many messages for one partition in one request, all or none.
//!
//! The body is records in the disk layout whose ids are 0. The broker checks each one and puts the ids in place; nothing is encoded
//! again. Ids of a batch are consecutive.

use super::{Fields, Read};
use crate::limits::BATCH_RECORDS_MAX;
use crate::line::{LineWriter, Unencodable, Words};
use crate::number::{parse_i32, parse_i64, parse_u32, parse_u64};
use crate::record::{End, InvalidRecord, Strictness, Walk};
use std::borrow::Cow;
use thiserror::Error;

/// Who sent a batch and which of its batches that is, so that one sent twice is stored once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The producer.
    pub producer: u64,
    /// Rises when the producer starts again; a lower one is fenced.
    pub epoch: u32,
    /// Of the first message; counts messages of this producer and partition, from 0.
    pub sequence: i64,
}

/// Store a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Where to.
    pub topic: Cow<'a, str>,
    /// Index, or [`PARTITION_ANY`](crate::request::PARTITION_ANY), chosen once for all.
    pub partition: i32,
    /// How many records the body holds, by what the line says.
    pub count: u32,
    /// For producers whose batches must be stored once.
    pub stamp: Option<Stamp>,
    /// Comes back in the answer.
    pub opaque: i32,
    /// Records with id 0.
    pub body: &'a [u8],
}

const USAGE: &str =
    "write puts <topic> <partition> <length> <count> <producer>/<epoch> <sequence> <opaque>, or - - for no producer";

impl<'a> Batch<'a> {
    pub(super) fn of(words: &Words<'a>, opaque: i32, body: &'a [u8]) -> Read<Self> {
        let fields = Fields::of(words, USAGE);
        let count = parse_u32(fields.bytes(4)?)
            .filter(|count| (1..=BATCH_RECORDS_MAX).contains(count))
            .ok_or("the count of a batch is 1 to 4096")?;
        Ok(Batch {
            topic: fields.name(1)?,
            partition: parse_i32(fields.bytes(2)?).ok_or("the partition is an index, or -1 for any")?,
            count,
            stamp: stamp(fields.bytes(5)?, fields.bytes(6)?)?,
            opaque,
            body,
        })
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "puts")
            .name("topic", &self.topic)
            .number(self.partition)
            .length(self.body)
            .number(self.count);
        match self.stamp {
            Some(stamp) => {
                line.number(stamp.producer).joined("epoch", "/").joined_number(stamp.epoch).number(stamp.sequence)
            }
            None => line.literal("-").literal("-"),
        }
        .number(self.opaque)
        .end(self.body)
    }

    /// Walks the body: every record whole, intact, without id, not over `message_bytes_max` bytes, and as many as the line says.
    pub fn check(&self, message_bytes_max: usize) -> Result<CheckedBatch<'a>, BatchFault> {
        check(self.body, self.count, message_bytes_max)
    }
}

fn stamp(producer: &[u8], sequence: &[u8]) -> Read<Option<Stamp>> {
    match (producer, sequence) {
        (b"-", b"-") => Ok(None),
        (b"-", _) | (_, b"-") => Err("a producer needs a sequence and a sequence a producer: write both, or - -"),
        (producer, sequence) => {
            let text = producer;
            let slash = text.iter().position(|&byte| byte == b'/').ok_or("the producer is written <id>/<epoch>")?;
            Ok(Some(Stamp {
                producer: parse_u64(&text[..slash]).ok_or("the producer's id is a number of 64 bits")?,
                epoch: parse_u32(&text[slash + 1..]).ok_or("the producer's epoch is a number of 32 bits")?,
                sequence: parse_i64(sequence).filter(|&sequence| sequence >= 0).ok_or("the sequence is 0 or more")?,
            }))
        }
    }
}

/// The body of a batch that was found to be good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedBatch<'a> {
    records: &'a [u8],
    count: u32,
}

impl<'a> CheckedBatch<'a> {
    /// The records' bytes; their ids are 0, see [`patch_ids`](crate::record::patch_ids).
    pub fn records(&self) -> &'a [u8] {
        self.records
    }

    /// How many there are: 1..=4096.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Where each record begins, from the beginning of the batch. Looks at lengths only.
    pub fn positions(&self) -> impl Iterator<Item = usize> + use<'a> {
        Walk::with(self.records, Strictness::CHECKED).map(|found| found.position)
    }
}

/// What is wrong with the body of a batch: its producer erred, or it was damaged on its way. Nothing of it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BatchFault {
    /// The count is 0 or over [`BATCH_RECORDS_MAX`].
    #[error("a batch has 1 to {BATCH_RECORDS_MAX} records, not {0}")]
    Count(u32),
    /// The body ends inside a record.
    #[error("record {record} of the batch, at byte {position}, ends behind its body")]
    Cut {
        /// From 0.
        record: u32,
        /// In the body.
        position: usize,
    },
    /// A record isn't one.
    #[error("record {record} of the batch, at byte {position}, is bad: {why}")]
    Invalid {
        /// From 0.
        record: u32,
        /// In the body.
        position: usize,
        /// In what way.
        why: InvalidRecord,
    },
    /// A record has an id, which only a broker gives.
    #[error("record {record} of the batch, at byte {position}, has id {id}: the broker gives ids, send 0")]
    Id {
        /// From 0.
        record: u32,
        /// In the body.
        position: usize,
        /// As sent.
        id: i64,
    },
    /// The body ends exactly, but with another count.
    #[error("the batch says {said} records and has {found}")]
    Miscounted {
        /// In the line.
        said: u32,
        /// In the body; one over what was said if there are more.
        found: u32,
    },
}

/// Walks a body that should hold `count` records, see [`Batch::check`].
pub(crate) fn check(body: &[u8], count: u32, message_bytes_max: usize) -> Result<CheckedBatch<'_>, BatchFault> {
    if !(1..=BATCH_RECORDS_MAX).contains(&count) {
        return Err(BatchFault::Count(count));
    }
    let mut walk = Walk::with(body, Strictness { body_bytes_max: message_bytes_max, ..Strictness::BATCH });
    let mut record = 0;
    for found in walk.by_ref() {
        if found.record.id != 0 {
            return Err(BatchFault::Id { record, position: found.position, id: found.record.id });
        }
        record += 1;
        if record > count {
            return Err(BatchFault::Miscounted { said: count, found: record });
        }
    }
    match walk.end().expect("a walk that gives no more has ended") {
        End::Clean if record == count => Ok(CheckedBatch { records: body, count }),
        End::Clean => Err(BatchFault::Miscounted { said: count, found: record }),
        End::Partial { position, .. } => Err(BatchFault::Cut { record, position }),
        End::Invalid { position, why } => Err(BatchFault::Invalid { record, position, why }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_invalid, decode};
    use super::*;
    use crate::record;
    use crate::request::Request;
    use proptest::prelude::*;

    fn body() -> Vec<u8> {
        let mut body = Vec::new();
        record::encode(&mut body, 0, 0, b"hello");
        record::encode(&mut body, 0, 0, b"");
        record::encode(&mut body, 0, 1, b"\0\0\0\x03taghello");
        body
    }

    #[test]
    fn a_good_batch_gives_its_positions() {
        let body = body();
        let checked = super::check(&body, 3, 100).unwrap();
        assert_eq!(checked.positions().collect::<Vec<_>>(), [0, 25, 45]);
        assert_eq!((checked.count(), checked.records()), (3, body.as_slice()));
    }

    #[test]
    fn a_bad_batch_is_refused_whole() {
        let good = body();
        let fault = |body: &[u8], count| super::check(body, count, 100).unwrap_err();
        assert_eq!(fault(&good, 0), BatchFault::Count(0));
        assert_eq!(fault(&good, 4097), BatchFault::Count(4097));
        assert_eq!(fault(&good, 2), BatchFault::Miscounted { said: 2, found: 3 });
        assert_eq!(fault(&good, 4), BatchFault::Miscounted { said: 4, found: 3 });
        assert_eq!(fault(&[], 1), BatchFault::Miscounted { said: 1, found: 0 });
        assert_eq!(fault(&good[..76], 3), BatchFault::Cut { record: 2, position: 45 });
        assert_eq!(fault(&good[..50], 3), BatchFault::Cut { record: 2, position: 45 });
        let mut bad = good.clone();
        bad[20] ^= 1;
        assert!(matches!(
            fault(&bad, 3),
            BatchFault::Invalid { record: 0, position: 0, why: InvalidRecord::Checksum { .. } }
        ));
        let mut bad = good.clone();
        record::patch_id(&mut bad[25..], 7);
        assert_eq!(fault(&bad, 3), BatchFault::Id { record: 1, position: 25, id: 7 });
        let why = InvalidRecord::TooLong { length: 12, limit: 11 };
        assert_eq!(super::check(&good, 3, 11), Err(BatchFault::Invalid { record: 2, position: 45, why }));
    }

    #[test]
    fn a_batch_that_makes_no_sense_is_answered_and_one_whose_end_is_unknown_is_not() {
        check_invalid(
            9,
            &[
                "puts t 0 1 0 - - 9\r\nx",
                "puts t 0 1 4097 - - 9\r\nx",
                "puts t x 1 1 - - 9\r\nx",
                "puts t 0 1 1 5/1 - 9\r\nx",
                "puts t 0 1 1 - 0 9\r\nx",
                "puts t 0 1 1 5 0 9\r\nx",
                "puts t 0 1 1 5/-1 0 9\r\nx",
                "puts t 0 1 1 5/1 -1 9\r\nx",
                "puts  0 1 1 - - 9\r\nx",
            ],
        );
        for line in
            ["puts t 0 1 1 - 9\r\nx", "puts t 0 x 1 - - 9\r\n", "puts t 0 -1 1 - - 9\r\n", "puts t 0 1 1 - - x\r\nx"]
        {
            assert_eq!(decode(line), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn batches_come_back(
            topic in "[a-z]{1,9}", partition: i32, count in 1..=4096u32, opaque: i32, body: Vec<u8>,
            stamp in prop::option::of((any::<u64>(), any::<u32>(), 0..=i64::MAX)),
        ) {
            let stamp = stamp.map(|(producer, epoch, sequence)| Stamp { producer, epoch, sequence });
            let batch = Batch { topic: topic.into(), partition, count, stamp, opaque, body: &body };
            let mut out = Vec::new();
            batch.encode(&mut out).unwrap();
            let found = crate::Decoder::default().decode(&out);
            let request = Request::Batch(batch.clone());
            prop_assert_eq!(found, Ok(crate::Decoded::Request { request, used: out.len() }));
        }

        #[test]
        fn any_body_is_checked_to_an_end(body in prop::collection::vec(any::<u8>(), 0..100), count: u32) {
            if let Ok(checked) = super::check(&body, count, 100) {
                prop_assert_eq!(checked.positions().count(), count as usize);
            }
        }
    }
}
