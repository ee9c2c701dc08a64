//! Carries out a [`Plan`]: files first, then one checkpoint that knows of all of it.
//!
//! After a crash in the middle the directory is one that can be planned for again; what was done needs no doing.

use super::contents::commit_folder;
use super::place::{copy, create_folder};
use super::recover::aside;
use super::repair::{Plan, RepairError, Step};
use crate::checkpoint::{Checkpoint, Kept};
use crate::files::{FileKind, path};
use crate::folder::Folder;
use crate::format::Format;
use crate::id::EPOCH_MS;
use crate::index::{MARK_BYTES, MARK_EVERY_BYTES, Mark, read_marks};
use crate::offline::records::{Piece, Records};
use crate::partition::Damage;
use crate::recovery::doing;
use crate::ring::file_path;
use crate::turn::BLOCK_BYTES;
use metaq_disk::{Open, write_all_at};
use metaq_protocol::id::IdParts;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

impl Plan {
    /// Does all that the plan says. Gives the folder that holds a copy of what was given up of the commit log.
    pub fn carry_out(self) -> Result<Option<PathBuf>, RepairError> {
        let steps = self.steps().to_vec();
        let mut set_aside = None;
        let mut checkpoint = self.checkpoint.clone();
        let mut restored = false;
        for step in &steps {
            let done = match step {
                Step::RestoreCheckpoint { .. } => {
                    restored = true;
                    Ok(())
                }
                Step::GiveUp { missing, .. } => self.give_up(missing).map(|folder| set_aside = Some(folder)),
                step => self.on_files(step, checkpoint.as_mut()),
            };
            done.map_err(doing(format!("to {step}")))?;
        }
        if let Some(checkpoint) =
            checkpoint.filter(|checkpoint| restored || self.checkpoint.as_ref() != Some(checkpoint))
        {
            let written = checkpoint.write(&*self.directory.disk, &self.directory.log_path);
            written.map_err(doing("writing the checkpoint"))?;
        }
        Ok(set_aside)
    }

    fn on_files(&self, step: &Step, checkpoint: Option<&mut Checkpoint>) -> io::Result<()> {
        let (disk, log_path) = (&*self.directory.disk, &self.directory.log_path);
        match step {
            Step::RestoreFormat(identity) => {
                let (cluster, broker, program) = (identity.cluster.clone(), identity.broker, identity.program.clone());
                Format { format: crate::format::FORMAT, cluster, broker, program }.write(disk, log_path)
            }
            Step::CutTail { partition, position, .. } => {
                let folder = self.folder(partition)?;
                folder.segments.last().map_or(Ok(()), |last| self.cut(folder, last.start, *position))
            }
            Step::Truncate { partition, position, .. } => {
                let folder = self.folder(partition)?;
                let left = self.truncate(folder, *position)?;
                if let Some(kept) = checkpoint.and_then(|checkpoint| known(checkpoint, folder)) {
                    end_at(kept, folder, *position, left);
                }
                Ok(())
            }
            Step::RebuildIndex { partition, segment } => {
                let folder = self.folder(partition)?;
                let kept = checkpoint.and_then(|checkpoint| known(checkpoint, folder));
                kept.map_or(Ok(()), |kept| self.rebuild_index(folder, *segment, kept))
            }
            Step::RemoveIndex { partition, segment } => {
                let folder = self.folder(partition)?;
                disk.remove_file(&path(&folder.path, *segment, FileKind::Index))?;
                disk.sync_dir(&folder.path)
            }
            Step::RecordDamage { partition, range } => {
                let folder = self.folder(partition)?;
                if let Some(kept) = checkpoint.and_then(|checkpoint| known(checkpoint, folder)) {
                    kept.damage.push(Damage { range: range.clone() });
                    kept.damage.sort_by_key(|damage| damage.range.start);
                }
                Ok(())
            }
            Step::ForgetDamage { partition, range } => {
                let folder = self.folder(partition)?;
                if let Some(kept) = checkpoint.and_then(|checkpoint| known(checkpoint, folder)) {
                    kept.damage.retain(|damage| damage.range != *range);
                }
                Ok(())
            }
            Step::Reopen { partition, end, was } => {
                let folder = self.folder(partition)?;
                let left = if end < was { Some(self.count(folder)?) } else { None };
                if let Some(kept) = checkpoint.and_then(|checkpoint| known(checkpoint, folder)) {
                    kept.failed = None;
                    if let Some(left) = left {
                        end_at(kept, folder, *end, left);
                    }
                }
                Ok(())
            }
            Step::RestoreCheckpoint { .. } | Step::GiveUp { .. } => Ok(()),
        }
    }

    fn folder(&self, partition: &str) -> io::Result<&Folder> {
        self.folders.iter().find(|folder| folder.name() == partition).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Copies the files of the log that are changed, then takes the heads off the turns behind the damage: the log ends
    /// before it then. Missing files are made again.
    fn give_up(&self, missing: &[u32]) -> io::Result<PathBuf> {
        let disk = &*self.directory.disk;
        let commit = commit_folder(&self.directory);
        let folder = aside(&self.directory, &[])?;
        create_folder(disk, &folder)?;
        create_folder(disk, &folder.join("commit"))?;
        let files: BTreeSet<u32> = self.turns.iter().map(|turn| turn.file).chain(self.damaged_file).collect();
        for file in &files {
            let from = file_path(&commit, *file);
            if disk.metadata(&from)?.is_some() {
                copy(disk, &from, &file_path(&folder.join("commit"), *file))?;
            }
        }
        for turn in &self.turns {
            let file = disk.open(&file_path(&commit, turn.file), Open::Write)?;
            write_all_at(&*file, &[0; BLOCK_BYTES], turn.offset)?;
            file.sync()?;
        }
        let file_bytes = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.geometry.file_bytes);
        for number in missing {
            let file = disk.open(&file_path(&commit, *number), Open::Create)?;
            file.write_zeros(0..file_bytes)?;
            file.sync()?;
        }
        disk.sync_dir(&commit)?;
        Ok(folder)
    }

