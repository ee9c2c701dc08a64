//! All topics of this broker: which exist, which are accepted, and how one comes into being.
//!
//! A topic is known because the file names it, because an administrator created it, or because it has partitions.
//! What an administrator does is kept in the log's durable map ([`crate::spaces::TOPICS`]); a deleted topic leaves a
//! tombstone there, and no client's put brings it back.

use crate::configuration::{Settings, TopicSettings};
use crate::counters::Counters;
use crate::refused::Refused;
use crate::spaces;
use crate::topic::{Shape, Slot, Topic};
use arc_swap::{ArcSwap, Guard};
use metaq_log::{CreateError, Log, Partition};
use metaq_protocol::ErrorCode;
use metaq_protocol::name::{RESERVED_PREFIX, check_topic};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Pairs of a key of a topic and its value as text.
pub(crate) type Pairs = Vec<(String, String)>;

/// What an administrator did with a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// Created it, with these settings.
    Created(Pairs),
    /// Altered a topic that is there for another reason.
    Altered(Pairs),
    /// Deleted it for good.
    Deleted,
}

impl Record {
    /// Lines: what was done, then the pairs.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (word, pairs) = match self {
            Record::Created(pairs) => ("created", &pairs[..]),
            Record::Altered(pairs) => ("altered", &pairs[..]),
            Record::Deleted => ("deleted", &[][..]),
        };
        let lines = pairs.iter().map(|(key, value)| format!("\n{key}={value}"));
        std::iter::once(word.to_owned()).chain(lines).collect::<String>().into_bytes()
    }

    /// `None`: not written by this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines();
        let word = lines.next()?;
        let pairs = lines.map(|line| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
        let pairs = pairs.collect::<Option<Pairs>>()?;
        match word {
            "created" => Some(Record::Created(pairs)),
            "altered" => Some(Record::Altered(pairs)),
            "deleted" => Some(Record::Deleted),
            _ => None,
        }
    }

    /// What the log has of a topic, as far as settled.
    pub(crate) fn of(log: &Log, topic: &str) -> Option<Self> {
        let stored = log.state(spaces::TOPICS, topic.as_bytes())?;
        let record = Record::decode(&stored.value);
        if record.is_none() {
            tracing::error!(topic, "what an administrator set for this topic can't be read and is passed over");
        }
        record
    }
}

/// The key of a partition in the durable map. `/` is in no topic's name.
pub(crate) fn partition_key(topic: &str, index: u32) -> Vec<u8> {
    format!("{topic}/{index}").into_bytes()
}

type Map = HashMap<Arc<str>, Arc<Topic>>;

/// All topics.
#[derive(Debug)]
pub(crate) struct Topics {
    by_name: ArcSwap<Map>,
    /// Held while the map or a topic changes, never while the log is waited for.
    changing: Mutex<Changing>,
    /// Of requests that belong to no topic, and of topics that are gone.
    pub elsewhere: Counters,
}

#[derive(Debug, Default)]
struct Changing {
    /// Deleted since the start, perhaps not settled in the log's map.
    deleted: HashSet<String>,
    known: Known,
}

/// What holds for topics that nobody altered, by the sections that match: worked out once for all of them.
#[derive(Debug, Default)]
struct Known(HashMap<Vec<usize>, TopicSettings>);

impl Known {
    fn of(&mut self, settings: &Settings, topic: &str) -> TopicSettings {
        let sections = settings.topic_sections().enumerate();
        let matching: Vec<_> = sections.filter(|(_, section)| section.matches(topic)).map(|(at, _)| at).collect();
        self.0.entry(matching).or_insert_with(|| settings.topic(topic)).clone()
    }
}

impl Topics {
    /// What the file names, the administrator made and the log holds.
    pub(crate) fn load(log: &Log, settings: &Settings) -> Self {
        let mut slots: BTreeMap<String, Vec<Arc<Slot>>> = BTreeMap::new();
        for (name, _) in log.state_under(spaces::TOPICS, b"") {
            slots.entry(String::from_utf8_lossy(&name).into_owned()).or_default();
        }
        for partition in log.partitions() {
            let slots = slots.entry(partition.topic.to_string()).or_default();
            slots.resize_with(slots.len().max(partition.index as usize + 1), Arc::default);
            let index = partition.index as usize;
            slots[index] = Arc::new(Slot::of(partition));
        }
        let (mut map, mut changing) = (Map::new(), Changing::default());
        for (name, slots) in slots {
            let record = Record::of(log, &name);
            if record == Some(Record::Deleted) && slots.is_empty() {
                continue;
            }
            let topic = Arc::new(Topic::new(&name, shape(&name, settings, record, slots, log, &mut changing.known)));
            map.insert(Arc::clone(&topic.name), topic);
        }
        add_named(&mut map, log, settings, &mut changing);
        let changing = Mutex::new(changing);
        Self { by_name: ArcSwap::from_pointee(map), changing, elsewhere: Counters::default() }
    }

