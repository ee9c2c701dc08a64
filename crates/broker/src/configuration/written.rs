//! A configuration as written: the values that were given, each read by its key and with its origin.
//!
//! Every mistake is collected before anything is refused. Whether the values agree with each other is
//! judged in the next step, [`super::Settings`].

use std::collections::BTreeMap;
use std::path::Path;

use metaq_protocol::TopicPattern;

use super::ini::{self, Content};
use super::key::{Key, Place};
use super::keys::{KEYS, key, nearest};
use super::origin::{Origin, Override};
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
    pub(super) pattern: TopicPattern,
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
                let pattern = TopicPattern::new(topic).map_err(|why| Mistake::Topic { name: topic.to_owned(), why })?;
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

/// Notes a value; a blank one is as good as none.
fn put(values: &mut Values, key: &'static Key, text: &str, origin: Origin) -> Result<(), Mistake> {
    if text.trim().is_empty() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, expected: &[&str]) {
        let (_, problems) = read(&Sources { file: Some(file.as_bytes()), ..Sources::default() });
        let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(problems, expected, "{file}");
    }

    #[test]
    fn every_mistake_of_a_file_is_said_with_its_line() {
        check(
            "brokerId=1\n\
             [system]\n\
             brokerID=1\n\
             numPartitions=0\n\
             serverPort=9\n\
             serverPort=10\n\
             maxSegmentSize=1024*1024*1024*1024\n\
             zk.zkRoot=/x\n\
             stat=maybe\n\
             [topic=a]\n\
             numPartitions=1/0\n\
             serverPort=1\n\
             group.billing=com.example.Filter\n\
             group.other=\n\
             deleteWhen=daily\n\
             [topics]\n\
             passed=over\n\
             [topic=a]\n\
             stat=true\n\
             [topic=]\n\
             [zookeeper]\n\
             zkConnect=a:1\n",
            &[
                "line 1: brokerId stands before the first section: put it below [system]",
                "line 3: there is no key \"brokerID\": did you mean brokerId?",
                "line 4: numPartitions=0: 0 is out of its range, 1 to 65536",
                "line 6: serverPort was given on line 5 already: leave one of them",
                "line 7: maxSegmentSize=1024*1024*1024*1024: 1099511627776 is out of its range, 1 to 2147483647",
                "line 8: zk.zkRoot can't stand here: it belongs below [zookeeper]",
                "line 9: stat=maybe: it is true or false",
                "line 11: numPartitions=1/0: it divides by zero",
                "line 12: serverPort can't stand here: it belongs below [system]",
                "line 13: group.billing=com.example.Filter names a filter, and a Java class can't run here; to ignore \
                 it would deliver filtered messages to billing: remove the line once billing filters by itself",
                "line 15: deleteWhen=daily: a schedule has six or seven fields (second minute hour day month weekday \
                 year), not 1",
                "line 16: there is no section [topics]: sections are [system], [zookeeper] and [topic=NAME]",
                "line 18: [topic=a] was begun on line 10 already: put its keys together there",
                "line 20: [topic=]: a name can't be empty",
                "line 22: there is no key \"zkConnect\": did you mean zk.zkConnect?",
            ],
        );
    }

    #[test]
    fn a_section_may_come_once() {
        let at =
            |section: &str| format!("line 2: [{section}] was begun on line 1 already: put its keys together there");
        check("[system]\n[system]\nbrokerId=5\n", &[&at("system")]);
        check("[zookeeper]\n[ zookeeper ]\n", &[&at("zookeeper")]);
        check("[topic=a*]\n[ topic = a* ]\n", &[&at("topic=a*")]);
    }

    #[test]
    fn a_key_given_twice_is_refused_even_if_one_is_blank() {
        check("[system]\nstat=\nstat=true\n", &["line 3: stat was given on line 2 already: leave one of them"]);
        check("[topic=a]\ngroup.g=\ngroup.g=\n", &["line 3: group.g was given on line 2 already: leave one of them"]);
    }

    #[test]
    fn a_topic_that_would_leave_its_folder_is_refused() {
        check("[topic=a/b]\n", &["line 1: [topic=a/b]: a name can't contain '/'"]);
        check("[topic=..]\n", &["line 1: [topic=..]: a name can't begin with a dot"]);
    }

    #[test]
    fn a_system_property_does_not_stand_in_the_file() {
        check(
            "[system]\nmeta.realtime.stat=true\n",
            &["line 2: meta.realtime.stat can't stand here: it belongs outside the file, as --meta-realtime-stat or \
               METAQ_META_REALTIME_STAT"],
        );
    }

    #[test]
    fn a_key_like_none_gets_no_suggestion() {
        check("[system]\nxyzzy=1\n", &["line 2: there is no key \"xyzzy\""]);
    }

    #[test]
    fn mistakes_outside_the_file_name_the_flag_or_the_variable() {
        let overrides = [
            Override::flag("brokerId", "2000", "--broker-id"),
            Override::flag("brokerid", "2", "--set"),
            Override::variable("METAQ_STAT", "x").expect("a variable"),
        ];
        let (_, problems) = read(&Sources { overrides: &overrides, ..Sources::default() });
        let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            problems,
            [
                "flag --broker-id: brokerId=2000: 2000 is out of its range, 0 to 1023",
                "flag --set: there is no key \"brokerid\": did you mean brokerId?",
                "variable METAQ_STAT: stat=x: it is true or false",
            ]
        );
    }

    #[test]
    fn a_flag_beats_a_variable_and_a_variable_the_file_in_any_order() {
        let variable = Override::variable("METAQ_BROKER_ID", "2").expect("a variable");
        let flag = Override::flag("brokerId", "3", "--broker-id");
        let later = Override::flag("brokerId", "4", "--broker-id");
        let blank = Override::flag("brokerId", " ", "--broker-id");
        for (overrides, expected) in [
            (vec![], 1),
            (vec![variable.clone()], 2),
            (vec![variable.clone(), flag.clone()], 3),
            (vec![flag.clone(), variable.clone()], 3),
            (vec![flag, variable.clone(), later], 4),
            (vec![variable, blank], 2),
        ] {
            let sources = Sources { file: Some(b"[system]\nbrokerId=1\n"), overrides: &overrides, home: None };
            let (written, problems) = read(&sources);
            assert_eq!(problems, vec![]);
            assert_eq!(written.broker["brokerId"].value, Value::Number(expected), "{overrides:?}");
        }
    }

    #[test]
    fn an_alteration_is_of_a_topic_key() {
        let altered = [("stat", "true"), ("serverPort", "1"), ("stats", "1"), ("numPartitions", "0"), ("dataPath", "")];
        let altered = altered.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let (values, problems) = read_altered(&altered);
        assert_eq!(values.keys().collect::<Vec<_>>(), [&"stat"]);
        let problems: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            problems,
            [
                "administration: serverPort can't stand here: it belongs below [system]",
                "administration: there is no key \"stats\": did you mean stat?",
                "administration: numPartitions=0: 0 is out of its range, 1 to 65536",
            ]
        );
    }
}
