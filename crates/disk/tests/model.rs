//! Random runs on a simulated disk against a slow, plain account of what was seen and what was synced.
//!
//! The account keeps every state that a file had since its sync and every set of names that a folder had since its
//! own. A killed process leaves the last ones, a lost power nothing but the synced ones, or a mixture: then each sector
//! must come from a state of its file and each folder from a state of its names.

mod shared;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metaq_disk::{CrashChoice, Disk, FaultyDisk, File, Open};
use proptest::prelude::*;
use shared::{bytes_of, create, names};

const FOLDERS: [&str; 2] = ["/x", "/y"];
const NAMES: [&str; 3] = ["a", "b", "c"];
const SECTOR: usize = 512;

#[derive(Debug, Clone)]
enum Step {
    Create(Place),
    Write(Place, Range<usize>),
    WriteZeros(Place, Range<usize>),
    SetLen(Place, usize),
    Sync(Place),
    Rename(Place, &'static str),
    Link(Place, &'static str),
    Remove(Place),
    SyncDir(usize),
    SyncAll,
}

/// A folder by its number and a name in it.
type Place = (usize, &'static str);

fn path((folder, name): Place) -> PathBuf {
    Path::new(FOLDERS[folder]).join(name)
}

fn any_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn any_place() -> impl Strategy<Value = Place> {
    (0..FOLDERS.len(), any_name())
}

fn any_range() -> impl Strategy<Value = Range<usize>> {
    (0..6000usize, 1..6000usize).prop_map(|(start, len)| start..start + len)
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any_place().prop_map(Step::Create),
        8 => (any_place(), any_range()).prop_map(|(place, range)| Step::Write(place, range)),
        2 => (any_place(), any_range()).prop_map(|(place, range)| Step::WriteZeros(place, range)),
        3 => (any_place(), 0..9000usize).prop_map(|(place, len)| Step::SetLen(place, len)),
        3 => any_place().prop_map(Step::Sync),
        2 => (any_place(), any_name()).prop_map(|(place, to)| Step::Rename(place, to)),
        1 => (any_place(), any_name()).prop_map(|(place, to)| Step::Link(place, to)),
        1 => any_place().prop_map(Step::Remove),
        2 => (0..FOLDERS.len()).prop_map(Step::SyncDir),
        1 => Just(Step::SyncAll),
    ]
}

/// The states of a file since its last sync, the synced one first, and the places at which it was cut since then.
#[derive(Debug, Clone)]
struct Account {
    states: Vec<Vec<u8>>,
    cuts: Vec<usize>,
}

/// Per name the number of its file.
type Names = BTreeMap<&'static str, usize>;

/// A disk and the account that is kept of it.
struct Run {
    disk: FaultyDisk,
    files: Vec<(Arc<dyn File>, Account)>,
    /// Per folder its states since its last sync, the synced one first.
    folders: Vec<Vec<Names>>,
    /// What the next write fills with, so that every write can be told from all others.
    fill: u8,
}

impl Run {
    fn new() -> Self {
        let disk = FaultyDisk::new(1);
        for folder in FOLDERS {
            disk.create_dir(Path::new(folder)).expect("the folder can be created");
        }
        disk.sync_dir(Path::new("/")).expect("the folders can be synced");
        Self { disk, files: Vec::new(), folders: vec![vec![Names::new()]; FOLDERS.len()], fill: 0 }
    }

    fn names(&self, folder: usize) -> &Names {
        self.folders[folder].last().expect("there is always a state")
    }

    /// The file of that name, if there is one.
    fn file(&mut self, (folder, name): Place) -> Option<(Arc<dyn File>, &mut Account)> {
        let number = *self.names(folder).get(name)?;
        let (file, account) = &mut self.files[number];
        Some((file.clone(), account))
    }

    fn rename_to(&mut self, folder: usize, change: impl FnOnce(&mut Names)) {
        let mut names = self.names(folder).clone();
        change(&mut names);
        self.folders[folder].push(names);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Create(place) => self.create(place),
            Step::Write(place, ref range) => self.write(place, range.clone()),
            Step::WriteZeros(place, ref range) => {
                if let Some((file, account)) = self.file(place) {
                    file.write_zeros(range.start as u64..range.end as u64).expect("zeros can be written");
                    account.write(range.clone(), 0);
                }
            }
            Step::SetLen(place, len) => {
                if let Some((file, account)) = self.file(place) {
                    file.set_len(len as u64).expect("the length can be set");
                    account.set_len(len);
                }
            }
            Step::Sync(place) => {
                if let Some((file, account)) = self.file(place) {
                    file.sync().expect("the file can be synced");
                    account.sync();
                }
            }
            Step::Rename((folder, from), to) => self.rename((folder, from), to),
            Step::Link((folder, from), to) => self.link((folder, from), to),
            Step::Remove((folder, name)) => {
                if self.disk.remove_file(&path((folder, name))).is_ok() {
                    self.rename_to(folder, |names| assert!(names.remove(name).is_some()));
                }
            }
            Step::SyncDir(folder) => {
                self.disk.sync_dir(Path::new(FOLDERS[folder])).expect("the folder can be synced");
                self.folders[folder] = vec![self.names(folder).clone()];
            }
            Step::SyncAll => self.sync_all(),
        }
    }

    fn create(&mut self, place: Place) {
        if self.file(place).is_none() {
            let file = self.disk.open(&path(place), Open::CreateNew).expect("the name is free");
            let number = self.files.len();
            self.files.push((file, Account { states: vec![Vec::new()], cuts: Vec::new() }));
            self.rename_to(place.0, |names| assert_eq!(names.insert(place.1, number), None));
        }
    }

    fn write(&mut self, place: Place, range: Range<usize>) {
        self.fill = self.fill % 250 + 1;
        let fill = self.fill;
        if let Some((file, account)) = self.file(place) {
            let written = file.write_at(&vec![fill; range.len()], range.start as u64);
            assert_eq!(written.expect("the file can be written"), range.len());
            account.write(range, fill);
        }
    }

    fn rename(&mut self, (folder, from): Place, to: &'static str) {
        let renamed = self.disk.rename(&path((folder, from)), &path((folder, to)));
        if renamed.is_ok() && self.names(folder)[from] != *self.names(folder).get(to).unwrap_or(&usize::MAX) {
            self.rename_to(folder, |names| {
                let number = names.remove(from).expect("what was renamed was there");
                names.insert(to, number);
            });
        }
    }

    fn link(&mut self, (folder, from): Place, to: &'static str) {
        if self.disk.link(&path((folder, from)), &path((folder, to))).is_ok() {
            self.rename_to(folder, |names| assert_eq!(names.insert(to, names[from]), None));
        }
    }

    fn sync_all(&mut self) {
        self.disk.sync_all(Path::new("/")).expect("everything can be synced");
        for (_, account) in &mut self.files {
            account.sync();
        }
        for states in &mut self.folders {
            states.drain(..states.len() - 1);
        }
    }
}

impl Account {
    fn last(&self) -> Vec<u8> {
        self.states.last().expect("there is always a state").clone()
    }

