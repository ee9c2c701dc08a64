//! Reading messages, and asking for positions.

use crate::broker::Broker;
use crate::counters::Counted;
use crate::refused::Refused;
use crate::topic::{Shape, Topic};
use metaq_disk::read_exact_at;
use metaq_log::{Partition, Read, Settled, Slice};
use metaq_protocol::extension::Fetch;
use metaq_protocol::record::{HEADER_BYTES, Header};
use metaq_protocol::request::{Get, Offset};
use metaq_protocol::{ErrorCode, Status, answer};
use std::borrow::Cow;
use std::sync::Arc;

/// The position that asks for the end.
const END: i64 = i64::MAX;
/// The least that a part of a fetch is given, if it gets anything and has so much.
const SHARE_BYTES_MIN: usize = 64 << 10;

/// What a get found.
#[derive(Debug, Clone)]
pub enum Got {
    /// Bytes of the log, at least one.
    Slice(Slice),
    /// Nothing yet: the position is the end. Who wants to wait counts itself into [`Partition::waiting`], asks once
    /// more with [`Broker::get_again`], and is woken with the partition's number.
    AtEnd {
        /// The partition.
        partition: Arc<Partition>,
        /// Its end.
        end: u64,
    },
    /// Go on at this position.
    Moved {
        /// Which.
        to: u64,
    },
    /// No such partition, or a position behind its end.
    NotFound {
        /// What is missing.
        text: String,
    },
    /// There is something, but other parts of the fetch took all the room: ask again.
    NoRoom,
    /// Refused.
    Refused(Refused),
}

impl Got {
    /// The status and the text that go with it; of a slice, the text is empty and its bytes are to be sent.
    pub fn status(&self) -> (Status, Cow<'_, str>) {
        match self {
            Got::Slice(_) => (Status::Ok, Cow::Borrowed("")),
            Got::AtEnd { partition, end } => {
                let Partition { topic, index, .. } = &**partition;
                (Status::NotFound, Cow::Owned(format!("{topic} {index} has nothing at its end {end} yet")))
            }
            Got::Moved { to } => (Status::Moved, Cow::Owned(to.to_string())),
            Got::NotFound { text } => (Status::NotFound, Cow::Borrowed(text)),
            Got::NoRoom => (Status::NotFound, Cow::Borrowed("the size was used up by other parts; ask again")),
            Got::Refused(refused) => (refused.status(), Cow::Owned(refused.to_string())),
        }
    }

    /// Appends the whole answer to a get, or of a slice the head: its bytes must follow.
    pub fn answer(&self, opaque: i32, out: &mut Vec<u8>) {
        match self {
            Got::Slice(slice) => answer::value_head(out, slice.len, opaque),
            other => {
                let (status, text) = other.status();
                answer::result(out, status, opaque, text.as_bytes());
            }
        }
    }
}

impl Broker {
    /// Answers a get.
    pub fn get(&self, get: &Get<'_>) -> Got {
        let settled = self.log.settled();
        self.with_topic(&get.topic, |topic| {
            let got = self.read(topic, get.partition, get.position, get.size, settled, &get.topic);
            self.count_get(topic, &got);
            got
        })
    }

    /// Answers a get that has waited; it was counted when it came.
    pub fn get_again(&self, get: &Get<'_>) -> Got {
        let settled = self.log.settled();
        self.with_topic(&get.topic, |topic| {
            self.read(topic, get.partition, get.position, get.size, settled, &get.topic)
        })
    }

    /// Answers a fetch: what all parts show was settled at one moment. In the order of the parts.
    pub fn fetch(&self, fetch: &Fetch<'_>) -> Vec<Got> {
        self.read_parts(fetch, true)
    }

    /// Answers a fetch that has waited; it was counted when it came.
    pub fn fetch_again(&self, fetch: &Fetch<'_>) -> Vec<Got> {
        self.read_parts(fetch, false)
    }

