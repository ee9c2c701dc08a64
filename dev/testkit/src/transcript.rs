//! Exchanges with a broker as text, and their replay.
//!
//! ```text
//! > version 5            a line, sent with CRLF
//! >> hello               text, sent as it is: \r \n \s \\ and \x41 are escapes
//! < result 200 * 5       the next answer's line
//! << 1.*                 the lines of its body, joined by CRLF; without them any body is right
//! ! closed               the connection ends, without another byte
//! ! silent               nothing comes for half a second, and the connection stays
//! ! half-close           no more requests
//! # ...                  a comment
//! ```
//! `*` and `{name}` are as in [`crate::pattern`]; a name is filled in where it comes again, in what is sent too. Unless the connection
//! has ended, it must be usable at the end, with nothing on it that wasn't expected.

use crate::pattern::{self, Names};
use crate::wire::Wire;
use std::net::SocketAddr;
use std::time::Duration;

const SILENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Text with its escapes, and whether it is a line.
    Send {
        text: String,
        is_line: bool,
    },
    Answer {
        head: String,
        body: Option<String>,
    },
    Closed,
    Silent,
    HalfClose,
}

/// One exchange over one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    text: String,
    steps: Vec<Step>,
}

impl Transcript {
    /// Reads one; leading blanks of lines, blank lines and comments are left out.
    ///
    /// # Panics
    /// If a line is none of those above.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        for line in text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
            match mark {
                ">" | ">>" => steps.push(Step::Send { text: rest.into(), is_line: mark == ">" }),
                "<" => steps.push(Step::Answer { head: rest.into(), body: None }),
                "<<" => continue_body(&mut steps, rest),
                "!" => steps.push(match rest {
                    "closed" => Step::Closed,
                    "silent" => Step::Silent,
                    "half-close" => Step::HalfClose,
                    _ => panic!("no step: {line:?}"),
                }),
                _ => panic!("no line of a transcript: {line:?}"),
            }
        }
        Transcript { text: text.into(), steps }
    }

    /// Replays it against a broker.
    ///
    /// # Panics
    /// If anything else comes than it says.
    pub fn replay(&self, address: SocketAddr) {
        self.replay_on(&mut Wire::connect(address));
    }

    /// Replays it over a connection.
    ///
    /// # Panics
    /// If anything else comes than it says.
    pub fn replay_on(&self, wire: &mut Wire) {
        let mut names = Names::new();
        for (number, step) in self.steps.iter().enumerate() {
            self.step(wire, step, number, &mut names);
        }
        if self.steps.last() != Some(&Step::Closed) && !self.steps.contains(&Step::HalfClose) {
            wire.usable();
        }
    }

    fn step(&self, wire: &mut Wire, step: &Step, number: usize, names: &mut Names) {
        match step {
            Step::Send { text, is_line } => {
                let mut bytes = unescape(&pattern::fill(text, names));
                bytes.extend_from_slice(if *is_line { b"\r\n" } else { b"" });
                // A connection that was closed in the middle of what is sent shows in what is expected.
                drop(wire.try_send(bytes));
            }
            Step::Answer { head, body } => {
                let frame = wire.try_frame().unwrap_or_else(|lost| self.fail(number, step, &lost.to_string()));
                let fits = pattern::fits(head, &frame.head, names)
                    && body.as_ref().is_none_or(|body| pattern::fits(body, &frame.text(), names));
                if !fits {
                    self.fail(number, step, &frame.to_string());
                }
            }
            Step::Closed => wire.closed(),
            Step::Silent => wire.silent(SILENCE),
            Step::HalfClose => wire.half_close(),
        }
    }

    fn fail(&self, number: usize, step: &Step, came: &str) -> ! {
        panic!("step {number}, {step:?}, but came {came}, in:\n{}", self.text)
    }
}

/// Replays a transcript against a broker.
///
/// # Panics
/// If anything else comes than it says.
pub fn check(address: SocketAddr, text: &str) {
    Transcript::parse(text).replay(address);
}

/// The blocks of a Markdown page that are fenced as `word`, each with the number of its first line.
pub fn fenced<'p>(page: &'p str, word: &str) -> Vec<(usize, &'p str)> {
    let fence = format!("```{word}");
    let mut blocks = Vec::new();
    let (mut at, mut open) = (0, None);
    for (number, line) in page.split_inclusive('\n').enumerate() {
        let end = at + line.len();
        match open {
            None if line.trim_end() == fence => open = Some((number + 2, end)),
            Some((first, from)) if line.trim_end() == "```" => {
                blocks.push((first, &page[from..at]));
                open = None;
            }
            _ => {}
        }
        at = end;
    }
    assert_eq!(open, None, "a fence is never closed");
    blocks
}

fn continue_body(steps: &mut [Step], line: &str) {
    let Some(Step::Answer { body, .. }) = steps.last_mut() else { panic!("a body without an answer: {line:?}") };
    match body {
        Some(body) => {
            body.push_str("\r\n");
            body.push_str(line);
        }
        None => *body = Some(line.into()),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, used) = match (first, after) {
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b's', ..]) => (b' ', 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [b'x', a, b, ..]) => {
                let code = std::str::from_utf8(&[*a, *b]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
                (code.unwrap_or_else(|| panic!("no hex: {text:?}")), 4)
            }
            (b'\\', _) => panic!("no escape: {text:?}"),
            (byte, _) => (*byte, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_steps() {
        let transcript =
            Transcript::parse("# c\n\n  > put {t} 0\n  >> a\\r\\x00 b\\s\n< result 200\n<< x\n<<\n<< y\n! closed");
        let answer = Step::Answer { head: "result 200".into(), body: Some("x\r\n\r\ny".into()) };
        assert_eq!(
            transcript.steps,
            [
                Step::Send { text: "put {t} 0".into(), is_line: true },
                Step::Send { text: "a\\r\\x00 b\\s".into(), is_line: false },
                answer,
                Step::Closed
            ]
        );
        assert_eq!(unescape("a\\r\\x00\\xfe b\\s\\\\"), b"a\r\0\xfe b \\");
    }

    #[test]
    fn blocks_are_found_by_their_fence() {
        let page = "a\n```metaq\n> x\n```\n```text\n> y\n```\n```metaq\n```\n";
        assert_eq!(fenced(page, "metaq"), [(3, "> x\n"), (9, "")]);
    }
}
