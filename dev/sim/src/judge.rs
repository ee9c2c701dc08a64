//! Judges every answer of the log against the history, and adds it there.

use crate::machine::Rig;
use crate::picture::{Batch, Effect, Name, Verdict, with_ids};
use metaq_log::{Append, Change, Class, Condition, Disposal, Outcome, Partition, Refusal, Submission, What};
use std::sync::Arc;

/// An answer, and the entry that it was judged against or is in: it may not leave before that is durable.
type Judged = Result<u64, String>;

impl Rig {
    /// Takes what came back since the last call. Call it after each step that may write a turn.
    pub fn absorb(&mut self) -> Result<(), String> {
        let delivered = std::mem::take(&mut *self.inbox.delivered.lock());
        for submission in &delivered {
            self.judge(submission)?;
        }
        let settled = self.log.settled();
        self.machine.history.turn(settled.written);
        self.machine.history.settle(settled);
        Ok(())
    }

    /// Whether an outcome is due to what the disk did.
    fn is_strain(&self, outcome: &Outcome) -> bool {
        let Outcome::Refused(why) = outcome else { return false };
        let closed = self.log.closed().is_some();
        self.strained
            && match why {
                Refusal::StoreClosed(_) => closed,
                Refusal::PartitionFailed(_) | Refusal::DiskFull | Refusal::LogFull => true,
                _ => false,
            }
    }

    fn judge(&mut self, submission: &Submission) -> Result<(), String> {
        if submission.items.len() != submission.outcomes.len() {
            return Err(format!("{} items have {} outcomes", submission.items.len(), submission.outcomes.len()));
        }
        let mut durable = 0;
        for (item, outcome) in submission.items.iter().zip(&submission.outcomes) {
            if let Outcome::Refused(Refusal::TooLarge { bytes, limit }) = outcome {
                let said = *limit == self.machine.profile.options.submission_bytes_max() && bytes > limit;
                said.then_some(()).ok_or_else(|| format!("{outcome:?} to {} bytes", submission.bytes.len()))?;
                continue;
            }
            if self.is_strain(outcome) {
                continue;
            }
            let waits = match &item.what {
                What::Append(append) => self.judge_append(append, &submission.bytes, outcome),
                What::Change(change) => self.judge_change(change, outcome),
            };
            durable = durable.max(waits.map_err(|why| format!("{outcome:?}: {why}"))?);
        }
        if submission.wait_durable < durable && durable > self.log.settled().durable {
            let waits = submission.wait_durable;
            return Err(format!("an answer waits for entry {waits}, but was judged against {durable}"));
        }
        Ok(())
    }

    fn judge_append(&mut self, append: &Append, bytes: &[u8], outcome: &Outcome) -> Judged {
        let name = Rig::name_of(&append.partition);
        if let Some(lsn) = self.deleted.get(&append.partition.number) {
            return match outcome {
                Outcome::Refused(Refusal::PartitionDeleted) => Ok(*lsn),
                _ => Err("the partition was deleted".to_owned()),
            };
        }
        let mut verdict = match append.producer {
            Some(producer) => self.machine.history.latest.judge(&name, producer, append.count),
            None => Verdict::Fresh,
        };
        let is_new = matches!(outcome, Outcome::Appended { lsn, .. } if *lsn > self.machine.history.latest.lsn);
        if is_new && !matches!(verdict, Verdict::Fresh) && self.may_be_forgotten(&name, append) {
            let producer = append.producer.map_or(0, |producer| producer.producer);
            self.machine.history.latest.forget(producer, &name);
            verdict = Verdict::Fresh;
        }
        match (verdict, outcome) {
            (Verdict::Fresh, Outcome::Appended { first_id, position, lsn, class }) => {
                let records = with_ids(&bytes[append.records.clone()], *first_id);
                let batch = Batch {
                    lsn: *lsn,
                    class: *class,
                    position: *position,
                    first_id: *first_id,
                    count: append.count,
                    records,
                    producer: append.producer,
                    append_time: self.machine.now,
                    name,
                };
                self.stored(batch)
            }
            (Verdict::Repeated(batch), Outcome::Appended { first_id, position, lsn, .. }) => {
                let as_then = (*first_id, *position, *lsn) == (batch.first_id, batch.position, batch.lsn);
                let waits = if batch.class == Class::Durable { batch.lsn } else { 0 };
                if as_then { Ok(waits) } else { Err(format!("it is a repetition of {batch:?}")) }
            }
            (Verdict::Gap { .. }, Outcome::Appended { position, .. }) if self.remembers(&name, append, *position) => {
                Ok(0)
            }
            (Verdict::Repeated(batch), Outcome::Refused(Refusal::SequenceGap { .. })) if self.is_expired(&batch) => {
                Ok(0)
            }
            (Verdict::Fenced { epoch }, Outcome::Refused(Refusal::Fenced { epoch: said })) if epoch == *said => {
                Ok(self.last_of(&name, append))
            }
            (Verdict::Gap { expected }, Outcome::Refused(Refusal::SequenceGap { expected: said }))
                if expected == *said =>
            {
                Ok(self.last_of(&name, append))
            }
            (verdict, _) => Err(format!("{:?} to {name:?} should be {verdict:?}", append.producer)),
        }
    }

    /// Whether a producer may have been forgotten for being silent.
    fn may_be_forgotten(&self, name: &Name, append: &Append) -> bool {
        let Some(producer) = append.producer else { return false };
        let window = self.machine.history.latest.producers.get(&(producer.producer, name.clone()));
        window.and_then(|window| window.batches.back()).is_some_and(|last| self.is_expired(last))
    }

