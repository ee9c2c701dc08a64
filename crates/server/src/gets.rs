//! Gets and fetches: what is there, whether to wait for more, and the answer.

use crate::output::{Means, Output};
use metaq_broker::{Broker, Got};
use metaq_log::{Partition, Slice};
use metaq_protocol::extension::Fetch;
use metaq_protocol::limits::FETCH_PARTS_MAX;
use metaq_protocol::request::{Get, Wait};
use metaq_protocol::{Decoded, Decoder, Limits, Request, Status, answer};
use std::io;
use std::sync::Arc;

/// The most bytes of logs that one fetch is answered with: with their heads, less than a client's decoder takes.
const FETCH_BYTES: u32 = 32 << 20;

const _: () = assert!(FETCH_BYTES as usize + FETCH_PARTS_MAX * 1024 <= Limits::DEFAULT.answer_bytes_max);

/// A request for bytes, which may wait for them.
pub(crate) enum Asked<'a> {
    Get(Get<'a>),
    Fetch(Fetch<'a>),
}

/// What was found for one.
pub(crate) enum Found {
    One(Got),
    Parts(Vec<Got>),
}

impl<'a> Asked<'a> {
    /// Reads a line again that was read before.
    pub(crate) fn again(line: &'a [u8], limits: Limits) -> Self {
        match Decoder::new(limits).decode(line) {
            Ok(Decoded::Request { request: Request::Get(get), .. }) => Asked::Get(get),
            Ok(Decoded::Request { request: Request::Fetch(fetch), .. }) => Asked::fetch(fetch),
            other => unreachable!("a line that waits was a get or a fetch, not {other:?}"),
        }
    }

    pub(crate) fn fetch(fetch: Fetch<'a>) -> Self {
        Asked::Fetch(Fetch { size: fetch.size.min(FETCH_BYTES), ..fetch })
    }

    pub(crate) fn wait(&self) -> Wait {
        match self {
            Asked::Get(get) => get.wait,
            Asked::Fetch(fetch) => fetch.wait,
        }
    }

    /// Looks for the first time.
    pub(crate) fn look(&self, broker: &Broker) -> Found {
        match self {
            Asked::Get(get) => Found::One(broker.get(get)),
            Asked::Fetch(fetch) => Found::Parts(broker.fetch(fetch)),
        }
    }

    pub(crate) fn look_again(&self, broker: &Broker) -> Found {
        match self {
            Asked::Get(get) => Found::One(broker.get_again(get)),
            Asked::Fetch(fetch) => Found::Parts(broker.fetch_again(fetch)),
        }
    }

    /// The partitions that may bring what is missing; none: what was found is the answer.
    pub(crate) fn lacks(&self, found: &Found, broker: &Broker) -> Vec<Arc<Partition>> {
        let min = self.wait().min_bytes as usize;
        match (self, found) {
            (Asked::Get(get), Found::One(got)) => {
                let min = min.min(usize::try_from(get.size).unwrap_or(0));
                lacking(got, &get.topic, get.partition, broker).filter(|(there, _)| *there < min).map(|(_, of)| of)
            }
            .into_iter()
            .collect(),
            (Asked::Fetch(fetch), Found::Parts(all)) => {
                let parts = || fetch.parts.iter().zip(all);
                // Whatever says more than "nothing yet" is worth an answer.
                if all.iter().any(|got| !matches!(got, Got::Slice(_) | Got::AtEnd { .. } | Got::NotFound { .. })) {
                    return Vec::new();
                }
                let lacking: Vec<_> =
                    parts().filter_map(|(part, got)| lacking(got, &part.topic, part.partition, broker)).collect();
                let there: usize = lacking.iter().map(|(there, _)| there).sum();
                let is_enough = there >= min.min(fetch.size as usize);
                if is_enough { Vec::new() } else { lacking.into_iter().map(|(_, partition)| partition).collect() }
            }
            _ => unreachable!("a get finds one, a fetch finds parts"),
        }
    }

    /// Appends the answer. An error: a slice that is in memory can't be read, and the answer is broken.
    pub(crate) fn answer(&self, found: Found, output: &mut Output, means: Means<'_>) -> io::Result<()> {
        match (self, found) {
            (Asked::Get(get), Found::One(got)) => {
                got.answer(get.opaque, output.tail(means.spare, means.now));
                match got {
                    Got::Slice(slice) => output.slice(slice, means),
                    _ => Ok(()),
                }
            }
            (Asked::Fetch(fetch), Found::Parts(all)) => answer_parts(fetch, all, output, means),
            _ => unreachable!("a get finds one, a fetch finds parts"),
        }
    }
}

/// How many bytes there are, and the partition that may bring more; `None`: waiting brings nothing.
fn lacking(got: &Got, topic: &str, index: i32, broker: &Broker) -> Option<(usize, Arc<Partition>)> {
    match got {
        Got::AtEnd { partition, .. } => Some((0, Arc::clone(partition))),
        Got::Slice(slice) => {
            let partition = broker.log().partition(topic, u32::try_from(index).ok()?)?;
            // A slice ends with its segment; what lies behind counts too.
            let end = partition.bounds(broker.log().settled()).end;
            Some((usize::try_from(end.saturating_sub(slice.position)).unwrap_or(usize::MAX), partition))
        }
        _ => None,
    }
}

/// The parts' heads and bodies in turn, behind one head for them all.
fn answer_parts(fetch: &Fetch<'_>, all: Vec<Got>, output: &mut Output, means: Means<'_>) -> io::Result<()> {
    let mut heads = Vec::new();
    let mut parts: Vec<(usize, Option<Slice>)> = Vec::with_capacity(all.len());
    let mut slices = 0;
    for (part, got) in fetch.parts.iter().zip(all) {
        let slice = match got {
            Got::Slice(slice) => {
                part.encode_head(&mut heads, Status::Ok, slice.len);
                slices += slice.len;
                Some(slice)
            }
            other => {
                let (status, text) = other.status();
                let text = if status == Status::NotFound { "" } else { &text };
                part.encode_head(&mut heads, status, text.len());
                heads.extend_from_slice(text.as_bytes());
                None
            }
        };
        parts.push((heads.len(), slice));
    }
    answer::value_head(output.tail(means.spare, means.now), heads.len() + slices, fetch.opaque);
    let mut from = 0;
    for (to, slice) in parts {
        output.tail(means.spare, means.now).extend_from_slice(&heads[from..to]);
        from = to;
        if let Some(slice) = slice {
            output.slice(slice, means)?;
        }
    }
    Ok(())
}
