//! `topic` and `partition`: what exists, and its changes. Whatever is deleted is named twice.

use super::{Fields, Read, partition};
use crate::line::{LineWriter, Unencodable, Words, text};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// What to do with topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicCommand<'a> {
    /// `topic list`
    List,
    /// `topic describe <topic>`
    Describe {
        /// Which.
        topic: Cow<'a, str>,
    },
    /// `topic create <topic> [<key>=<value> …]`
    Create {
        /// Its name.
        topic: Cow<'a, str>,
        /// What differs from the defaults.
        settings: Settings<'a>,
    },
    /// `topic alter <topic> <key>=<value> …`
    Alter {
        /// Which.
        topic: Cow<'a, str>,
        /// What changes; at least one.
        settings: Settings<'a>,
    },
    /// `topic delete <topic> confirm=<topic>`
    Delete {
        /// Which.
        topic: Cow<'a, str>,
    },
}

/// What to do with partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCommand<'a> {
    /// Close, open or delete.
    pub act: PartitionAct,
    /// Of which topic.
    pub topic: Cow<'a, str>,
    /// Which indexes: `<from>` or `<from>-<to>`.
    pub partitions: RangeInclusive<i32>,
}

/// What is done with each partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionAct {
    /// Puts and gets are answered 403.
    Close,
    /// As before.
    Open,
    /// It and its messages are gone; needs `confirm=<topic>`.
    Delete,
}

/// `<key>=<value>` words, checked when the line was read: each has a key. Equal if keys and values are.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a>(&'a [u8]);

const TOPIC_USAGE: &str = "write topic list, describe <topic>, create <topic> [<key>=<value> ...], alter <topic> <key>=<value> ... \
    or delete <topic> confirm=<topic>, and an opaque";
const PARTITION_USAGE: &str = "write partition close, open or delete, <topic> <from>[-<to>] [confirm=<topic>] and an opaque; \
    delete needs the confirmation";

impl<'a> TopicCommand<'a> {
    pub(super) fn of(words: &Words<'a>) -> Read<Self> {
        let fields = Fields::of(words, TOPIC_USAGE).counted(3..=usize::MAX)?;
        let some = fields.counted(4..=usize::MAX);
        match fields.bytes(1)? {
            b"list" => fields.counted(3..=3).map(|_| TopicCommand::List),
            b"describe" => Ok(TopicCommand::Describe { topic: fields.counted(4..=4)?.name(2)? }),
            b"create" => Ok(TopicCommand::Create { topic: some?.name(2)?, settings: Settings::of(words.between(3))? }),
            b"alter" => {
                let settings = Settings::of(words.between(3))?;
                Ok(TopicCommand::Alter { topic: fields.counted(5..=usize::MAX)?.name(2)?, settings })
            }
            b"delete" => {
                let topic = fields.counted(5..=5)?.name(2)?;
                fields.confirmed(3, &topic)?;
                Ok(TopicCommand::Delete { topic })
            }
            _ => Err(TOPIC_USAGE),
        }
    }

    /// Appends the request.
    pub fn encode(&self, opaque: i32, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let line = LineWriter::begin(out, "topic");
        match self {
            TopicCommand::List => line.literal("list"),
            TopicCommand::Describe { topic } => line.literal("describe").name("topic", topic),
            TopicCommand::Create { topic, settings } => settings.write(line.literal("create").name("topic", topic)),
            TopicCommand::Alter { settings, .. } if settings.is_empty() => {
                line.refuse(Unencodable::Meaning("settings"))
            }
            TopicCommand::Alter { topic, settings } => settings.write(line.literal("alter").name("topic", topic)),
            TopicCommand::Delete { topic } => {
                line.literal("delete").name("topic", topic).literal("confirm=").joined("topic", topic)
            }
        }
        .number(opaque)
        .end(&[])
    }
}

impl<'a> PartitionCommand<'a> {
    pub(super) fn of(words: &Words<'a>) -> Read<Self> {
        let fields = Fields::of(words, PARTITION_USAGE).counted(5..=6)?;
        let act = match fields.bytes(1)? {
            b"close" => PartitionAct::Close,
            b"open" => PartitionAct::Open,
            b"delete" => PartitionAct::Delete,
            _ => return Err(PARTITION_USAGE),
        };
        let topic = fields.name(2)?;
        if act == PartitionAct::Delete || words.count() == 6 {
            fields.counted(6..=6)?.confirmed(4, &topic)?;
        }
        Ok(PartitionCommand { act, topic, partitions: range(fields.bytes(3)?)? })
    }

    /// Appends the request.
    pub fn encode(&self, opaque: i32, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let (from, to) = (*self.partitions.start(), *self.partitions.end());
        let act = match self.act {
            PartitionAct::Close => "close",
            PartitionAct::Open => "open",
            PartitionAct::Delete => "delete",
        };
        let line = LineWriter::begin(out, "partition").literal(act).name("topic", &self.topic).number(from);
        let line = if from < 0 || to < from { line.refuse(Unencodable::Meaning("partitions")) } else { line };
        line.when(to > from, |line| line.joined("partitions", "-").joined_number(to))
            .when(self.act == PartitionAct::Delete, |line| line.literal("confirm=").joined("topic", &self.topic))
            .number(opaque)
            .end(&[])
    }
}

