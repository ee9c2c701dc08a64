//! The settings of one topic: its own section wins over patterns, those over `[system]`.

use std::path::PathBuf;

use metaq_protocol::TopicPattern;

use super::durability::Durability;
use super::keys::KEYS;
use super::origin::Origin;
use super::problem::Errors;
use super::retention::Retention;
use super::schedule::Schedule;
use super::settings::{self, Resolved, Settings};
use super::value::Value;
use super::written::{Given, Values, read_altered};

/// What holds for one topic on this broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// How many partitions it has, at least 1.
    pub partitions: u32,
    /// The folder that holds its partitions; for partitions that are yet to be created.
    pub data_path: PathBuf,
    /// When its puts are acknowledged and synced.
    pub durability: Durability,
    /// The size at which a segment is sealed.
    pub segment_bytes_max: u32,
    /// How long its segments are kept, and what then becomes of them.
    pub retention: Retention,
    /// When retention runs.
    pub retention_when: Schedule,
    /// How large it may become; none is without bound.
    pub retention_bytes: Option<u64>,
    /// Whether its traffic is counted for `stats realtime`.
    pub statistics: bool,
    /// Whether producers may put to it.
    pub accept_publish: bool,
    /// Whether consumers may get from it.
    pub accept_subscribe: bool,
}

/// A value of one layer; a higher layer wins.
struct Layered {
    given: Given,
    layer: usize,
}

impl Settings {
    /// Whether a put may create this topic: a section names or matches it, or any topic may be created.
    pub fn accepts(&self, topic: &str) -> bool {
        self.auto_create_topics || self.written.topics.iter().any(|section| section.pattern.matches(topic))
    }

    /// The topics that sections name outright, in the order of the file; patterns aren't among them.
    pub fn named_topics(&self) -> impl Iterator<Item = &str> {
        self.written.topics.iter().map(|section| &section.pattern).filter(|p| p.is_literal()).map(TopicPattern::as_str)
    }

    /// All topic sections, patterns too, in the order of the file.
    pub fn topic_sections(&self) -> impl Iterator<Item = &TopicPattern> {
        self.written.topics.iter().map(|section| &section.pattern)
    }

    /// What holds for a topic by the file, the environment and the flags.
    pub fn topic(&self, topic: &str) -> TopicSettings {
        self.of_layers(&self.layers(topic, None))
    }

    /// The same, with what an administrator altered at run time on top: pairs of a topic key and its
    /// value as text, blank for the value below.
    ///
    /// # Errors
    /// All pairs that aren't a topic key with a value of its own.
    pub fn altered_topic(&self, topic: &str, altered: &[(String, String)]) -> Result<TopicSettings, Errors> {
        let (values, problems) = read_altered(altered);
        Errors::unless_empty(problems)?;
        Ok(self.of_layers(&self.layers(topic, Some(values))))
    }

    /// What holds for a topic that no section names.
    pub(super) fn default_topic(&self) -> TopicSettings {
        self.of_layers(&self.layers_below_topics())
    }

    /// What holds for a topic, and the values of its keys that are given, by whom they are given.
    pub(super) fn merged_topic(
        &self,
        topic: &str,
        altered: &[(String, String)],
    ) -> Result<(TopicSettings, Values), Errors> {
        let (values, problems) = read_altered(altered);
        Errors::unless_empty(problems)?;
        let layers = self.layers(topic, Some(values));
        Ok((self.of_layers(&layers), merge(&layers)))
    }

    /// From the lowest to the highest: built in, `[system]` (file, variables, flags), the patterns that
    /// match in the order of the file, the topic's own section, what was altered.
    fn layers(&self, topic: &str, altered: Option<Values>) -> Vec<Values> {
        let matching = self.written.topics.iter().filter(|section| section.pattern.matches(topic));
        let (exact, patterns): (Vec<_>, Vec<_>) = matching.partition(|section| section.pattern.is_literal());
        let sections = patterns.into_iter().chain(exact).map(|section| section.values.clone());
        self.layers_below_topics().into_iter().chain(sections).chain(altered).collect()
    }

