//! Every limit of the text protocol, with its default.

/// Most bytes of a topic's or group's name.
pub const NAME_BYTES_MAX: usize = 200;
/// Most records of one batched put: the ids of a batch are consecutive inside one 12-bit counter.
pub const BATCH_RECORDS_MAX: u32 = 4096;
/// Most parts of one fetch.
pub const FETCH_PARTS_MAX: usize = 1024;

/// What a decoder accepts. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, its CRLF not counted. A longer one ends the connection.
    pub line_bytes_max: usize,
    /// Largest body of a `put` or `sync`: attribute block and payload of one message.
    pub message_bytes_max: usize,
    /// Largest body of a `puts`.
    pub batch_bytes_max: usize,
    /// Largest body of an answer (`result`, `value`).
    pub answer_bytes_max: usize,
    /// A body over its limit, but not over this one, is read and thrown away so that the request can be answered
    /// and the connection lives. Beyond it the connection ends.
    pub discard_bytes_max: usize,
}

impl Limits {
    /// 64 KiB lines, 2 MiB messages (what an original consumer can read), 4 MiB batches, 64 MiB answers, 64 MiB thrown away.
    pub const DEFAULT: Limits = Limits {
        line_bytes_max: 64 << 10,
        message_bytes_max: 2 << 20,
        batch_bytes_max: 4 << 20,
        answer_bytes_max: 64 << 20,
        discard_bytes_max: 64 << 20,
    };
}

const _: () = {
    let limits = Limits::DEFAULT;
    assert!(limits.batch_bytes_max >= limits.message_bytes_max + crate::record::HEADER_BYTES);
    assert!(limits.discard_bytes_max >= limits.batch_bytes_max);
};

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}
