//! What is known of one key: where it may stand, what it may say, and what it does.

use std::ops::RangeInclusive;

/// Where a key may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In `[system]` only.
    System,
    /// In `[system]` for all topics, and in `[topic=…]` for those that the section names.
    Topic,
    /// In `[zookeeper]` only.
    Zookeeper,
    /// Nowhere in the file: a system property of the original, here a flag or a variable.
    Property,
}

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// MetaQ 1.4.6 has it.
    Original,
    /// This broker adds it.
    Ours,
}

/// What a value of the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, or an expression that comes to one.
    Integer,
    /// The same, in bytes.
    Bytes,
    /// The same, in milliseconds.
    Milliseconds,
    /// The same, in seconds.
    Seconds,
    /// `true` or `false`.
    Switch,
    /// Any text.
    Text,
    /// A folder.
    Path,
    /// An IP address.
    Address,
    /// A Quartz cron expression.
    Schedule,
    /// `delete,AGE` or `archive,AGE[,true]`.
    Retention,
    /// `fsync`, `interval` or `os`.
    Durability,
}

impl Kind {
    /// Whether a value is a number with a range.
    pub const fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Bytes | Self::Milliseconds | Self::Seconds)
    }

    /// The kind as the reference calls it, with its unit.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Integer => "number",
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Switch => "true or false",
            Self::Text => "text",
            Self::Path => "folder",
            Self::Address => "IP address",
            Self::Schedule => "cron",
            Self::Retention => "retention",
            Self::Durability => "fsync, interval or os",
        }
    }
}

/// What stands for a key that isn't given, or given as blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// This, in the words of the file.
    Is(&'static str),
    /// What this sentence says, from other keys or the surroundings.
    Derived(&'static str),
}

/// When a changed value is felt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// At once.
    Live,
    /// By what is created from then on; what exists keeps the value it was created with.
    Created,
    /// After a restart.
    Restart,
}

/// What the key does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What its description says.
    Full,
    /// Nothing, for the reason given: the rest of a sentence that begins "no effect here: ".
    None(&'static str),
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// Where it may stand.
    pub place: Place,
    /// Whose it is.
    pub family: Family,
    /// What a value is.
    pub kind: Kind,
    /// What a number must lie in; meaningless for other kinds.
    pub range: (i64, i64),
    /// What stands for it if it isn't given.
    pub default: Default,
    /// When a change is felt.
    pub reload: Reload,
    /// Whether it does anything.
    pub effect: Effect,
    /// What it says, in one sentence.
    pub about: &'static str,
}

/// The greatest number of the original: its numbers have 32 bits.
pub(super) const INT_MAX: i64 = i32::MAX as i64;

impl Key {
    /// A key of the original.
    pub(super) const fn original(name: &'static str, place: Place, kind: Kind, about: &'static str) -> Self {
        Self {
            name,
            place,
            family: Family::Original,
            kind,
            range: (0, INT_MAX),
            default: Default::Is(""),
            reload: Reload::Live,
            effect: Effect::Full,
            about,
        }
    }

    /// A key that the original doesn't have.
    pub(super) const fn ours(name: &'static str, place: Place, kind: Kind, about: &'static str) -> Self {
        Self { family: Family::Ours, ..Self::original(name, place, kind, about) }
    }

    pub(super) const fn is(mut self, default: &'static str) -> Self {
        self.default = Default::Is(default);
        self
    }

    pub(super) const fn derived(mut self, sentence: &'static str) -> Self {
        self.default = Default::Derived(sentence);
        self
    }

    pub(super) const fn within(mut self, least: i64, most: i64) -> Self {
        self.range = (least, most);
        self
    }

    pub(super) const fn for_created(mut self) -> Self {
        self.reload = Reload::Created;
        self
    }

    pub(super) const fn at_restart(mut self) -> Self {
        self.reload = Reload::Restart;
        self
    }

    pub(super) const fn idle(mut self, why: &'static str) -> Self {
        self.effect = Effect::None(why);
        self
    }

    /// What a number must lie in; none for other kinds.
    pub fn range(&self) -> Option<RangeInclusive<i64>> {
        self.kind.is_number().then_some(self.range.0..=self.range.1)
    }

    /// The environment variable: `METAQ_` and the name in upper snake case.
    pub fn variable(&self) -> String {
        format!("METAQ_{}", self.words().join("_").to_uppercase())
    }

    /// The long flag, with its dashes: the name in kebab case.
    pub fn flag(&self) -> String {
        format!("--{}", self.words().join("-"))
    }

    /// The words that the name consists of, in lower case.
    fn words(&self) -> Vec<String> {
        let mut words = vec![String::new()];
        for c in self.name.chars() {
            let word = words.last_mut().expect("there is always a word being spelled");
            match c {
                '.' | '_' => words.push(String::new()),
                c if c.is_ascii_uppercase() && !word.is_empty() => words.push(c.to_ascii_lowercase().to_string()),
                c => word.push(c.to_ascii_lowercase()),
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_its_variable_and_its_flag() {
        for (name, variable, flag) in [
            ("brokerId", "METAQ_BROKER_ID", "--broker-id"),
            ("stat", "METAQ_STAT", "--stat"),
            ("zk.zkSyncTimeMs", "METAQ_ZK_ZK_SYNC_TIME_MS", "--zk-zk-sync-time-ms"),
            ("meta.fast_boot", "METAQ_META_FAST_BOOT", "--meta-fast-boot"),
            ("meta.get.tellMaxOffset", "METAQ_META_GET_TELL_MAX_OFFSET", "--meta-get-tell-max-offset"),
        ] {
            let key = Key::original(name, Place::System, Kind::Integer, "");
            assert_eq!((key.variable().as_str(), key.flag().as_str()), (variable, flag));
        }
    }
}
