//! A configuration as written: the values that were given, each read by its key and with its origin.
//!
//! Every mistake is collected before anything is refused. Whether the values agree with each other is
//! judged in the next step, [`super::Settings`].

use std::collections::BTreeMap;
use std::path::Path;

use super::ini::{self, Content};
use super::key::{Key, Place};
use super::keys::{KEYS, key, nearest};
use super::origin::{Origin, Override};
use super::pattern::Pattern;
use super::problem::{Mistake, Problem};
use super::value::Value;

/// What a configuration is made from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The bytes of `server.ini`; none if there is no file.
    pub file: Option<&'a [u8]>,
    /// Values from the environment and from flags, in any order; of two of one rank the later wins.
    pub overrides: &'a [Override],
    /// The home folder, for the original's default of `dataPath`.
    pub home: Option<&'a Path>,
}

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The values given in one place, by the name of the key.
pub(super) type Values = BTreeMap<&'static str, Given>;

/// A `[topic=…]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicSection {
    pub(super) pattern: Pattern,
    pub(super) values: Values,
}

/// Everything that was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Written {
    /// Keys of `[system]`, `[zookeeper]` and the system properties: their names don't overlap.
    pub(super) broker: Values,
    /// The topic sections in the order of the file.
    pub(super) topics: Vec<TopicSection>,
}

/// The section that lines fall into.
enum Current {
    /// None has begun.
    None,
    /// One that was refused: its keys are passed over.
    Refused,
    Broker(Place),
    /// The last of the topic sections.
    Topic,
}

struct Reader {
    written: Written,
    problems: Vec<Problem>,
    current: Current,
    /// The sections so far and their lines.
    sections: BTreeMap<String, usize>,
    /// The keys of the current section so far, blank ones too, and their lines.
    keys: BTreeMap<String, usize>,
}

/// Reads all sources.
pub(super) fn read(sources: &Sources) -> (Written, Vec<Problem>) {
    let (lines, problems) = sources.file.map(ini::read).unwrap_or_default();
    let mut reader = Reader {
        written: Written::default(),
        problems,
        current: Current::None,
        sections: BTreeMap::new(),
        keys: BTreeMap::new(),
    };
    for line in lines {
        let read = match line.content {
            Content::Section(name) => reader.section(line.number, name),
            Content::Pair { key, value } => reader.pair(line.number, key, &value),
        };
        if let Err(mistake) = read {
            reader.problems.push(Problem { origin: Origin::File { line: line.number }, mistake });
        }
    }
    for given in sources.overrides {
        if let Err(mistake) = reader.override_with(given) {
            reader.problems.push(Problem { origin: given.origin.clone(), mistake });
        }
    }
    (reader.written, reader.problems)
}

impl Reader {
    fn section(&mut self, number: usize, name: String) -> Result<(), Mistake> {
        self.keys.clear();
        self.current = Current::Refused;
        let topic = name.split_once('=').filter(|(word, _)| word.trim() == "topic").map(|(_, topic)| topic.trim());
        let name = topic.map_or(name.clone(), |topic| format!("topic={topic}"));
        if let Some(&first) = self.sections.get(&name) {
            return Err(Mistake::RepeatedSection { name, first });
        }
        self.sections.insert(name.clone(), number);
        self.current = match (name.as_str(), topic) {
            ("system", _) => Current::Broker(Place::System),
            ("zookeeper", _) => Current::Broker(Place::Zookeeper),
            (_, Some(topic)) => {
                let pattern = Pattern::new(topic)?;
                self.written.topics.push(TopicSection { pattern, values: Values::new() });
                Current::Topic
            }
            _ => return Err(Mistake::UnknownSection { name }),
        };
        Ok(())
    }

    fn pair(&mut self, number: usize, name: String, text: &str) -> Result<(), Mistake> {
        match self.current {
            Current::None => return Err(Mistake::Homeless { key: name }),
            Current::Refused => return Ok(()),
            Current::Broker(_) | Current::Topic => {}
        }
        if let Some(&first) = self.keys.get(&name) {
            return Err(Mistake::RepeatedKey { key: name, first });
        }
        self.keys.insert(name.clone(), number);
        if let (Current::Topic, Some(group)) = (&self.current, name.strip_prefix("group.")) {
            return filter(group, text);
        }
        let key = self.allowed(&name)?;
        let values = match self.current {
            Current::Topic => self.written.topics.last_mut().map(|section| &mut section.values),
            _ => Some(&mut self.written.broker),
        };
        let values = values.expect("a topic section has begun");
        put(values, key, text, Origin::File { line: number })
    }