    fn layers_below_topics(&self) -> Vec<Values> {
        let built_in = KEYS.iter().filter_map(|key| Some((key.name, settings::built_in(key)?))).collect();
        [built_in].into_iter().chain(self.broker_layers()).collect()
    }

    /// The topic keys of `[system]`, apart by the rank of their origin.
    fn broker_layers(&self) -> [Values; 3] {
        let mut layers: [Values; 3] = std::array::from_fn(|_| Values::new());
        for (&name, given) in &self.written.broker {
            let layer = match given.origin {
                Origin::Environment(_) => 1,
                Origin::Flag(_) => 2,
                Origin::Default | Origin::File { .. } | Origin::Api => 0,
            };
            layers[layer].insert(name, given.clone());
        }
        layers
    }

    fn of_layers(&self, layers: &[Values]) -> TopicSettings {
        let merged = merge(layers);
        let values = Resolved { given: &merged };
        TopicSettings {
            partitions: values.number("numPartitions"),
            data_path: values.text("dataPath").map_or_else(|| self.data_path.clone(), PathBuf::from),
            durability: durability(layers, &values),
            segment_bytes_max: values.number("maxSegmentSize"),
            retention: values.retention("deletePolicy"),
            retention_when: values.schedule("deleteWhen"),
            retention_bytes: u64::try_from(values.number::<i64>("retentionBytes")).ok(),
            statistics: values.switch("stat").unwrap_or_default(),
            accept_publish: values.switch("acceptPublish").unwrap_or_default(),
            accept_subscribe: values.switch("acceptSubscribe").unwrap_or_default(),
        }
    }
}

/// What holds when each layer covers those before it.
fn merge(layers: &[Values]) -> Values {
    layers.iter().flatten().map(|(&name, given)| (name, given.clone())).collect()
}

/// The value of the highest layer that has the key.
fn winner(layers: &[Values], name: &str) -> Option<Layered> {
    let mut highest_first = layers.iter().enumerate().rev();
    highest_first.find_map(|(layer, values)| Some(Layered { given: values.get(name)?.clone(), layer }))
}

/// The highest layer that says anything about durability decides; within it, `durability` does.
fn durability(layers: &[Values], values: &Resolved) -> Durability {
    let threshold = values.number("unflushThreshold");
    let interval_ms = values.number("unflushInterval");
    let by_threshold = winner(layers, "unflushThreshold").map(|layered| layered.layer);
    match winner(layers, "durability") {
        Some(named) if by_threshold.is_none_or(|layer| layer <= named.layer) => match named.given.value {
            Value::Durability(mode) => mode.policy(threshold, interval_ms),
            other => unreachable!("durability is a mode, not {other:?}"),
        },
        _ => Durability::of_thresholds(threshold, interval_ms),
    }
}

