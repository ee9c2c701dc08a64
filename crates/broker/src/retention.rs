//! Retention: which segments go, and when.
//!
//! By age (`deletePolicy`, at the times of `deleteWhen`) and by size (`retentionBytes`, looked at every minute). What
//! goes is always the oldest part of a partition: a segment stays as long as an older one stays. The segment that takes
//! appends stays, unless it is full or its partition is closed.

use crate::broker::Broker;
use crate::configuration::{Expired, Schedule, TopicSettings};
use crate::refused::Refused;
use crate::topic::{Shape, Slot, Topic};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use metaq_log::{Disposal, Partition, SegmentSummary};
use metaq_protocol::ErrorCode;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// How often sizes are looked at, milliseconds.
const SIZE_EVERY_MS: u64 = 60_000;

/// Knows when retention of each topic is due. Owns no thread: whoever drives it calls [`Retention::run`] at the time that
/// the last call gave.
#[derive(Debug)]
pub struct Retention {
    broker: Arc<Broker>,
    zone: TimeZone,
    due: HashMap<Arc<str>, Due>,
    sizes_due: u64,
}

/// When the retention of one topic is due next.
#[derive(Debug)]
struct Due {
    /// The schedule that it was worked out from.
    schedule: Schedule,
    /// Milliseconds since 1970.
    at: u64,
}

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When to call again, milliseconds since 1970; earlier does no harm.
    pub next: u64,
    /// Segments that were removed or archived.
    pub segments: u64,
    /// Bytes of those.
    pub bytes: u64,
}

impl Retention {
    /// `zone`: the one that the times of `deleteWhen` are meant in.
    pub fn new(broker: Arc<Broker>, zone: TimeZone) -> Self {
        let sizes_due = broker.now();
        Self { broker, zone, due: HashMap::new(), sizes_due }
    }

    /// Removes what is due at `now`, milliseconds since 1970. Blocks.
    pub fn run(&mut self, now: u64) -> Ran {
        let broker = Arc::clone(&self.broker);
        let topics = broker.topics.sorted();
        self.due.retain(|name, _| topics.binary_search_by(|topic| topic.name.cmp(name)).is_ok());
        let mut ran = Ran { next: u64::MAX, segments: 0, bytes: 0 };
        let sizes = now >= self.sizes_due;
        for topic in &topics {
            let shape = topic.shape.load();
            let by_age = self.is_due(topic, &shape, now, &mut ran.next);
            let result = broker.remove_expired(&shape, by_age.then_some(now), sizes, &mut ran);
            if let Err(refused) = result {
                tracing::error!(topic = &*topic.name, %refused, "retention failed; it is tried again when it is due next");
            }
        }
        if sizes {
            self.sizes_due = now + SIZE_EVERY_MS;
        }
        ran.next = ran.next.min(self.sizes_due);
        ran
    }

    /// Whether the time of `deleteWhen` has come since the last run; the next such time becomes part of `next`.
    fn is_due(&mut self, topic: &Topic, shape: &Shape, now: u64, next: &mut u64) -> bool {
        let schedule = &shape.settings.retention_when;
        let after = |from: u64| next_after(schedule, from, &self.zone);
        let due = match self.due.get(&topic.name) {
            Some(due) if due.schedule.as_str() == schedule.as_str() => due.at,
            // The first time of a schedule is one that lies ahead.
            _ => after(now),
        };
        let has_come = now >= due;
        let at = if has_come { after(now) } else { due };
        *next = (*next).min(at);
        self.due.insert(Arc::clone(&topic.name), Due { schedule: schedule.clone(), at });
        has_come
    }
}

/// The first time of the schedule after `from`, milliseconds since 1970; the end of time if there is none.
fn next_after(schedule: &Schedule, from: u64, zone: &TimeZone) -> u64 {
    let moment = i64::try_from(from).ok().and_then(|from| Timestamp::from_millisecond(from).ok());
    let next = moment.and_then(|moment| schedule.next_after(&moment.to_zoned_datetime(zone.clone())));
    next.and_then(|next| u64::try_from(next.timestamp().as_millisecond()).ok()).unwrap_or(u64::MAX)
}

/// A partition and its segments, oldest first; what is still to be judged.
struct Kept {
    partition: Arc<Partition>,
    segments: std::collections::VecDeque<SegmentSummary>,
    /// Where the first segment that stays begins.
    first: u64,
    /// Where the last one ends.
    end: u64,
    closed: bool,
}

impl Kept {
    /// The oldest segment, if it may go.
    fn oldest(&self) -> Option<&SegmentSummary> {
        self.segments
            .front()
            .filter(|segment| segment.sealed || self.closed)
            .filter(|segment| segment.end > segment.start)
    }

    fn drop_oldest(&mut self, ran: &mut Ran) {
        if let Some(segment) = self.segments.pop_front() {
            self.first = segment.end;
            ran.segments += 1;
            ran.bytes += segment.end - segment.start;
        }
    }
}

