//! A producer that sends until it is told to stop or its connection ends, and knows what it was told.

use crate::history::Ledger;
use crate::put::{Put, batch};
use crate::random::Random;
use crate::wire::{Frame, Wire};
use metaq_protocol::{ErrorCode, Stored};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a writer sends.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Topics, each with its number of partitions.
    pub topics: Vec<(String, i32)>,
    /// Requests that are sent before their answers are read.
    pub window: usize,
    /// Bodies are smaller than this; rarely a message has nearly so many bytes, mostly few.
    pub body_bytes_max: usize,
    /// Whether batches are sent too.
    pub batches: bool,
}

/// Sends until `stop`, then reads what is still owed. A connection that ends ends the writer: what wasn't answered stays unknown.
///
/// # Panics
/// If an answer makes no sense.
pub fn write(address: SocketAddr, writer: u64, plan: &Plan, random: &mut Random, stop: &AtomicBool) -> Ledger {
    let mut ledger = Ledger::new(writer);
    let Ok(mut wire) = Wire::try_connect(address) else { return ledger };
    while !stop.load(Ordering::Relaxed) {
        let mut owed = BTreeMap::new();
        let mut bytes = Vec::new();
        for opaque in 0..i32::try_from(plan.window).expect("a window is small") {
            let (request, messages) = request(&mut ledger, plan, random, opaque);
            bytes.extend_from_slice(&request);
            owed.insert(opaque, messages);
        }
        if wire.try_send(&bytes).is_err() {
            // What the broker answered before it ended is still to be read.
            read(&mut wire, &mut owed, &mut ledger);
            break;
        }
        if !read(&mut wire, &mut owed, &mut ledger) {
            break;
        }
    }
    ledger
}

/// Number and size of each message of one request.
type Messages = Vec<(usize, usize)>;

fn request(ledger: &mut Ledger, plan: &Plan, random: &mut Random, opaque: i32) -> (Vec<u8>, Messages) {
    let (topic, partitions) = &plan.topics[random.index(plan.topics.len())];
    let count = u64::try_from(*partitions).expect("topics have partitions");
    let partition = i32::try_from(random.below(count)).expect("below a count of partitions");
    if plan.batches && random.one_in(8) {
        let bodies: Vec<_> = (0..1 + random.index(20)).map(|_| body(ledger, plan, random, topic, partition)).collect();
        let slices: Vec<&[u8]> = bodies.iter().map(|(_, body)| body.as_slice()).collect();
        let messages = bodies.iter().map(|(number, body)| (*number, body.len())).collect();
        return (batch(topic, partition, &slices, None, opaque), messages);
    }
    let partition = if random.one_in(10) { -1 } else { partition };
    let (number, body) = body(ledger, plan, random, topic, partition);
    let put = Put::to(topic, partition, &body).opaque(opaque);
    let put = if random.one_in(2) { put.checked() } else { put };
    (put.bytes(), vec![(number, body.len())])
}

fn body(ledger: &mut Ledger, plan: &Plan, random: &mut Random, topic: &str, partition: i32) -> (usize, Vec<u8>) {
    let max = if random.one_in(30) { plan.body_bytes_max } else { plan.body_bytes_max.min(200) };
    ledger.next(topic, partition, random.index(max))
}

/// Reads what is owed; false if the connection ended first.
fn read(wire: &mut Wire, owed: &mut BTreeMap<i32, Messages>, ledger: &mut Ledger) -> bool {
    while !owed.is_empty() {
        let Ok(frame) = wire.try_frame() else { return false };
        let messages = owed.remove(&frame.opaque()).unwrap_or_else(|| panic!("nobody asked for {frame}"));
        note(ledger, &frame, &messages);
    }
    true
}

fn note(ledger: &mut Ledger, frame: &Frame, messages: &Messages) {
    match (frame.status(), frame.code()) {
        (Some(200), _) => {
            let first = frame.stored();
            let mut stored = first;
            for (number, size) in messages {
                ledger.stored(*number, stored);
                let size = i64::try_from(size + 20).expect("a message is small");
                stored = Stored { id: stored.id + 1, position: stored.position + size, ..stored };
            }
        }
        (_, Some(ErrorCode::OutcomeUnknown)) => {}
        (_, Some(_)) => messages.iter().for_each(|(number, _)| ledger.refused(*number)),
        (_, None) => panic!("an error without a code: {frame}"),
    }
}
