//! Results: each measurement as a line of JSON, medians over rounds, and ratios of what was measured in the same run.

use crate::load::Sent;
use serde::Serialize;
use std::collections::BTreeMap;

/// One measurement of one contender in one round. This is the schema of the JSON lines.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// The workload, as in `docs/benchmarks.md`.
    pub workload: String,
    /// The shape, in words.
    pub shape: String,
    /// Who.
    pub contender: String,
    /// From 1.
    pub round: u32,
    /// Messages a second (bytes a second for reading, milliseconds for a start).
    pub rate: f64,
    /// Messages offered a second, if they were.
    pub offered: Option<f64>,
    /// Microseconds.
    pub p50_us: u64,
    /// Microseconds.
    pub p99_us: u64,
    /// Microseconds.
    pub p999_us: u64,
    /// Microseconds.
    pub max_us: u64,
    /// The broker's CPU, microseconds a message.
    pub broker_cpu_us: f64,
    /// The broker's highest resident memory, bytes.
    pub rss_max_bytes: u64,
    /// Messages acknowledged in all, and found in the broker afterwards (−1: not counted).
    pub acknowledged: u64,
    /// See `acknowledged`.
    pub found: i64,
    /// Requests refused.
    pub refused: u64,
}

impl Measurement {
    /// Of a load.
    pub fn of(workload: &str, shape: &str, contender: &str, round: u32, sent: &Sent, offered: Option<f64>) -> Self {
        let [before, after] = sent.broker;
        let quantile = |q| sent.latency.value_at_quantile(q);
        Self {
            workload: workload.to_owned(),
            shape: shape.to_owned(),
            contender: contender.to_owned(),
            round,
            rate: sent.messages as f64 / sent.seconds,
            offered,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: sent.latency.max(),
            broker_cpu_us: (after.cpu_seconds - before.cpu_seconds) * 1e6 / sent.messages.max(1) as f64,
            rss_max_bytes: after.rss_max_bytes,
            acknowledged: sent.acknowledged,
            found: -1,
            refused: sent.refused,
        }
    }

    /// Of something that is only a rate.
    pub fn rate(workload: &str, shape: &str, contender: &str, round: u32, rate: f64) -> Self {
        Self {
            workload: workload.to_owned(),
            shape: shape.to_owned(),
            contender: contender.to_owned(),
            round,
            rate,
            offered: None,
            p50_us: 0,
            p99_us: 0,
            p999_us: 0,
            max_us: 0,
            broker_cpu_us: 0.0,
            rss_max_bytes: 0,
            acknowledged: 0,
            found: -1,
            refused: 0,
        }
    }
}

/// All measurements of a run.
#[derive(Debug, Default)]
pub struct Report {
    all: Vec<Measurement>,
}

impl Report {
    /// Takes a measurement and prints it as a line of JSON.
    pub fn add(&mut self, measurement: Measurement) {
        println!("{}", serde_json::to_string(&measurement).expect("plain fields"));
        self.all.push(measurement);
    }

    /// Prints medians by workload, shape and contender, and the ratio of the first contender to each other.
    pub fn print(&self) {
        let mut shapes: BTreeMap<(&str, usize, &str), Vec<&str>> = BTreeMap::new();
        for (at, one) in self.all.iter().enumerate() {
            let first =
                self.all.iter().position(|other| (&other.workload, &other.shape) == (&one.workload, &one.shape));
            let contenders = shapes.entry((&one.workload, first.unwrap_or(at), &one.shape)).or_default();
            if !contenders.contains(&one.contender.as_str()) {
                contenders.push(&one.contender);
            }
        }
        eprintln!(
            "\n{:<6} {:<44} {:<16} {:>12} {:>8} {:>8} {:>8} {:>7} {:>6}",
            "", "shape", "contender", "median/s", "p50 us", "p99 us", "cpu us", "RSS MB", "ratio"
        );
        for ((workload, _, shape), contenders) in shapes {
            let mut base = None;
            for contender in contenders {
                let rounds: Vec<_> = self
                    .all
                    .iter()
                    .filter(|one| {
                        (one.workload.as_str(), one.shape.as_str(), one.contender.as_str())
                            == (workload, shape, contender)
                    })
                    .collect();
                let rate = median(rounds.iter().map(|one| one.rate).collect());
                let of = |value: fn(&Measurement) -> f64| median(rounds.iter().map(|one| value(one)).collect());
                let ratio = base.map_or_else(|| "1".to_owned(), |base: f64| format!("{:.2}", base / rate));
                base.get_or_insert(rate);
                eprintln!(
                    "{workload:<6} {shape:<44} {contender:<16} {rate:>12.0} {:>8.0} {:>8.0} {:>8.2} {:>7.0} {ratio:>6}",
                    of(|one| one.p50_us as f64),
                    of(|one| one.p99_us as f64),
                    of(|one| one.broker_cpu_us),
                    of(|one| one.rss_max_bytes as f64) / 1e6,
                );
            }
        }
    }
}

/// The middle value; of an even number the lower of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_value_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(vec![]), 0.0);
    }
}
