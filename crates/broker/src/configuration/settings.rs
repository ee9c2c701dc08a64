//! A configuration as meant: every value resolved, typed and in agreement with the others.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::{Default, Key};
use super::keys::key;
use super::limits::{Limits, limits};
use super::origin::Origin;
use super::problem::{Errors, Mistake, Problem};
use super::value::Value;
use super::written::{self, Given, Sources, Values, Written};

/// All settings of a broker; those of a topic come from [`Settings::topic`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The broker's number, 0 to 1023.
    pub broker_id: u16,
    /// The address that clients are told, if one is named.
    pub host_name: Option<String>,
    /// Where the text protocol is served; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Where metrics and health are served; none if they aren't.
    pub http: Option<SocketAddr>,
    /// The event loops that serve connections; none is one a core.
    pub network_threads: Option<NonZeroUsize>,
    /// The congestion control of client connections, if one is named.
    pub tcp_congestion: Option<String>,
    /// The folder of partitions of topics that name no other.
    pub data_path: PathBuf,
    /// The folder of the commit log and all else that is ours.
    pub data_log_path: PathBuf,
    /// Whether a put to a topic that no section names creates it.
    pub auto_create_topics: bool,
    /// Whether a get beyond the end is answered 301 with the end.
    pub update_consumer_offsets: bool,
    /// Whether topics with `stat=true` are counted at all.
    pub realtime_statistics: bool,
    /// A put that took this long is logged.
    pub slow_put: Duration,
    /// The commit log and what it materialises.
    pub log: LogSettings,
    /// What is bounded, and how.
    pub limits: Limits,
    /// How long connections and the stop may take.
    pub times: Times,
    /// The registry in ZooKeeper.
    pub zookeeper: Zookeeper,
    /// CRC-32 of the file's bytes; 0 without a file.
    pub config_checksum: u32,
    pub(super) written: Written,
    pub(super) surroundings: Surroundings,
}

/// What isn't a value of a key, but decides about defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// Whether there is a file.
    file: bool,
    home: Option<PathBuf>,
}

/// The commit log and what it materialises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The size of one file of the ring: a multiple of 4096.
    pub commit_file_bytes: u64,
    /// How many files the ring has, at least 2.
    pub commit_files: u32,
    /// The longest time between two checkpoints of a log in use.
    pub checkpoint_interval: Duration,
    /// Bytes that may wait in memory to be written to segments.
    pub pending_bytes_max: u64,
    /// Segment files kept open; none is a share of what the process is allowed.
    pub descriptors_max: Option<NonZeroUsize>,
    /// Free space below which puts are refused.
    pub disk_reserve_bytes: u64,
}

/// How long things may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// A put undecided for this long is answered as outcome unknown.
    pub put_max: Duration,
    /// How long a connection above its bytes in flight isn't read.
    pub stall_max: Duration,
    /// The longest wait of a get.
    pub wait_max: Duration,
    /// A connection without traffic for this long is closed.
    pub idle_max: Duration,
    /// How long a stop may take.
    pub stop_max: Duration,
    /// The longest timeout of a transaction.
    pub transaction_max: Duration,
}

/// The registry in ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zookeeper {
    /// The servers; none if the broker stands alone.
    pub connect: Option<String>,
    /// Whether the broker registers itself and its topics.
    pub enable: bool,
    /// The path below which everything lies: with a leading `/`, without one at its end; empty for the root.
    pub root: String,
    /// The session's timeout.
    pub session_timeout: Duration,
    /// How long a first connection may take.
    pub connection_timeout: Duration,
    /// How long clients may take to see a change.
    pub sync_time: Duration,
}

impl Settings {
    /// Judges all sources and resolves them.
    ///
    /// # Errors
    /// All mistakes of all sources; if there are none, all values that can't stand together.
    pub fn load(sources: &Sources) -> Result<Self, Errors> {
        let (written, problems) = written::read(sources);
        Errors::unless_empty(problems)?;
        let surroundings = Surroundings { file: sources.file.is_some(), home: sources.home.map(Path::to_owned) };
        let checksum = sources.file.map(config_checksum).unwrap_or_default();
        Self::resolve(written, surroundings, checksum)
    }

