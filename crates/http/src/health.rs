//! Whether a broker can do its work at this moment, and if not, why.

use crate::observed::Observed;
use metaq_broker::Broker;
use serde::Serialize;

/// Notes that are told; more are only counted.
const NOTES_MAX: usize = 20;

/// One thing that must be well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it is well.
    pub ok: bool,
    /// A sentence that says what is so, and if it isn't well, what to do.
    pub reason: String,
}

/// All checks of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether clients should be sent here: all checks are well.
    pub ready: bool,
    /// Each check.
    pub checks: Vec<Check>,
    /// What an operator should know although clients may come.
    pub warnings: Vec<String>,
}

impl Health {
    /// Looks at everything.
    pub fn of(observed: &Observed) -> Self {
        let mut checks = vec![recovery(observed)];
        let mut warnings = Vec::new();
        if let Some(broker) = observed.broker() {
            checks.extend([store(broker), disk(broker)]);
            warnings = notes(broker.health().notes);
        }
        if observed.is_stopping() {
            let reason = "the broker was asked to stop: it finishes what is in flight".to_owned();
            checks.push(Check { name: "stopping", ok: false, reason });
        }
        Self { ready: checks.iter().all(|check| check.ok), checks, warnings }
    }
}

/// Whether nothing but a restart helps, and why.
pub(crate) fn dead(observed: &Observed) -> Option<String> {
    let broker = observed.broker()?;
    let health = broker.health();
    (!health.live).then(|| health.troubles.join("; "))
}

fn notes(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    notes.extend((more > 0).then(|| format!("and {more} more notes of this kind; the log has them")));
    notes
}

fn recovery(observed: &Observed) -> Check {
    let ok = observed.broker().is_some();
    let reason = if ok { "the data directory is recovered" } else { "the data directory is being recovered: wait" };
    Check { name: "recovery", ok, reason: reason.to_owned() }
}

fn store(broker: &Broker) -> Check {
    let (ok, reason) = match broker.log().closed() {
        None => (true, "the data directory takes messages".to_owned()),
        Some(why) => {
            (false, format!("the data directory is closed for writing: {why}; restart the broker to recover it"))
        }
    };
    Check { name: "store", ok, reason }
}

fn disk(broker: &Broker) -> Check {
    let full = broker.log().gauges().disk_full;
    let reserve = broker.settings().log.disk_reserve_bytes;
    let reason = if full {
        format!(
            "the disk is full up to its reserve (diskReserveBytes={reserve}): free some room; reads go on, and puts \
             will by themselves"
        )
    } else {
        format!("there is more room than the reserve (diskReserveBytes={reserve})")
    };
    Check { name: "disk", ok: !full, reason }
}