    /// Cuts a segment at a position.
    fn cut(&self, folder: &Folder, segment: u64, position: u64) -> io::Result<()> {
        let file = self.directory.disk.open(&path(&folder.path, segment, FileKind::Segment), Open::Write)?;
        file.set_len(position - segment)?;
        file.sync()
    }

    /// Removes the segments behind a position, the last one first, then cuts the one that ends there, and its index.
    /// Gives how many messages are left.
    fn truncate(&self, folder: &Folder, position: u64) -> io::Result<u64> {
        let disk = &*self.directory.disk;
        let last = last_before(folder, position);
        for segment in folder.segments.iter().rev().filter(|segment| segment.start > last) {
            for kind in [FileKind::Index, FileKind::Segment] {
                let file = path(&folder.path, segment.start, kind);
                if disk.metadata(&file)?.is_some() {
                    disk.remove_file(&file)?;
                }
            }
            disk.sync_dir(&folder.path)?;
        }
        self.cut(folder, last, position)?;
        let index = path(&folder.path, last, FileKind::Index);
        if disk.metadata(&index)?.is_some() {
            let index = disk.open(&index, Open::Write)?;
            let marks = read_marks(&*index, &(last..position))?;
            index.set_len((marks.len() * MARK_BYTES) as u64)?;
            index.sync()?;
        }
        self.count(folder)
    }

    /// Whole messages in the segments that are there.
    fn count(&self, folder: &Folder) -> io::Result<u64> {
        let mut left = 0;
        for segment in &folder.segments {
            let file = path(&folder.path, segment.start, FileKind::Segment);
            if self.directory.disk.metadata(&file)?.is_some() {
                let file = self.directory.disk.open(&file, Open::Read)?;
                left += Records::new(file, 0, u64::MAX)?.count_before(u64::MAX)?;
            }
        }
        Ok(left)
    }

    /// Writes the marks of a segment as they would be if they had been written with it; append times are what ids and
    /// the file's time tell.
    fn rebuild_index(&self, folder: &Folder, segment: u64, kept: &Kept) -> io::Result<()> {
        let disk = &*self.directory.disk;
        let mut behind = 0;
        for later in folder.segments.iter().filter(|later| later.start >= segment) {
            let file = disk.open(&path(&folder.path, later.start, FileKind::Segment), Open::Read)?;
            behind += Records::new(file, 0, u64::MAX)?.count_before(u64::MAX)?;
        }
        let mut sequence = kept.head.sequence - i64::try_from(behind).unwrap_or(i64::MAX);
        let file = disk.open(&path(&folder.path, segment, FileKind::Segment), Open::Read)?;
        let modified = file.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let modified = u64::try_from(modified).unwrap_or(u64::MAX);
        let latest = if kept.head.append_time == 0 { modified } else { kept.head.append_time };
        let mut records = Records::new(file, 0, u64::MAX)?;
        let (mut bytes, mut since, mut checksum, mut append_time) = (Vec::new(), 0, 0, 0);
        while let Some(Piece::Record(range)) = records.step()? {
            let id = records.header(range.start)?.map_or(0, |header| header.id);
            let clock = u64::try_from(IdParts::of(id).clock_ms).ok().filter(|clock| *clock > EPOCH_MS);
            append_time = append_time.max(clock.unwrap_or(modified).min(latest));
            checksum = crc32c::crc32c_append(checksum, records.bytes(range.clone())?);
            sequence += 1;
            if range.end - since >= MARK_EVERY_BYTES {
                let position = segment + range.end;
                bytes.extend_from_slice(&Mark { position, sequence, append_time, checksum }.encode());
                (since, checksum) = (range.end, 0);
            }
        }
        let index = disk.open(&path(&folder.path, segment, FileKind::Index), Open::Create)?;
        index.set_len(0)?;
        write_all_at(&*index, &bytes, 0)?;
        index.sync()?;
        disk.sync_dir(&folder.path)
    }
}

/// What a checkpoint holds of a folder's partition.
fn known<'a>(checkpoint: &'a mut Checkpoint, folder: &Folder) -> Option<&'a mut Kept> {
    checkpoint.partitions.iter_mut().find(|kept| kept.topic == folder.topic && kept.index == folder.index)
}

/// Start of the segment that a partition ends in if it ends at `position`; its oldest one stays in any case.
fn last_before(folder: &Folder, position: u64) -> u64 {
    let last = folder.segments.iter().rfind(|segment| segment.start < position).or(folder.segments.first());
    last.map_or(position, |last| last.start)
}

/// The partition ends at `position`, with `left` messages.
fn end_at(kept: &mut Kept, folder: &Folder, position: u64, left: u64) {
    kept.head.segment = last_before(folder, position);
    kept.head.end = position;
    kept.head.sequence = kept.head.first_sequence + i64::try_from(left).unwrap_or(0);
    kept.damage.retain(|damage| damage.range.end <= position);
    kept.failed = None;
}
