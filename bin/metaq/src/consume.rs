//! `metaq consume` and `metaq tail`: messages come out.

use crate::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::message::{DIRECTIVES, Format, Message};
use crate::offsets;
use crate::output::{self, Form};
use crate::partitions::{self, Bounds};
use crate::reader::{Cursor, Reader, Sink, last_messages};
use crate::wire::{Reply, Wire};
use metaq_protocol::Request;
use metaq_protocol::extension::OffsetsCommand;
use metaq_protocol::record::Found;
use metaq_protocol::request::{Get, Wait};
use std::collections::HashMap;
use std::str::FromStr;

/// The group that is named to the broker if nobody names one.
const NOBODY: &str = "metaq-cli";
/// Bytes before a partition's end that are looked at first for its last messages.
const TAIL_BYTES: i64 = 64 << 10;
/// The most bytes that are looked at for them.
const TAIL_BYTES_MAX: i64 = 64 << 20;

/// How messages are printed.
#[derive(Debug, clap::Args)]
struct Printing {
    /// What to print of each message
    #[arg(long, value_name = "FORMAT", env = "METAQ_FORMAT", default_value = "%s\\n")]
    format: Format,
    /// Ends after so many messages
    #[arg(long, value_name = "N", env = "METAQ_COUNT")]
    count: Option<u64>,
    /// Of this partition only
    #[arg(long, value_name = "INDEX", env = "METAQ_PARTITION")]
    partition: Option<i32>,
}

/// The arguments of `metaq consume`.
#[derive(Debug, clap::Args)]
#[command(after_help = CONSUME, after_long_help = format!("{CONSUME}\n\n{DIRECTIVES}"))]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    /// From which topic
    topic: String,
    /// Where to begin: earliest, latest, a position, or a time as 2026-11-30T18:00 (yours) or 2026-11-30T18:00:00Z
    #[arg(long, value_name = "WHERE", env = "METAQ_FROM", default_value = "earliest")]
    from: From,
    /// Goes on when the end is reached, as messages come
    #[arg(short, long, env = "METAQ_FOLLOW", value_parser = clap::builder::BoolishValueParser::new())]
    follow: bool,
    /// Begins where this group ended, and says to the broker how far it has come, after printing
    #[arg(long, value_name = "GROUP", env = "METAQ_GROUP")]
    group: Option<String>,
    #[command(flatten)]
    printing: Printing,
}

const CONSUME: &str = "\
Examples:
  metaq consume orders
  metaq consume orders --partition 0 --from 4096 --count 10
  metaq consume orders --from 2026-11-30T18:00 --count 10
  metaq consume orders --group billing --follow
  metaq consume orders --format '%p %o %i %a %s\\n'
  metaq consume orders -o json | jq .payload";

/// The arguments of `metaq tail`.
#[derive(Debug, clap::Args)]
#[command(after_help = TAIL, after_long_help = format!("{TAIL}\n\n{DIRECTIVES}"))]
pub struct TailArguments {
    #[command(flatten)]
    connection: Connection,
    /// Of which topic
    topic: String,
    /// So many messages of each partition
    #[arg(short = 'n', long, value_name = "N", env = "METAQ_LINES", default_value_t = 10)]
    lines: usize,
    /// Goes on as messages come
    #[arg(short, long, env = "METAQ_FOLLOW", value_parser = clap::builder::BoolishValueParser::new())]
    follow: bool,
    #[command(flatten)]
    printing: Printing,
}

const TAIL: &str = "\
Examples:
  metaq tail orders
  metaq tail orders -n 0 -f
  metaq tail orders -n 1 --format '%p %o %T %s\\n'";

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Earliest,
    Latest,
    Position(i64),
    /// Milliseconds since 1970.
    Time(u64),
}

/// Milliseconds since 1970 of a time with an offset, or of a date and time here.
fn time(text: &str) -> Option<u64> {
    let here = || jiff::tz::TimeZone::system().to_timestamp(text.parse().ok()?).ok();
    let time = text.parse::<jiff::Timestamp>().ok().or_else(here)?;
    u64::try_from(time.as_millisecond()).ok()
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(From::Earliest),
            "latest" => Ok(From::Latest),
            position => {
                let position = position.parse().ok().filter(|position| *position >= 0).map(From::Position);
                position.or_else(|| time(text).map(From::Time)).ok_or_else(|| {
                    "it is earliest, latest, a position (the bytes before a message in its partition), or a time as \
                     2026-11-30T18:00 or 2026-11-30T18:00:00Z"
                        .to_owned()
                })
            }
        }
    }
}

/// Runs `metaq consume`.
pub fn run(arguments: &Arguments) -> Outcome {
    let Arguments { connection, topic, from, follow, group, printing } = arguments;
    let mut wire = connection.connect()?;
    let partitions::Known { existing: all, expected } = partitions::of(&mut wire, topic, printing.partition)?;
    if matches!(from, From::Position(_)) && expected > 1 {
        return Err(Failure::usage("a position is one of a partition: name it with --partition"));
    }
    if let (From::Position(position), [only]) = (from, &all[..])
        && *position > only.end
    {
        let text = format!("partition {} of topic {topic} ends at {}, before {position}", only.index, only.end);
        return Err(Failure::new(Exit::NotFound, text));
    }
    let kept = group.as_deref().map(|group| kept(&mut wire, group, topic)).transpose()?.unwrap_or_default();
    let mut cursors = Vec::new();
    for bounds in all {
        let from = match (kept.get(&bounds.index), from) {
            (Some(kept), _) => *kept,
            (None, From::Earliest) => bounds.first,
            (None, From::Latest) => bounds.end,
            (None, From::Position(position)) => *position,
            (None, From::Time(time)) => crate::offsets::locate(&mut wire, topic, bounds.index, *time)?,
        };
        cursors.push(Cursor::new(bounds, from, *follow));
    }
    let mut printer = Printer::new(topic, connection.output, printing, group.as_deref());
    read(&mut wire, cursors, *follow, &mut printer)
}

