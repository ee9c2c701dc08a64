//! The same calls, picked at random, give the same answers on the operating system's disk and on the simulated one.

mod shared;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metaq_disk::{Disk, FaultyDisk, File, Open, RealDisk};
use proptest::prelude::*;
use shared::{bytes_of, names};

/// Paths that meet each other in many ways: files where folders are wanted and the other way round.
const PATHS: [&str; 7] = ["a", "b", "d", "d/a", "d/e", "d/e/a", "f/g"];

#[derive(Debug, Clone)]
enum Call {
    Open(&'static str, Open),
    Write(Range<u64>, u8),
    WriteZeros(Range<u64>),
    SetLen(u64),
    Read(Range<u64>),
    CreateDir(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    RemoveFile(&'static str),
    RemoveDir(&'static str),
    Metadata(&'static str),
    List(&'static str),
}

fn any_path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&PATHS[..])
}

fn any_range() -> impl Strategy<Value = Range<u64>> {
    (0..12_000u64, 0..9000u64).prop_map(|(start, len)| start..start + len)
}

fn any_call() -> impl Strategy<Value = Call> {
    let ways = prop::sample::select(&[Open::Read, Open::Write, Open::CreateNew, Open::Create, Open::Create][..]);
    prop_oneof![
        4 => (any_path(), ways).prop_map(|(path, how)| Call::Open(path, how)),
        3 => (any_range(), 1..255u8).prop_map(|(range, byte)| Call::Write(range, byte)),
        1 => any_range().prop_map(Call::WriteZeros),
        1 => (0..20_000u64).prop_map(Call::SetLen),
        2 => any_range().prop_map(Call::Read),
        2 => any_path().prop_map(Call::CreateDir),
        3 => (any_path(), any_path()).prop_map(|(from, to)| Call::Rename(from, to)),
        1 => (any_path(), any_path()).prop_map(|(from, to)| Call::Link(from, to)),
        1 => any_path().prop_map(Call::RemoveFile),
        1 => any_path().prop_map(Call::RemoveDir),
        1 => any_path().prop_map(Call::Metadata),
        1 => any_path().prop_map(Call::List),
    ]
}

/// A disk, a folder on it, and the file that was opened last.
struct Run<'a> {
    disk: &'a dyn Disk,
    root: PathBuf,
    file: Option<Arc<dyn File>>,
}

impl Run<'_> {
    /// Makes a call and tells what came of it: the value or the kind of error.
    fn call(&mut self, call: &Call) -> String {
        let (disk, root) = (self.disk, &self.root);
        match call {
            Call::Open(path, how) => {
                let opened = disk.open(&root.join(path), *how);
                let told = told(opened.as_ref().map(|_| ()).map_err(|error| error.kind().into()));
                self.file = opened.ok().or(self.file.take());
                told
            }
            Call::CreateDir(path) => told(disk.create_dir(&root.join(path))),
            Call::Rename(from, to) => told(disk.rename(&root.join(from), &root.join(to))),
            Call::Link(from, to) => told(disk.link(&root.join(from), &root.join(to))),
            Call::RemoveFile(path) => told(disk.remove_file(&root.join(path))),
            Call::RemoveDir(path) => told(disk.remove_dir(&root.join(path))),
            Call::Metadata(path) => {
                let found = disk.metadata(&root.join(path));
                told(found.map(|found| found.map(|found| (found.kind, found.len))))
            }
            Call::List(path) => told(disk.list(&root.join(path)).map(|mut listed| {
                listed.sort_by(|a, b| a.name.cmp(&b.name));
                listed
            })),
            Call::Write(..) | Call::WriteZeros(_) | Call::SetLen(_) | Call::Read(_) => match &self.file {
                Some(file) => call_file(&**file, call),
                None => String::new(),
            },
        }
    }

    /// Everything below a folder, with the bytes of files.
    fn tree(&self, folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut tree = Vec::new();
        for name in names(self.disk, folder) {
            let path = folder.join(name);
            let named = path.strip_prefix(&self.root).expect("the path is below the root").to_owned();
            if let Ok(file) = self.disk.open(&path, Open::Read) {
                tree.push((named, Some(bytes_of(&*file))));
            } else {
                tree.push((named, None));
                tree.extend(self.tree(&path));
            }
        }
        tree
    }
}

fn call_file(file: &dyn File, call: &Call) -> String {
    match call {
        Call::Write(range, byte) => told(file.write_at(&bytes(range, *byte), range.start)),
        Call::WriteZeros(range) => told(file.write_zeros(range.clone())),
        Call::SetLen(len) => told(file.set_len(*len)),
        Call::Read(range) => {
            let mut read = bytes(range, 0);
            let len = file.read_at(&mut read, range.start);
            told(len.map(|len| read[..len].to_owned()))
        }
        _ => unreachable!("the call is about a file"),
    }
}

fn bytes(range: &Range<u64>, byte: u8) -> Vec<u8> {
    vec![byte; usize::try_from(range.end - range.start).expect("ranges are short")]
}

fn told<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_disks_answer_alike(calls in prop::collection::vec(any_call(), 1..40)) {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let simulated = FaultyDisk::new(1);
        let mut real = Run { disk: &RealDisk, root: folder.path().to_owned(), file: None };
        let mut model = Run { disk: &simulated, root: PathBuf::from("/"), file: None };
        for (step, call) in calls.iter().enumerate() {
            prop_assert_eq!(real.call(call), model.call(call), "call {}: {:?}", step, call);
        }
        prop_assert!(real.tree(&real.root) == model.tree(&model.root));
        if let (Some(real), Some(model)) = (real.file, model.file) {
            prop_assert!(bytes_of(&*real) == bytes_of(&*model));
        }
    }
}
