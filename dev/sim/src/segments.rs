//! Checks the files of one partition: segments, indexes and archives, and nothing else.

use crate::picture::Contents;
use metaq_disk::{Disk, Open, read_exact_at};
use metaq_log::index::read_marks;
use metaq_log::{Disposal, INDEX_SUFFIX, SEGMENT_SUFFIX};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;

/// The files of a folder.
#[derive(Default)]
struct Files {
    segments: BTreeMap<u64, Vec<u8>>,
    indexes: Vec<u64>,
    /// Start, and the bytes that were archived.
    archives: BTreeMap<u64, (Disposal, Vec<u8>)>,
}

/// Checks a partition's folder. `stopped`: there must be a segment that says where the partition ends.
pub fn check(disk: &dyn Disk, folder: &Path, contents: &Contents, stopped: bool) -> Result<(), String> {
    let files = read(disk, folder)?;
    check_segments(&files, contents, stopped)?;
    check_archives(&files, contents)?;
    for start in &files.indexes {
        // One without a segment, or of a segment that is written anew, is made again when it is written.
        if let Some(segment) = files.segments.get(start) {
            check_index(disk, folder, *start, segment, contents)?;
        }
    }
    Ok(())
}

fn read(disk: &dyn Disk, folder: &Path) -> Result<Files, String> {
    let mut files = Files::default();
    if disk.metadata(folder).map_err(|error| error.to_string())?.is_none() {
        return Ok(files);
    }
    for listed in disk.list(folder).map_err(|error| error.to_string())? {
        let name = listed.name.as_str();
        let read = || whole(disk, &folder.join(name)).map_err(|error| format!("{name}: {error}"));
        let start = name.get(..20).and_then(|digits| digits.parse().ok());
        match (start, name.get(20..)) {
            (Some(start), Some(SEGMENT_SUFFIX)) => _ = files.segments.insert(start, read()?),
            (Some(start), Some(INDEX_SUFFIX)) => files.indexes.push(start),
            (Some(start), Some(".meta.arc")) => _ = files.archives.insert(start, (Disposal::Archive, read()?)),
            (Some(start), Some(".meta.zip")) => {
                let unpacked = unpack(read()?, start).map_err(|error| format!("{name}: {error}"))?;
                files.archives.insert(start, (Disposal::ArchiveZip, unpacked));
            }
            _ => return Err(format!("{name} is left behind")),
        }
    }
    Ok(files)
}

/// All bytes of a file.
pub fn whole(disk: &dyn Disk, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).expect("files of a simulation are small")];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

fn unpack(bytes: Vec<u8>, start: u64) -> Result<Vec<u8>, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut entry = archive.by_name(&format!("{start:020}{SEGMENT_SUFFIX}")).map_err(|error| error.to_string())?;
    let mut unpacked = Vec::new();
    entry.read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    Ok(unpacked)
}

fn check_segments(files: &Files, contents: &Contents, stopped: bool) -> Result<(), String> {
    let mut at = contents.first;
    for (start, bytes) in &files.segments {
        if *start != at {
            return Err(format!("a segment starts at {start}, and what is before it ends at {at}"));
        }
        at += bytes.len() as u64;
        if contents.slice(*start..at) != Some(bytes) {
            return Err(format!("the segment {start}..{at} doesn't hold what was stored"));
        }
        if !contents.is_border(*start) {
            return Err(format!("no message begins at {start}, where a segment does"));
        }
    }
    if at != contents.end() {
        return Err(format!("segments end at {at}, and the partition at {}", contents.end()));
    }
    if stopped && files.segments.is_empty() {
        return Err(format!("no segment says that the partition ends at {at}"));
    }
    Ok(())
}

/// Archives hold the ranges that were archived, and nothing else.
fn check_archives(files: &Files, contents: &Contents) -> Result<(), String> {
    for (start, (_, bytes)) in &files.archives {
        if contents.slice(*start..start + bytes.len() as u64) != Some(bytes) {
            return Err(format!("the archive of {} bytes from {start} doesn't hold what was stored", bytes.len()));
        }
    }
    for (range, disposal) in &contents.trims {
        let mut at = range.start;
        while at < range.end {
            let archive = files.archives.get(&at).filter(|(how, bytes)| how == disposal && !bytes.is_empty());
            match (disposal, archive) {
                (Disposal::Delete, None) => at = range.end,
                (Disposal::Delete, Some(_)) => return Err(format!("what was deleted from {at} on is archived")),
                (_, Some((_, bytes))) => at += bytes.len() as u64,
                (_, None) => return Err(format!("{range:?} was archived ({disposal:?}), but nothing begins at {at}")),
            }
        }
    }
    Ok(())
}

fn check_index(disk: &dyn Disk, folder: &Path, start: u64, segment: &[u8], contents: &Contents) -> Result<(), String> {
    let path = folder.join(format!("{start:020}{INDEX_SUFFIX}"));
    let marks =
        disk.open(&path, Open::Read).and_then(|file| read_marks(&*file, &(start..start + segment.len() as u64)));
    let mut below = start;
    for mark in marks.map_err(|error| format!("the index at {start}: {error}"))? {
        let piece = contents.slice(below..mark.position).ok_or("a mark lies behind the end")?;
        if crc32c::crc32c(piece) != mark.checksum {
            return Err(format!("the mark at {} has the checksum of other bytes", mark.position));
        }
        let number = contents.below(mark.position);
        if !contents.is_border(mark.position) || i64::try_from(number) != Ok(mark.sequence) {
            return Err(format!("{mark:?} doesn't fit: {number} messages lie below"));
        }
        below = mark.position;
    }
    Ok(())
}
