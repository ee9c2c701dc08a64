//! Faults by rule: what fails, on which paths, and which of the operations that match.

use std::ops::Range;
use std::path::Path;

/// What goes wrong with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// [`File::write_at`](crate::File::write_at) writes fewer bytes than given, at least one (all of a single byte).
    ShortWrite,
    /// [`File::read_at`](crate::File::read_at) reads fewer bytes than there are, at least one.
    ShortRead,
    /// Writes (bytes and zeros) fail with `EIO` and write nothing.
    FailWrite,
    /// Writes (bytes and zeros) fail with `ENOSPC` and write nothing.
    NoSpace,
    /// Reads fail with `EIO`.
    FailRead,
    /// Syncs (of a file, a folder, or all) fail with `EIO`. The unsynced bytes they were about are taken for written
    /// although they are not on the device: the next sync succeeds and they are lost all the same, as on Linux.
    /// Names that a failed sync was about stay unsynced: the next sync brings them to the device.
    FailSync,
    /// Changes of names (creation, renaming, linking, removal) fail with `EIO` and change nothing.
    FailName,
    /// Opening fails with `EIO`.
    FailOpen,
    /// [`File::set_len`](crate::File::set_len) fails with `EIO` and changes nothing.
    FailSetLen,
}

#[derive(Debug)]
struct Rule {
    path_part: String,
    fault: Fault,
    /// Which matching operations fail, counted from 0.
    occurrences: Range<u64>,
    seen: u64,
}

/// All rules of a disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
    pub(super) fired: u64,
}

impl Faults {
    pub(super) fn inject(&mut self, path_part: &str, fault: Fault, occurrences: Range<u64>) {
        self.rules.push(Rule { path_part: path_part.to_owned(), fault, occurrences, seen: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault, of those an operation may suffer, that befalls this one. Every rule that matches counts it.
    pub(super) fn strike(&mut self, path: &Path, possible: &[Fault]) -> Option<Fault> {
        if self.rules.is_empty() {
            return None;
        }
        let path = path.to_string_lossy();
        let mut struck = None;
        for rule in &mut self.rules {
            if possible.contains(&rule.fault) && path.contains(&rule.path_part) {
                let befalls = rule.occurrences.contains(&rule.seen);
                rule.seen += 1;
                if befalls && struck.is_none() {
                    struck = Some(rule.fault);
                }
            }
        }
        self.fired += u64::from(struck.is_some());
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_only_what_it_matches() {
        let mut faults = Faults::default();
        faults.inject("log", Fault::FailSync, 1..2);
        let mut strike = |path: &str, fault| faults.strike(Path::new(path), &[fault]);
        assert_eq!(strike("/other", Fault::FailSync), None);
        assert_eq!(strike("/log", Fault::FailWrite), None);
        assert_eq!(strike("/log", Fault::FailSync), None);
        assert_eq!(strike("/log", Fault::FailSync), Some(Fault::FailSync));
        assert_eq!(strike("/log", Fault::FailSync), None);
        assert_eq!(faults.fired, 1);
    }
}
