//! `offsets`: how far groups have read, kept by the broker.

use super::{Fields, Read};
use crate::line::{LineWriter, Unencodable, Words};
use crate::number::parse_i64;
use std::borrow::Cow;

/// What to do with the positions of groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetsCommand<'a> {
    /// `offsets commit <group> <topic> <partition> <position> <id>|-`
    Commit {
        /// Whose.
        group: Cow<'a, str>,
        /// Of which topic.
        topic: Cow<'a, str>,
        /// Index.
        partition: i32,
        /// The first byte that isn't done.
        position: i64,
        /// The last message that is done, if it is known.
        id: Option<i64>,
    },
    /// `offsets fetch <group> [<topic> [<partition>]]`
    Fetch {
        /// Whose.
        group: Cow<'a, str>,
        /// Of one topic only.
        topic: Option<Cow<'a, str>>,
        /// Of one partition of that topic only.
        partition: Option<i32>,
    },
    /// `offsets delete <group> <topic>|* confirm=<group>`
    Delete {
        /// Whose.
        group: Cow<'a, str>,
        /// Of one topic only; `*` is all.
        topic: Option<Cow<'a, str>>,
    },
    /// `offsets copy <group> <topic> <partition> <topic> <partition>`
    Copy {
        /// Whose.
        group: Cow<'a, str>,
        /// From which topic.
        from_topic: Cow<'a, str>,
        /// From which partition.
        from_partition: i32,
        /// To which topic.
        to_topic: Cow<'a, str>,
        /// To which partition.
        to_partition: i32,
    },
    /// `offsets list`: the groups.
    List,
    /// `offsets locate <topic> <partition> <time>`: where messages of that time begin.
    Locate {
        /// Of which topic.
        topic: Cow<'a, str>,
        /// Index.
        partition: i32,
        /// Milliseconds since 1970, by the broker's clock.
        time_ms: u64,
    },
}

const USAGE: &str = "write offsets list, commit <group> <topic> <partition> <position> <id or ->, fetch <group> [<topic> [<partition>]], \
    delete <group> <topic or *> confirm=<group>, copy <group> <topic> <partition> <topic> <partition> \
    or locate <topic> <partition> <milliseconds since 1970>, and an opaque";

impl<'a> OffsetsCommand<'a> {
    pub(super) fn of(words: &Words<'a>) -> Read<Self> {
        let fields = Fields::of(words, USAGE).counted(3..=8)?;
        match fields.bytes(1)? {
            b"commit" => {
                let fields = fields.counted(8..=8)?;
                let id = match fields.bytes(6)? {
                    b"-" => None,
                    id => Some(parse_i64(id).ok_or("the id of a message is a number, or - if it isn't known")?),
                };
                let (partition, position) = (fields.partition(4)?, fields.position(5)?);
                Ok(OffsetsCommand::Commit { group: fields.name(2)?, topic: fields.name(3)?, partition, position, id })
            }
            b"fetch" => {
                let fields = fields.counted(4..=6)?;
                let topic = (words.count() >= 5).then(|| fields.name(3)).transpose()?;
                let partition = (words.count() == 6).then(|| fields.partition(4)).transpose()?;
                Ok(OffsetsCommand::Fetch { group: fields.name(2)?, topic, partition })
            }
            b"delete" => {
                let fields = fields.counted(6..=6)?;
                let group = fields.name(2)?;
                fields.confirmed(4, &group)?;
                Ok(OffsetsCommand::Delete { group, topic: Some(fields.name(3)?).filter(|topic| topic != "*") })
            }
            b"copy" => {
                let fields = fields.counted(8..=8)?;
                Ok(OffsetsCommand::Copy {
                    group: fields.name(2)?,
                    from_topic: fields.name(3)?,
                    from_partition: fields.partition(4)?,
                    to_topic: fields.name(5)?,
                    to_partition: fields.partition(6)?,
                })
            }
            b"locate" => {
                let fields = fields.counted(6..=6)?;
                let time_ms = parse_i64(fields.bytes(4)?).and_then(|time| u64::try_from(time).ok());
                Ok(OffsetsCommand::Locate {
                    topic: fields.name(2)?,
                    partition: fields.partition(3)?,
                    time_ms: time_ms.ok_or("a time is a number of milliseconds since 1970")?,
                })
            }
            b"list" => fields.counted(3..=3).map(|_| OffsetsCommand::List),
            _ => Err(USAGE),
        }
    }

