//! What a broker answers: `result` with a status and a text, or `value` with bytes of a log.
//!
//! ```text
//! result <status> <length> <opaque> CRLF <length bytes of text>
//! value <length> <opaque> CRLF <length bytes>
//! ```
//! Writing allocates nothing but the buffer's growth. A broker never writes a `value` of length 0.

use crate::decode::{answer_body, answer_of};
use crate::limits::Limits;
use crate::line::{Frame, Malformed, Unencodable, Words};
use crate::number;
use crate::status::{ErrorCode, Status};
use std::fmt::{self, Display};

/// One answer, borrowed from the bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A status and a text.
    Result {
        /// Any number may come; [`Status::of`] knows the ones that exist.
        code: i32,
        /// Of the request.
        opaque: i32,
        /// UTF-8 text; empty means none.
        text: &'a [u8],
    },
    /// Bytes of a log, or of a fetch.
    Value {
        /// Of the request.
        opaque: i32,
        /// The bytes.
        data: &'a [u8],
    },
}

impl Answer<'_> {
    /// Which request it answers.
    pub fn opaque(&self) -> i32 {
        match self {
            Answer::Result { opaque, .. } | Answer::Value { opaque, .. } => *opaque,
        }
    }

    /// Appends the answer.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        match *self {
            Answer::Result { text: body, .. } | Answer::Value { data: body, .. }
                if i32::try_from(body.len()).is_err() =>
            {
                Err(Unencodable::Body(body.len()))
            }
            Answer::Result { code, opaque, text } => {
                out.extend_from_slice(b"result ");
                number::write(out, code);
                finish_head(out, text.len(), opaque);
                out.extend_from_slice(text);
                Ok(())
            }
            Answer::Value { opaque, data } => {
                value_head(out, data.len(), opaque);
                out.extend_from_slice(data);
                Ok(())
            }
        }
    }
}

fn finish_head(out: &mut Vec<u8>, length: usize, opaque: i32) {
    out.push(b' ');
    number::write(out, length);
    out.push(b' ');
    number::write(out, opaque);
    out.extend_from_slice(b"\r\n");
}

/// Appends the head of a `result`; `length` bytes of text must follow.
pub fn result_head(out: &mut Vec<u8>, status: Status, length: usize, opaque: i32) {
    out.extend_from_slice(b"result ");
    out.extend_from_slice(status.text());
    finish_head(out, length, opaque);
}

/// Appends a whole `result`.
pub fn result(out: &mut Vec<u8>, status: Status, opaque: i32, text: &[u8]) {
    result_head(out, status, text.len(), opaque);
    out.extend_from_slice(text);
}

/// Appends the head of a `value`; `length` bytes must follow.
pub fn value_head(out: &mut Vec<u8>, length: usize, opaque: i32) {
    out.extend_from_slice(b"value");
    finish_head(out, length, opaque);
}

/// Appends a `result` 200 whose text is three numbers: what a `put`, a `sync` and a `puts` are answered. `position` is −1 inside a transaction.
pub fn stored(out: &mut Vec<u8>, opaque: i32, id: i64, partition: i32, position: i64) {
    let (mut a, mut b, mut c) = (itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new());
    let (id, partition, position) = (a.format(id), b.format(partition), c.format(position));
    result_head(out, Status::Ok, id.len() + partition.len() + position.len() + 2, opaque);
    out.extend_from_slice(id.as_bytes());
    out.push(b' ');
    out.extend_from_slice(partition.as_bytes());
    out.push(b' ');
    out.extend_from_slice(position.as_bytes());
}

/// Appends a `result` whose text is one number: of `offset` (200), or of a `get` that must move (301).
pub fn position(out: &mut Vec<u8>, status: Status, opaque: i32, position: i64) {
    result(out, status, opaque, itoa::Buffer::new().format(position).as_bytes());
}

/// Appends an error: its code's status, and `<code>: <sentence>` as text.
pub fn error(out: &mut Vec<u8>, opaque: i32, code: ErrorCode, sentence: impl Display) {
    let mut counter = Counter(0);
    // Counting first saves building the sentence elsewhere; a Display that prints differently twice would break the frame.
    let _: fmt::Result = fmt::write(&mut counter, format_args!("{code}: {sentence}"));
    result_head(out, code.status(), counter.0, opaque);
    let body = out.len();
    let _: fmt::Result = fmt::write(&mut Bytes(out), format_args!("{code}: {sentence}"));
    assert_eq!(out.len() - body, counter.0, "a sentence prints the same each time");
}

struct Counter(usize);

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