    /// Resolves what was written. Values that can't stand together are the only mistakes here.
    pub(super) fn resolve(written: Written, surroundings: Surroundings, config_checksum: u32) -> Result<Self, Errors> {
        let values = Resolved { given: &written.broker };
        let data_path = data_path(&values, &surroundings)?;
        let bind = values.address("bindAddress").unwrap_or_else(|| default_bind_address(&values));
        let log = log_settings(&values);
        let limits = limits(&values, &log)?;
        let settings = Self {
            broker_id: values.number("brokerId"),
            host_name: values.text("hostName"),
            listen: SocketAddr::new(bind, values.number("serverPort")),
            http: u16::try_from(values.number::<i64>("dashboardHttpPort"))
                .ok()
                .map(|port| SocketAddr::new(values.address("httpAddress").unwrap_or(bind), port)),
            network_threads: NonZeroUsize::new(values.number("networkThreads")),
            tcp_congestion: values.text("tcpCongestion"),
            data_log_path: values.text("dataLogPath").map_or_else(|| data_path.clone(), PathBuf::from),
            data_path,
            auto_create_topics: values.switch("autoCreateTopics").unwrap_or(written.topics.is_empty()),
            update_consumer_offsets: values
                .switch("updateConsumerOffsets")
                .or_else(|| values.switch("meta.get.tellMaxOffset"))
                .unwrap_or_default(),
            realtime_statistics: values.switch("meta.realtime.stat").unwrap_or_default(),
            slow_put: values.milliseconds("slowPutMs"),
            times: times(&values),
            zookeeper: zookeeper(&values),
            log,
            limits,
            config_checksum,
            written,
            surroundings,
        };
        Ok(settings)
    }
}

/// What the original publishes of its file: the unsigned CRC-32 of its bytes, written in decimal.
pub fn config_checksum(file: &[u8]) -> u32 {
    crc32fast::hash(file)
}

/// The values of the broker, with the built-in defaults below them.
pub(super) struct Resolved<'a> {
    pub(super) given: &'a Values,
}

impl Resolved<'_> {
    /// The value of a key; none if it isn't given and its default is derived.
    pub(super) fn given(&self, name: &str) -> Option<Given> {
        let key = key(name).expect("the table has every key that is asked for");
        self.given.get(key.name).cloned().or_else(|| built_in(key))
    }

    pub(super) fn optional_number<N: TryFrom<i64>>(&self, name: &str) -> Option<N> {
        match self.given(name)?.value {
            Value::Number(number) => N::try_from(number).ok(),
            other => unreachable!("{name} is a number, not {other:?}"),
        }
    }

    pub(super) fn number<N: TryFrom<i64>>(&self, name: &str) -> N {
        self.optional_number(name).expect("the range of a key with a built-in default fits its type")
    }

    pub(super) fn milliseconds(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        match self.given(name)?.value {
            Value::Switch(on) => Some(on),
            other => unreachable!("{name} is a switch, not {other:?}"),
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.given(name)?.value {
            Value::Text(text) => Some(text),
            other => unreachable!("{name} is a text, not {other:?}"),
        }
    }

    fn address(&self, name: &str) -> Option<IpAddr> {
        match self.given(name)?.value {
            Value::Address(address) => Some(address),
            other => unreachable!("{name} is an address, not {other:?}"),
        }
    }
}

/// The built-in default of a key, if it has one.
pub(super) fn built_in(key: &Key) -> Option<Given> {
    match key.default {
        Default::Is(text) => {
            let value = Value::read(key, text).expect("every default is a value of its key");
            Some(Given { value, origin: Origin::Default })
        }
        Default::Derived(_) => None,
    }
}

fn data_path(values: &Resolved, surroundings: &Surroundings) -> Result<PathBuf, Errors> {
    if let Some(path) = values.text("dataPath") {
        return Ok(PathBuf::from(path));
    }
    match (surroundings.file, &surroundings.home) {
        (false, _) => Ok(PathBuf::from("./metaq-data")),
        (true, Some(home)) => Ok(home.join("meta")),
        (true, None) => Err(one(Mistake::NoHome)),
    }
}