    /// Appends the request.
    pub fn encode(&self, opaque: i32, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "offsets");
        match self {
            OffsetsCommand::Commit { group, topic, partition, position, id } => {
                let line = line
                    .literal("commit")
                    .name("group", group)
                    .name("topic", topic)
                    .number(*partition)
                    .number(*position);
                match id {
                    Some(id) => line.number(*id),
                    None => line.literal("-"),
                }
            }
            OffsetsCommand::Fetch { topic: None, partition: Some(_), .. } => {
                line.refuse(Unencodable::Meaning("partition"))
            }
            OffsetsCommand::Fetch { group, topic, partition } => {
                let line = line.literal("fetch").name("group", group);
                let line = topic.iter().fold(line, |line, topic| line.name("topic", topic));
                partition.iter().fold(line, |line, partition| line.number(*partition))
            }
            OffsetsCommand::Delete { group, topic } => line
                .literal("delete")
                .name("group", group)
                .name("topic", topic.as_deref().unwrap_or("*"))
                .literal("confirm=")
                .joined("group", group),
            OffsetsCommand::Copy { group, from_topic, from_partition, to_topic, to_partition } => line
                .literal("copy")
                .name("group", group)
                .name("topic", from_topic)
                .number(*from_partition)
                .name("topic", to_topic)
                .number(*to_partition),
            OffsetsCommand::List => line.literal("list"),
            OffsetsCommand::Locate { topic, partition, time_ms } => {
                line.literal("locate").name("topic", topic).number(*partition).number(*time_ms)
            }
        }
        .number(opaque)
        .end(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_invalid};
    use super::*;
    use crate::request::Request;

    #[test]
    fn offsets_commands_are_their_lines() {
        let (group, topic) = (|| "g".into(), || "t".into());
        let commit =
            |position, id| OffsetsCommand::Commit { group: group(), topic: topic(), partition: 3, position, id };
        let fetch = |topic, partition| OffsetsCommand::Fetch { group: group(), topic, partition };
        let copy = OffsetsCommand::Copy {
            group: group(),
            from_topic: topic(),
            from_partition: 1,
            to_topic: "u".into(),
            to_partition: 2,
        };
        for (line, command) in [
            ("offsets commit g t 3 25 - 5\r\n", commit(25, None)),
            ("offsets commit g t 3 25 -99 5\r\n", commit(25, Some(-99))),
            ("offsets fetch g 5\r\n", fetch(None, None)),
            ("offsets fetch g t 5\r\n", fetch(Some(topic()), None)),
            ("offsets fetch g t 0 5\r\n", fetch(Some(topic()), Some(0))),
            ("offsets delete g t confirm=g 5\r\n", OffsetsCommand::Delete { group: group(), topic: Some(topic()) }),
            ("offsets delete g * confirm=g 5\r\n", OffsetsCommand::Delete { group: group(), topic: None }),
            ("offsets copy g t 1 u 2 5\r\n", copy),
            ("offsets list 5\r\n", OffsetsCommand::List),
            (
                "offsets locate t 1 1700000000000 5\r\n",
                OffsetsCommand::Locate { topic: topic(), partition: 1, time_ms: 1_700_000_000_000 },
            ),
        ] {
            check(line, Request::Offsets { opaque: 5, command }, line);
        }
        check_invalid(
            5,
            &[
                "offsets 5\r\n",
                "offsets commit g t 3 25 5\r\n",
                "offsets commit g t 3 -25 - 5\r\n",
                "offsets commit g t -3 25 - 5\r\n",
                "offsets commit g t 3 25 x 5\r\n",
                "offsets commit  t 3 25 - 5\r\n",
                "offsets fetch 5\r\n",
                "offsets fetch g t x 5\r\n",
                "offsets fetch g t 1 2 5\r\n",
                "offsets delete g t 5\r\n",
                "offsets delete g t confirm=t 5\r\n",
                "offsets copy g t 1 u 5\r\n",
                "offsets locate t 1 -4 5\r\n",
                "offsets locate t 1 yesterday 5\r\n",
                "offsets list g 5\r\n",
                "offsets reset g 5\r\n",
            ],
        );
    }
}
