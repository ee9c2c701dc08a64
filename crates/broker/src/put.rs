//! Putting messages: may they be stored, in which partition, and what their producer is told.

use crate::broker::Broker;
use crate::counters::Counted;
use crate::refused::Refused;
use crate::topic::{Shape, Topic};
use crate::topics::{NOBODY_ALLOWS, not_accepted};
use metaq_log::{Append, Item, Outcome, Partition, ProducerBatch, Submission, What};
use metaq_protocol::extension::Batch;
use metaq_protocol::request::{PARTITION_ANY, Put};
use metaq_protocol::{ErrorCode, answer, record};
use std::sync::Arc;

/// Random choices before all partitions are looked at.
const CHOICES: u32 = 8;

impl Broker {
    /// Judges a put and adds it to a submission; the item's tag is the opaque. Refused: nothing was added.
    pub fn put(&self, put: &Put<'_>, submission: &mut Submission) -> Result<(), Refused> {
        if put.transaction.is_some() {
            return Err(Refused::new(
                ErrorCode::TransactionUnsupported,
                "this broker has no transactions; put without a transaction key",
            ));
        }
        self.with_accepted(&put.topic, |topic, shape| {
            topic.count(Counted::Put, 1, shape);
            topic.count(Counted::MessageSize, put.body.len() as u64, shape);
            let result = self.judge_put(put, topic, shape, submission);
            if result.is_err() {
                topic.count(Counted::PutFailed, 1, shape);
            }
            result
        })
    }

    fn judge_put(
        &self,
        put: &Put<'_>,
        topic: &Topic,
        shape: &Shape,
        submission: &mut Submission,
    ) -> Result<(), Refused> {
        let partition = self.writable_partition(topic, shape, put.partition)?;
        self.refuse_too_large(put.body.len())?;
        let checksum = record::checksum(put.body);
        if let Some(sent) = put.checksum.filter(|sent| *sent != checksum) {
            let what = self.called(&partition);
            let text = format!("{what}: the body has checksum {checksum}, the line says {sent}: send it again");
            return Err(Refused::new(ErrorCode::ChecksumMismatch, text));
        }
        let start = submission.bytes.len();
        record::encode_verified(&mut submission.bytes, 0, put.flag, checksum, put.body);
        let records = start..submission.bytes.len();
        push(submission, put.opaque, Append { partition, records, count: 1, producer: None });
        Ok(())
    }

    /// Judges a batch and adds it to a submission as one append; the item's tag is the opaque. Refused: nothing was added.
    pub fn put_batch(&self, batch: &Batch<'_>, submission: &mut Submission) -> Result<(), Refused> {
        let count = u64::from(batch.count);
        self.with_accepted(&batch.topic, |topic, shape| {
            topic.count(Counted::Put, count, shape);
            topic.count(Counted::MessageSize, batch.body.len() as u64, shape);
            let result = self.judge_batch(batch, topic, shape, submission);
            if result.is_err() {
                topic.count(Counted::PutFailed, count, shape);
            }
            result
        })
    }

    fn judge_batch(
        &self,
        batch: &Batch<'_>,
        topic: &Topic,
        shape: &Shape,
        submission: &mut Submission,
    ) -> Result<(), Refused> {
        if batch.stamp.is_some() && batch.partition == PARTITION_ANY {
            let text = "a batch with a producer and a sequence names its partition: the sequence counts per partition";
            return Err(Refused::new(ErrorCode::MalformedArgument, text));
        }
        let partition = self.writable_partition(topic, shape, batch.partition)?;
        let limits = self.settings.load().limits.clone();
        if batch.count as usize > limits.batch_messages_max {
            let text = format!("{} messages in one batch; the limit is {}", batch.count, limits.batch_messages_max);
            return Err(Refused::new(ErrorCode::BatchInvalid, text));
        }
        if batch.body.len() > limits.batch_bytes_max {
            let text = format!("{} bytes in one batch; the limit is {}", batch.body.len(), limits.batch_bytes_max);
            return Err(Refused::new(ErrorCode::MessageTooLarge, text));
        }
        let checked = batch.check(limits.message_bytes_max).map_err(|fault| {
            let what = self.called(&partition);
            Refused::new(ErrorCode::BatchInvalid, format!("{what}: {fault}"))
        })?;
        let start = submission.bytes.len();
        submission.bytes.extend_from_slice(checked.records());
        let records = start..submission.bytes.len();
        let producer = batch.stamp.map(|stamp| ProducerBatch {
            producer: stamp.producer,
            epoch: stamp.epoch,
            sequence: stamp.sequence,
        });
        push(submission, batch.opaque, Append { partition, records, count: checked.count(), producer });
        Ok(())
    }

