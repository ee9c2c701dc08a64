//! Every value that holds, with where it comes from; and what an operator should know about them.

use super::key::{Effect, Key, Place};
use super::keys::{KEYS, key};
use super::origin::Origin;
use super::problem::Errors;
use super::settings::{Resolved, Settings};
use super::topic::TopicSettings;
use super::value::Value;
use super::written::Values;

/// One value that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The section it is about, without brackets: `system`, `zookeeper`, `topic=NAME`; `properties` for
    /// the system properties of the original.
    pub section: String,
    /// The key.
    pub key: &'static Key,
    /// The value as meant: expressions are worked out, derived defaults too. None if it is unset.
    pub value: Option<String>,
    /// Where it comes from; the default, if it is derived.
    pub origin: Origin,
}

/// Something that isn't wrong, but may not be what the operator expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub origin: Origin,
    /// A sentence.
    pub text: String,
}

impl Settings {
    /// All values of the broker, in the order of the reference, then those that each topic section gives.
    pub fn effective(&self) -> Vec<Effective> {
        let broker = KEYS.iter().map(|key| Effective {
            section: section(key).to_owned(),
            key,
            value: self.value(key).map(|value| value.to_string()),
            origin: origin(&self.written.broker, key),
        });
        let topics = self.written.topics.iter().flat_map(|topic| {
            given(&topic.values).map(|(key, value, origin)| Effective {
                section: format!("topic={}", topic.pattern),
                key,
                value: Some(value.to_string()),
                origin: origin.clone(),
            })
        });
        broker.chain(topics).collect()
    }

    /// All values of one topic; `altered` as in [`Settings::altered_topic`].
    ///
    /// # Errors
    /// As [`Settings::altered_topic`].
    pub fn effective_topic(&self, topic: &str, altered: &[(String, String)]) -> Result<Vec<Effective>, Errors> {
        let (settings, given) = self.merged_topic(topic, altered)?;
        let of = |key: &'static Key| Effective {
            section: format!("topic={topic}"),
            key,
            value: topic_value(&settings, &given, key),
            origin: origin(&given, key),
        };
        Ok(KEYS.iter().filter(|key| key.place == Place::Topic).map(of).collect())
    }

    /// What an operator should know before this is served.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = given(&self.written.broker)
            .filter_map(|(key, _, origin)| match key.effect {
                Effect::Full => None,
                Effect::None(why) => {
                    let text = format!("{} has no effect here: {why}", key.name);
                    Some(Warning { origin: origin.clone(), text })
                }
            })
            .collect();
        if self.zookeeper.connect.is_some() && self.zookeeper.enable {
            let text = "zk.zkConnect is set, but this version registers nothing in ZooKeeper: clients that look \
                        there will not find this broker"
                .to_owned();
            warnings.push(Warning { origin: self.origin("zk.zkConnect"), text });
        }
        if !self.listen.ip().is_loopback() {
            let text = format!(
                "the broker listens at {}, beyond loopback, without TLS: whoever reaches the port may read and write",
                self.listen
            );
            warnings.push(Warning { origin: self.origin("bindAddress"), text });
        }
        warnings.sort_by(|left, right| left.origin.cmp(&right.origin));
        warnings
    }

    fn origin(&self, name: &str) -> Origin {
        key(name).map_or(Origin::Default, |key| origin(&self.written.broker, key))
    }

    /// The value of a key for the broker as a whole, worked out if its default is derived.
    pub(super) fn value(&self, key: &'static Key) -> Option<Value> {
        let values = Resolved { given: &self.written.broker };
        values.given(key.name).map(|given| given.value).or_else(|| self.derived(key.name))
    }

    /// What the derived defaults come to, where it is known.
    fn derived(&self, name: &str) -> Option<Value> {
        let size = |size: usize| Value::Number(i64::try_from(size).unwrap_or(i64::MAX));
        Some(match name {
            "bindAddress" => Value::Address(self.listen.ip()),
            "httpAddress" => Value::Address(self.http?.ip()),
            "dataPath" => Value::Text(self.data_path.display().to_string()),
            "dataLogPath" => Value::Text(self.data_log_path.display().to_string()),
            "autoCreateTopics" => Value::Switch(self.auto_create_topics),
            "updateConsumerOffsets" => Value::Switch(self.update_consumer_offsets),
            "durability" => Value::Durability(self.default_topic().durability.mode()),
            "messageBytesMax" => size(self.limits.message_bytes_max),
            "batchBytesMax" => size(self.limits.batch_bytes_max),
            "transactionBytesMax" => {
                Value::Number(i64::try_from(self.limits.transaction_bytes_max).unwrap_or(i64::MAX))
            }
            "idleMsMax" => Value::Number(i64::try_from(self.times.idle_max.as_millis()).unwrap_or(i64::MAX)),
            _ => return None,
        })
    }
}

