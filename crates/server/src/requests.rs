//! Executes the requests of one read: what can be answered at once is, puts become one submission per acknowledgement
//! class.

use crate::answers::partition_of;
use crate::bounds::WAITERS;
use crate::connection::{Connection, Live};
use crate::gets::Asked;
use crate::hello::answer_hello;
use crate::network::NetworkThread;
use metaq_broker::Refused;
use metaq_log::{Class, Item, Submission, What};
use metaq_protocol::request::{Step, Version};
use metaq_protocol::{Decoded, Decoder, ErrorCode, Limits, Oversized, Request, Status, answer};
use std::borrow::Cow;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// The requests of one read of one connection.
pub(crate) struct Requests<'a, 'r> {
    this: &'a Rc<Connection>,
    live: &'a mut Live,
    thread: &'a NetworkThread,
    written: Gathered,
    durable: Gathered,
    /// The topic of the last put, and its class.
    class: Option<(Cow<'r, str>, Class)>,
    /// Refusals of puts, to leave behind the answers to those that were gathered.
    trailing: Vec<u8>,
}

/// Puts of one class.
#[derive(Default)]
struct Gathered {
    submission: Option<Box<Submission>>,
    /// Bytes of the requests in it.
    bytes: u64,
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.submission.as_ref().is_none_or(|submission| submission.items.is_empty())
    }
}

/// Whether a put may be judged.
enum Admitted {
    Yes,
    /// There was no room for too long.
    Refused,
    /// There is no room at the moment.
    Later,
}

impl<'a, 'r> Requests<'a, 'r> {
    pub(crate) fn new(this: &'a Rc<Connection>, live: &'a mut Live, thread: &'a NetworkThread) -> Self {
        Self {
            this,
            live,
            thread,
            written: Gathered::default(),
            durable: Gathered::default(),
            class: None,
            trailing: Vec::new(),
        }
    }

    /// Executes what is whole of `bytes`; gives how many of them were used.
    pub(crate) fn run(mut self, bytes: &'r [u8]) -> usize {
        let mut used = 0;
        self.live.held_back = false;
        self.live.follow(&self.thread.bounds().requests);
        while !self.live.deaf {
            if self.live.must_wait(self.thread) {
                self.live.held_back = used < bytes.len();
                break;
            }
            match self.live.decoder.decode(&bytes[used..]) {
                Ok(Decoded::Incomplete { needed }) => {
                    self.live.input.needed = needed;
                    break;
                }
                Ok(Decoded::Request { request, used: size }) => {
                    if !self.execute(request, &bytes[used..used + size]) {
                        self.live.held_back = true;
                        break;
                    }
                    used += size;
                }
                Ok(Decoded::Oversized(oversized)) => used += self.discard(&oversized, bytes.len() - used),
                Err(malformed) => {
                    tracing::debug!(identity = %self.live.identity, %malformed, "a connection is closed");
                    self.thread.shared.counters.malformed.fetch_add(1, Relaxed);
                    self.live.end_deaf(self.thread);
                }
            }
        }
        self.submit();
        if self.live.deaf { bytes.len() } else { used }
    }

    /// Refuses the request whose body there is no room for: answers it and throws its body away. `held` is what of it
    /// has arrived; gives how many bytes of it were used.
    pub(crate) fn refuse_arriving(mut self, held: &[u8]) -> usize {
        // A decoder that takes no body tells whom to answer.
        let nothing = Limits { message_bytes_max: 0, batch_bytes_max: 0, ..self.thread.bounds().requests };
        self.live.decoder = Decoder::new(self.live.limits);
        match Decoder::new(nothing).decode(held) {
            Ok(Decoded::Oversized(oversized)) => {
                self.refuse_busy(oversized.opaque);
                self.throw_away(&oversized, held.len())
            }
            _ => {
                self.live.end_deaf(self.thread);
                held.len()
            }
        }
    }

