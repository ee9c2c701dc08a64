//! The lines of a `server.ini`: sections, `key=value`, comments from `;` or `#`.
//!
//! A value is everything behind the first `=` or `:`, trimmed and otherwise literal: no escapes, no
//! quotes, no comments behind it. A line that ends in `\` goes on in the next. Read here rather than
//! by a library because each message names its line and every mistake is collected: the ini parsers
//! at hand keep no lines and stop at the first.

use super::origin::Origin;
use super::problem::{Mistake, Problem};

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// `[name]`.
    Section(String),
    /// `key=value`.
    Pair {
        /// Trimmed, never empty.
        key: String,
        /// Trimmed.
        value: String,
    },
}

/// A line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1; of the first, if it goes on over several.
    pub(super) number: usize,
    /// What it says.
    pub(super) content: Content,
}

/// All lines of `file` that say something, and the mistakes in the others.
///
/// Comments may be in any encoding, since old files have them in GBK; the rest is UTF-8.
pub(super) fn read(file: &[u8]) -> (Vec<Line>, Vec<Problem>) {
    let text = String::from_utf8_lossy(file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file));
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut physical = text.lines().zip(1..);
    while let Some((line, number)) = physical.next() {
        let mut logical = line.trim().to_owned();
        if logical.is_empty() || logical.starts_with([';', '#']) {
            continue;
        }
        while goes_on(&logical) {
            logical.pop();
            match physical.next() {
                Some((next, _)) => logical.push_str(next.trim()),
                None => break,
            }
        }
        match content(&logical) {
            Ok(content) => lines.push(Line { number, content }),
            Err(mistake) => problems.push(Problem { origin: Origin::File { line: number }, mistake }),
        }
    }
    (lines, problems)
}

/// Whether a line ends in one `\`, or three, …: two are a `\` that is meant.
fn goes_on(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
    !backslashes.is_multiple_of(2)
}

fn content(line: &str) -> Result<Content, Mistake> {
    if line.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Mistake::Encoding);
    }
    let neither = || Mistake::Line { text: line.to_owned() };
    if let Some(rest) = line.strip_prefix('[') {
        let name = rest.strip_suffix(']').ok_or_else(neither)?;
        return Ok(Content::Section(name.trim().to_owned()));
    }
    match line.split_once(['=', ':']) {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok(Content::Pair { key: key.trim().to_owned(), value: value.trim().to_owned() })
        }
        _ => Err(neither()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(number: usize, name: &str) -> Line {
        Line { number, content: Content::Section(name.to_owned()) }
    }

    fn pair(number: usize, key: &str, value: &str) -> Line {
        Line { number, content: Content::Pair { key: key.to_owned(), value: value.to_owned() } }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let file = "\u{FEFF}; a comment\r\n\r\n[system]\r\n  brokerId = 1 \r\n# another\n\tdataPath=C:\\temp\n\
                    zk.zkConnect=a:1,b:2\nkey: value = x\n [ topic=a ] \nblank=\n";
        let lines = vec![
            section(3, "system"),
            pair(4, "brokerId", "1"),
            pair(6, "dataPath", "C:\\temp"),
            pair(7, "zk.zkConnect", "a:1,b:2"),
            pair(8, "key", "value = x"),
            section(9, "topic=a"),
            pair(10, "blank", ""),
        ];
        assert_eq!(read(file.as_bytes()), (lines, vec![]));
    }

    #[test]
    fn a_value_keeps_what_looks_like_a_comment_or_a_quote() {
        assert_eq!(read(b"a=1 ; 2 # 3\nb=\"x\"\n").0, vec![pair(1, "a", "1 ; 2 # 3"), pair(2, "b", "\"x\"")]);
    }

    #[test]
    fn a_backslash_at_the_end_joins_the_next_line() {
        let file = b"a=1 + \\\n  2\nb=C:\\\\\nc=3\nd=4\\";
        let lines = vec![pair(1, "a", "1 + 2"), pair(3, "b", "C:\\\\"), pair(4, "c", "3"), pair(5, "d", "4")];
        assert_eq!(read(file), (lines, vec![]));
    }

    #[test]
    fn every_broken_line_is_reported() {
        let (lines, problems) = read(b"[system\nword\n=1\n[a]\n");
        assert_eq!(lines, vec![section(4, "a")]);
        let places: Vec<_> = problems.iter().map(|problem| problem.origin.clone()).collect();
        assert_eq!(places, [1, 2, 3].map(|line| Origin::File { line }));
    }

    #[test]
    fn only_comments_may_be_in_another_encoding() {
        let (lines, problems) = read(b"# \xC4\xE3\xBA\xC3\nhostName=\xC4\xE3\n");
        assert_eq!(lines, vec![]);
        let line_2 = Origin::File { line: 2 };
        assert_eq!(problems, vec![Problem { origin: line_2, mistake: Mistake::Encoding }]);
    }

    #[test]
    fn no_bytes_make_it_fail() {
        for length in 0..=3 {
            let alphabet = b"[]=:;\\\n a\xFF";
            for index in 0..alphabet.len().pow(length) {
                let bytes: Vec<u8> =
                    (0..length).map(|place| alphabet[index / alphabet.len().pow(place) % alphabet.len()]).collect();
                let (lines, problems) = read(&bytes);
                let numbers = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
                assert!(lines.len() + problems.len() <= numbers, "{bytes:?}");
            }
        }
    }
}
