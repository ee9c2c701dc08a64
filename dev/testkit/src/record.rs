//! The messages in the bytes of a log, and whole partitions read over the wire.

use crate::wire::Wire;
use metaq_protocol::record::{HEADER_BYTES, Header, checksum};

/// What one `get` asks for.
const CHUNK: usize = 1 << 20;

/// One whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it begins in its partition.
    pub position: i64,
    /// Its id.
    pub id: i64,
    /// Its flag.
    pub flag: i32,
    /// Whether its checksum is right.
    pub is_intact: bool,
    /// Attribute block and payload.
    pub body: Vec<u8>,
}

impl Found {
    /// Where the next one begins.
    pub fn next_position(&self) -> i64 {
        self.position + size(HEADER_BYTES + self.body.len())
    }
}

fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("a size fits")
}

/// The whole messages at the beginning of `chunk`, which begins at `position`. Stops before a message that isn't whole or has a
/// negative length.
pub fn walk(chunk: &[u8], position: i64) -> Vec<Found> {
    let mut found = Vec::new();
    let mut rest = chunk;
    let mut position = position;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let header = Header::decode(header);
        let Some((body, after)) = usize::try_from(header.length).ok().and_then(|length| after.split_at_checked(length))
        else {
            break;
        };
        let is_intact = checksum(body) == header.checksum;
        let message = Found { position, id: header.id, flag: header.flag, is_intact, body: body.to_vec() };
        position = message.next_position();
        found.push(message);
        rest = after;
    }
    found
}

/// The bounds of a partition as `offset` says them; `None` if there is no such partition.
///
/// # Panics
/// If the answers make no sense.
pub fn bounds(wire: &mut Wire, topic: &str, partition: i32) -> Option<(i64, i64)> {
    let mut offset = |position: i64| {
        let frame = wire.ask(format!("offset {topic} testkit {partition} {position} 1\r\n"));
        if frame.status() == Some(404) {
            return None;
        }
        assert_eq!(frame.status(), Some(200), "{frame}");
        Some(frame.position())
    };
    let bounds = (offset(0)?, offset(i64::MAX)?);
    assert!(bounds.0 <= bounds.1, "{topic}-{partition} ends before it begins: {bounds:?}");
    Some(bounds)
}

/// The bytes of a partition from its beginning to its end, with the position of its first byte.
///
/// # Panics
/// If the broker answers with anything but the bytes that follow.
pub fn read_bytes(wire: &mut Wire, topic: &str, partition: i32) -> (i64, Vec<u8>) {
    let Some((min, max)) = bounds(wire, topic, partition) else { return (0, Vec::new()) };
    let mut bytes = Vec::new();
    loop {
        let position = min + size(bytes.len());
        let frame = wire.ask(format!("get {topic} testkit {partition} {position} {CHUNK} 2\r\n"));
        if frame.status() == Some(404) {
            assert!(position >= max, "{topic}-{partition} ends at {position}, but said {max}: {frame}");
            return (min, bytes);
        }
        assert!(frame.value().len() <= CHUNK, "more than was asked for: {}", frame.body.len());
        bytes.extend_from_slice(frame.value());
    }
}

/// All messages of a partition, whole and intact up to its very end.
///
/// # Panics
/// If there is anything else in it.
pub fn read_all(wire: &mut Wire, topic: &str, partition: i32) -> Vec<Found> {
    let (min, bytes) = read_bytes(wire, topic, partition);
    let found = walk(&bytes, min);
    let end = found.last().map_or(min, Found::next_position);
    assert_eq!(end, min + size(bytes.len()), "{topic}-{partition} doesn't end behind a whole message");
    for message in &found {
        assert!(message.is_intact, "{topic}-{partition} at {}: the checksum is wrong", message.position);
        assert_ne!(message.id, 0, "{topic}-{partition} at {}: a message without id", message.position);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_protocol::record::encode;

    #[test]
    fn a_walk_ends_before_what_is_not_whole() {
        let mut chunk = Vec::new();
        encode(&mut chunk, 99, 1, b"hello");
        encode(&mut chunk, -5, 0, b"");
        let whole = chunk.len();
        encode(&mut chunk, 3, 0, b"cut");
        chunk.pop();
        chunk[20] ^= 1;
        let found = walk(&chunk, 100);
        let facts: Vec<_> = found.iter().map(|found| (found.position, found.id, found.is_intact)).collect();
        assert_eq!(facts, [(100, 99, false), (125, -5, true)]);
        assert_eq!(found.last().map(Found::next_position), Some(100 + size(whole)));
        assert_eq!(walk(&[0xff; 40], 0), []);
    }
}
