//! A value as meant: the text of a key, read as the key's kind says.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::arithmetic::{self, NotANumber};
use super::durability::{DurabilityMode, NotADurability};
use super::key::{Key, Kind};
use super::retention::{NotARetention, Retention};
use super::schedule::{NotASchedule, Schedule};

/// One value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of the kinds that are numbers, within the key's range.
    Number(i64),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Text`] and [`Kind::Path`]; never blank.
    Text(String),
    /// Of [`Kind::Address`].
    Address(IpAddr),
    /// Of [`Kind::Schedule`].
    Schedule(Schedule),
    /// Of [`Kind::Retention`].
    Retention(Retention),
    /// Of [`Kind::Durability`].
    Durability(DurabilityMode),
}

/// Why a text is no value of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAValue {
    /// It is no number.
    #[error(transparent)]
    Number(#[from] NotANumber),
    /// It is a number that the key can't have.
    #[error("{number} is out of its range, {} to {}", .range.start(), .range.end())]
    Range {
        /// What it comes to.
        number: i64,
        /// What the key allows.
        range: RangeInclusive<i64>,
    },
    /// It is neither `true` nor `false`.
    #[error("it is true or false")]
    Switch,
    /// It is no IP address.
    #[error("it is an IP address, as 127.0.0.1 or ::1")]
    Address,
    /// It is no schedule.
    #[error(transparent)]
    Schedule(#[from] NotASchedule),
    /// It is no retention policy.
    #[error(transparent)]
    Retention(#[from] NotARetention),
    /// It is no durability.
    #[error(transparent)]
    Durability(#[from] NotADurability),
}

impl Value {
    /// Reads `text`, which isn't blank, as a value of `key`.
    ///
    /// # Errors
    /// If it isn't of the key's kind or not within its range.
    pub fn read(key: &Key, text: &str) -> Result<Self, NotAValue> {
        let text = text.trim();
        Ok(match key.kind {
            Kind::Integer | Kind::Bytes | Kind::Milliseconds | Kind::Seconds => Self::Number(number(key, text)?),
            Kind::Switch => Self::Switch(switch(text)?),
            Kind::Text | Kind::Path => Self::Text(text.to_owned()),
            Kind::Address => Self::Address(text.parse().map_err(|_| NotAValue::Address)?),
            Kind::Schedule => Self::Schedule(text.parse()?),
            Kind::Retention => Self::Retention(text.parse()?),
            Kind::Durability => Self::Durability(text.parse()?),
        })
    }
}

fn number(key: &Key, text: &str) -> Result<i64, NotAValue> {
    let number = arithmetic::evaluate(text)?;
    match key.range() {
        Some(range) if !range.contains(&number) => Err(NotAValue::Range { number, range }),
        _ => Ok(number),
    }
}

fn switch(text: &str) -> Result<bool, NotAValue> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(NotAValue::Switch),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Switch(on) => on.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Address(address) => address.fmt(f),
            Self::Schedule(schedule) => schedule.fmt(f),
            Self::Retention(retention) => retention.fmt(f),
            Self::Durability(mode) => mode.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Default;
    use super::super::keys::{KEYS, key};
    use super::*;

    fn read(name: &str, text: &str) -> Result<Value, NotAValue> {
        Value::read(key(name).expect(name), text)
    }

    #[test]
    fn every_default_is_a_value_of_its_key() {
        for key in KEYS {
            if let Default::Is(text) = key.default {
                assert!(Value::read(key, text).is_ok(), "{} = {text}", key.name);
            }
        }
    }

    #[test]
    fn numbers_may_be_expressions_and_keep_to_their_range() {
        assert_eq!(read("maxSegmentSize", "64 * 1024"), Ok(Value::Number(65_536)));
        assert_eq!(read("brokerId", "1023"), Ok(Value::Number(1023)));
        assert_eq!(
            read("brokerId", "1024").map_err(|why| why.to_string()),
            Err("1024 is out of its range, 0 to 1023".to_owned())
        );
        assert_eq!(read("brokerId", "1/0"), Err(NotAValue::Number(NotANumber::DivisionByZero)));
    }

    #[test]
    fn every_kind_refuses_what_it_is_not() {
        assert_eq!(read("stat", "yes"), Err(NotAValue::Switch));
        assert_eq!(read("stat", "TRUE"), Ok(Value::Switch(true)));
        assert_eq!(read("bindAddress", "localhost"), Err(NotAValue::Address));
        assert!(matches!(read("deleteWhen", "0 0 25 * * ?"), Err(NotAValue::Schedule(_))));
        assert!(matches!(read("deletePolicy", "keep,1"), Err(NotAValue::Retention(_))));
        assert_eq!(read("durability", "sync"), Err(NotAValue::Durability(NotADurability)));
    }
}
