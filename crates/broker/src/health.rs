//! Whether the broker lives and whether it can do its work, with what stands in the way.

use crate::broker::Broker;

/// What an operator, or whoever restarts processes, should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// False only if nothing but a restart helps: the store is closed for writing.
    pub live: bool,
    /// Puts and gets are served.
    pub ready: bool,
    /// Why it isn't ready, as sentences.
    pub troubles: Vec<String>,
    /// What doesn't stand in the way but should be known.
    pub notes: Vec<String>,
}

impl Broker {
    /// The health of this moment.
    pub fn health(&self) -> Health {
        let mut troubles = Vec::new();
        let closed = self.log.closed();
        if let Some(why) = &closed {
            troubles.push(format!("the store is closed for writing until the broker is restarted: {why}"));
        }
        let gauges = self.log.gauges();
        if gauges.disk_full {
            let reserve = self.settings.load().log.disk_reserve_bytes;
            troubles.push(format!("puts are refused until more than {reserve} bytes (diskReserveBytes) are free"));
        }
        let settled = self.log.settled();
        let mut notes: Vec<String> = self.settings.load().warnings().into_iter().map(|warning| warning.text).collect();
        for partition in self.log.partitions() {
            let bounds = partition.bounds(settled);
            let what = self.called(&partition);
            notes.extend(bounds.failed.map(|why| format!("{what} takes no messages: {why}")));
            let damaged = bounds.damage.len();
            notes
                .extend((damaged > 0).then(|| format!("{what} has {damaged} damaged ranges; admin verify names them")));
        }
        Health { live: closed.is_none(), ready: troubles.is_empty(), troubles, notes }
    }
}

#[cfg(test)]
mod tests {
    use crate::testbed::Testbed;
    use metaq_disk::Fault;

    #[test]
    fn a_broker_whose_log_failed_is_neither_ready_nor_alive() {
        let bed = Testbed::begin("");
        bed.put("t", 0, "x");
        let health = bed.broker.health();
        assert!(health.live && health.ready && health.troubles.is_empty(), "{health:?}");
        bed.disk.inject("/log/commit/0", Fault::FailSync, 0..100);
        let answer = bed.answer("put t 0 1 0 1\r\nx");
        assert!(answer.starts_with("result 500 ") && answer.contains("outcome-unknown: the store closed"), "{answer}");
        let answer = bed.answer("put t 0 1 0 1\r\nx");
        assert!(answer.starts_with("result 503 ") && answer.contains("store-closed"), "{answer}");
        let health = bed.broker.health();
        assert!(!health.live && !health.ready, "{health:?}");
        assert!(health.troubles[0].contains("syncing the commit log failed"), "{health:?}");
        assert!(bed.answer("get t g 0 0 100 1\r\n").starts_with("value 21 "), "what is visible can be read");
    }
}
