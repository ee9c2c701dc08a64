//! One topic on this broker: its settings, its partitions, and what is counted of it.

use crate::configuration::{self, TopicSettings};
use crate::counters::{Counted, Counters};
use arc_swap::ArcSwap;
use metaq_log::{Class, Durability, Partition, PartitionSettings};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

/// One topic. What may change of it is in its [`Shape`], replaced as a whole.
#[derive(Debug)]
pub(crate) struct Topic {
    pub name: Arc<str>,
    pub counters: Counters,
    pub shape: ArcSwap<Shape>,
}

/// A topic at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub settings: TopicSettings,
    /// What an administrator set at run time, as pairs of a key and its text.
    pub altered: Vec<(String, String)>,
    /// An administrator created it: it is accepted whatever the file says.
    pub created: bool,
    /// Clients may put to it.
    pub accepted: bool,
    /// Its traffic is counted for `stats realtime`.
    pub realtime: bool,
    /// By index; at least as many as it has partitions by its settings.
    pub slots: Vec<Arc<Slot>>,
}

/// What stands at one index.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The partition, once it has been written to.
    pub partition: OnceLock<Arc<Partition>>,
    /// Closed by an operator: puts and gets are answered 403.
    pub closed: AtomicBool,
}

impl Slot {
    pub(crate) fn of(partition: Arc<Partition>) -> Self {
        Self { partition: partition.into(), closed: false.into() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

impl Topic {
    pub(crate) fn new(name: &str, shape: Shape) -> Self {
        Self { name: name.into(), counters: Counters::default(), shape: ArcSwap::from_pointee(shape) }
    }

    pub(crate) fn count(&self, what: Counted, number: u64, shape: &Shape) {
        self.counters.add(what, number, shape.realtime);
    }
}

impl Shape {
    /// The slot at an index as it came over the wire.
    pub(crate) fn slot(&self, index: i32) -> Option<&Slot> {
        self.slots.get(usize::try_from(index).ok()?).map(|slot| &**slot)
    }

    /// Makes room for so many partitions.
    pub(crate) fn make_room(&mut self, partitions: u32) {
        let room = self.slots.len().max(partitions as usize);
        self.slots.resize_with(room, Arc::default);
    }

    /// The partitions that exist.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.slots.iter().filter_map(|slot| slot.partition.get())
    }

    /// Whether any partition exists.
    pub(crate) fn has_data(&self) -> bool {
        self.partitions().next().is_some()
    }

    /// What acknowledgements wait for.
    pub(crate) fn class(&self) -> Class {
        durability(self.settings.durability).class()
    }

    /// What its partitions go by.
    pub(crate) fn partition_settings(&self) -> PartitionSettings {
        PartitionSettings {
            durability: durability(self.settings.durability),
            segment_bytes_max: self.settings.segment_bytes_max.into(),
        }
    }
}

fn durability(configured: configuration::Durability) -> Durability {
    match configured {
        configuration::Durability::Fsync => Durability::Fsync,
        configuration::Durability::Interval { messages, period } => Durability::Interval { messages, time: period },
        configuration::Durability::Os => Durability::Os,
    }
}
