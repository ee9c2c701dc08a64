//! What a broker needs of its machine: a folder, room, a disk that syncs, descriptors.

use super::Check;
use crate::exit::Failure;
use crate::server::transactions;
use indicatif::BinaryBytes;
use metaq_disk::{Disk, Open, RealDisk, write_all_at};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Free room below which puts are refused by default (diskReserveBytes).
const RESERVE_BYTES: u64 = 1 << 30;
/// No device answers a sync that fast unless it keeps it in memory; with a battery that is fine, else it isn't durable.
const TOO_FAST: Duration = Duration::from_micros(20);
/// Each durable answer takes at least a sync.
const SLOW: Duration = Duration::from_millis(20);
/// Descriptors that a broker of usual size needs, and those that the smallest does.
const DESCRIPTORS: (u64, u64) = (65_536, 4_096);
/// What one turn of the commit log writes at least, in bytes.
const BLOCK_BYTES: usize = 4096;

/// Looks at the machine.
pub fn checks(data_dir: &Path, syncs: u32) -> Vec<Check> {
    let folder = existing(data_dir);
    let mut checks = vec![folder_check(data_dir, &folder)];
    checks.extend([room(&folder), file_system(&folder)]);
    checks.push(match sync_times(&folder, syncs) {
        Ok(times) => speed(times),
        Err(error) => {
            let advice = "let the user that runs the broker write there (chown), or choose another --data-dir";
            Check::bad("sync", format!("nothing can be written in {}: {error}", folder.display()), advice)
        }
    });
    checks.push(descriptors(getrlimit(Resource::Nofile).maximum));
    checks.extend(journal(data_dir));
    checks
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> PathBuf {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    whole.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn folder_check(wanted: &Path, found: &Path) -> Check {
    if wanted.is_dir() {
        return Check::good("data", format!("the data directory is {}", found.display()));
    }
    let found = format!("{} isn't there yet; {} is", wanted.display(), found.display());
    Check::good("data", found)
}

fn room(folder: &Path) -> Check {
    let space = match RealDisk.space(folder) {
        Ok(space) => space,
        Err(error) => return Check::bad("room", format!("{}: {error}", folder.display()), "look at the file system"),
    };
    let found = format!("{} of {} are free", BinaryBytes(space.free), BinaryBytes(space.total));
    let advice = "make room, or a shorter retention: deletePolicy, retentionBytes";
    match space.free {
        free if free < RESERVE_BYTES => {
            Check::bad("room", format!("{found}: less than the reserve (diskReserveBytes), puts are refused"), advice)
        }
        free if free < space.total / 10 => Check::note("room", found, advice),
        _ => Check::good("room", found),
    }
}

fn file_system(folder: &Path) -> Check {
    match rustix::fs::statfs(folder) {
        #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a magic number of 32 bits")]
        Ok(found) => kind(found.f_type as u32),
        Err(error) => Check::note("file system", format!("it can't be told: {error}"), ""),
    }
}

/// What is known of a file system by its magic number (statfs(2)).
fn kind(magic: u32) -> Check {
    let note = |name: &str, why: &str| Check::note("file system", name, why);
    match magic {
        0x0102_1994 => note("tmpfs: memory", "nothing outlives a restart of the machine: take a disk"),
        0x794c_7630 => note("overlay: the inside of a container", "data goes with the container: mount a volume there"),
        0x6969 => Check::bad("file system", "NFS", "locks and syncs can't be trusted there: take a local disk"),
        0xff53_4d42 | 0xfe53_4d42 => {
            Check::bad("file system", "SMB", "locks and syncs can't be trusted: take a local disk")
        }
        0x6573_5546 => note("FUSE", "make sure that it passes syncs on to a disk"),
        0xef53 => Check::good("file system", "ext4"),
        0x5846_5342 => Check::good("file system", "XFS"),
        0x9123_683e => {
            note("btrfs", "the commit log is overwritten in place: switch copy-on-write off there (chattr +C)")
        }
        0x2fc1_2fc1 => note("ZFS", "the commit log is overwritten in place: a separate log device makes syncs faster"),
        other => Check::good("file system", format!("number {other:#x}")),
    }
}

/// How long writing and syncing a block takes, sorted; as a turn of the commit log does it: over zeros.
fn sync_times(folder: &Path, count: u32) -> io::Result<Vec<Duration>> {
    // No `-`: an original broker takes such a name for a partition.
    let path = folder.join(format!("metaq.doctor.{}", std::process::id()));
    let timed = try_syncs(&path, count);
    match RealDisk.remove_file(&path) {
        Err(error) if timed.is_ok() => Err(error),
        _ => timed,
    }
}

fn try_syncs(path: &Path, count: u32) -> io::Result<Vec<Duration>> {
    let file = RealDisk.open(path, Open::CreateNew)?;
    let len = u64::from(count) * BLOCK_BYTES as u64;
    file.write_zeros(0..len)?;
    file.sync()?;
    let block = [0xa5; BLOCK_BYTES];
    let mut times = Vec::new();
    for at in 0..u64::from(count) {
        let began = Instant::now();
        write_all_at(&*file, &block, at * BLOCK_BYTES as u64)?;
        file.sync()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

/// Judges sorted times.
fn speed(times: Vec<Duration>) -> Check {
    let median = times[times.len() / 2];
    let worst = times[times.len() - 1 - times.len() / 100];
    let found = format!("a write and sync of 4 KiB takes {median:.1?}, the slowest of 100 {worst:.1?}");
    if median < TOO_FAST {
        let advice = "too fast to be true, unless the disk's cache has a battery: a power cut may take back what was \
                      acknowledged";
        return Check::note("sync", found, advice);
    }
    if median > SLOW {
        return Check::note("sync", found, "each durable answer takes at least that long: a faster disk helps most");
    }
    Check::good("sync", found)
}

/// Judges how many descriptors a process may have.
fn descriptors(limit: Option<u64>) -> Check {
    let advice = "raise the hard limit: LimitNOFILE= in the systemd unit, or /etc/security/limits.conf";
    match limit {
        None => Check::good("descriptors", "without limit"),
        Some(limit) if limit < DESCRIPTORS.1 => Check::bad("descriptors", format!("at most {limit}"), advice),
        Some(limit) if limit < DESCRIPTORS.0 => Check::note("descriptors", format!("at most {limit}"), advice),
        Some(limit) => Check::good("descriptors", format!("at most {limit}")),
    }
}

/// Transactions that an original broker left, if so.
fn journal(data_dir: &Path) -> Option<Check> {
    let Failure { text, .. } = transactions::refuse(&RealDisk, data_dir, false).err()?;
    Some(Check::bad("transactions", text, "a broker won't start on this directory as it is"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn syncs_are_judged_by_their_median() {
        let state = |micros: u64| speed(vec![Duration::from_micros(micros); 100]).state;
        assert_eq!((state(5), state(1000), state(50_000)), (State::Note, State::Good, State::Note));
    }

    #[test]
    fn what_was_tried_is_taken_away_again() {
        let folder = std::env::temp_dir().join(format!("metaq-doctor-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let times = sync_times(&folder, 7).unwrap();
        assert_eq!(times.len(), 7);
        assert!(times.is_sorted());
        std::fs::remove_dir(&folder).unwrap();
        assert!(sync_times(&folder, 1).is_err());
        assert_eq!(existing(&folder.join("a/b")), std::env::temp_dir());
    }

    #[test]
    fn few_descriptors_are_bad_and_some_worth_knowing() {
        let state = |limit| descriptors(limit).state;
        assert_eq!(state(Some(1024)), State::Bad);
        assert_eq!(state(Some(10_000)), State::Note);
        assert_eq!((state(Some(1 << 20)), state(None)), (State::Good, State::Good));
    }

    #[test]
    fn a_file_system_that_cannot_be_trusted_is_bad() {
        assert_eq!(kind(0x6969).state, State::Bad);
        assert_eq!(kind(0x0102_1994).state, State::Note);
        assert_eq!((kind(0xef53).state, kind(1).state), (State::Good, State::Good));
    }
}
