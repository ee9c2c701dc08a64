//! Where a value comes from. What comes later in the list wins over what comes before.

use std::fmt;

use super::keys::KEYS;

/// Where an effective value was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Nowhere: it is built in.
    Default,
    /// In the file.
    File {
        /// Its line, from 1.
        line: usize,
    },
    /// By an environment variable of this name.
    Environment(String),
    /// By a flag of this name.
    Flag(String),
    /// By an administrator at run time, for one topic.
    Api,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { line } => write!(f, "line {line}"),
            Self::Environment(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Api => f.write_str("administration"),
        }
    }
}

/// A value from outside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The name of the key, as in the file.
    pub key: String,
    /// Its value, as in the file; blank is as good as none.
    pub value: String,
    /// Where it comes from: [`Origin::Environment`] or [`Origin::Flag`].
    pub origin: Origin,
}

impl Override {
    /// A value that a flag gives: `flag` is what was typed, as `--broker-id`.
    pub fn flag(key: &str, value: &str, flag: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned(), origin: Origin::Flag(flag.to_owned()) }
    }

    /// What an environment variable gives; none if no key has a variable of this name.
    pub fn variable(name: &str, value: &str) -> Option<Self> {
        let key = KEYS.iter().find(|key| key.variable() == name)?;
        let origin = Origin::Environment(name.to_owned());
        Some(Self { key: key.name.to_owned(), value: value.to_owned(), origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_origins_are_greater() {
        let flag = Origin::Flag("--a".to_owned());
        let variable = Origin::Environment("Z".to_owned());
        assert!(Origin::Default < Origin::File { line: 9 } && Origin::File { line: 9 } < variable);
        assert!(variable < flag && flag < Origin::Api);
    }

    #[test]
    fn only_variables_of_keys_are_taken() {
        let taken = Override::variable("METAQ_SERVER_PORT", "1").map(|taken| taken.key);
        assert_eq!(taken.as_deref(), Some("serverPort"));
        assert_eq!(Override::variable("METAQ_SERVER", "1"), None);
        assert_eq!(Override::variable("PATH", "1"), None);
    }
}