    /// Finds the topic, or makes it if a put may.
    fn with_accepted(
        &self,
        name: &str,
        then: impl FnOnce(&Topic, &Shape) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if let Some(topic) = self.topics.all().get(name) {
            return then(topic, &topic.shape.load());
        }
        match self.topics.accept(name, &self.log, &self.settings) {
            Ok(topic) => then(&topic, &topic.shape.load()),
            Err(refused) => {
                self.topics.elsewhere.add(Counted::Put, 1, false);
                self.topics.elsewhere.add(Counted::PutFailed, 1, false);
                Err(refused)
            }
        }
    }

    /// The partition for a put, in the order that the original judges in.
    fn writable_partition(&self, topic: &Topic, shape: &Shape, index: i32) -> Result<Arc<Partition>, Refused> {
        if shape.slot(index).is_some_and(|slot| slot.is_closed()) {
            return Err(self.closed(&topic.name, index));
        }
        if !shape.accepted {
            return Err(not_accepted(&topic.name, NOBODY_ALLOWS));
        }
        if !shape.settings.accept_publish {
            let text = format!("topic {} takes no messages: its acceptPublish is false", topic.name);
            return Err(Refused::new(ErrorCode::PublishNotAccepted, text));
        }
        let index = match index {
            PARTITION_ANY => self.any_partition(topic, shape)?,
            index => self.partition_in_range(topic, shape, index)?,
        };
        match shape.slots[index as usize].partition.get() {
            Some(partition) => Ok(Arc::clone(partition)),
            None => self.topics.open(topic, index, &self.log),
        }
    }

    fn partition_in_range(&self, topic: &Topic, shape: &Shape, index: i32) -> Result<u32, Refused> {
        let count = shape.settings.partitions;
        u32::try_from(index).ok().filter(|index| *index < count).ok_or_else(|| {
            let text = format!("topic {} has the partitions 0 to {} here, not {index}", topic.name, count - 1);
            Refused::new(ErrorCode::PartitionOutOfRange, text)
        })
    }

    /// An open partition by chance.
    fn any_partition(&self, topic: &Topic, shape: &Shape) -> Result<u32, Refused> {
        let count = shape.settings.partitions;
        let slots = &shape.slots[..count as usize];
        let choose = |among: u64| usize::try_from((self.surroundings.random)() % among).unwrap_or(0);
        for _ in 0..CHOICES {
            let index = choose(count.into());
            if !slots[index].is_closed() {
                return Ok(u32::try_from(index).expect("an index is below numPartitions"));
            }
        }
        let open: Vec<u32> = (0..count).filter(|index| !slots[*index as usize].is_closed()).collect();
        match open.len() {
            0 => Err(self.closed(&topic.name, PARTITION_ANY)),
            among => Ok(open[choose(among as u64)]),
        }
    }

    /// The refusal of what asks for a closed partition.
    pub(crate) fn closed(&self, topic: &str, index: i32) -> Refused {
        let name = self.partition_name(index);
        let text = match index {
            PARTITION_ANY => format!("topic {topic}: {name} closed: all its partitions were closed by an operator"),
            _ => format!("topic {topic}: {name} closed by an operator; take another partition, or wait"),
        };
        Refused::new(ErrorCode::PartitionClosed, text)
    }

    fn refuse_too_large(&self, bytes: usize) -> Result<(), Refused> {
        let limit = self.settings.load().limits.message_bytes_max;
        if bytes <= limit {
            return Ok(());
        }
        Err(Refused::new(ErrorCode::MessageTooLarge, format!("the message has {bytes} bytes; the limit is {limit}")))
    }

