//! The text front end: cuts requests, has the broker judge them, answers in order, and never waits for a disk.
//!
//! * [`Server::start`] serves the connections of some listeners on threads of its own, each with one runtime of its own.
//! * The puts of one read of a socket are one submission to the log; its answers leave when the watermark covers them.
//! * `version` and `stats` are answered at once, whatever waits. Puts of one connection to one partition are stored and
//!   answered in order. Any other answer may overtake.
//! * Nothing is dropped: what there is no room for waits, and after a bounded time is refused with an answer.
//!
//! Absent on purpose: whether a request may be done (the broker), how bytes are kept (the log), other protocols.

mod answers;
mod bounds;
mod budgets;
mod cold;
mod connection;
mod counters;
mod gets;
mod hello;
mod input;
mod mailbox;
mod network;
mod output;
mod requests;
mod server;
mod shared;
mod slots;
mod spare;
mod waiters;

pub use bounds::Options;
pub use counters::Counters;
pub use server::{Server, Stopped};
