//! The name of a topic section: a topic, or a pattern in which `*` stands for any characters.
//!
//! Everything but `*` is literal: `a.b` does not match `axb`, as it would in the original, where the
//! whole name is a regular expression.

use std::fmt;

/// The name behind `topic=`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

/// Why a text names no topic section.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAPattern {
    /// Nothing behind `topic=`.
    #[error("the section names no topic: write [topic=NAME]")]
    Empty,
    /// A character that no topic name can have.
    #[error("a topic name has no {0:?}")]
    Character(char),
    /// `.` or `..`, which are folders of the system.
    #[error("{0:?} can't be a topic: it would name a folder of the system")]
    Folder(String),
}

impl Pattern {
    /// Checks a name as written.
    ///
    /// # Errors
    /// If it is empty, `.` or `..`, or has white space, a control character, `/` or `\`.
    pub fn new(text: &str) -> Result<Self, NotAPattern> {
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\');
        if text.is_empty() {
            return Err(NotAPattern::Empty);
        }
        if matches!(text, "." | "..") {
            return Err(NotAPattern::Folder(text.to_owned()));
        }
        match text.chars().find(|&c| forbidden(c)) {
            Some(c) => Err(NotAPattern::Character(c)),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is one topic's name: it has no `*`.
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether `topic` is this name, or fits this pattern as a whole. Takes time of at most the
    /// product of both lengths.
    pub fn matches(&self, topic: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = topic.strip_prefix(first) else {
            return false;
        };
        let mut pieces = pieces.peekable();
        if pieces.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return rest.ends_with(piece);
            }
            // The leftmost place leaves the most for the pieces behind it.
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let pattern = Pattern::new(pattern).expect(pattern);
        for topic in matching {
            assert!(pattern.matches(topic), "{pattern} matches {topic}");
        }
        for topic in others {
            assert!(!pattern.matches(topic), "{pattern} does not match {topic}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters_and_for_none() {
        check("wild*", &["wild", "wild1", "wild*"], &["wil", "awild"]);
        check("*", &["", "a", "a.b"], &[]);
        check("a*c*e", &["ace", "abcde", "acce", "acecece"], &["acd", "aec", "ae"]);
        check("*.log", &["a.log", ".log", ".log.log"], &["a.logs", "alog"]);
        check("a*a", &["aa", "aba"], &["a"]);
        check("a**b", &["ab", "axb"], &["a", "b"]);
    }

    #[test]
    fn everything_but_the_star_is_literal() {
        check("a.b", &["a.b"], &["axb", "a.bc", "xa.b"]);
        check("a+[b]?", &["a+[b]?"], &["ab", "aab"]);
        check("audit.v2_log", &["audit.v2_log"], &["auditxv2_log"]);
    }

    #[test]
    fn a_pattern_of_many_stars_is_judged_at_once() {
        let pattern = Pattern::new(&"a*".repeat(60)).expect("a pattern");
        assert!(!pattern.matches(&"b".repeat(100_000)));
        assert!(pattern.matches(&"a".repeat(100_000)));
    }

    #[test]
    fn a_name_that_would_leave_its_folder_is_refused() {
        assert_eq!(Pattern::new(""), Err(NotAPattern::Empty));
        assert_eq!(Pattern::new(".."), Err(NotAPattern::Folder("..".to_owned())));
        assert_eq!(Pattern::new("../x"), Err(NotAPattern::Character('/')));
        assert_eq!(Pattern::new("a b"), Err(NotAPattern::Character(' ')));
        assert_eq!(Pattern::new("a\0"), Err(NotAPattern::Character('\0')));
    }
}
