//! The operating system's files.
//!
//! Zero-filling goes around the page cache (`O_DIRECT`) where the file system permits it, so that laying out the
//! commit log neither evicts what readers need nor pays for the first touch of memory.

use std::fs;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::{Disk, File, Kind, Listed, Lock, Metadata, Open, Space, write_all_at};

/// What `O_DIRECT` asks of positions, lengths and memory, in bytes; no device in use asks more.
const ALIGNMENT: usize = 4096;

/// How many zeros one system call writes, in bytes.
const ZEROS_PER_WRITE: usize = 1 << 20;

/// The file systems of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(how != Open::Read);
        match how {
            Open::Read | Open::Write => {}
            Open::CreateNew => {
                options.create_new(true);
            }
            Open::Create => {
                options.create(true);
            }
        }
        let file = options.open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        Ok(Arc::new(RealFile { file, how }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if is_nothing_there(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let kind = kind_of(found.file_type());
        Ok(Some(Metadata { kind, len: if kind == Kind::File { found.len() } else { 0 }, modified: found.modified()? }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        fs::read_dir(folder)?
            .map(|entry| {
                let entry = entry?;
                Ok(Listed { name: entry.file_name().to_string_lossy().into_owned(), kind: kind_of(entry.file_type()?) })
            })
            .collect()
    }

    fn create_dir(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        open_folder(folder)?.sync_all()
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        // A fresh descriptor still reports a failed write-back that nobody has been told of.
        Ok(rustix::fs::syncfs(fs::File::open(path)?)?)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(path)?;
        Ok(Space {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(RealLock { _file: file }))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_folder(folder: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).custom_flags(flags(OFlags::DIRECTORY)).open(folder)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn is_nothing_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn kind_of(kind: fs::FileType) -> Kind {
    if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Folder
    } else {
        Kind::Other
    }
}

/// Holds the lock for as long as its descriptor is open.
#[derive(Debug)]
struct RealLock {
    _file: fs::File,
}

impl Lock for RealLock {}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    how: Open,
}

impl File for RealFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(bytes, position)
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        // The second descriptor would permit what this one doesn't.
        if self.how == Open::Read {
            return Err(Errno::BADF.into());
        }
        if range.is_empty() {
            return Ok(());
        }
        self.reserve(&range)?;
        let zeros = AlignedZeros::new(range.end - range.start);
        let aligned = aligned_within(&range);
        self.write_zeros_buffered(&zeros, range.start..aligned.start)?;
        let reached = self.write_zeros_directly(&zeros, aligned)?;
        self.write_zeros_buffered(&zeros, reached..range.end)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    // By the C library, where a preloaded one can make it fail.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn is_cached(&self, range: Range<u64>) -> bool {
        range.is_empty() || self.is_byte_cached(range.start) && self.is_byte_cached(range.end - 1)
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl RealFile {
    /// Takes the blocks before they are written: in few extents, and a full disk says so at once.
    fn reserve(&self, range: &Range<u64>) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), range.start, range.end - range.start) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes zeros past the page cache as far as the file system permits; returns the position reached.
    fn write_zeros_directly(&self, zeros: &AlignedZeros, range: Range<u64>) -> io::Result<u64> {
        let mut position = range.start;
        if range.is_empty() {
            return Ok(position);
        }
        let Ok(direct) = self.reopen_direct() else {
            return Ok(position);
        };
        while position < range.end {
            match direct.write_at(zeros.at_most(range.end - position), position) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                // What is left after a short write that is no multiple of the alignment goes through the page cache.
                Ok(written) if written % ALIGNMENT != 0 => return Ok(position + written as u64),
                Ok(written) => position += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                Err(error) => return Err(error),
            }
        }
        Ok(position)
    }

    /// A second descriptor of the same file, whatever its name is by now.
    fn reopen_direct(&self) -> io::Result<fs::File> {
        fs::OpenOptions::new()
            .write(true)
            .custom_flags(flags(OFlags::DIRECT))
            .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    fn write_zeros_buffered(&self, zeros: &AlignedZeros, range: Range<u64>) -> io::Result<()> {
        let mut position = range.start;
        while position < range.end {
            let bytes = zeros.at_most(range.end - position);
            write_all_at(self, bytes, position)?;
            position += bytes.len() as u64;
        }
        Ok(())
    }

    fn is_byte_cached(&self, position: u64) -> bool {
        let mut byte = [0];
        let found =
            rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(&mut byte)], position, ReadWriteFlags::NOWAIT);
        found != Err(Errno::AGAIN)
    }
}

/// The largest range of whole blocks inside `range`; an empty one at its end if there is none.
fn aligned_within(range: &Range<u64>) -> Range<u64> {
    let block = ALIGNMENT as u64;
    let start = range.start.next_multiple_of(block);
    let end = range.end - range.end % block;
    if start < end { start..end } else { range.end..range.end }
}

/// Zeros that begin at an address `O_DIRECT` accepts.
struct AlignedZeros {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedZeros {
    fn new(wanted: u64) -> Self {
        let len = usize::try_from(wanted)
            .map_or(ZEROS_PER_WRITE, |wanted| wanted.min(ZEROS_PER_WRITE))
            .next_multiple_of(ALIGNMENT);
        let memory = vec![0; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "an offset to the next {ALIGNMENT} exists");
        Self { memory, start, len }
    }

    /// As many zeros as `wanted`, or all there are.
    fn at_most(&self, wanted: u64) -> &[u8] {
        let len = usize::try_from(wanted).map_or(self.len, |wanted| wanted.min(self.len));
        &self.memory[self.start..self.start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_inside_a_range() {
        assert_eq!(aligned_within(&(0..8192)), 0..8192);
        assert_eq!(aligned_within(&(1..8193)), 4096..8192);
        assert_eq!(aligned_within(&(100..5000)), 5000..5000);
        assert_eq!(aligned_within(&(4096..4097)), 4097..4097);
    }

    #[test]
    fn zeros_are_aligned_and_bounded() {
        for wanted in [1, 4096, 5000, 1 << 30] {
            let zeros = AlignedZeros::new(wanted);
            let bytes = zeros.at_most(wanted);
            assert_eq!(bytes.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(bytes.len() as u64, wanted.min(1 << 20));
        }
    }
}