    /// Brings all topics in line with what the file says: those that it names exist, those that only it named don't.
    pub(crate) fn follow(&self, log: &Log, settings: &Settings) {
        let mut changing = self.changing.lock();
        changing.known = Known::default();
        let mut map = Map::clone(&self.by_name.load());
        for topic in map.values() {
            let (slots, record) = (topic.shape.load().slots.clone(), Record::of(log, &topic.name));
            topic.shape.store(Arc::new(shape(&topic.name, settings, record, slots, log, &mut changing.known)));
        }
        let named: HashSet<&str> = settings.named_topics().collect();
        map.retain(|name, topic| {
            let shape = topic.shape.load();
            let keep = shape.created || shape.has_data() || named.contains(&**name);
            if !keep {
                self.elsewhere.absorb(&topic.counters);
            }
            keep
        });
        add_named(&mut map, log, settings, &mut changing);
        self.by_name.store(Arc::new(map));
    }

    /// Brings one topic in line with what the log says of it, once an administrator's change is settled.
    pub(crate) fn refresh(&self, name: &str, log: &Log, settings: &Settings) {
        let mut changing = self.changing.lock();
        let record = Record::of(log, name);
        if matches!(record, Some(Record::Created(_))) {
            changing.deleted.remove(name);
        }
        match self.find(name) {
            Some(topic) => {
                let slots = topic.shape.load().slots.clone();
                topic.shape.store(Arc::new(shape(name, settings, record, slots, log, &mut changing.known)));
            }
            None => {
                let shape = shape(name, settings, record, Vec::new(), log, &mut changing.known);
                self.insert(Topic::new(name, shape));
            }
        }
    }

    /// Takes a topic away from clients before it is deleted: no put is accepted any more.
    pub(crate) fn withdraw(&self, name: &str) -> Option<Arc<Topic>> {
        let mut changing = self.changing.lock();
        let mut map = Map::clone(&self.by_name.load());
        let topic = map.remove(name)?;
        changing.deleted.insert(name.to_owned());
        self.by_name.store(Arc::new(map));
        Some(topic)
    }

    /// Gives a topic back to clients that couldn't be deleted.
    pub(crate) fn give_back(&self, topic: &Arc<Topic>) {
        let mut changing = self.changing.lock();
        changing.deleted.remove(&*topic.name);
        let mut map = Map::clone(&self.by_name.load());
        map.insert(Arc::clone(&topic.name), Arc::clone(topic));
        self.by_name.store(Arc::new(map));
    }

    /// Puts empty slots in the place of partitions that were deleted; they are as closed as they were.
    pub(crate) fn empty_slots(&self, topic: &Topic, indexes: &[u32]) {
        let _changing = self.changing.lock();
        let mut shape = Shape::clone(&topic.shape.load());
        for index in indexes {
            let closed = shape.slots[*index as usize].is_closed();
            shape.slots[*index as usize] = Arc::new(Slot { closed: closed.into(), ..Slot::default() });
        }
        topic.shape.store(Arc::new(shape));
    }

    /// All of them at this moment.
    pub(crate) fn all(&self) -> Guard<Arc<Map>> {
        self.by_name.load()
    }

    /// All of them, by name.
    pub(crate) fn sorted(&self) -> Vec<Arc<Topic>> {
        let mut all: Vec<_> = self.by_name.load().values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The topic of that name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.by_name.load().get(name).cloned()
    }

    /// The topic of that name for a put: made if the file or a switch allows any client to do so.
    pub(crate) fn accept(&self, name: &str, log: &Log, settings: &ArcSwap<Settings>) -> Result<Arc<Topic>, Refused> {
        let mut changing = self.changing.lock();
        if let Some(topic) = self.find(name) {
            return Ok(topic);
        }
        check_topic(name).map_err(|why| not_accepted(name, &why.to_string()))?;
        let record = Record::of(log, name);
        if record == Some(Record::Deleted) || changing.deleted.contains(name) {
            return Err(not_accepted(name, "it was deleted; an administrator may create it again"));
        }
        let shape = shape(name, &settings.load(), record, Vec::new(), log, &mut changing.known);
        if !shape.accepted {
            return Err(not_accepted(name, NOBODY_ALLOWS));
        }
        Ok(self.insert(Topic::new(name, shape)))
    }

    fn insert(&self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        let mut map = Map::clone(&self.by_name.load());
        map.insert(Arc::clone(&topic.name), Arc::clone(&topic));
        self.by_name.store(Arc::new(map));
        topic
    }

