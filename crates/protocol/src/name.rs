//! Names of topics, groups and partitions.
//!
//! A name that passed [`check_topic`] or [`check_group`] is safe as one component of a path on every file system and
//! as one word of a line. Nothing else may become part of a path.

use crate::limits::NAME_BYTES_MAX;
use crate::number::parse_i32;
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Topics, groups and `stats` items that begin with this are the broker's own.
pub const RESERVED_PREFIX: &str = "metaq.";

/// Why a text is no name, said to whoever chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameRefused {
    /// No bytes at all.
    #[error("a name can't be empty")]
    Empty,
    /// More than [`NAME_BYTES_MAX`] bytes.
    #[error("a name has at most {NAME_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// It would be a hidden file, or `.` or `..`.
    #[error("a name can't begin with a dot")]
    LeadingDot,
    /// A character with a meaning to paths, patterns or lines.
    #[error("a name can't contain {0:?}")]
    Character(char),
}

/// Whether `text` may name a topic. [`RESERVED_PREFIX`] is allowed here: who may use it is the broker's matter.
pub fn check_topic(text: &str) -> Result<(), NameRefused> {
    check(text)
}

/// Whether `text` may name a group, where the broker keeps something under that name. (A `get` may say any word.)
pub fn check_group(text: &str) -> Result<(), NameRefused> {
    check(text)
}

fn check(text: &str) -> Result<(), NameRefused> {
    if text.is_empty() {
        return Err(NameRefused::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameRefused::TooLong(text.len()));
    }
    if text.starts_with('.') {
        return Err(NameRefused::LeadingDot);
    }
    match text.chars().find(|&character| is_refused(character)) {
        Some(character) => Err(NameRefused::Character(character)),
        None => Ok(()),
    }
}

/// The replacement character is in the list because it stands for bytes that weren't UTF-8.
fn is_refused(character: char) -> bool {
    matches!(character, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | ',' | '\u{fffd}')
        || character.is_control()
        || character.is_whitespace()
}

