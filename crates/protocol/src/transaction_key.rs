//! Transaction keys: `null`, `TX:session:number`, `XID:format:global:branch:qualifier` (global and branch in hex).
//!
//! A session can't hold a colon and a number is read as 32 bits, as original brokers do: they close on anything else.

use crate::number::parse_i32;
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// Why a word is no transaction key; the connection that sent it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyRefused {
    /// Neither `null` nor `TX:` nor `XID:`.
    #[error("a transaction key begins with TX: or XID:, or is null")]
    Kind,
    /// Too few or too many colons.
    #[error("a transaction key has {expected} parts between its colons, not {found}")]
    Parts {
        /// 3 or 5.
        expected: usize,
        /// As sent.
        found: usize,
    },
    /// The local number or the XA format isn't a signed 32-bit number.
    #[error("the number in a transaction key is a signed 32-bit one")]
    Number,
    /// A part that must be hex isn't.
    #[error("the global id and the branch of a transaction key are hex")]
    Hex,
}

/// A transaction key, borrowed from a line. Checked, so that [`KeyView::to_key`] can't fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyView<'a> {
    /// `null`: no transaction; only RECOVER means something with it.
    Null,
    /// `TX:…`
    Local {
        /// Names the session inside its connection.
        session: Cow<'a, str>,
        /// Running number inside the session.
        number: i32,
    },
    /// `XID:…`
    Xa {
        /// Format id, any number.
        format: i32,
        /// Global id.
        global: HexText<'a>,
        /// Branch qualifier.
        branch: HexText<'a>,
        /// Whose transaction it is, for RECOVER.
        qualifier: Cow<'a, str>,
    },
}

impl<'a> KeyView<'a> {
    /// Reads a key from its word.
    pub fn parse(word: &'a [u8]) -> Result<Self, KeyRefused> {
        if let Some(rest) = word.strip_prefix(b"TX:") {
            parse_local(rest)
        } else if let Some(rest) = word.strip_prefix(b"XID:") {
            parse_xa(rest)
        } else if word == b"null" {
            Ok(KeyView::Null)
        } else {
            Err(KeyRefused::Kind)
        }
    }

    /// The key for keeping.
    pub fn to_key(&self) -> TransactionKey {
        match self {
            KeyView::Null => TransactionKey::Null,
            KeyView::Local { session, number } => {
                TransactionKey::Local(LocalKey { session: session.to_string(), number: i64::from(*number) })
            }
            KeyView::Xa { format, global, branch, qualifier } => TransactionKey::Xa(XaKey {
                format: *format,
                global: global.bytes().collect(),
                branch: branch.bytes().collect(),
                qualifier: qualifier.to_string(),
            }),
        }
    }
}

/// Trailing empty parts don't count.
fn parse_local(rest: &[u8]) -> Result<KeyView<'_>, KeyRefused> {
    let colons = rest.iter().rev().take_while(|&&byte| byte == b':').count();
    let rest = &rest[..rest.len() - colons];
    let mut parts = rest.split(|&byte| byte == b':');
    let (Some(session), Some(number), None) = (parts.next(), parts.next(), parts.next()) else {
        let found = 1 + if rest.is_empty() { 0 } else { rest.split(|&byte| byte == b':').count() };
        return Err(KeyRefused::Parts { expected: 3, found });
    };
    let number = parse_i32(number).ok_or(KeyRefused::Number)?;
    Ok(KeyView::Local { session: String::from_utf8_lossy(session), number })
}

/// Empty parts count.
fn parse_xa(rest: &[u8]) -> Result<KeyView<'_>, KeyRefused> {
    let mut parts = rest.split(|&byte| byte == b':');
    let (Some(format), Some(global), Some(branch), Some(qualifier), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        let found = 1 + rest.split(|&byte| byte == b':').count();
        return Err(KeyRefused::Parts { expected: 5, found });
    };
    Ok(KeyView::Xa {
        format: parse_i32(format).ok_or(KeyRefused::Number)?,
        global: HexText::parse(global)?,
        branch: HexText::parse(branch)?,
        qualifier: String::from_utf8_lossy(qualifier),
    })
}

/// Bytes written as hex of either case; an odd last digit says nothing.
#[derive(Debug, Clone, Copy)]
pub struct HexText<'a>(&'a [u8]);

impl<'a> HexText<'a> {
    /// Checks a text.
    pub fn parse(text: &'a [u8]) -> Result<Self, KeyRefused> {
        let pairs = &text[..text.len() & !1];
        if pairs.iter().all(u8::is_ascii_hexdigit) { Ok(HexText(pairs)) } else { Err(KeyRefused::Hex) }
    }

    /// The bytes that it stands for.
    pub fn bytes(self) -> impl Iterator<Item = u8> + use<'a> {
        self.0.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
    }
}

