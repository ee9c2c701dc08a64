//! What becomes of a segment that is no longer kept: removed, renamed to `….arc`, or packed as `….zip`.

use crate::entry::Disposal;
use metaq_disk::{Disk, File, Open, read_exact_at, write_all_at};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Ends the name of an archive that isn't whole.
pub(crate) const UNFINISHED_SUFFIX: &str = ".zip.new";

const PIECE_BYTES: usize = 1 << 20;

/// Disposes of one segment file; one that isn't there any more is done with.
pub(crate) fn dispose(disk: &dyn Disk, segment: &Path, how: Disposal) -> io::Result<()> {
    if disk.metadata(segment)?.is_none() {
        return Ok(());
    }
    let folder = segment.parent().unwrap_or(segment);
    let done = |suffix| disk.metadata(&with_suffix(segment, suffix)).map(|metadata| metadata.is_some());
    match how {
        // A segment that stands beside its whole archive is what a replay of the log made again.
        Disposal::Archive if done(".arc")? => disk.remove_file(segment),
        Disposal::ArchiveZip if done(".zip")? => disk.remove_file(segment),
        Disposal::Delete => disk.remove_file(segment),
        Disposal::Archive => disk.rename(segment, &with_suffix(segment, ".arc")),
        Disposal::ArchiveZip => {
            // The segment goes only when the archive is whole and durable.
            let archive = with_suffix(segment, ".zip");
            let unfinished = with_suffix(segment, UNFINISHED_SUFFIX);
            pack(disk, segment, &unfinished)?;
            disk.rename(&unfinished, &archive)?;
            disk.sync_dir(folder)?;
            disk.remove_file(segment)
        }
    }?;
    disk.sync_dir(folder)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn pack(disk: &dyn Disk, segment: &Path, archive: &Path) -> io::Result<()> {
    let source = disk.open(segment, Open::Read)?;
    let target = disk.open(archive, Open::Create)?;
    target.set_len(0)?;
    let name = segment.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut zip = ZipWriter::new(Positioned { file: Arc::clone(&target), at: 0, end: 0, failed: false });
    zip.start_file(name, SimpleFileOptions::default().large_file(true)).map_err(io::Error::other)?;
    let len = source.len()?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < len {
        let bytes = usize::try_from((len - at).min(PIECE_BYTES as u64)).expect("at most a piece");
        read_exact_at(&*source, &mut piece[..bytes], at)?;
        zip.write_all(&piece[..bytes])?;
        at += bytes as u64;
    }
    zip.finish().map_err(io::Error::other)?;
    target.sync()
}

/// A file with a position of its own, for the archive's writer. Once it has failed it takes everything and keeps
/// nothing: the writer ends its archive when it is dropped, and must not stumble over a half one.
struct Positioned {
    file: Arc<dyn File>,
    at: u64,
    end: u64,
    failed: bool,
}

impl Write for Positioned {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.failed
            && let Err(error) = write_all_at(&*self.file, bytes, self.at)
        {
            (self.failed, self.at) = (true, self.end);
            return Err(error);
        }
        self.at += bytes.len() as u64;
        self.end = self.end.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Positioned {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