/// Loopback, unless the file calls for clients from outside: the original listens on all addresses.
fn default_bind_address(values: &Resolved) -> IpAddr {
    let from_outside = match values.text("hostName") {
        Some(name) => !is_loopback(&name),
        None => values.text("zk.zkConnect").is_some(),
    };
    IpAddr::V4(if from_outside { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST })
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn log_settings(values: &Resolved) -> LogSettings {
    LogSettings {
        commit_file_bytes: values.number("commitFileBytes"),
        commit_files: values.number("commitFiles"),
        checkpoint_interval: values.milliseconds("checkpointIntervalMs"),
        pending_bytes_max: values.number("pendingBytesMax"),
        descriptors_max: values.optional_number("descriptorsMax").and_then(NonZeroUsize::new),
        disk_reserve_bytes: values.number("diskReserveBytes"),
    }
}

fn times(values: &Resolved) -> Times {
    Times {
        put_max: values.milliseconds("putMsMax"),
        stall_max: values.milliseconds("stallMsMax"),
        wait_max: values.milliseconds("waitMsMax"),
        idle_max: Duration::from_millis(
            values
                .optional_number("idleMsMax")
                .unwrap_or_else(|| values.number("notify.remoting.connection.timeout_threshold")),
        ),
        stop_max: values.milliseconds("stopMsMax"),
        transaction_max: Duration::from_secs(values.number("maxTxTimeoutInSeconds")),
    }
}

fn zookeeper(values: &Resolved) -> Zookeeper {
    let root = values.text("zk.zkRoot").unwrap_or_default();
    let root = root.trim_matches('/');
    Zookeeper {
        connect: values.text("zk.zkConnect"),
        enable: values.switch("zk.zkEnable").unwrap_or_default(),
        root: if root.is_empty() { String::new() } else { format!("/{root}") },
        session_timeout: values.milliseconds("zk.zkSessionTimeoutMs"),
        connection_timeout: values.milliseconds("zk.zkConnectionTimeoutMs"),
        sync_time: values.milliseconds("zk.zkSyncTimeMs"),
    }
}

/// A mistake about the whole.
fn one(mistake: Mistake) -> Errors {
    let problem = Problem { origin: Origin::Default, mistake };
    Errors::unless_empty(vec![problem]).expect_err("there is a problem")
}

#[cfg(test)]
mod tests {
    use super::super::key::{Effect, Kind};
    use super::super::keys::KEYS;
    use super::super::origin::Override;
    use super::super::{Durability, Expired};
    use super::*;

    /// Every key of the original's file, in its own words.
    const ORIGINAL: &str = include_str!("testdata/original.ini");

    fn load(file: &str) -> Result<Settings, Errors> {
        Settings::load(&Sources { file: Some(file.as_bytes()), overrides: &[], home: Some(Path::new("/home/a")) })
    }

    fn good(file: &str) -> Settings {
        load(file).expect("a good configuration")
    }

    #[test]
    fn a_file_of_the_original_with_every_key_is_read_as_it_is() {
        let settings = good(ORIGINAL);
        assert_eq!(settings.broker_id, 7);
        assert_eq!(settings.host_name.as_deref(), Some("127.0.0.1"));
        assert_eq!(settings.listen, "127.0.0.1:18123".parse().expect("an address"));
        assert_eq!(settings.http, Some("127.0.0.1:18120".parse().expect("an address")));
        assert_eq!(settings.data_path, Path::new("/var/metaq/data"));
        assert_eq!(settings.data_log_path, Path::new("/var/metaq/log"));
        assert_eq!(settings.limits.transfer_bytes_max, 512 << 10);
        assert_eq!(settings.limits.transactions_timed_max, 100);
        assert_eq!(settings.times.transaction_max, Duration::from_secs(30));
        assert!(settings.update_consumer_offsets && !settings.auto_create_topics);
        assert_eq!(settings.zookeeper.connect.as_deref(), Some("zoo1:2181,zoo2:2181"));
        assert_eq!(settings.zookeeper.root, "/metaq/one");
        assert_eq!(settings.zookeeper.sync_time, Duration::from_millis(300));
        assert_eq!(settings.named_topics().collect::<Vec<_>>(), ["orders", "audit.v2_log"]);

        let orders = settings.topic("orders");
        assert_eq!((orders.partitions, orders.segment_bytes_max), (4, 1 << 30));
        assert_eq!(orders.data_path, Path::new("/disk2/data"));
        let interval = Durability::Interval { messages: 100, period: Duration::from_secs(5) };
        assert_eq!(orders.durability, interval);
        assert_eq!(orders.retention.expired, Expired::ArchiveZip);
        assert_eq!(orders.retention_when.as_str(), "0 0/30 * * * ?");
        assert!(orders.statistics && !orders.accept_publish && orders.accept_subscribe);
        assert_eq!(settings.topic("log.x").durability, Durability::Fsync);
        assert_eq!(settings.config_checksum, config_checksum(ORIGINAL.as_bytes()));
    }

    #[test]
    fn the_file_of_the_original_has_every_key_of_the_original() {
        let written = good(ORIGINAL).written;
        let given = |key: &Key| {
            written.broker.contains_key(key.name)
                || written.topics.iter().any(|topic| topic.values.contains_key(key.name))
        };
        for key in KEYS {
            use super::super::key::{Family, Place};
            let of_the_file = key.family == Family::Original && key.place != Place::Property;
            assert_eq!(given(key), of_the_file, "{}", key.name);
        }
    }

    #[test]
    fn without_a_file_everything_has_a_default() {
        let settings = Settings::load(&Sources::default()).expect("good defaults");
        assert_eq!(settings.listen, "127.0.0.1:8123".parse().expect("an address"));
        assert_eq!(settings.http, Some("127.0.0.1:8120".parse().expect("an address")));
        assert_eq!(settings.data_path, Path::new("./metaq-data"));
        assert_eq!(settings.data_log_path, settings.data_path);
        assert_eq!(settings.config_checksum, 0);
        assert!(settings.auto_create_topics && settings.accepts("anything"));
        assert_eq!(settings.topic("anything").durability, Durability::Fsync);
        assert_eq!(settings.topic("anything").retention_bytes, None);
        assert_eq!(settings.limits.message_bytes_max, 2 << 20);
        assert_eq!(settings.limits.transaction_bytes_max, 64 << 20);
        assert_eq!(settings.times.idle_max, Duration::from_secs(300));
        assert_eq!(settings.warnings(), vec![]);
    }

    #[test]
    fn a_file_without_data_path_means_the_home_of_the_original() {
        assert_eq!(good("").data_path, Path::new("/home/a/meta"));
        let homeless = Settings::load(&Sources { file: Some(b""), ..Sources::default() });
        let errors = homeless.expect_err("nobody knows where ~ is");
        assert_eq!(errors.problems()[0].mistake, Mistake::NoHome);
    }

    #[test]
    fn topics_of_the_file_close_the_list_unless_it_says_otherwise() {
        assert!(good("[system]\n").auto_create_topics);
        assert!(!good("[topic=a]\n").auto_create_topics);
        assert!(good("[system]\nautoCreateTopics=true\n[topic=a]\n").auto_create_topics);
    }

    #[test]
    fn the_broker_listens_beyond_loopback_only_when_the_file_calls_for_it() {
        let ip = |file: &str| good(file).listen.ip().to_string();
        assert_eq!(ip("[system]\nbrokerId=1\n"), "127.0.0.1");
        assert_eq!(ip("[system]\nhostName=localhost\n[zookeeper]\nzk.zkConnect=zoo:1\n"), "127.0.0.1");
        assert_eq!(ip("[system]\nhostName=10.0.0.1\n"), "0.0.0.0");
        assert_eq!(ip("[zookeeper]\nzk.zkConnect=zoo:1\n"), "0.0.0.0");
        assert_eq!(ip("[system]\nhostName=10.0.0.1\nbindAddress=::1\n"), "::1");
    }

    #[test]
    fn http_is_switched_off_by_a_port_below_zero() {
        assert_eq!(good("[system]\ndashboardHttpPort=-1\n").http, None);
        let http = good("[system]\nhttpAddress=10.0.0.1\n").http;
        assert_eq!(http, Some("10.0.0.1:8120".parse().expect("an address")));
    }

    #[test]
    fn the_root_of_zookeeper_is_tidied_as_the_original_does() {
        for (written, root) in [("meta", "/meta"), ("/a/b/", "/a/b"), ("/", ""), ("", "/meta")] {
            assert_eq!(good(&format!("[zookeeper]\nzk.zkRoot={written}\n")).zookeeper.root, root);
        }
    }

    #[test]
    fn system_properties_are_defaults_of_their_keys() {
        let property = |name, value| Override::flag(name, value, "--x");
        let overrides = [
            property("meta.get.tellMaxOffset", "true"),
            property("notify.remoting.max_read_buffer_size", "1024"),
            property("notify.remoting.connection.timeout_threshold", "5"),
            property("meta.realtime.stat", "false"),
        ];
        let sources = Sources { overrides: &overrides, ..Sources::default() };
        let settings = Settings::load(&sources).expect("a good configuration");
        assert!(settings.update_consumer_offsets && !settings.realtime_statistics);
        assert_eq!(settings.limits.message_bytes_max, 1024);
        assert_eq!(settings.times.idle_max, Duration::from_millis(5));

        let file = b"[system]\nupdateConsumerOffsets=false\nmessageBytesMax=2048\nidleMsMax=7\n";
        let sources = Sources { file: Some(file), overrides: &overrides, home: Some(Path::new("/")) };
        let settings = Settings::load(&sources).expect("a good configuration");
        assert!(!settings.update_consumer_offsets);
        assert_eq!(settings.limits.message_bytes_max, 2048);
        assert_eq!(settings.times.idle_max, Duration::from_millis(7));
    }

    /// A value of the key that isn't its default.
    fn another(key: &Key) -> String {
        match key.kind {
            Kind::Switch => match key.default {
                Default::Is("true") => "false".to_owned(),
                _ if key.name == "autoCreateTopics" => "false".to_owned(),
                _ => "true".to_owned(),
            },
            Kind::Text | Kind::Path => "/else".to_owned(),
            Kind::Address => "127.0.0.9".to_owned(),
            Kind::Schedule => "0 0 0 * * ?".to_owned(),
            Kind::Retention => "archive,1".to_owned(),
            Kind::Durability => "os".to_owned(),
            _ if key.name == "commitFileBytes" => "128*1024*1024".to_owned(),
            _ if key.name == "memoryBytesMax" => "2*1024*1024*1024".to_owned(),
            _ if key.name.ends_with("InFlightMax") || key.name == "discardBytesMax" => "32*1024*1024".to_owned(),
            _ if key.name == "batchBytesMax" => "8*1024*1024".to_owned(),
            _ => (key.range.0.max(0) + 3).to_string(),
        }
    }

    #[test]
    fn every_key_with_an_effect_changes_the_settings() {
        for key in KEYS.iter().filter(|key| key.effect == Effect::Full) {
            let load = |value: &str| {
                // The interval means nothing without a threshold.
                let threshold = if key.name == "unflushInterval" { "1000" } else { "" };
                let overrides =
                    [Override::flag("unflushThreshold", threshold, "--x"), Override::flag(key.name, value, "--x")];
                let sources = Sources { overrides: &overrides, ..Sources::default() };
                let settings = Settings::load(&sources).unwrap_or_else(|errors| panic!("{}: {errors}", key.name));
                let topic = settings.topic("t");
                (Settings { written: Written::default(), ..settings }, topic)
            };
            assert_ne!(load(&another(key)), load(""), "{} changes nothing", key.name);
        }
    }

    #[test]
    fn the_checksum_is_the_unsigned_crc_of_the_bytes() {
        assert_eq!(config_checksum(b""), 0);
        assert_eq!(config_checksum(b"123456789").to_string(), "3421780262");
    }
}
