//! What is wrong with a configuration: every mistake with its place, in sentences for whoever wrote it.

use std::fmt;

use metaq_protocol::name::NameRefused;

use super::origin::Origin;
use super::value::NotAValue;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was made; [`Origin::Default`] if it is about the whole.
    pub origin: Origin,
    /// What it is.
    pub mistake: Mistake,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Default => self.mistake.fmt(f),
            _ => write!(f, "{}: {}", self.origin, self.mistake),
        }
    }
}

/// What somebody did wrong, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A line that is no section, no `key=value` and no comment.
    #[error("{text:?} is neither [section], key=value nor a comment")]
    Line {
        /// The line.
        text: String,
    },
    /// A line that isn't UTF-8, outside a comment.
    #[error("the line isn't UTF-8 text: save the file as UTF-8")]
    Encoding,
    /// A key before the first section.
    #[error("{key} stands before the first section: put it below [system]")]
    Homeless {
        /// The key.
        key: String,
    },
    /// A section that doesn't exist.
    #[error("there is no section [{name}]: sections are [system], [zookeeper] and [topic=NAME]")]
    UnknownSection {
        /// What was written.
        name: String,
    },
    /// A section that is there already.
    #[error("[{name}] was begun on line {first} already: put its keys together there")]
    RepeatedSection {
        /// The section.
        name: String,
        /// The line of its first occurrence.
        first: usize,
    },
    /// A topic section whose name no topic can have.
    #[error("[topic={name}]: {why}")]
    Topic {
        /// What was written.
        name: String,
        /// What is wrong with it.
        why: NameRefused,
    },
    /// A key that doesn't exist.
    #[error("there is no key {key:?}{}", hint(.nearest))]
    UnknownKey {
        /// What was written.
        key: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A key that the section has already.
    #[error("{key} was given on line {first} already: leave one of them")]
    RepeatedKey {
        /// The key.
        key: String,
        /// The line of its first occurrence.
        first: usize,
    },
    /// A key of another section.
    #[error("{key} can't stand here: it belongs {belongs}")]
    Misplaced {
        /// The key.
        key: String,
        /// Where it belongs.
        belongs: String,
    },
    /// A filter of the original.
    #[error(
        "group.{group}={class} names a filter, and a Java class can't run here; to ignore it would deliver filtered \
         messages to {group}: remove the line once {group} filters by itself"
    )]
    Filter {
        /// The consumer group.
        group: String,
        /// The class.
        class: String,
    },
    /// A value that the key can't have.
    #[error("{key}={value}: {why}")]
    Value {
        /// The key.
        key: &'static str,
        /// What was written.
        value: String,
        /// What is wrong with it.
        why: NotAValue,
    },
    /// Values that can't stand together.
    #[error("{key} is {value}, but it can be at most {bound}, which is {bound_is}: change one of them")]
    AtMost {
        /// The key that is too large.
        key: &'static str,
        /// Its value.
        value: i64,
        /// What bounds it.
        bound: &'static str,
        /// What that is at the moment.
        bound_is: i64,
    },
    /// A size that isn't whole blocks.
    #[error("{key} is {value}, which is no multiple of {of}")]
    NotAMultiple {
        /// The key.
        key: &'static str,
        /// Its value.
        value: i64,
        /// What it has to be a multiple of.
        of: i64,
    },
    /// The original's default folder lies in a home that isn't known.
    #[error("dataPath isn't given and its default lies in the home folder, which isn't known (HOME): give dataPath")]
    NoHome,
}

fn hint(nearest: &Option<&str>) -> String {
    nearest.map(|key| format!(": did you mean {key}?")).unwrap_or_default()
}

/// Everything that is wrong, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(Vec<Problem>);

impl Errors {
    /// The mistakes found, if there are any.
    pub(super) fn unless_empty(mut problems: Vec<Problem>) -> Result<(), Self> {
        problems.sort_by(|left, right| left.origin.cmp(&right.origin));
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    /// The mistakes.
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

/// One line for each mistake.
impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
