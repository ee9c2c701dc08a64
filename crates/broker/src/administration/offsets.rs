//! `offsets`: how far groups have read, kept in the log's durable map ([`crate::spaces::OFFSETS`]).

use crate::broker::Broker;
use crate::lines::{self, Line};
use crate::put::opaque_of;
use crate::refused::Refused;
use crate::spaces;
use metaq_log::{Change, Item, Outcome, Partition, StateChange, Submission, What};
use metaq_protocol::extension::OffsetsCommand;
use metaq_protocol::name::check_group;
use metaq_protocol::{ErrorCode, Status, answer};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// How far a group has read a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupPosition {
    pub group: String,
    pub topic: String,
    pub partition: u32,
    /// The first byte that isn't done.
    pub position: u64,
    /// The last message that is done, if it is known.
    pub id: Option<i64>,
    /// When it was said, milliseconds since 1970.
    pub time: u64,
}

impl GroupPosition {
    /// `/` is in no group's and in no topic's name.
    fn key(&self) -> Vec<u8> {
        format!("{}/{}/{}", self.group, self.topic, self.partition).into_bytes()
    }

    /// Three words: position, id or `-`, time.
    fn value(&self) -> Vec<u8> {
        let id = self.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        format!("{} {id} {}", self.position, self.time).into_bytes()
    }

    fn of(key: &[u8], value: &[u8]) -> Option<Self> {
        let (key, value) = (std::str::from_utf8(key).ok()?, std::str::from_utf8(value).ok()?);
        let (mut names, mut numbers) = (key.split('/'), value.split(' '));
        Some(Self {
            group: names.next()?.to_owned(),
            topic: names.next()?.to_owned(),
            partition: names.next()?.parse().ok()?,
            position: numbers.next()?.parse().ok()?,
            id: match numbers.next()? {
                "-" => None,
                id => Some(id.parse().ok()?),
            },
            time: numbers.next()?.parse().ok()?,
        })
    }

    /// What makes it durable.
    fn change(&self) -> StateChange {
        StateChange { space: spaces::OFFSETS, key: self.key(), value: Some(self.value()) }
    }

    /// What forgets it.
    pub(crate) fn removal(&self) -> StateChange {
        StateChange { space: spaces::OFFSETS, key: self.key(), value: None }
    }
}

impl Broker {
    pub(super) fn offsets_command(&self, command: &OffsetsCommand<'_>) -> Result<String, Refused> {
        match command {
            OffsetsCommand::Commit { .. } => self.commit(command),
            OffsetsCommand::Fetch { group, topic, partition } => {
                let partition = partition.and_then(|partition| u32::try_from(partition).ok());
                let positions = self.positions(Some(group), topic.as_deref(), partition);
                if positions.is_empty() {
                    return Err(nothing_of(group));
                }
                Ok(lines::text(positions.iter().map(|position| self.position_line(position))))
            }
            OffsetsCommand::Delete { group, topic } => {
                let _alone = self.administration.lock();
                let positions = self.positions(Some(group), topic.as_deref(), None);
                if positions.is_empty() {
                    return Err(nothing_of(group));
                }
                let line = Line::new("group", group).word("deleted", positions.len());
                self.forget_positions(positions, format_args!("group {group}"))?;
                Ok(lines::text([line]))
            }
            OffsetsCommand::Copy { .. } => self.copy_position(command),
            OffsetsCommand::Locate { topic, partition, time_ms } => self.locate(topic, *partition, *time_ms),
            OffsetsCommand::List => Ok(lines::text(self.groups().into_values())),
        }
    }

    /// Judges an `offsets commit` and adds it to a submission, so that many need no thread each; the item's tag is the
    /// opaque. Refused: nothing was added.
    pub fn commit_position(
        &self,
        command: &OffsetsCommand<'_>,
        opaque: i32,
        submission: &mut Submission,
    ) -> Result<(), Refused> {
        let position = self.committed(command)?;
        let change = Change::State { conditions: vec![], changes: vec![position.change()] };
        submission.items.push(Item { tag: opaque.into(), what: What::Change(Box::new(change)) });
        Ok(())
    }

    /// Appends the answer to a change that was submitted, for what became of it.
    pub fn answer_change(&self, tag: i64, outcome: &Outcome, out: &mut Vec<u8>) {
        let opaque = opaque_of(tag);
        match outcome {
            Outcome::Changed { lsn } => {
                answer::result(out, Status::Ok, opaque, lines::text([Line::new("changed", lsn)]).as_bytes());
            }
            Outcome::Refused(refusal) => Refused::by_log(refusal, "the change").answer(opaque, out),
            Outcome::Appended { .. } => unreachable!("a change was answered as an append"),
        }
    }

    fn commit(&self, command: &OffsetsCommand<'_>) -> Result<String, Refused> {
        let position = self.committed(command)?;
        let state = Change::State { conditions: vec![], changes: vec![position.change()] };
        self.change(vec![state], format_args!("group {}", position.group))?;
        Ok(lines::text([self.position_line(&position)]))
    }

    fn committed(&self, command: &OffsetsCommand<'_>) -> Result<GroupPosition, Refused> {
        let OffsetsCommand::Commit { group, topic, partition, position, id } = command else {
            return Err(Refused::new(ErrorCode::Internal, "only offsets commit commits"));
        };
        check_group(group)
            .map_err(|why| Refused::new(ErrorCode::MalformedArgument, format!("group {group}: {why}")))?;
        let stored = self.existing_partition(topic, *partition)?;
        let end = stored.bounds(self.log.settled()).end;
        match u64::try_from(*position) {
            Ok(position) if position <= end => Ok(GroupPosition {
                group: group.to_string(),
                topic: topic.to_string(),
                partition: stored.index,
                position,
                id: *id,
                time: self.now(),
            }),
            _ => {
                let text = format!("{} ends at {end}, before position {position}", self.called(&stored));
                Err(Refused::new(ErrorCode::PositionOutOfRange, text))
            }
        }
    }

