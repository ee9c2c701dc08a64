//! What a process uses, as the kernel accounts it.

use serde::Serialize;
use std::fs;

/// CPU, memory and disk of a process at one moment.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Usage {
    /// CPU seconds, user and system.
    pub cpu_seconds: f64,
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Highest resident bytes so far.
    pub rss_max_bytes: u64,
    /// Bytes sent to the disk.
    pub written_bytes: u64,
}

impl Usage {
    /// Of the process `pid` and all its threads.
    pub fn of(pid: u32) -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let (status, io) = (read("status"), read("io"));
        Self {
            cpu_seconds: schedule_seconds(pid),
            rss_bytes: field(&status, "VmRSS:") * 1024,
            rss_max_bytes: field(&status, "VmHWM:") * 1024,
            written_bytes: field(&io, "write_bytes:"),
        }
    }
}

/// Seconds on a CPU by the scheduler's nanosecond clock (`stat` counts only hundredths).
fn schedule_seconds(pid: u32) -> f64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let nanos = |path: std::path::PathBuf| {
        fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse::<u64>().ok()
    };
    tasks.filter_map(|task| nanos(task.ok()?.path())).sum::<u64>() as f64 / 1e9
}
