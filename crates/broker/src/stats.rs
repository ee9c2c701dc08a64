//! The texts of `stats`, with the keys and the order of the original.

use crate::broker::Broker;
use crate::configuration::Settings;
use crate::counters::{Counted, Tally};
use crate::refused::Refused;
use crate::topic::{Shape, Topic};
use metaq_protocol::{ErrorCode, Status, answer};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Realtime counters begin anew after so many milliseconds.
const REALTIME_MS: u64 = 30 * 60 * 1000;

/// What `stats` is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatsAnswer {
    /// Lines between `STATS` and `END`.
    Lines(String),
    /// The bytes of the configuration file.
    File(Arc<[u8]>),
    /// It can't be told.
    Refused(Refused),
}

impl StatsAnswer {
    /// Appends the answer.
    pub fn answer(&self, opaque: i32, out: &mut Vec<u8>) {
        match self {
            StatsAnswer::Lines(text) => answer::result(out, Status::Ok, opaque, text.as_bytes()),
            StatsAnswer::File(bytes) => answer::result(out, Status::Ok, opaque, bytes),
            StatsAnswer::Refused(refused) => refused.answer(opaque, out),
        }
    }
}

/// Lines, each ended by CRLF.
struct Lines(String);

impl Lines {
    fn begin() -> Self {
        Self("STATS\r\n".to_owned())
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.write_fmt(line).expect("a string takes everything");
        self.0.push_str("\r\n");
    }

    fn key(&mut self, key: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{key} {value}"));
    }

    fn end(mut self) -> StatsAnswer {
        self.0.push_str("END\r\n");
        StatsAnswer::Lines(self.0)
    }
}

const HELP: [(&str, &str); 6] = [
    ("*EMPTY*", "The broker as a whole."),
    ("help", "This list; also metaq.limits, metaq.memory and metaq.groups."),
    ("topics", "Each topic: partitions, messages, bytes."),
    ("offsets", "Each partition: first position and end."),
    ("realtime", "Rates of topics with stat=true since the last reset, at most 30 minutes ago."),
    ("config", "The configuration file in use; any other word is taken for a topic."),
];

impl Broker {
    /// Answers `stats`; no item is the broker as a whole.
    pub fn stats(&self, item: Option<&str>) -> StatsAnswer {
        self.tick();
        match item.map(str::trim).unwrap_or_default() {
            "" => self.summary(),
            "help" => {
                let mut lines = Lines::begin();
                HELP.iter().for_each(|(item, about)| lines.key(item, about));
                lines.end()
            }
            "topics" => self.topic_lines(),
            "offsets" => self.offset_lines(),
            "realtime" => self.realtime_lines(),
            "reset" => {
                self.reset_realtime();
                let mut lines = Lines::begin();
                lines.key("reset", "ok");
                lines.end()
            }
            "config" => match &**self.file.load() {
                Some(file) => StatsAnswer::File(Arc::clone(file)),
                None => {
                    let text = "the broker was started without a configuration file; admin config shows what holds";
                    StatsAnswer::Refused(Refused::new(ErrorCode::Internal, text))
                }
            },
            "metaq.limits" => self.limit_lines(),
            "metaq.memory" => self.memory_lines(),
            "metaq.groups" => self.group_lines(),
            topic => self.topic_item(topic),
        }
    }

    /// Begins the realtime counters anew if their time is over. To be called now and then.
    pub fn tick(&self) {
        if self.now().saturating_sub(self.realtime_since.load(Relaxed)) >= REALTIME_MS {
            self.reset_realtime();
        }
    }

    fn reset_realtime(&self) {
        self.realtime_since.store(self.now(), Relaxed);
        self.topics.elsewhere.reset();
        self.topics.all().values().for_each(|topic| topic.counters.reset());
    }

    fn sum(&self, of: impl Fn(&crate::counters::Counters) -> Tally) -> Tally {
        let topics = self.topics.all();
        topics.values().map(|topic| of(&topic.counters)).fold(of(&self.topics.elsewhere), Tally::plus)
    }

