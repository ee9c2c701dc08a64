//! What changes when the file is read again: at once, for what is created from then on, or at a restart.

use std::collections::BTreeMap;
use std::fmt;

use super::effective::section;
use super::key::{Effect, Key, Reload};
use super::keys::KEYS;
use super::origin::Origin;
use super::problem::Errors;
use super::settings::Settings;
use super::value::Value;
use super::written::{Given, TopicSection, Written};

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The section, without brackets.
    pub section: String,
    /// The key; none if the section itself came or went.
    pub key: Option<&'static str>,
    /// What held; none if it was unset.
    pub before: Option<String>,
    /// What holds; none if it is unset.
    pub after: Option<String>,
}

/// What a reload does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The settings to serve with from here on: as the new file says, but for what waits for a restart.
    pub settings: Settings,
    /// What is felt at once.
    pub live: Vec<Change>,
    /// What is felt by what is created from here on.
    pub created: Vec<Change>,
    /// What the new file says but only a restart brings.
    pub restart: Vec<Change>,
}

/// Compares the settings in use with those of a file read again, which [`Settings::load`] refuses as
/// a whole if anything in it is wrong.
///
/// # Errors
/// If what changes at once can't stand together with what waits for a restart.
pub fn diff(old: &Settings, new: &Settings) -> Result<Changes, Errors> {
    let settings = Settings::resolve(pinned(old, new), new.surroundings.clone(), new.config_checksum)?;
    let now: Vec<_> = broker_changes(old, &settings).chain(topic_changes(&old.written, &new.written)).collect();
    let (live, created) = now.into_iter().partition(|(reload, _)| *reload != Reload::Created);
    let restart = broker_changes(&settings, new).collect();
    let [live, created, restart] =
        [live, created, restart].map(|changes: Vec<(Reload, Change)>| changes.into_iter().map(|(_, c)| c).collect());
    Ok(Changes { settings, live, created, restart })
}

/// What the new file says, with the old values of all keys that wait for a restart.
fn pinned(old: &Settings, new: &Settings) -> Written {
    let mut written = new.written.clone();
    for key in KEYS.iter().filter(|key| key.reload == Reload::Restart) {
        let before = old.value(key);
        if before == new.value(key) {
            continue;
        }
        match before {
            Some(value) => {
                let origin = old.written.broker.get(key.name).map_or(Origin::Default, |given| given.origin.clone());
                written.broker.insert(key.name, Given { value, origin });
            }
            None => {
                written.broker.remove(key.name);
            }
        }
    }
    written
}

fn broker_changes(old: &Settings, new: &Settings) -> impl Iterator<Item = (Reload, Change)> {
    KEYS.iter().filter(|key| key.effect == Effect::Full).filter_map(|key| {
        let change = difference(section(key), key, old.value(key), new.value(key))?;
        Some((key.reload, change))
    })
}

fn difference(section: &str, key: &'static Key, before: Option<Value>, after: Option<Value>) -> Option<Change> {
    let text = |value: Option<Value>| value.map(|value| value.to_string());
    (before != after).then(|| Change {
        section: section.to_owned(),
        key: Some(key.name),
        before: text(before),
        after: text(after),
    })
}