    /// Appends the answer to a put or a batch, for what became of it.
    pub fn answer_put(&self, tag: i64, partition: &Partition, outcome: &Outcome, out: &mut Vec<u8>) {
        let opaque = opaque_of(tag);
        match outcome {
            Outcome::Appended { first_id, position, .. } => {
                let index = i32::try_from(partition.index).unwrap_or(i32::MAX);
                let position = i64::try_from(*position).unwrap_or(i64::MAX);
                answer::stored(out, opaque, *first_id, index, position);
            }
            Outcome::Refused(refusal) => {
                self.with_topic(&partition.topic, |topic| match topic {
                    Some((topic, shape)) => topic.count(Counted::PutFailed, 1, shape),
                    None => self.topics.elsewhere.add(Counted::PutFailed, 1, false),
                });
                Refused::by_log(refusal, self.called(partition)).answer(opaque, out);
            }
            Outcome::Changed { lsn } => unreachable!("an append was answered with change {lsn}"),
        }
    }

    /// Appends the answer to a put that wasn't decided in time, or whose log closed before it was settled.
    pub fn answer_put_unknown(&self, opaque: i32, out: &mut Vec<u8>) {
        let code = ErrorCode::OutcomeUnknown;
        match self.log.closed() {
            Some(why) => {
                let text = format_args!("the store closed before this put was settled, it may be stored: {why}");
                answer::error(out, opaque, code, text);
            }
            None => {
                let text = "the broker didn't decide about this put in time; it may be stored, or be stored later";
                answer::error(out, opaque, code, text);
            }
        }
    }
}

fn push(submission: &mut Submission, opaque: i32, append: Append) {
    submission.items.push(Item { tag: opaque.into(), what: What::Append(append) });
}

/// The opaque that an item was tagged with.
pub(crate) fn opaque_of(tag: i64) -> i32 {
    i32::try_from(tag).expect("items of a front are tagged with their opaque")
}

#[cfg(test)]
mod tests {
    use crate::testbed::Testbed;
    use metaq_log::Outcome;
    use metaq_protocol::record;

    /// Topics as in the conformance checklist of the original's protocol.
    const FILE: &str =
        "stat=true\n[topic=t]\nnumPartitions=2\n[topic=wild*]\n[topic=a.b]\n[topic=mute]\nacceptPublish=false\n";

    fn check(bed: &Testbed, line: &str, status: i32, text: &str) {
        let answer = bed.answer(line);
        assert!(answer.starts_with(&format!("result {status} ")), "{line:?}: {answer}");
        assert!(answer.contains(text), "{line:?}: {answer}");
    }

    #[test]
    fn a_put_is_answered_with_its_id_its_partition_and_its_position() {
        let bed = Testbed::begin(FILE);
        for position in [0, 25, 50] {
            let answer = bed.answer("put t 0 5 0 907060870 -7\r\nhello");
            let (head, body) = answer.split_once("\r\n").unwrap();
            assert_eq!(head, format!("result 200 {} -7", body.len()));
            assert!(body.ends_with(&format!(" 0 {position}")), "{body}");
        }
        assert!(bed.answer("put t 0 0 0 9\r\n").ends_with(" 0 75"));
        assert!(bed.answer("put wildcard 0 5 0 9\r\nhello").ends_with(" 0 0"));
    }

    #[test]
    fn what_may_not_be_stored_is_refused_in_the_order_of_the_original() {
        let bed = Testbed::begin(FILE);
        check(&bed, "put nosuch 9 5 0 TX:s:1 1\r\nhello", 500, "transaction-unsupported");
        check(&bed, "put nosuch 0 5 0 1\r\nhello", 500, "topic-not-accepted: topic nosuch");
        check(&bed, "put axb 0 5 0 1\r\nhello", 500, "topic-not-accepted");
        check(&bed, "put wild/card 0 5 0 1\r\nhello", 500, "topic-not-accepted");
        check(&bed, "put mute 7 5 0 1\r\nhello", 403, "publish-not-accepted");
        for partition in [2, -2, i32::MAX] {
            check(&bed, &format!("put t {partition} 5 0 3 1\r\nhello"), 500, "partition-out-of-range");
        }
        let large = "x".repeat(16 * 1024 + 1);
        check(&bed, &format!("put t 0 {} 0 3 1\r\n{large}", large.len()), 500, "message-too-large");
        check(&bed, "get t g 1 0 100 1\r\n", 404, "");
        check(&bed, "put t 1 5 0 123 1\r\nhello", 500, "checksum-mismatch");
        assert!(bed.answer("stats offsets 1\r\n").contains("t part 1 min_offset 0 max_offset 0\r\n"));
        assert!(!bed.answer("stats offsets 1\r\n").contains("mute part"));
    }

