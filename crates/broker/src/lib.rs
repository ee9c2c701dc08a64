//! What a broker means, whatever front it is reached through: one file per use case.
//!
//! * [`Broker`] is what fronts call. Puts go into a [`metaq_log::Submission`] of the caller, gets give a slice of a
//!   file; neither blocks. [`Broker::administer`] blocks and belongs on a thread of its own.
//! * [`configuration`] is what an operator may set.
//!
//! Absent on purpose: sockets, async runtimes, clocks and randomness (they come with [`Surroundings`]), and `std::fs`
//! (files are reached through [`metaq_disk::Disk`]).

mod administration;
mod backup;
mod broker;
pub mod configuration;
mod counters;
mod files;
mod gauges;
mod get;
mod health;
mod hello;
pub mod lines;
mod opening;
mod put;
mod refused;
mod registry;
mod retention;
mod slow;
pub mod spaces;
mod stats;
mod surroundings;
mod survey;
#[cfg(test)]
mod testbed;
mod topic;
mod topics;

pub use broker::{Broker, StartError};
pub use gauges::Gauges;
pub use get::Got;
pub use health::Health;
pub use opening::{data_paths, log_options};
pub use refused::Refused;
pub use registry::EmbeddedRegistry;
pub use retention::{Ran, Retention};
pub use slow::WaitedFor;
pub use stats::{Counts, StatsAnswer};
pub use surroundings::{Loaded, Random, Surroundings};
pub use survey::Surveyed;
