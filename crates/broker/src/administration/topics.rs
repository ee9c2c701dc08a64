//! `topic`: list, describe, create, alter, delete.

use super::CHANGES_MAX;
use crate::broker::Broker;
use crate::lines::{self, Line};
use crate::refused::Refused;
use crate::spaces;
use crate::topic::{Shape, Topic};
use crate::topics::{Pairs, Record};
use metaq_log::{Change, StateChange};
use metaq_protocol::ErrorCode;
use metaq_protocol::extension::{Settings, TopicCommand};
use metaq_protocol::name::{RESERVED_PREFIX, check_topic};
use std::path::Path;
use std::sync::Arc;

impl Broker {
    pub(super) fn topic_command(&self, command: &TopicCommand<'_>) -> Result<String, Refused> {
        match command {
            TopicCommand::List => {
                Ok(lines::text(self.topics.sorted().iter().map(|topic| self.topic_line(topic, &topic.shape.load()))))
            }
            TopicCommand::Describe { topic } => self.describe(topic),
            TopicCommand::Create { topic, settings } => self.create_topic(topic, pairs(settings)),
            TopicCommand::Alter { topic, settings } => self.alter_topic(topic, pairs(settings)),
            TopicCommand::Delete { topic } => self.delete_topic(topic),
        }
    }

    fn topic_line(&self, topic: &Topic, shape: &Shape) -> Line {
        let (existing, messages, bytes) = self.size(shape);
        let closed = shape.slots.iter().filter(|slot| slot.is_closed()).count();
        Line::new("topic", &topic.name)
            .word("partitions", shape.settings.partitions)
            .word("existing", existing)
            .word("closed", closed)
            .word("messages", messages)
            .word("bytes", bytes)
            .word("accepted", shape.accepted)
            .word("created", shape.created)
    }

    fn describe(&self, name: &str) -> Result<String, Refused> {
        let topic = self.known_topic(name)?;
        let shape = topic.shape.load();
        let settings = self.settings.load();
        let effective = settings.effective_topic(name, &shape.altered).map_err(|errors| malformed(name, &errors))?;
        let settings = effective.iter().map(|value| {
            Line::new("setting", value.key.name)
                .word("value", value.value.as_deref().unwrap_or_default())
                .word("from", &value.origin)
        });
        let partitions = (0..).zip(&shape.slots).filter_map(|(index, slot)| self.partition_line(index, slot));
        Ok(lines::text(std::iter::once(self.topic_line(&topic, &shape)).chain(settings).chain(partitions)))
    }

    /// The topic of that name, or the refusal that says that there is none.
    pub(super) fn known_topic(&self, name: &str) -> Result<Arc<Topic>, Refused> {
        self.topics
            .find(name)
            .ok_or_else(|| Refused::new(ErrorCode::TopicUnknown, format!("there is no topic {name}; see topic list")))
    }