    fn summary(&self) -> StatsAnswer {
        let total = |what| self.sum(|counters| counters.total(what)).count;
        let settled = self.log.settled();
        let messages: u64 = self.log.partitions().iter().map(|partition| partition.bounds(settled).messages).sum();
        let settings = self.settings.load();
        let mut lines = Lines::begin();
        lines.key("pid", self.surroundings.pid);
        lines.key("broker_id", settings.broker_id);
        lines.key("port", self.gauges.port.load(Relaxed));
        lines.key("uptime", self.now().saturating_sub(self.started) / 1000);
        lines.key("version", self.version());
        lines.key("slave", false);
        lines.key("curr_connections", self.gauges.connections.load(Relaxed));
        lines.key("threads", self.gauges.threads.load(Relaxed));
        lines.key("cmd_put", total(Counted::Put));
        lines.key("cmd_get", total(Counted::Get));
        lines.key("cmd_offset", total(Counted::Offset));
        for key in ["tx_begin", "tx_xa_begin", "tx_commit", "tx_rollback"] {
            lines.key(key, 0);
        }
        lines.key("get_miss", total(Counted::GetMiss));
        lines.key("put_failed", total(Counted::PutFailed));
        lines.key("total_messages", messages);
        lines.key("topics", self.topics.all().len() + self.patterns_alone().len());
        lines.key("config_checksum", settings.config_checksum);
        lines.end()
    }

    /// The sections of the file that are no topic's name: the original counts them as topics without messages.
    fn patterns_alone(&self) -> Vec<String> {
        let settings = self.settings.load();
        settings.topic_sections().filter(|one| !one.is_literal()).map(|one| one.as_str().to_owned()).collect()
    }

    /// Partitions, messages and bytes of a topic.
    pub(crate) fn size(&self, shape: &Shape) -> (usize, u64, u64) {
        let settled = self.log.settled();
        shape.partitions().fold((0, 0, 0), |(partitions, messages, bytes), partition| {
            let bounds = partition.bounds(settled);
            (partitions + 1, messages + bounds.messages, bytes + bounds.end - bounds.first)
        })
    }

    fn topic_lines(&self) -> StatsAnswer {
        let mut lines = Lines::begin();
        let topics = self.topics.sorted();
        let (full, empty): (Vec<_>, Vec<_>) = topics.iter().partition(|topic| topic.shape.load().has_data());
        for topic in full {
            let shape = topic.shape.load();
            let (partitions, messages, bytes) = self.size(&shape);
            lines.line(format_args!(
                "{} partitions {partitions} message_count {messages} message_bytes {bytes} accept_publish {} accept_subscribe {}",
                topic.name, shape.settings.accept_publish, shape.settings.accept_subscribe
            ));
        }
        empty.iter().for_each(|topic| lines.key(&topic.name, "*Empty*"));
        self.patterns_alone().iter().for_each(|pattern| lines.key(pattern, "*Empty*"));
        lines.end()
    }

    fn offset_lines(&self) -> StatsAnswer {
        let mut lines = Lines::begin();
        let settled = self.log.settled();
        for partition in self.log.partitions() {
            let bounds = partition.bounds(settled);
            let (topic, index) = (&partition.topic, partition.index);
            lines.line(format_args!("{topic} part {index} min_offset {} max_offset {}", bounds.first, bounds.end));
        }
        lines.end()
    }

    fn topic_item(&self, name: &str) -> StatsAnswer {
        let mut lines = Lines::begin();
        let topic = self.topics.find(name);
        let shape = topic.as_ref().map(|topic| topic.shape.load_full());
        let is_pattern = self.settings.load().topic_sections().any(|section| section.as_str() == name);
        let code = match &shape {
            Some(shape) if shape.has_data() => 0,
            None if !is_pattern => 1,
            _ => 2,
        };
        let (partitions, messages, bytes) = shape.as_ref().map_or((0, 0, 0), |shape| self.size(shape));
        lines.line(format_args!("{name}"));
        lines.key("resultCode", code);
        lines.key("partitions", partitions);
        lines.key("message_count", messages);
        lines.key("bytes", bytes);
        for what in Counted::ALL {
            lines.key(&format!("topic_realtime_{}", what.name()), self.realtime_of(topic.as_deref(), name, what));
        }
        lines.end()
    }

    fn realtime_lines(&self) -> StatsAnswer {
        let mut lines = Lines::begin();
        for what in Counted::ALL {
            let value = match self.sum(|counters| counters.ever(what)).count {
                0 => "null".to_owned(),
                _ => self.realtime_value(self.sum(|counters| counters.recent(what))),
            };
            lines.key(&format!("realtime_{}", what.name()), value);
        }
        lines.end()
    }

    fn realtime_of(&self, topic: Option<&Topic>, name: &str, what: Counted) -> String {
        match topic.filter(|topic| topic.counters.ever(what).count > 0) {
            Some(topic) => self.realtime_value(topic.counters.recent(what)),
            None if self.sum(|counters| counters.ever(what)).count > 0 => format!("Invalid keyTwo:{name}"),
            None => "null".to_owned(),
        }
    }

    fn realtime_value(&self, tally: Tally) -> String {
        realtime_text(tally, self.now().saturating_sub(self.realtime_since.load(Relaxed)) / 1000)
    }

