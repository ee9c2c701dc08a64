//! Our own words, each typeable by hand, answered whether or not `hello` was said.
//!
//! | line | answer (200 unless said otherwise) |
//! |---|---|
//! | `hello [<opaque>]`, `version <opaque> hello <level> <client>` | [`HelloAnswer`] |
//! | `puts <topic> <partition> <length> <count> <producer>/<epoch>\|- <sequence>\|- <opaque>`, body | [`Stored`](crate::Stored): first id, partition, first position |
//! | `fetch <group> <size> <topic>:<partition>:<position>[,…] <opaque> [wait=<ms>] [min=<bytes>]` | a `value` of [parts](fetch) |
//! | `topic list\|describe\|create\|alter\|delete …` | [`TopicCommand`] |
//! | `partition close\|open\|delete …` | [`PartitionCommand`] |
//! | `offsets commit\|fetch\|delete\|copy\|list\|locate …` | [`OffsetsCommand`] |
//! | `admin reload\|config\|backup\|checkpoint\|verify …` | [`AdminCommand`] |
//! | `group`, `outbox`, `ack`, `auth`, `hole` … | 503 `not-supported`: kept for later |
//!
//! * No word begins with `v`, `q` or `r`: an original broker would take it for `version`, `quit` or an answer.
//! * The opaque is the last word, before `wait=` and `min=`.
//! * A line that makes no sense is [`Request::Invalid`] if its opaque can be read, and ends the connection if not. A `puts` whose words
//!   aren't 8, or whose length is none, ends it too: nobody knows where its body ends.

mod admin;
mod batch;
pub mod fetch;
mod hello;
mod offsets;
mod topic;

pub use admin::AdminCommand;
pub use batch::{Batch, BatchFault, CheckedBatch, Stamp};
pub use fetch::{Fetch, FetchPart, FetchParts};
pub use hello::{HELLO_LEVEL, Hello, HelloAnswer};
pub use offsets::OffsetsCommand;
pub use topic::{PartitionAct, PartitionCommand, Settings, TopicCommand};

use crate::line::{Malformed, Words, text};
use crate::number::{parse_i32, parse_i64};
use crate::request::{OPAQUE_DEFAULT, Request, Version};
use std::borrow::Cow;

/// The words of a `puts` line.
pub(crate) const BATCH_WORDS: usize = 8;

/// Words that mean nothing yet.
const RESERVED: [&str; 5] = ["group", "outbox", "ack", "auth", "hole"];

/// All first words of ours.
pub const WORDS: [&str; 12] =
    ["hello", "puts", "fetch", "topic", "partition", "offsets", "admin", "group", "outbox", "ack", "auth", "hole"];

/// Which of our words a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Hello,
    Batch,
    Fetch,
    Topic,
    Partition,
    Offsets,
    Admin,
    Reserved(&'static str),
}

/// What a line means, or what is wrong with it.
type Read<T> = Result<T, &'static str>;

impl Word {
    pub(crate) fn of(first: &[u8]) -> Option<Word> {
        Some(match first {
            b"puts" => Word::Batch,
            b"fetch" => Word::Fetch,
            b"offsets" => Word::Offsets,
            b"topic" => Word::Topic,
            b"partition" => Word::Partition,
            b"admin" => Word::Admin,
            b"hello" => Word::Hello,
            _ => Word::Reserved(RESERVED.into_iter().find(|word| word.as_bytes() == first)?),
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Word::Hello => "hello",
            Word::Batch => "puts",
            Word::Fetch => "fetch",
            Word::Topic => "topic",
            Word::Partition => "partition",
            Word::Offsets => "offsets",
            Word::Admin => "admin",
            Word::Reserved(word) => word,
        }
    }

    pub(crate) fn request<'a>(self, words: &Words<'a>, body: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let opaque = self.opaque(words).ok_or(Malformed::Field { word: self.name(), field: "opaque" })?;
        let request = match self {
            Word::Hello if words.count() > 2 => Err("write hello <opaque>, or hello alone"),
            Word::Hello => Ok(Request::Version(Version { opaque, hello: Some(Hello::default()) })),
            Word::Batch => Batch::of(words, opaque, body).map(Request::Batch),
            Word::Fetch => Fetch::of(words, opaque).map(Request::Fetch),
            Word::Topic => TopicCommand::of(words).map(|command| Request::Topic { opaque, command }),
            Word::Partition => PartitionCommand::of(words).map(|command| Request::Partition { opaque, command }),
            Word::Offsets => OffsetsCommand::of(words).map(|command| Request::Offsets { opaque, command }),
            Word::Admin => AdminCommand::of(words).map(|command| Request::Admin { opaque, command }),
            Word::Reserved(word) => Ok(Request::Reserved { word, opaque }),
        };
        Ok(request.unwrap_or_else(|what| Request::Invalid { opaque, what }))
    }

    fn opaque(self, words: &Words<'_>) -> Option<i32> {
        match self {
            Word::Hello if words.count() == 1 => Some(OPAQUE_DEFAULT),
            Word::Fetch => words.get(fetch::OPAQUE_AT).and_then(parse_i32).or_else(|| parse_i32(words.last())),
            _ => parse_i32(words.last()),
        }
    }
}

