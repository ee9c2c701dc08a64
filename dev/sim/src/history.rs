//! What was asked of a data directory and answered, entry by entry: enough to say what it must hold as of any entry
//! that a crash may bring it back to.

use crate::picture::{Effect, Picture};
use metaq_log::{Class, Settled};
use std::collections::VecDeque;

/// What readers have seen: no crash may take back the first, no process kill the second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The last entry seen that waits for a sync.
    pub durable: u64,
    /// The last entry seen.
    pub written: u64,
}

/// The history since what is surely durable.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// As of an entry that every crash keeps.
    base: Picture,
    /// What followed.
    facts: VecDeque<(u64, Effect)>,
    /// The last entry of each turn that followed.
    turns: VecDeque<u64>,
    /// With everything that was answered, settled or not.
    pub latest: Picture,
    /// What readers have seen.
    pub seen: Seen,
    /// The highest id that was acknowledged or read.
    pub known_id: i64,
    /// The highest that the clock ever was.
    pub latest_time: u64,
}

impl History {
    /// An entry was answered.
    pub fn add(&mut self, lsn: u64, effect: Effect) {
        self.latest.apply(lsn, &effect);
        self.facts.push_back((lsn, effect));
    }

    /// A turn was written up to this entry.
    pub fn turn(&mut self, last: u64) {
        if self.last_turn() < last {
            self.turns.push_back(last);
            self.latest.lsn = last;
        }
    }

    /// The last entry that was written.
    #[must_use]
    pub fn last_turn(&self) -> u64 {
        self.turns.back().copied().unwrap_or(self.base.lsn)
    }

    /// The ids of what is settled are known to somebody.
    pub fn settle(&mut self, settled: Settled) {
        self.known_id = self.known_id.max(self.known_by(settled));
    }

    /// The highest id that was acknowledged at these watermarks, of those that aren't known since long.
    #[must_use]
    pub fn known_by(&self, settled: Settled) -> i64 {
        let batches = self.facts.iter().filter_map(|(lsn, effect)| match effect {
            Effect::Append(batch) => settled.covers(*lsn, batch.class).then(|| batch.last_id()),
            _ => None,
        });
        batches.max().unwrap_or(0)
    }

    /// No crash goes back behind `durable`: what lies below needn't be kept apart.
    pub fn forget(&mut self, durable: u64) {
        let Some(turn) = self.turns.iter().copied().take_while(|turn| *turn <= durable).last() else { return };
        while let Some((lsn, effect)) = self.facts.pop_front_if(|(lsn, _)| *lsn <= turn) {
            self.base.apply(lsn, &effect);
        }
        self.turns.retain(|other| *other > turn);
        self.base.lsn = turn;
    }

    /// The directory as of `lsn`; `None` if no turn ends there.
    #[must_use]
    pub fn picture(&self, lsn: u64) -> Option<Picture> {
        if lsn == self.last_turn() && self.facts.back().is_none_or(|(last, _)| *last <= lsn) {
            return Some(self.latest.clone());
        }
        if lsn != self.base.lsn && !self.turns.contains(&lsn) {
            return None;
        }
        let mut picture = self.base.clone();
        self.facts.iter().take_while(|(at, _)| *at <= lsn).for_each(|(at, effect)| picture.apply(*at, effect));
        picture.lsn = lsn;
        Some(picture)
    }

    /// A crash brought the directory back to `lsn`, of which `picture` is the picture.
    pub fn rewind(&mut self, lsn: u64, picture: Picture) {
        self.facts.retain(|(at, _)| *at <= lsn);
        self.turns.retain(|turn| *turn <= lsn);
        self.latest = picture;
        self.seen = Seen { durable: self.seen.durable.min(lsn), written: self.seen.written.min(lsn) };
    }

    /// Where a partition must end for readers.
    #[must_use]
    pub fn visible_end(&self, name: &crate::picture::Name, settled: Settled) -> Option<u64> {
        let contents = self.latest.partitions.get(name)?;
        let open = contents.batches.iter().rev().take_while(|batch| batch.lsn > settled.durable);
        let unsettled = open.filter(|batch| !settled.covers(batch.lsn, batch.class)).last();
        Some(unsettled.map_or(contents.end(), |batch| batch.position))
    }

    /// A reader saw a partition up to `position`.
    pub fn saw(&mut self, name: &crate::picture::Name, position: u64) {
        let Some(contents) = self.latest.partitions.get(name) else { return };
        let below = contents.batches.partition_point(|batch| batch.position < position);
        let batches = &contents.batches[..below];
        self.seen.written = self.seen.written.max(batches.last().map_or(0, |batch| batch.lsn));
        let durable = batches.iter().rev().find(|batch| batch.class == Class::Durable);
        self.seen.durable = self.seen.durable.max(durable.map_or(0, |batch| batch.lsn));
        self.known_id = self.known_id.max(batches.last().map_or(0, |batch| batch.last_id()));
    }
}
