//! `metaq server`: a broker, made of its parts.

pub mod configuration;
pub mod keys;
