//! Requests that store messages, as bytes.

use metaq_protocol::record;

/// A `put` in the making.
#[derive(Debug, Clone)]
pub struct Put<'a> {
    topic: &'a str,
    partition: i32,
    flag: i32,
    checksum: Option<i32>,
    opaque: i32,
    body: &'a [u8],
}

impl<'a> Put<'a> {
    /// A message for one partition: flag 0, no checksum, opaque 0.
    pub fn to(topic: &'a str, partition: i32, body: &'a [u8]) -> Self {
        Put { topic, partition, flag: 0, checksum: None, opaque: 0, body }
    }

    /// Sets the flag.
    #[must_use]
    pub fn flag(self, flag: i32) -> Self {
        Put { flag, ..self }
    }

    /// Sets the opaque.
    #[must_use]
    pub fn opaque(self, opaque: i32) -> Self {
        Put { opaque, ..self }
    }

    /// Sends the right checksum along.
    #[must_use]
    pub fn checked(self) -> Self {
        Put { checksum: Some(record::checksum(self.body)), ..self }
    }

    /// The request.
    pub fn bytes(&self) -> Vec<u8> {
        let Put { topic, partition, flag, opaque, body, .. } = self;
        let checksum = self.checksum.map_or(String::new(), |checksum| format!(" {checksum}"));
        let mut bytes = format!("put {topic} {partition} {} {flag}{checksum} {opaque}\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

/// Who sends a batch: producer, epoch, and the sequence of its first message.
pub type Stamp = (u64, u32, i64);

/// A `puts`: many messages for one partition, all or none.
pub fn batch(topic: &str, partition: i32, bodies: &[&[u8]], stamp: Option<Stamp>, opaque: i32) -> Vec<u8> {
    let mut records = Vec::new();
    for body in bodies {
        record::encode(&mut records, 0, 0, body);
    }
    let who = stamp.map_or("- -".into(), |(producer, epoch, sequence)| format!("{producer}/{epoch} {sequence}"));
    let (length, count) = (records.len(), bodies.len());
    let mut bytes = format!("puts {topic} {partition} {length} {count} {who} {opaque}\r\n").into_bytes();
    bytes.append(&mut records);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_clients_write_them() {
        assert_eq!(Put::to("t", 0, b"hello").opaque(1).bytes(), b"put t 0 5 0 1\r\nhello");
        assert_eq!(
            Put::to("t", 0, b"hello").checked().flag(2).opaque(-3).bytes(),
            b"put t 0 5 2 907060870 -3\r\nhello"
        );
        assert!(batch("t", 1, &[b"a", b""], Some((7, 1, 4)), 9).starts_with(b"puts t 1 41 2 7/1 4 9\r\n\0\0\0\x01"));
        assert!(batch("t", 1, &[b"a"], None, 9).starts_with(b"puts t 1 21 1 - - 9\r\n"));
    }
}
