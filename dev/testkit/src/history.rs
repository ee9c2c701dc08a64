//! What writers sent and were told, and whether the broker's logs agree.
//!
//! Every message says who sent it, as which one, and how large it is, so that it is known again wherever it turns up:
//!
//! ```text
//! <writer> <number> <size> <filling>
//! ```

use crate::record::{Found, read_all};
use crate::wire::Wire;
use metaq_protocol::Stored;
use std::collections::{BTreeMap, BTreeSet};

/// A partition by topic and index.
pub type Place = (String, i32);

/// What became of a message, as far as its writer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not answered, or answered as unknown: it may be there, or not.
    Unknown,
    Stored(Stored),
    Refused,
}

#[derive(Debug, Clone)]
struct Sent {
    place: Place,
    size: usize,
    fate: Fate,
}

/// What one connection sent, in order.
#[derive(Debug, Clone)]
pub struct Ledger {
    writer: u64,
    sent: Vec<Sent>,
}

impl Ledger {
    /// Of the writer with this number; no other may have it.
    pub fn new(writer: u64) -> Self {
        Ledger { writer, sent: Vec::new() }
    }

    /// Notes that the next message goes to a partition, and returns its number and its body of about `size` bytes.
    pub fn next(&mut self, topic: &str, partition: i32, size: usize) -> (usize, Vec<u8>) {
        let number = self.sent.len();
        let body = body(self.writer, number, size);
        self.sent.push(Sent { place: (topic.into(), partition), size, fate: Fate::Unknown });
        (number, body)
    }

    /// Notes that a message was acknowledged.
    ///
    /// # Panics
    /// If it was answered already, or with another partition than it was sent to.
    pub fn stored(&mut self, number: usize, stored: Stored) {
        let sent = &mut self.sent[number];
        assert_eq!(sent.fate, Fate::Unknown, "writer {} number {number} was answered twice", self.writer);
        if sent.place.1 < 0 {
            sent.place.1 = stored.partition;
        }
        assert_eq!(sent.place.1, stored.partition, "writer {} number {number} went elsewhere", self.writer);
        sent.fate = Fate::Stored(stored);
    }

    /// Notes that a message was refused: it must not be there.
    pub fn refused(&mut self, number: usize) {
        self.sent[number].fate = Fate::Refused;
    }

    /// How many messages were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.sent.iter().filter(|sent| matches!(sent.fate, Fate::Stored(_))).count()
    }
}

/// The body of a message, of `size` bytes if what it must say fits.
fn body(writer: u64, number: usize, size: usize) -> Vec<u8> {
    let mut body = format!("{writer} {number} {size} ").into_bytes();
    let fill = number.to_le_bytes()[0];
    while body.len() < size {
        // Never the same byte all along: a message that is cut and pasted must not look whole.
        body.push(b'a' + fill.wrapping_add(body.len().to_le_bytes()[0]) % 26);
    }
    body
}