    fn existing_partition(&self, topic: &str, index: i32) -> Result<Arc<Partition>, Refused> {
        self.with_topic(topic, |known| {
            let slot = known.and_then(|(_, shape)| shape.slot(index));
            slot.and_then(|slot| slot.partition.get()).cloned().ok_or_else(|| self.unknown_partition(topic, index))
        })
    }

    fn copy_position(&self, command: &OffsetsCommand<'_>) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        let OffsetsCommand::Copy { group, from_topic, from_partition, to_topic, to_partition } = command else {
            return Err(Refused::new(ErrorCode::Internal, "only offsets copy copies"));
        };
        let from = u32::try_from(*from_partition).ok();
        let source = self.positions(Some(group), Some(from_topic), from).pop().ok_or_else(|| nothing_of(group))?;
        let target = self.existing_partition(to_topic, *to_partition)?;
        if let Some(there) = self.positions(Some(group), Some(to_topic), Some(target.index)).pop() {
            let what = self.called(&target);
            let text = format!("group {group} has position {} in {what} already; delete that first", there.position);
            return Err(Refused::new(ErrorCode::Conflict, text));
        }
        let (topic, partition) = (to_topic.to_string(), target.index);
        let copy = GroupPosition { topic, partition, time: self.now(), ..source };
        let state = Change::State { conditions: vec![], changes: vec![copy.change()] };
        self.change(vec![state], format_args!("group {group}"))?;
        Ok(lines::text([self.position_line(&copy)]))
    }

    /// Where messages of that time begin; the end, if all are older.
    fn locate(&self, topic: &str, index: i32, time: u64) -> Result<String, Refused> {
        let partition = self.existing_partition(topic, index)?;
        let position = self.log.position_at(&partition, time).map_err(|error| {
            Refused::new(ErrorCode::Internal, format!("{} can't be read: {error}", self.called(&partition)))
        })?;
        let line = Line::new("topic", topic).word("partition", self.partition_name(index));
        Ok(lines::text([line.word("position", position).word("time", time)]))
    }

    /// All positions kept, or those of a group, of a topic, of a partition.
    pub(crate) fn positions(
        &self,
        group: Option<&str>,
        topic: Option<&str>,
        partition: Option<u32>,
    ) -> Vec<GroupPosition> {
        let prefix = match (group, topic) {
            (Some(group), Some(topic)) => format!("{group}/{topic}/"),
            (Some(group), None) => format!("{group}/"),
            (None, _) => String::new(),
        };
        let stored = self.log.state_under(spaces::OFFSETS, prefix.as_bytes());
        let mut all: Vec<_> = stored.iter().filter_map(|(key, stored)| GroupPosition::of(key, &stored.value)).collect();
        all.retain(|one| topic.is_none_or(|topic| topic == one.topic));
        all.retain(|one| partition.is_none_or(|partition| partition == one.partition));
        all.sort_by(|one, other| {
            (&one.group, &one.topic, one.partition).cmp(&(&other.group, &other.topic, other.partition))
        });
        all
    }

    /// Forgets positions.
    pub(crate) fn forget_positions(&self, positions: Vec<GroupPosition>, what: impl Display) -> Result<(), Refused> {
        if positions.is_empty() {
            return Ok(());
        }
        let changes = positions.iter().map(GroupPosition::removal).collect();
        self.change(vec![Change::State { conditions: vec![], changes }], what).map(|_| ())
    }

    /// Where the partition ends and how many bytes the group has not read; none if the partition is gone.
    pub(crate) fn lag(&self, position: &GroupPosition) -> Option<(u64, u64)> {
        let end = self.log.partition(&position.topic, position.partition)?.bounds(self.log.settled()).end;
        Some((end, end.saturating_sub(position.position)))
    }

    fn position_line(&self, position: &GroupPosition) -> Line {
        let lag = self.lag(position);
        Line::new("group", &position.group)
            .word("topic", &position.topic)
            .word("partition", self.partition_name(position.partition))
            .word("position", position.position)
            .maybe("id", position.id)
            .word("time", position.time)
            .maybe("end", lag.map(|(end, _)| end))
            .maybe("lag", lag.map(|(_, lag)| lag))
    }

    /// A line for each group.
    fn groups(&self) -> BTreeMap<String, Line> {
        let mut sums: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        for position in self.positions(None, None, None) {
            let lag = self.lag(&position).map_or(0, |(_, lag)| lag);
            let sum = sums.entry(position.group).or_default();
            *sum = (sum.0 + 1, sum.1 + lag, sum.2.max(position.time));
        }
        let line = |group: &str, (partitions, lag, time): (u64, u64, u64)| {
            Line::new("group", group).word("partitions", partitions).word("lag", lag).word("time", time)
        };
        sums.into_iter().map(|(group, sum)| (group.clone(), line(&group, sum))).collect()
    }
}

fn nothing_of(group: &str) -> Refused {
    Refused::new(ErrorCode::TopicUnknown, format!("group {group} keeps no such position here; see offsets list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        for id in [None, Some(-7)] {
            let position =
                GroupPosition { group: "g".into(), topic: "a.b".into(), partition: 3, position: 99, id, time: 5 };
            assert_eq!(GroupPosition::of(&position.key(), &position.value()), Some(position));
        }
        assert_eq!(GroupPosition::of(b"g/t", b"1 - 2"), None);
    }
}