/// `<from>` or `<from>-<to>`.
fn range(word: &[u8]) -> Read<RangeInclusive<i32>> {
    let (from, to) = match word.iter().position(|&byte| byte == b'-') {
        Some(dash) => (partition(&word[..dash])?, partition(&word[dash + 1..])?),
        None => (partition(word)?, partition(word)?),
    };
    if from > to { Err("a range of partitions goes upward: 2-5") } else { Ok(from..=to) }
}

impl PartialEq for Settings<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Settings<'_> {}

impl<'a> Settings<'a> {
    /// No settings.
    pub const NONE: Settings<'static> = Settings(&[]);

    fn of(text: &'a [u8]) -> Read<Self> {
        let settings = Settings(text);
        let usage = "a setting is <key>=<value>, with no space";
        if settings.words().all(|word| matches!(word.iter().position(|&byte| byte == b'='), Some(1..))) {
            Ok(settings)
        } else {
            Err(usage)
        }
    }

    /// Builds the words of some settings in `text`, and borrows it.
    pub fn build<'s>(
        text: &'a mut Vec<u8>,
        settings: impl IntoIterator<Item = (&'s str, &'s str)>,
    ) -> Result<Self, Unencodable> {
        text.clear();
        for (key, value) in settings {
            let one_word = |text: &str| memchr::memchr3(b' ', b'\r', b'\n', text.as_bytes()).is_none();
            if key.is_empty() || key.contains('=') || !one_word(key) || !one_word(value) {
                return Err(Unencodable::Word("setting"));
            }
            if !text.is_empty() {
                text.push(b' ');
            }
            text.extend_from_slice(key.as_bytes());
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
        }
        Ok(Settings(text))
    }

    fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.split(|&byte| byte == b' ').take(if self.0.is_empty() { 0 } else { usize::MAX })
    }

    /// Key and value of each, in order; a key may come twice.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.words().map(|word| {
            let equals = word.iter().position(|&byte| byte == b'=').expect("checked when the line was read");
            (text(&word[..equals]), text(&word[equals + 1..]))
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn write<'o>(&self, line: LineWriter<'o>) -> LineWriter<'o> {
        self.words().fold(line, |line, word| line.name("setting", &text(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_invalid, decode};
    use super::*;
    use crate::request::Request;

    #[test]
    fn topic_commands_are_their_lines() {
        let topic = || "t".into();
        let mut text = Vec::new();
        let settings = Settings::build(&mut text, [("numPartitions", "4"), ("dataPath", ""), ("x", "a=b")]).unwrap();
        let read: Vec<_> = settings.iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        assert_eq!(
            read,
            [("numPartitions", "4"), ("dataPath", ""), ("x", "a=b")].map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        for (line, command) in [
            ("topic list 5\r\n", TopicCommand::List),
            ("topic describe t 5\r\n", TopicCommand::Describe { topic: topic() }),
            ("topic create t 5\r\n", TopicCommand::Create { topic: topic(), settings: Settings::NONE }),
            ("topic create t numPartitions=4 dataPath= x=a=b 5\r\n", TopicCommand::Create { topic: topic(), settings }),
            ("topic alter t numPartitions=4 dataPath= x=a=b 5\r\n", TopicCommand::Alter { topic: topic(), settings }),
            ("topic delete t confirm=t 5\r\n", TopicCommand::Delete { topic: topic() }),
        ] {
            check(line, Request::Topic { opaque: 5, command }, line);
        }
        check_invalid(
            5,
            &[
                "topic 5\r\n",
                "topic list x 5\r\n",
                "topic describe 5\r\n",
                "topic describe a b 5\r\n",
                "topic create 5\r\n",
                "topic create t partitions 5\r\n",
                "topic create t =4 5\r\n",
                "topic create t a=1  b=2 5\r\n",
                "topic create  a=1 5\r\n",
                "topic alter t 5\r\n",
                "topic delete t 5\r\n",
                "topic delete t confirm=u 5\r\n",
                "topic delete t t 5\r\n",
                "topic remove t 5\r\n",
            ],
        );
        assert_eq!(decode("topic list\r\n"), None);
        let alter = TopicCommand::Alter { topic: topic(), settings: Settings::NONE };
        assert_eq!(alter.encode(5, &mut Vec::new()), Err(Unencodable::Meaning("settings")));
    }

    #[test]
    fn partition_commands_are_their_lines() {
        for (line, act, partitions) in [
            ("partition close t 0 5\r\n", PartitionAct::Close, 0..=0),
            ("partition open t 2-7 5\r\n", PartitionAct::Open, 2..=7),
            ("partition delete t 2-7 confirm=t 5\r\n", PartitionAct::Delete, 2..=7),
        ] {
            let command = PartitionCommand { act, topic: "t".into(), partitions };
            check(line, Request::Partition { opaque: 5, command }, line);
        }
        check_invalid(
            5,
            &[
                "partition close t 5\r\n",
                "partition close t 7-2 5\r\n",
                "partition close t -1 5\r\n",
                "partition close t x 5\r\n",
                "partition close t 1-2-3 5\r\n",
                "partition close t 0 confirm=u 5\r\n",
                "partition delete t 0 5\r\n",
                "partition delete t 0 confirm= 5\r\n",
                "partition shut t 0 5\r\n",
            ],
        );
    }
}
