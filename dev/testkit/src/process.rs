//! What the kernel says of a process.

use std::fs;

/// A process by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pid(u32);

impl Pid {
    /// Of the process with this number.
    pub fn of(number: u32) -> Self {
        Pid(number)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    fn proc(self, name: &str) -> String {
        let path = format!("/proc/{}/{name}", self.0);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("can't read {path}: {error}"))
    }

    /// Memory that it has in use (resident set), in bytes.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn resident_bytes(self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a running process has memory");
        let kilobytes: u64 = line
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("no number of kB in {line:?}"));
        kilobytes << 10
    }

    /// How many descriptors it has open.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn descriptors(self) -> usize {
        let path = format!("/proc/{}/fd", self.0);
        fs::read_dir(&path).unwrap_or_else(|error| panic!("can't list {path}: {error}")).count()
    }

    /// CPU time that it has used, in clock ticks (normally 10 ms), its own and the kernel's for it.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn cpu_ticks(self) -> u64 {
        let stat = self.proc("stat");
        // The second field is the name in parentheses, and may hold anything.
        let (_, fields) = stat.rsplit_once(')').expect("stat holds a name in parentheses");
        fields
            .split_ascii_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().expect("ticks are a number"))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_descriptors_and_used_time() {
        let own = Pid::of(std::process::id());
        assert!(own.resident_bytes() > 100_000);
        assert!(own.descriptors() >= 3);
        let _ticks = own.cpu_ticks();
    }
}
