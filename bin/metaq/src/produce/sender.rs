//! Sends messages ahead of their answers, within a window, and says where they went.

use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, Form};
use crate::progress::Progress;
use crate::wire::{Reply, Wire};
use metaq_protocol::extension::Batch;
use metaq_protocol::record::{self, HEADER_BYTES, Parts};
use metaq_protocol::request::{PARTITION_ANY, Put};
use metaq_protocol::{Limits, Request, Stored};
use serde_json::json;
use std::collections::HashMap;

/// Bytes of a batch at most, if the broker doesn't say less.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes that may be on their way at most.
const WINDOW_BYTES: usize = 8 << 20;

/// Where messages go, and what is said about it.
#[derive(Debug)]
pub struct Target {
    /// To which topic.
    pub topic: String,
    /// To which partition; none: as the broker likes.
    pub partition: Option<i32>,
    /// The attribute of each.
    pub attribute: Option<String>,
    /// Say where each went.
    pub verbose: bool,
    /// How that is said.
    pub form: Form,
}

/// A request whose answer isn't there yet.
#[derive(Debug)]
struct Sent {
    /// Bytes of each of its messages, record headers included.
    sizes: Vec<usize>,
    bytes: usize,
}

/// Sends messages.
#[derive(Debug)]
pub struct Sender {
    wire: Wire,
    /// Where to.
    pub target: Target,
    window: usize,
    batch_bytes: usize,
    batches: bool,
    sent: HashMap<i32, Sent>,
    bytes: usize,
    /// Why the first request failed that did.
    failure: Option<Failure>,
}

impl Sender {
    /// Sends over `wire`, at most `window` requests ahead.
    pub fn new(wire: Wire, target: Target, window: u32) -> Self {
        let greeting = wire.greeting();
        let limit = greeting.limit("batch").and_then(|bytes| usize::try_from(bytes).ok());
        let batch_bytes = limit.unwrap_or(Limits::DEFAULT.batch_bytes_max).min(BATCH_BYTES);
        let batches = greeting.has("puts");
        let window = usize::try_from(window).expect("a small number");
        Self { wire, target, window, batch_bytes, batches, sent: HashMap::new(), bytes: 0, failure: None }
    }

    fn size(&self, payload: &[u8]) -> usize {
        let attribute = self.target.attribute.as_deref().map(str::as_bytes);
        HEADER_BYTES + Parts { attribute, payload }.size()
    }

    /// Whether one message more may go with these: a message of usual size, since nobody knows the next one.
    pub fn has_room_behind(&self, messages: &[Vec<u8>]) -> bool {
        let bytes: usize = messages.iter().map(|message| self.size(message)).sum();
        self.batches && bytes < self.batch_bytes / 2
    }

    /// Sends messages, together if the broker takes batches and they fit into one.
    pub fn send(&mut self, messages: &[Vec<u8>], progress: &mut Progress) -> Outcome {
        let bytes: usize = messages.iter().map(|message| self.size(message)).sum();
        if messages.len() > 1 && bytes <= self.batch_bytes {
            return self.send_batch(messages, bytes, progress);
        }
        messages.iter().try_for_each(|message| self.send_one(message, progress))
    }

    fn send_batch(&mut self, messages: &[Vec<u8>], bytes: usize, progress: &mut Progress) -> Outcome {
        self.make_room(bytes, progress)?;
        let (mut body, mut one) = (Vec::with_capacity(bytes), Vec::new());
        for message in messages {
            let flag = self.encode(message, &mut one);
            record::encode(&mut body, 0, flag, &one);
        }
        let count = u32::try_from(messages.len()).expect("a batch has at most 4096");
        let partition = self.target.partition.unwrap_or(PARTITION_ANY);
        let opaque = self.wire.opaque();
        let topic = self.target.topic.as_str().into();
        self.wire.add(&Request::Batch(Batch { topic, partition, count, stamp: None, opaque, body: &body }))?;
        self.sent(opaque, messages.iter().map(|message| self.size(message)).collect(), bytes)
    }

