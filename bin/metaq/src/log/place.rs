//! Which directory is meant, and which part of it.

use crate::exit::Failure;
use crate::server::configuration::Configuration;
use metaq_broker::{data_paths, log_options};
use metaq_disk::RealDisk;
use metaq_log::offline::Directory;
use metaq_log::{Format, Options, parse_name};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags that say which directory is meant.
#[derive(Debug, Clone, clap::Args)]
pub struct Place {
    /// The data directory
    #[arg(value_name = "DIR", required_unless_present = "config")]
    folder: Option<PathBuf>,
    /// Takes dataPath and dataLogPath from this `server.ini` instead
    #[arg(short = 'f', long, value_name = "FILE", env = "METAQ_CONFIG")]
    config: Option<PathBuf>,
    /// Where the commit log lies, if not in DIR (dataLogPath)
    #[arg(long, value_name = "DIR", env = "METAQ_LOG_PATH")]
    log_path: Option<PathBuf>,
    /// Other folders that hold partitions (dataPath of topics)
    #[arg(long, value_name = "DIR", env = "METAQ_DATA_PATH")]
    data_path: Vec<PathBuf>,
}

/// As [`Place`], for commands with more words behind the directory.
#[derive(Debug, Clone, clap::Args)]
pub struct NamedPlace {
    /// The data directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where the commit log lies, if not in DIR (dataLogPath)
    #[arg(long, value_name = "DIR", env = "METAQ_LOG_PATH")]
    log_path: Option<PathBuf>,
    /// Other folders that hold partitions (dataPath of topics)
    #[arg(long, value_name = "DIR", env = "METAQ_DATA_PATH")]
    data_path: Vec<PathBuf>,
}

impl NamedPlace {
    /// The directory that is meant.
    pub fn meant(&self) -> Result<Meant, Failure> {
        let Self { folder, log_path, data_path } = self.clone();
        Place { folder: Some(folder), config: None, log_path, data_path }.meant(None)
    }
}

/// The directory that is meant.
#[derive(Debug)]
pub struct Meant {
    /// Its paths.
    pub directory: Directory,
    /// What a broker would open it with.
    pub options: Options,
}

impl Place {
    /// The directory that is meant. `broker`: whose it is, if nothing says so.
    pub fn meant(&self, broker: Option<u16>) -> Result<Meant, Failure> {
        let disk = Arc::new(RealDisk);
        let program = concat!("metaq ", env!("CARGO_PKG_VERSION"));
        let mut options = match (&self.folder, &self.config) {
            (Some(folder), _) => {
                exists(folder)?;
                let folder = whole(folder);
                Options { program: program.to_owned(), ..Options::new(&folder, &folder) }
            }
            (None, Some(file)) => {
                let configuration = Configuration { file: Some(file.clone()), overrides: Vec::new() };
                let settings = configuration.needed()?.settings;
                let mut options = log_options(&settings, program, None);
                options.data_paths = data_paths(&settings);
                exists(&options.log_path)?;
                options
            }
            (None, None) => return Err(Failure::usage("name a data directory, or a server.ini with -f")),
        };
        if let Some(log_path) = &self.log_path {
            exists(log_path)?;
            options.log_path = whole(log_path);
        }
        options.data_paths.extend(self.data_path.iter().map(|path| whole(path)));
        if let Ok(Some(format)) = Format::read(&*disk, &options.log_path) {
            options.cluster = format.cluster;
            options.broker = format.broker;
        } else if let Some(broker) = broker {
            options.broker = broker;
        }
        let directory = Directory::new(disk, options.log_path.clone(), options.data_paths.clone());
        Ok(Meant { directory, options })
    }
}

impl Meant {
    /// What the directory is called when something is to be confirmed: the last part of its path.
    pub fn name(&self) -> String {
        let path = &self.directory.log_path;
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// The whole path: a directory remembers where its partitions stand.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Nothing is created by mistyping a path.
fn exists(folder: &Path) -> Result<(), Failure> {
    if folder.is_dir() {
        return Ok(());
    }
    Err(super::refused(format!("there is no folder {}", folder.display())))
}

/// `<topic>-<index>`.
pub fn partition(text: &str) -> Result<(String, u32), String> {
    let (topic, index) = parse_name(text).ok_or("it is TOPIC-INDEX, as the folder is called: orders-0")?;
    Ok((topic.to_owned(), index))
}

/// `<from>` or `<from>-<to>`.
pub fn range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to): (Option<u32>, Option<u32>) = (from.parse().ok(), to.parse().ok());
    from.zip(to)
        .filter(|(from, to)| from <= to)
        .map(|(from, to)| from..=to)
        .ok_or("it is 3, or a range as 2-5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_folder_that_is_not_there_is_not_made() {
        let folder = std::env::temp_dir().join("metaq-no-such-folder");
        let place = Place { folder: Some(folder.clone()), config: None, log_path: None, data_path: vec![] };
        assert_eq!(place.meant(None).unwrap_err().exit, Exit::Directory);
        assert!(!folder.exists());
    }

    #[test]
    fn partitions_are_named_as_their_folders() {
        assert_eq!(partition("a-b-3"), Ok(("a-b".to_owned(), 3)));
        assert!(partition("orders").is_err());
        assert_eq!(range("2-5"), Ok(2..=5));
        assert!(range("5-2").is_err());
    }
}