    /// `false`: it waits for room, and nothing was done.
    fn execute(&mut self, request: Request<'r>, frame: &[u8]) -> bool {
        let broker = &self.thread.broker;
        match request {
            Request::Put(put) => {
                let class = self.class_of(put.topic.clone());
                return self.store(put.opaque, class, frame, |submission| broker.put(&put, submission));
            }
            Request::Batch(batch) => {
                let class = self.class_of(batch.topic.clone());
                return self.store(batch.opaque, class, frame, |submission| broker.put_batch(&batch, submission));
            }
            Request::Get(get) => self.ask(&Asked::Get(get), frame),
            Request::Fetch(fetch) => self.ask(&Asked::fetch(fetch), frame),
            Request::Offset(offset) => match broker.offset(&offset) {
                Ok(position) => {
                    let position = i64::try_from(position).unwrap_or(i64::MAX);
                    answer::position(self.out(), Status::Ok, offset.opaque, position);
                }
                Err(refused) => refused.answer(offset.opaque, self.out()),
            },
            Request::Version(Version { opaque, hello: None }) => {
                answer::result(self.out(), Status::Ok, opaque, broker.version().as_bytes());
            }
            Request::Version(Version { opaque, hello: Some(_) }) => {
                let bounds = self.thread.bounds();
                answer_hello(&bounds, opaque, self.out());
            }
            Request::Stats(stats) => broker.stats(stats.item.as_deref()).answer(stats.opaque, self.out()),
            Request::Quit => self.live.end_deaf(self.thread),
            Request::Transaction(transaction) if transaction.step == Step::End => {}
            Request::Transaction(transaction) => {
                self.not_supported(
                    transaction.opaque,
                    "this broker has no transactions; put without a transaction key",
                );
            }
            Request::Sync(sync) => {
                self.not_supported(sync.opaque, "this broker is no slave of an original broker; put to it instead");
            }
            Request::Answer(_) => {}
            Request::Topic { opaque, .. }
            | Request::Partition { opaque, .. }
            | Request::Offsets { opaque, .. }
            | Request::Admin { opaque, .. } => self.administer(opaque, frame),
            Request::Reserved { word, opaque } => {
                self.not_supported(opaque, format_args!("{word} is kept for a later version of the broker"));
            }
            Request::Invalid { opaque, what } => {
                answer::error(self.out(), opaque, ErrorCode::MalformedArgument, what);
            }
        }
        true
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.live.output.tail(&self.thread.spare, self.thread.now())
    }

    fn not_supported(&mut self, opaque: i32, sentence: impl Display) {
        answer::error(self.out(), opaque, ErrorCode::NotSupported, sentence);
    }

    /// What puts to a topic wait for; those of one read are judged alike.
    fn class_of(&mut self, topic: Cow<'r, str>) -> Class {
        match &self.class {
            Some((last, class)) if *last == topic => *class,
            _ => {
                let class = self.thread.broker.class_of(&topic);
                self.class = Some((topic, class));
                class
            }
        }
    }

    fn store(
        &mut self,
        opaque: i32,
        class: Class,
        frame: &[u8],
        judge: impl FnOnce(&mut Submission) -> Result<(), Refused>,
    ) -> bool {
        match self.admit(frame.len() as u64) {
            Admitted::Later => return false,
            Admitted::Refused => {
                self.refuse_busy(opaque);
                return true;
            }
            Admitted::Yes => {}
        }
        let thread = self.thread;
        let gathered = match class {
            Class::Written => &mut self.written,
            Class::Durable => &mut self.durable,
        };
        let submission = gathered.submission.get_or_insert_with(|| thread.answers.borrow_mut().submission(thread));
        match judge(submission) {
            Ok(()) => gathered.bytes += frame.len() as u64,
            Err(refused) => self.refuse_in_order(|out| refused.answer(opaque, out)),
        }
        true
    }

    /// Whether there is room for a put of so many bytes.
    fn admit(&mut self, bytes: u64) -> Admitted {
        if self.has_room(bytes) {
            self.live.has_room();
            Admitted::Yes
        } else if self.live.waits_too_long(self.this, self.thread) {
            Admitted::Refused
        } else {
            Admitted::Later
        }
    }

    fn has_room(&mut self, bytes: u64) -> bool {
        let (bounds, budgets) = (self.thread.bounds(), &self.thread.shared.budgets);
        let fits = |taken: u64, max| taken == 0 || taken + bytes <= max;
        if let Some(number) = self.live.full_partition {
            if budgets.partition(number).load(Relaxed) > bounds.partition_bytes_max {
                return false;
            }
            self.live.full_partition = None;
        }
        let gathered = self.written.bytes + self.durable.bytes;
        fits(self.live.in_flight + gathered, bounds.connection_bytes_max)
            && fits(budgets.in_flight() + gathered, bounds.broker_bytes_max)
    }

    fn refuse_busy(&mut self, opaque: i32) {
        self.thread.shared.counters.puts_busy.fetch_add(1, Relaxed);
        let text =
            "too many puts are undecided, and were for too long; nothing of this one is stored, send it again later";
        self.refuse_in_order(|out| answer::error(out, opaque, ErrorCode::Busy, text));
    }

