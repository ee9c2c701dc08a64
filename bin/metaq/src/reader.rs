//! Reads partitions: whole messages, from positions that go on by themselves.

use crate::exit::Failure;
use crate::partitions::{self, Bounds};
use crate::wire::{Reply, Wire};
use metaq_protocol::extension::fetch::FetchedParts;
use metaq_protocol::extension::{Fetch, FetchPart, FetchParts};
use metaq_protocol::limits::FETCH_PARTS_MAX;
use metaq_protocol::record::{End, Found};
use metaq_protocol::request::{Get, Wait};
use metaq_protocol::{Request, Status, Walk};
use std::time::{Duration, Instant};

/// Bytes that are asked for at once.
const GET_BYTES: i32 = 1 << 20;
/// How long a follower waits for messages before it asks again.
const WAIT: Duration = Duration::from_secs(5);
/// How long it rests where a broker can't wait for it.
const REST: Duration = Duration::from_millis(200);
/// How often it looks for partitions that came into being: while it knows of some that haven't, and else.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How far one partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Of which partition.
    pub index: i32,
    /// The next message begins here.
    pub position: i64,
    /// Nothing is read from here on; none: there is no end.
    pub until: Option<i64>,
    /// Bytes to ask for: more than usual if a message is larger.
    size: i32,
}

impl Cursor {
    /// From a position to the partition's end, or on and on.
    pub fn new(bounds: Bounds, from: i64, follows: bool) -> Self {
        let until = (!follows).then_some(bounds.end);
        Self { index: bounds.index, position: from, until, size: GET_BYTES }
    }

    fn is_done(&self) -> bool {
        self.until.is_some_and(|until| self.position >= until)
    }
}

/// What is done with each message. `Ok(false)`: enough.
pub trait Sink {
    /// Takes a message.
    fn take(&mut self, partition: i32, position: i64, found: Found<'_>) -> Result<bool, Failure>;
    /// Some messages of a partition were taken, the last one with this id; the next begins at `position`.
    fn taken(&mut self, wire: &mut Wire, partition: i32, position: i64, id: i64) -> Result<(), Failure>;
}

/// Reads partitions of one topic for one group.
#[derive(Debug)]
pub struct Reader<'w> {
    wire: &'w mut Wire,
    topic: String,
    group: String,
}

/// Bytes that came, or why none did.
enum Came {
    Bytes(Vec<u8>),
    Nothing,
    Moved(i64),
}

impl<'w> Reader<'w> {
    /// Reads `topic` for `group`.
    pub fn new(wire: &'w mut Wire, topic: &str, group: &str) -> Self {
        Self { wire, topic: topic.to_owned(), group: group.to_owned() }
    }

    /// Reads one partition after the other to its end.
    pub fn read(&mut self, cursors: &mut [Cursor], sink: &mut impl Sink) -> Result<(), Failure> {
        for cursor in cursors {
            while !cursor.is_done() {
                match self.get(cursor)? {
                    Came::Bytes(bytes) if !self.hand(cursor, &bytes, sink)? => return Ok(()),
                    Came::Bytes(_) => {}
                    Came::Moved(position) => cursor.position = position,
                    // It was cut meanwhile.
                    Came::Nothing => break,
                }
            }
        }
        Ok(())
    }

    /// Reads all partitions on and on, until the sink has enough; those too that come into being meanwhile. `only`: of
    /// this partition.
    pub fn follow(
        &mut self,
        cursors: &mut Vec<Cursor>,
        only: Option<i32>,
        sink: &mut impl Sink,
    ) -> Result<(), Failure> {
        let waits = self.wire.greeting().has("fetch") && self.wire.greeting().has("wait");
        let mut expected = partitions::of(self.wire, &self.topic, only)?.expected;
        let (mut looked, mut at) = (Instant::now(), 0);
        loop {
            let look_every = if cursors.len() < expected { LOOK_EVERY.0 } else { LOOK_EVERY.1 };
            if looked.elapsed() >= look_every {
                expected = self.look(cursors, only)?;
                looked = Instant::now();
            }
            let go_on = if waits && !cursors.is_empty() {
                // One fetch has a limited number of parts: each group of partitions has its turn.
                let groups = cursors.len().div_ceil(FETCH_PARTS_MAX);
                let wait = if groups == 1 { WAIT.min(look_every) } else { REST };
                at = (at + 1) % groups;
                let some = cursors.chunks_mut(FETCH_PARTS_MAX).nth(at).unwrap_or_default();
                self.fetch(some, wait, sink)?
            } else {
                self.poll(cursors, sink)?
            };
            if !go_on {
                return Ok(());
            }
        }
    }

    /// Begins to read partitions that came into being, at their first messages. Gives how many there may be.
    fn look(&mut self, cursors: &mut Vec<Cursor>, only: Option<i32>) -> Result<usize, Failure> {
        let known = partitions::of(self.wire, &self.topic, only)?;
        for bounds in known.existing {
            if cursors.iter().all(|cursor| cursor.index != bounds.index) {
                cursors.push(Cursor::new(bounds, bounds.first, true));
            }
        }
        Ok(known.expected)
    }

    /// A look at each partition, and a rest if none has anything.
    fn poll(&mut self, cursors: &mut [Cursor], sink: &mut impl Sink) -> Result<bool, Failure> {
        let mut any = false;
        for cursor in cursors {
            match self.get(cursor)? {
                Came::Bytes(bytes) => {
                    any = true;
                    if !self.hand(cursor, &bytes, sink)? {
                        return Ok(false);
                    }
                }
                Came::Moved(position) => (any, cursor.position) = (true, position),
                Came::Nothing => {}
            }
        }
        if !any {
            std::thread::sleep(REST);
        }
        Ok(true)
    }

