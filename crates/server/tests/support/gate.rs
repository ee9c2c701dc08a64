//! A disk on which the syncs of the commit log wait at a gate.

use metaq_disk::{Disk, File, Listed, Lock, Metadata, Open, Space};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A gate that is open or closed.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    waiting: usize,
    /// So many may pass although it is closed.
    passes: usize,
    /// Syncs that pass the gate fail.
    fails: bool,
    /// Nothing is said to be in the page cache.
    is_cold: bool,
}

impl Gate {
    /// Syncs wait from here on.
    pub fn close(&self) {
        self.0.0.lock().is_closed = true;
    }

    pub fn open(&self) {
        self.0.0.lock().is_closed = false;
        self.0.1.notify_all();
    }

    /// Lets one sync pass.
    pub fn pass_one(&self) {
        self.0.0.lock().passes += 1;
        self.0.1.notify_all();
    }

    /// Syncs fail from here on.
    pub fn fail(&self) {
        self.0.0.lock().fails = true;
    }

    pub fn set_cold(&self, is_cold: bool) {
        self.0.0.lock().is_cold = is_cold;
    }

    /// Whether a sync waits.
    pub fn holds_one(&self) -> bool {
        self.0.0.lock().waiting > 0
    }

    fn pass(&self) -> io::Result<()> {
        let mut state = self.0.0.lock();
        state.waiting += 1;
        while state.is_closed && state.passes == 0 {
            self.0.1.wait(&mut state);
        }
        state.passes = state.passes.saturating_sub(1);
        state.waiting -= 1;
        if state.fails { Err(io::Error::other("the test lets syncs fail")) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub struct GatedDisk {
    inner: Arc<dyn Disk>,
    gate: Gate,
}

impl GatedDisk {
    pub fn new(inner: Arc<dyn Disk>, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, how)?;
        let is_gated = path.components().any(|part| part.as_os_str() == "commit");
        Ok(Arc::new(GatedFile { inner, gate: self.gate.clone(), is_gated }))
    }
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.inner.metadata(path)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        self.inner.list(folder)
    }
    fn create_dir(&self, folder: &Path) -> io::Result<()> {
        self.inner.create_dir(folder)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        self.inner.remove_dir(folder)
    }
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_dir(folder)
    }
    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_all(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.inner.space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Gate,
    is_gated: bool,
}

impl File for GatedFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, position)
    }
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.inner.write_at(bytes, position)
    }
    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.write_zeros(range)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        if self.is_gated {
            self.gate.pass()?;
        }
        self.inner.sync()
    }
    fn is_cached(&self, range: Range<u64>) -> bool {
        !self.gate.0.0.lock().is_cold && self.inner.is_cached(range)
    }
    fn modified(&self) -> io::Result<SystemTime> {
        self.inner.modified()
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}