    /// Answers a put that isn't stored: not before those that came before it.
    fn refuse_in_order(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let follows = self.live.pending > 0 || !self.written.is_empty() || !self.durable.is_empty();
        if follows {
            write(&mut self.trailing);
        } else {
            write(self.out());
        }
    }

    /// Answers a request whose body is over its limit, and throws the body away.
    fn discard(&mut self, oversized: &Oversized<'_>, there: usize) -> usize {
        let Oversized { word, topic, partition, opaque, size, limit, .. } = oversized;
        self.refuse_in_order(|out| {
            let text =
                format_args!("the body of the {word} to {topic} {partition} has {size} bytes; the limit is {limit}");
            answer::error(out, *opaque, ErrorCode::MessageTooLarge, text);
        });
        self.throw_away(oversized, there)
    }

    /// Passes over a line and as much of its body as is there; the rest is passed over as it comes.
    fn throw_away(&mut self, oversized: &Oversized<'_>, there: usize) -> usize {
        let skipped = oversized.size.min(there - oversized.used);
        self.live.input.throw_away(oversized.size, skipped);
        oversized.used + skipped
    }

    fn ask(&mut self, asked: &Asked<'_>, frame: &[u8]) {
        let mut found = asked.look(&self.thread.broker);
        let wait = asked.wait();
        if wait.ms > 0 && !self.live.ended && self.live.waiters.len() < WAITERS {
            let lacks = asked.lacks(&found, &self.thread.broker);
            if !lacks.is_empty()
                && let Some(number) = self.thread.park(self.this, frame, lacks, wait)
            {
                // It was parked before this look, so nothing that comes from here on is missed.
                found = asked.look_again(&self.thread.broker);
                if !asked.lacks(&found, &self.thread.broker).is_empty() {
                    self.live.waiters.push(number);
                    return;
                }
                self.thread.forget_waiter(number);
            }
        }
        self.thread.answer_asked(asked, found, self.live);
    }

    /// Has it carried out elsewhere, for it blocks.
    fn administer(&mut self, opaque: i32, frame: &[u8]) {
        self.live.jobs += 1;
        self.thread.administer(self.this, opaque, frame);
    }

    fn submit(&mut self) {
        let (written, durable) = (std::mem::take(&mut self.written), std::mem::take(&mut self.durable));
        self.hand_in(written, Class::Written);
        self.hand_in(durable, Class::Durable);
    }

    /// Hands puts to the log. Refusals leave behind those that wait longest.
    fn hand_in(&mut self, gathered: Gathered, class: Class) {
        let trailing = if class == Class::Durable { std::mem::take(&mut self.trailing) } else { Vec::new() };
        let mut answers = self.thread.answers.borrow_mut();
        let Gathered { submission, bytes } = gathered;
        let mut submission = match submission {
            Some(submission) => submission,
            // Refusals alone: an empty submission keeps their place.
            None if !trailing.is_empty() => answers.submission(self.thread),
            None => return,
        };
        if submission.items.is_empty() && trailing.is_empty() {
            answers.recycle(submission);
            return;
        }
        let (budgets, bounds) = (&self.thread.shared.budgets, self.thread.bounds());
        budgets.take(bytes);
        for (partition, bytes) in by_partition(&submission) {
            let before = budgets.partition(partition).fetch_add(bytes, Relaxed);
            if before + bytes > bounds.partition_bytes_max {
                self.live.full_partition = Some(partition);
            }
        }
        self.live.in_flight += bytes;
        self.live.pending += 1;
        answers.stage(&mut submission, class, self.this, bytes, trailing, self.thread.now());
        self.thread.mailbox.set_owes(true);
        self.thread.shared.counters.submissions.fetch_add(1, Relaxed);
        self.thread.log.submit(submission);
    }
}

/// Bytes of a submission by partition: runs of items that go to the same one.
pub(crate) fn by_partition(submission: &Submission) -> impl Iterator<Item = (u32, u64)> {
    submission.items.chunk_by(|one, next| number(one) == number(next)).map(|run| {
        let bytes = |item: &Item| match &item.what {
            What::Append(append) => append.records.len() as u64,
            What::Change(_) => 0,
        };
        (number(&run[0]), run.iter().map(bytes).sum())
    })
}

fn number(item: &Item) -> u32 {
    partition_of(item).number
}
