//! Framing that both ends share: finding a line without looking at a byte twice, cutting it into words, and building one.

use crate::number;
use memchr::{memchr, memchr_iter};
use std::borrow::Cow;
use thiserror::Error;

/// Why the bytes can't be understood. Nobody is answered: the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// No CRLF within the limit.
    #[error("the line is longer than {limit} bytes")]
    LineTooLong {
        /// Of the decoder.
        limit: usize,
    },
    /// The line is empty, blank, or begins with a space.
    #[error("the line begins with no word")]
    Blank,
    /// Nobody knows the first word.
    #[error("the first word is unknown")]
    UnknownWord,
    /// Too few or too many words.
    #[error("{word} doesn't have {found} words")]
    WordCount {
        /// The first word.
        word: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A field isn't what it must be.
    #[error("the {field} of {word} is malformed")]
    Field {
        /// The first word.
        word: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// The body is longer than what would even be thrown away.
    #[error("the body of {word} is {size} bytes, over {limit}")]
    BodyTooLong {
        /// The first word.
        word: &'static str,
        /// As the line says.
        size: usize,
        /// Of the decoder.
        limit: usize,
    },
}

/// How far the frame at the beginning of a connection's buffer has been read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    /// Bytes known to hold no CRLF.
    scanned: usize,
    /// Once the whole line is known: its length and the frame's.
    known: Option<(usize, usize)>,
}

impl Frame {
    /// The line's length without its CRLF; or how many bytes the buffer must have before another look is worth it.
    pub(crate) fn line(&mut self, buffer: &[u8], limit: usize) -> Result<Result<usize, usize>, Malformed> {
        if let Some((line, frame)) = self.known {
            return Ok(if buffer.len() < frame { Err(frame) } else { Ok(line) });
        }
        let too_long = Malformed::LineTooLong { limit };
        let mut from = self.scanned;
        while let Some(found) = memchr(b'\n', &buffer[from..]) {
            let at = from + found;
            if at > 0 && buffer[at - 1] == b'\r' {
                let line = at - 1;
                return if line > limit { Err(too_long) } else { Ok(Ok(line)) };
            }
            from = at + 1;
        }
        self.scanned = buffer.len();
        // The last byte may be the CR of the line's end.
        if buffer.len() > limit + 1 { Err(too_long) } else { Ok(Err(buffer.len() + 1)) }
    }

    /// Notes that the frame's body isn't here yet.
    pub(crate) fn wait(&mut self, line: usize, frame: usize) {
        self.known = Some((line, frame));
    }

    /// Forgets the frame: the next look is at the next one.
    pub(crate) fn done(&mut self) {
        *self = Frame::default();
    }
}

/// How many words are kept by index.
const KEPT: usize = 8;

/// A line cut at each single space. Words that are empty count, except at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    line: &'a [u8],
    kept: [&'a [u8]; KEPT],
    count: usize,
    last: &'a [u8],
}

impl<'a> Words<'a> {
    /// Cuts a line; refuses one that begins with no word.
    #[inline]
    pub(crate) fn of(line: &'a [u8]) -> Result<Self, Malformed> {
        let spaces = line.iter().rev().take_while(|&&byte| byte == b' ').count();
        let line = &line[..line.len() - spaces];
        let mut kept = [&line[..0]; KEPT];
        let (mut count, mut from) = (0, 0);
        for_each_space(line, |at| {
            if count < KEPT {
                kept[count] = &line[from..at];
            }
            count += 1;
            from = at + 1;
        });
        let last = &line[from..];
        if count < KEPT {
            kept[count] = last;
        }
        if kept[0].is_empty() {
            return Err(Malformed::Blank);
        }
        Ok(Words { line, kept, count: count + 1, last })
    }