impl Resolved<'_> {
    fn retention(&self, name: &str) -> Retention {
        match self.given(name).map(|given| given.value) {
            Some(Value::Retention(retention)) => retention,
            other => unreachable!("{name} is a retention, not {other:?}"),
        }
    }

    fn schedule(&self, name: &str) -> Schedule {
        match self.given(name).map(|given| given.value) {
            Some(Value::Schedule(schedule)) => schedule,
            other => unreachable!("{name} is a schedule, not {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::Override;
    use super::super::written::Sources;
    use super::*;

    fn load_with(file: &str, overrides: &[Override]) -> Settings {
        Settings::load(&Sources { file: Some(file.as_bytes()), overrides, home: Some(Path::new("/home/a")) })
            .expect("a good configuration")
    }

    fn load(file: &str) -> Settings {
        load_with(file, &[])
    }

    fn interval(messages: u32, ms: u64) -> Durability {
        Durability::Interval { messages, period: Duration::from_millis(ms) }
    }

    #[test]
    fn its_own_section_wins_over_patterns_and_later_patterns_over_earlier() {
        let settings = load(
            "[system]\nnumPartitions=1\nmaxSegmentSize=1\n\
             [topic=ab]\nnumPartitions=5\n\
             [topic=a*]\nnumPartitions=2\nstat=true\nmaxSegmentSize=2\n\
             [topic=*b]\nnumPartitions=3\nmaxSegmentSize=3\n",
        );
        let topic = |name: &str| {
            let topic = settings.topic(name);
            (topic.partitions, topic.segment_bytes_max, topic.statistics)
        };
        assert_eq!(topic("ab"), (5, 3, true));
        assert_eq!(topic("axb"), (3, 3, true));
        assert_eq!(topic("ac"), (2, 2, true));
        assert_eq!(topic("b"), (3, 3, false));
        assert_eq!(topic("c"), (1, 1, false));
    }

    #[test]
    fn a_topic_is_accepted_when_a_section_names_or_matches_it() {
        let settings = load("[topic=a.b]\n[topic=w*]\n");
        for (topic, accepted) in [("a.b", true), ("axb", false), ("wild", true), ("other", false)] {
            assert_eq!(settings.accepts(topic), accepted, "{topic}");
        }
        assert_eq!(settings.named_topics().collect::<Vec<_>>(), ["a.b"]);
    }

    #[test]
    fn the_last_place_that_speaks_of_durability_decides() {
        let check = |file: &str, expected: Durability| assert_eq!(load(file).topic("t").durability, expected, "{file}");
        check("", Durability::Fsync);
        check("[system]\nunflushInterval=5\n", Durability::Fsync);
        check("[system]\nunflushThreshold=1000\nunflushInterval=10000\n", interval(1000, 10_000));
        check("[system]\nunflushThreshold=-1\n", Durability::Fsync);
        check("[system]\ndurability=os\nunflushThreshold=1000\n", Durability::Os);
        check("[system]\ndurability=interval\n", interval(1000, 10_000));
        check("[system]\ndurability=os\n[topic=t]\nunflushThreshold=1\n", interval(1, 10_000));
        check("[system]\nunflushThreshold=1000\n[topic=t]\ndurability=fsync\n", Durability::Fsync);
        check("[system]\nunflushThreshold=1000\n[topic=t]\nunflushInterval=7\n", interval(1000, 7));
        check("[system]\ndurability=interval\n[topic=t]\nunflushInterval=7\n", interval(1000, 7));
        check("[topic=t*]\ndurability=os\n[topic=t]\nunflushThreshold=0\n", Durability::Fsync);
        check("[topic=t]\ndurability=os\n[topic=t*]\nunflushThreshold=5\n", Durability::Os);
    }

    #[test]
    fn flags_and_variables_change_what_holds_for_all_but_not_what_a_section_says() {
        let overrides = [
            Override::flag("numPartitions", "9", "--num-partitions"),
            Override::variable("METAQ_DURABILITY", "os").expect("a variable"),
        ];
        let settings =
            load_with("[system]\nnumPartitions=2\nunflushThreshold=5\n[topic=t]\nnumPartitions=3\n", &overrides);
        assert_eq!((settings.topic("t").partitions, settings.topic("u").partitions), (3, 9));
        assert_eq!(settings.topic("t").durability, Durability::Os);
        let threshold = Override::flag("unflushThreshold", "6", "--unflush-threshold");
        let settings = load_with("", &[overrides[1].clone(), threshold]);
        assert_eq!(settings.topic("t").durability, interval(6, 10_000));
    }

    #[test]
    fn what_was_altered_at_run_time_wins_and_a_blank_gives_it_back() {
        let settings = load("[topic=t]\nnumPartitions=3\ndurability=os\n");
        let alter = |key: &str, value: &str| {
            settings.altered_topic("t", &[(key.to_owned(), value.to_owned())]).expect("a good alteration")
        };
        assert_eq!(alter("numPartitions", "2*4").partitions, 8);
        assert_eq!(alter("numPartitions", "").partitions, 3);
        assert_eq!(alter("unflushThreshold", "0").durability, Durability::Fsync);
        assert_eq!(alter("dataPath", "/x").data_path, Path::new("/x"));
        assert_eq!(alter("retentionBytes", "0").retention_bytes, Some(0));
        assert!(settings.altered_topic("t", &[("brokerId".to_owned(), "1".to_owned())]).is_err());
    }
}