    fn send_one(&mut self, message: &[u8], progress: &mut Progress) -> Outcome {
        let bytes = self.size(message);
        self.make_room(bytes, progress)?;
        let mut body = Vec::new();
        let flag = self.encode(message, &mut body);
        let partition = self.target.partition.unwrap_or(PARTITION_ANY);
        let opaque = self.wire.opaque();
        let topic = self.target.topic.as_str().into();
        let (checksum, transaction) = (Some(record::checksum(&body)), None);
        self.wire.add(&Request::Put(Put { topic, partition, flag, checksum, transaction, opaque, body: &body }))?;
        self.sent(opaque, vec![bytes], bytes)
    }

    /// The body of a message, and its flag.
    fn encode(&self, payload: &[u8], body: &mut Vec<u8>) -> i32 {
        let parts = Parts { attribute: self.target.attribute.as_deref().map(str::as_bytes), payload };
        body.clear();
        parts.encode(body);
        parts.flag()
    }

    fn sent(&mut self, opaque: i32, sizes: Vec<usize>, bytes: usize) -> Outcome {
        self.sent.insert(opaque, Sent { sizes, bytes });
        self.bytes += bytes;
        self.wire.send()
    }

    /// Waits until a request of so many bytes may be sent. Fails if one failed already.
    fn make_room(&mut self, bytes: usize, progress: &mut Progress) -> Outcome {
        while let Some((opaque, reply)) = self.wire.ready_reply()? {
            self.answered(opaque, reply, progress)?;
        }
        while self.sent.len() >= self.window || (self.bytes + bytes > WINDOW_BYTES && !self.sent.is_empty()) {
            let (opaque, reply) = self.wire.next_reply()?;
            self.answered(opaque, reply, progress)?;
        }
        if self.failure.is_some() {
            return self.settle(progress);
        }
        Ok(())
    }

    /// Waits for all answers. Fails if a request failed.
    pub fn settle(&mut self, progress: &mut Progress) -> Outcome {
        while !self.sent.is_empty() {
            let (opaque, reply) = self.wire.next_reply()?;
            self.answered(opaque, reply, progress)?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn answered(&mut self, opaque: i32, reply: Reply, progress: &mut Progress) -> Outcome {
        let Some(sent) = self.sent.remove(&opaque) else { return Ok(()) };
        self.bytes -= sent.bytes;
        let what = format!("topic {}", self.target.topic);
        match &reply {
            Reply::Text { code: 200, text } => {
                let stored = Stored::parse(text)
                    .ok_or_else(|| Failure::failed(format!("{what}: the broker doesn't say where the message went")))?;
                progress.add(sent.sizes.len() as u64, sent.bytes as u64);
                self.say(stored, &sent.sizes)
            }
            _ => {
                let mut failure = reply.failure(&what);
                // For a put, "not there" is a refusal.
                failure.exit = if failure.exit == Exit::NotFound { Exit::Refused } else { failure.exit };
                self.failure.get_or_insert(failure);
                Ok(())
            }
        }
    }

    /// Says where messages went that were stored together.
    fn say(&self, first: Stored, sizes: &[usize]) -> Outcome {
        if !self.target.verbose && self.target.form == Form::Table {
            return Ok(());
        }
        let topic = &self.target.topic;
        let (mut id, mut position) = (first.id, first.position);
        for size in sizes {
            let partition = first.partition;
            match self.target.form {
                Form::Table => output::line(format_args!("{topic} {partition} {position} {id}"))?,
                Form::Json => {
                    output::line(json!({ "topic": topic, "partition": partition, "position": position, "id": id }))?
                }
            }
            id += 1;
            position += i64::try_from(*size).expect("below 2 GiB");
        }
        Ok(())
    }
}
