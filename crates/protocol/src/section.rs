//! Properties beyond the original's attribute, at the end of the attribute block.
//!
//! ```text
//! <the user's attribute> U+0001 <key>=<value> LF <key>=<value> …
//! ```
//! * An original consumer gets the right payload, and the properties as the tail of its attribute.
//! * There is a section only if [`FLAG_SECTION`] is set *and* there is an attribute *and* it holds U+0001: the flag is stored verbatim
//!   and clients may set any bit, else the attribute is plain.
//! * It begins at the last U+0001. Values write `\` as `\\`, LF as `\n`, CR as `\r` and U+0001 as `\1`; keys hold none of them.

use crate::record::FLAG_SECTION;
use memchr::{memchr, memrchr};
use std::borrow::Cow;
use thiserror::Error;

const START: u8 = 1;

/// The properties of a message; maybe none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section<'a>(&'a [u8]);

/// A key that can't be written, by whoever chose it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} can't be the key of a property: it is empty, or holds an equals sign, a backslash or a control character"
)]
pub struct KeyUnfit(pub String);

/// Takes an attribute block apart: the user's attribute, and the properties. Where there are properties, an empty attribute is none.
pub fn split(flag: i32, attribute: Option<&[u8]>) -> (Option<&[u8]>, Section<'_>) {
    let section = attribute
        .filter(|_| flag & FLAG_SECTION != 0)
        .and_then(|block| memrchr(START, block).map(|start| (&block[..start], &block[start + 1..])));
    match section {
        Some((attribute, section)) => (Some(attribute).filter(|attribute| !attribute.is_empty()), Section(section)),
        None => (attribute, Section::default()),
    }
}

/// Appends a section to a user's attribute in `block`. The caller sets the flags of attribute and section. If a key is unfit, `block`
/// stays as it was.
pub fn append<'p>(
    block: &mut Vec<u8>,
    properties: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<(), KeyUnfit> {
    let start = block.len();
    block.push(START);
    for (key, value) in properties {
        if key.is_empty() || key.contains(|character: char| matches!(character, '=' | '\\') || character.is_control()) {
            block.truncate(start);
            return Err(KeyUnfit(key.to_owned()));
        }
        if block.len() > start + 1 {
            block.push(b'\n');
        }
        block.extend_from_slice(key.as_bytes());
        block.push(b'=');
        escape(block, value);
    }
    Ok(())
}

impl<'a> Section<'a> {
    /// Key and value of each property, in order; a key may come twice. Lines without an equals sign say nothing.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.0.split(|&byte| byte == b'\n').filter_map(|line| {
            let equals = memchr(b'=', line).filter(|&equals| equals > 0)?;
            Some((String::from_utf8_lossy(&line[..equals]), unescape(&line[equals + 1..])))
        })
    }

    /// The value of the first property with this key.
    pub fn value(&self, key: &str) -> Option<Cow<'a, str>> {
        self.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }
}

fn escape(out: &mut Vec<u8>, value: &str) {
    for &byte in value.as_bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            START => out.extend_from_slice(b"\\1"),
            _ => out.push(byte),
        }
    }
}

/// A backslash before anything else is itself.
fn unescape(value: &[u8]) -> Cow<'_, str> {
    if memchr(b'\\', value).is_none() {
        return String::from_utf8_lossy(value);
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [byte, after @ ..] = rest {
        let (meant, taken) = match (byte, after.first()) {
            (b'\\', Some(b'\\')) => (b'\\', 2),
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(b'1')) => (START, 2),
            _ => (*byte, 1),
        };
        plain.push(meant);
        rest = &rest[taken..];
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_is_bit_and_attribute_and_mark() {
        let mut block = b"tag".to_vec();
        append(&mut block, [("key", "k1"), ("deliver-at", "5")]).unwrap();
        assert_eq!(block, b"tag\x01key=k1\ndeliver-at=5");
        let (attribute, section) = split(3, Some(&block));
        assert_eq!(attribute, Some(&b"tag"[..]));
        assert_eq!((section.value("deliver-at").as_deref(), section.value("x")), (Some("5"), None));
        for (flag, attribute) in [(1, Some(&block[..])), (2, None), (3, Some(&b"plain"[..])), (-1, Some(&b""[..]))] {
            assert_eq!(split(flag, attribute), (attribute, Section::default()));
        }
    }

    #[test]
    fn a_section_alone_leaves_no_attribute() {
        let mut block = Vec::new();
        append(&mut block, [("key", "a")]).unwrap();
        let (attribute, section) = split(3, Some(&block));
        assert_eq!((attribute, section.iter().count()), (None, 1));
        assert_eq!(split(3, Some(b"\x01")).1.iter().count(), 0);
    }

    #[test]
    fn lines_that_are_no_properties_say_nothing() {
        let (attribute, section) = split(2, Some(b"a\x01b\x01x\n=y\nz=\\q\\\nw=\xff"));
        assert_eq!(attribute, Some(&b"a\x01b"[..]));
        let properties: Vec<_> = section.iter().collect();
        assert_eq!(properties, [("z".into(), "\\q\\".into()), ("w".into(), "\u{fffd}".into())]);
    }

    #[test]
    fn an_unfit_key_leaves_the_block_alone() {
        for key in ["", "a=b", "a\\", "a\n", "\u{1}"] {
            let mut block = b"tag".to_vec();
            assert_eq!(append(&mut block, [("good", "1"), (key, "2")]), Err(KeyUnfit(key.to_owned())));
            assert_eq!(block, b"tag");
        }
    }

    proptest! {
        #[test]
        fn properties_come_back(
            attribute in "[^\u{1}]{0,9}",
            properties in prop::collection::vec(("[a-z.é-]{1,9}", "(?s:.{0,20})"), 0..5),
        ) {
            let mut block = attribute.clone().into_bytes();
            append(&mut block, properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))).unwrap();
            let (found, section) = split(FLAG_SECTION, Some(&block));
            prop_assert_eq!(found.unwrap_or_default(), attribute.as_bytes());
            let found: Vec<_> = section.iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
            prop_assert_eq!(found, properties);
        }

        #[test]
        fn any_block_is_taken_apart(flag: i32, block: Vec<u8>) {
            let (attribute, section) = split(flag, Some(&block));
            prop_assert!(attribute.map_or(0, <[u8]>::len) + section.iter().count() <= block.len());
        }
    }
}