    fn read_parts(&self, fetch: &Fetch<'_>, counted: bool) -> Vec<Got> {
        let settled = self.log.settled();
        let size = i32::try_from(fetch.size).unwrap_or(i32::MAX);
        let read = |topic: &str, partition, position| {
            self.with_topic(topic, |known| {
                let got = self.read(known, partition, position, size, settled, topic);
                if counted {
                    self.count_get(known, &got);
                }
                got
            })
        };
        let mut all: Vec<Got> =
            fetch.parts.iter().map(|part| read(&part.topic, part.partition, part.position)).collect();
        share(&mut all, fetch.size as usize);
        all
    }

    fn count_get(&self, topic: Option<(&Topic, &Shape)>, got: &Got) {
        let missed = matches!(got, Got::AtEnd { .. } | Got::NotFound { .. } | Got::Moved { .. });
        let moved = matches!(got, Got::Moved { .. });
        let counted = [(Counted::Get, true), (Counted::GetMiss, missed), (Counted::Offset, moved)];
        for (what, _) in counted.into_iter().filter(|(_, counted)| *counted) {
            match topic {
                Some((topic, shape)) => topic.count(what, 1, shape),
                None => self.topics.elsewhere.add(what, 1, false),
            }
        }
    }

    /// In the order that the original judges in.
    fn read(
        &self,
        topic: Option<(&Topic, &Shape)>,
        index: i32,
        position: i64,
        size: i32,
        settled: Settled,
        name: &str,
    ) -> Got {
        let Some((topic, shape)) = topic else { return self.no_partition(name, index) };
        let slot = shape.slot(index);
        if slot.is_some_and(|slot| slot.is_closed()) {
            return Got::Refused(self.closed(&topic.name, index));
        }
        if !shape.settings.accept_subscribe {
            let text = format!("topic {name} gives no messages: its acceptSubscribe is false");
            return Got::Refused(Refused::new(ErrorCode::SubscribeNotAccepted, text));
        }
        let Some(partition) = slot.and_then(|slot| slot.partition.get()) else {
            return self.no_partition(name, index);
        };
        let size = match usize::try_from(size) {
            Ok(size @ 1..) => size,
            _ => {
                let text = format!("a get asks for 1 byte or more, not {size}");
                return Got::Refused(Refused::new(ErrorCode::SizeInvalid, text));
            }
        };
        self.read_partition(partition, position, size, settled)
    }

    fn no_partition(&self, topic: &str, index: i32) -> Got {
        Got::NotFound { text: self.unknown_partition(topic, index).to_string() }
    }

    pub(crate) fn unknown_partition(&self, topic: &str, index: i32) -> Refused {
        let text = format!("topic {topic} has nothing in partition {} of this broker", self.partition_name(index));
        Refused::new(ErrorCode::TopicUnknown, text)
    }

