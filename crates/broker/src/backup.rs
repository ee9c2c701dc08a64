//! A backup of a running broker: a folder that opens as the data directory of a broker that was stopped cleanly.
//!
//! A checkpoint says how far each partition's segments are whole. Sealed segments never change again, so a second name
//! for them is enough (or a copy, where the folder lies on another file system); of the last segment as much is copied as
//! the checkpoint speaks of. The checkpoint is written last: a backup that was interrupted doesn't open.

use crate::broker::Broker;
use crate::files::{folder, index_name, segment_name};
use crate::lines::{self, Line};
use crate::refused::Refused;
use metaq_disk::{Disk, Open, read_exact_at, write_all_at};
use metaq_log::{CopiedPartition, Partition};
use metaq_protocol::ErrorCode;
use std::io;
use std::path::Path;

const PIECE_BYTES: usize = 1 << 20;

/// What was done.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    segments: u64,
    linked: u64,
    bytes_copied: u64,
}

impl Broker {
    /// Makes a backup in a folder that is empty or isn't there yet. Retention waits meanwhile.
    pub fn backup(&self, target: &str) -> Result<String, Refused> {
        let _alone = self.housekeeping.lock();
        let target = Path::new(target);
        let disk = &**self.log.disk();
        refuse_used(disk, target)?;
        self.make_checkpoint()?;
        let failed = |error: io::Error| {
            let text = format!("the backup in {} isn't usable: {error}; remove it", target.display());
            Refused::new(ErrorCode::Unavailable, text)
        };
        disk.create_dir(target).map_err(failed)?;
        // Its own name is to last too, and those of folders that were made for it.
        target.ancestors().skip(1).try_for_each(|folder| disk.sync_dir(folder)).map_err(failed)?;
        let copy = self.log.checkpoint_copy().map_err(failed)?;
        let (lsn, partitions) = (copy.lsn(), copy.partitions());
        let mut counts = Counts::default();
        for copied in &partitions {
            // One that is gone was deleted since; without it the backup would be closed for puts there.
            let partition = self.log.partition_numbered(copied.number).ok_or_else(|| failed(deleted_meanwhile()))?;
            copy_partition(self, &partition, copied, target, &mut counts).map_err(failed)?;
        }
        copy.write(disk, target).map_err(failed)?;
        disk.sync_dir(target).map_err(failed)?;
        tracing::info!(folder = %target.display(), lsn, partitions = partitions.len(), "a backup was made");
        let line = Line::new("backup", target.display()).word("lsn", lsn).word("partitions", partitions.len());
        let line = line.word("segments", counts.segments).word("linked", counts.linked);
        Ok(lines::text([line.word("bytes_copied", counts.bytes_copied)]))
    }
}

fn deleted_meanwhile() -> io::Error {
    io::Error::other("a partition was deleted while it was made")
}