/// Runs `metaq tail`.
pub fn tail(arguments: &TailArguments) -> Outcome {
    let TailArguments { connection, topic, lines, follow, printing } = arguments;
    let mut wire = connection.connect()?;
    let mut cursors = Vec::new();
    for bounds in partitions::of(&mut wire, topic, printing.partition)?.existing {
        let from = tail_position(&mut wire, topic, bounds, *lines)?;
        cursors.push(Cursor::new(bounds, from, *follow));
    }
    let mut printer = Printer::new(topic, connection.output, printing, None);
    read(&mut wire, cursors, *follow, &mut printer)
}

fn read(wire: &mut Wire, mut cursors: Vec<Cursor>, follow: bool, printer: &mut Printer<'_>) -> Outcome {
    if printer.rest == Some(0) {
        return Ok(());
    }
    let group = printer.group.unwrap_or(NOBODY).to_owned();
    let mut reader = Reader::new(wire, printer.topic, &group);
    if follow { reader.follow(&mut cursors, printer.partition, printer) } else { reader.read(&mut cursors, printer) }
}

/// Positions that the broker keeps for a group, by partition.
fn kept(wire: &mut Wire, group: &str, topic: &str) -> Result<HashMap<i32, i64>, Failure> {
    let lines = match offsets::fetch(wire, group, Some(topic)) {
        Ok(lines) => lines,
        Err(failure) if failure.exit == Exit::NotFound => return Ok(HashMap::new()),
        Err(failure) => return Err(failure),
    };
    let one = |line: &metaq_broker::lines::Fields| {
        let index = line.value("partition")?.rsplit('-').next()?.parse().ok()?;
        Some((index, line.value("position")?.parse().ok()?))
    };
    Ok(lines.iter().filter_map(one).collect())
}

/// Where the last `count` messages of a partition begin.
fn tail_position(wire: &mut Wire, topic: &str, bounds: Bounds, count: usize) -> Result<i64, Failure> {
    if count == 0 {
        return Ok(bounds.end);
    }
    let mut back = TAIL_BYTES;
    loop {
        let from = bounds.first.max(bounds.end - back);
        let bytes = bytes(wire, topic, bounds.index, from..bounds.end)?;
        let found = last_messages(&bytes, count).unwrap_or_default();
        let enough = found.len() >= count || from == bounds.first || back >= TAIL_BYTES_MAX;
        match found.first() {
            Some(first) if enough => return Ok(from + i64::try_from(*first).expect("below 2 GiB")),
            None if enough => return Ok(bounds.end),
            _ => back *= 4,
        }
    }
}

/// All bytes of a range, or as many as there are.
fn bytes(wire: &mut Wire, topic: &str, index: i32, range: std::ops::Range<i64>) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let size = i32::try_from(range.end - at).unwrap_or(i32::MAX);
        let (topic, group) = (topic.into(), NOBODY.into());
        let reply = wire.ask(|opaque| {
            Request::Get(Get { topic, group, partition: index, position: at, size, opaque, wait: Wait::default() })
        })?;
        match reply {
            Reply::Value(some) => {
                at += i64::try_from(some.len()).expect("below 2 GiB");
                all.extend_from_slice(&some);
            }
            // The segment ends there, or was removed.
            Reply::Text { code: 301 | 404, .. } => break,
            other => return Err(other.failure(&format!("partition {index}"))),
        }
    }
    Ok(all)
}

/// Prints messages, and tells the broker how far its group has come.
struct Printer<'a> {
    topic: &'a str,
    form: Form,
    format: &'a Format,
    group: Option<&'a str>,
    partition: Option<i32>,
    rest: Option<u64>,
    out: Vec<u8>,
}

impl<'a> Printer<'a> {
    fn new(topic: &'a str, form: Form, printing: &'a Printing, group: Option<&'a str>) -> Self {
        let Printing { format, count, partition } = printing;
        Self { topic, form, format, group, partition: *partition, rest: *count, out: Vec::new() }
    }
}

impl Sink for Printer<'_> {
    fn take(&mut self, partition: i32, position: i64, found: Found<'_>) -> Result<bool, Failure> {
        let message = Message { topic: self.topic, partition, position, found };
        match self.form {
            Form::Table => message.format(self.format, &mut self.out),
            Form::Json => message.json(&mut self.out),
        }
        self.rest = self.rest.map(|rest| rest - 1);
        Ok(self.rest != Some(0))
    }

    fn taken(&mut self, wire: &mut Wire, partition: i32, position: i64, id: i64) -> Result<(), Failure> {
        output::bytes(&self.out)?;
        self.out.clear();
        let Some(group) = self.group else { return Ok(()) };
        let (group, topic) = (group.into(), self.topic.into());
        let command = OffsetsCommand::Commit { group, topic, partition, position, id: Some(id) };
        wire.text("offsets commit", |opaque| Request::Offsets { opaque, command }).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_word_or_a_position() {
        assert_eq!("earliest".parse(), Ok(From::Earliest));
        assert_eq!("latest".parse(), Ok(From::Latest));
        assert_eq!("4096".parse(), Ok(From::Position(4096)));
        assert_eq!("2026-01-01T00:00:01Z".parse(), Ok(From::Time(1_767_225_601_000)));
        assert!(matches!("2026-01-01T00:00".parse(), Ok(From::Time(_))));
        for wrong in ["-1", "begin", "", "2026-13-01"] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
    }
}
