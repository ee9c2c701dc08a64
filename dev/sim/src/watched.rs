//! A simulated disk that is looked at after each of its operations: what is needed to make the images that a power cut
//! or a process kill there leaves is kept.
//!
//! An image between two operations also stands for one in the middle of the second: what that one changes is unsynced
//! after it, so the images behind it have any part of it.

use crate::random::Random;
use metaq_disk::{Asked, CrashChoice, Disk, FaultyDisk, File, Listed, Lock, Metadata, Open, Space};
use metaq_log::{Log, Settled};
use parking_lot::Mutex;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// How everything stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The processes were killed: everything written is there, synced or not.
    Kill,
    /// The power went.
    PowerCut,
}

/// How everything stopped, and how is chosen what is left of what was unsynced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// How everything stopped.
    pub crash: Crash,
    /// What is left.
    pub choice: CrashChoice,
}

/// One moment at which everything may stop.
pub struct Cut {
    /// Operations that were carried out.
    pub operation: u64,
    /// The watermarks at that moment; `None` while the directory is being opened.
    pub settled: Option<Settled>,
    /// The disk then, synced and unsynced.
    pub disk: FaultyDisk,
    /// What may be left, each different from those of earlier moments.
    pub images: Vec<Image>,
}

impl Cut {
    /// The moment at which a disk stands.
    #[must_use]
    pub fn of(disk: &FaultyDisk, settled: Settled) -> Self {
        let kill = Image { crash: Crash::Kill, choice: CrashChoice::Everything };
        let power_cut = Image { crash: Crash::PowerCut, choice: CrashChoice::Nothing };
        Self {
            operation: disk.operations(),
            settled: Some(settled),
            disk: disk.crash_image(&mut CrashChoice::Everything),
            images: vec![kill, power_cut],
        }
    }

    /// A disk with what is left.
    #[must_use]
    pub fn disk_of(&self, image: Image) -> FaultyDisk {
        self.disk.crash_image(&mut { image.choice })
    }
}

/// Takes the images.
pub struct Recorder {
    /// Off: nothing is taken.
    pub on: bool,
    random: Random,
    randoms: u64,
    log: Option<Log>,
    cuts: Vec<Cut>,
    /// Watermarks when the images of the synced and of everything were last taken.
    synced_at: Option<Option<Settled>>,
    everything_at: Option<Option<Settled>>,
}

impl Recorder {
    /// `randoms`: images of a power cut at random, beside the one that keeps only what is synced.
    #[must_use]
    pub fn new(random: Random, randoms: u64) -> Arc<Mutex<Self>> {
        let (log, cuts) = (None, Vec::new());
        let (synced_at, everything_at) = (None, None);
        Arc::new(Mutex::new(Self { on: true, random, randoms, log, cuts, synced_at, everything_at }))
    }

    /// All cuts since the last call.
    pub fn take(&mut self) -> Vec<Cut> {
        std::mem::take(&mut self.cuts)
    }

    /// Takes the images of this moment. `asked`: the operation that was just carried out, if any.
    pub fn look(&mut self, disk: &FaultyDisk, asked: Option<&Asked>) {
        if !self.on {
            return;
        }
        let settled = self.log.as_ref().map(Log::settled);
        let syncs = asked.is_some_and(|asked| matches!(asked, Asked::Sync | Asked::SyncFolder | Asked::SyncAll));
        let mut images = Vec::new();
        let mut take = |crash, choice| images.push(Image { crash, choice });
        // A sync changes nothing for programs, anything else nothing on the device.
        if self.everything_at != Some(settled) || asked.is_some() && !syncs {
            self.everything_at = Some(settled);
            take(Crash::Kill, CrashChoice::Everything);
        }
        if self.synced_at != Some(settled) || syncs {
            self.synced_at = Some(settled);
            take(Crash::PowerCut, CrashChoice::Nothing);
        }
        if asked.is_some() {
            for _ in 0..self.randoms {
                take(Crash::PowerCut, CrashChoice::Random(self.random.next_number()));
            }
        }
        if !images.is_empty() {
            let (operation, disk) = (disk.operations(), disk.crash_image(&mut CrashChoice::Everything));
            self.cuts.push(Cut { operation, settled, disk, images });
        }
    }
}

