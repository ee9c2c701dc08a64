//! The text of a record: `name=value` lines.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// Why bytes are no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARecord {
    /// Not UTF-8.
    #[error("the record isn't text")]
    NotText,
    /// A line without `=`.
    #[error("the line {0:?} of the record isn't name=value")]
    Line(String),
    /// A name that must be there.
    #[error("the record doesn't say {0}")]
    Missing(&'static str),
    /// A value that isn't what its name says.
    #[error("the record says {name}={value}, which can't be")]
    Value {
        /// The name.
        name: &'static str,
        /// The value.
        value: String,
    },
}

/// Builds a text from names and values.
///
/// # Panics
/// If a value has a line break: whoever makes a record checks its texts.
pub(super) fn text(fields: &[(&str, &dyn Display)]) -> String {
    let line = |(name, value): &(&str, &dyn Display)| {
        let value = value.to_string();
        assert!(!value.contains(['\n', '\r']), "{name} of a record has a line break: {value:?}");
        format!("{name}={value}\n")
    };
    fields.iter().map(line).collect()
}

/// The fields of a text.
pub(super) struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, NotARecord> {
        let text = str::from_utf8(bytes).map_err(|_| NotARecord::NotText)?;
        let field = |line: &'a str| line.split_once('=').ok_or_else(|| NotARecord::Line(line.to_owned()));
        text.lines().map(field).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn value<T: FromStr>(&self, name: &'static str) -> Result<T, NotARecord> {
        let value = self.0.get(name).ok_or(NotARecord::Missing(name))?;
        value.parse().map_err(|_| NotARecord::Value { name, value: (*value).to_owned() })
    }

    /// Values with commas between; none if there is nothing.
    pub(super) fn list<T: FromStr>(&self, name: &'static str) -> Result<Vec<T>, NotARecord> {
        let value: String = self.value(name)?;
        let items = value.split(',').filter(|_| !value.is_empty());
        let parsed: Result<_, _> = items.map(str::parse).collect();
        parsed.map_err(|_| NotARecord::Value { name, value: value.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_in_any_order() {
        let fields = Fields::of(b"b=2\nlater=unknown\na=x=y\nempty=\nlist=1,2\n").expect("a record");
        assert_eq!(fields.value::<u32>("b"), Ok(2));
        assert_eq!(fields.value::<String>("a"), Ok("x=y".to_owned()));
        assert_eq!(fields.list::<u8>("list"), Ok(vec![1, 2]));
        assert_eq!(fields.list::<u8>("empty"), Ok(vec![]));
        assert_eq!(fields.value::<u32>("c"), Err(NotARecord::Missing("c")));
        assert_eq!(fields.value::<u32>("a"), Err(NotARecord::Value { name: "a", value: "x=y".to_owned() }));
        assert_eq!(fields.list::<u8>("a"), Err(NotARecord::Value { name: "a", value: "x=y".to_owned() }));
    }

    #[test]
    fn what_is_no_text_of_fields_is_refused() {
        assert_eq!(Fields::of(b"\xFF").err(), Some(NotARecord::NotText));
        assert_eq!(Fields::of(b"a\n").err(), Some(NotARecord::Line("a".to_owned())));
    }

    #[test]
    #[should_panic(expected = "line break")]
    fn a_value_never_becomes_two_lines() {
        text(&[("address", &"a:1\nbroker=9")]);
    }
}
