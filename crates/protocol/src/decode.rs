//! Cuts and reads the requests of one connection, borrowing from its read buffer.
//!
//! * No byte is looked at twice while a line or a body arrives, and nothing is allocated (but for words that aren't UTF-8).
//! * A malformed line of the original's words ends the connection, unanswered: [`Malformed`].
//! * A malformed line of our own words is [`Request::Invalid`] as long as it is clear where it ends and whom to answer.
//! * A body over its limit is [`Oversized`]: the caller throws its bytes away and answers.

use crate::answer::Answer;
use crate::extension;
use crate::limits::Limits;
use crate::line::{Frame, Malformed, Words, text};
use crate::number::{parse_i32, parse_i64};
use crate::request::{
    Get, OPAQUE_DEFAULT, Offset, Put, Request, Stats, Step, Sync, Transaction, Version, Wait, checksum_of,
};
use crate::transaction_key::KeyView;
use std::borrow::Cow;

/// Cuts the requests of one connection.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    limits: Limits,
    frame: Frame,
}

/// What a [`Decoder`] found.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded<'a> {
    /// Not a whole request yet: the buffer must hold so many bytes before another look is worth it.
    Incomplete {
        /// Bytes from the beginning of the buffer.
        needed: usize,
    },
    /// A request, and how many bytes of the buffer it took.
    Request {
        /// The request.
        request: Request<'a>,
        /// To be dropped from the buffer's beginning.
        used: usize,
    },
    /// A request whose body is over the limit.
    Oversized(Oversized<'a>),
}

/// The line of a request whose body is over its limit, but not over what is thrown away. The caller drops `used` bytes, then drops
/// the next `size` bytes as they come, and answers with both sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Oversized<'a> {
    /// `put`, `puts` or `sync`.
    pub word: &'static str,
    /// Where it would have gone.
    pub topic: Cow<'a, str>,
    /// Where it would have gone.
    pub partition: i32,
    /// To answer with.
    pub opaque: i32,
    /// Bytes of the body.
    pub size: usize,
    /// What a body may have.
    pub limit: usize,
    /// Bytes of the line with its CRLF.
    pub used: usize,
}

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new(limits: Limits) -> Self {
        Decoder { limits, frame: Frame::default() }
    }

    /// Looks at the bytes that came and weren't used yet. After [`Decoded::Incomplete`] call again with the same bytes and more behind
    /// them; after [`Malformed`] answer what is still owed and close the connection.
    pub fn decode<'a>(&mut self, buffer: &'a [u8]) -> Result<Decoded<'a>, Malformed> {
        let line = match self.frame.line(buffer, self.limits.line_bytes_max)? {
            Ok(line) => line,
            Err(needed) => return Ok(Decoded::Incomplete { needed }),
        };
        let head = line + 2;
        let words = Words::of(&buffer[..line])?;
        let word = Word::of(words.first()).ok_or(Malformed::UnknownWord)?;
        let size = match word.body(&words, &self.limits)? {
            Body::None => 0,
            Body::Size(size) => size,
            Body::Over { size, limit } => {
                let oversized = oversized(word, &words, size, limit, head)?;
                self.frame.done();
                return Ok(Decoded::Oversized(oversized));
            }
        };
        let used = head + size;
        let Some(body) = buffer.get(head..used) else {
            self.frame.wait(line, used);
            return Ok(Decoded::Incomplete { needed: used });
        };
        let request = word.request(&words, body)?;
        self.frame.done();
        Ok(Decoded::Request { request, used })
    }
}

/// The first word, as far as it decides how the line is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Put,
    Get,
    Offset,
    Version,
    Stats,
    Quit,
    Transaction,
    Sync,
    Result,
    Value,
    Extension(extension::Word),
}

enum Body {
    None,
    Size(usize),
    Over { size: usize, limit: usize },
}

impl Word {
    /// The first letter decides: everything with `v` but `value` is a `version`, everything with `q` a `quit`.
    fn of(first: &[u8]) -> Option<Word> {
        match first {
            b"put" => Some(Word::Put),
            b"get" => Some(Word::Get),
            b"value" => Some(Word::Value),
            [b'v', ..] => Some(Word::Version),
            b"offset" => Some(Word::Offset),
            b"stats" => Some(Word::Stats),
            b"transaction" => Some(Word::Transaction),
            b"sync" => Some(Word::Sync),
            [b'q', ..] => Some(Word::Quit),
            b"result" => Some(Word::Result),
            _ => extension::Word::of(first).map(Word::Extension),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Word::Put => "put",
            Word::Get => "get",
            Word::Offset => "offset",
            Word::Version => "version",
            Word::Stats => "stats",
            Word::Quit => "quit",
            Word::Transaction => "transaction",
            Word::Sync => "sync",
            Word::Result => "result",
            Word::Value => "value",
            Word::Extension(word) => word.name(),
        }
    }

