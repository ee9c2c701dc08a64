//! The broker: what all use cases share.

use crate::configuration::Settings;
use crate::gauges::Gauges;
use crate::slow::SlowLog;
use crate::surroundings::Surroundings;
use crate::topic::{Shape, Topic};
use crate::topics::Topics;
use arc_swap::ArcSwap;
use metaq_log::{Class, Log, Partition};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One broker: its log, its topics, and what it is set to.
#[derive(Debug)]
pub struct Broker {
    pub(crate) log: Log,
    pub(crate) settings: ArcSwap<Settings>,
    /// The bytes of the configuration in effect.
    pub(crate) file: ArcSwap<Option<Arc<[u8]>>>,
    pub(crate) surroundings: Surroundings,
    pub(crate) topics: Topics,
    pub(crate) gauges: Arc<Gauges>,
    /// Milliseconds since 1970.
    pub(crate) started: u64,
    /// When the realtime counters began, milliseconds since 1970.
    pub(crate) realtime_since: AtomicU64,
    /// Held by who changes what an administrator may change.
    pub(crate) administration: Mutex<()>,
    /// Held by who removes segments, or needs them to stay.
    pub(crate) housekeeping: Mutex<()>,
    /// The partition whose old segments are being counted.
    pub(crate) surveyed: Mutex<Option<u32>>,
    pub(crate) slow_log: SlowLog,
}

/// Why a broker can't begin on its data directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The directory belongs to another broker of the cluster.
    #[error("brokerId is {settings}, but the data directory was opened for broker {log}")]
    OtherBroker {
        /// By the settings.
        settings: u16,
        /// By the log.
        log: u16,
    },
}

impl Broker {
    /// A broker on an open data directory.
    pub fn new(log: Log, settings: Settings, surroundings: Surroundings) -> Result<Arc<Self>, StartError> {
        if log.options().broker != settings.broker_id {
            return Err(StartError::OtherBroker { settings: settings.broker_id, log: log.options().broker });
        }
        let topics = Topics::load(&log, &settings);
        let started = (surroundings.clock)();
        Ok(Arc::new(Self {
            log,
            settings: ArcSwap::from_pointee(settings),
            file: ArcSwap::from_pointee(surroundings.file.clone()),
            topics,
            gauges: Arc::default(),
            started,
            realtime_since: AtomicU64::new(started),
            administration: Mutex::new(()),
            housekeeping: Mutex::new(()),
            surveyed: Mutex::new(None),
            slow_log: SlowLog::default(),
            surroundings,
        }))
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What it is set to at this moment.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// What the fronts keep up to date.
    pub fn gauges(&self) -> &Arc<Gauges> {
        &self.gauges
    }

    /// The text that `version` is answered.
    pub fn version(&self) -> &str {
        &self.surroundings.version
    }

    /// What acknowledgements of a topic's puts wait for.
    pub fn class_of(&self, topic: &str) -> Class {
        self.topics.all().get(topic).map_or(Class::Durable, |topic| topic.shape.load().class())
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.surroundings.clock)()
    }

    /// `0-3` of index 3.
    pub(crate) fn partition_name(&self, index: impl std::fmt::Display) -> String {
        format!("{}-{index}", self.log.options().broker)
    }

    /// Looks a topic up without allocating.
    pub(crate) fn with_topic<T>(&self, name: &str, then: impl FnOnce(Option<(&Topic, &Shape)>) -> T) -> T {
        let topics = self.topics.all();
        match topics.get(name) {
            Some(topic) => then(Some((topic, &topic.shape.load()))),
            None => then(None),
        }
    }

    /// How a partition is called in sentences: `topic 0-3`.
    pub(crate) fn called(&self, partition: &Partition) -> String {
        format!("{} {}", partition.topic, self.partition_name(partition.index))
    }
}
