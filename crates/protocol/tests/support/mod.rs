//! Runs bytes through a decoder, at once and byte by byte, and finds that it makes no difference. The fuzz targets use it too.

#![allow(dead_code, reason = "each test uses its part")]

use metaq_protocol::request::Stats;
use metaq_protocol::{Answer, AnswerDecoder, Decoded, DecodedAnswer, Decoder, Limits, Malformed, Oversized, Request};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No byte is left.
    AllConsumed,
    /// So many bytes wait for more.
    NeedsMore { left: usize },
    /// The connection is closed.
    Closes(Malformed),
}

/// What one side said.
#[derive(Debug, Clone, PartialEq)]
pub enum Said<'a> {
    Request(Request<'a>),
    Oversized(Oversized<'a>),
}

/// A limit that no test reaches.
pub const UNLIMITED: Limits = Limits {
    line_bytes_max: usize::MAX / 2,
    message_bytes_max: usize::MAX / 2,
    batch_bytes_max: usize::MAX / 2,
    answer_bytes_max: usize::MAX / 2,
    discard_bytes_max: usize::MAX / 2,
};

/// The requests in `bytes`. A body that is too large is thrown away as a server does.
pub fn requests(bytes: &[u8], limits: Limits) -> (Vec<Said<'_>>, Ending) {
    let at_once = cut_requests(bytes, limits, bytes.len());
    for step in [1, 7] {
        assert_eq!(
            cut_requests(bytes, limits, step),
            at_once,
            "{step} at a time: {:?}",
            String::from_utf8_lossy(bytes)
        );
    }
    at_once
}

fn cut_requests(bytes: &[u8], limits: Limits, step: usize) -> (Vec<Said<'_>>, Ending) {
    let mut decoder = Decoder::new(limits);
    let (mut from, mut to, mut found) = (0, step.min(bytes.len()), Vec::new());
    let mut needed_before = 0;
    loop {
        match decoder.decode(&bytes[from..to]) {
            Ok(Decoded::Request { request, used }) => {
                assert!(used > 0 && used <= to - from && to - from >= needed_before);
                (from, needed_before) = (from + used, 0);
                found.push(Said::Request(request));
            }
            Ok(Decoded::Oversized(oversized)) => {
                let skip = oversized.used + oversized.size;
                found.push(Said::Oversized(oversized));
                let Some(behind) = from.checked_add(skip).filter(|&behind| behind <= bytes.len()) else {
                    return (found, Ending::NeedsMore { left: 0 });
                };
                (from, to, needed_before) = (behind, to.max(behind), 0);
            }
            Ok(Decoded::Incomplete { needed }) => {
                assert!(needed > to - from, "needs {needed} and has {}", to - from);
                needed_before = needed_before.max(needed);
                if to == bytes.len() {
                    let left = to - from;
                    return (found, if left == 0 { Ending::AllConsumed } else { Ending::NeedsMore { left } });
                }
                to = (to + step).min(bytes.len());
            }
            Err(malformed) => return (found, Ending::Closes(malformed)),
        }
    }
}

/// The answers in `bytes`.
pub fn answers(bytes: &[u8], limits: Limits) -> (Vec<Answer<'_>>, Ending) {
    let at_once = cut_answers(bytes, limits, bytes.len());
    assert_eq!(cut_answers(bytes, limits, 1), at_once, "byte by byte: {:?}", String::from_utf8_lossy(bytes));
    at_once
}

fn cut_answers(bytes: &[u8], limits: Limits, step: usize) -> (Vec<Answer<'_>>, Ending) {
    let mut decoder = AnswerDecoder::new(limits);
    let (mut from, mut to, mut found) = (0, step.min(bytes.len()), Vec::new());
    loop {
        match decoder.decode(&bytes[from..to]) {
            Ok(DecodedAnswer::Answer { answer, used }) => {
                from += used;
                found.push(answer);
            }
            Ok(DecodedAnswer::Incomplete { needed }) => {
                assert!(needed > to - from);
                if to == bytes.len() {
                    let left = to - from;
                    return (found, if left == 0 { Ending::AllConsumed } else { Ending::NeedsMore { left } });
                }
                to = (to + step).min(bytes.len());
            }
            Err(malformed) => return (found, Ending::Closes(malformed)),
        }
    }
}

/// What has two ways to be said becomes the one that is written.
pub fn normalize(request: &mut Request<'_>) {
    match request {
        Request::Stats(Stats { item: item @ None, .. }) => *item = Some("".into()),
        Request::Transaction(step) => {
            step.timeout_seconds = step.timeout_seconds.max(0);
            step.qualifier = step.qualifier.take().filter(|text| !text.trim().is_empty());
        }
        _ => {}
    }
}