    fn create_topic(&self, name: &str, altered: Pairs) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        check_topic(name).map_err(|why| malformed(name, &why))?;
        if name.starts_with(RESERVED_PREFIX) {
            return Err(malformed(name, &format_args!("names that begin with {RESERVED_PREFIX} are the broker's own")));
        }
        if self.topics.find(name).is_some_and(|topic| topic.shape.load().accepted) {
            let text = format!("topic {name} exists already; change it with topic alter");
            return Err(Refused::new(ErrorCode::Conflict, text));
        }
        self.check_pairs(name, &altered)?;
        self.keep(name, &Record::Created(altered))
    }

    fn alter_topic(&self, name: &str, changes: Pairs) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        let topic = self.known_topic(name)?;
        let shape = topic.shape.load();
        let mut altered = shape.altered.clone();
        for (key, value) in changes {
            altered.retain(|(known, _)| *known != key);
            // A blank value gives back what holds below.
            altered.push((key, value));
        }
        self.check_pairs(name, &altered)?;
        altered.retain(|(_, value)| !value.trim().is_empty());
        self.keep(name, &if shape.created { Record::Created(altered) } else { Record::Altered(altered) })
    }

    fn check_pairs(&self, name: &str, altered: &Pairs) -> Result<(), Refused> {
        let topic = self.settings.load().altered_topic(name, altered).map_err(|errors| malformed(name, &errors))?;
        let known = &self.log.options().data_paths;
        let given = altered.iter().any(|(key, value)| key == "dataPath" && !value.trim().is_empty());
        if given && !known.contains(&topic.data_path) {
            let known: Vec<_> = known.iter().map(|path| path.display().to_string()).collect();
            let path = Path::display(&topic.data_path);
            let text = format!("the broker was started with the data paths {}, not {path}", known.join(", "));
            return Err(malformed(name, &text));
        }
        Ok(())
    }

    /// Makes what an administrator did durable, lets it hold, and answers with the topic's line.
    fn keep(&self, name: &str, record: &Record) -> Result<String, Refused> {
        let change = StateChange { space: spaces::TOPICS, key: name.into(), value: Some(record.encode()) };
        self.change(vec![Change::State { conditions: vec![], changes: vec![change] }], format_args!("topic {name}"))?;
        self.topics.refresh(name, &self.log, &self.settings.load());
        let topic = self.known_topic(name)?;
        Ok(lines::text([self.topic_line(&topic, &topic.shape.load())]))
    }

    fn delete_topic(&self, name: &str) -> Result<String, Refused> {
        let _alone = self.administration.lock();
        let what = format!("topic {name}");
        let topic = self.known_topic(name)?;
        let line = Line::new("topic", name).word("deleted", true);
        let line = line.word("messages", self.size(&topic.shape.load()).1);
        self.topics.withdraw(name);
        let partitions: Vec<_> = topic.shape.load().partitions().cloned().collect();
        let state = Change::State { conditions: vec![], changes: self.traces_of(name) };
        let changes = std::iter::once(state).chain(partitions.into_iter().map(Change::Delete));
        let changes: Vec<_> = changes.collect();
        let mut changes = changes.into_iter().peekable();
        let mut settled = false;
        while changes.peek().is_some() {
            let some = changes.by_ref().take(CHANGES_MAX).collect();
            match self.change(some, &what) {
                Ok(_) => settled = true,
                // Nothing was done: it is what it was.
                Err(refused) if !settled && refused.code != ErrorCode::OutcomeUnknown => {
                    self.topics.give_back(&topic);
                    return Err(refused);
                }
                Err(refused) => {
                    let text = format!("{}; clients can't use it any more, partitions may be left", refused.text);
                    return Err(Refused::new(refused.code, text));
                }
            }
        }
        self.topics.elsewhere.absorb(&topic.counters);
        let named = self.settings.load().named_topics().any(|named| named == name);
        let note = "the configuration file still names it; it stays deleted until topic create";
        Ok(lines::text([line.maybe("note", named.then_some(note))]))
    }

    /// What becomes of the durable map when a topic is deleted: a tombstone, and no positions or closed partitions.
    fn traces_of(&self, name: &str) -> Vec<StateChange> {
        let tombstone = StateChange { space: spaces::TOPICS, key: name.into(), value: Some(Record::Deleted.encode()) };
        let prefix = format!("{name}/");
        let closed = self.log.state_under(spaces::CLOSED, prefix.as_bytes());
        let closed = closed.into_iter().map(|(key, _)| StateChange { space: spaces::CLOSED, key, value: None });
        let offsets = self.positions(None, Some(name), None);
        let offsets = offsets.into_iter().map(|position| position.removal());
        std::iter::once(tombstone).chain(closed).chain(offsets).collect()
    }
}

fn pairs(settings: &Settings<'_>) -> Pairs {
    settings.iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// The administrator erred about a topic.
fn malformed(topic: &str, why: &dyn std::fmt::Display) -> Refused {
    let why = why.to_string().replace('\n', "; ");
    Refused::new(ErrorCode::MalformedArgument, format!("topic {topic}: {why}"))
}