fn parse(body: &[u8]) -> Option<(u64, usize)> {
    let text = std::str::from_utf8(body).ok()?;
    let mut words = text.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// What all writers know.
#[derive(Debug, Clone, Default)]
pub struct History {
    writers: BTreeMap<u64, Ledger>,
}

impl History {
    /// Nothing sent.
    pub fn new() -> Self {
        History::default()
    }

    /// Adds what a writer knows.
    ///
    /// # Panics
    /// If a writer of that number is known already.
    pub fn add(&mut self, ledger: Ledger) {
        let writer = ledger.writer;
        assert!(self.writers.insert(writer, ledger).is_none(), "two writers are {writer}");
    }

    /// Reads all partitions that were written to, and compares.
    ///
    /// # Panics
    /// If a log isn't whole messages from end to end, or differs from what writers know.
    pub fn check_broker(&self, wire: &mut Wire) {
        let read = |place: Place| (place.clone(), read_all(wire, &place.0, place.1));
        let logs = self.places().into_iter().map(read).collect();
        if let Err(error) = self.check(&logs) {
            panic!("{error}");
        }
    }

    /// How many messages were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.writers.values().map(Ledger::acknowledged).sum()
    }

    /// All partitions that were written to.
    pub fn places(&self) -> BTreeSet<Place> {
        let sent = self.writers.values().flat_map(|ledger| &ledger.sent);
        sent.filter(|sent| sent.place.1 >= 0).map(|sent| sent.place.clone()).collect()
    }

    /// Compares with the whole logs of all partitions:
    /// each acknowledged message is there, once, where it was said to be; none is there that was never sent, or was refused, or twice;
    /// those of one writer in one partition stand in the order in which they were sent; no two messages have one id.
    pub fn check(&self, logs: &BTreeMap<Place, Vec<Found>>) -> Result<(), String> {
        let mut seen = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for (place, log) in logs {
            let mut last: BTreeMap<u64, usize> = BTreeMap::new();
            for found in log {
                let (writer, number) = self.known(place, found)?;
                if let Some(before) = seen.insert((writer, number), (place.clone(), found.position, found.id)) {
                    return Err(format!("writer {writer} number {number} is at {before:?} and at {place:?} {found:?}"));
                }
                if let Some(before) = ids.insert(found.id, (place, found.position)) {
                    return Err(format!("id {} is at {before:?} and at {place:?} {}", found.id, found.position));
                }
                if let Some(before) = last.insert(writer, number).filter(|&before| before > number) {
                    return Err(format!("writer {writer} sent {number} before {before}, in {place:?} it is behind"));
                }
            }
        }
        self.all_there(&seen)
    }

    fn known(&self, place: &Place, found: &Found) -> Result<(u64, usize), String> {
        let unknown = || format!("nobody sent what is at {place:?} {found:?}");
        let (writer, number) = parse(&found.body).ok_or_else(unknown)?;
        let sent = self.writers.get(&writer).and_then(|ledger| ledger.sent.get(number)).ok_or_else(unknown)?;
        if found.body != body(writer, number, sent.size) {
            return Err(format!("writer {writer} number {number} isn't what was sent: {place:?} {found:?}"));
        }
        if sent.place != *place && sent.place.1 >= 0 {
            return Err(format!("writer {writer} number {number} was sent to {:?} and is in {place:?}", sent.place));
        }
        if sent.fate == Fate::Refused {
            return Err(format!("writer {writer} number {number} was refused, and is at {place:?} {}", found.position));
        }
        Ok((writer, number))
    }

    fn all_there(&self, seen: &BTreeMap<(u64, usize), (Place, i64, i64)>) -> Result<(), String> {
        for (writer, ledger) in &self.writers {
            for (number, sent) in ledger.sent.iter().enumerate() {
                let Fate::Stored(stored) = sent.fate else { continue };
                let expected = (sent.place.clone(), stored.position, stored.id);
                let found = seen.get(&(*writer, number));
                if found != Some(&expected) {
                    return Err(format!("writer {writer} number {number} was told {expected:?}, there is {found:?}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(position: i64, id: i64, body: Vec<u8>) -> Found {
        Found { position, id, flag: 0, is_intact: true, body }
    }

    type Lie = fn(&mut Ledger, &mut Vec<Found>);

    /// Two messages of one writer to t-0, acknowledged at 0 and 100 with ids 1 and 2, and their log.
    fn two() -> (Ledger, Vec<Found>) {
        let mut ledger = Ledger::new(7);
        let mut log = Vec::new();
        for (position, id) in [(0, 1), (100, 2)] {
            let (number, body) = ledger.next("t", 0, 80);
            ledger.stored(number, Stored { id, partition: 0, position });
            log.push(found(position, id, body));
        }
        (ledger, log)
    }

    fn check(ledger: Ledger, log: Vec<Found>, expected: &str) {
        let mut history = History::new();
        history.add(ledger);
        let result = history.check(&BTreeMap::from([(("t".to_owned(), 0), log)]));
        match result {
            Ok(()) => assert_eq!(expected, ""),
            Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}"),
        }
    }

    #[test]
    fn a_true_log_is_found_true() {
        let (ledger, log) = two();
        check(ledger, log, "");
    }

    #[test]
    fn every_lie_is_found() {
        let lies: [(&str, Lie); 8] = [
            ("was told", |_, log| drop(log.pop())),
            ("was told", |_, log| log[1].position = 101),
            ("was told", |_, log| log[1].id = 3),
            ("is at", |_, log| log.push(Found { position: 200, id: 9, ..log[1].clone() })),
            ("isn't what was sent", |_, log| *log[1].body.last_mut().unwrap() ^= 1),
            ("nobody sent", |_, log| log.push(found(200, 9, b"7 2 80 ".to_vec()))),
            ("it is behind", |_, log| log.swap(0, 1)),
            ("was refused", |ledger, log| {
                let (number, body) = ledger.next("t", 0, 80);
                ledger.refused(number);
                log.push(found(200, 3, body));
            }),
        ];
        for (expected, lie) in lies {
            let (mut ledger, mut log) = two();
            lie(&mut ledger, &mut log);
            check(ledger, log, expected);
        }
    }

    #[test]
    fn a_message_without_answer_may_be_there_or_not() {
        let (mut ledger, mut log) = two();
        let (_, body) = ledger.next("t", 0, 80);
        check(ledger.clone(), log.clone(), "");
        log.push(found(200, 3, body.clone()));
        check(ledger.clone(), log.clone(), "");
        log.push(found(300, 4, body));
        check(ledger, log, "is at");
    }

    #[test]
    fn no_id_comes_twice() {
        let (mut ledger, mut log) = two();
        let (_, body) = ledger.next("t", 0, 80);
        log.push(found(200, 2, body));
        check(ledger, log, "id 2 is at");
    }
}
