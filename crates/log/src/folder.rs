//! Partition folders as they are found on disk: which there are, their segments, and whether these fit together.

use crate::files::segment_start;
use metaq_disk::{Disk, Kind};
use std::io;
use std::path::{Path, PathBuf};

/// One segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFile {
    /// Position of its first byte, from its name.
    pub start: u64,
    /// Its size.
    pub len: u64,
}

/// One partition folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The data path it stands in.
    pub root: PathBuf,
    /// Its own path.
    pub path: PathBuf,
    /// Topic, from its name up to the last `-`.
    pub topic: String,
    /// Index, from its name.
    pub index: u32,
    /// Its segments, by position.
    pub segments: Vec<SegmentFile>,
}

/// Topic and index of a partition folder's name, which ends in `-` and a number.
pub fn parse_name(name: &str) -> Option<(&str, u32)> {
    let (topic, index) = name.rsplit_once('-')?;
    let canonical = index.bytes().all(|byte| byte.is_ascii_digit()) && (index == "0" || !index.starts_with('0'));
    let named = metaq_protocol::TopicName::new(topic).is_ok();
    (canonical && named).then(|| index.parse().ok().map(|index| (topic, index)))?
}

/// All partition folders in a data path. Names that are no partition's are passed over with a warning, unless they are
/// ours or the original's.
pub fn folders(disk: &dyn Disk, root: &Path) -> io::Result<Vec<Folder>> {
    let mut found = Vec::new();
    for listed in disk.list(root)? {
        match (listed.kind, parse_name(&listed.name)) {
            (Kind::Folder, Some((topic, index))) => {
                let path = root.join(&listed.name);
                let segments = segments(disk, &path)?;
                found.push(Folder { root: root.to_owned(), path, topic: topic.to_owned(), index, segments });
            }
            _ if is_known(&listed.name) => {}
            _ => tracing::warn!(name = listed.name, ?root, "this is no partition's folder; it is left alone"),
        }
    }
    found.sort_by(|one, other| (&one.topic, one.index).cmp(&(&other.topic, other.index)));
    Ok(found)
}

fn is_known(name: &str) -> bool {
    name == "commit"
        || name == "transactions"
        || name == "lock"
        || name == crate::format::NAME
        || name.starts_with(crate::checkpoint::NAME)
        || name.starts_with("metaq.")
}

/// The segments in a partition's folder, by position. A `.meta` file whose name is no number is passed over with a warning.
pub fn segments(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found = Vec::new();
    for listed in disk.list(folder)? {
        let Some(start) = segment_start(&listed.name).filter(|_| listed.kind == Kind::File) else {
            if listed.name.ends_with(crate::files::SEGMENT_SUFFIX) {
                tracing::warn!(name = listed.name, ?folder, "this file's name is no position; it is left alone");
            }
            continue;
        };
        let len = disk.metadata(&folder.join(&listed.name))?.map_or(0, |metadata| metadata.len);
        found.push(SegmentFile { start, len });
    }
    found.sort_by_key(|segment| segment.start);
    Ok(found)
}

/// Where segments don't follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the segment at {start} ends at {end}, but the next one begins at {next}")]
pub struct Gap {
    /// Start of the segment before.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Start of the segment behind.
    pub next: u64,
}

impl Folder {
    /// The first place where segments don't follow each other.
    pub fn gap(&self) -> Option<Gap> {
        self.gaps().next()
    }

    /// All places where segments don't follow each other.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.segments.windows(2).filter_map(|pair| {
            let (start, end, next) = (pair[0].start, pair[0].start + pair[0].len, pair[1].start);
            (end != next).then_some(Gap { start, end, next })
        })
    }

    /// The folder's bare name.
    pub fn name(&self) -> String {
        format!("{}-{}", self.topic, self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_parsed_at_its_last_dash() {
        assert_eq!(parse_name("a-b-3"), Some(("a-b", 3)));
        assert_eq!(parse_name("audit.v2_log-0"), Some(("audit.v2_log", 0)));
        for name in ["transactions", "-1", "a-", "a-01", "a-x", "..-1", "a-99999999999"] {
            assert_eq!(parse_name(name), None, "{name}");
        }
    }
}
