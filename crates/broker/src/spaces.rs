//! Which numbers of the log's durable map are whose. A number is never given again to something else.

/// Topics: by name, see `topics`.
pub const TOPICS: u8 = 1;
/// Closed partitions: `<topic>/<index>`, with an empty value.
pub const CLOSED: u8 = 2;
/// How far groups have read: `<group>/<topic>/<index>`.
pub const OFFSETS: u8 = 3;
/// Entries of the embedded registry, by key.
pub const REGISTRY: u8 = 4;
/// Leases of the embedded registry, by number.
pub const LEASES: u8 = 5;