    /// How many words there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The first word.
    pub(crate) fn first(&self) -> &'a [u8] {
        self.kept[0]
    }

    /// The last word.
    pub(crate) fn last(&self) -> &'a [u8] {
        self.last
    }

    /// The word at `index`, for the first 8.
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.kept[..self.count.min(KEPT)].get(index).copied()
    }

    /// The words from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.line.split(|&byte| byte == b' ').skip(index)
    }

    /// The line's text between the words before `index` and the last one, single spaces and all.
    pub(crate) fn between(&self, index: usize) -> &'a [u8] {
        if self.count <= index + 1 {
            return &[];
        }
        let start = memchr_iter(b' ', self.line).nth(index - 1).map_or(self.line.len(), |space| space + 1);
        let end = self.line.len() - self.last.len() - 1;
        &self.line[start..end]
    }
}

/// Calls back with the position of every space, in order. Words are a few bytes, so a call of a vectorized search for each of them costs
/// more than eight bytes at a time in a register.
#[inline]
fn for_each_space(line: &[u8], mut found: impl FnMut(usize)) {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const SPACES: u64 = 0x2020_2020_2020_2020;
    let (chunks, rest) = line.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let differs = u64::from_le_bytes(*chunk) ^ SPACES;
        // The top bit of each byte that is a space.
        let mut spaces = !(((differs & LOW_BITS) + LOW_BITS) | differs) & !LOW_BITS;
        while spaces != 0 {
            found(index * 8 + (spaces.trailing_zeros() / 8) as usize);
            spaces &= spaces - 1;
        }
    }
    for (at, &byte) in rest.iter().enumerate() {
        if byte == b' ' {
            found(chunks.len() * 8 + at);
        }
    }
}

/// A word as text: bytes that aren't UTF-8 become replacement characters, as in the original.
pub(crate) fn text(word: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(word) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(word),
    }
}

/// What can't be written as a line, by whoever made the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unencodable {
    /// A word holds a space, CR or LF, or is empty where it can't be.
    #[error("the {0} can't be written as one word of a line")]
    Word(&'static str),
    /// The body is 2 GiB or longer.
    #[error("the body has {0} bytes, too many for the protocol")]
    Body(usize),
    /// A combination of fields that no line says.
    #[error("the {0} can't be said like that")]
    Meaning(&'static str),
}

/// Builds one line at the end of a buffer, and takes it back if a word doesn't fit.
pub(crate) struct LineWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    refused: Option<Unencodable>,
}

impl<'o> LineWriter<'o> {
    pub(crate) fn begin(out: &'o mut Vec<u8>, word: &str) -> Self {
        let start = out.len();
        out.extend_from_slice(word.as_bytes());
        LineWriter { out, start, refused: None }
    }

    /// A word of ours.
    pub(crate) fn literal(self, word: &str) -> Self {
        self.out.push(b' ');
        self.out.extend_from_slice(word.as_bytes());
        self
    }

    /// A word from outside; it may be empty.
    pub(crate) fn word(mut self, field: &'static str, word: &str) -> Self {
        self.out.push(b' ');
        self.checked(field, word);
        self
    }

    /// A word from outside that can't be empty.
    pub(crate) fn name(self, field: &'static str, word: &str) -> Self {
        if word.is_empty() { self.refuse(Unencodable::Word(field)) } else { self.word(field, word) }
    }

    pub(crate) fn number(self, number: impl itoa::Integer) -> Self {
        self.out.push(b' ');
        number::write(self.out, number);
        self
    }

    pub(crate) fn length(self, body: &[u8]) -> Self {
        match i32::try_from(body.len()) {
            Ok(length) => self.number(length),
            Err(_) => self.refuse(Unencodable::Body(body.len())),
        }
    }

    /// More of the line, without a space before it.
    pub(crate) fn joined(mut self, field: &'static str, text: &str) -> Self {
        self.checked(field, text);
        self
    }

    /// A number without a space before it.
    pub(crate) fn joined_number(self, number: impl itoa::Integer) -> Self {
        number::write(self.out, number);
        self
    }

    /// Something that prints itself as one word.
    pub(crate) fn display(mut self, field: &'static str, word: impl std::fmt::Display) -> Self {
        use std::io::Write;
        self.out.push(b' ');
        let from = self.out.len();
        write!(self.out, "{word}").expect("a Vec takes every byte");
        if !is_one_word(&self.out[from..]) {
            self.refused.get_or_insert(Unencodable::Word(field));
        }
        self
    }

