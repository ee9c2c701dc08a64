//! Everything that is counted, as Prometheus reads it. Names begin with `metaq_`; times are seconds, sizes bytes.
//!
//! Few series: topics are labels, partitions aren't, and beyond [`TOPICS_MAX`] topics the rest is told as one.

use crate::observed::Observed;
use crate::process::Process;
use crate::sample::{Reading, Sample};
use metaq_broker::{Broker, Counts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Topics with series of their own.
const TOPICS_MAX: usize = 1000;
/// The label of all others: no user's topic can have this name.
const OTHERS: &str = "metaq.others";
/// What the names of all metrics begin with.
const PREFIX: &str = "metaq";

pub(crate) use prometheus_text::CONTENT_TYPE;

/// The text of all metrics.
pub(crate) fn text(observed: &Arc<Observed>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Everything(Arc::clone(observed))));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Everything(Arc<Observed>);

impl Collector for Everything {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut page = Page(encoder);
        let observed = &*self.0;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.labelled("build", "Which version runs", MetricType::Gauge, &[(version, 1_u64)], gauge)?;
        page.gauge(
            "up",
            "Whether the data directory is recovered and clients are served",
            observed.broker().is_some(),
        )?;
        if let Some(broker) = observed.broker() {
            log(&mut page, broker, observed.now())?;
            topics(&mut page, broker)?;
            gauges(&mut page, broker)?;
        }
        for sample in observed.fronts().map(|fronts| fronts.read()).unwrap_or_default() {
            page.sample(&sample)?;
        }
        process(&mut page)
    }
}

/// The metrics as they are written one after the other.
struct Page<'e>(DescriptorEncoder<'e>);

fn counter(encoder: MetricEncoder<'_>, value: &u64) -> fmt::Result {
    ConstCounter::new(*value).encode(encoder)
}

fn gauge(encoder: MetricEncoder<'_>, value: &u64) -> fmt::Result {
    ConstGauge::new(*value).encode(encoder)
}