    #[test]
    fn any_topic_is_created_by_a_put_if_no_section_says_otherwise() {
        let bed = Testbed::begin("");
        assert_eq!(bed.put("fresh.topic", 0, "x"), 0);
        check(&bed, "put metaq.x 0 1 0 1\r\nx", 500, "topic-not-accepted");
        check(&bed, "put ../x 0 1 0 1\r\nx", 500, "topic-not-accepted");
        let bed = bed.restart("autoCreateTopics=false\n");
        check(&bed, "put fresh.topic 0 1 0 1\r\nx", 500, "topic-not-accepted");
        check(&bed, "get fresh.topic g 0 21 1 1\r\n", 404, "");
    }

    #[test]
    fn any_partition_is_one_in_range() {
        let bed = Testbed::begin(FILE);
        let mut seen = [0; 2];
        for _ in 0..40 {
            let answer = bed.answer("put t -1 1 0 1\r\nx");
            let index: usize = answer.split(' ').nth(4).unwrap().parse().unwrap();
            seen[index] += 1;
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }

    fn batch(line: &str, bodies: &[&str]) -> Vec<u8> {
        let mut records = Vec::new();
        bodies.iter().for_each(|body| record::encode(&mut records, 0, 0, body.as_bytes()));
        let line = line.replace("LEN", &records.len().to_string()).replace("COUNT", &bodies.len().to_string());
        [format!("{line}\r\n").into_bytes(), records].concat()
    }

    #[test]
    fn a_batch_is_stored_whole_once_with_ids_that_follow_each_other() {
        let bed = Testbed::begin(FILE);
        let request = batch("puts t 0 LEN COUNT 7/0 0 5", &["one", "two", "three"]);
        let stored = bed.store(&request).unwrap().1.unwrap();
        let Outcome::Appended { first_id, position: 0, .. } = stored else { panic!("{stored:?}") };
        assert_eq!(bed.store(&request).unwrap().1, Some(stored), "sent again, stored once");
        let chunk = bed.answer("get t g 0 0 1000 1\r\n");
        assert!(chunk.starts_with("value 71 1\r\n"), "{chunk}");
        let bytes = read(&bed, "t", 0);
        let ids: Vec<i64> = record::Walk::new(&bytes).map(|found| found.record.id).collect();
        assert_eq!(ids, [first_id, first_id + 1, first_id + 2]);
        let refused = bed.store(&batch("puts t 0 LEN COUNT 7/0 9 5", &["gap"])).unwrap().1;
        assert!(matches!(refused, Some(Outcome::Refused(_))), "{refused:?}");
        let refused = bed.store(&batch("puts t -1 LEN COUNT 7/0 3 5", &["x"])).unwrap_err();
        assert!(refused.to_string().starts_with("malformed-argument"), "{refused}");
        let refused = bed.store(&batch("puts t 1 LEN 2 - - 5", &["x"])).unwrap_err();
        assert!(refused.to_string().starts_with("batch-invalid"), "{refused}");
    }

    /// All bytes of a partition that a reader may see.
    fn read(bed: &Testbed, topic: &str, index: u32) -> Vec<u8> {
        let log = bed.broker.log();
        let partition = log.partition(topic, index).unwrap();
        let metaq_log::Read::Slice(slice) = log.read(&partition, 0, 1 << 20, log.settled()).unwrap() else {
            panic!("there is something")
        };
        let mut bytes = vec![0; slice.len];
        metaq_disk::read_exact_at(&*slice.file, &mut bytes, slice.offset).unwrap();
        bytes
    }

    #[test]
    fn a_refusal_leaves_the_submission_as_it_was() {
        let bed = Testbed::begin(FILE);
        let mut submission = bed.submission();
        let put = |checksum, body| metaq_protocol::request::Put {
            topic: "t".into(),
            partition: 0,
            flag: 0,
            checksum,
            transaction: None,
            opaque: 1,
            body,
        };
        bed.broker.put(&put(None, b"hello"), &mut submission).unwrap();
        let before = (submission.bytes.len(), submission.items.len());
        bed.broker.put(&put(Some(1), b"hello"), &mut submission).unwrap_err();
        assert_eq!((submission.bytes.len(), submission.items.len()), before);
    }
}