    fn fetch(&mut self, cursors: &mut [Cursor], wait: Duration, sink: &mut impl Sink) -> Result<bool, Failure> {
        let part = |cursor: &Cursor| FetchPart {
            topic: self.topic.as_str().into(),
            partition: cursor.index,
            position: cursor.position,
        };
        let mut words = Vec::new();
        let parts = FetchParts::build(&mut words, cursors.iter().map(part))
            .map_err(|why| Failure::usage(format!("topic {}: {why}", self.topic)))?;
        let size = cursors.iter().map(|cursor| cursor.size).max().unwrap_or(GET_BYTES);
        let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let (opaque, size) = (self.wire.opaque(), size.unsigned_abs().saturating_mul(4));
        let wait = Wait { ms, min_bytes: 1 };
        self.wire.add(&Request::Fetch(Fetch { group: self.group.as_str().into(), size, parts, opaque, wait }))?;
        self.wire.send()?;
        let (_, reply) = self.wire.next_reply_after(WAIT)?;
        let Reply::Value(body) = reply else { return Err(reply.failure(&format!("topic {}", self.topic))) };
        for (cursor, part) in cursors.iter_mut().zip(FetchedParts::of(&body)) {
            let part = part.map_err(|why| Failure::failed(why.to_string()))?;
            let came = self.came(part.code, part.body, part.code == Status::Ok.number())?;
            match came {
                Came::Bytes(bytes) if !self.hand(cursor, &bytes, sink)? => return Ok(false),
                Came::Bytes(_) | Came::Nothing => {}
                Came::Moved(position) => cursor.position = position,
            }
        }
        Ok(true)
    }

    fn get(&mut self, cursor: &Cursor) -> Result<Came, Failure> {
        let (topic, group) = (self.topic.clone(), self.group.clone());
        let reply = self.wire.ask(|opaque| {
            Request::Get(Get {
                topic: topic.into(),
                group: group.into(),
                partition: cursor.index,
                position: cursor.position,
                size: cursor.size,
                opaque,
                wait: Wait::default(),
            })
        })?;
        match reply {
            Reply::Value(bytes) => Ok(Came::Bytes(bytes)),
            Reply::Text { code, text } => self.came(code, &text, false),
        }
    }

    fn came(&self, code: i32, body: &[u8], is_bytes: bool) -> Result<Came, Failure> {
        match Status::of(code) {
            _ if is_bytes => Ok(Came::Bytes(body.to_vec())),
            Some(Status::NotFound) => Ok(Came::Nothing),
            Some(Status::Moved) => {
                let position = std::str::from_utf8(body).ok().and_then(|text| text.trim().parse().ok());
                position.map(Came::Moved).ok_or_else(|| Failure::failed("the broker says 301 without a position"))
            }
            _ => Err(Reply::Text { code, text: body.to_vec() }.failure(&format!("topic {}", self.topic))),
        }
    }

    /// Gives the whole messages of some bytes to the sink. `Ok(false)`: it has enough.
    fn hand(&mut self, cursor: &mut Cursor, bytes: &[u8], sink: &mut impl Sink) -> Result<bool, Failure> {
        let mut walk = Walk::new(bytes);
        let (mut last, mut go_on) = (None, true);
        let base = cursor.position;
        let at = |offset: usize| base + i64::try_from(offset).expect("a chunk is below 2 GiB");
        while go_on && !cursor.is_done() {
            let Some(found) = walk.next() else { break };
            go_on = sink.take(cursor.index, at(found.position), found)?;
            cursor.position = at(found.next_position());
            last = Some(found.record.id);
        }
        match (last, walk.end()) {
            (Some(id), _) => {
                cursor.size = GET_BYTES;
                sink.taken(self.wire, cursor.index, cursor.position, id)?;
            }
            (None, Some(End::Partial { needed, .. })) => {
                cursor.size = i32::try_from(needed.max(bytes.len() + 1)).unwrap_or(i32::MAX);
            }
            (None, Some(End::Invalid { why, .. })) => {
                let text = format!(
                    "topic {}, partition {}: the bytes at position {} are no message: {why}; if that is no message's \
                     beginning, choose another position",
                    self.topic, cursor.index, cursor.position
                );
                return Err(Failure::failed(text));
            }
            (None, _) => {}
        }
        Ok(go_on)
    }
}

/// Where the last `count` messages of some bytes begin, if they end with whole messages: found by trying, since nothing
/// marks a message's beginning.
pub fn last_messages(bytes: &[u8], count: usize) -> Option<Vec<usize>> {
    let start = (0..bytes.len()).find(|start| Walk::new(&bytes[*start..]).run() == End::Clean)?;
    let all: Vec<usize> = Walk::new(&bytes[start..]).map(|found| start + found.position).collect();
    Some(all[all.len().saturating_sub(count)..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_protocol::record;

    #[test]
    fn the_last_messages_are_found_in_bytes_that_begin_anywhere() {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for id in 1..=5 {
            starts.push(bytes.len());
            record::encode(&mut bytes, id, 0, format!("message {id}").as_bytes());
        }
        for cut in 0..=starts[2] {
            let found = last_messages(&bytes[cut..], 2).unwrap();
            assert_eq!(found, [starts[3] - cut, starts[4] - cut], "{cut}");
        }
        assert_eq!(last_messages(&bytes[starts[4]..], 2).unwrap(), [0]);
        assert_eq!(last_messages(&bytes[starts[4] + 1..], 2), None);
    }
}