    fn read_partition(&self, partition: &Arc<Partition>, position: i64, size: usize, settled: Settled) -> Got {
        let Ok(from) = u64::try_from(position) else { return Got::Moved { to: partition.bounds(settled).first } };
        match self.log.read(partition, from, size, settled) {
            Ok(Read::Slice(slice)) => Got::Slice(self.cut(slice)),
            Ok(Read::AtEnd) => Got::AtEnd { partition: Arc::clone(partition), end: from },
            Ok(Read::Beyond { end }) if position == END || self.settings.load().update_consumer_offsets => {
                Got::Moved { to: end }
            }
            Ok(Read::Beyond { end }) => {
                let what = self.called(partition);
                Got::NotFound { text: format!("{what} ends at {end}, before position {position}") }
            }
            Ok(Read::Below { first }) => Got::Moved { to: first },
            Ok(Read::Damaged { next }) => {
                let what = self.called(partition);
                let text = format!(
                    "{what}: the bytes at position {position} are damaged on the broker's disk; the next whole message is at {next}"
                );
                Got::Refused(Refused::new(ErrorCode::CorruptRange, text))
            }
            // What waits in memory for room in its segment; that the disk is full was logged.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                let what = self.called(partition);
                let text =
                    format!("{what}: what is safe from position {position} on can be read when the disk has room");
                Got::Refused(Refused::new(ErrorCode::DiskFull, text))
            }
            Err(error) => {
                let what = self.called(partition);
                tracing::error!(partition = what, position, %error, "reading failed");
                let text = format!("{what}: the broker can't read position {position} from its disk: {error}");
                Got::Refused(Refused::new(ErrorCode::Internal, text))
            }
        }
    }

    /// At most `maxTransferSize`, but one whole message even if it is larger, so that a consumer that asks for enough
    /// gets past it.
    fn cut(&self, slice: Slice) -> Slice {
        let limit = self.settings.load().limits.transfer_bytes_max;
        if slice.len <= limit {
            return slice;
        }
        let mut header = [0; HEADER_BYTES];
        let range = slice.offset..slice.offset + HEADER_BYTES as u64;
        let is_cached = slice.file.is_cached(range);
        let record = match is_cached && read_exact_at(&*slice.file, &mut header, slice.offset).is_ok() {
            true => usize::try_from(Header::decode(&header).length).unwrap_or(0).saturating_add(HEADER_BYTES),
            false => 0,
        };
        // What isn't a record's beginning may look like a huge one.
        let message_max = self.settings.load().limits.message_bytes_max + HEADER_BYTES;
        let len = if record <= message_max { limit.max(record.min(slice.len)) } else { limit };
        Slice { len, ..slice }
    }

    /// Answers which position to go on at: the start of the segment that holds the one asked for.
    pub fn offset(&self, offset: &Offset<'_>) -> Result<u64, Refused> {
        self.with_topic(&offset.topic, |topic| {
            match topic {
                Some((topic, shape)) => topic.count(Counted::Offset, 1, shape),
                None => self.topics.elsewhere.add(Counted::Offset, 1, false),
            }
            let slot = topic.and_then(|(_, shape)| shape.slot(offset.partition));
            let partition = slot
                .and_then(|slot| slot.partition.get())
                .ok_or_else(|| self.unknown_partition(&offset.topic, offset.partition))?;
            let bounds = partition.bounds(self.log.settled());
            Ok(match u64::try_from(offset.position) {
                Err(_) => bounds.first,
                Ok(position) if position >= bounds.end => bounds.end,
                Ok(position) => self.log.segment_start(partition, position).max(bounds.first),
            })
        })
    }
}

/// Cuts the slices so that they are `size` bytes at most. Each gets an equal share, what some don't need goes to the
/// others; none gets less than [`SHARE_BYTES_MIN`] unless it has no more: the last ones then get nothing.
fn share(all: &mut [Got], size: usize) {
    let lens = all.iter().filter_map(|got| match got {
        Got::Slice(slice) => Some(slice.len),
        _ => None,
    });
    let each = equal_share(lens.collect(), size).max(SHARE_BYTES_MIN);
    let mut left = size;
    for got in all {
        let Got::Slice(slice) = got else { continue };
        slice.len = slice.len.min(each).min(left);
        left -= slice.len;
        if slice.len == 0 {
            *got = Got::NoRoom;
        }
    }
}

