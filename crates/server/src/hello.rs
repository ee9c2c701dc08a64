//! What a client that knows extensions is told.

use crate::bounds::Bounds;
use metaq_protocol::extension::{HELLO_LEVEL, HelloAnswer};
use metaq_protocol::limits::{BATCH_RECORDS_MAX, FETCH_PARTS_MAX};
use metaq_protocol::{Status, answer};
use std::borrow::Cow;

/// What this server does beyond the original: our words, and `wait` for `get` and `fetch` that wait.
const FEATURES: [&str; 7] = ["puts", "wait", "fetch", "topic", "partition", "offsets", "admin"];

/// Appends the answer to a hello.
pub(crate) fn answer_hello(bounds: &Bounds, opaque: i32, out: &mut Vec<u8>) {
    let limits = [
        ("line", bounds.requests.line_bytes_max as u64),
        ("message", bounds.requests.message_bytes_max as u64),
        ("batch", bounds.requests.batch_bytes_max as u64),
        ("records", BATCH_RECORDS_MAX.into()),
        ("parts", FETCH_PARTS_MAX as u64),
        ("wait_ms", u64::try_from(bounds.wait_max.as_millis()).unwrap_or(u64::MAX)),
    ];
    let hello = HelloAnswer {
        level: HELLO_LEVEL,
        server: Cow::Borrowed(concat!("metaq/", env!("CARGO_PKG_VERSION"))),
        limits: limits.into_iter().map(|(name, limit)| (Cow::Borrowed(name), limit)).collect(),
        features: FEATURES.map(Cow::Borrowed).into(),
    };
    let mut text = Vec::new();
    hello.encode(&mut text);
    answer::result(out, Status::Ok, opaque, &text);
}