impl PartialEq for HexText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for HexText<'_> {}

fn digit(letter: u8) -> u8 {
    match letter {
        b'0'..=b'9' => letter - b'0',
        _ => (letter | 0x20) - b'a' + 10,
    }
}

/// A transaction key, owned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionKey {
    /// No transaction.
    Null,
    /// A transaction of one connection.
    Local(LocalKey),
    /// A branch that a coordinator steers.
    Xa(XaKey),
}

/// Names a local transaction inside its connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalKey {
    /// The session that it belongs to.
    pub session: String,
    /// Running number; brokers read 32 bits of it.
    pub number: i64,
}

/// Names an XA branch in a cluster. All four parts count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XaKey {
    /// Format id.
    pub format: i32,
    /// Global id.
    pub global: Vec<u8>,
    /// Branch qualifier.
    pub branch: Vec<u8>,
    /// Whose transaction it is.
    pub qualifier: String,
}

impl TransactionKey {
    /// Reads a key from its word.
    pub fn parse(word: &[u8]) -> Result<Self, KeyRefused> {
        KeyView::parse(word).map(|view| view.to_key())
    }
}

impl From<LocalKey> for TransactionKey {
    fn from(key: LocalKey) -> Self {
        TransactionKey::Local(key)
    }
}

impl From<XaKey> for TransactionKey {
    fn from(key: XaKey) -> Self {
        TransactionKey::Xa(key)
    }
}

impl fmt::Display for TransactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionKey::Null => f.write_str("null"),
            TransactionKey::Local(key) => key.fmt(f),
            TransactionKey::Xa(key) => key.fmt(f),
        }
    }
}

impl fmt::Display for LocalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TX:{}:{}", self.session, self.number)
    }
}

impl fmt::Display for XaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        write!(f, "XID:{}:", self.format)?;
        hex(f, &self.global)?;
        f.write_str(":")?;
        hex(f, &self.branch)?;
        write!(f, ":{}", self.qualifier)
    }
}

impl fmt::Display for KeyView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyView::Null => f.write_str("null"),
            KeyView::Local { session, number } => write!(f, "TX:{session}:{number}"),
            KeyView::Xa { format, global, branch, qualifier } => {
                write!(f, "XID:{format}:")?;
                global.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(":")?;
                branch.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, ":{qualifier}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows 72 of the conformance list and their neighbours.
    #[test]
    fn keys_that_the_original_refuses_are_refused() {
        for (word, why) in [
            ("TX:a", KeyRefused::Parts { expected: 3, found: 2 }),
            ("TX:", KeyRefused::Parts { expected: 3, found: 1 }),
            ("TX:a:b:1", KeyRefused::Parts { expected: 3, found: 4 }),
            ("TX:::1:2", KeyRefused::Parts { expected: 3, found: 5 }),
            ("TX:a:2147483648", KeyRefused::Number),
            ("TX:a:x", KeyRefused::Number),
            ("XID:1:aa:bb", KeyRefused::Parts { expected: 5, found: 4 }),
            ("XID:1:aa:bb:uq:", KeyRefused::Parts { expected: 5, found: 6 }),
            ("XID:1:zz:bb:uq", KeyRefused::Hex),
            ("XID:1:aa:b+:uq", KeyRefused::Hex),
            ("XID::aa:bb:uq", KeyRefused::Number),
            ("", KeyRefused::Kind),
            ("NULL", KeyRefused::Kind),
            ("tx:a:1", KeyRefused::Kind),
        ] {
            assert_eq!(TransactionKey::parse(word.as_bytes()), Err(why), "{word}");
        }
    }

    #[test]
    fn views_compare_by_meaning() {
        assert_eq!(KeyView::parse(b"XID:+1:0A0b:c:q"), KeyView::parse(b"XID:1:0a0B::q"));
        assert_ne!(KeyView::parse(b"XID:1:aa:bb:q"), KeyView::parse(b"XID:1:bb:aa:q"));
    }

    proptest! {
        #[test]
        fn local_keys_come_back_from_their_text(session in "[^: \\r\\n]{0,20}", number: i32) {
            let key = TransactionKey::Local(LocalKey { session, number: i64::from(number) });
            let text = key.to_string();
            let view = KeyView::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(view.to_string(), text.clone());
            prop_assert_eq!(view.to_key(), key);
        }

        #[test]
        fn xa_keys_come_back_from_their_text(format: i32, global: Vec<u8>, branch: Vec<u8>, qualifier in "[^: \\r\\n]{0,20}") {
            let key = TransactionKey::Xa(XaKey { format, global, branch, qualifier });
            let text = key.to_string();
            let view = KeyView::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(view.to_string(), text.clone());
            prop_assert_eq!(view.to_key(), key);
        }
    }
}
