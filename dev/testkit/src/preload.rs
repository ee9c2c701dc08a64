//! Faults of the operating system for one broker, by a small preloaded library that is compiled when it is needed.
//!
//! Its source, with the layout of what the test and it share, is `preload/faults.c`. It meets what goes through the C library.

use crate::broker::Setup;
use crate::folder::Folder;
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const SHARED_BYTES: usize = 4096;
const SYNC_AT: u64 = 0;
const WRITE_AT: u64 = 4;
const READ_AT: u64 = 8;
const WRITE_MAX_AT: u64 = 12;
const CLOCK_AT: u64 = 16;
const COUNT_AT: u64 = 24;
const SYNC_MS_AT: u64 = 28;
const PATH_AT: u64 = 64;

/// The faults of one broker; none at first.
#[derive(Debug)]
pub struct Faults {
    shared: File,
    folder: Folder,
}

impl Faults {
    /// Compiles the library and makes what is shared.
    ///
    /// # Panics
    /// If there is no C compiler.
    pub fn new() -> Self {
        let folder = Folder::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("preload/faults.c");
        let compiled = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(folder.join("faults.so"))
            .arg(source)
            .arg("-ldl")
            .status()
            .unwrap_or_else(|error| panic!("a C compiler (cc) is needed to make faults: {error}"));
        assert!(compiled.success(), "cc can't compile preload/faults.c");
        let path = folder.join("shared");
        fs::write(&path, [0; SHARED_BYTES]).expect("the test's folder is writable");
        let shared = File::options().read(true).write(true).open(&path).expect("the test's folder is readable");
        Faults { shared, folder }
    }

    /// The same broker, under these faults.
    #[must_use]
    pub fn on(&self, setup: Setup) -> Setup {
        setup.variable("LD_PRELOAD", self.folder.join("faults.so")).variable("METAQ_FAULTS", self.folder.join("shared"))
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.shared.write_all_at(bytes, at).expect("the shared file is writable");
    }

    fn set(&self, at: u64, number: i32) {
        self.write(at, &number.to_ne_bytes());
    }

    /// Faults concern only files with this in their path; empty is all.
    ///
    /// # Panics
    /// If it is too long.
    pub fn only(&self, path: &str) {
        assert!(path.len() < SHARED_BYTES - usize::try_from(PATH_AT).expect("a small number"));
        self.write(PATH_AT, &[path.as_bytes(), &[0]].concat());
    }

    /// Syncs fail so, or work again.
    pub fn sync(&self, error: Option<Errno>) {
        self.set(SYNC_AT, error.map_or(0, Errno::raw_os_error));
    }

    /// Syncs take so much longer.
    pub fn sync_takes(&self, milliseconds: i32) {
        self.set(SYNC_MS_AT, milliseconds);
    }

    /// Writes fail so, or work again.
    pub fn write_error(&self, error: Option<Errno>) {
        self.set(WRITE_AT, error.map_or(0, Errno::raw_os_error));
    }

    /// Reads fail so, or work again.
    pub fn read_error(&self, error: Option<Errno>) {
        self.set(READ_AT, error.map_or(0, Errno::raw_os_error));
    }

    /// A write writes at most so many bytes; 0 is all.
    pub fn short_writes(&self, bytes_max: i32) {
        self.set(WRITE_MAX_AT, bytes_max);
    }

    /// Moves the wall clock by so many milliseconds against the true one.
    pub fn clock_ms(&self, milliseconds: i64) {
        self.write(CLOCK_AT, &milliseconds.to_ne_bytes());
    }

    /// How many calls were given a fault so far.
    pub fn count(&self) -> i32 {
        let mut bytes = [0; 4];
        self.shared.read_exact_at(&mut bytes, COUNT_AT).expect("the shared file is readable");
        i32::from_ne_bytes(bytes)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_preloaded_program_meets_its_faults() {
        let faults = Faults::new();
        faults.only("target-of-faults");
        faults.sync(Some(Errno::IO));
        let folder = Folder::new();
        let run = |name: &str| {
            // dd syncs what it wrote.
            Command::new("dd")
                .args(["if=/dev/zero", "bs=10", "count=1", "conv=fdatasync", "status=none"])
                .arg(format!("of={}", folder.join(name).display()))
                .env("LD_PRELOAD", faults.folder.join("faults.so"))
                .env("METAQ_FAULTS", faults.folder.join("shared"))
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(run("other"));
        assert_eq!(faults.count(), 0);
        assert!(!run("target-of-faults"));
        assert!(faults.count() > 0);
        faults.sync(None);
        assert!(run("target-of-faults"));
        faults.sync_takes(300);
        let began = Instant::now();
        assert!(run("other") && began.elapsed() < Duration::from_millis(300));
        let began = Instant::now();
        assert!(run("target-of-faults") && began.elapsed() >= Duration::from_millis(300));
    }

    #[test]
    fn the_wall_clock_is_moved() {
        let faults = Faults::new();
        let year = || {
            let output = Command::new("date")
                .arg("+%Y")
                .env("LD_PRELOAD", faults.folder.join("faults.so"))
                .env("METAQ_FAULTS", faults.folder.join("shared"))
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).trim().parse::<i32>().unwrap()
        };
        let now = year();
        faults.clock_ms(-86_400_000 * 365 * 20);
        assert!((now - 21..=now - 19).contains(&year()), "{now} {}", year());
    }
}
