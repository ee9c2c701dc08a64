//! What a broker means, whatever front it is reached through.

pub mod configuration;