struct Bytes<'o>(&'o mut Vec<u8>);

impl fmt::Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// What a stored message was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its id; of a batch, the first one's.
    pub id: i64,
    /// The partition that it went to.
    pub partition: i32,
    /// Where it begins; −1 inside a transaction.
    pub position: i64,
}

impl Stored {
    /// Reads the text of a 200 to `put`, `puts` or `sync`; more words than three are ignored.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut words = text.split(|&byte| byte == b' ');
        Some(Stored {
            id: number::parse_i64(words.next()?)?,
            partition: number::parse_i32(words.next()?)?,
            position: number::parse_i64(words.next()?)?,
        })
    }
}

/// Cuts the answers of one connection. Bytes are looked at once, however they arrive.
#[derive(Debug, Clone, Default)]
pub struct AnswerDecoder {
    limits: Limits,
    frame: Frame,
}

/// What an [`AnswerDecoder`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodedAnswer<'a> {
    /// Not a whole answer yet: the buffer must hold so many bytes before another look is worth it.
    Incomplete {
        /// Bytes from the beginning of the buffer.
        needed: usize,
    },
    /// An answer, and how many bytes of the buffer it took.
    Answer {
        /// The answer.
        answer: Answer<'a>,
        /// To be dropped from the buffer's beginning.
        used: usize,
    },
}

impl AnswerDecoder {
    /// A decoder at the beginning of a connection.
    pub fn new(limits: Limits) -> Self {
        AnswerDecoder { limits, frame: Frame::default() }
    }

    /// Looks at the bytes that came and weren't used yet. After [`DecodedAnswer::Incomplete`] call again with the same bytes and more
    /// behind them; after an error close the connection.
    pub fn decode<'a>(&mut self, buffer: &'a [u8]) -> Result<DecodedAnswer<'a>, Malformed> {
        let line = match self.frame.line(buffer, self.limits.line_bytes_max)? {
            Ok(line) => line,
            Err(needed) => return Ok(DecodedAnswer::Incomplete { needed }),
        };
        let words = Words::of(&buffer[..line])?;
        let size = answer_body(&words, self.limits.answer_bytes_max)?.ok_or(Malformed::UnknownWord)?;
        let used = line + 2 + size;
        if buffer.len() < used {
            self.frame.wait(line, used);
            return Ok(DecodedAnswer::Incomplete { needed: used });
        }
        let answer = answer_of(&words, &buffer[line + 2..used])?;
        self.frame.done();
        Ok(DecodedAnswer::Answer { answer, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stored_message_is_answered_by_three_numbers() {
        let mut out = Vec::new();
        stored(&mut out, 1, -5468932431069315072, 0, 0);
        assert_eq!(out, b"result 200 24 1\r\n-5468932431069315072 0 0");
        let text = &out[17..];
        assert_eq!(Stored::parse(text), Some(Stored { id: -5468932431069315072, partition: 0, position: 0 }));
        assert_eq!(Stored::parse(b"1 2"), None);
        assert_eq!(Stored::parse(b"1 2 3 more").map(|stored| stored.position), Some(3));
    }

    #[test]
    fn an_error_says_its_code_and_its_length_in_bytes() {
        let mut out = Vec::new();
        error(&mut out, -3, ErrorCode::TopicUnknown, format_args!("no topic {:?}", "é"));
        assert_eq!(out, "result 404 28 -3\r\ntopic-unknown: no topic \"é\"".as_bytes());
        assert_eq!(ErrorCode::of_text(&out[18..]), Some(ErrorCode::TopicUnknown));
    }

    proptest! {
        #[test]
        fn answers_come_back_whole_or_byte_by_byte(
            answers in prop::collection::vec((any::<bool>(), any::<i32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..30)), 1..5)
        ) {
            let answers: Vec<Answer> = answers.iter().map(|(is_result, code, opaque, body)| match is_result {
                true => Answer::Result { code: *code, opaque: *opaque, text: body },
                false => Answer::Value { opaque: *opaque, data: body },
            }).collect();
            let mut bytes = Vec::new();
            for answer in &answers {
                answer.encode(&mut bytes).unwrap();
            }
            let mut decoder = AnswerDecoder::default();
            let (mut from, mut found) = (0, Vec::new());
            for to in 1..=bytes.len() {
                if let DecodedAnswer::Answer { answer, used } = decoder.decode(&bytes[from..to]).unwrap() {
                    found.push(answer);
                    from += used;
                }
            }
            prop_assert_eq!(&found, &answers);
            prop_assert_eq!(from, bytes.len());
        }
    }
}