/// A recorder whose watermarks are those of a log, until this is dropped: the log holds the disk, which holds the
/// recorder.
pub struct Following(Arc<Mutex<Recorder>>);

impl Following {
    /// From here on watermarks are those of `log`.
    #[must_use]
    pub fn new(recorder: Arc<Mutex<Recorder>>, log: Log) -> Self {
        recorder.lock().log = Some(log);
        Self(recorder)
    }

    /// All cuts since the last call. `now`: and this moment.
    #[must_use]
    pub fn take(&self, disk: &FaultyDisk, now: bool) -> Vec<Cut> {
        let mut recorder = self.0.lock();
        if now {
            recorder.look(disk, None);
        }
        recorder.take()
    }

    /// Nothing is taken any more.
    pub fn stop(&self) {
        self.0.lock().on = false;
    }

    /// The recorder, which goes on without the log.
    #[must_use]
    pub fn recorder(&self) -> Arc<Mutex<Recorder>> {
        Arc::clone(&self.0)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let log = self.0.lock().log.take();
        drop(log);
    }
}

/// The disk that is looked at.
#[derive(Clone)]
pub struct Watched {
    disk: FaultyDisk,
    recorder: Arc<Mutex<Recorder>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a watched {:?}", self.disk)
    }
}

impl Watched {
    /// Looks at `disk` for `recorder`.
    #[must_use]
    pub fn new(disk: FaultyDisk, recorder: Arc<Mutex<Recorder>>) -> Self {
        Self { disk, recorder }
    }

    fn watch<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = self.disk.operations();
        let result = call();
        if self.disk.operations() != before {
            let last = self.disk.history(1).pop();
            self.recorder.lock().look(&self.disk, last.as_ref().map(|operation| &operation.asked));
        }
        result
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.watch(|| self.disk.open(path, how))?;
        Ok(Arc::new(WatchedFile { file, disk: self.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.disk.metadata(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        self.disk.list(folder)
    }

    fn create_dir(&self, folder: &Path) -> io::Result<()> {
        self.watch(|| self.disk.create_dir(folder))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch(|| self.disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch(|| self.disk.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.watch(|| self.disk.remove_file(path))
    }

    fn remove_dir(&self, folder: &Path) -> io::Result<()> {
        self.watch(|| self.disk.remove_dir(folder))
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.watch(|| self.disk.sync_dir(folder))
    }

    fn sync_all(&self, path: &Path) -> io::Result<()> {
        self.watch(|| self.disk.sync_all(path))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.disk.space(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.watch(|| self.disk.lock(path))
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn File>,
    disk: Watched,
}

impl File for WatchedFile {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(bytes, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        self.disk.watch(|| self.file.write_at(bytes, position))
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        self.disk.watch(|| self.file.write_zeros(range))
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.watch(|| self.file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.watch(|| self.file.sync())
    }

    fn is_cached(&self, range: Range<u64>) -> bool {
        self.file.is_cached(range)
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.file.modified()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaq_disk::write_all_at;

    #[test]
    fn every_operation_is_a_cut_and_what_is_the_same_is_taken_once() {
        let disk = FaultyDisk::new(1);
        let recorder = Recorder::new(Random::new(1), 1);
        let watched = Watched::new(disk, Arc::clone(&recorder));
        let file = watched.open(Path::new("/a"), Open::CreateNew).unwrap();
        write_all_at(&*file, b"abc", 0).unwrap();
        file.sync().unwrap();
        watched.sync_dir(Path::new("/")).unwrap();
        let cuts = recorder.lock().take();
        assert_eq!(cuts.iter().map(|cut| cut.operation).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(cuts.iter().map(|cut| cut.images.len()).collect::<Vec<_>>(), [3, 2, 2, 2]);
        let last = cuts[3].images[0];
        assert_eq!(last, Image { crash: Crash::PowerCut, choice: CrashChoice::Nothing });
        assert_eq!(cuts[3].disk_of(last).metadata(Path::new("/a")).unwrap().unwrap().len, 3);
        assert!(cuts[2].disk_of(last).metadata(Path::new("/a")).unwrap().is_none());
    }
}
