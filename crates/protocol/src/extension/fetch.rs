//! `fetch`: bytes of many partitions in one request.
//!
//! The answer is one `value`. Its body is, for each part in the order of the request:
//!
//! ```text
//! <topic>:<partition>:<position> <status> <length> CRLF <length bytes>
//! ```
//! 200 brings bytes of the log, 301 the text of the position to go on at, 404 nothing (no bytes yet, or no such partition); any other
//! status brings the text of an error.

use super::{Fields, Read, partition, position};
use crate::limits::FETCH_PARTS_MAX;
use crate::line::{LineWriter, Unencodable, Words, text};
use crate::number::{self, parse_i32, parse_i64, parse_u32};
use crate::request::Wait;
use crate::status::Status;
use std::borrow::Cow;

/// Where the opaque stands: what follows it are options.
pub(super) const OPAQUE_AT: usize = 4;

const USAGE: &str = "write fetch <group> <size> <topic>:<partition>:<position>,... <opaque> [wait=<ms>] [min=<bytes>]";

/// Read bytes of many partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch<'a> {
    /// Who reads.
    pub group: Cow<'a, str>,
    /// Most bytes of logs wanted in all.
    pub size: u32,
    /// From where.
    pub parts: FetchParts<'a>,
    /// Comes back in the answer.
    pub opaque: i32,
    /// For bytes that aren't there yet, in any of the partitions.
    pub wait: Wait,
}

/// The parts of a fetch: 1..=1024, checked when the line was read. Equal if the parts are.
#[derive(Debug, Clone, Copy)]
pub struct FetchParts<'a>(&'a [u8]);

/// One partition and where to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPart<'a> {
    /// Which topic.
    pub topic: Cow<'a, str>,
    /// Index.
    pub partition: i32,
    /// First byte wanted.
    pub position: i64,
}

impl<'a> Fetch<'a> {
    pub(super) fn of(words: &Words<'a>, opaque: i32) -> Read<Self> {
        let fields = Fields::of(words, USAGE);
        if words.get(OPAQUE_AT).and_then(parse_i32) != Some(opaque) {
            return Err(USAGE);
        }
        Ok(Fetch {
            group: fields.name(1)?,
            size: parse_u32(fields.bytes(2)?)
                .filter(|&size| size > 0)
                .ok_or("the size of a fetch is 1 or more bytes")?,
            parts: FetchParts::of(fields.bytes(3)?)?,
            opaque,
            wait: Wait::of(words, OPAQUE_AT + 1),
        })
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        LineWriter::begin(out, "fetch")
            .name("group", &self.group)
            .number(self.size)
            .name("parts", &text(self.parts.0))
            .number(self.opaque)
            .wait(self.wait)
            .end(&[])
    }
}

impl PartialEq for FetchParts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FetchParts<'_> {}

impl<'a> FetchParts<'a> {
    fn of(word: &'a [u8]) -> Read<Self> {
        let mut count = 0;
        for part in word.split(|&byte| byte == b',') {
            part_of(part)?;
            count += 1;
            if count > FETCH_PARTS_MAX {
                return Err("a fetch has at most 1024 parts");
            }
        }
        Ok(FetchParts(word))
    }

    /// The parts, in order.
    pub fn iter(&self) -> impl Iterator<Item = FetchPart<'a>> + use<'a> {
        self.0.split(|&byte| byte == b',').map(|part| part_of(part).expect("checked when the line was read"))
    }

    /// Builds the word of some parts in `word`, and borrows it.
    pub fn build<'p>(
        word: &'a mut Vec<u8>,
        parts: impl IntoIterator<Item = FetchPart<'p>>,
    ) -> Result<Self, Unencodable> {
        word.clear();
        for part in parts {
            if !word.is_empty() {
                word.push(b',');
            }
            part.write(word);
        }
        FetchParts::of(word).map_err(Unencodable::Meaning).and_then(|parts| {
            if memchr::memchr3(b' ', b'\r', b'\n', parts.0).is_some() {
                Err(Unencodable::Word("parts"))
            } else {
                Ok(parts)
            }
        })
    }
}

fn part_of(word: &[u8]) -> Read<FetchPart<'_>> {
    let usage = "a part of a fetch is <topic>:<partition>:<position>";
    let mut words = word.split(|&byte| byte == b':');
    let (Some(topic), Some(index), Some(at), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(usage);
    };
    if topic.is_empty() {
        return Err(usage);
    }
    // Any position may be asked for: below the log's start and beyond its end have their answers.
    let at = parse_i64(at).ok_or("the position of a part is a number of bytes")?;
    Ok(FetchPart { topic: text(topic), partition: partition(index)?, position: at })
}

impl FetchPart<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.topic.as_bytes());
        out.push(b':');
        number::write(out, self.partition);
        out.push(b':');
        number::write(out, self.position);
    }

    /// Appends the head of this part's answer; `length` bytes must follow.
    pub fn encode_head(&self, out: &mut Vec<u8>, status: Status, length: usize) {
        self.write(out);
        out.push(b' ');
        out.extend_from_slice(status.text());
        out.push(b' ');
        number::write(out, length);
        out.extend_from_slice(b"\r\n");
    }
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPart<'a> {
    /// As it was asked for.
    pub part: FetchPart<'a>,
    /// Any number may come; [`Status::of`] knows the ones that exist.
    pub code: i32,
    /// Bytes of the log, or a text.
    pub body: &'a [u8],
}

