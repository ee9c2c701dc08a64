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
            topic.count(Counted::Put, 1, 1, shape);
            topic.count(Counted::MessageSize, 1, put.body.len() as u64, shape);
            let result = self.judge_put(put, topic, shape, submission);
            if result.is_err() {
                topic.count(Counted::PutFailed, 1, 1, shape);
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
            topic.count(Counted::Put, count, count, shape);
            topic.count(Counted::MessageSize, count, batch.body.len() as u64, shape);
            let result = self.judge_batch(batch, topic, shape, submission);
            if result.is_err() {
                topic.count(Counted::PutFailed, count, count, shape);
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
                self.topics.elsewhere.add(Counted::Put, 1, 1, false);
                self.topics.elsewhere.add(Counted::PutFailed, 1, 1, false);
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
        let choose = |among: usize| ((self.surroundings.random)() % among as u64) as usize;
        for _ in 0..CHOICES {
            let index = choose(slots.len());
            if !slots[index].is_closed() {
                return Ok(u32::try_from(index).expect("an index is below numPartitions"));
            }
        }
        let open: Vec<u32> = (0..count).filter(|index| !slots[*index as usize].is_closed()).collect();
        if open.is_empty() { Err(self.closed(&topic.name, PARTITION_ANY)) } else { Ok(open[choose(open.len())]) }
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
                    Some((topic, shape)) => topic.count(Counted::PutFailed, 1, 1, shape),
                    None => self.topics.elsewhere.add(Counted::PutFailed, 1, 1, false),
                });
                Refused::by_log(refusal, self.called(partition)).answer(opaque, out);
            }
            Outcome::Changed { lsn } => unreachable!("an append was answered with change {lsn}"),
        }
    }

    /// Appends the answer to a put that wasn't decided in time.
    pub fn answer_put_unknown(&self, opaque: i32, out: &mut Vec<u8>) {
        let text = "the broker didn't decide about this put in time; it may be stored, or be stored later";
        answer::error(out, opaque, ErrorCode::OutcomeUnknown, text);
    }
}

fn push(submission: &mut Submission, opaque: i32, append: Append) {
    submission.items.push(Item { tag: opaque.into(), what: What::Append(append) });
}

/// The opaque that an item was tagged with.
pub(crate) fn opaque_of(tag: i64) -> i32 {
    i32::try_from(tag).expect("items of a front are tagged with their opaque")
}