fn topic_changes(old: &Written, new: &Written) -> Vec<(Reload, Change)> {
    let by_name = |written: &Written| -> BTreeMap<String, TopicSection> {
        written.topics.iter().map(|section| (format!("topic={}", section.pattern), section.clone())).collect()
    };
    let (old, new) = (by_name(old), by_name(new));
    let mut changes = Vec::new();
    for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
        let (before, after) = (old.get(name), new.get(name));
        if before.is_some() != after.is_some() {
            let there = |section: Option<&TopicSection>| section.map(|_| "there".to_owned());
            let change = Change { section: name.clone(), key: None, before: there(before), after: there(after) };
            changes.push((Reload::Live, change));
        }
        let value = |section: Option<&TopicSection>, key: &Key| Some(section?.values.get(key.name)?.value.clone());
        changes.extend(
            KEYS.iter()
                .filter_map(|key| Some((key.reload, difference(name, key, value(before, key), value(after, key))?))),
        );
    }
    changes
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, key, before, after } = self;
        let or_unset = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
        match (key, after) {
            (Some(key), _) => write!(f, "[{section}] {key}: {} → {}", or_unset(before), or_unset(after)),
            (None, Some(_)) => write!(f, "[{section}] is added"),
            (None, None) => write!(f, "[{section}] is removed: its topics stay, under the other sections' settings"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mistake, Sources};
    use super::*;

    fn load(file: &str) -> Settings {
        Settings::load(&Sources { file: Some(file.as_bytes()), overrides: &[], home: Some("/home/a".as_ref()) })
            .expect("a good configuration")
    }

    fn texts(changes: &[Change]) -> Vec<String> {
        changes.iter().map(Change::to_string).collect()
    }

    #[test]
    fn an_equal_file_changes_nothing() {
        let file = "[system]\nbrokerId=1\n[topic=a]\n";
        let moved = "# a comment\n[system]\nbrokerId=2-1\nquartzThreadCount=9\n[topic=a]\n";
        let changes = diff(&load(file), &load(moved)).expect("no mistakes");
        assert_eq!((changes.live, changes.created, changes.restart), (vec![], vec![], vec![]));
    }

    #[test]
    fn changes_are_told_apart_by_when_they_are_felt() {
        let old = load("[system]\nserverPort=1\nstat=false\n[topic=a]\nnumPartitions=2\n[topic=gone]\n");
        let new = load(
            "[system]\nserverPort=2\nstat=true\n[topic=a]\nnumPartitions=3\ndataPath=/x\n[topic=come]\nstat=true\n",
        );
        let changes = diff(&old, &new).expect("no mistakes");
        assert_eq!(
            texts(&changes.live),
            [
                "[system] stat: false → true",
                "[topic=a] numPartitions: 2 → 3",
                "[topic=gone] is removed: its topics stay, under the other sections' settings",
                "[topic=come] is added",
                "[topic=come] stat: unset → true",
            ]
        );
        assert_eq!(texts(&changes.created), ["[topic=a] dataPath: unset → /x"]);
        assert_eq!(texts(&changes.restart), ["[system] serverPort: 1 → 2"]);
        assert_eq!(changes.settings.listen.port(), 1);
        assert_eq!(changes.settings.topic("a").partitions, 3);
        assert!(changes.settings.topic("b").statistics);
        assert_eq!(changes.settings.config_checksum, new.config_checksum);
        assert!(!changes.settings.accepts("gone") && changes.settings.accepts("come"));
    }

    #[test]
    fn what_follows_from_a_key_that_waits_waits_with_it() {
        let old = load("[system]\n");
        let new = load("[system]\nhostName=10.0.0.1\ndataPath=/x\ncommitFileBytes=1024*1024\nmessageBytesMax=1024\n");
        let changes = diff(&old, &new).expect("no mistakes");
        assert_eq!(changes.settings.listen, old.listen);
        assert_eq!(changes.settings.host_name, None);
        assert_eq!(changes.settings.data_log_path, old.data_log_path);
        assert_eq!(changes.settings.data_path, new.data_path);
        assert_eq!(changes.settings.log, old.log);
        assert_eq!(changes.settings.limits.message_bytes_max, 1024);
        assert_eq!(changes.settings.limits.batch_bytes_max, old.limits.batch_bytes_max);
        let waiting: Vec<_> = changes.restart.iter().filter_map(|change| change.key).collect();
        assert_eq!(
            waiting,
            ["hostName", "bindAddress", "httpAddress", "dataLogPath", "commitFileBytes", "batchBytesMax"]
        );
    }

    #[test]
    fn a_reload_after_a_refused_one_still_sees_what_waits() {
        let old = load("[system]\nserverPort=1\n");
        let new = load("[system]\nserverPort=2\n");
        let first = diff(&old, &new).expect("no mistakes");
        let second = diff(&first.settings, &new).expect("no mistakes");
        assert_eq!(first.restart, second.restart);
        assert_eq!(second.live, vec![]);
    }

    #[test]
    fn a_live_value_that_needs_the_restart_is_refused_with_all_others() {
        let old = load("[system]\ncommitFileBytes=16*1024*1024\n");
        let new = load("[system]\nmessageBytesMax=4000*1000\nbatchBytesMax=4*1024*1024\nstat=true\n");
        let errors = diff(&old, &new).expect_err("the batch doesn't fit the log in use");
        let [problem] = errors.problems() else { panic!("one problem: {errors}") };
        assert!(matches!(problem.mistake, Mistake::AtMost { key: "batchBytesMax", .. }), "{errors}");
    }
}