    /// The size of the body that follows the line; nothing else of the line is read before the body is there, as in the original.
    fn body(self, words: &Words<'_>, limits: &Limits) -> Result<Body, Malformed> {
        let limit = match self {
            Word::Put | Word::Sync => limits.message_bytes_max,
            Word::Extension(extension::Word::Batch) => limits.batch_bytes_max,
            Word::Result | Word::Value => {
                return Ok(answer_body(words, limits.message_bytes_max)?.map_or(Body::None, Body::Size));
            }
            _ => return Ok(Body::None),
        };
        // In a `puts` with a word too few or too many nobody knows which number is the length.
        if self == Word::Extension(extension::Word::Batch) && words.count() != extension::BATCH_WORDS {
            return Err(Malformed::WordCount { word: self.name(), found: words.count() });
        }
        let size = size_at(self.name(), words, 3)?;
        if size > limits.discard_bytes_max.max(limit) {
            return Err(Malformed::BodyTooLong { word: self.name(), size, limit: limits.discard_bytes_max });
        }
        Ok(if size > limit { Body::Over { size, limit } } else { Body::Size(size) })
    }

    fn request<'a>(self, words: &Words<'a>, body: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let fields = Fields { word: self.name(), words };
        match self {
            Word::Put => put(fields, body).map(Request::Put),
            Word::Get => get(fields).map(Request::Get),
            Word::Offset => offset(fields).map(Request::Offset),
            Word::Version => version(fields).map(Request::Version),
            Word::Stats => stats(fields).map(Request::Stats),
            Word::Quit => Ok(Request::Quit),
            Word::Transaction => transaction(fields).map(Request::Transaction),
            Word::Sync => sync(fields, body).map(Request::Sync),
            Word::Result | Word::Value => answer_of(words, body).map(Request::Answer),
            Word::Extension(word) => word.request(words, body),
        }
    }
}

fn size_at(word: &'static str, words: &Words<'_>, index: usize) -> Result<usize, Malformed> {
    let text = words.get(index).ok_or(Malformed::WordCount { word, found: words.count() })?;
    parse_i32(text).and_then(|size| usize::try_from(size).ok()).ok_or(Malformed::Field { word, field: "length" })
}

fn oversized<'a>(
    word: Word,
    words: &Words<'a>,
    size: usize,
    limit: usize,
    used: usize,
) -> Result<Oversized<'a>, Malformed> {
    let fields = Fields { word: word.name(), words };
    let counts = match word {
        Word::Put => 6..=8,
        Word::Sync => 7..=8,
        _ => extension::BATCH_WORDS..=extension::BATCH_WORDS,
    };
    if !counts.contains(&words.count()) {
        return Err(fields.count());
    }
    Ok(Oversized {
        word: word.name(),
        topic: fields.text(1)?,
        partition: fields.i32(2, "partition")?,
        opaque: fields.last_opaque()?,
        size,
        limit,
        used,
    })
}

/// The fields of one of the original's lines.
#[derive(Clone, Copy)]
struct Fields<'w, 'a> {
    word: &'static str,
    words: &'w Words<'a>,
}

impl<'a> Fields<'_, 'a> {
    fn count(&self) -> Malformed {
        Malformed::WordCount { word: self.word, found: self.words.count() }
    }

    fn bytes(&self, index: usize) -> Result<&'a [u8], Malformed> {
        self.words.get(index).ok_or_else(|| self.count())
    }

    fn text(&self, index: usize) -> Result<Cow<'a, str>, Malformed> {
        self.bytes(index).map(text)
    }

    fn i32(&self, index: usize, field: &'static str) -> Result<i32, Malformed> {
        parse_i32(self.bytes(index)?).ok_or(Malformed::Field { word: self.word, field })
    }

    fn i64(&self, index: usize, field: &'static str) -> Result<i64, Malformed> {
        parse_i64(self.bytes(index)?).ok_or(Malformed::Field { word: self.word, field })
    }

    fn key(&self, index: usize) -> Result<KeyView<'a>, Malformed> {
        KeyView::parse(self.bytes(index)?).map_err(|_| Malformed::Field { word: self.word, field: "transaction key" })
    }

    fn last_opaque(&self) -> Result<i32, Malformed> {
        parse_i32(self.words.last()).ok_or(Malformed::Field { word: self.word, field: "opaque" })
    }
}

fn put<'a>(fields: Fields<'_, 'a>, body: &'a [u8]) -> Result<Put<'a>, Malformed> {
    let (checksum, transaction) = match fields.words.count() {
        6 => (None, None),
        // One word in the middle is a checksum if it looks like the beginning of a number, else a transaction.
        7 => match fields.bytes(5)?.first() {
            Some(b'0'..=b'9' | b'-') => (checksum_of(fields.i32(5, "checksum")?), None),
            _ => (None, Some(fields.key(5)?)),
        },
        8 => (checksum_of(fields.i32(5, "checksum")?), Some(fields.key(6)?)),
        _ => return Err(fields.count()),
    };
    Ok(Put {
        topic: fields.text(1)?,
        partition: fields.i32(2, "partition")?,
        flag: fields.i32(4, "flag")?,
        checksum,
        transaction,
        opaque: fields.last_opaque()?,
        body,
    })
}

