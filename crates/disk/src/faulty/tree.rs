//! The names of a simulated disk: folders as programs see them, as the device holds them, and the changes between.
//!
//! Invariants: a folder's changes reach the device in their order; a move between two folders reaches both or neither.
//! A file lives as long as a name, a change on its way or an open handle leads to it; [`Tree::sweep`] drops the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use super::inode::Inode;
use super::random::Random;

/// Names a file or folder whatever its names are.
pub(super) type Id = u64;

/// The folder that all paths begin in.
pub(super) const ROOT: Id = 0;

type Name = Arc<OsStr>;
type Names = Arc<BTreeMap<Name, Id>>;

/// What an [`Id`] names.
#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileNode),
    Folder(Folder),
}

/// A file and what keeps it.
#[derive(Debug, Clone)]
pub(super) struct FileNode {
    pub(super) inode: Inode,
    /// How many names programs see.
    pub(super) links: usize,
    /// How many open files lead here.
    pub(super) handles: usize,
}

impl FileNode {
    /// The room that comes free if nothing leads here any more, in bytes.
    fn given_up(&self) -> u64 {
        match self.links + self.handles {
            0 => self.inode.content().allocated(),
            _ => 0,
        }
    }
}

/// A folder.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub(super) names: Names,
    durable: Names,
    /// What `durable` doesn't have yet, in order.
    pending: Vec<Arc<Change>>,
    pub(super) modified: SystemTime,
}

/// A change of names that is not on the device yet.
#[derive(Debug)]
struct Change {
    number: u64,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Add { folder: Id, name: Name, node: Id },
    Remove { folder: Id, name: Name },
    Move { from: (Id, Name), to: (Id, Name), node: Id },
}

impl Step {
    fn folders(&self) -> (Id, Id) {
        match self {
            Self::Add { folder, .. } | Self::Remove { folder, .. } => (*folder, *folder),
            Self::Move { from, to, .. } => (from.0, to.0),
        }
    }

    fn node(&self) -> Option<Id> {
        match self {
            Self::Add { node, .. } | Self::Move { node, .. } => Some(*node),
            Self::Remove { .. } => None,
        }
    }
}

/// Where a name is or would be.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: Id,
    pub(super) name: Name,
    /// What stands there.
    pub(super) node: Option<Id>,
}

/// How much of each folder's pending changes reaches the device.
type Prefixes = BTreeMap<Id, usize>;

/// All files and folders.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: BTreeMap<Id, Node>,
    next: Id,
    changes: u64,
    /// Room taken by all files that programs can still reach, in bytes.
    pub(super) used: u64,
    /// At how many nodes the next sweep is worth it.
    sweep_at: usize,
}

impl Folder {
    fn new(modified: SystemTime) -> Self {
        Self { names: Names::default(), durable: Names::default(), pending: Vec::new(), modified }
    }
}

