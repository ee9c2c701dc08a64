//! Why a call of the registry didn't do what was asked.

use crate::{Entry, Key, LeaseId};

/// Three ways to fail, told apart by what the caller knows and has to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The change did not happen, since its conditions don't hold: decide anew from what is there.
    #[error("the change didn't happen: {0}")]
    Conflict(Conflict),
    /// The change has happened or never will, and nobody knows which: read, and compare who wrote it.
    /// [`crate::change_surely`] does.
    #[error("the registry was lost while it made a change: whether it happened is unknown")]
    Unknown,
    /// Nothing happened: try again later.
    #[error("the registry can't be reached: {0}")]
    Unavailable(String),
}

/// What stands in the way of a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} of its conditions don't hold{}", .found.len(), .ended.map(|_| ", and its lease has ended").unwrap_or_default())]
pub struct Conflict {
    /// What stands under the keys whose conditions don't hold.
    pub found: Vec<(Key, Option<Entry>)>,
    /// A lease that was to be put with but has ended.
    pub ended: Option<LeaseId>,
}