impl Broker {
    fn remove_expired(&self, shape: &Shape, by_age: Option<u64>, by_size: bool, ran: &mut Ran) -> Result<(), Refused> {
        let by_size = shape.settings.retention_bytes.filter(|_| by_size);
        if by_age.is_none() && by_size.is_none() {
            return Ok(());
        }
        let _alone = self.housekeeping.lock();
        let failed = |error: io::Error| Refused::new(ErrorCode::Internal, error.to_string());
        let mut all = self.kept(shape).map_err(failed)?;
        let before: Vec<u64> = all.iter().map(|kept| kept.first).collect();
        if let Some(now) = by_age {
            expire_by_age(&mut all, &shape.settings, now, ran);
        }
        if let Some(bytes) = by_size {
            expire_by_size(&mut all, bytes, ran);
        }
        let how = disposal(&shape.settings);
        for (kept, before) in all.iter().zip(before).filter(|(kept, before)| kept.first > *before) {
            self.trim(kept, before, how)?;
        }
        Ok(())
    }

    fn kept(&self, shape: &Shape) -> io::Result<Vec<Kept>> {
        let surveyed = *self.surveyed.lock();
        let slots = shape.slots.iter().filter_map(|slot: &Arc<Slot>| Some((slot.partition.get()?, slot.is_closed())));
        slots
            .filter(|(partition, _)| Some(partition.number) != surveyed)
            .map(|(partition, closed)| {
                let segments: std::collections::VecDeque<_> = self.log.segments(partition)?.into();
                let first = segments.front().map_or(0, |segment| segment.start);
                let end = segments.back().map_or(first, |segment| segment.end);
                Ok(Kept { partition: Arc::clone(partition), segments, first, end, closed })
            })
            .collect()
    }

    fn trim(&self, kept: &Kept, before: u64, how: Disposal) -> Result<(), Refused> {
        let what = self.called(&kept.partition);
        let failed = |error: io::Error| Refused::new(ErrorCode::Internal, format!("{what}: {error}"));
        let change = self.log.trim(&kept.partition, kept.first, how).map_err(failed)?;
        self.change(vec![change], &what)?;
        tracing::info!(partition = what, from = before, to = kept.first, ?how, "retention removed segments");
        Ok(())
    }
}

fn disposal(settings: &TopicSettings) -> Disposal {
    match settings.retention.expired {
        Expired::Delete => Disposal::Delete,
        Expired::Archive => Disposal::Archive,
        Expired::ArchiveZip => Disposal::ArchiveZip,
    }
}

/// An append time in the future counts as now.
fn expire_by_age(all: &mut [Kept], settings: &TopicSettings, now: u64, ran: &mut Ran) {
    let age = u64::try_from(settings.retention.age.as_millis()).unwrap_or(u64::MAX);
    for kept in all {
        while kept.oldest().is_some_and(|segment| now - segment.append_time.min(now) > age) {
            kept.drop_oldest(ran);
        }
    }
}