    /// The partition of that index, made if there is none.
    pub(crate) fn open(&self, topic: &Topic, index: u32, log: &Log) -> Result<Arc<Partition>, Refused> {
        let _changing = self.changing.lock();
        let shape = topic.shape.load();
        let name = &topic.name;
        let slot = shape.slots.get(index as usize);
        let known = self.by_name.load().get(name).is_some_and(|known| std::ptr::eq(&**known, topic));
        let Some(slot) = slot.filter(|_| known) else {
            return Err(not_accepted(name, "it was just deleted"));
        };
        if let Some(partition) = slot.partition.get() {
            return Ok(Arc::clone(partition));
        }
        let root = Some(shape.settings.data_path.as_path());
        let partition =
            log.create_partition(name, index, root, shape.partition_settings()).map_err(|why| match why {
                CreateError::UnknownRoot(path) => Refused::new(
                    ErrorCode::Unavailable,
                    format!("{name}: the data path {} is in use after the next start of the broker", path.display()),
                ),
                CreateError::BeingDeleted => Refused::new(ErrorCode::Unavailable, format!("{name}: {why}")),
            })?;
        Ok(Arc::clone(slot.partition.get_or_init(|| partition)))
    }
}

/// Adds the topics that the file names and nobody deleted.
fn add_named(map: &mut Map, log: &Log, settings: &Settings, changing: &mut Changing) {
    for name in settings.named_topics().filter(|name| check_topic(name).is_ok()) {
        let record = Record::of(log, name);
        let gone = record == Some(Record::Deleted) || changing.deleted.contains(name);
        if !gone && !map.contains_key(name) {
            let shape = shape(name, settings, record, Vec::new(), log, &mut changing.known);
            let topic = Arc::new(Topic::new(name, shape));
            map.insert(Arc::clone(&topic.name), topic);
        }
    }
}

/// Why a put to a topic that isn't known is refused.
pub(crate) const NOBODY_ALLOWS: &str = "no [topic=...] section of the broker's file names it and nobody created it";

/// The refusal of a put to a topic that isn't accepted.
pub(crate) fn not_accepted(topic: &str, why: &str) -> Refused {
    Refused::new(ErrorCode::TopicNotAccepted, format!("topic {topic} is not accepted: {why}"))
}

/// What a topic is by its settings and by what stands in the log.
fn shape(
    name: &str,
    settings: &Settings,
    record: Option<Record>,
    slots: Vec<Arc<Slot>>,
    log: &Log,
    known: &mut Known,
) -> Shape {
    let (created, deleted, altered) = match record {
        Some(Record::Created(pairs)) => (true, false, pairs),
        Some(Record::Altered(pairs)) => (false, false, pairs),
        Some(Record::Deleted) => (false, true, Pairs::new()),
        None => (false, false, Pairs::new()),
    };
    let (topic, altered) = match altered.is_empty() {
        true => (known.of(settings, name), altered),
        false => altered_settings(name, settings, altered),
    };
    let reserved = name.starts_with(RESERVED_PREFIX) && !settings.named_topics().any(|named| named == name);
    let mut shape = Shape {
        realtime: topic.statistics && settings.realtime_statistics,
        settings: topic,
        altered,
        created,
        accepted: !deleted && !reserved && (created || settings.accepts(name)),
        slots,
    };
    shape.make_room(shape.settings.partitions);
    let closed = closed_partitions(log, name);
    if let Some(last) = closed.iter().max() {
        shape.make_room(last + 1);
    }
    for (index, slot) in (0..).zip(&shape.slots) {
        slot.closed.store(closed.contains(&index), Relaxed);
        if let Some(partition) = slot.partition.get() {
            partition.configure(shape.partition_settings());
        }
    }
    shape
}

/// What holds for a topic that an administrator altered. A start must not fail for it: keys come and go with versions.
fn altered_settings(name: &str, settings: &Settings, altered: Pairs) -> (TopicSettings, Pairs) {
    match settings.altered_topic(name, &altered) {
        Ok(topic) => (topic, altered),
        Err(errors) => {
            tracing::error!(topic = name, %errors, "what an administrator set for this topic is passed over");
            (settings.topic(name), Pairs::new())
        }
    }
}

/// The partitions that an operator closed.
fn closed_partitions(log: &Log, topic: &str) -> HashSet<u32> {
    let prefix = format!("{topic}/");
    let keys = log.state_under(spaces::CLOSED, prefix.as_bytes());
    keys.iter().filter_map(|(key, _)| std::str::from_utf8(&key[prefix.len()..]).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let pairs = vec![("numPartitions".to_owned(), "4".to_owned()), ("deleteWhen".to_owned(), "0 0 6 * * ?".into())];
        for record in [Record::Created(pairs.clone()), Record::Altered(pairs), Record::Deleted] {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(b"renamed"), None);
    }
}
