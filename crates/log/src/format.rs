//! `metaq.format`: whose data directory this is and which form it has, as lines `key value`.

use crate::checkpoint::{read_whole, replace};
use metaq_disk::Disk;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file in the log path.
pub const NAME: &str = "metaq.format";
/// The form this version reads and writes.
pub const FORMAT: u32 = 1;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The form of the directory.
    pub format: u32,
    /// The cluster it belongs to.
    pub cluster: String,
    /// The broker it belongs to.
    pub broker: u16,
    /// Name and version of the program that made it.
    pub program: String,
}

/// Why the directory can't be opened by this broker.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The disk failed.
    #[error("reading {NAME}: {0}")]
    Io(#[from] io::Error),
    /// It has a later form.
    #[error("the data directory has format {found}; this version reads format {FORMAT}: start a later version")]
    Later {
        /// The form found.
        found: u32,
    },
    /// It is another broker's.
    #[error(
        "the data directory belongs to broker {found} of cluster \"{found_cluster}\", and this is broker {broker} of \
         cluster \"{cluster}\": check brokerId and the data path"
    )]
    Foreign {
        /// Broker found.
        found: u16,
        /// Cluster found.
        found_cluster: String,
        /// This broker.
        broker: u16,
        /// This cluster.
        cluster: String,
    },
    /// A line is missing or isn't understood.
    #[error("{path} can't be understood at line {line}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// There is a checkpoint, but not this file.
    #[error("{folder} has a checkpoint but no {NAME}: restore it from a copy of the directory")]
    Missing {
        /// The log path.
        folder: PathBuf,
    },
}

impl Format {
    /// Reads the file; `None` if there is none.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, FormatError> {
        let path = folder.join(NAME);
        let Some(bytes) = read_whole(disk, &path)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let mut read = Self { format: 0, cluster: String::new(), broker: 0, program: String::new() };
        let mut lines = 0;
        for (at, line) in text.lines().enumerate() {
            lines = at + 1;
            let understood = line.split_once(' ').and_then(|(key, value)| read.set(key, value));
            understood.ok_or(FormatError::Malformed { path: path.clone(), line: lines })?;
        }
        match read.format {
            0 => Err(FormatError::Malformed { path, line: lines + 1 }),
            found if found > FORMAT => Err(FormatError::Later { found }),
            _ => Ok(Some(read)),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "format" => self.format = value.parse().ok()?,
            "cluster" => value.clone_into(&mut self.cluster),
            "broker" => self.broker = value.parse().ok()?,
            "program" => value.clone_into(&mut self.program),
            // A form that needs another line has a higher number.
            _ => return None,
        }
        Some(())
    }

    /// Writes the file, durably.
    pub fn write(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        let Self { format, cluster, broker, program } = self;
        let text = format!("format {format}\ncluster {cluster}\nbroker {broker}\nprogram {program}\n");
        replace(disk, folder, NAME, text.as_bytes())
    }

    /// Refuses a directory that is another broker's.
    pub fn check(&self, cluster: &str, broker: u16) -> Result<(), FormatError> {
        if self.cluster == cluster && self.broker == broker {
            return Ok(());
        }
        let found_cluster = self.cluster.clone();
        Err(FormatError::Foreign { found: self.broker, found_cluster, broker, cluster: cluster.to_owned() })
    }
}
