//! Trees that are left when everything stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changes::Prefixes;
use super::inode::Inode;
use super::random::Random;
use super::tree::{FileNode, Folder, Id, Names, Node, ROOT, Tree};

impl Tree {
    /// The tree of a machine whose processes were killed: nothing is open, all else stays as it is.
    pub(super) fn after_kill(&self) -> Self {
        let mut tree = self.clone();
        for node in tree.nodes.values_mut() {
            if let Node::File(file) = node {
                file.handles = 0;
            }
        }
        tree.sweep();
        tree.counted()
    }

    /// The tree with what is on the device and nothing else.
    pub(super) fn synced(&self) -> Self {
        self.settled(&BTreeMap::new(), Inode::synced)
    }

    /// The tree as a power cut may leave it.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> Self {
        let pending = self.pending_folders().map(|(id, folder)| (id, folder.pending.len()));
        let mut prefixes: Prefixes = pending.map(|(id, all)| (id, any_prefix(all, random))).collect();
        self.exclude_halves(&mut prefixes);
        self.settled(&self.names_with(&prefixes), |inode| inode.after_power_cut(random))
    }

    /// What the folders with changes in these prefixes hold then.
    fn names_with(&self, prefixes: &Prefixes) -> BTreeMap<Id, Names> {
        let mut changed: BTreeMap<Id, Names> = BTreeMap::new();
        for change in self.changes_in(prefixes) {
            change.step.carry_out(|folder, name, node| {
                let Some(Node::Folder(before)) = self.nodes.get(&folder) else { return };
                let names = changed.entry(folder).or_insert_with(|| before.durable.clone());
                let names = Arc::make_mut(names);
                match node {
                    Some(node) => names.insert(name.clone(), node),
                    None => names.remove(name),
                };
            });
        }
        changed
    }

    /// The tree that durable names span, `changed` in place of some folders' own, each file as `settle` gives it.
    fn settled(&self, changed: &BTreeMap<Id, Names>, mut settle: impl FnMut(&Inode) -> Inode) -> Self {
        let mut nodes = BTreeMap::new();
        let mut ahead = vec![ROOT];
        while let Some(id) = ahead.pop() {
            match self.node(id) {
                Node::Folder(folder) => {
                    let names = changed.get(&id).unwrap_or(&folder.durable);
                    let settled = Folder::holding(names.clone(), folder.modified);
                    if nodes.insert(id, Node::Folder(settled)).is_none() {
                        ahead.extend(names.values());
                    }
                }
                Node::File(file) => {
                    let settled = nodes.entry(id).or_insert_with(|| {
                        let inode = settle(&file.inode);
                        Node::File(FileNode { inode, links: 0, handles: 0 })
                    });
                    if let Node::File(file) = settled {
                        file.links += 1;
                    }
                }
            }
        }
        Self { nodes, ..*self }.counted()
    }

    /// The tree with the room that its files take counted anew.
    fn counted(mut self) -> Self {
        let nodes = self.nodes.values();
        self.used = nodes
            .map(|node| match node {
                Node::File(file) if file.links > 0 => file.inode.content().allocated(),
                Node::File(_) | Node::Folder(_) => 0,
            })
            .sum();
        self
    }
}

/// How many of `all` changes arrived: often none or all, since those in between hide them where there are many.
fn any_prefix(all: usize, random: &mut Random) -> usize {
    match random.below(4) {
        0 => 0,
        1 => all,
        _ => random.below(all + 1),
    }
}