/// The section of a key that holds for the broker as a whole.
pub(super) fn section(key: &Key) -> &'static str {
    match key.place {
        Place::System | Place::Topic => "system",
        Place::Zookeeper => "zookeeper",
        Place::Property => "properties",
    }
}

fn origin(values: &Values, key: &Key) -> Origin {
    values.get(key.name).map_or(Origin::Default, |given| given.origin.clone())
}

/// The values of one place in the order of the reference.
fn given(values: &Values) -> impl Iterator<Item = (&'static Key, &Value, &Origin)> {
    KEYS.iter().filter_map(|key| values.get(key.name).map(|given| (key, &given.value, &given.origin)))
}

fn topic_value(settings: &TopicSettings, given: &Values, key: &Key) -> Option<String> {
    match key.name {
        "durability" => Some(settings.durability.to_string()),
        "dataPath" => Some(settings.data_path.display().to_string()),
        name => given.get(name).map(|given| given.value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Override, Sources};
    use super::*;

    fn load(file: &str, overrides: &[Override]) -> Settings {
        Settings::load(&Sources { file: Some(file.as_bytes()), overrides, home: Some("/home/a".as_ref()) })
            .expect("a good configuration")
    }

    fn find(effective: &[Effective], section: &str, name: &str) -> (Option<String>, Origin) {
        let found = effective.iter().find(|value| value.section == section && value.key.name == name);
        let found = found.unwrap_or_else(|| panic!("{section} {name}"));
        (found.value.clone(), found.origin.clone())
    }

    #[test]
    fn every_value_says_where_it_comes_from() {
        let overrides = [
            Override::flag("serverPort", "9000", "--server-port"),
            Override::variable("METAQ_COMMIT_FILES", "8").expect("a key"),
        ];
        let file = "[system]\nmaxSegmentSize=64*1024\nserverPort=1\n[topic=a]\nnumPartitions=1+1\n";
        let effective = load(file, &overrides).effective();
        let system = |name| find(&effective, "system", name);
        assert_eq!(system("maxSegmentSize"), (Some("65536".to_owned()), Origin::File { line: 2 }));
        assert_eq!(system("serverPort"), (Some("9000".to_owned()), Origin::Flag("--server-port".to_owned())));
        let variable = Origin::Environment("METAQ_COMMIT_FILES".to_owned());
        assert_eq!(system("commitFiles"), (Some("8".to_owned()), variable));
        assert_eq!(system("brokerId"), (Some("0".to_owned()), Origin::Default));
        assert_eq!(system("dataPath"), (Some("/home/a/meta".to_owned()), Origin::Default));
        assert_eq!(system("hostName"), (None, Origin::Default));
        let of_topic = find(&effective, "topic=a", "numPartitions");
        assert_eq!(of_topic, (Some("2".to_owned()), Origin::File { line: 5 }));
    }

    #[test]
    fn a_topic_shows_which_section_gave_each_value() {
        let file = "[system]\nstat=true\nunflushThreshold=5\n[topic=a*]\nnumPartitions=3\n[topic=ab]\nstat=false\n";
        let altered = [("acceptPublish".to_owned(), "false".to_owned())];
        let effective = load(file, &[]).effective_topic("ab", &altered).expect("good alterations");
        let topic = |name| find(&effective, "topic=ab", name);
        assert_eq!(topic("stat"), (Some("false".to_owned()), Origin::File { line: 7 }));
        assert_eq!(topic("numPartitions"), (Some("3".to_owned()), Origin::File { line: 5 }));
        assert_eq!(topic("acceptPublish"), (Some("false".to_owned()), Origin::Api));
        assert_eq!(topic("durability").0.as_deref(), Some("interval (5 messages or 10000 ms)"));
        assert_eq!(topic("retentionBytes"), (Some("-1".to_owned()), Origin::Default));
    }

    #[test]
    fn a_key_without_effect_is_pointed_out_with_its_line_and_its_reason() {
        let warnings = load("[system]\nbrokerId=1\nquartzThreadCount=3\nappClassPath=\n", &[]).warnings();
        let [warning] = &warnings[..] else { panic!("one warning: {warnings:?}") };
        assert_eq!(warning.origin, Origin::File { line: 3 });
        assert!(warning.text.starts_with("quartzThreadCount has no effect here: "), "{}", warning.text);
    }

    #[test]
    fn zookeeper_and_an_open_port_are_pointed_out() {
        let warnings = load("[zookeeper]\nzk.zkConnect=zoo:2181\n", &[]).warnings();
        assert!(warnings.iter().any(|warning| warning.text.contains("ZooKeeper")), "{warnings:?}");
        assert!(warnings.iter().any(|warning| warning.text.contains("without TLS")), "{warnings:?}");
        let quiet = load("[system]\nhostName=127.0.0.1\n[zookeeper]\nzk.zkConnect=zoo:2181\nzk.zkEnable=false\n", &[]);
        assert_eq!(quiet.warnings(), vec![]);
    }
}
