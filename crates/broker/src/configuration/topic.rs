//! The settings of one topic: its own section wins over patterns, those over `[system]`.

use std::path::PathBuf;

use super::durability::Durability;
use super::key::Place;
use super::keys::KEYS;
use super::origin::Origin;
use super::pattern::Pattern;
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
        self.written.topics.iter().map(|section| &section.pattern).filter(|p| p.is_exact()).map(Pattern::as_str)
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

    /// From the lowest to the highest: built in, `[system]` (file, variables, flags), the patterns that
    /// match in the order of the file, the topic's own section, what was altered.
    fn layers(&self, topic: &str, altered: Option<Values>) -> Vec<Values> {
        let built_in = KEYS.iter().filter(|key| key.place == Place::Topic);
        let built_in = built_in.filter_map(|key| Some((key.name, settings::built_in(key)?))).collect();
        let [file, variables, flags] = self.broker_layers();
        let (exact, patterns): (Vec<_>, Vec<_>) = (self.written.topics.iter())
            .filter(|section| section.pattern.matches(topic))
            .partition(|section| section.pattern.is_exact());
        [built_in, file, variables, flags]
            .into_iter()
            .chain(patterns.into_iter().chain(exact).map(|section| section.values.clone()))
            .chain(altered)
            .collect()
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
        let merged = layers.iter().flatten().map(|(&name, given)| (name, given.clone())).collect();
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
