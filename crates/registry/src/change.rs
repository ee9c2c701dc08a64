//! A change: what must hold, and what then happens, whole or not at all.

use crate::{Key, LeaseId, Revision, Value, Writer};

/// The most operations that one change has; a caller with more makes several.
pub const OPERATIONS_MAX: usize = 64;

/// What must stand under a key for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Absent,
    /// An entry of this version.
    Is(Revision),
}

/// A key and what must stand under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The key.
    pub key: Key,
    /// What must stand under it.
    pub expected: Expected,
}

/// One thing that a change does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Puts a value under a key, whatever stands there.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Value,
        /// The lease that the entry ends with; if it has ended already, the change conflicts.
        lease: Option<LeaseId>,
    },
    /// Removes an entry; what isn't there is removed already.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Operation {
    /// The key that it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Conditions and operations; no key is in two operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    by: Writer,
    conditions: Vec<Condition>,
    operations: Vec<Operation>,
}

impl Change {
    /// A change without effect, to be filled.
    pub fn by(writer: Writer) -> Self {
        Self { by: writer, conditions: Vec::new(), operations: Vec::new() }
    }

    /// Happens only if that stands under the key.
    #[must_use]
    pub fn when(mut self, key: &Key, expected: Expected) -> Self {
        self.conditions.push(Condition { key: key.clone(), expected });
        self
    }

    /// Puts a value that stays.
    ///
    /// # Panics
    /// If there is an operation on the key already, or there are [`OPERATIONS_MAX`].
    #[must_use]
    pub fn put(self, key: &Key, value: Value) -> Self {
        self.and(Operation::Put { key: key.clone(), value, lease: None })
    }

    /// Puts a value that goes when the lease ends.
    ///
    /// # Panics
    /// As [`Change::put`].
    #[must_use]
    pub fn put_leased(self, key: &Key, value: Value, lease: LeaseId) -> Self {
        self.and(Operation::Put { key: key.clone(), value, lease: Some(lease) })
    }

    /// Removes an entry.
    ///
    /// # Panics
    /// As [`Change::put`].
    #[must_use]
    pub fn delete(self, key: &Key) -> Self {
        self.and(Operation::Delete { key: key.clone() })
    }

    fn and(mut self, operation: Operation) -> Self {
        let key = operation.key();
        assert!(self.operations.iter().all(|earlier| earlier.key() != key), "{key} is changed twice by one change");
        assert!(self.operations.len() < OPERATIONS_MAX, "a change has more than {OPERATIONS_MAX} operations");
        self.operations.push(operation);
        self
    }

    /// Who makes it.
    pub fn writer(&self) -> Writer {
        self.by
    }

    /// What must hold.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// What it does.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a is changed twice")]
    fn one_change_touches_a_key_once() {
        let key = Key::new("a").expect("a key");
        let value = Value::new("x").expect("a value");
        let _ = Change::by(Writer { incarnation: 1, counter: 1 }).put(&key, value).delete(&key);
    }
}
