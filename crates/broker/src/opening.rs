//! How the data directory of a configuration is opened.

use crate::configuration::Settings;
use metaq_log::{Durability, Geometry, Options, PartitionSettings, Tuning};
use std::path::PathBuf;

/// Segment files kept open if nobody says how many the process may have.
const FILES_MAX: usize = 4096;

/// The folders that hold partitions by these settings: the broker's own first, then those of topic sections.
pub fn data_paths(settings: &Settings) -> Vec<PathBuf> {
    let mut paths = vec![settings.data_path.clone()];
    let sections = settings.effective().into_iter().filter(|value| value.section.starts_with("topic="));
    for path in sections.filter(|value| value.key.name == "dataPath").filter_map(|value| value.value) {
        let path = PathBuf::from(path);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// What the log is opened with. `program`: name and version, written into a fresh directory. `descriptors`: how many
/// files the process may have open.
pub fn log_options(settings: &Settings, program: &str, descriptors: Option<usize>) -> Options {
    let log = &settings.log;
    let files_max = log.descriptors_max.map(usize::from).or(descriptors.map(|all| all / 10 * 6));
    Options {
        data_paths: data_paths(settings),
        broker: settings.broker_id,
        program: program.to_owned(),
        ring: Geometry { files: log.commit_files, file_bytes: log.commit_file_bytes },
        tuning: tuning(settings),
        files_max: files_max.unwrap_or(FILES_MAX),
        settings: PartitionSettings { durability: Durability::Fsync, segment_bytes_max: 1 << 30 },
        ..Options::new(&settings.data_log_path, &settings.data_path)
    }
}

/// What may change of it while it is open.
pub(crate) fn tuning(settings: &Settings) -> Tuning {
    let log = &settings.log;
    Tuning {
        pending_bytes_max: usize::try_from(log.pending_bytes_max).unwrap_or(usize::MAX),
        checkpoint_every: log.checkpoint_interval,
        disk_reserve_bytes: log.disk_reserve_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Sources;

    #[test]
    fn every_folder_that_a_section_names_is_opened_once() {
        let file =
            b"[system]\ndataPath=/a\ncommitFiles=7\n[topic=t]\ndataPath=/b\n[topic=u*]\ndataPath=/b\n[topic=v]\n";
        let settings = Settings::load(&Sources { file: Some(file), overrides: &[], home: None }).unwrap();
        assert_eq!(data_paths(&settings), [PathBuf::from("/a"), PathBuf::from("/b")]);
        let options = log_options(&settings, "metaq test", Some(1000));
        assert_eq!((options.ring.files, options.files_max), (7, 600));
        assert_eq!(options.log_path, PathBuf::from("/a"));
    }
}