    pub(crate) fn refuse(mut self, why: Unencodable) -> Self {
        self.refused.get_or_insert(why);
        self
    }

    pub(crate) fn when(self, condition: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if condition { more(self) } else { self }
    }

    /// Ends the line; the body follows it at once.
    pub(crate) fn end(self, body: &[u8]) -> Result<(), Unencodable> {
        if let Some(why) = self.refused {
            self.out.truncate(self.start);
            return Err(why);
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(body);
        Ok(())
    }

    fn checked(&mut self, field: &'static str, word: &str) {
        if !is_one_word(word.as_bytes()) {
            self.refused.get_or_insert(Unencodable::Word(field));
        }
        self.out.extend_from_slice(word.as_bytes());
    }
}

fn is_one_word(word: &[u8]) -> bool {
    memchr::memchr3(b' ', b'\r', b'\n', word).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> Vec<&[u8]> {
        let words = Words::of(line.as_bytes()).unwrap();
        let all: Vec<_> = words.from(0).collect();
        assert_eq!(words.count(), all.len());
        assert_eq!(words.last(), *all.last().unwrap());
        for (index, word) in all.iter().enumerate().take(KEPT) {
            assert_eq!(words.get(index), Some(*word));
        }
        assert_eq!(words.get(all.len().min(KEPT)), None);
        all
    }

    #[test]
    fn words_are_cut_at_every_space_and_trailing_ones_dropped() {
        assert_eq!(cut("version 5 "), [&b"version"[..], b"5"]);
        assert_eq!(cut("stats  5"), [&b"stats"[..], b"", b"5"]);
        assert_eq!(cut("a b c d e f g h i j   ").len(), 10);
        assert_eq!(cut("version\t5"), [&b"version\t5"[..]]);
        for blank in ["", " ", "   ", " version"] {
            assert_eq!(Words::of(blank.as_bytes()).unwrap_err(), Malformed::Blank, "{blank:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_space_is_found(line in proptest::collection::vec(proptest::prop_oneof![proptest::prelude::Just(b' '), 0u8..=255], 0..60)) {
            let mut found = Vec::new();
            for_each_space(&line, |at| found.push(at));
            let expected: Vec<_> = (0..line.len()).filter(|&at| line[at] == b' ').collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_text_between_keeps_its_spaces() {
        let words = Words::of(b"admin backup /my  folder 5").unwrap();
        assert_eq!(words.between(2), b"/my  folder");
        assert_eq!(Words::of(b"admin backup 5").unwrap().between(2), b"");
        assert_eq!(Words::of(b"admin backup").unwrap().between(2), b"");
    }

    #[test]
    fn a_line_ends_at_crlf_only_and_is_scanned_once() {
        let mut frame = Frame::default();
        assert_eq!(frame.line(b"a\rb\nc", 10), Ok(Err(6)));
        assert_eq!(frame.scanned, 5);
        assert_eq!(frame.line(b"a\rb\nc\r", 10), Ok(Err(7)));
        assert_eq!(frame.line(b"a\rb\nc\r\n", 10), Ok(Ok(5)));
        frame.done();
        assert_eq!(frame.line(b"\n\r\n", 10), Ok(Ok(1)));
    }

    #[test]
    fn the_line_limit_is_exact_however_it_arrives() {
        let line = b"12345\r\n";
        let outcome = |limit| {
            let at_once = Frame::default().line(line, limit);
            let mut frame = Frame::default();
            let bytewise =
                (1..=line.len()).map(|n| frame.line(&line[..n], limit)).find(|step| !matches!(step, Ok(Err(_))));
            assert_eq!(bytewise, Some(at_once));
            at_once
        };
        assert_eq!(outcome(5), Ok(Ok(5)));
        assert_eq!(outcome(4), Err(Malformed::LineTooLong { limit: 4 }));
    }

    #[test]
    fn a_word_that_would_break_the_line_leaves_nothing() {
        let mut out = b"before".to_vec();
        let line = LineWriter::begin(&mut out, "get").word("topic", "a\r\nquit").number(5);
        assert_eq!(line.end(b""), Err(Unencodable::Word("topic")));
        assert_eq!(out, b"before");
    }
}