    fn write(&mut self, range: Range<usize>, fill: u8) {
        let mut bytes = self.last();
        bytes.resize(bytes.len().max(range.end), 0);
        bytes[range].fill(fill);
        self.states.push(bytes);
    }

    fn set_len(&mut self, len: usize) {
        let mut bytes = self.last();
        if len < bytes.len() {
            self.cuts.push(len);
        }
        bytes.resize(len, 0);
        self.states.push(bytes);
    }

    fn sync(&mut self) {
        *self = Self { states: vec![self.last()], cuts: Vec::new() };
    }

    /// Whether a power cut may leave these bytes.
    fn may_leave(&self, bytes: &[u8]) -> bool {
        self.may_leave_len(bytes.len())
            && bytes.chunks(SECTOR).enumerate().all(|(number, sector)| self.may_leave_sector(number, sector))
    }

    /// A length that was reached, or the end of a page on the way of a growing write.
    fn may_leave_len(&self, len: usize) -> bool {
        let mut steps = self.states.windows(2);
        self.states.iter().any(|state| state.len() == len)
            || len.is_multiple_of(4096) && steps.any(|step| (step[0].len()..step[1].len()).contains(&len))
    }

    fn may_leave_sector(&self, number: usize, sector: &[u8]) -> bool {
        let start = number * SECTOR;
        let cuts = self.cuts.iter().map(|cut| cut.saturating_sub(start).min(sector.len()));
        let kept: Vec<usize> = cuts.chain([sector.len()]).collect();
        self.states.iter().any(|state| {
            let before = state.iter().skip(start).copied().chain(std::iter::repeat(0)).take(sector.len());
            let before: Vec<u8> = before.collect();
            kept.iter().any(|&kept| sector[..kept] == before[..kept] && sector[kept..].iter().all(|&byte| byte == 0))
        })
    }
}

/// What a disk holds: per folder the bytes of each name.
fn contents(disk: &dyn Disk, folder: usize) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(FOLDERS[folder]);
    let read = |name: String| {
        let bytes = bytes_of(&*create(disk, &folder.join(&name)));
        (name, bytes)
    };
    names(disk, folder).into_iter().map(read).collect()
}

/// What a folder holds by the account: these names, each file in the state that `pick` picks.
fn expected(run: &Run, names: &Names, pick: impl Fn(&Account) -> &Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let entry = |(name, number): (&&str, &usize)| ((*name).to_owned(), pick(&run.files[*number].1).clone());
    names.iter().map(entry).collect()
}

fn may_be_left(run: &Run, names: &Names, left: &BTreeMap<String, Vec<u8>>) -> bool {
    names.len() == left.len()
        && left.iter().all(|(name, bytes)| {
            let number = names.get(name.as_str());
            number.is_some_and(|&number| run.files[number].1.may_leave(bytes))
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn images_hold_what_the_account_allows(steps in prop::collection::vec(any_step(), 1..60), seed: u64) {
        let mut run = Run::new();
        for step in &steps {
            run.take(step);
        }
        let killed = run.disk.crash_image(&mut CrashChoice::Everything);
        let dark = run.disk.crash_image(&mut CrashChoice::Nothing);
        let killed_and_dark = killed.crash_image(&mut CrashChoice::Nothing);
        for folder in 0..FOLDERS.len() {
            let last = expected(&run, run.names(folder), |account| account.states.last().expect("a state"));
            prop_assert!(contents(&run.disk, folder) == last);
            prop_assert!(contents(&killed, folder) == last);
            let synced = expected(&run, &run.folders[folder][0], |account| &account.states[0]);
            prop_assert!(contents(&dark, folder) == synced);
            prop_assert!(contents(&killed_and_dark, folder) == synced);
        }
        let mut choice = CrashChoice::Random(seed);
        for _ in 0..30 {
            let image = run.disk.crash_image(&mut choice);
            for folder in 0..FOLDERS.len() {
                let left = contents(&image, folder);
                let states = &run.folders[folder];
                prop_assert!(states.iter().any(|names| may_be_left(&run, names, &left)), "{:?}", left.keys());
            }
        }
    }
}
