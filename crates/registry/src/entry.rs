//! What stands under a key, and who wrote it.

use std::fmt;
use std::sync::Arc;

use crate::{Key, LeaseId};

/// The largest value, in bytes: a ZooKeeper node with all around it stays below 1 MiB.
pub const VALUE_BYTES_MAX: usize = 512 << 10;

/// A running number of changes: each that happened has a greater one than all before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// Bytes of at most [`VALUE_BYTES_MAX`]. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(Arc<[u8]>);

/// A value with more than [`VALUE_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a value has at most {VALUE_BYTES_MAX} bytes, not {0}")]
pub struct TooLarge(pub usize);

impl Value {
    /// A value of these bytes.
    ///
    /// # Errors
    /// If there are too many.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, TooLarge> {
        let bytes = bytes.as_ref();
        if bytes.len() > VALUE_BYTES_MAX { Err(TooLarge(bytes.len())) } else { Ok(Self(bytes.into())) }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Who made a change: never used for two, so that whoever doesn't know whether its change happened can
/// see by reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// Drawn anew at each start of a process.
    pub incarnation: u64,
    /// Counts the changes of that incarnation.
    pub counter: u64,
}

/// What stands under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// The revision that wrote it: no key has the same twice, removals in between included.
    pub version: Revision,
    /// The lease that it ends with, if any.
    pub lease: Option<LeaseId>,
    /// Who wrote it.
    pub written_by: Writer,
}

/// The entries below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// They, in the order of their keys.
    pub entries: Vec<(Key, Entry)>,
    /// Every change up to this is in it; wait for changes since this.
    pub revision: Revision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_bounded() {
        assert_eq!(Value::new(vec![0; VALUE_BYTES_MAX + 1]), Err(TooLarge(VALUE_BYTES_MAX + 1)));
        assert!(Value::new(vec![0; VALUE_BYTES_MAX]).is_ok());
    }
}
