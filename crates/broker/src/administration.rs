//! What an administrator asks of a running broker. These calls wait for the log, so they belong on a thread that may
//! block; one at a time.

mod offsets;
mod partitions;
mod settings;
mod topics;

#[cfg(test)]
mod tests;

use crate::broker::Broker;
use crate::refused::Refused;
use metaq_log::{Change, Outcome};
use metaq_protocol::extension::AdminCommand;
use metaq_protocol::{ErrorCode, Request};
use std::fmt::Display;
use std::time::Duration;

/// How long a change may take until it is settled.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
/// The most changes that are made as one.
pub(crate) const CHANGES_MAX: usize = 256;

impl Broker {
    /// Answers `topic`, `partition`, `offsets` and `admin` with lines, see [`crate::lines`]. Blocks.
    pub fn administer(&self, request: &Request<'_>) -> Result<String, Refused> {
        match request {
            Request::Topic { command, .. } => self.topic_command(command),
            Request::Partition { command, .. } => self.partition_command(command),
            Request::Offsets { command, .. } => self.offsets_command(command),
            Request::Admin { command, .. } => match command {
                AdminCommand::Reload => self.reload(),
                AdminCommand::Config => Ok(self.effective_settings()),
                AdminCommand::Checkpoint => self.checkpoint(),
                AdminCommand::Verify => self.verify(),
                AdminCommand::Backup { folder } => self.backup(folder),
            },
            _ => Err(Refused::new(ErrorCode::NotSupported, "this isn't an administrative request")),
        }
    }

    /// Makes changes and waits until they are settled. `what` is what the sentence of a refusal is about.
    pub(crate) fn change(&self, changes: Vec<Change>, what: impl Display) -> Result<Vec<Outcome>, Refused> {
        self.log.perform(changes, SETTLED_WITHIN).map_err(|error| Refused::by_perform(&error, what))
    }
}