impl FetchedPart<'_> {
    /// The position to go on at, if this part says 301.
    pub fn moved(&self) -> Option<i64> {
        if self.code == Status::Moved.number() { position(self.body).ok() } else { None }
    }
}

/// The bytes of an answer aren't parts: its broker erred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer to a fetch is no part at byte {position}")]
pub struct NoPart {
    /// In the answer's body.
    pub position: usize,
}

/// Takes the answer to a fetch apart. Ends after the first error.
#[derive(Debug, Clone)]
pub struct FetchedParts<'a> {
    body: &'a [u8],
    position: usize,
}

impl<'a> FetchedParts<'a> {
    /// The parts of an answer's body.
    pub fn of(body: &'a [u8]) -> Self {
        FetchedParts { body, position: 0 }
    }

    fn part(&self) -> Option<(FetchedPart<'a>, usize)> {
        let rest = &self.body[self.position..];
        let line = memchr::memmem::find(rest, b"\r\n")?;
        let mut words = rest[..line].split(|&byte| byte == b' ');
        let (part, code, length) = (words.next()?, words.next()?, words.next()?);
        let from = self.position + line + 2;
        let to = from.checked_add(usize::try_from(parse_i32(length)?).ok()?)?;
        let body = self.body.get(from..to)?;
        Some((FetchedPart { part: part_of(part).ok()?, code: parse_i32(code)?, body }, to))
    }
}

impl<'a> Iterator for FetchedParts<'a> {
    type Item = Result<FetchedPart<'a>, NoPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == self.body.len() {
            return None;
        }
        let position = self.position;
        let Some((part, next)) = self.part() else {
            self.position = self.body.len();
            return Some(Err(NoPart { position }));
        };
        self.position = next;
        Some(Ok(part))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_invalid, decode};
    use super::*;
    use crate::request::Request;

    fn part(topic: &'static str, partition: i32, position: i64) -> FetchPart<'static> {
        FetchPart { topic: topic.into(), partition, position }
    }

    #[test]
    fn a_fetch_is_its_parts() {
        let mut word = Vec::new();
        let parts = FetchParts::build(&mut word, [part("t", 0, 25), part("order.events", 12, i64::MAX)]).unwrap();
        assert_eq!(parts.iter().collect::<Vec<_>>(), [part("t", 0, 25), part("order.events", 12, i64::MAX)]);
        let fetch = Fetch { group: "g".into(), size: 1000, parts, opaque: -5, wait: Wait { ms: 500, min_bytes: 1 } };
        let line = "fetch g 1000 t:0:25,order.events:12:9223372036854775807 -5 wait=500\r\n";
        check(line, Request::Fetch(fetch.clone()), line);
        let other = Fetch { wait: Wait::default(), ..fetch };
        let surplus = line.replace("wait=500", "wait=x more min=");
        check(&surplus, Request::Fetch(other), &line.replace(" wait=500", ""));
    }

    #[test]
    fn a_fetch_that_makes_no_sense_is_answered() {
        check_invalid(
            7,
            &[
                "fetch g 100 7\r\n",
                "fetch 7\r\n",
                "fetch g 0 t:0:0 7\r\n",
                "fetch g -1 t:0:0 7\r\n",
                "fetch g 100 t:0 7\r\n",
                "fetch g 100 t:0:0:0 7\r\n",
                "fetch g 100 t:-1:0 7\r\n",
                "fetch g 100 t:0:x 7\r\n",
                "fetch g 100 :0:0 7\r\n",
                "fetch g 100 t:0:0, 7\r\n",
                "fetch  100 t:0:0 7\r\n",
                "fetch g 100 t:0:0 wait=5 7\r\n",
            ],
        );
        assert_eq!(decode("fetch g 100 t:0:0 wait=5\r\n"), None);
        let parts = |count| vec!["t:0:0"; count].join(",");
        assert!(matches!(decode(&format!("fetch g 100 {} 7\r\n", parts(1024))), Some(Request::Fetch(_))));
        check_invalid(7, &[&format!("fetch g 100 {} 7\r\n", parts(1025))]);
    }

    #[test]
    fn an_answer_is_taken_apart_as_it_was_built() {
        let mut body = Vec::new();
        part("t", 0, 25).encode_head(&mut body, Status::Ok, 5);
        body.extend_from_slice(b"a\r\nbc");
        part("t", 1, 3).encode_head(&mut body, Status::Moved, 2);
        body.extend_from_slice(b"40");
        part("u", 0, 0).encode_head(&mut body, Status::NotFound, 0);
        assert_eq!(body, b"t:0:25 200 5\r\na\r\nbct:1:3 301 2\r\n40u:0:0 404 0\r\n");
        let parts: Vec<_> = FetchedParts::of(&body).collect::<Result<_, _>>().unwrap();
        assert_eq!(parts.len(), 3);
        assert_eq!((&parts[0].part, parts[0].code, parts[0].body), (&part("t", 0, 25), 200, &b"a\r\nbc"[..]));
        assert_eq!((parts[0].moved(), parts[1].moved(), parts[2].moved()), (None, Some(40), None));
        for cut in [1, 13, 18, body.len() - 1] {
            assert!(FetchedParts::of(&body[..cut]).last().unwrap().is_err(), "{cut}");
        }
        assert_eq!(FetchedParts::of(b"").next(), None);
    }
}