macro_rules! name {
    ($(#[$comment:meta])* $name:ident, $check:ident) => {
        $(#[$comment])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name, if it is one.
            pub fn new(text: &str) -> Result<Self, NameRefused> {
                $check(text).map(|()| $name(text.into()))
            }

            /// The name's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether it begins with [`RESERVED_PREFIX`].
            pub fn is_reserved(&self) -> bool {
                self.0.starts_with(RESERVED_PREFIX)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameRefused;

            fn from_str(text: &str) -> Result<Self, NameRefused> {
                $name::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A topic's name that passed [`check_topic`]. Cheap to clone; looked up by `&str`.
    TopicName, check_topic
}
name! {
    /// A group's name that passed [`check_group`]. Cheap to clone; looked up by `&str`.
    Group, check_group
}

/// Which topics a configured name stands for: `*` is any run of characters (none included), everything else is itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPattern(Box<str>);

impl TopicPattern {
    /// A pattern; each run of it between stars must be fit for a name.
    pub fn new(text: &str) -> Result<Self, NameRefused> {
        match text.chars().find(|&character| character != '*' && is_refused(character)) {
            _ if text.is_empty() => Err(NameRefused::Empty),
            _ if text.len() > NAME_BYTES_MAX => Err(NameRefused::TooLong(text.len())),
            _ if text.starts_with('.') => Err(NameRefused::LeadingDot),
            Some(character) => Err(NameRefused::Character(character)),
            None => Ok(TopicPattern(text.into())),
        }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a plain name, with no star.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether the whole of `topic` fits.
    pub fn matches(&self, topic: &str) -> bool {
        let (pattern, topic) = (self.0.as_bytes(), topic.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where to go on when a literal run doesn't fit: the last star, one byte more swallowed.
        let mut retry: Option<(usize, usize)> = None;
        while t < topic.len() {
            if p < pattern.len() && pattern[p] == b'*' {
                retry = Some((p + 1, t + 1));
                p += 1;
            } else if p < pattern.len() && pattern[p] == topic[t] {
                p += 1;
                t += 1;
            } else if let Some((after_star, from)) = retry {
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from);
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|&byte| byte == b'*')
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A partition of a topic in a cluster, written `broker-index`. `-1--1` is [`PartitionText::ANY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionText {
    /// Broker id.
    pub broker: i32,
    /// Index on that broker.
    pub index: i32,
}

/// A text that is no `broker-index`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no partition: write broker-index, as 0-3")]
pub struct PartitionRefused(pub String);

impl PartitionText {
    /// The broker may choose.
    pub const ANY: PartitionText = PartitionText { broker: -1, index: -1 };

    /// Reads `broker-index`, both not negative; a third part is refused.
    pub fn parse(text: &str) -> Result<Self, PartitionRefused> {
        if text == "-1--1" {
            return Ok(PartitionText::ANY);
        }
        let number = |text: &str| parse_i32(text.as_bytes()).filter(|&number| number >= 0);
        text.split_once('-')
            .and_then(|(broker, index)| Some(PartitionText { broker: number(broker)?, index: number(index)? }))
            .ok_or_else(|| PartitionRefused(text.to_owned()))
    }
}

impl FromStr for PartitionText {
    type Err = PartitionRefused;

    fn from_str(text: &str) -> Result<Self, PartitionRefused> {
        PartitionText::parse(text)
    }
}

impl fmt::Display for PartitionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.broker, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_safe_as_a_path_component() {
        for good in ["t", "meta-test", "order.events_2", "a-1", "~x", "标签", "metaq.system", "a..b", "x."] {
            assert_eq!(check_topic(good), Ok(()), "{good:?}");
        }
        assert_eq!(check_topic(""), Err(NameRefused::Empty));
        for bad in [".", "..", ".hidden", "../etc"] {
            assert_eq!(check_topic(bad), Err(NameRefused::LeadingDot), "{bad:?}");
        }
        for bad in "/\\:*?\"<>|, \t\r\n\0\u{7f}\u{85}\u{a0}\u{2028}\u{3000}\u{fffd}".chars() {
            let name = format!("a{bad}b");
            assert_eq!(check_topic(&name), Err(NameRefused::Character(bad)), "{name:?}");
            assert_eq!(check_group(&name), Err(NameRefused::Character(bad)), "{name:?}");
        }
        assert_eq!(check_topic(&"x".repeat(200)), Ok(()));
        assert_eq!(check_topic(&"标".repeat(67)), Err(NameRefused::TooLong(201)));
        assert!(TopicName::new("metaq.x").unwrap().is_reserved() && !TopicName::new("metaqx").unwrap().is_reserved());
    }

    #[test]
    fn a_star_is_any_run_and_all_else_is_literal() {
        for (pattern, topic, expected) in [
            ("wild*", "wildcard", true),
            ("wild*", "wild", true),
            ("wild*", "awild", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a.b", "a.b", true),
            ("a.b", "axb", false),
            ("a*b*c", "a123b45bc", true),
            ("a*b*c", "a123b45bcd", false),
            ("*aab", "aaaaaaab", true),
            ("**x", "x", true),
            ("x+", "xx", false),
            ("t", "t", true),
            ("t", "tt", false),
            ("tt", "t", false),
        ] {
            assert_eq!(TopicPattern::new(pattern).unwrap().matches(topic), expected, "{pattern} {topic}");
        }
        assert!(
            TopicPattern::new("a/*").is_err() && TopicPattern::new("").is_err() && TopicPattern::new(".*").is_err()
        );
    }

    #[test]
    fn a_partition_is_two_numbers() {
        let parse = |text| PartitionText::parse(text).ok().map(|partition| (partition.broker, partition.index));
        assert_eq!(parse("0-0"), Some((0, 0)));
        assert_eq!(parse("1023-17"), Some((1023, 17)));
        assert_eq!(parse("+1-2"), Some((1, 2)));
        assert_eq!(PartitionText::parse("-1--1"), Ok(PartitionText::ANY));
        for bad in ["1-2-3", "-1-0", "0--1", "0", "", "-", "a-1", "1-b", " 1-2", "1- 2", "2147483648-0", "-2--2"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn partitions_come_back_from_their_text(broker in 0..=i32::MAX, index in 0..=i32::MAX) {
            let partition = PartitionText { broker, index };
            prop_assert_eq!(PartitionText::parse(&partition.to_string()), Ok(partition));
        }

        #[test]
        fn a_pattern_made_from_a_name_matches_it(name in "[a-c]{1,12}", cuts in prop::collection::vec((0usize..12, 0usize..12), 0..3)) {
            let mut pattern = name.clone();
            for (from, length) in cuts {
                let from = from.min(pattern.len());
                let to = (from + length).min(pattern.len());
                pattern.replace_range(from..to, "*");
            }
            prop_assert!(TopicPattern::new(&pattern).unwrap().matches(&name), "{} {}", pattern, name);
        }
    }
}
