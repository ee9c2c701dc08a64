//! Names of entries: words with `/` between, as `members/7`.

use std::fmt;
use std::sync::Arc;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// The name of an entry. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// The name that the names of some entries begin with, up to a `/`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

/// Why a text is no [`Key`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAKey {
    /// Nothing, or nothing between two `/`, or `.` or `..`.
    #[error("{0:?} has an empty word, or . or .. for one")]
    Word(String),
    /// A control character or white space.
    #[error("a key has no {0:?}")]
    Character(char),
    /// More than [`KEY_BYTES_MAX`].
    #[error("a key has at most {KEY_BYTES_MAX} bytes, not {0}")]
    TooLong(usize),
}

impl Key {
    /// Checks a name: words that aren't empty, `.` or `..`, without white space and control characters.
    ///
    /// # Errors
    /// If it isn't such a name or is too long.
    pub fn new(text: &str) -> Result<Self, NotAKey> {
        if text.len() > KEY_BYTES_MAX {
            return Err(NotAKey::TooLong(text.len()));
        }
        if let Some(c) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
            return Err(NotAKey::Character(c));
        }
        match text.split('/').find(|word| matches!(*word, "" | "." | "..")) {
            Some(_) => Err(NotAKey::Word(text.to_owned())),
            None => Ok(Self(text.into())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last word.
    pub fn last_word(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl Prefix {
    /// What lies below an entry's name; the entry itself doesn't.
    pub fn below(key: &Key) -> Self {
        Self(key.0.clone())
    }

    /// Whether the key lies below: `a` holds `a/b` and `a/b/c`, but neither `a` nor `ab`.
    pub fn holds(&self, key: &Key) -> bool {
        key.0.strip_prefix(&*self.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The name, without a `/` at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_what_lies_below_it_and_nothing_beside_it() {
        let key = |text: &str| Key::new(text).expect(text);
        let prefix = Prefix::below(&key("a/b"));
        for (text, held) in [("a/b/c", true), ("a/b/c/d", true), ("a/b", false), ("a/bc", false), ("a", false)] {
            assert_eq!(prefix.holds(&key(text)), held, "{text}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "/a", "a/", "a//b", "a/../b", "."] {
            assert_eq!(Key::new(text), Err(NotAKey::Word(text.to_owned())));
        }
        assert_eq!(Key::new("a b"), Err(NotAKey::Character(' ')));
        assert_eq!(Key::new("a\0"), Err(NotAKey::Character('\0')));
        assert_eq!(Key::new(&"a".repeat(1025)), Err(NotAKey::TooLong(1025)));
        assert!(Key::new(&"a".repeat(1024)).is_ok());
    }
}
