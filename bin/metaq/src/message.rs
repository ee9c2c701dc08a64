//! How a message that was read is printed: by a format with `%` as kcat's, or as an object of JSON.

use metaq_protocol::record::{Found, Parts};
use metaq_protocol::{IdParts, section};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::str::FromStr;

/// A message that was read and where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: i32,
    /// Where it begins in the partition.
    pub position: i64,
    /// The message.
    pub found: Found<'a>,
}

/// A format, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Topic,
    Partition,
    Position,
    Id,
    Time,
    Attribute,
    Properties,
    Payload,
    Size,
}

/// What a format may say, for `--help`.
pub const DIRECTIVES: &str = "\
Formats:
  %t topic   %p partition   %o position   %i id   %T time of its storing   %a attribute   %h properties
  %s payload   %S size of the payload   %% a percent sign   \\n \\t \\r \\0 \\\\ as usual";

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => {
                    let piece = match chars.next() {
                        Some('%') => {
                            plain.push('%');
                            continue;
                        }
                        Some('t') => Piece::Topic,
                        Some('p') => Piece::Partition,
                        Some('o') => Piece::Position,
                        Some('i') => Piece::Id,
                        Some('T') => Piece::Time,
                        Some('a') => Piece::Attribute,
                        Some('h') => Piece::Properties,
                        Some('s') => Piece::Payload,
                        Some('S') => Piece::Size,
                        Some(other) => return Err(format!("%{other} means nothing; see --help")),
                        None => return Err("a % at the end means nothing; write %% for the sign itself".to_owned()),
                    };
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece);
                }
                '\\' => plain.push(match chars.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('0') => '\0',
                    Some('\\') => '\\',
                    other => return Err(format!("\\{} means nothing; see --help", other.unwrap_or(' '))),
                }),
                other => plain.push(other),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

impl Message<'_> {
    /// What belongs together: attribute, properties, payload. A body that isn't what its flag says is all payload.
    fn parts(&self) -> (Option<&[u8]>, section::Section<'_>, &[u8]) {
        let record = self.found.record;
        let parts = record.parts().unwrap_or(Parts { attribute: None, payload: record.body });
        let (attribute, properties) = section::split(record.flag, parts.attribute);
        (attribute, properties, parts.payload)
    }

    /// When it was stored, as far as its id tells: ids of the original's brokers may tell nothing.
    fn time(&self) -> Option<String> {
        let id = self.found.record.id;
        let clock = (id > 0).then(|| IdParts::of(id).clock_ms)?;
        jiff::Timestamp::from_millisecond(clock).ok().map(|time| time.to_string())
    }

    /// Appends it as the format says.
    pub fn format(&self, format: &Format, out: &mut Vec<u8>) {
        let (attribute, properties, payload) = self.parts();
        let mut text = String::new();
        for piece in &format.0 {
            text.clear();
            let written = match piece {
                Piece::Text(plain) => write!(text, "{plain}"),
                Piece::Topic => write!(text, "{}", self.topic),
                Piece::Partition => write!(text, "{}", self.partition),
                Piece::Position => write!(text, "{}", self.position),
                Piece::Id => write!(text, "{}", self.found.record.id),
                Piece::Time => write!(text, "{}", self.time().unwrap_or_default()),
                Piece::Size => write!(text, "{}", payload.len()),
                Piece::Properties => properties
                    .iter()
                    .enumerate()
                    .try_for_each(|(at, (key, value))| write!(text, "{}{key}={value}", if at == 0 { "" } else { "," })),
                Piece::Attribute => {
                    out.extend_from_slice(attribute.unwrap_or_default());
                    Ok(())
                }
                Piece::Payload => {
                    out.extend_from_slice(payload);
                    Ok(())
                }
            };
            written.expect("a string takes everything");
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Appends it as one line of JSON. Bytes that aren't UTF-8 come in hexadecimal, under `…_hex`.
    pub fn json(&self, out: &mut Vec<u8>) {
        let (attribute, properties, payload) = self.parts();
        let record = self.found.record;
        let mut object = Map::new();
        object.insert("topic".to_owned(), self.topic.into());
        object.insert("partition".to_owned(), self.partition.into());
        object.insert("position".to_owned(), self.position.into());
        object.insert("id".to_owned(), record.id.into());
        if let Some(time) = self.time() {
            object.insert("time".to_owned(), time.into());
        }
        if let Some(attribute) = attribute {
            insert_bytes(&mut object, "attribute", attribute);
        }
        let properties: Map<_, _> =
            properties.iter().map(|(key, value)| (key.into_owned(), Value::from(value.into_owned()))).collect();
        if !properties.is_empty() {
            object.insert("properties".to_owned(), properties.into());
        }
        insert_bytes(&mut object, "payload", payload);
        out.extend_from_slice(Value::Object(object).to_string().as_bytes());
        out.push(b'\n');
    }
}

fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            object.insert(format!("{name}_hex"), hex.into())
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_protocol::{Walk, record};

    fn with(attribute: Option<&[u8]>, payload: &[u8], then: impl Fn(Message<'_>) -> Vec<u8>) -> String {
        let parts = Parts { attribute, payload };
        let (mut body, mut bytes) = (Vec::new(), Vec::new());
        parts.encode(&mut body);
        record::encode(&mut bytes, -7, parts.flag(), &body);
        let found = Walk::new(&bytes).next().unwrap();
        String::from_utf8_lossy(&then(Message { topic: "t", partition: 3, position: 40, found })).into_owned()
    }

    fn formatted(format: &str) -> String {
        let format: Format = format.parse().unwrap();
        with(Some(b"red"), b"one", |message| {
            let mut out = Vec::new();
            message.format(&format, &mut out);
            out
        })
    }

    #[test]
    fn a_format_says_what_is_printed() {
        assert_eq!(formatted("%t/%p %o %i %a %s %S %h%T\\n\\\\%%"), "t/3 40 -7 red one 3 \n\\%");
        assert_eq!(formatted(""), "");
    }

    #[test]
    fn a_format_that_means_nothing_is_refused() {
        for wrong in ["%x", "%", "\\y", "\\"] {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_object_holds_what_there_is() {
        let json = |attribute, payload| {
            with(attribute, payload, |message| {
                let mut out = Vec::new();
                message.json(&mut out);
                out
            })
        };
        let expected = r#"{"attribute":"red","id":-7,"partition":3,"payload":"one","position":40,"topic":"t"}"#;
        assert_eq!(json(Some(b"red"), b"one").trim_end(), expected);
        assert!(json(None, b"\xff\x00").contains(r#""payload_hex":"ff00""#));
    }
}
