//! What producers that number their batches have sent, so that a batch sent again changes nothing.
//!
//! Per producer and partition the last few batches are kept. Every decision is made against what was sequenced,
//! durable or not: the answer to a repeated batch, or a refusal, waits for the entry it was judged against.

use crate::bytes::{Put, Short, Take};
use crate::entry::ProducerBatch;
use std::collections::{HashMap, VecDeque};

/// Batches kept per producer and partition.
pub const WINDOW: usize = 5;

/// A batch as it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub sequence: i64,
    pub count: u32,
    pub first_id: i64,
    pub position: u64,
    pub lsn: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Window {
    epoch: u32,
    batches: VecDeque<Stored>,
    /// Append time of the last batch, milliseconds since 1970.
    last_time: u64,
}

/// What is to be done with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is the next one.
    Fresh,
    /// It was stored before.
    Repeated(Stored),
    /// A newer epoch of the producer has written.
    Fenced { epoch: u32, lsn: u64 },
    /// It doesn't follow the last one, or is too old to be remembered.
    Gap { expected: i64, lsn: u64 },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    windows: HashMap<(u64, u32), Window>,
}

impl Producers {
    pub(crate) fn judge(&self, partition: u32, batch: ProducerBatch, count: u32) -> Judgement {
        let Some(window) = self.windows.get(&(batch.producer, partition)) else { return Judgement::Fresh };
        let Some(last) = window.batches.back() else { return Judgement::Fresh };
        if batch.epoch < window.epoch {
            return Judgement::Fenced { epoch: window.epoch, lsn: last.lsn };
        }
        if batch.epoch > window.epoch {
            return Judgement::Fresh;
        }
        let same = |stored: &&Stored| stored.sequence == batch.sequence && stored.count == count;
        if let Some(stored) = window.batches.iter().find(same) {
            return Judgement::Repeated(*stored);
        }
        let expected = last.sequence + i64::from(last.count);
        if batch.sequence == expected { Judgement::Fresh } else { Judgement::Gap { expected, lsn: last.lsn } }
    }

    pub(crate) fn stored(&mut self, partition: u32, batch: ProducerBatch, stored: Stored, time: u64) {
        let window = self.windows.entry((batch.producer, partition)).or_default();
        if window.epoch != batch.epoch {
            *window = Window { epoch: batch.epoch, ..Window::default() };
        }
        if window.batches.len() == WINDOW {
            window.batches.pop_front();
        }
        window.batches.push_back(stored);
        window.last_time = time;
    }

    /// Forgets producers whose last batch is older than `before`.
    pub(crate) fn expire(&mut self, before: u64) {
        self.windows.retain(|_, window| window.last_time >= before);
    }

    pub(crate) fn forget_partition(&mut self, partition: u32) {
        self.windows.retain(|(_, of), _| *of != partition);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut windows: Vec<_> = self.windows.iter().collect();
        windows.sort_by_key(|(key, _)| **key);
        out.u32(u32::try_from(windows.len()).expect("producers expire"));
        for ((producer, partition), window) in windows {
            out.u64(*producer);
            out.u32(*partition);
            out.u32(window.epoch);
            out.u64(window.last_time);
            out.u8(u8::try_from(window.batches.len()).expect("a window is small"));
            for batch in &window.batches {
                out.i64(batch.sequence);
                out.u32(batch.count);
                out.i64(batch.first_id);
                out.u64(batch.position);
                out.u64(batch.lsn);
            }
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Short> {
        let mut producers = Self::default();
        for _ in 0..take.u32()? {
            let key = (take.u64()?, take.u32()?);
            let mut window = Window { epoch: take.u32()?, last_time: take.u64()?, ..Window::default() };
            for _ in 0..take.u8()? {
                window.batches.push_back(Stored {
                    sequence: take.i64()?,
                    count: take.u32()?,
                    first_id: take.i64()?,
                    position: take.u64()?,
                    lsn: take.u64()?,
                });
            }
            producers.windows.insert(key, window);
        }
        Ok(producers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u32, sequence: i64) -> ProducerBatch {
        ProducerBatch { producer: 9, epoch, sequence }
    }

    fn stored(sequence: i64, count: u32) -> Stored {
        Stored { sequence, count, first_id: sequence * 10, position: 100, lsn: 4 }
    }

    #[test]
    fn a_batch_sent_again_is_answered_as_the_first_time() {
        let mut producers = Producers::default();
        assert_eq!(producers.judge(1, batch(0, 0), 3), Judgement::Fresh);
        producers.stored(1, batch(0, 0), stored(0, 3), 5);
        assert_eq!(producers.judge(1, batch(0, 0), 3), Judgement::Repeated(stored(0, 3)));
        assert_eq!(producers.judge(1, batch(0, 3), 1), Judgement::Fresh);
        assert_eq!(producers.judge(2, batch(0, 0), 3), Judgement::Fresh, "another partition is another window");
    }

    #[test]
    fn a_gap_and_an_older_epoch_are_refused() {
        let mut producers = Producers::default();
        producers.stored(1, batch(1, 0), stored(0, 3), 5);
        assert_eq!(producers.judge(1, batch(1, 4), 1), Judgement::Gap { expected: 3, lsn: 4 });
        assert_eq!(producers.judge(1, batch(0, 3), 1), Judgement::Fenced { epoch: 1, lsn: 4 });
        assert_eq!(producers.judge(1, batch(2, 0), 1), Judgement::Fresh);
    }

    #[test]
    fn a_batch_that_fell_out_of_the_window_is_a_gap() {
        let mut producers = Producers::default();
        for n in 0..6 {
            producers.stored(1, batch(0, n), stored(n, 1), 5);
        }
        assert_eq!(producers.judge(1, batch(0, 0), 1), Judgement::Gap { expected: 6, lsn: 4 });
    }

    #[test]
    fn the_table_is_read_as_it_was_written() {
        let mut producers = Producers::default();
        producers.stored(1, batch(1, 0), stored(0, 3), 5);
        producers.stored(2, batch(4, 7), stored(7, 1), 6);
        let mut bytes = Vec::new();
        producers.encode(&mut bytes);
        assert_eq!(Producers::decode(&mut Take::new(&bytes)), Ok(producers));
    }
}