fn get<'a>(fields: Fields<'_, 'a>) -> Result<Get<'a>, Malformed> {
    Ok(Get {
        topic: fields.text(1)?,
        group: fields.text(2)?,
        partition: fields.i32(3, "partition")?,
        position: fields.i64(4, "position")?,
        size: fields.i32(5, "size")?,
        opaque: fields.i32(6, "opaque")?,
        wait: Wait::of(fields.words, 7),
    })
}

impl Wait {
    /// Reads `wait=` and `min=` from the words after the opaque; whatever else is there says nothing, as in the original.
    pub(crate) fn of(words: &Words<'_>, index: usize) -> Wait {
        let mut wait = Wait::default();
        if words.count() <= index {
            return wait;
        }
        for word in words.from(index) {
            if let Some(ms) = word.strip_prefix(b"wait=").and_then(crate::number::parse_u32) {
                wait.ms = ms;
            } else if let Some(bytes) = word.strip_prefix(b"min=").and_then(crate::number::parse_u32) {
                wait.min_bytes = bytes;
            }
        }
        wait
    }
}

fn offset<'a>(fields: Fields<'_, 'a>) -> Result<Offset<'a>, Malformed> {
    Ok(Offset {
        topic: fields.text(1)?,
        group: fields.text(2)?,
        partition: fields.i32(3, "partition")?,
        position: fields.i64(4, "position")?,
        opaque: fields.i32(5, "opaque")?,
    })
}

fn version<'a>(fields: Fields<'_, 'a>) -> Result<Version<'a>, Malformed> {
    if fields.words.count() == 1 {
        return Ok(Version { opaque: OPAQUE_DEFAULT, hello: None });
    }
    Ok(Version { opaque: fields.i32(1, "opaque")?, hello: extension::Hello::of(fields.words) })
}

fn stats<'a>(fields: Fields<'_, 'a>) -> Result<Stats<'a>, Malformed> {
    Ok(match fields.words.count() {
        1 => Stats { item: None, opaque: OPAQUE_DEFAULT },
        2 => Stats { item: Some(fields.text(1)?), opaque: OPAQUE_DEFAULT },
        _ => Stats { item: Some(fields.text(1)?), opaque: fields.i32(2, "opaque")? },
    })
}

fn transaction<'a>(fields: Fields<'_, 'a>) -> Result<Transaction<'a>, Malformed> {
    let (timeout_seconds, qualifier) = match fields.words.count() {
        5 => (0, None),
        // Only digits are a timeout, anything else is a qualifier; nothing at all is neither.
        6 => match fields.bytes(4)? {
            word if word.iter().all(u8::is_ascii_digit) => (fields.i32(4, "timeout")?, None),
            word => (0, Some(text(word))),
        },
        7 => (fields.i32(4, "timeout")?, Some(fields.text(5)?)),
        _ => return Err(fields.count()),
    };
    let step = Step::parse(fields.bytes(3)?).ok_or(Malformed::Field { word: fields.word, field: "type" })?;
    Ok(Transaction {
        key: fields.key(1)?,
        session: fields.text(2)?,
        step,
        timeout_seconds,
        qualifier,
        opaque: fields.last_opaque()?,
    })
}

fn sync<'a>(fields: Fields<'_, 'a>, body: &'a [u8]) -> Result<Sync<'a>, Malformed> {
    let checksum = match fields.words.count() {
        7 => None,
        8 => checksum_of(fields.i32(6, "checksum")?),
        _ => return Err(fields.count()),
    };
    Ok(Sync {
        topic: fields.text(1)?,
        partition: fields.i32(2, "partition")?,
        flag: fields.i32(4, "flag")?,
        id: fields.i64(5, "id")?,
        checksum,
        opaque: fields.last_opaque()?,
        body,
    })
}

/// The size of an answer's body; `None` if the line is no answer.
pub(crate) fn answer_body(words: &Words<'_>, limit: usize) -> Result<Option<usize>, Malformed> {
    let (word, index) = match words.first() {
        b"result" => ("result", 2),
        b"value" => ("value", 1),
        _ => return Ok(None),
    };
    let size = size_at(word, words, index)?;
    if size > limit { Err(Malformed::BodyTooLong { word, size, limit }) } else { Ok(Some(size)) }
}

/// Reads an answer whose body is there.
pub(crate) fn answer_of<'a>(words: &Words<'a>, body: &'a [u8]) -> Result<Answer<'a>, Malformed> {
    if words.first() == b"result" {
        let fields = Fields { word: "result", words };
        Ok(Answer::Result { code: fields.i32(1, "status")?, opaque: fields.i32(3, "opaque")?, text: body })
    } else {
        let fields = Fields { word: "value", words };
        Ok(Answer::Value { opaque: fields.i32(2, "opaque")?, data: body })
    }
}