impl Tree {
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::new(now)))]),
            next: ROOT + 1,
            changes: 0,
            used: 0,
            sweep_at: 64,
        }
    }

    // Finding.

    /// What stands at a path; an error if a parent is missing or no folder.
    pub(super) fn find(&self, path: &Path) -> io::Result<Option<Id>> {
        Ok(match self.place(path)? {
            Some(place) => place.node,
            None => Some(ROOT),
        })
    }

    /// What stands at a path, which must be something.
    pub(super) fn existing(&self, path: &Path) -> io::Result<Id> {
        self.find(path)?.ok_or_else(|| Errno::NOENT.into())
    }

    /// Where a path leads; `None`: it is the root.
    pub(super) fn place(&self, path: &Path) -> io::Result<Option<Place>> {
        let names = names_of(path);
        let Some((last, parents)) = names.split_last() else {
            return Ok(None);
        };
        let mut folder = ROOT;
        for name in parents {
            let found = self.folder(folder)?.names.get(name.as_os_str()).copied();
            folder = found.ok_or(Errno::NOENT)?;
        }
        Ok(Some(Place {
            folder,
            name: Name::from(last.as_os_str()),
            node: self.folder(folder)?.names.get(last.as_os_str()).copied(),
        }))
    }

    pub(super) fn node(&self, id: Id) -> &Node {
        self.nodes.get(&id).expect("a name or a handle leads to what exists")
    }

    fn node_mut(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("a name or a handle leads to what exists")
    }

    pub(super) fn folder(&self, id: Id) -> io::Result<&Folder> {
        match self.node(id) {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(Errno::NOTDIR.into()),
        }
    }

    fn folder_mut(&mut self, id: Id) -> &mut Folder {
        match self.node_mut(id) {
            Node::Folder(folder) => folder,
            Node::File(_) => unreachable!("a place is in a folder"),
        }
    }

    pub(super) fn file(&self, id: Id) -> io::Result<&FileNode> {
        match self.node(id) {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::ISDIR.into()),
        }
    }

    pub(super) fn file_mut(&mut self, id: Id) -> io::Result<&mut FileNode> {
        match self.node_mut(id) {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(Errno::ISDIR.into()),
        }
    }

    /// Changes the content of a file.
    pub(super) fn change<T>(&mut self, id: Id, change: impl FnOnce(&mut Inode) -> T) -> io::Result<T> {
        let inode = &mut self.file_mut(id)?.inode;
        let before = inode.content().allocated();
        let changed = change(inode);
        let after = inode.content().allocated();
        self.used = self.used - before + after;
        Ok(changed)
    }

    /// Counts one more open file.
    pub(super) fn open(&mut self, id: Id) -> io::Result<()> {
        self.file_mut(id)?.handles += 1;
        Ok(())
    }

    /// Counts one open file less.
    pub(super) fn close(&mut self, id: Id) {
        if let Some(Node::File(file)) = self.nodes.get_mut(&id) {
            file.handles -= 1;
            self.used -= file.given_up();
        }
    }

    // Changing names.

    pub(super) fn create_file(&mut self, place: &Place, now: SystemTime) -> Id {
        let file = FileNode { inode: Inode::new(now), links: 0, handles: 0 };
        let id = self.insert(Node::File(file));
        self.add(place, id, now);
        id
    }

    pub(super) fn create_folder(&mut self, place: &Place, now: SystemTime) -> Id {
        let id = self.insert(Node::Folder(Folder::new(now)));
        self.add(place, id, now);
        id
    }

    pub(super) fn add(&mut self, place: &Place, node: Id, now: SystemTime) {
        let (folder, name) = (place.folder, place.name.clone());
        self.see(folder, &name, Some(node), now);
        self.record(Step::Add { folder, name, node });
    }

    pub(super) fn remove(&mut self, place: &Place, now: SystemTime) {
        let (folder, name) = (place.folder, place.name.clone());
        self.see(folder, &name, None, now);
        self.record(Step::Remove { folder, name });
    }

    pub(super) fn rename(&mut self, from: &Place, to: &Place, node: Id, now: SystemTime) {
        self.see(from.folder, &from.name, None, now);
        self.see(to.folder, &to.name, Some(node), now);
        let (from, to) = ((from.folder, from.name.clone()), (to.folder, to.name.clone()));
        self.record(Step::Move { from, to, node });
    }

    /// Takes a name away everywhere, unnoticed.
    pub(super) fn lose_name(&mut self, place: &Place) {
        let now = self.folder_mut(place.folder).modified;
        self.see(place.folder, &place.name, None, now);
        self.apply_whole_folder(place.folder);
        Arc::make_mut(&mut self.folder_mut(place.folder).durable).remove(&place.name);
    }

    /// Whether `folder` is `other` or lies somewhere in it.
    pub(super) fn is_within(&self, folder: Id, other: Id) -> bool {
        if folder == other {
            return true;
        }
        match self.node(other) {
            Node::Folder(outer) => outer.names.values().any(|&inner| self.is_within(folder, inner)),
            Node::File(_) => false,
        }
    }

    fn insert(&mut self, node: Node) -> Id {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    /// Changes what programs see under a name.
    fn see(&mut self, folder: Id, name: &Name, node: Option<Id>, now: SystemTime) {
        let seen = self.folder_mut(folder);
        seen.modified = now;
        let names = Arc::make_mut(&mut seen.names);
        let before = match node {
            Some(node) => names.insert(name.clone(), node),
            None => names.remove(name),
        };
        if let Some(Node::File(file)) = before.and_then(|before| self.nodes.get_mut(&before)) {
            file.links -= 1;
            self.used -= file.given_up();
        }
        if let Some(Node::File(file)) = node.map(|node| self.node_mut(node)) {
            file.links += 1;
        }
    }

    fn record(&mut self, step: Step) {
        self.changes += 1;
        let (first, second) = step.folders();
        let change = Arc::new(Change { number: self.changes, step });
        self.folder_mut(first).pending.push(change.clone());
        if second != first {
            self.folder_mut(second).pending.push(change);
        }
    }

    // Making names durable.

    /// Brings a folder's changes to the device, and of other folders what these need.
    pub(super) fn sync_folder(&mut self, folder: Id) {
        self.apply_whole_folder(folder);
        if self.nodes.len() >= self.sweep_at {
            self.sweep();
        }
    }

    /// Brings all names and all files to the device.
    pub(super) fn sync_everything(&mut self) {
        let prefixes = self.pending_folders().map(|(id, folder)| (id, folder.pending.len()));
        let prefixes = prefixes.collect();
        self.apply(&prefixes);
        for inode in self.inodes() {
            inode.sync();
        }
        self.sweep();
    }

    pub(super) fn inodes(&mut self) -> impl Iterator<Item = &mut Inode> {
        self.nodes.values_mut().filter_map(|node| match node {
            Node::File(file) => Some(&mut file.inode),
            Node::Folder(_) => None,
        })
    }

    fn apply_whole_folder(&mut self, folder: Id) {
        let mut prefixes = Prefixes::from([(folder, self.folder_mut(folder).pending.len())]);
        self.include_halves(&mut prefixes);
        self.apply(&prefixes);
    }

    fn pending_folders(&self) -> impl Iterator<Item = (Id, &Folder)> {
        self.nodes.iter().filter_map(|(&id, node)| match node {
            Node::Folder(folder) if !folder.pending.is_empty() => Some((id, folder)),
            Node::Folder(_) | Node::File(_) => None,
        })
    }

    /// Of a folder's pending changes how many there are up to and with this one.
    fn prefix_with(&self, folder: Id, change: &Change) -> usize {
        match self.nodes.get(&folder) {
            Some(Node::Folder(folder)) => folder.pending.partition_point(|other| other.number <= change.number),
            Some(Node::File(_)) | None => 0,
        }
    }

    /// The moves between two folders in the given prefixes, with the prefix that holds them in their other folder.
    fn halves(&self, prefixes: &Prefixes) -> Vec<(Id, usize, Id, usize)> {
        let mut halves = Vec::new();
        for (&id, &len) in prefixes {
            let Some(Node::Folder(folder)) = self.nodes.get(&id) else { continue };
            for (place, change) in folder.pending[..len].iter().enumerate() {
                let (first, second) = change.step.folders();
                if first != second {
                    let other = if first == id { second } else { first };
                    halves.push((id, place, other, self.prefix_with(other, change)));
                }
            }
        }
        halves
    }

    /// Lengthens prefixes until every move in them has both its halves.
    fn include_halves(&self, prefixes: &mut Prefixes) {
        loop {
            let halves = self.halves(prefixes);
            let mut is_complete = true;
            for (_, _, other, needed) in halves {
                let len = prefixes.entry(other).or_default();
                if *len < needed {
                    *len = needed;
                    is_complete = false;
                }
            }
            if is_complete {
                return;
            }
        }
    }

    /// Shortens prefixes until every move in them has both its halves.
    fn exclude_halves(&self, prefixes: &mut Prefixes) {
        loop {
            let halves = self.halves(prefixes);
            let mut is_complete = true;
            for (folder, place, other, needed) in halves {
                if prefixes.get(&other).copied().unwrap_or(0) < needed {
                    let len = prefixes.entry(folder).or_default();
                    *len = place.min(*len);
                    is_complete = false;
                }
            }
            if is_complete {
                return;
            }
        }
    }

    /// Moves prefixes of pending changes into what the device holds.
    fn apply(&mut self, prefixes: &Prefixes) {
        let mut changes = BTreeMap::new();
        for (&id, &len) in prefixes {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(&id) {
                changes.extend(folder.pending.drain(..len).map(|change| (change.number, change)));
            }
        }
        for change in changes.into_values() {
            match &change.step {
                Step::Add { folder, name, node } => self.hold(*folder, name, Some(*node)),
                Step::Remove { folder, name } => self.hold(*folder, name, None),
                Step::Move { from, to, node } => {
                    self.hold(from.0, &from.1, None);
                    self.hold(to.0, &to.1, Some(*node));
                }
            }
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

    // Leaving out.

    /// Drops what nothing leads to any more.
    pub(super) fn sweep(&mut self) {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![ROOT];
        ahead.extend(self.nodes.iter().filter_map(|(&id, node)| match node {
            Node::File(file) if file.handles > 0 => Some(id),
            Node::File(_) | Node::Folder(_) => None,
        }));
        while let Some(id) = ahead.pop() {
            if !reached.insert(id) {
                continue;
            }
            if let Some(Node::Folder(folder)) = self.nodes.get(&id) {
                ahead.extend(folder.names.values());
                ahead.extend(folder.durable.values());
                ahead.extend(folder.pending.iter().filter_map(|change| change.step.node()));
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
        self.sweep_at = 64 + 2 * self.nodes.len();
    }

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
        self.settled(Inode::synced)
    }

    /// The tree as a power cut may leave it.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> Self {
        let pending = self.pending_folders();
        let mut prefixes: Prefixes = pending
            .map(|(id, folder)| {
                let all = folder.pending.len();
                let len = match random.below(4) {
                    0 => 0,
                    1 => all,
                    _ => random.below(all + 1),
                };
                (id, len)
            })
            .collect();
        if prefixes.is_empty() {
            return self.settled(|inode| inode.after_power_cut(random));
        }
        self.exclude_halves(&mut prefixes);
        let mut tree = self.clone();
        tree.apply(&prefixes);
        tree.settled(|inode| inode.after_power_cut(random))
    }

    /// The tree that the durable names span, each file as `settle` gives it.
    fn settled(&self, mut settle: impl FnMut(&Inode) -> Inode) -> Self {
        let mut nodes = BTreeMap::new();
        let mut ahead = vec![ROOT];
        while let Some(id) = ahead.pop() {
            match self.node(id) {
                Node::Folder(folder) => {
                    ahead.extend(folder.durable.values());
                    let names = folder.durable.clone();
                    let modified = folder.modified;
                    let settled = Folder { durable: names.clone(), names, pending: Vec::new(), modified };
                    nodes.entry(id).or_insert(Node::Folder(settled));
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

/// The names along a path, from the root; `.` and `..` are resolved by the words alone.
fn names_of(path: &Path) -> Vec<OsString> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}
