//! All that a simulated disk knows, behind its one lock: the tree, the power, the rules, the clock.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::fault::{Fault, Faults};
use super::operation::{Asked, Operation};
use super::random::Random;
use super::tree::{Id, Tree};

/// How many operations a disk remembers.
const HISTORY_MAX: usize = 4096;

/// The size of a disk unless told otherwise, in bytes.
const CAPACITY: u64 = 1 << 40;

/// The time on a disk unless told otherwise, in seconds since 1970.
const FIRST_TIME: Duration = Duration::from_secs(1_000_000_000);

#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) random: Random,
    pub(super) operations: u64,
    pub(super) cut_after: Option<u64>,
    pub(super) has_power: bool,
    pub(super) faults: Faults,
    pub(super) capacity: u64,
    pub(super) now: SystemTime,
    pub(super) is_cold: bool,
    pub(super) locked: BTreeSet<Id>,
    history: VecDeque<Operation>,
}

/// An operation that has begun and must be carried out.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(super) struct Begun {
    pub(super) number: u64,
    /// What befalls it.
    pub(super) fault: Option<Fault>,
    /// Whether the power goes while it is carried out.
    is_last: bool,
}

impl Begun {
    /// Whether a sync is done before the power goes.
    pub(super) fn completes(self) -> bool {
        !self.is_last
    }

    /// The answer to give: once the power is off nobody hears of what was done.
    pub(super) fn answer<T>(self, done: io::Result<T>) -> io::Result<T> {
        if self.is_last { Err(power_is_off()) } else { done }
    }
}

pub(super) fn power_is_off() -> io::Error {
    io::Error::other("power is off")
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let now = SystemTime::UNIX_EPOCH + FIRST_TIME;
        Self::holding(Tree::new(now), Random(seed), CAPACITY, now)
    }

    fn holding(tree: Tree, random: Random, capacity: u64, now: SystemTime) -> Self {
        Self {
            tree,
            random,
            operations: 0,
            cut_after: None,
            has_power: true,
            faults: Faults::default(),
            capacity,
            now,
            is_cold: false,
            locked: BTreeSet::new(),
            history: VecDeque::new(),
        }
    }

    /// A machine started anew with this tree.
    pub(super) fn restarted(&self, tree: Tree) -> Self {
        Self::holding(tree, self.random.clone(), self.capacity, self.now)
    }

    /// Begins what only looks.
    pub(super) fn look(&mut self, path: &Path, possible: &[Fault]) -> io::Result<Option<Fault>> {
        if !self.has_power {
            return Err(power_is_off());
        }
        Ok(self.faults.strike(path, possible))
    }

    /// Begins what changes or syncs something.
    pub(super) fn begin(&mut self, path: &Path, asked: Asked, possible: &[Fault]) -> io::Result<Begun> {
        if !self.has_power {
            return Err(power_is_off());
        }
        self.operations += 1;
        let number = self.operations;
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Operation { number, path: Arc::from(path), asked });
        let is_last = self.cut_after.is_some_and(|last| number > last);
        if is_last {
            self.has_power = false;
            return Ok(Begun { number, fault: None, is_last });
        }
        let fault = self.faults.strike(path, possible);
        Ok(Begun { number, fault, is_last })
    }

    /// Begins a change of names.
    pub(super) fn begin_name(&mut self, path: &Path, asked: Asked) -> io::Result<Begun> {
        let begun = self.begin(path, asked, &[Fault::FailName])?;
        if begun.fault.is_some() {
            return Err(Errno::IO.into());
        }
        Ok(begun)
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.tree.used)
    }

    /// The last operations, oldest first.
    pub(super) fn history(&self, count: usize) -> Vec<Operation> {
        let skipped = self.history.len().saturating_sub(count);
        self.history.iter().skip(skipped).cloned().collect()
    }
}
