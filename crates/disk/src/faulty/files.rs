//! The contract of disks and files over the simulated tree.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::io::Errno;

use super::FaultyDisk;
use super::fault::Fault;
use super::operation::Asked;
use super::state::{Begun, State};
use super::tree::{Id, Node, Place};
use crate::{Disk, File, Kind, Listed, Lock, Metadata, Open, Space};

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        let id = state.open(path, how)?;
        Ok(Arc::new(FaultyFile { disk: self.clone(), id, path: path.into(), how }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let mut state = self.state.lock();
        state.look(path, &[])?;
        let found = match state.tree.find(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
            Err(error) => return Err(error),
        };
        Ok(found.map(|id| match state.tree.node(id) {
            Node::File(file) => {
                Metadata { kind: Kind::File, len: file.inode.content().len(), modified: file.inode.modified() }
            }
            Node::Folder(folder) => Metadata { kind: Kind::Folder, len: 0, modified: folder.modified },
        }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        let mut state = self.state.lock();
        if state.look(folder, &[Fault::FailRead])?.is_some() {
            return Err(Errno::IO.into());
        }
        let folder = state.tree.existing(folder)?;
        let names = &state.tree.folder(folder)?.names;
        let listed = names.iter().map(|(name, &id)| Listed {
            name: name.to_string_lossy().into_owned(),
            kind: match state.tree.node(id) {
                Node::File(_) => Kind::File,
                Node::Folder(_) => Kind::Folder,
            },
        });
        Ok(listed.collect())
    }

    fn create_dir(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin_name(folder, Asked::CreateFolder)?;
        let done = state.create_folders(folder);
        begun.answer(done)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin_name(from, Asked::Rename(to.into()))?;
        let done = state.rename(from, to);
        begun.answer(done)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin_name(from, Asked::Link(to.into()))?;
        let done = state.link(from, to);
        begun.answer(done)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin_name(path, Asked::RemoveFile)?;
        let done = state.remove_file(path);
        begun.answer(done)
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin_name(folder, Asked::RemoveFolder)?;
        let done = state.remove_folder(folder);
        begun.answer(done)
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin(folder, Asked::SyncFolder, &[Fault::FailSync])?;
        let done = state.sync_folder(folder, begun);
        begun.answer(done)
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let begun = state.begin(path, Asked::SyncAll, &[Fault::FailSync])?;
        let done = state.sync_all(path, begun);
        begun.answer(done)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let mut state = self.state.lock();
        state.look(path, &[])?;
        state.tree.existing(path)?;
        Ok(Space { free: state.free(), total: state.capacity })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let mut state = self.state.lock();
        let id = state.open(path, Open::Create)?;
        if !state.locked.insert(id) {
            state.tree.close(id);
            return Ok(None);
        }
        Ok(Some(Box::new(FaultyLock { disk: self.clone(), id })))
    }
}

/// What the calls do, once they have begun.
impl State {
    /// Opens or creates; the handle is counted.
    fn open(&mut self, path: &Path, how: Open) -> io::Result<Id> {
        if self.look(path, &[Fault::FailOpen])?.is_some() {
            return Err(Errno::IO.into());
        }
        let place = self.tree.place(path)?.ok_or(Errno::ISDIR)?;
        let id = match (place.node, how) {
            (Some(_), Open::CreateNew) => return Err(Errno::EXIST.into()),
            (Some(id), Open::Read | Open::Write | Open::Create) => id,
            (None, Open::Read | Open::Write) => return Err(Errno::NOENT.into()),
            (None, Open::CreateNew | Open::Create) => {
                let begun = self.begin_name(path, Asked::Create)?;
                let id = self.tree.create_file(&place, self.now);
                begun.answer(Ok(id))?
            }
        };
        self.tree.open(id)?;
        Ok(id)
    }

    fn create_folders(&mut self, folder: &Path) -> io::Result<()> {
        let mut ancestors: Vec<&Path> = folder.ancestors().collect();
        ancestors.reverse();
        for ancestor in ancestors {
            let Some(place) = self.tree.place(ancestor)? else { continue };
            match place.node {
                Some(id) if self.tree.folder(id).is_ok() => {}
                Some(_) if ancestor == folder => return Err(Errno::EXIST.into()),
                Some(_) => return Err(Errno::NOTDIR.into()),
                None => {
                    self.tree.create_folder(&place, self.now);
                }
            }
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let from = self.tree.place(from)?.ok_or(Errno::BUSY)?;
        let to = self.tree.place(to)?.ok_or(Errno::BUSY)?;
        let node = from.node.ok_or(Errno::NOENT)?;
        if to.node == Some(node) {
            return Ok(());
        }
        if self.tree.folder(node).is_ok() && self.tree.is_within(to.folder, node) {
            return Err(Errno::INVAL.into());
        }
        if to.node.is_some_and(|replaced| self.tree.is_within(from.folder, replaced)) {
            return Err(Errno::NOTEMPTY.into());
        }
        self.may_replace(node, &to)?;
        self.tree.rename(&from, &to, node, self.now);
        Ok(())
    }

    fn may_replace(&self, node: Id, to: &Place) -> io::Result<()> {
        let Some(replaced) = to.node else { return Ok(()) };
        match (self.tree.node(node), self.tree.node(replaced)) {
            (Node::File(_), Node::File(_)) => Ok(()),
            (Node::File(_), Node::Folder(_)) => Err(Errno::ISDIR.into()),
            (Node::Folder(_), Node::File(_)) => Err(Errno::NOTDIR.into()),
            (Node::Folder(_), Node::Folder(folder)) if folder.names.is_empty() => Ok(()),
            (Node::Folder(_), Node::Folder(_)) => Err(Errno::NOTEMPTY.into()),
        }
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.tree.existing(from)?;
        let to = self.tree.place(to)?.ok_or(Errno::EXIST)?;
        if to.node.is_some() {
            return Err(Errno::EXIST.into());
        }
        self.tree.file(node).map_err(|_| Errno::PERM)?;
        self.tree.add(&to, node, self.now);
        Ok(())
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let place = self.tree.place(path)?.ok_or(Errno::ISDIR)?;
        self.tree.file(place.node.ok_or(Errno::NOENT)?)?;
        self.tree.remove(&place, self.now);
        Ok(())
    }

    fn remove_folder(&mut self, folder: &Path) -> io::Result<()> {
        let place = self.tree.place(folder)?.ok_or(Errno::BUSY)?;
        if !self.tree.folder(place.node.ok_or(Errno::NOENT)?)?.names.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        self.tree.remove(&place, self.now);
        Ok(())
    }

    fn sync_folder(&mut self, folder: &Path, begun: Begun) -> io::Result<()> {
        let id = self.tree.existing(folder)?;
        self.tree.folder(id)?;
        if begun.fault.is_some() {
            return Err(Errno::IO.into());
        }
        if begun.completes() {
            self.tree.sync_folder(id);
        }
        Ok(())
    }

    fn sync_all(&mut self, path: &Path, begun: Begun) -> io::Result<()> {
        self.tree.existing(path)?;
        if begun.fault.is_some() {
            for inode in self.tree.inodes() {
                inode.fail_sync();
            }
            return Err(Errno::IO.into());
        }
        if begun.completes() {
            self.tree.sync_everything();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyLock {
    disk: FaultyDisk,
    id: Id,
}

impl Lock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        state.locked.remove(&self.id);
        state.tree.close(self.id);
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    id: Id,
    path: Arc<Path>,
    how: Open,
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        self.disk.state.lock().tree.close(self.id);
    }
}

impl File for FaultyFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.disk.state.lock();
        let fault = state.look(&self.path, &[Fault::FailRead, Fault::ShortRead])?;
        let content = state.tree.file(self.id)?.inode.content().clone();
        match fault {
            None => Ok(content.read(bytes, position)),
            Some(Fault::ShortRead) if bytes.len() > 1 => {
                let len = 1 + state.random.below(bytes.len() - 1);
                Ok(content.read(&mut bytes[..len], position))
            }
            Some(Fault::ShortRead) => Ok(content.read(bytes, position)),
            Some(_) => Err(Errno::IO.into()),
        }
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let range = self.writable_range(position, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut state = self.disk.state.lock();
        let possible = [Fault::ShortWrite, Fault::FailWrite, Fault::NoSpace];
        let begun = state.begin(&self.path, Asked::Write(range.clone()), &possible)?;
        let mut len = state.fitting(self.id, &range, begun)?;
        if begun.fault == Some(Fault::ShortWrite) && len > 1 {
            len = 1 + state.random.below(len - 1);
        }
        let now = state.now;
        let write = |inode: &mut super::inode::Inode| {
            inode.write(begun.number, now, &bytes[..len], position);
        };
        state.tree.change(self.id, write)?;
        begun.answer(Ok(len))
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        let len = range.end.saturating_sub(range.start);
        let range = self.writable_range(range.start, len)?;
        if range.is_empty() {
            return Ok(());
        }
        let mut state = self.disk.state.lock();
        let possible = [Fault::FailWrite, Fault::NoSpace];
        let begun = state.begin(&self.path, Asked::WriteZeros(range.clone()), &possible)?;
        let fits = state.fitting(self.id, &range, begun)? as u64;
        let now = state.now;
        let end = range.start + fits;
        state.tree.change(self.id, |inode| {
            inode.write_zeros(begun.number, now, range.start..end);
        })?;
        let done = if end < range.end { Err(Errno::NOSPC.into()) } else { Ok(()) };
        begun.answer(done)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state.lock();
        state.look(&self.path, &[])?;
        Ok(state.tree.file(self.id)?.inode.content().len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.how == Open::Read {
            return Err(Errno::INVAL.into());
        }
        self.writable_range(0, len)?;
        let mut state = self.disk.state.lock();
        let begun = state.begin(&self.path, Asked::SetLen(len), &[Fault::FailSetLen])?;
        if begun.fault.is_some() {
            return Err(Errno::IO.into());
        }
        let now = state.now;
        state.tree.change(self.id, |inode| inode.set_len(begun.number, now, len))?;
        begun.answer(Ok(()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let begun = state.begin(&self.path, Asked::Sync, &[Fault::FailSync])?;
        let inode = &mut state.tree.file_mut(self.id)?.inode;
        if begun.fault.is_some() {
            inode.fail_sync();
            return Err(Errno::IO.into());
        }
        if begun.completes() {
            inode.sync();
        }
        begun.answer(Ok(()))
    }

    fn is_cached(&self, _range: Range<u64>) -> bool {
        !self.disk.state.lock().is_cold
    }

    fn modified(&self) -> io::Result<SystemTime> {
        let mut state = self.disk.state.lock();
        state.look(&self.path, &[])?;
        Ok(state.tree.file(self.id)?.inode.modified())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl FaultyFile {
    /// The range to write, if the file may be written and can be that long.
    fn writable_range(&self, position: u64, len: u64) -> io::Result<Range<u64>> {
        if self.how == Open::Read {
            return Err(Errno::BADF.into());
        }
        match position.checked_add(len) {
            Some(end) if end <= i64::MAX as u64 => Ok(position..end),
            Some(_) | None => Err(Errno::INVAL.into()),
        }
    }
}

impl State {
    /// How many bytes of a write find room; an error if none do.
    fn fitting(&self, id: Id, range: &Range<u64>, begun: Begun) -> io::Result<usize> {
        match begun.fault {
            Some(Fault::FailWrite) => return Err(Errno::IO.into()),
            Some(Fault::NoSpace) => return Err(Errno::NOSPC.into()),
            Some(_) | None => {}
        }
        let content = self.tree.file(id)?.inode.content();
        match content.fitting(range.clone(), self.free()) {
            0 => begun.answer(Err(Errno::NOSPC.into())),
            fits => Ok(usize::try_from(fits).expect("a write fits into memory")),
        }
    }
}