/// The share at which all of `lens`, each cut to it, fill `size`.
fn equal_share(mut lens: Vec<usize>, size: usize) -> usize {
    lens.sort_unstable();
    let mut left = size;
    for (at, len) in lens.iter().enumerate() {
        let share = left / (lens.len() - at);
        if *len >= share {
            return share;
        }
        left -= len;
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{BEGIN, Testbed};
    use metaq_disk::{Disk, Fault};
    use std::path::Path;

    #[test]
    fn what_small_parts_leave_goes_to_the_large_ones() {
        assert_eq!(equal_share(vec![10, 1000, 1000], 1010), 500);
        assert_eq!(equal_share(vec![10, 10], 1000), 1000);
        assert_eq!(equal_share(vec![], 5), 5);
        assert_eq!(equal_share(vec![7, 7], 7), 3);
    }

    const FILE: &str = "maxSegmentSize=1024\n[topic=t]\nnumPartitions=2\n[topic=seg]\n[topic=empty]\n\
                        [topic=deaf]\nacceptSubscribe=false\n";

    fn check(bed: &Testbed, line: &str, expected: &str) {
        let answer = bed.answer(line);
        assert!(answer.starts_with(expected), "{line:?}: {answer}");
    }

    #[test]
    fn a_get_is_answered_as_the_original_does() {
        let bed = Testbed::begin(FILE);
        (0..3).for_each(|_| _ = bed.put("t", 0, "hello"));
        check(&bed, "get t g 0 0 1048576 1\r\n", "value 75 1\r\n\0\0\0\x05\x36\x10");
        check(&bed, "get t g 0 0 30 1\r\n", "value 30 1\r\n");
        check(&bed, "get t g 0 0 1 1\r\n", "value 1 1\r\n\0");
        check(&bed, "get t g 0 3 20 1\r\n", "value 20 1\r\n\x05");
        check(&bed, "get t g 0 0 0 1\r\n", "result 400 ");
        check(&bed, "get t g 0 0 -5 1\r\n", "result 400 ");
        check(&bed, "get t g 0 -1 100 1\r\n", "result 301 1 1\r\n0");
        check(&bed, "get t g 0 75 100 1\r\n", "result 404 ");
        check(&bed, "get t g 0 99999 100 1\r\n", "result 404 ");
        check(&bed, "get t g 0 9223372036854775807 100 1\r\n", "result 301 2 1\r\n75");
        for line in ["get t g 5 0 100 1\r\n", "get t g 5 0 0 1\r\n", "get empty g 0 0 100 1\r\n", "get x g 0 0 1 1\r\n"]
        {
            check(&bed, line, "result 404 ");
        }
        bed.put("deaf", 0, "x");
        check(&bed, "get deaf g 0 0 100 1\r\n", "result 403 ");
        let bed = bed.restart("updateConsumerOffsets=true\n");
        check(&bed, "get t g 0 99999 100 1\r\n", "result 301 2 1\r\n75");
        check(&bed, "get t g 0 75 100 1\r\n", "result 404 ");
    }

    #[test]
    fn bytes_end_at_a_segment_and_offset_gives_its_start() {
        let bed = Testbed::begin(FILE);
        let body = "x".repeat(600);
        assert_eq!([0; 3].map(|_| bed.put("seg", 0, &body)), [0, 620, 1240]);
        check(&bed, "get seg g 0 620 4000 1\r\n", "value 620 1\r\n");
        check(&bed, "get seg g 0 1240 4000 1\r\n", "value 620 1\r\n");
        let last = i64::MAX.to_string();
        for (position, expected) in [("700", "0"), ("1300", "1240"), (&last, "1860"), ("-1", "0"), ("1860", "1860")] {
            let expected = format!("result 200 {} 1\r\n{expected}", expected.len());
            check(&bed, &format!("offset seg g 0 {position} 1\r\n"), &expected);
        }
        for line in ["offset nosuch g 0 0 1\r\n", "offset empty g 0 0 1\r\n", "offset seg g -1 0 1\r\n"] {
            check(&bed, line, "result 404 ");
        }
    }

    #[test]
    fn a_message_above_the_transfer_size_comes_whole_to_who_asks_for_enough() {
        let bed = Testbed::begin("maxTransferSize=100\n");
        bed.put("t", 0, "small");
        bed.put("t", 0, &"y".repeat(1000));
        bed.put("t", 0, "small");
        check(&bed, "get t g 0 0 4000 1\r\n", "value 100 1\r\n");
        check(&bed, "get t g 0 25 4000 1\r\n", "value 1020 1\r\n");
        check(&bed, "get t g 0 25 500 1\r\n", "value 500 1\r\n");
        check(&bed, "get t g 0 25 50 1\r\n", "value 50 1\r\n");
        check(&bed, "get t g 0 30 4000 1\r\n", "value 100 1\r\n");
    }

    #[test]
    fn the_parts_of_a_fetch_share_its_size() {
        let bed = Testbed::begin(FILE);
        (0..3).for_each(|_| _ = bed.put("t", 0, "hello"));
        bed.put("t", 1, "hello");
        let fetch = |size: u32, parts: &str| {
            let line = format!("fetch g {size} {parts} 1\r\n");
            let mut decoder = metaq_protocol::Decoder::default();
            let Ok(metaq_protocol::Decoded::Request { request, .. }) = decoder.decode(line.as_bytes()) else {
                panic!("{line}")
            };
            let metaq_protocol::Request::Fetch(fetch) = request else { panic!("{line}") };
            let got = bed.broker.fetch(&fetch);
            got.iter()
                .map(|got| match got {
                    Got::Slice(slice) => slice.len.to_string(),
                    other => other.status().0.to_string(),
                })
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(fetch(1000, "t:0:0,t:1:0,t:0:75,t:1:-3,x:0:0"), "75 25 404 301 404");
        assert_eq!(fetch(80, "t:0:0,t:1:0"), "75 5");
        assert_eq!(fetch(30, "t:0:0,t:1:0"), "30 404");
    }

    #[test]
    fn on_a_full_disk_all_that_is_written_can_be_read() {
        let bed = Testbed::begin(FILE);
        (0..3).for_each(|_| _ = bed.put("t", 0, "hello"));
        check(&bed, "get t g 0 0 1000 1\r\n", "value 75 1\r\n");
        bed.disk.inject("/data/t-0", Fault::NoSpace, 0..1_000_000);
        bed.put("t", 0, "hello");
        check(&bed, "get t g 0 0 1000 1\r\n", "value 75 1\r\n");
        let answer = bed.answer("get t g 0 75 1000 1\r\n");
        assert!(answer.starts_with("result 503 ") && answer.contains("disk-full: t 0-0"), "{answer}");
        bed.disk.clear_faults();
        check(&bed, "get t g 0 50 1000 1\r\n", "value 50 1\r\n");
    }

    #[test]
    fn a_missing_segment_is_told_as_damage_and_a_missing_folder_closes_its_partition() {
        let bed = Testbed::begin(FILE);
        (0..5).for_each(|_| _ = bed.put("t", 0, &"x".repeat(600)));
        bed.put("t", 1, "hello");
        let disk = bed.stop();
        disk.remove_file(Path::new("/data/t-0/00000000000000001240.meta")).unwrap();
        for name in disk.list(Path::new("/data/t-1")).unwrap() {
            disk.remove_file(&Path::new("/data/t-1").join(name.name)).unwrap();
        }
        disk.remove_dir(Path::new("/data/t-1")).unwrap();
        let bed = Testbed::on(disk, FILE, BEGIN);
        check(&bed, "get t g 0 620 4000 1\r\n", "value 620 1\r\n");
        for position in [1240, 1860] {
            let answer = bed.answer(&format!("get t g 0 {position} 4000 1\r\n"));
            assert!(answer.contains("corrupt-range") && answer.ends_with("message is at 2480"), "{answer}");
        }
        check(&bed, "get t g 0 2480 4000 1\r\n", "value 620 1\r\n");
        let answer = bed.answer("get t g 1 0 4000 1\r\n");
        assert!(answer.contains("corrupt-range"), "{answer}");
        for line in ["put t 0 1 0 1\r\nx", "put t 1 1 0 1\r\nx"] {
            assert!(bed.answer(line).contains("partition-failed"), "{line}");
        }
        let said: Vec<String> = bed.report.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.starts_with("t-0: closed")), "{said:?}");
        assert!(said.iter().any(|line| line.starts_with("t-1: closed")), "{said:?}");
    }

    #[test]
    fn damaged_bytes_are_not_served_and_the_way_on_is_told() {
        let bed = Testbed::begin(FILE);
        (0..3).for_each(|_| _ = bed.put("t", 0, &"x".repeat(600)));
        let disk = bed.stop();
        disk.flip_bit(std::path::Path::new("/data/t-0/00000000000000000000.meta"), 645, 0).unwrap();
        crate::testbed::make_foreign(&disk);
        let bed = Testbed::on(disk, FILE, BEGIN);
        for partition in &bed.report.to_survey {
            bed.broker.log().survey_sealed(partition, || {}).unwrap();
        }
        check(&bed, "get t g 0 0 4000 1\r\n", "value 620 1\r\n");
        let answer = bed.answer("get t g 0 620 4000 1\r\n");
        assert!(answer.starts_with("result 500 ") && answer.ends_with("the next whole message is at 1240"), "{answer}");
        check(&bed, "get t g 0 1240 4000 1\r\n", "value 620 1\r\n");
    }
}