/// The oldest segment of all partitions goes first.
fn expire_by_size(all: &mut [Kept], bytes: u64, ran: &mut Ran) {
    let size = |kept: &Kept| kept.end - kept.first;
    while all.iter().map(size).sum::<u64>() > bytes {
        let with_oldest = all.iter_mut().filter(|kept| kept.oldest().is_some());
        let Some(kept) = with_oldest.min_by_key(|kept| kept.oldest().map(|segment| segment.append_time)) else {
            return;
        };
        kept.drop_oldest(ran);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{BEGIN, Testbed};
    use metaq_disk::Disk;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Segments of two messages each, 620 bytes a message.
    fn fill(bed: &Testbed, topic: &str, partition: i32, messages: usize) {
        (0..messages).for_each(|_| _ = bed.put(topic, partition, &"x".repeat(600)));
    }

    /// Waits until a partition begins there: segments go in the background.
    fn begins_at(bed: &Testbed, topic: &str, index: u32, expected: u64) {
        let (log, deadline) = (bed.broker.log(), Instant::now() + Duration::from_secs(20));
        let partition = log.partition(topic, index).unwrap();
        loop {
            let first = partition.bounds(log.settled()).first;
            assert!(first <= expected, "{topic} {index} begins at {first}");
            if first == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{topic} {index} begins at {first}, not at {expected}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn old_sealed_segments_go_at_the_times_of_the_schedule() {
        let bed = Testbed::begin("maxSegmentSize=1240\ndeletePolicy=delete,2\ndeleteWhen=0 0 * * * ?\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        fill(&bed, "t", 0, 5);
        // 2027-01-15 08:00 UTC: the schedule is at the beginning of each hour.
        assert_eq!(retention.run(BEGIN), Ran { next: BEGIN + SIZE_EVERY_MS, segments: 0, bytes: 0 });
        bed.pass(3 * HOUR);
        fill(&bed, "t", 0, 1);
        let ran = retention.run(bed.now());
        assert_eq!((ran.segments, ran.bytes), (2, 2480));
        // The third segment has a young message.
        begins_at(&bed, "t", 0, 2480);
        assert_eq!(retention.run(bed.now()).segments, 0);
        // The third is full and old now, and nothing comes behind it.
        bed.pass(3 * HOUR);
        assert_eq!(retention.run(bed.now()).segments, 1);
        begins_at(&bed, "t", 0, 3720);
        assert_eq!(bed.put("t", 0, "goes on"), 3720);
        assert!(bed.answer("get t g 0 0 100 1\r\n").starts_with("result 301 4 1\r\n3720"));
    }

    #[test]
    fn a_segment_that_takes_appends_stays_unless_its_partition_is_closed() {
        let bed = Testbed::begin("maxSegmentSize=1240\ndeletePolicy=delete,1\ndeleteWhen=0 0 * * * ?\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        fill(&bed, "t", 0, 1);
        retention.run(bed.now());
        bed.pass(3 * HOUR);
        assert_eq!(retention.run(bed.now()).segments, 0);
        bed.administer("partition close t 0 1\r\n").unwrap();
        bed.pass(3 * HOUR);
        assert_eq!(retention.run(bed.now()).segments, 1);
        begins_at(&bed, "t", 0, 620);
        bed.administer("partition delete t 0 confirm=t 1\r\n").unwrap();
    }

    #[test]
    fn the_oldest_segments_of_a_topic_go_until_its_size_fits() {
        let bed = Testbed::begin("maxSegmentSize=1240\nretentionBytes=5000\n[topic=t]\nnumPartitions=2\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        fill(&bed, "t", 0, 5);
        bed.pass(HOUR);
        fill(&bed, "t", 1, 5);
        let ran = retention.run(bed.now());
        assert_eq!((ran.segments, ran.next), (1, bed.now() + SIZE_EVERY_MS));
        // The older partition gives first.
        begins_at(&bed, "t", 0, 1240);
        begins_at(&bed, "t", 1, 0);
        fill(&bed, "t", 1, 2);
        assert_eq!(retention.run(bed.now()).segments, 0, "sizes aren't looked at before their time");
        bed.pass(Duration::from_millis(SIZE_EVERY_MS));
        assert_eq!(retention.run(bed.now()).segments, 1);
        begins_at(&bed, "t", 0, 2480);
        begins_at(&bed, "t", 1, 0);
    }

    #[test]
    fn a_partition_whose_segments_are_being_counted_is_passed_over() {
        let bed = Testbed::begin("maxSegmentSize=1240\nretentionBytes=0\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        fill(&bed, "t", 0, 4);
        *bed.broker.surveyed.lock() = bed.broker.log().partition("t", 0).map(|partition| partition.number);
        assert_eq!(retention.run(bed.now()).segments, 0);
        *bed.broker.surveyed.lock() = None;
        bed.pass(Duration::from_millis(SIZE_EVERY_MS));
        assert_eq!(retention.run(bed.now()).segments, 2);
    }

    #[test]
    fn a_clock_that_went_back_expires_nothing() {
        let bed = Testbed::begin("maxSegmentSize=1240\ndeletePolicy=delete,1\n");
        fill(&bed, "t", 0, 5);
        let mut ran = Ran { next: 0, segments: 0, bytes: 0 };
        let shape = bed.broker.topics.find("t").unwrap().shape.load_full();
        bed.broker.remove_expired(&shape, Some(BEGIN - 1_000_000_000), false, &mut ran).unwrap();
        assert_eq!(ran.segments, 0);
    }

    #[test]
    fn what_is_archived_can_be_read_as_files() {
        let bed = Testbed::begin("maxSegmentSize=1240\ndeletePolicy=archive,1,true\ndeleteWhen=0 0 * * * ?\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        fill(&bed, "t", 0, 3);
        retention.run(bed.now());
        bed.pass(3 * HOUR);
        assert_eq!(retention.run(bed.now()).segments, 1);
        let deadline = Instant::now() + Duration::from_secs(20);
        while bed.disk.metadata(Path::new("/data/t-0/00000000000000000000.meta.zip")).unwrap().is_none() {
            assert!(Instant::now() < deadline, "the archive is made by the applier");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_topic_that_came_after_the_first_run_has_retention_too() {
        let bed = Testbed::begin("maxSegmentSize=1240\ndeletePolicy=delete,1\ndeleteWhen=0 0 * * * ?\n");
        let mut retention = Retention::new(Arc::clone(&bed.broker), TimeZone::UTC);
        retention.run(bed.now());
        fill(&bed, "late", 0, 3);
        retention.run(bed.now());
        bed.pass(3 * HOUR);
        assert_eq!(retention.run(bed.now()).segments, 1);
    }
}
