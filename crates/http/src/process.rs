//! What the process takes of the machine, as the kernel tells it.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// What the process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Process {
    /// Bytes of memory that are there; 0 if the kernel doesn't tell.
    pub resident_bytes: u64,
    /// Open descriptors; 0 if the kernel doesn't tell.
    pub descriptors: u64,
    /// Threads; 0 if the kernel doesn't tell.
    pub threads: u64,
    /// Time that processors worked for it.
    pub processor: Duration,
}

impl Process {
    /// Of this process, at this moment.
    pub(crate) fn this() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self {
            resident_bytes: field(&status, "VmRSS:") * 1024,
            descriptors: descriptors as u64,
            threads: field(&status, "Threads:"),
            processor: Duration::try_from(time).unwrap_or_default(),
        }
    }
}

/// The first number behind a name at a line's beginning.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_memory_descriptors_threads_and_time() {
        let before = Process::this();
        let file = fs::File::open("/proc/self/status").unwrap();
        let after = Process::this();
        assert!(before.resident_bytes > 100 << 10 && before.threads >= 1, "{before:?}");
        assert!(after.descriptors > 3 && after.processor >= before.processor, "{after:?}");
        drop(file);
    }

    #[test]
    fn a_field_that_is_not_there_is_nothing() {
        assert_eq!(field("Name:\tx\nVmRSS:\t  123 kB\n", "VmRSS:"), 123);
        assert_eq!(field("Name:\tx\n", "VmRSS:"), 0);
    }
}
