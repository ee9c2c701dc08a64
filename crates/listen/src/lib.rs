//! Accepting clients: who may come in, how many, and how their sockets are set.
//!
//! A front end binds a [`Listener`] and takes [`Accepted`] connections from it, one by one. A listener is never lost:
//! whatever accepting fails of, it goes on when it can. What the bytes mean is the front end's business.

mod identity;
mod listener;
mod options;
mod places;
mod seldom;

pub use identity::Identity;
pub use listener::{Accepted, BindError, Listener};
pub use options::Options;
pub use places::{Place, Places};
pub use seldom::Seldom;
