//! The form of the registry's entries and leases in the log's durable map.
//!
//! ```text
//! entry: version u8 = 1 · has a lease u8 · lease u64 · incarnation u64 · counter u64 · value
//! lease: key: number u64; value: time to live in milliseconds u64
//! ```
//! Big-endian.

use metaq_registry::{Entry, LeaseId, Revision, Value, Writer};
use std::time::Duration;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 26;

/// An entry without its version, which is the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub lease: Option<LeaseId>,
    pub written_by: Writer,
    pub value: &'a [u8],
}

impl<'a> Stored<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let lease = self.lease.map_or(0, |lease| lease.0);
        let numbers = [lease, self.written_by.incarnation, self.written_by.counter];
        let mut bytes = vec![VERSION, u8::from(self.lease.is_some())];
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        bytes.extend_from_slice(self.value);
        bytes
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, value) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let number = |at: usize| head[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let written_by = Writer { incarnation: number(10), counter: number(18) };
        let lease = (head[1] != 0).then(|| LeaseId(number(2)));
        (head[0] == VERSION).then_some(Self { lease, written_by, value })
    }

    pub(super) fn entry(&self, version: u64) -> Option<Entry> {
        let value = Value::new(self.value).ok()?;
        Some(Entry { value, version: Revision(version), lease: self.lease, written_by: self.written_by })
    }
}

pub(super) fn lease_key(lease: LeaseId) -> Vec<u8> {
    lease.0.to_be_bytes().to_vec()
}

pub(super) fn lease_of(key: &[u8]) -> Option<LeaseId> {
    key.try_into().ok().map(u64::from_be_bytes).map(LeaseId)
}

pub(super) fn lease_value(ttl: Duration) -> Vec<u8> {
    super::millis(ttl).to_be_bytes().to_vec()
}

pub(super) fn ttl(value: &[u8]) -> Option<Duration> {
    value.try_into().ok().map(u64::from_be_bytes).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_and_a_lease_are_read_as_they_were_written() {
        for lease in [None, Some(LeaseId(u64::MAX - 1))] {
            let stored = Stored { lease, written_by: Writer { incarnation: 7, counter: 1 << 40 }, value: b"x" };
            assert_eq!(Stored::decode(&stored.encode()), Some(stored));
        }
        assert_eq!(Stored::decode(b"short"), None);
        assert_eq!(lease_of(&lease_key(LeaseId(9))), Some(LeaseId(9)));
        assert_eq!(ttl(&lease_value(Duration::from_secs(3))), Some(Duration::from_secs(3)));
    }
}
