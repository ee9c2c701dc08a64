//! The files and folders of a simulated disk, as programs see them.
//!
//! Invariant: a file or folder lives as long as a name, a change on its way or an open file leads to it;
//! [`Tree::sweep`] drops the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use super::changes::{Change, Step};
use super::inode::Inode;

/// Names a file or folder whatever its names are.
pub(super) type Id = u64;

/// The folder that all paths begin in.
pub(super) const ROOT: Id = 0;

/// The name of one thing in a folder.
pub(super) type Name = Arc<OsStr>;
/// What a folder holds.
pub(super) type Names = Arc<BTreeMap<Name, Id>>;

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
    /// What the device holds.
    pub(super) durable: Names,
    /// What `durable` doesn't have yet, in order.
    pub(super) pending: Vec<Arc<Change>>,
    pub(super) modified: SystemTime,
}

/// Where a name is or would be.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: Id,
    pub(super) name: Name,
    /// What stands there.
    pub(super) node: Option<Id>,
}

/// All files and folders.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) nodes: BTreeMap<Id, Node>,
    pub(super) next: Id,
    /// How many changes of names there were.
    pub(super) changes: u64,
    /// Room taken by all files that programs can still reach, in bytes.
    pub(super) used: u64,
    /// At how many nodes the next sweep is worth it.
    pub(super) sweep_at: usize,
}

impl Folder {
    /// A folder with these names on the device and for programs.
    pub(super) fn holding(names: Names, modified: SystemTime) -> Self {
        Self { durable: names.clone(), names, pending: Vec::new(), modified }
    }
}

impl Tree {
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::holding(Names::default(), now)))]),
            next: ROOT + 1,
            changes: 0,
            used: 0,
            sweep_at: 64,
        }
    }

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

    pub(super) fn folder_mut(&mut self, id: Id) -> &mut Folder {
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

    pub(super) fn create_file(&mut self, place: &Place, now: SystemTime) -> Id {
        let file = FileNode { inode: Inode::new(now), links: 0, handles: 0 };
        let id = self.insert(Node::File(file));
        self.add(place, id, now);
        id
    }

    pub(super) fn create_folder(&mut self, place: &Place, now: SystemTime) -> Id {
        let id = self.insert(Node::Folder(Folder::holding(Names::default(), now)));
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
        // In this order the file is never without a name, which would give up its room.
        self.see(to.folder, &to.name, Some(node), now);
        self.see(from.folder, &from.name, None, now);
        let (from, to) = ((from.folder, from.name.clone()), (to.folder, to.name.clone()));
        self.record(Step::Move { from, to, node });
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
    pub(super) fn see(&mut self, folder: Id, name: &Name, node: Option<Id>, now: SystemTime) {
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

    /// All files.
    pub(super) fn inodes(&mut self) -> impl Iterator<Item = &mut Inode> {
        self.nodes.values_mut().filter_map(|node| match node {
            Node::File(file) => Some(&mut file.inode),
            Node::Folder(_) => None,
        })
    }

    /// Sweeps when enough came in since the last time.
    pub(super) fn sweep_if_worth_it(&mut self) {
        if self.nodes.len() >= self.sweep_at {
            self.sweep();
        }
    }

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