    /// The key of that name, if it may stand in the current section.
    fn allowed(&self, name: &str) -> Result<&'static Key, Mistake> {
        let fits = |key: &Key| match self.current {
            Current::Topic => key.place == Place::Topic,
            Current::Broker(Place::Zookeeper) => key.place == Place::Zookeeper,
            _ => matches!(key.place, Place::System | Place::Topic),
        };
        match key(name) {
            Some(key) if fits(key) => Ok(key),
            Some(key) => Err(Mistake::Misplaced { key: name.to_owned(), belongs: belongs(key) }),
            None => {
                let here = KEYS.iter().filter(|key| fits(key)).map(|key| key.name);
                let anywhere = KEYS.iter().map(|key| key.name);
                let nearest = nearest(name, here).or_else(|| nearest(name, anywhere));
                Err(Mistake::UnknownKey { key: name.to_owned(), nearest })
            }
        }
    }

    fn override_with(&mut self, given: &Override) -> Result<(), Mistake> {
        let key = key(&given.key).ok_or_else(|| Mistake::UnknownKey {
            key: given.key.clone(),
            nearest: nearest(&given.key, KEYS.iter().map(|key| key.name)),
        })?;
        let beaten = |earlier: &Given| rank(&earlier.origin) <= rank(&given.origin);
        if self.written.broker.get(key.name).is_none_or(beaten) {
            put(&mut self.written.broker, key, &given.value, given.origin.clone())
        } else {
            // It loses, but what is wrong with it is still said.
            put(&mut Values::new(), key, &given.value, given.origin.clone())
        }
    }
}

/// Origins of one rank don't outrank each other.
fn rank(origin: &Origin) -> u8 {
    match origin {
        Origin::Default => 0,
        Origin::File { .. } => 1,
        Origin::Environment(_) => 2,
        Origin::Flag(_) => 3,
        Origin::Api => 4,
    }
}

/// A filter without a class is none; with one it is refused.
fn filter(group: &str, class: &str) -> Result<(), Mistake> {
    match class {
        "" => Ok(()),
        class => Err(Mistake::Filter { group: group.to_owned(), class: class.to_owned() }),
    }
}

/// Notes a value; a blank one takes back what stood there.
fn put(values: &mut Values, key: &'static Key, text: &str, origin: Origin) -> Result<(), Mistake> {
    if text.trim().is_empty() {
        values.remove(key.name);
        return Ok(());
    }
    let value = Value::read(key, text).map_err(|why| Mistake::Value { key: key.name, value: text.to_owned(), why })?;
    values.insert(key.name, Given { value, origin });
    Ok(())
}

/// What an administrator gives one topic at run time.
pub(super) fn read_altered(altered: &[(String, String)]) -> (Values, Vec<Problem>) {
    let mut values = Values::new();
    let mut problems = Vec::new();
    let names = || KEYS.iter().filter(|key| key.place == Place::Topic).map(|key| key.name);
    for (name, text) in altered {
        let read = match key(name) {
            Some(key) if key.place == Place::Topic => put(&mut values, key, text, Origin::Api),
            Some(key) => Err(Mistake::Misplaced { key: name.clone(), belongs: belongs(key) }),
            None => Err(Mistake::UnknownKey { key: name.clone(), nearest: nearest(name, names()) }),
        };
        problems.extend(read.err().map(|mistake| Problem { origin: Origin::Api, mistake }));
    }
    (values, problems)
}

fn belongs(key: &Key) -> String {
    match key.place {
        Place::System => "below [system]".to_owned(),
        Place::Topic => "below [system] or [topic=NAME]".to_owned(),
        Place::Zookeeper => "below [zookeeper]".to_owned(),
        Place::Property => format!("outside the file, as {} or {}", key.flag(), key.variable()),
    }
}
