//! The durable map: small facts that its users keep with the log (topics, offsets, members), by space and key.
//!
//! Every value has the entry that wrote it as its version. Readers see only what is settled.

use crate::bytes::{Put, Short, Take};
use crate::entry::StateChange;
use crate::submission::Condition;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A value and the entry that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The entry.
    pub version: u64,
    /// The bytes.
    pub value: Arc<[u8]>,
}

/// The map at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StateMap {
    values: BTreeMap<(u8, Vec<u8>), Versioned>,
}

impl StateMap {
    pub(crate) fn value(&self, space: u8, key: &[u8]) -> Option<&Versioned> {
        self.values.get(&(space, key.to_vec()))
    }

    /// All keys of a space that begin with `prefix`, in order.
    pub(crate) fn under(&self, space: u8, prefix: &[u8]) -> Vec<(Vec<u8>, Versioned)> {
        self.values
            .range((Bound::Included((space, prefix.to_vec())), Bound::Unbounded))
            .take_while(|((of, key), _)| *of == space && key.starts_with(prefix))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect()
    }

    /// The first condition that doesn't hold, and the key's version.
    pub(crate) fn unmet(&self, conditions: &[Condition]) -> Option<(usize, Option<u64>)> {
        conditions.iter().enumerate().find_map(|(at, condition)| {
            let version = self.value(condition.space, &condition.key).map(|value| value.version);
            (version != condition.version).then_some((at, version))
        })
    }

    pub(crate) fn change(&mut self, lsn: u64, changes: &[StateChange]) {
        for change in changes {
            let key = (change.space, change.key.clone());
            match &change.value {
                Some(value) => {
                    let value = value.as_slice().into();
                    self.values.insert(key, Versioned { version: lsn, value });
                }
                None => {
                    self.values.remove(&key);
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.u32(u32::try_from(self.values.len()).expect("the map is small"));
        for ((space, key), value) in &self.values {
            out.u8(*space);
            out.u64(value.version);
            out.block(key);
            out.block(&value.value);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<Self, Short> {
        let mut map = Self::default();
        for _ in 0..take.u32()? {
            let (space, version) = (take.u8()?, take.u64()?);
            let (key, value) = (take.block()?.to_vec(), take.block()?.into());
            map.values.insert((space, key), Versioned { version, value });
        }
        Ok(map)
    }
}
