//! Files and folders behind a trait, so that everything that writes data can be run on a real disk
//! and on one that loses power, fills up, tears writes and fails to sync.
//!
//! * [`Disk`] and [`File`] are the contract; all data-path code takes an `Arc<dyn Disk>`.
//! * [`RealDisk`] is the operating system's.
//! * [`FaultyDisk`] keeps everything in memory, numbers every operation, injects faults, and makes
//!   the images that a power cut at any operation may leave behind.
//!
//! Nothing here retries: a failed sync is reported once and the caller decides. No type here knows
//! what the bytes mean.

mod faulty;
mod real;

pub use faulty::{Asked, CrashChoice, Fault, FaultyDisk, Operation};
pub use real::RealDisk;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// How a file is opened. Every mode but [`Open::Read`] permits reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It must exist; read only.
    Read,
    /// It must exist; read and write.
    Write,
    /// It must not exist and is created empty. Its name is durable only after [`Disk::sync_dir`] of its folder.
    CreateNew,
    /// Created empty if it does not exist; an existing file keeps its bytes.
    Create,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Anything else (link, socket, device): never touched.
    Other,
}

/// What is known of a path without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, folder or other.
    pub kind: Kind,
    /// Length in bytes; 0 for what is no file.
    pub len: u64,
    /// When the content last changed, by the file system's clock.
    pub modified: SystemTime,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The bare name, without its folder. Names that are not UTF-8 are listed lossily and can't be opened by it.
    pub name: String,
    /// File, folder or other.
    pub kind: Kind,
}

/// Room on the file system that holds a path, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What this process may still write.
    pub free: u64,
    /// The size of the whole file system.
    pub total: u64,
}

/// A held lock file; dropping it releases the lock.
pub trait Lock: Send + Sync + Debug {}

/// A file system. Paths are absolute or relative to the process, as with [`std::fs`].
///
/// Names (creation, removal, renaming, linking) are durable only after [`Disk::sync_dir`] of the folders concerned;
/// bytes and length only after [`File::sync`].
pub trait Disk: Send + Sync + Debug {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    /// What stands at `path`; `None` if nothing does. A symbolic link is [`Kind::Other`], whatever it leads to.
    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>>;
    /// The names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>>;
    /// Creates a folder and its missing parents; it may exist.
    fn create_dir(&self, folder: &Path) -> io::Result<()>;
    /// Moves a file or folder, replacing a file (or, by a folder, an empty folder) at `to`. Atomic; durable after
    /// [`Disk::sync_dir`] of both folders. Onto another name of the same file it does nothing.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// A second name for a file; `to` must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; who has it open keeps it readable.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, folder: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, folder: &Path) -> io::Result<()>;
    /// Makes all that was written to the file system holding `path` durable (bytes, lengths and names), as one call.
    fn sync_all(&self, path: &Path) -> io::Result<()>;
    /// Free and total room of the file system holding `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;
    /// Creates the file if needed and takes an exclusive lock on it. `Ok(None)`: another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>>;
}

/// An open file. All methods may be called from several threads; writers agree among themselves on ranges.
pub trait File: Send + Sync + Debug {
    /// Reads at `position`; may return fewer bytes than asked, 0 at or behind the end.
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes at `position`; may write fewer bytes than given. The file grows as needed.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;
    /// Fills `range` with zeros that own their disk blocks (no hole, no unwritten extent), growing the file as needed.
    /// Durable after [`File::sync`]. On an error an unknown part was written.
    fn write_zeros(&self, range: Range<u64>) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with a hole) to `len` bytes. Durable after [`File::sync`].
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes bytes and length durable (`fdatasync`). After an error the state of everything unsynced is unknown.
    fn sync(&self) -> io::Result<()>;
    /// Whether reading `range` would not touch the device. `true` where that can't be told.
    fn is_cached(&self, range: Range<u64>) -> bool;
    /// When the content last changed.
    fn modified(&self) -> io::Result<SystemTime>;
    /// The descriptor, for `sendfile`; `None` where there is none (a simulated file).
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// Reads exactly `bytes.len()` bytes at `position`. A file that ends before is `UnexpectedEof`.
pub fn read_exact_at(file: &dyn File, mut bytes: &mut [u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, position) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                position += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at `position`, going on after short writes. On an error an unknown part was written.
pub fn write_all_at(file: &dyn File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                position += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
