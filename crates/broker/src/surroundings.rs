//! What a broker is given from outside: time, chance, and who it is.

use crate::configuration::Settings;
use metaq_log::Clock;
use std::fmt;
use std::sync::Arc;

/// Numbers that nobody foresees; need not be secret.
pub type Random = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A configuration as read from its sources.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it means.
    pub settings: Settings,
    /// The bytes of `server.ini`, if there is one: what `stats config` answers.
    pub file: Option<Arc<[u8]>>,
}

/// What a broker is given from outside.
#[derive(Clone)]
pub struct Surroundings {
    /// Milliseconds since 1970.
    pub clock: Clock,
    /// Chooses partitions.
    pub random: Random,
    /// The process.
    pub pid: u32,
    /// The text that `version` is answered.
    pub version: String,
    /// The bytes of the configuration in effect; none without a file.
    pub file: Option<Arc<[u8]>>,
    /// Reads the configuration again; an error is what an operator is told.
    pub reload: Arc<dyn Fn() -> Result<Loaded, String> + Send + Sync>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("pid", &self.pid).field("version", &self.version).finish_non_exhaustive()
    }
}
