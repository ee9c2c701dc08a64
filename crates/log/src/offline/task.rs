//! What is being done to partition folders, written down before it begins so that it can be finished after a crash.
//!
//! While it is, `metaq.format` stands under another name: a broker refuses a directory with a checkpoint and without it.

use super::{Directory, OfflineError};
use crate::checkpoint::{read_whole, replace};
use crate::format;
use crate::recovery::doing;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;

/// Name of the file in the log path, as long as something is unfinished.
const NAME: &str = "metaq.unfinished";
/// Where `metaq.format` stands meanwhile.
const FORMAT_ASIDE: &str = "metaq.format.aside";

/// What is being done to partition folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Indexes of a topic's partitions change.
    Move {
        /// Of this topic.
        topic: String,
        /// The partitions' indexes.
        indexes: RangeInclusive<u32>,
        /// What is added to them.
        offset: i64,
    },
    /// Partitions are deleted with their messages.
    Delete {
        /// Of this topic.
        topic: String,
        /// The partitions' indexes.
        indexes: RangeInclusive<u32>,
    },
}

/// The command that does it.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |indexes: &RangeInclusive<u32>| match (indexes.start(), indexes.end()) {
            (from, to) if from == to => from.to_string(),
            (from, to) => format!("{from}-{to}"),
        };
        match self {
            Self::Move { topic, indexes, offset } => {
                write!(f, "metaq log move-partition {topic} {} {offset}", range(indexes))
            }
            Self::Delete { topic, indexes } => write!(f, "metaq log delete-partition {topic} {}", range(indexes)),
        }
    }
}

impl Task {
    /// What is unfinished in a directory.
    pub(super) fn unfinished(directory: &Directory) -> Result<Option<Self>, OfflineError> {
        let path = directory.log_path.join(NAME);
        let bytes = read_whole(&*directory.disk, &path).map_err(doing(format!("reading {}", path.display())))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let read = std::str::from_utf8(&bytes).ok().and_then(Self::parse);
        read.map(Some).ok_or(OfflineError::TaskMalformed(path))
    }

    /// Refuses a directory in which something is unfinished.
    pub(super) fn refuse_unfinished(directory: &Directory) -> Result<(), OfflineError> {
        Self::unfinished(directory)?.map_or(Ok(()), |task| Err(OfflineError::Interrupted(task)))
    }

    /// The file's content: `move <topic> <from> <to> <offset>` or `delete <topic> <from> <to>`, and a line feed.
    fn encode(&self) -> String {
        match self {
            Self::Move { topic, indexes, offset } => {
                format!("move {topic} {} {} {offset}\n", indexes.start(), indexes.end())
            }
            Self::Delete { topic, indexes } => format!("delete {topic} {} {}\n", indexes.start(), indexes.end()),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.strip_suffix('\n')?.split(' ').collect();
        let range = |from: &str, to: &str| Some(from.parse().ok()?..=to.parse().ok()?);
        match words[..] {
            ["move", topic, from, to, offset] => {
                Some(Self::Move { topic: topic.to_owned(), indexes: range(from, to)?, offset: offset.parse().ok()? })
            }
            ["delete", topic, from, to] => Some(Self::Delete { topic: topic.to_owned(), indexes: range(from, to)? }),
            _ => None,
        }
    }

    /// Writes it down and keeps brokers out. Done already, it changes nothing.
    pub(super) fn begin(&self, directory: &Directory) -> io::Result<()> {
        let (disk, folder) = (&*directory.disk, &directory.log_path);
        replace(disk, folder, NAME, self.encode().as_bytes())?;
        if disk.metadata(&folder.join(format::NAME))?.is_some() {
            disk.rename(&folder.join(format::NAME), &folder.join(FORMAT_ASIDE))?;
            disk.sync_dir(folder)?;
        }
        Ok(())
    }

    /// Lets brokers in again.
    pub(super) fn end(&self, directory: &Directory) -> io::Result<()> {
        let (disk, folder) = (&*directory.disk, &directory.log_path);
        if disk.metadata(&folder.join(FORMAT_ASIDE))?.is_some() {
            disk.rename(&folder.join(FORMAT_ASIDE), &folder.join(format::NAME))?;
            disk.sync_dir(folder)?;
        }
        disk.remove_file(&folder.join(NAME))?;
        disk.sync_dir(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let topic = "a-b.c".to_owned();
        let tasks =
            [Task::Move { topic: topic.clone(), indexes: 0..=3, offset: -4 }, Task::Delete { topic, indexes: 7..=7 }];
        for task in tasks {
            assert_eq!(Task::parse(&task.encode()), Some(task));
        }
        let one = Task::Delete { topic: "t".to_owned(), indexes: 7..=7 };
        assert_eq!(one.to_string(), "metaq log delete-partition t 7");
        for text in ["", "move a 0 1 2", "move a 0 1\n", "delete a 0 x\n", "trim a 0 1\n"] {
            assert_eq!(Task::parse(text), None, "{text:?}");
        }
    }
}