    fn limit_lines(&self) -> StatsAnswer {
        let mut lines = Lines::begin();
        for (name, limit) in limits(&self.settings.load()) {
            lines.key(name, limit);
        }
        lines.end()
    }

    fn group_lines(&self) -> StatsAnswer {
        let mut lines = Lines::begin();
        for one in self.positions(None, None, None) {
            let (group, topic, part, position) = (&one.group, &one.topic, one.partition, one.position);
            let (end, lag) = self.lag(&one).unwrap_or_default();
            lines.line(format_args!("{group} topic {topic} part {part} offset {position} max_offset {end} lag {lag}"));
        }
        lines.end()
    }

    fn memory_lines(&self) -> StatsAnswer {
        let settings = self.settings.load();
        let gauges = self.log.gauges();
        let mut lines = Lines::begin();
        lines.key("memoryBytesMax", settings.limits.memory_bytes_max);
        lines.key("pending_bytes", gauges.pending_bytes);
        lines.key("pendingBytesMax", settings.log.pending_bytes_max);
        lines.key("bytes_in_flight", self.gauges.bytes_in_flight.load(Relaxed));
        lines.key("brokerBytesInFlightMax", settings.limits.broker_bytes_in_flight_max);
        lines.key("buffer_bytes", self.gauges.buffer_bytes.load(Relaxed));
        lines.key("waiters", self.gauges.waiters.load(Relaxed));
        lines.key("waitersMax", settings.limits.waiters_max);
        lines.key("state_keys", gauges.state_keys);
        lines.key("files_open", gauges.files_open);
        lines.end()
    }
}

/// Every limit, by the name of its key.
fn limits(settings: &Settings) -> Vec<(&'static str, u128)> {
    let (limits, times, log) = (&settings.limits, &settings.times, &settings.log);
    vec![
        ("messageBytesMax", limits.message_bytes_max as u128),
        ("lineBytesMax", limits.line_bytes_max as u128),
        ("batchMessagesMax", limits.batch_messages_max as u128),
        ("batchBytesMax", limits.batch_bytes_max as u128),
        ("maxTransferSize", limits.transfer_bytes_max as u128),
        ("transactionBytesMax", limits.transaction_bytes_max.into()),
        ("maxTxTimeoutTimerCapacity", limits.transactions_timed_max as u128),
        ("connectionsMax", limits.connections_max as u128),
        ("connectionBytesInFlightMax", limits.connection_bytes_in_flight_max.into()),
        ("partitionBytesInFlightMax", limits.partition_bytes_in_flight_max.into()),
        ("brokerBytesInFlightMax", limits.broker_bytes_in_flight_max.into()),
        ("memoryBytesMax", limits.memory_bytes_max.into()),
        ("waitersMax", limits.waiters_max as u128),
        ("pendingBytesMax", log.pending_bytes_max.into()),
        ("diskReserveBytes", log.disk_reserve_bytes.into()),
        ("putMsMax", times.put_max.as_millis()),
        ("stallMsMax", times.stall_max.as_millis()),
        ("waitMsMax", times.wait_max.as_millis()),
        ("idleMsMax", times.idle_max.as_millis()),
        ("stopMsMax", times.stop_max.as_millis()),
    ]
}

/// As the original writes it: at most two digits behind the point, and `invalid` for what can't be divided.
fn realtime_text(tally: Tally, seconds: u64) -> String {
    let Tally { count, value } = tally;
    let average = ratio(value, count);
    let rate = ratio(count, seconds);
    format!("Count={count},Value={value},Value/Count={average},Count/Duration={rate},Duration={seconds}")
}

#[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
fn ratio(of: u64, by: u64) -> String {
    if by == 0 {
        return "invalid".to_owned();
    }
    let text = format!("{:.2}", of as f64 / by as f64);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What was asked of a topic, or of the broker, since the process began; for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages put, also refused ones.
    pub puts: u64,
    /// Bytes of their bodies.
    pub put_bytes: u64,
    /// Puts refused.
    pub puts_failed: u64,
    /// Gets, and parts of fetches.
    pub gets: u64,
    /// Gets that found nothing.
    pub gets_missed: u64,
    /// Asking for a position.
    pub offsets: u64,
    /// Partitions that exist.
    pub partitions: u64,
    /// Messages kept.
    pub messages: u64,
    /// Bytes of messages kept.
    pub bytes: u64,
}

