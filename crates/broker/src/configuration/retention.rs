//! How long sealed segments are kept and what becomes of them: `delete,168`, `archive,30m,true`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What becomes of an expired segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// It is deleted.
    Delete,
    /// It is renamed to `<name>.meta.arc`.
    Archive,
    /// It is packed into `<name>.meta.zip`.
    ArchiveZip,
}

/// A value of `deletePolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What becomes of a segment that is older than `age`.
    pub expired: Expired,
    /// How old a sealed segment may become; at most [`Retention::AGE_MAX`].
    pub age: Duration,
}

impl Retention {
    /// The greatest age: one hundred years of 365 days.
    pub const AGE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
}

/// Why a text is no [`Retention`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARetention {
    /// The first part is no known policy.
    #[error("it begins with delete or archive, as in delete,168 or archive,30m,true")]
    Policy,
    /// The age is missing, no number, or out of bounds.
    #[error("the age {0:?} isn't a whole number of hours, or of s, m or h, of at most 100 years")]
    Age(String),
    /// A third part of `archive` that is neither `true` nor `false`.
    #[error("the third part of archive says whether to zip: true or false, not {0:?}")]
    Zip(String),
    /// More parts than the policy has.
    #[error("there is more behind it than {0} takes")]
    More(&'static str),
}

impl FromStr for Retention {
    type Err = NotARetention;

    fn from_str(text: &str) -> Result<Self, NotARetention> {
        let mut parts = text.split(',').map(str::trim);
        let policy = parts.next().unwrap_or_default();
        if !matches!(policy, "delete" | "archive") {
            return Err(NotARetention::Policy);
        }
        let age = age(parts.next().unwrap_or_default())?;
        let expired = match (policy, parts.next()) {
            ("delete", None) => Expired::Delete,
            ("delete", Some(_)) => return Err(NotARetention::More("delete")),
            (_, None | Some("false")) => Expired::Archive,
            (_, Some("true")) => Expired::ArchiveZip,
            (_, Some(other)) => return Err(NotARetention::Zip(other.to_owned())),
        };
        match parts.next() {
            None => Ok(Self { expired, age }),
            Some(_) => Err(NotARetention::More("archive")),
        }
    }
}

/// A whole number with `s`, `m` or `h`; without a letter, hours.
fn age(text: &str) -> Result<Duration, NotARetention> {
    let wrong = || NotARetention::Age(text.to_owned());
    let (number, seconds_each) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        _ => (text, 3600),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds_each).ok_or_else(wrong)?;
    let age = Duration::from_secs(seconds);
    if age > Retention::AGE_MAX { Err(wrong()) } else { Ok(age) }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.age.as_secs();
        let policy = match self.expired {
            Expired::Delete => "delete",
            Expired::Archive | Expired::ArchiveZip => "archive",
        };
        if seconds.is_multiple_of(3600) {
            write!(f, "{policy},{}", seconds / 3600)?;
        } else if seconds.is_multiple_of(60) {
            write!(f, "{policy},{}m", seconds / 60)?;
        } else {
            write!(f, "{policy},{seconds}s")?;
        }
        match self.expired {
            Expired::ArchiveZip => f.write_str(",true"),
            Expired::Delete | Expired::Archive => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expired: Expired, seconds: u64) {
        let retention: Retention = text.parse().expect(text);
        assert_eq!(retention, Retention { expired, age: Duration::from_secs(seconds) }, "{text}");
        assert_eq!(retention.to_string().parse(), Ok(retention), "{text}");
    }

    #[test]
    fn an_age_without_a_letter_is_hours() {
        check("delete,168", Expired::Delete, 168 * 3600);
        check("delete,0", Expired::Delete, 0);
    }

    #[test]
    fn ages_take_seconds_minutes_and_hours() {
        check("delete,90s", Expired::Delete, 90);
        check("archive,30m", Expired::Archive, 1800);
        check("archive, 2h ,false", Expired::Archive, 7200);
    }

    #[test]
    fn archives_are_zipped_when_the_third_part_says_true() {
        check("archive,1,true", Expired::ArchiveZip, 3600);
    }

    #[test]
    fn what_is_no_policy_is_refused_with_its_reason() {
        use NotARetention::*;
        let age = |text: &str| Age(text.to_owned());
        for (text, why) in [
            ("", Policy),
            ("keep,1", Policy),
            ("delete", age("")),
            ("delete,", age("")),
            ("delete,-1", age("-1")),
            ("delete,+1", age("+1")),
            ("delete,1d", age("1d")),
            ("delete,s", age("s")),
            ("delete,876001", age("876001")),
            ("delete,99999999999999999999", age("99999999999999999999")),
            ("delete,18446744073709551615h", age("18446744073709551615h")),
            ("delete,1,true", More("delete")),
            ("archive,1,yes", Zip("yes".to_owned())),
            ("archive,1,true,x", More("archive")),
        ] {
            assert_eq!(text.parse::<Retention>(), Err(why), "{text}");
        }
        assert!("delete,876000".parse::<Retention>().is_ok());
    }
}
