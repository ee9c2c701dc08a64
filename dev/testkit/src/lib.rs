//! The black-box test kit: starts the real broker, speaks to it over plain sockets, and checks what it says.
//!
//! * It knows the broker only as a program, an address and a folder; nothing here links the broker.
//! * It panics where a test would: every wait has a deadline, and every panic says what came instead and shows the broker's log.
//! * Nothing outlives its owner: folders are removed, processes ended, with the value that stands for them.

pub mod broker;
pub mod file;
pub mod folder;
pub mod golden;
pub mod history;
pub mod ini;
pub mod pattern;
pub mod preload;
pub mod process;
pub mod put;
pub mod random;
pub mod record;
pub mod shared;
pub mod transcript;
pub mod wait;
pub mod wire;
pub mod writer;

pub use broker::{Broker, Refusal, Setup};
pub use folder::Folder;
pub use history::{History, Ledger};
pub use ini::Ini;
pub use put::Put;
pub use random::Random;
pub use shared::Shared;
pub use transcript::Transcript;
pub use wait::until;
pub use wire::{Frame, Lost, Wire};
