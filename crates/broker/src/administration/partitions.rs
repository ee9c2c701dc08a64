//! `partition`: close, open, delete.

use super::CHANGES_MAX;
use crate::broker::Broker;
use crate::lines::{self, Line};
use crate::refused::Refused;
use crate::spaces;
use crate::topic::{Shape, Slot, Topic};
use crate::topics::partition_key;
use metaq_log::{Change, Partition, StateChange};
use metaq_protocol::ErrorCode;
use metaq_protocol::extension::{PartitionAct, PartitionCommand};
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Broker {
    pub(super) fn partition_command(&self, command: &PartitionCommand<'_>) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        let topic = self.known_topic(&command.topic)?;
        let indexes = indexes(&topic, &topic.shape.load(), &command.partitions)?;
        match command.act {
            PartitionAct::Close => self.set_closed(&topic, &indexes, true)?,
            PartitionAct::Open => self.set_closed(&topic, &indexes, false)?,
            PartitionAct::Delete => self.delete_partitions(&topic, &indexes)?,
        }
        let shape = topic.shape.load();
        let lines = indexes.iter().map(|index| {
            let slot = &shape.slots[*index as usize];
            self.partition_line(*index, slot).unwrap_or_else(|| {
                Line::new("partition", self.partition_name(index))
                    .word("closed", slot.is_closed())
                    .word("exists", false)
            })
        });
        Ok(lines::text(lines))
    }

    /// What there is to say of a partition that exists or is closed.
    pub(super) fn partition_line(&self, index: u32, slot: &Slot) -> Option<Line> {
        let line = Line::new("partition", self.partition_name(index)).word("closed", slot.is_closed());
        let Some(partition) = slot.partition.get() else {
            return slot.is_closed().then(|| line.word("exists", false));
        };
        let bounds = partition.bounds(self.log.settled());
        let damaged: u64 = bounds.damage.iter().map(|damage| damage.range.end - damage.range.start).sum();
        Some(
            line.word("exists", true)
                .word("first", bounds.first)
                .word("end", bounds.end)
                .word("messages", bounds.messages)
                .word("path", partition.root.display())
                .maybe("damaged_bytes", (damaged > 0).then_some(damaged))
                .maybe("failed", bounds.failed),
        )
    }

    fn set_closed(&self, topic: &Topic, indexes: &[u32], closed: bool) -> Result<(), Refused> {
        let changes = indexes.iter().map(|index| StateChange {
            space: spaces::CLOSED,
            key: partition_key(&topic.name, *index),
            value: closed.then(Vec::new),
        });
        let state = Change::State { conditions: vec![], changes: changes.collect() };
        self.change(vec![state], format_args!("topic {}", topic.name))?;
        self.topics.refresh(&topic.name, &self.log, &self.settings.load());
        Ok(())
    }

    fn delete_partitions(&self, topic: &Topic, indexes: &[u32]) -> Result<(), Refused> {
        let shape = topic.shape.load();
        let slot = |index: &u32| &shape.slots[*index as usize];
        if let Some(open) = indexes.iter().find(|index| !slot(index).is_closed()) {
            let name = self.partition_name(open);
            let text = format!("topic {}: {name} is open; close it first, so that nobody puts to it", topic.name);
            return Err(Refused::new(ErrorCode::Conflict, text));
        }
        let partitions: Vec<_> = indexes.iter().filter_map(|index| slot(index).partition.get()).cloned().collect();
        partitions.iter().try_for_each(|partition| self.refuse_undrained(partition))?;
        let mut changes: Vec<_> = partitions.into_iter().map(Change::Delete).collect();
        while !changes.is_empty() {
            let some = changes.drain(..changes.len().min(CHANGES_MAX)).collect();
            self.change(some, format_args!("topic {}", topic.name))?;
        }
        self.topics.empty_slots(topic, indexes);
        let positions = self.positions(None, Some(&topic.name), None);
        let gone = positions.into_iter().filter(|position| indexes.contains(&position.partition));
        self.forget_positions(gone.collect(), format_args!("topic {}", topic.name))
    }

    /// Drained is a partition that holds no message, or that all groups with positions in the broker's store have read
    /// to its end, if there is one.
    fn refuse_undrained(&self, partition: &Partition) -> Result<(), Refused> {
        let bounds = partition.bounds(self.log.settled());
        if bounds.first == bounds.end {
            return Ok(());
        }
        let what = self.called(partition);
        let refuse = |why: String| Err(Refused::new(ErrorCode::Conflict, format!("{what} isn't drained: {why}")));
        let groups = self.positions(None, Some(&partition.topic), Some(partition.index));
        match groups.iter().find(|group| group.position < bounds.end) {
            Some(group) => {
                refuse(format!("group {} has read up to {}, its end is {}", group.group, group.position, bounds.end))
            }
            None if groups.is_empty() => refuse(format!(
                "it holds {} messages and no group keeps its position here; wait until retention has removed them",
                bounds.messages
            )),
            None => Ok(()),
        }
    }
}

/// The partitions of a range, all of which the topic has.
fn indexes(topic: &Arc<Topic>, shape: &Shape, range: &RangeInclusive<i32>) -> Result<Vec<u32>, Refused> {
    let count = shape.slots.len();
    let indexes: Option<Vec<u32>> = match usize::try_from(*range.end()) {
        Ok(end) if end < count => range.clone().map(|index| u32::try_from(index).ok()).collect(),
        _ => None,
    };
    indexes.ok_or_else(|| {
        let text = format!("topic {} has the partitions 0 to {} here, not {}", topic.name, count - 1, range.end());
        Refused::new(ErrorCode::PartitionOutOfRange, text)
    })
}
