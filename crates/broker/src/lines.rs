//! The answers to administration: lines of `key=value` words, for people and for programs.
//!
//! ```text
//! topic=orders partitions=3 file=true
//! setting=deleteWhen value="0 0 6,18 * * ?" from="line 5"
//! ```
//! Lines are joined by CRLF. A value that is empty, or has a space, a quote, a backslash or a control character, stands
//! in quotes; there `\"`, `\\`, `\r` and `\n` mean what they say.

use std::fmt::{self, Display, Write};

/// One line being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(String);

impl Line {
    /// A line that begins with this word.
    pub(crate) fn new(key: &str, value: impl Display) -> Self {
        Self::default().word(key, value)
    }

    /// One word more.
    pub(crate) fn word(mut self, key: &str, value: impl Display) -> Self {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(key);
        self.0.push('=');
        let value = value.to_string();
        if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\'))
        {
            self.quote(&value);
        } else {
            self.0.push_str(&value);
        }
        self
    }

    /// One word more, if there is a value.
    pub(crate) fn maybe(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.word(key, value),
            None => self,
        }
    }

    fn quote(&mut self, value: &str) {
        self.0.push('"');
        for c in value.chars() {
            match c {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                '\r' => self.0.push_str("\\r"),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text of an answer.
pub(crate) fn text(lines: impl IntoIterator<Item = Line>) -> String {
    let mut text = String::new();
    for line in lines {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        write!(text, "{separator}{line}").expect("a string takes everything");
    }
    text
}

/// One line of an answer, read: its words in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// Keys and values.
    pub words: Vec<(String, String)>,
}

/// A text that isn't the answer to an administrative request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no line of key=value words")]
pub struct NotALine(pub String);

impl Fields {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, NotALine> {
        let wrong = || NotALine(line.to_owned());
        let mut words = Vec::new();
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (key, value) = rest.split_once('=').ok_or_else(wrong)?;
            if key.is_empty() || key.contains(' ') {
                return Err(wrong());
            }
            let (value, after) = value_of(value).ok_or_else(wrong)?;
            words.push((key.to_owned(), value));
            rest = after.trim_start();
        }
        Ok(Self { words })
    }

    /// Reads a whole answer.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, NotALine> {
        text.lines().filter(|line| !line.trim().is_empty()).map(Self::parse).collect()
    }

    /// What the line is about: the key of its first word.
    pub fn kind(&self) -> &str {
        self.words.first().map_or("", |(key, _)| key)
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// The value at the beginning of `text`, and what comes behind it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(' ').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'r' => '\r',
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let line =
            Line::new("topic", "a.b").word("when", "0 0 6 * * ?").word("empty", "").word("odd", "a\"b\\c\r\nd=e");
        let line = line.maybe("none", None::<u8>).maybe("some", Some(5));
        let text = line.to_string();
        assert_eq!(text, r#"topic=a.b when="0 0 6 * * ?" empty="" odd="a\"b\\c\r\nd=e" some=5"#);
        let fields = Fields::parse(&text).unwrap();
        assert_eq!(fields.kind(), "topic");
        assert_eq!(fields.value("odd"), Some("a\"b\\c\r\nd=e"));
        assert_eq!(fields.value("when"), Some("0 0 6 * * ?"));
        assert_eq!(fields.words.len(), 5);
        assert_eq!(Fields::parse_all(&super::text([line.clone(), line])).unwrap(), [fields.clone(), fields]);
    }

    #[test]
    fn other_texts_are_no_lines() {
        for text in ["1.4.6", "a=1 b", "=1", "a=\"1", "a=\"1\\"] {
            assert_eq!(Fields::parse(text), Err(NotALine(text.to_owned())), "{text}");
        }
    }
}
