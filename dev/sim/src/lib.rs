//! The deterministic simulator: a data directory on a disk that loses power, driven step by step, with a plain account
//! of what it must hold.
//!
//! [`run`] takes a seed, does everything at random that users and the log's own steps may do, and at every operation of
//! the disk opens what a crash there may leave. Nothing here has a thread, a clock or randomness of its own: the same
//! seed does the same to the last byte.

mod check;
mod explore;
mod history;
mod judge;
mod machine;
mod picture;
mod profile;
mod random;
mod script;
mod segments;
mod watched;
mod workload;

pub use explore::{Effort, Failure, Tally, run};
pub use history::{History, Seen};
pub use machine::{Left, Machine, Rig};
pub use picture::{Batch, Contents, Effect, Name, Picture};
pub use profile::{DATA_PATH, LOG_PATH, Profile};
pub use random::Random;
pub use script::START;
pub use segments::whole;
pub use watched::{Crash, Cut, Following, Image, Recorder, Watched};