impl Page<'_> {
    fn counter(&mut self, name: &str, about: &str, value: u64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, about, None, MetricType::Counter)?)
    }

    fn seconds_counter(&mut self, name: &str, about: &str, value: f64) -> fmt::Result {
        let counter = ConstCounter::new(value);
        counter.encode(self.0.encode_descriptor(name, about, None, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, about: &str, value: impl Into<u64>) -> fmt::Result {
        let gauge = ConstGauge::new(value.into());
        gauge.encode(self.0.encode_descriptor(name, about, None, MetricType::Gauge)?)
    }

    fn fraction(&mut self, name: &str, about: &str, value: f64) -> fmt::Result {
        let gauge = ConstGauge::new(value);
        gauge.encode(self.0.encode_descriptor(name, about, None, MetricType::Gauge)?)
    }

    fn sample(&mut self, sample: &Sample) -> fmt::Result {
        match sample.reading {
            Reading::Counter => self.counter(sample.name, sample.about, sample.value),
            Reading::Gauge => self.gauge(sample.name, sample.about, sample.value),
        }
    }

    /// One series for each set of labels.
    fn labelled<const N: usize, T>(
        &mut self,
        name: &str,
        about: &str,
        kind: MetricType,
        series: &[([(&str, &str); N], T)],
        encode: impl Fn(MetricEncoder<'_>, &T) -> fmt::Result,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, about, None, kind)?;
        series.iter().try_for_each(|(labels, value)| encode(encoder.encode_family(labels)?, value))
    }

    /// Durations that were counted in buckets: bucket `n` those below 2ⁿ µs, the last one all others.
    fn durations(&mut self, name: &str, about: &str, counts: &[u64], sum_micros: u64) -> fmt::Result {
        let buckets: Vec<(f64, u64)> =
            counts.iter().enumerate().map(|(at, count)| (bound(at, counts), *count)).collect();
        let mut encoder = self.0.encode_descriptor(name, about, None, MetricType::Histogram)?;
        encoder.encode_histogram::<[(&str, &str); 0]>(seconds(sum_micros), counts.iter().sum(), &buckets, None)
    }
}

/// Upper bound of a bucket, in seconds.
fn bound(at: usize, counts: &[u64]) -> f64 {
    if at + 1 == counts.len() { f64::MAX } else { seconds(1 << at) }
}

#[expect(clippy::cast_precision_loss, reason = "a metric may be off by one in 2^53")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn log(page: &mut Page<'_>, broker: &Broker, now: u64) -> fmt::Result {
    let log = broker.log();
    let (statistics, moment) = (log.statistics(), log.gauges());
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
    page.counter("log_turns", "Turns written to the commit log", of(&statistics.turns))?;
    page.counter("log_turn_bytes", "Bytes of turns, padding included", of(&statistics.turn_bytes))?;
    page.counter("log_entries", "Entries written to the commit log", of(&statistics.entries))?;
    page.counter("log_syncs", "Syncs of the commit log", of(&statistics.syncs))?;
    let (counts, sum) = statistics.write.read();
    page.durations("log_write_seconds", "Writing a turn", &counts, sum)?;
    let (counts, sum) = statistics.sync.read();
    page.durations("log_sync_seconds", "Syncing the commit log", &counts, sum)?;
    page.counter("log_full", "Submissions held back because the commit log was full", of(&statistics.log_full))?;
    page.fraction("log_used_ratio", "Share of the commit log in use", thousandths(moment.log_used_permille))?;
    page.counter("segments_written_bytes", "Bytes written into segments", of(&statistics.applied_bytes))?;
    page.gauge("pending_bytes", "Bytes that wait to be written into segments", moment.pending_bytes as u64)?;
    page.gauge("files_open", "Segments and indexes that are open", moment.files_open as u64)?;
    page.counter("checkpoints", "Checkpoints made", of(&statistics.checkpoints))?;
    page.counter("checkpoints_failed", "Checkpoints that failed", of(&statistics.checkpoints_failed))?;
    let (counts, sum) = statistics.checkpoint.read();
    page.durations("checkpoint_seconds", "Making a checkpoint", &counts, sum)?;
    let last = of(&statistics.checkpoint_time);
    page.fraction("checkpoint_timestamp_seconds", "When the last checkpoint was made, 0 for none", millis(last))?;
    let age = if last == 0 { 0 } else { now.saturating_sub(last) };
    page.fraction("checkpoint_age_seconds", "Time since the last checkpoint, 0 for none", millis(age))?;
    page.gauge(
        "state_keys",
        "Keys of the durable map: topics, closed partitions, positions",
        moment.state_keys as u64,
    )?;
    page.gauge("disk_full", "Whether puts are refused for want of room", moment.disk_full)?;
    page.gauge("store_closed", "Whether the data directory is closed for writing", log.closed().is_some())
}

fn thousandths(permille: u64) -> f64 {
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit in 2^53")]
fn millis(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// The counts of topics by name; of those beyond [`TOPICS_MAX`] the sum.
fn shortened(mut topics: Vec<(Arc<str>, Counts)>) -> Vec<(Arc<str>, Counts)> {
    let rest = topics.split_off(topics.len().min(TOPICS_MAX));
    if !rest.is_empty() {
        let sum = rest.into_iter().fold(Counts::default(), |sum, (_, counts)| plus(sum, counts));
        topics.push((OTHERS.into(), sum));
    }
    topics
}

fn plus(one: Counts, other: Counts) -> Counts {
    Counts {
        puts: one.puts + other.puts,
        put_bytes: one.put_bytes + other.put_bytes,
        puts_failed: one.puts_failed + other.puts_failed,
        gets: one.gets + other.gets,
        gets_missed: one.gets_missed + other.gets_missed,
        offsets: one.offsets + other.offsets,
        partitions: one.partitions + other.partitions,
        messages: one.messages + other.messages,
        bytes: one.bytes + other.bytes,
    }
}

fn topics(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let (all, topics) = (broker.counts(), broker.topic_counts());
    page.gauge("topics", "Topics", topics.len() as u64)?;
    page.gauge("partitions", "Partitions", all.partitions)?;
    page.gauge("partitions_failed", "Partitions that take no puts since their files failed", failed(broker))?;
    page.counter("put_messages", "Messages put, also refused ones", all.puts)?;
    page.counter("put_bytes", "Bytes of the bodies of messages put", all.put_bytes)?;
    page.counter("puts_failed", "Messages refused", all.puts_failed)?;
    page.counter("gets", "Gets, and parts of fetches", all.gets)?;
    page.counter("gets_missed", "Gets that found nothing", all.gets_missed)?;
    page.counter("offsets", "Positions asked for", all.offsets)?;
    let topics = shortened(topics);
    type Encode = fn(MetricEncoder<'_>, &u64) -> fmt::Result;
    let mut each = |name, about, (kind, encode): (MetricType, Encode), value: fn(&Counts) -> u64| {
        let series: Vec<_> = topics.iter().map(|(topic, counts)| ([("topic", &**topic)], value(counts))).collect();
        page.labelled(name, about, kind, &series, encode)
    };
    let (counts, gauges): ((_, Encode), (_, Encode)) = ((MetricType::Counter, counter), (MetricType::Gauge, gauge));
    each("topic_partitions", "Partitions of a topic", gauges, |counts| counts.partitions)?;
    each("topic_messages", "Messages kept", gauges, |counts| counts.messages)?;
    each("topic_bytes", "Bytes kept", gauges, |counts| counts.bytes)?;
    each("topic_put_messages", "Messages put, also refused ones", counts, |counts| counts.puts)?;
    each("topic_put_bytes", "Bytes of the bodies of messages put", counts, |counts| counts.put_bytes)?;
    each("topic_puts_failed", "Messages refused", counts, |counts| counts.puts_failed)?;
    each("topic_gets", "Gets, and parts of fetches", counts, |counts| counts.gets)?;
    each("topic_gets_missed", "Gets that found nothing", counts, |counts| counts.gets_missed)
}

fn failed(broker: &Broker) -> u64 {
    let settled = broker.log().settled();
    broker.log().partitions().iter().filter(|partition| partition.bounds(settled).failed.is_some()).count() as u64
}

fn gauges(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let gauges = broker.gauges();
    page.gauge("connections", "Clients connected", gauges.connections.load(Relaxed))?;
    page.gauge("put_bytes_in_flight", "Bytes of puts that aren't decided", gauges.bytes_in_flight.load(Relaxed))?;
    page.gauge("waiters", "Gets that wait for messages", gauges.waiters.load(Relaxed))?;
    page.gauge("buffer_bytes", "Bytes of buffers of connections", gauges.buffer_bytes.load(Relaxed))
}

fn process(page: &mut Page<'_>) -> fmt::Result {
    let process = Process::this();
    page.gauge("process_resident_memory_bytes", "Memory that is there", process.resident_bytes)?;
    page.gauge("process_open_fds", "Open descriptors", process.descriptors)?;
    page.gauge("process_threads", "Threads", process.threads)?;
    page.seconds_counter("process_cpu_seconds", "Time that processors worked", process.processor.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_most_are_told_as_one() {
        let topic = |at: usize| (Arc::from(format!("t{at}")), Counts { puts: 1, bytes: 10, ..Counts::default() });
        let all = shortened((0..TOPICS_MAX).map(topic).collect());
        assert_eq!((all.len(), &*all[TOPICS_MAX - 1].0), (TOPICS_MAX, "t999"));
        let more = shortened((0..TOPICS_MAX + 7).map(topic).collect());
        assert_eq!(more.len(), TOPICS_MAX + 1);
        let (name, counts) = &more[TOPICS_MAX];
        assert_eq!((&**name, counts.puts, counts.bytes), (OTHERS, 7, 70));
    }

    #[test]
    fn the_buckets_of_durations_are_seconds() {
        let counts = [1, 2, 3];
        assert_eq!(bound(0, &counts), 1e-6);
        assert_eq!(bound(1, &counts), 2e-6);
        assert_eq!(bound(2, &counts), f64::MAX);
    }
}
