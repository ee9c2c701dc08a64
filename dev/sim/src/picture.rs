//! What a data directory should hold as of one entry of its log, by a plain account of what was asked and answered.

use metaq_log::{Class, Disposal, ProducerBatch, StateChange};
use metaq_protocol::record::{self, HEADER_BYTES, Header};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Batches that are remembered per producer and partition.
const WINDOW: usize = 5;

/// Topic and index.
pub type Name = (Arc<str>, u32);

/// One append as it was answered.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Where to.
    pub name: Name,
    /// Its entry.
    pub lsn: u64,
    /// What it waits for.
    pub class: Class,
    /// Of its first byte.
    pub position: u64,
    /// Of its first message.
    pub first_id: i64,
    /// Messages.
    pub count: u32,
    /// As they must stand in the segment.
    pub records: Vec<u8>,
    /// Who sent it.
    pub producer: Option<ProducerBatch>,
    /// Of its turn.
    pub append_time: u64,
}

impl Batch {
    /// Behind its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.position + self.records.len() as u64
    }

    /// Id of its last message.
    #[must_use]
    pub fn last_id(&self) -> i64 {
        self.first_id + i64::from(self.count) - 1
    }
}

/// What one entry changes.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Messages.
    Append(Arc<Batch>),
    /// A partition exists.
    Create(Name),
    /// A partition is gone.
    Delete(Name),
    /// Everything below a position is gone.
    Trim {
        /// Of this partition.
        name: Name,
        /// The first position that stays.
        first: u64,
        /// What became of the rest.
        disposal: Disposal,
    },
    /// Keys of the durable map.
    State(Vec<StateChange>),
}

/// One partition.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The first position that is kept.
    pub first: u64,
    /// Every byte ever written, those that aren't kept too.
    pub bytes: Vec<u8>,
    /// Where each message ever written begins.
    pub messages: Vec<u64>,
    /// Every append.
    pub batches: Vec<Arc<Batch>>,
    /// What was trimmed, in order.
    pub trims: Vec<(Range<u64>, Disposal)>,
}

impl Contents {
    /// Behind the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of a range of positions.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    /// How many messages lie below a position.
    #[must_use]
    pub fn below(&self, position: u64) -> u64 {
        self.messages.partition_point(|start| *start < position) as u64
    }

    /// How many messages are kept.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.messages.len() as u64 - self.below(self.first)
    }

    /// Whether a message begins, or the partition ends, at a position.
    #[must_use]
    pub fn is_border(&self, position: u64) -> bool {
        position == self.end() || self.messages.binary_search(&position).is_ok()
    }

    fn append(&mut self, batch: &Arc<Batch>) {
        assert_eq!(batch.position, self.end(), "the judge lets nothing else through");
        let mut at = 0;
        while let Some(header) = batch.records[at..].first_chunk::<HEADER_BYTES>() {
            self.messages.push(batch.position + at as u64);
            at += HEADER_BYTES + usize::try_from(Header::decode(header).length).expect("the workload's own records");
        }
        self.bytes.extend_from_slice(&batch.records);
        self.batches.push(Arc::clone(batch));
    }
}

/// What a producer that numbers its batches has sent to one partition.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// The newest epoch.
    pub epoch: u32,
    /// The last few batches.
    pub batches: VecDeque<Arc<Batch>>,
}

/// What must become of a numbered batch.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It is stored.
    Fresh,
    /// It is answered as this one was.
    Repeated(Arc<Batch>),
    /// It comes from an older epoch.
    Fenced {
        /// The newest one.
        epoch: u32,
    },
    /// It doesn't follow the last.
    Gap {
        /// What would.
        expected: i64,
    },
}

/// By space and key: version and value.
pub type StateMap = BTreeMap<(u8, Vec<u8>), (u64, Vec<u8>)>;

/// The directory as of one entry.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// The entry.
    pub lsn: u64,
    /// All partitions.
    pub partitions: BTreeMap<Name, Arc<Contents>>,
    /// The durable map: version and value.
    pub state: Arc<StateMap>,
    /// By producer and partition.
    pub producers: Arc<BTreeMap<(u64, Name), Window>>,
}

impl Picture {
    /// Carries out one entry.
    pub fn apply(&mut self, lsn: u64, effect: &Effect) {
        self.lsn = self.lsn.max(lsn);
        match effect {
            Effect::Append(batch) => {
                Arc::make_mut(self.partitions.entry(batch.name.clone()).or_default()).append(batch);
                if let Some(producer) = batch.producer {
                    self.remember(producer, batch);
                }
            }
            Effect::Create(name) => _ = self.partitions.entry(name.clone()).or_default(),
            Effect::Delete(name) => {
                self.partitions.remove(name);
                Arc::make_mut(&mut self.producers).retain(|(_, of), _| of != name);
            }
            Effect::Trim { name, first, disposal } => {
                let contents = Arc::make_mut(self.partitions.entry(name.clone()).or_default());
                if *first > contents.first {
                    contents.trims.push((contents.first..*first, *disposal));
                    contents.first = *first;
                }
            }
            Effect::State(changes) => {
                let state = Arc::make_mut(&mut self.state);
                for change in changes {
                    let key = (change.space, change.key.clone());
                    match &change.value {
                        Some(value) => _ = state.insert(key, (lsn, value.clone())),
                        None => _ = state.remove(&key),
                    }
                }
            }
        }
    }

    fn remember(&mut self, producer: ProducerBatch, batch: &Arc<Batch>) {
        let windows = Arc::make_mut(&mut self.producers);
        let window = windows.entry((producer.producer, batch.name.clone())).or_default();
        if window.epoch != producer.epoch {
            *window = Window { epoch: producer.epoch, batches: VecDeque::new() };
        }
        window.batches.push_back(Arc::clone(batch));
        if window.batches.len() > WINDOW {
            window.batches.pop_front();
        }
    }

    /// What must become of a numbered batch of `count` messages.
    #[must_use]
    pub fn judge(&self, name: &Name, producer: ProducerBatch, count: u32) -> Verdict {
        let Some(window) = self.producers.get(&(producer.producer, name.clone())) else { return Verdict::Fresh };
        let Some(last) = window.batches.back() else { return Verdict::Fresh };
        if producer.epoch < window.epoch {
            return Verdict::Fenced { epoch: window.epoch };
        }
        if producer.epoch > window.epoch {
            return Verdict::Fresh;
        }
        let sequence = |batch: &Batch| batch.producer.map_or(0, |producer| producer.sequence);
        let same = |batch: &&Arc<Batch>| sequence(batch) == producer.sequence && batch.count == count;
        match window.batches.iter().find(same) {
            Some(batch) => Verdict::Repeated(Arc::clone(batch)),
            None => {
                let expected = sequence(last) + i64::from(last.count);
                if producer.sequence == expected { Verdict::Fresh } else { Verdict::Gap { expected } }
            }
        }
    }

    /// Forgets a producer's batches in a partition.
    pub fn forget(&mut self, producer: u64, name: &Name) {
        Arc::make_mut(&mut self.producers).remove(&(producer, name.clone()));
    }
}

/// `records` with ids from `first_id` on.
#[must_use]
pub fn with_ids(records: &[u8], first_id: i64) -> Vec<u8> {
    let mut patched = records.to_vec();
    record::patch_ids(&mut patched, first_id);
    patched
}
