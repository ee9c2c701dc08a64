//! Changes of names on their way from what programs see to the device.
//!
//! Invariants: a folder's changes reach the device in their order; a move between two folders is pending in both and
//! reaches both or neither. What a change is about may be gone from the tree: then it changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tree::{Folder, Id, Name, Node, Place, Tree};

/// A change of names that is not on the device yet.
#[derive(Debug)]
pub(super) struct Change {
    number: u64,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    Add { folder: Id, name: Name, node: Id },
    Remove { folder: Id, name: Name },
    Move { from: (Id, Name), to: (Id, Name), node: Id },
}

impl Step {
    /// The one or two folders it changes.
    fn folders(&self) -> (Id, Id) {
        match self {
            Self::Add { folder, .. } | Self::Remove { folder, .. } => (*folder, *folder),
            Self::Move { from, to, .. } => (from.0, to.0),
        }
    }

    /// Of a move between two folders the other one.
    fn other_folder(&self, folder: Id) -> Option<Id> {
        let (first, second) = self.folders();
        match first == second {
            true => None,
            false if first == folder => Some(second),
            false => Some(first),
        }
    }

    /// What it gives a name to.
    pub(super) fn node(&self) -> Option<Id> {
        match self {
            Self::Add { node, .. } | Self::Move { node, .. } => Some(*node),
            Self::Remove { .. } => None,
        }
    }

    /// Tells what stands under a name from here on.
    pub(super) fn carry_out(&self, mut hold: impl FnMut(Id, &Name, Option<Id>)) {
        match self {
            Self::Add { folder, name, node } => hold(*folder, name, Some(*node)),
            Self::Remove { folder, name } => hold(*folder, name, None),
            Self::Move { from, to, node } => {
                hold(from.0, &from.1, None);
                hold(to.0, &to.1, Some(*node));
            }
        }
    }
}

/// How many of each folder's pending changes reach the device.
pub(super) type Prefixes = BTreeMap<Id, usize>;

/// A move between two folders that is in the prefix of one.
struct Half {
    folder: Id,
    /// How many changes of `folder` come before it.
    before: usize,
    other: Id,
    /// How many changes of `other` there are up to and with it.
    needed: usize,
}

impl Tree {
    pub(super) fn record(&mut self, step: Step) {
        self.changes += 1;
        let (first, second) = step.folders();
        let change = Arc::new(Change { number: self.changes, step });
        self.folder_mut(first).pending.push(change.clone());
        if second != first {
            self.folder_mut(second).pending.push(change);
        }
    }

    /// Brings a folder's changes to the device, and of other folders what these need.
    pub(super) fn sync_folder(&mut self, folder: Id) {
        let mut prefixes = Prefixes::from([(folder, self.folder_mut(folder).pending.len())]);
        self.include_halves(&mut prefixes);
        self.apply(&prefixes);
        self.sweep_if_worth_it();
    }

    /// Brings all names and all files to the device.
    pub(super) fn sync_everything(&mut self) {
        let pending = self.pending_folders().map(|(id, folder)| (id, folder.pending.len()));
        let prefixes = pending.collect();
        self.apply(&prefixes);
        for inode in self.inodes() {
            inode.sync();
        }
        self.sweep_if_worth_it();
    }

    /// Takes a name away everywhere, unnoticed.
    pub(super) fn lose_name(&mut self, place: &Place) {
        self.sync_folder(place.folder);
        let now = self.folder_mut(place.folder).modified;
        self.see(place.folder, &place.name, None, now);
        self.hold(place.folder, &place.name, None);
    }

    pub(super) fn pending_folders(&self) -> impl Iterator<Item = (Id, &Folder)> {
        self.nodes.iter().filter_map(|(&id, node)| match node {
            Node::Folder(folder) if !folder.pending.is_empty() => Some((id, folder)),
            Node::Folder(_) | Node::File(_) => None,
        })
    }

    /// The changes in the given prefixes, in their order.
    pub(super) fn changes_in(&self, prefixes: &Prefixes) -> Vec<Arc<Change>> {
        let changes = prefixes.iter().flat_map(|(&id, &len)| &self.pending(id)[..len]);
        let changes: BTreeMap<u64, _> = changes.map(|change| (change.number, change.clone())).collect();
        changes.into_values().collect()
    }

    fn pending(&self, folder: Id) -> &[Arc<Change>] {
        match self.nodes.get(&folder) {
            Some(Node::Folder(folder)) => &folder.pending,
            Some(Node::File(_)) | None => &[],
        }
    }

    fn halves(&self, prefixes: &Prefixes) -> Vec<Half> {
        let mut halves = Vec::new();
        for (&folder, &len) in prefixes {
            for (before, change) in self.pending(folder)[..len].iter().enumerate() {
                if let Some(other) = change.step.other_folder(folder) {
                    let pending = self.pending(other);
                    let needed = pending.partition_point(|other| other.number <= change.number);
                    halves.push(Half { folder, before, other, needed });
                }
            }
        }
        halves
    }

    /// Lengthens prefixes until every move in them has both its halves.
    fn include_halves(&self, prefixes: &mut Prefixes) {
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            for half in self.halves(prefixes) {
                let len = prefixes.entry(half.other).or_default();
                if *len < half.needed {
                    *len = half.needed;
                    is_complete = false;
                }
            }
        }
    }

    /// Shortens prefixes until every move in them has both its halves.
    pub(super) fn exclude_halves(&self, prefixes: &mut Prefixes) {
        let mut is_complete = false;
        while !is_complete {
            is_complete = true;
            for half in self.halves(prefixes) {
                if prefixes.get(&half.other).copied().unwrap_or(0) < half.needed {
                    let len = prefixes.entry(half.folder).or_default();
                    *len = half.before.min(*len);
                    is_complete = false;
                }
            }
        }
    }

    /// Moves prefixes of pending changes into what the device holds.
    fn apply(&mut self, prefixes: &Prefixes) {
        let changes = self.changes_in(prefixes);
        for (id, &len) in prefixes {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(id) {
                folder.pending.drain(..len);
            }
        }
        for change in changes {
            change.step.carry_out(|folder, name, node| self.hold(folder, name, node));
        }
    }

    /// Changes what the device holds under a name.
    fn hold(&mut self, folder: Id, name: &Name, node: Option<Id>) {
        if let Some(Node::Folder(folder)) = self.nodes.get_mut(&folder) {
            let durable = Arc::make_mut(&mut folder.durable);
            match node {
                Some(node) => durable.insert(name.clone(), node),
                None => durable.remove(name),
            };
        }
    }
}