impl Counts {
    fn of(tally: impl Fn(Counted) -> Tally) -> Self {
        Self {
            puts: tally(Counted::Put).count,
            put_bytes: tally(Counted::MessageSize).value,
            puts_failed: tally(Counted::PutFailed).count,
            gets: tally(Counted::Get).count,
            gets_missed: tally(Counted::GetMiss).count,
            offsets: tally(Counted::Offset).count,
            ..Self::default()
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            puts: self.puts + other.puts,
            put_bytes: self.put_bytes + other.put_bytes,
            puts_failed: self.puts_failed + other.puts_failed,
            gets: self.gets + other.gets,
            gets_missed: self.gets_missed + other.gets_missed,
            offsets: self.offsets + other.offsets,
            partitions: self.partitions + other.partitions,
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Broker {
    /// The counts of each topic, by name.
    pub fn topic_counts(&self) -> Vec<(Arc<str>, Counts)> {
        let topics = self.topics.sorted();
        let counts = topics.iter().map(|topic| {
            let (partitions, messages, bytes) = self.size(&topic.shape.load());
            let counts = Counts::of(|what| topic.counters.total(what));
            (Arc::clone(&topic.name), Counts { partitions: partitions as u64, messages, bytes, ..counts })
        });
        counts.collect()
    }

    /// The counts of all topics, and of what belongs to none.
    pub fn counts(&self) -> Counts {
        let elsewhere = Counts::of(|what| self.topics.elsewhere.total(what));
        self.topic_counts().into_iter().map(|(_, counts)| counts).fold(elsewhere, Counts::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Testbed;
    use std::time::Duration;

    const FILE: &str = "[topic=t]\nstat=true\nnumPartitions=2\n[topic=quiet]\n[topic=empty]\n[topic=wild*]\n";

    /// The text of an answer, which must be as long as it says.
    fn ask(bed: &Testbed, line: &str) -> String {
        let answer = bed.answer(line);
        let (head, body) = answer.split_once("\r\n").unwrap();
        assert_eq!(head, format!("result 200 {} 7", body.len()), "{line:?}");
        body.to_owned()
    }

    fn lines(body: &str) -> Vec<&str> {
        let body = body.strip_prefix("STATS\r\n").and_then(|body| body.strip_suffix("END\r\n")).unwrap();
        body.split_terminator("\r\n").collect()
    }

    #[test]
    fn the_summary_has_the_keys_of_the_original_in_their_order() {
        let bed = Testbed::begin(FILE);
        bed.put("t", 0, "hello");
        bed.put("quiet", 0, "hello");
        bed.answer("put t 9 1 0 1\r\nx");
        bed.answer("put nosuch 0 1 0 1\r\nx");
        bed.answer("get t g 0 0 100 1\r\n");
        bed.answer("get nosuch g 0 0 100 1\r\n");
        bed.answer("get t g 0 -1 100 1\r\n");
        bed.answer("offset t g 0 0 1\r\n");
        bed.broker.gauges().connections.store(3, Relaxed);
        bed.pass(Duration::from_millis(5500));
        let body = ask(&bed, "stats  7\r\n");
        let lines = lines(&body);
        let keys: Vec<_> = lines.iter().map(|line| line.split_once(' ').unwrap().0).collect();
        assert_eq!(
            keys,
            [
                "pid",
                "broker_id",
                "port",
                "uptime",
                "version",
                "slave",
                "curr_connections",
                "threads",
                "cmd_put",
                "cmd_get",
                "cmd_offset",
                "tx_begin",
                "tx_xa_begin",
                "tx_commit",
                "tx_rollback",
                "get_miss",
                "put_failed",
                "total_messages",
                "topics",
                "config_checksum"
            ]
        );
        for line in [
            "pid 4711",
            "uptime 5",
            "version 1.4.6.3-test",
            "slave false",
            "curr_connections 3",
            "cmd_put 4",
            "cmd_get 3",
            "cmd_offset 2",
            "get_miss 2",
            "put_failed 2",
            "total_messages 2",
            "topics 4",
        ] {
            assert!(lines.contains(&line), "{line}: {lines:?}");
        }
        let counts = bed.broker.counts();
        assert_eq!((counts.puts, counts.puts_failed, counts.gets, counts.messages, counts.bytes), (4, 2, 3, 2, 50));
    }

    #[test]
    fn topics_with_and_without_messages_are_listed() {
        let bed = Testbed::begin(FILE);
        bed.put("t", 1, "hello");
        bed.put("wildcard", 0, "hello");
        let body = ask(&bed, "stats topics 7\r\n");
        assert_eq!(
            lines(&body),
            [
                "t partitions 1 message_count 1 message_bytes 25 accept_publish true accept_subscribe true",
                "wildcard partitions 1 message_count 1 message_bytes 25 accept_publish true accept_subscribe true",
                "empty *Empty*",
                "quiet *Empty*",
                "wild* *Empty*",
            ]
        );
        let body = ask(&bed, "stats offsets 7\r\n");
        assert_eq!(lines(&body), ["t part 1 min_offset 0 max_offset 25", "wildcard part 0 min_offset 0 max_offset 25"]);
    }

    #[test]
    fn a_topic_tells_what_is_counted_of_it() {
        let bed = Testbed::begin(FILE);
        let body = ask(&bed, "stats 5 7\r\n");
        assert_eq!(lines(&body)[..5], ["5", "resultCode 1", "partitions 0", "message_count 0", "bytes 0"]);
        assert_eq!(lines(&body)[5..], Counted::ALL.map(|what| format!("topic_realtime_{} null", what.name())));
        bed.put("t", 0, "hello");
        bed.put("t", 0, "hello you");
        bed.put("quiet", 0, "hello");
        bed.pass(Duration::from_secs(4));
        let body = ask(&bed, "stats t 7\r\n");
        assert_eq!(lines(&body)[..5], ["t", "resultCode 0", "partitions 1", "message_count 2", "bytes 54"]);
        assert_eq!(lines(&body)[5], "topic_realtime_put Count=2,Value=2,Value/Count=1,Count/Duration=0.5,Duration=4");
        let sizes = "topic_realtime_message_size Count=2,Value=14,Value/Count=7,Count/Duration=0.5,Duration=4";
        assert_eq!(lines(&body)[10], sizes);
        assert_eq!(lines(&body)[6], "topic_realtime_get null");
        let body = ask(&bed, "stats quiet 7\r\n");
        assert_eq!(lines(&body)[5], "topic_realtime_put Invalid keyTwo:quiet");
        assert_eq!(lines(&ask(&bed, "stats empty 7\r\n"))[1], "resultCode 2");
        assert_eq!(lines(&ask(&bed, "stats wild* 7\r\n"))[1], "resultCode 2");
    }

    #[test]
    fn realtime_begins_anew_by_a_reset_and_after_half_an_hour() {
        let bed = Testbed::begin(FILE);
        let put_line = |bed: &Testbed| lines(&ask(bed, "stats realtime 7\r\n"))[0].to_owned();
        assert_eq!(put_line(&bed), "realtime_put null");
        bed.put("t", 0, "hello");
        bed.pass(Duration::from_secs(2));
        assert_eq!(put_line(&bed), "realtime_put Count=1,Value=1,Value/Count=1,Count/Duration=0.5,Duration=2");
        assert_eq!(lines(&ask(&bed, "stats reset 7\r\n")), ["reset ok"]);
        assert_eq!(
            put_line(&bed),
            "realtime_put Count=0,Value=0,Value/Count=invalid,Count/Duration=invalid,Duration=0"
        );
        bed.put("t", 0, "hello");
        bed.pass(Duration::from_secs(1799));
        assert!(put_line(&bed).starts_with("realtime_put Count=1,"));
        bed.pass(Duration::from_secs(1));
        assert!(put_line(&bed).starts_with("realtime_put Count=0,"));
    }

    #[test]
    fn other_items_have_their_lines() {
        let bed = Testbed::begin(FILE);
        let body = ask(&bed, "stats help 7\r\n");
        let items: Vec<_> = lines(&body).iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(items, ["*EMPTY*", "help", "topics", "offsets", "realtime", "config"]);
        assert!(ask(&bed, "stats config 7\r\n").ends_with(FILE));
        let body = ask(&bed, "stats metaq.limits 7\r\n");
        assert!(lines(&body).contains(&"messageBytesMax 16384"), "{body}");
        let body = ask(&bed, "stats metaq.memory 7\r\n");
        assert!(lines(&body).iter().any(|line| line.starts_with("pending_bytes ")), "{body}");
    }

    #[test]
    fn realtime_values_have_no_trailing_zeros_and_say_what_is_invalid() {
        let check = |count, value, seconds, expected: &str| {
            assert_eq!(realtime_text(Tally { count, value }, seconds), expected);
        };
        check(34, 34, 0, "Count=34,Value=34,Value/Count=1,Count/Duration=invalid,Duration=0");
        check(3, 100, 2, "Count=3,Value=100,Value/Count=33.33,Count/Duration=1.5,Duration=2");
        check(0, 0, 10, "Count=0,Value=0,Value/Count=invalid,Count/Duration=0,Duration=10");
        check(1000, 1000, 10, "Count=1000,Value=1000,Value/Count=1,Count/Duration=100,Duration=10");
    }
}
