//! One number that a front end counts, told here without knowing the front end.

use std::fmt;
use std::sync::Arc;

/// What a number means over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It only rises while the process lives. Its metric's name gets `_total` at its end.
    Counter,
    /// It is of this moment.
    Gauge,
}

/// A number with its name and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Name of the metric, without `metaq_`.
    pub name: &'static str,
    /// A sentence without its full stop.
    pub about: &'static str,
    /// What it means over time.
    pub reading: Reading,
    /// The number.
    pub value: u64,
}

/// Reads the numbers of the fronts.
#[derive(Clone)]
pub struct Samples(Arc<dyn Fn() -> Vec<Sample> + Send + Sync>);

impl Samples {
    /// Numbers that `read` tells.
    pub fn new(read: impl Fn() -> Vec<Sample> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The numbers of this moment.
    pub fn read(&self) -> Vec<Sample> {
        (self.0)()
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Samples")
    }
}