/// The fields of one of our lines: the words between its verb and its opaque.
#[derive(Clone, Copy)]
struct Fields<'w, 'a> {
    words: &'w Words<'a>,
    usage: &'static str,
}

impl<'w, 'a> Fields<'w, 'a> {
    fn of(words: &'w Words<'a>, usage: &'static str) -> Self {
        Fields { words, usage }
    }

    /// Refuses a line that hasn't as many words as allowed, verb and opaque included.
    fn counted(self, allowed: std::ops::RangeInclusive<usize>) -> Read<Self> {
        if allowed.contains(&self.words.count()) { Ok(self) } else { Err(self.usage) }
    }

    fn bytes(&self, index: usize) -> Read<&'a [u8]> {
        self.words.get(index).filter(|word| !word.is_empty()).ok_or(self.usage)
    }

    /// A word that isn't empty.
    fn name(&self, index: usize) -> Read<Cow<'a, str>> {
        self.bytes(index).map(text)
    }

    fn partition(&self, index: usize) -> Read<i32> {
        partition(self.bytes(index)?)
    }

    fn position(&self, index: usize) -> Read<i64> {
        position(self.bytes(index)?)
    }

    /// `confirm=` and the name again: what is destroyed is named twice.
    fn confirmed(&self, index: usize, name: &str) -> Read<()> {
        match self.bytes(index)?.strip_prefix(b"confirm=") {
            Some(again) if text(again) == name => Ok(()),
            _ => Err(self.usage),
        }
    }
}

/// A partition's index, not negative.
fn partition(word: &[u8]) -> Read<i32> {
    parse_i32(word).filter(|&index| index >= 0).ok_or("the partition is an index: 0, 1, 2, ...")
}

/// A position, not negative.
fn position(word: &[u8]) -> Read<i64> {
    parse_i64(word).filter(|&position| position >= 0).ok_or("the position is a number of bytes: 0 or more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Decoded, Decoder};

    #[test]
    fn no_word_of_ours_is_one_of_the_originals() {
        for word in WORDS {
            assert_eq!(Word::of(word.as_bytes()).map(Word::name), Some(word));
            assert!(!word.starts_with(['v', 'q', 'r']), "an original broker would misunderstand {word}");
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word} must be typeable");
        }
    }

    /// The request of one line, or `None` where the connection ends.
    pub(super) fn decode(line: &str) -> Option<Request<'_>> {
        match Decoder::default().decode(line.as_bytes()) {
            Ok(Decoded::Request { request, used }) => {
                assert_eq!(used, line.len());
                Some(request)
            }
            Ok(other) => panic!("{line:?} gave {other:?}"),
            Err(_) => None,
        }
    }

    /// Decodes a line, and finds that the request writes `again`.
    pub(super) fn check<'a>(line: &'a str, expected: Request<'a>, again: &str) {
        assert_eq!(decode(line), Some(expected.clone()), "{line:?}");
        let mut out = Vec::new();
        expected.encode(&mut out).unwrap();
        assert_eq!(String::from_utf8_lossy(&out), again);
        assert_eq!(decode(again), Some(expected), "{again:?}");
    }

    /// Finds that each line is answered with 400.
    pub(super) fn check_invalid(opaque: i32, lines: &[&str]) {
        for line in lines {
            match decode(line) {
                Some(Request::Invalid { opaque: found, what }) => {
                    assert_eq!(found, opaque, "{line:?}");
                    assert!(!what.is_empty());
                }
                other => panic!("{line:?} gave {other:?}"),
            }
        }
    }

    #[test]
    fn a_hello_is_a_version_that_asks_for_more() {
        let hello = |level, client: &'static str| Some(Hello { level, client: client.into() });
        let version = |opaque, hello| Request::Version(Version { opaque, hello });
        check("hello\r\n", version(OPAQUE_DEFAULT, hello(1, "")), "version 2147483647 hello 1\r\n");
        check("hello -7\r\n", version(-7, hello(1, "")), "version -7 hello 1\r\n");
        check("version 5 hello 1 c/1\r\n", version(5, hello(1, "c/1")), "version 5 hello 1 c/1\r\n");
        check("version 5 hello\r\n", version(5, hello(1, "")), "version 5 hello 1\r\n");
        check("version 5 hello x y\r\n", version(5, None), "version 5\r\n");
        check("version 5 help 1 y\r\n", version(5, None), "version 5\r\n");
        check_invalid(3, &["hello a 3\r\n"]);
        assert_eq!(decode("hello x\r\n"), None);
    }

    #[test]
    fn reserved_words_are_answered_if_they_say_whom() {
        for word in RESERVED {
            let line = format!("{word} join g 9\r\n");
            assert_eq!(decode(&line), Some(Request::Reserved { word, opaque: 9 }));
            assert_eq!(decode(&format!("{word}\r\n")), None);
        }
        assert_eq!(decode("groups 9\r\n"), None);
    }
}