    /// Whether the batch that stands at `position` is this one: its producer may have been forgotten here and not there.
    fn remembers(&self, name: &Name, append: &Append, position: u64) -> bool {
        let contents = self.machine.history.latest.partitions.get(name);
        let batch = contents.and_then(|contents| contents.batches.iter().find(|batch| batch.position == position));
        self.machine.profile.forgets_producers
            && batch.is_some_and(|batch| batch.producer == append.producer && batch.count == append.count)
    }

    /// Whether a batch is so old that its producer may have been forgotten after it.
    fn is_expired(&self, batch: &Batch) -> bool {
        let expiry = u64::try_from(self.machine.profile.options.producer_expiry.as_millis()).unwrap_or(u64::MAX);
        self.machine.profile.forgets_producers
            && batch.append_time.saturating_add(expiry) < self.machine.history.latest_time
    }

    /// The entry of the last batch of a producer in a partition.
    fn last_of(&self, name: &Name, append: &Append) -> u64 {
        let producer = append.producer.map_or(0, |producer| producer.producer);
        let window = self.machine.history.latest.producers.get(&(producer, name.clone()));
        window.and_then(|window| window.batches.back()).map_or(0, |batch| batch.lsn)
    }

    fn stored(&mut self, batch: Batch) -> Judged {
        let history = &self.machine.history;
        let end = history.latest.partitions.get(&batch.name).map_or(0, |contents| contents.end());
        if batch.position != end {
            return Err(format!("the partition ended at {end}"));
        }
        if batch.lsn <= history.latest.lsn {
            return Err(format!("entry {} was given before", history.latest.lsn));
        }
        if batch.first_id <= history.known_id {
            return Err(format!("id {} was given before", history.known_id));
        }
        let (lsn, waits) = (batch.lsn, if batch.class == Class::Durable { batch.lsn } else { 0 });
        self.machine.history.add(lsn, Effect::Append(Arc::new(batch)));
        Ok(waits)
    }

    fn judge_change(&mut self, change: &Change, outcome: &Outcome) -> Judged {
        let latest = &self.machine.history.latest;
        match (change, outcome) {
            (Change::Create(partition), Outcome::Changed { lsn }) => {
                self.is_alive(partition)?;
                Ok(self.changed(*lsn, Effect::Create(Rig::name_of(partition))))
            }
            (Change::Delete(partition), Outcome::Changed { lsn }) => {
                self.is_alive(partition)?;
                self.deleted.insert(partition.number, *lsn);
                self.readers.remove(&Rig::name_of(partition));
                Ok(self.changed(*lsn, Effect::Delete(Rig::name_of(partition))))
            }
            (
                Change::Create(partition)
                | Change::Delete(partition)
                | Change::Trim { partition, .. }
                | Change::Counted { partition, .. },
                Outcome::Refused(Refusal::PartitionDeleted),
            ) => self.deleted.get(&partition.number).copied().ok_or_else(|| "it wasn't deleted".to_owned()),
            (Change::Trim { partition, first, disposal }, Outcome::Changed { lsn }) => {
                self.is_alive(partition)?;
                Ok(self.trimmed(*lsn, partition, *first, *disposal))
            }
            (Change::Trim { partition, first, .. }, Outcome::Refused(Refusal::NoSegmentThere { .. })) => {
                let contents = latest.partitions.get(&Rig::name_of(partition));
                if contents.map_or(0, |contents| contents.end()) == *first {
                    return Err("the partition ends there".to_owned());
                }
                Ok(0)
            }
            (Change::State { conditions, changes }, Outcome::Changed { lsn }) => match self.unmet(conditions) {
                Some(unmet) => Err(format!("condition {unmet:?} doesn't hold")),
                None => Ok(self.changed(*lsn, Effect::State(changes.clone()))),
            },
            (Change::State { conditions, .. }, Outcome::Refused(Refusal::Conflict { condition, version })) => {
                match self.unmet(conditions) {
                    Some(unmet) if unmet == (*condition, *version) => Ok(version.unwrap_or(0)),
                    unmet => Err(format!("the condition that doesn't hold is {unmet:?}")),
                }
            }
            (Change::Barrier, Outcome::Changed { lsn }) => Ok(*lsn),
            (change, _) => Err(format!("this is no answer to {change:?}")),
        }
    }

    fn is_alive(&self, partition: &Partition) -> Result<(), String> {
        match self.deleted.contains_key(&partition.number) {
            true => Err("the partition was deleted".to_owned()),
            false => Ok(()),
        }
    }

    fn changed(&mut self, lsn: u64, effect: Effect) -> u64 {
        self.machine.history.add(lsn, effect);
        lsn
    }

    fn trimmed(&mut self, lsn: u64, partition: &Partition, first: u64, disposal: Disposal) -> u64 {
        self.changed(lsn, Effect::Trim { name: Rig::name_of(partition), first, disposal })
    }

    fn unmet(&self, conditions: &[Condition]) -> Option<(usize, Option<u64>)> {
        let state = &self.machine.history.latest.state;
        conditions.iter().enumerate().find_map(|(at, condition)| {
            let version = state.get(&(condition.space, condition.key.clone())).map(|(version, _)| *version);
            (version != condition.version).then_some((at, version))
        })
    }
}
