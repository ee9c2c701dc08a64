//! The exchange that tells a client that it talks to this product, and what that can do.
//!
//! ```text
//! metaq 2
//! server metaq/0.1.0
//! limits line=65536 message=2097152
//! features puts wait fetch
//! ```
//! Lines joined by CRLF. An original broker answers its version text instead, which has no such first line.

use crate::line::{LineWriter, Words, text};
use crate::number::{self, parse_u32};
use std::borrow::Cow;

/// The generation of the protocol; the original's is 1.
pub const HELLO_LEVEL: u32 = 2;

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The level of the exchange itself: 1.
    pub level: u32,
    /// Name and version; may be empty.
    pub client: Cow<'a, str>,
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Hello { level: 1, client: Cow::Borrowed("") }
    }
}

impl<'a> Hello<'a> {
    /// Reads it from behind a `version`'s opaque. Whatever isn't a hello says nothing, as in the original.
    pub(crate) fn of(words: &Words<'a>) -> Option<Self> {
        if words.get(2)? != b"hello" {
            return None;
        }
        let level = words.get(3).map_or(Some(1), parse_u32)?;
        Some(Hello { level, client: words.get(4).map(text).unwrap_or_default() })
    }

    pub(crate) fn encode<'o>(&self, line: LineWriter<'o>) -> LineWriter<'o> {
        line.literal("hello").number(self.level).when(!self.client.is_empty(), |line| line.word("client", &self.client))
    }
}

/// What a broker answers to a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloAnswer<'a> {
    /// [`HELLO_LEVEL`] of the broker.
    pub level: u32,
    /// Name and version.
    pub server: Cow<'a, str>,
    /// Limits that a client must keep, by name.
    pub limits: Vec<(Cow<'a, str>, u64)>,
    /// What it can do beyond the original.
    pub features: Vec<Cow<'a, str>>,
}

impl<'a> HelloAnswer<'a> {
    /// Appends the text of the answer. Words must hold no space, `=` or line end.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"metaq ");
        number::write(out, self.level);
        out.extend_from_slice(b"\r\nserver ");
        out.extend_from_slice(self.server.as_bytes());
        out.extend_from_slice(b"\r\nlimits");
        for (name, limit) in &self.limits {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            number::write(out, *limit);
        }
        out.extend_from_slice(b"\r\nfeatures");
        for feature in &self.features {
            out.push(b' ');
            out.extend_from_slice(feature.as_bytes());
        }
    }

    /// Reads the text of an answer; `None` if it is the version of an original broker. Lines and limits that nobody knows are ignored.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?;
        let mut lines = body.split("\r\n");
        let level = parse_u32(lines.next()?.strip_prefix("metaq ")?.as_bytes())?;
        let mut answer = HelloAnswer { level, server: Cow::Borrowed(""), limits: Vec::new(), features: Vec::new() };
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let words = || rest.split(' ').filter(|word| !word.is_empty());
            match word {
                "server" => answer.server = Cow::Borrowed(rest),
                "limits" => {
                    let limit = |word: &'a str| {
                        let (name, limit) = word.split_once('=')?;
                        Some((Cow::Borrowed(name), number::parse_u64(limit.as_bytes())?))
                    };
                    answer.limits = words().filter_map(limit).collect();
                }
                "features" => answer.features = words().map(Cow::Borrowed).collect(),
                _ => {}
            }
        }
        Some(answer)
    }

    /// A limit by its name.
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits.iter().find(|(known, _)| known == name).map(|(_, limit)| *limit)
    }

    /// Whether it can do something.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_version_is_none() {
        let answer = HelloAnswer {
            level: HELLO_LEVEL,
            server: "metaq/0.1.0".into(),
            limits: vec![("line".into(), 65536), ("message".into(), 2 << 20)],
            features: vec!["puts".into(), "wait".into()],
        };
        let mut out = Vec::new();
        answer.encode(&mut out);
        assert_eq!(out, b"metaq 2\r\nserver metaq/0.1.0\r\nlimits line=65536 message=2097152\r\nfeatures puts wait");
        let parsed = HelloAnswer::parse(&out).unwrap();
        assert_eq!(parsed, answer);
        assert_eq!(
            (parsed.limit("line"), parsed.limit("x"), parsed.has("wait"), parsed.has("x")),
            (Some(65536), None, true, false)
        );
        assert_eq!(HelloAnswer::parse(b"1.4.6.3-SNAPSHOT"), None);
        assert_eq!(HelloAnswer::parse(b"metaq x"), None);
        assert_eq!(HelloAnswer::parse(b""), None);
        let more = HelloAnswer::parse(b"metaq 3\r\nlimits a=1 b c=x\r\nunheard of").unwrap();
        assert_eq!((more.level, more.limits), (3, vec![("a".into(), 1)]));
    }
}