fn refuse_used(disk: &dyn Disk, target: &Path) -> Result<(), Refused> {
    let refuse = |why: String| Refused::new(ErrorCode::MalformedArgument, format!("{}: {why}", target.display()));
    if !target.is_absolute() {
        return Err(refuse("write the whole path, from /, of a folder of the broker's machine".to_owned()));
    }
    match disk.list(target) {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(names) => Err(refuse(format!("it holds {} and more; a backup goes into an empty folder", names[0].name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refuse(error.to_string())),
    }
}

fn copy_partition(
    broker: &Broker,
    partition: &Partition,
    copied: &CopiedPartition,
    target: &Path,
    counts: &mut Counts,
) -> io::Result<()> {
    let (log, disk) = (&broker.log, &**broker.log.disk());
    let from = folder(partition);
    let to = target.join(from.file_name().unwrap_or_default());
    disk.create_dir(&to)?;
    let segments = log.segments(partition)?;
    for segment in segments.iter().filter(|segment| segment.start <= copied.segment) {
        let (data, index) = (segment_name(segment.start), index_name(segment.start));
        counts.segments += 1;
        if segment.start < copied.segment {
            counts.linked += u64::from(link_or_copy(disk, &from.join(&data), &to.join(&data), counts)?);
            // The index can be made again: one that isn't there is no loss.
            if disk.metadata(&from.join(&index))?.is_some() {
                link_or_copy(disk, &from.join(&index), &to.join(&index), counts)?;
            }
        } else {
            counts.bytes_copied += copy(disk, &from.join(&data), &to.join(&data), copied.end - copied.segment)?;
        }
    }
    disk.sync_dir(&to)
}

/// Gives a file that never changes again a second name, or copies it where that can't be; whether it was linked.
fn link_or_copy(disk: &dyn Disk, from: &Path, to: &Path, counts: &mut Counts) -> io::Result<bool> {
    if disk.link(from, to).is_ok() {
        return Ok(true);
    }
    let len = disk.metadata(from)?.ok_or(io::ErrorKind::NotFound)?.len;
    counts.bytes_copied += copy(disk, from, to, len)?;
    Ok(false)
}

/// Copies the first `len` bytes of a file, durably.
fn copy(disk: &dyn Disk, from: &Path, to: &Path, len: u64) -> io::Result<u64> {
    let (source, target) = (disk.open(from, Open::Read)?, disk.open(to, Open::CreateNew)?);
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < len {
        let bytes = usize::try_from((len - at).min(PIECE_BYTES as u64)).expect("at most a piece");
        read_exact_at(&*source, &mut piece[..bytes], at)?;
        write_all_at(&*target, &piece[..bytes], at)?;
        at += bytes as u64;
    }
    target.sync()?;
    Ok(len)
}

#[cfg(test)]
mod tests {
    use crate::configuration::{Settings, Sources};
    use crate::opening::log_options;
    use crate::testbed::Testbed;
    use metaq_disk::{CrashChoice, Disk};
    use std::path::Path;

    const FILE: &str = "maxSegmentSize=2000\nupdateConsumerOffsets=true\n[topic=*]\nnumPartitions=3\n";

    fn open_backup(bed: &Testbed) -> Testbed {
        let image = bed.disk.crash_image(&mut CrashChoice::Nothing);
        let text = format!("[system]\ndataPath=/backup\ncommitFileBytes=256*1024\nmessageBytesMax=16*1024\n{FILE}");
        let settings = Settings::load(&Sources { file: Some(text.as_bytes()), overrides: &[], home: None }).unwrap();
        Testbed::with(image, log_options(&settings, "metaq test", None), text, bed.now())
    }

    #[test]
    fn a_backup_of_a_running_broker_opens_as_a_data_directory() {
        let bed = Testbed::begin(FILE);
        for number in 0..40 {
            bed.put("orders", number % 3, &format!("message {number} {}", "x".repeat(300)));
        }
        bed.administer("topic alter orders durability=os 1\r\n").unwrap();
        bed.administer("topic create empty numPartitions=7 1\r\n").unwrap();
        bed.administer("offsets commit g orders 0 0 - 1\r\n").unwrap();
        let answer = bed.administer("admin backup /backup 1\r\n").unwrap();
        assert!(answer.contains(" partitions=3 "), "{answer}");
        let before: Vec<_> = (0..3).map(|index| bed.answer(&format!("get orders g {index} 0 100000 1\r\n"))).collect();
        let ends = bed.answer("stats offsets 1\r\n");
        // What happens later isn't in it.
        (0..30).for_each(|number| _ = bed.put("orders", number % 3, "later"));
        let restored = open_backup(&bed);
        assert!(restored.report.clean && restored.report.findings.is_empty(), "{:?}", restored.report);
        assert_eq!(restored.answer("stats offsets 1\r\n"), ends);
        for (index, before) in before.iter().enumerate() {
            assert_eq!(restored.answer(&format!("get orders g {index} 0 100000 1\r\n")), *before);
        }
        assert!(restored.administer("topic describe empty 1\r\n").unwrap().contains("setting=numPartitions value=7"));
        assert!(restored.administer("offsets fetch g 1\r\n").unwrap().contains("position=0"));
        let end = restored.put("orders", 0, "goes on");
        assert!(ends.contains(&format!("orders part 0 min_offset 0 max_offset {end}")), "{ends} {end}");
    }

    #[test]
    fn a_backup_never_overwrites() {
        let bed = Testbed::begin(FILE);
        bed.put("orders", 0, "x");
        bed.administer("admin backup /backup 1\r\n").unwrap();
        let refused = bed.administer("admin backup /backup 1\r\n").unwrap_err();
        assert!(refused.to_string().contains("a backup goes into an empty folder"), "{refused}");
        let refused = bed.administer("admin backup backup 1\r\n").unwrap_err();
        assert!(refused.to_string().contains("write the whole path"), "{refused}");
    }

    #[test]
    fn a_backup_that_failed_does_not_open() {
        let bed = Testbed::begin(FILE);
        bed.put("orders", 0, "x");
        bed.disk.inject("/backup/orders-0", metaq_disk::Fault::NoSpace, 0..1);
        let refused = bed.administer("admin backup /backup 1\r\n").unwrap_err();
        assert!(refused.to_string().contains("isn't usable"), "{refused}");
        assert_eq!(bed.disk.metadata(Path::new("/backup/checkpoint")).unwrap(), None);
    }

    #[test]
    fn sealed_segments_are_linked_and_the_last_one_is_a_copy() {
        let bed = Testbed::begin(FILE);
        (0..9).for_each(|_| _ = bed.put("orders", 0, &"x".repeat(600)));
        let answer = bed.administer("admin backup /backup 1\r\n").unwrap();
        assert!(answer.contains("segments=3 linked=2 bytes_copied=620"), "{answer}");
        bed.put("orders", 0, "later");
        bed.administer("admin checkpoint 1\r\n").unwrap();
        let last = Path::new("/backup/orders-0/00000000000000004960.meta");
        assert_eq!(bed.disk.metadata(last).unwrap().unwrap().len, 620);
    }
}
