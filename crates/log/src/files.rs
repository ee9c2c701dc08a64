//! Open files of segments and their indexes: opened on first use, a bounded number, least recently used first out.

use lru::LruCache;
use metaq_disk::{Disk, File, Open};
use parking_lot::Mutex;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which file of which partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    pub partition: u32,
    pub start: u64,
    pub kind: FileKind,
}

/// A segment or its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FileKind {
    Segment,
    Index,
}

impl FileKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Segment => SEGMENT_SUFFIX,
            Self::Index => INDEX_SUFFIX,
        }
    }
}

/// Ends the name of a segment.
pub const SEGMENT_SUFFIX: &str = ".meta";
/// Ends the name of a segment's index.
pub const INDEX_SUFFIX: &str = ".index";

/// The path of the file of kind `kind` that starts at `start`.
pub(crate) fn path(folder: &Path, start: u64, kind: FileKind) -> PathBuf {
    folder.join(format!("{start:020}{}", kind.suffix()))
}

/// The start position that a segment's name says; `None` if it isn't a segment's name.
pub(crate) fn segment_start(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let canonical = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if canonical { digits.parse().ok().filter(|start| i64::try_from(*start).is_ok()) } else { None }
}

pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    open: Mutex<LruCache<FileKey, Arc<dyn File>>>,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        let limit = NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN);
        Self { disk, open: Mutex::new(LruCache::new(limit)) }
    }

    /// The file, opened if it isn't. `create`: it may not exist yet.
    pub(crate) fn open(&self, folder: &Path, key: FileKey, create: bool) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.open.lock().get(&key) {
            return Ok(Arc::clone(file));
        }
        let how = if create { Open::Create } else { Open::Write };
        let file = self.disk.open(&path(folder, key.start, key.kind), how)?;
        self.open.lock().put(key, Arc::clone(&file));
        Ok(file)
    }

    /// Forgets a file; who uses it still can.
    pub(crate) fn forget(&self, key: FileKey) {
        self.open.lock().pop(&key);
    }

    /// Forgets all files of a partition.
    pub(crate) fn forget_partition(&self, partition: u32) {
        let mut open = self.open.lock();
        let keys: Vec<_> = open.iter().map(|(key, _)| *key).filter(|key| key.partition == partition).collect();
        keys.iter().for_each(|key| _ = open.pop(key));
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_before_meta_name_a_segment() {
        assert_eq!(segment_start("00000000000000004177.meta"), Some(4177));
        for name in ["copy of 0.meta", ".meta", "1.meta.arc", "-1.meta", "+1.meta", "99999999999999999999.meta"] {
            assert_eq!(segment_start(name), None, "{name}");
        }
    }

    #[test]
    fn segments_are_named_with_twenty_digits() {
        assert_eq!(path(Path::new("t-0"), 620, FileKind::Segment), Path::new("t-0/00000000000000000620.meta"));
    }
}
