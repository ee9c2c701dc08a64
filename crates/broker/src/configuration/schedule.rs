//! When retention runs: a Quartz cron expression, as in `0 0 6,18 * * ?`.
//!
//! Quartz's dialect: six or seven fields (second first, year last and optional), `?` for "any",
//! `N/step` from `N` to the field's end, weekdays from 1 = Sunday.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds};
use croner::{CivilDateTime, Cron, CronDateTime, Resolution, Weekday};
use jiff::tz::AmbiguousOffset;
use jiff::{SignedDuration, ZonedDateTime, civil};

/// A value of `deleteWhen`.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: String,
    cron: Arc<Cron>,
}

impl Schedule {
    /// The first moment after `after` that fits, on the wall clock of its time zone; none if there is
    /// none in the years a calendar has.
    pub fn next_after(&self, after: &ZonedDateTime) -> Option<ZonedDateTime> {
        self.cron.find_next_occurrence(&Moment(after.clone()), false).ok().map(|moment| moment.0)
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Two schedules are one if they are written alike.
impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text is no [`Schedule`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotASchedule {
    /// Not six or seven fields.
    #[error("a schedule has six or seven fields (second minute hour day month weekday year), not {0}")]
    Fields(usize),
    /// A field says what it can't.
    #[error("{0}")]
    Field(String),
}

impl FromStr for Schedule {
    type Err = NotASchedule;

    fn from_str(text: &str) -> Result<Self, NotASchedule> {
        let fields = text.split_whitespace().count();
        if !(6..=7).contains(&fields) {
            return Err(NotASchedule::Fields(fields));
        }
        CronParser::builder()
            .seconds(Seconds::Required)
            .alternative_weekdays(true)
            .build()
            .parse(&with_open_steps_closed(text))
            .map(|cron| Self { text: text.to_owned(), cron: Arc::new(cron) })
            .map_err(|error| NotASchedule::Field(sentence(error)))
    }
}

/// The greatest number of each field; Quartz's weekdays end with 7 = Saturday.
const FIELD_ENDS: [&str; 7] = ["59", "59", "23", "31", "12", "7", "2099"];

/// Rewrites Quartz's `N/step` to `N-end/step`, the form that the parser takes.
fn with_open_steps_closed(text: &str) -> String {
    let close = |item: &str, end: &str| match item.split_once('/') {
        Some((start, step)) if start.bytes().all(|b| b.is_ascii_digit()) && !start.is_empty() => {
            format!("{start}-{end}/{step}")
        }
        _ => item.to_owned(),
    };
    let field =
        |(field, end): (&str, &str)| field.split(',').map(|item| close(item, end)).collect::<Vec<_>>().join(",");
    text.split_whitespace().zip(FIELD_ENDS).map(field).collect::<Vec<_>>().join(" ")
}

/// The parser's reason, without the names of its own types.
fn sentence(error: CronError) -> String {
    match error {
        CronError::InvalidPattern(reason)
        | CronError::IllegalCharacters(reason)
        | CronError::ComponentError(reason) => reason,
        other => other.to_string(),
    }
}

/// A moment with its time zone, as the search over a calendar needs it.
#[derive(Clone)]
struct Moment(ZonedDateTime);

/// A part of a date or time, which both libraries keep within a byte.
fn part<N: TryInto<i8>>(number: N) -> Result<i8, CronError> {
    number.try_into().map_err(|_| CronError::InvalidTime)
}

impl CronDateTime for Moment {
    fn to_civil(&self) -> CivilDateTime {
        let [month, day, hour, minute, second] =
            [self.0.month(), self.0.day(), self.0.hour(), self.0.minute(), self.0.second()]
                .map(|part| u32::from(part.unsigned_abs()));
        CivilDateTime::from_ymd_hms(i32::from(self.0.year()), month, day, hour, minute, second)
            .expect("both libraries keep the same calendar")
    }

    fn civil_weekday(&self) -> Weekday {
        match self.0.weekday() {
            civil::Weekday::Sunday => Weekday::Sunday,
            civil::Weekday::Monday => Weekday::Monday,
            civil::Weekday::Tuesday => Weekday::Tuesday,
            civil::Weekday::Wednesday => Weekday::Wednesday,
            civil::Weekday::Thursday => Weekday::Thursday,
            civil::Weekday::Friday => Weekday::Friday,
            civil::Weekday::Saturday => Weekday::Saturday,
        }
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let year = i16::try_from(civil.year()).map_err(|_| CronError::InvalidDate)?;
        let date =
            civil::Date::new(year, part(civil.month())?, part(civil.day())?).map_err(|_| CronError::InvalidDate)?;
        let wall = date.at(part(civil.hour())?, part(civil.minute())?, part(civil.second())?, 0);
        let here = self.0.time_zone().to_ambiguous_zoned_datetime(wall);
        let moment = |zoned: Result<ZonedDateTime, jiff::Error>| zoned.map(Moment).map_err(|_| CronError::InvalidTime);
        match here.offset() {
            AmbiguousOffset::Gap { .. } => Ok(Resolution::Gap),
            AmbiguousOffset::Unambiguous { .. } => Ok(Resolution::Single(moment(here.unambiguous())?)),
            AmbiguousOffset::Fold { .. } => {
                Ok(Resolution::Ambiguous(moment(here.clone().earlier())?, moment(here.later())?))
            }
        }
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Moment)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: &str, after: &str, next: &[&str]) {
        let schedule: Schedule = schedule.parse().expect(schedule);
        let mut moment: ZonedDateTime = after.parse().expect(after);
        for expected in next {
            moment = schedule.next_after(&moment).expect(expected);
            assert_eq!(moment, expected.parse::<ZonedDateTime>().expect(expected), "{schedule}");
        }
    }

    #[test]
    fn the_default_of_the_original_fires_at_six_and_at_eighteen() {
        check(
            "0 0 6,18 * * ?",
            "2026-03-01T05:59:59[UTC]",
            &["2026-03-01T06:00:00[UTC]", "2026-03-01T18:00:00[UTC]", "2026-03-02T06:00:00[UTC]"],
        );
    }

    #[test]
    fn a_start_with_a_step_runs_to_the_end_of_its_field() {
        check(
            "0 10/25 * * * ?",
            "2026-03-01T05:00:00[UTC]",
            &["2026-03-01T05:10:00[UTC]", "2026-03-01T05:35:00[UTC]", "2026-03-01T06:10:00[UTC]"],
        );
        check("*/20 * * * * ?", "2026-03-01T05:00:01[UTC]", &["2026-03-01T05:00:20[UTC]"]);
        check("0 0 0 1/10,5 * ?", "2026-03-02T00:00:00[UTC]", &["2026-03-05T00:00:00[UTC]"]);
    }

    #[test]
    fn weekdays_count_from_sunday_as_one() {
        let sunday = "2026-03-01T03:00:00[UTC]";
        check("0 0 3 ? * 1", "2026-02-28T12:00:00[UTC]", &[sunday]);
        check("0 0 3 ? * SUN", "2026-02-28T12:00:00[UTC]", &[sunday]);
        check("0 0 3 ? * 2-6", "2026-02-28T12:00:00[UTC]", &["2026-03-02T03:00:00[UTC]"]);
        check("0 0 3 ? * 7", sunday, &["2026-03-07T03:00:00[UTC]"]);
    }

    #[test]
    fn last_days_and_years_are_understood() {
        check("0 0 0 L * ?", "2026-02-01T00:00:00[UTC]", &["2026-02-28T00:00:00[UTC]"]);
        check("0 0 0 1 1 ? 2030", "2026-02-01T00:00:00[UTC]", &["2030-01-01T00:00:00[UTC]"]);
    }

    #[test]
    fn it_fires_by_the_wall_clock_of_the_time_zone() {
        check("0 0 6 * * ?", "2026-03-28T07:00:00+01:00[Europe/Berlin]", &["2026-03-29T06:00:00+02:00[Europe/Berlin]"]);
        // 02:30 doesn't happen that day: it fires when the clock has gone forward.
        check(
            "0 30 2 * * ?",
            "2026-03-28T07:00:00+01:00[Europe/Berlin]",
            &["2026-03-29T03:00:00+02:00[Europe/Berlin]"],
        );
    }

    #[test]
    fn a_schedule_of_the_past_never_fires() {
        let schedule: Schedule = "0 0 0 1 1 ? 2020".parse().expect("a schedule");
        assert_eq!(schedule.next_after(&"2026-02-01T00:00:00[UTC]".parse().expect("a time")), None);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_its_reason() {
        assert_eq!("".parse::<Schedule>(), Err(NotASchedule::Fields(0)));
        assert_eq!("0 6 * * ?".parse::<Schedule>(), Err(NotASchedule::Fields(5)));
        assert_eq!("@daily".parse::<Schedule>(), Err(NotASchedule::Fields(1)));
        for text in ["0 0 24 * * ?", "0 60 * * * ?", "0 0 6 * * MOO", "0 0/0 * * * ?", "x 0 6 * * ?"] {
            assert!(matches!(text.parse::<Schedule>(), Err(NotASchedule::Field(_))), "{text}");
        }
    }
}
