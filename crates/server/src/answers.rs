//! Puts that are owed an answer: handed to the log, or sequenced and not settled.
//!
//! * The log takes the submissions of a thread in their order and gives them back in that order, so both stages are
//!   queues and nothing is looked up.
//! * There is one queue of sequenced submissions per acknowledgement class, so that puts that only have to be written
//!   aren't held by those that wait for a sync. A partition's puts are in one class: they are answered in order.
//! * What isn't decided in time is answered as unknown. Its later outcome is thrown away, but its bytes count until then.

use crate::connection::{Connection, Live};
use crate::mailbox::Submissions;
use crate::network::NetworkThread;
use metaq_broker::WaitedFor;
use metaq_log::{Class, Item, Outcome, Partition, Settled, Submission, What};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Emptied submissions that are kept.
const SPARE: usize = 64;
/// Bytes that an emptied submission may keep reserved.
const SPARE_BYTES: usize = 256 << 10;

/// Puts of one thread that are owed an answer.
#[derive(Default)]
pub(crate) struct Answers {
    next_token: u64,
    /// Handed to the log.
    staged: VecDeque<Owed>,
    /// How many of them, at the front, were answered as unknown.
    unknown: usize,
    /// Of the items of those that weren't, in order.
    opaques: VecDeque<i32>,
    /// Sequenced, not settled, of topics whose puts have to be written.
    written: VecDeque<Waiting>,
    /// The same, of topics whose puts have to be synced.
    durable: VecDeque<Waiting>,
    spare: Submissions,
}

/// Who is owed what for a submission.
struct Owed {
    token: u64,
    /// Of its topics.
    class: Class,
    connection: Rc<Connection>,
    submitted: Instant,
    items: usize,
    /// Where its first item goes.
    first: Option<Arc<Partition>>,
    /// Taken from the budgets.
    bytes: u64,
    /// Refusals that leave behind the answers.
    trailing: Vec<u8>,
    is_unknown: bool,
}

struct Waiting {
    owed: Owed,
    submission: Box<Submission>,
    sequenced: Instant,
}

/// How a submission ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// What became of it is known and safe to tell.
    Settled,
    /// Its time is over, or the store closed before it was synced: nobody knows what a restart will find.
    Unknown,
}

impl Answers {
    /// How many submissions are owed an answer, or are still with the log.
    pub(crate) fn len(&self) -> usize {
        self.staged.len() + self.written.len() + self.durable.len()
    }

    /// An empty submission.
    pub(crate) fn submission(&mut self, thread: &NetworkThread) -> Box<Submission> {
        self.spare.pop().unwrap_or_else(|| {
            Box::new(Submission {
                outlet: thread.outlet,
                token: 0,
                bytes: Vec::new(),
                items: Vec::new(),
                outcomes: Vec::new(),
                wait_durable: 0,
            })
        })
    }

    /// Notes who is owed an answer to a submission that is about to be handed to the log.
    pub(crate) fn stage(
        &mut self,
        submission: &mut Submission,
        class: Class,
        connection: &Rc<Connection>,
        bytes: u64,
        trailing: Vec<u8>,
        now: Instant,
    ) {
        self.next_token += 1;
        submission.token = self.next_token;
        self.opaques.extend(submission.items.iter().map(|item| opaque_of(item.tag)));
        self.staged.push_back(Owed {
            token: self.next_token,
            class,
            connection: Rc::clone(connection),
            submitted: now,
            items: submission.items.len(),
            first: submission.items.first().map(|item| Arc::clone(partition_of(item))),
            bytes,
            trailing,
            is_unknown: false,
        });
    }

    /// Takes submissions back from the log.
    pub(crate) fn take_back(&mut self, sequenced: &mut Submissions, thread: &NetworkThread) {
        for submission in sequenced.drain(..) {
            let owed = self.staged.pop_front().expect("the log gives back what it was given");
            assert_eq!(owed.token, submission.token, "the log gives submissions back in their order");
            if owed.is_unknown {
                self.unknown -= 1;
                thread.done_with(&owed.connection, owed.bytes, &submission);
                self.recycle(submission);
                continue;
            }
            self.opaques.drain(..owed.items);
            let queue = self.queue(owed.class);
            queue.push_back(Waiting { owed, submission, sequenced: thread.now() });
        }
    }

    fn queue(&mut self, class: Class) -> &mut VecDeque<Waiting> {
        match class {
            Class::Written => &mut self.written,
            Class::Durable => &mut self.durable,
        }
    }

    /// Answers what the watermark covers; if the store is closed, everything.
    pub(crate) fn release(&mut self, settled: Settled, is_closed: bool, thread: &NetworkThread) {
        // First those that came first if a topic changed its class meanwhile.
        for class in [Class::Durable, Class::Written] {
            while let Some(front) = self.queue(class).front() {
                let is_settled = front.submission.wait_durable <= settled.durable;
                if !is_settled && !is_closed {
                    break;
                }
                self.end_first(class, if is_settled { End::Settled } else { End::Unknown }, thread);
            }
        }
    }

    fn end_first(&mut self, class: Class, end: End, thread: &NetworkThread) {
        if let Some(waiting) = self.queue(class).pop_front() {
            self.end(waiting, end, thread);
        }
    }

    fn end(&mut self, waiting: Waiting, end: End, thread: &NetworkThread) {
        let Waiting { owed, submission, sequenced } = waiting;
        owed.connection.with(|live| {
            live.pending -= 1;
            for (item, outcome) in submission.items.iter().zip(&submission.outcomes) {
                match end {
                    End::Settled => answer_item(live, item, outcome, thread),
                    End::Unknown => answer_unknown(live, opaque_of(item.tag), thread),
                }
            }
            live.say(&owed.trailing, thread);
        });
        let queued = sequenced.saturating_duration_since(owed.submitted);
        let settled = thread.now().saturating_duration_since(sequenced);
        let class = if queued > settled { Class::Written } else { Class::Durable };
        owed.note_slow(WaitedFor::Watermark(class), thread);
        thread.done_with(&owed.connection, owed.bytes, &submission);
        self.recycle(submission);
    }

    /// Answers as unknown what has waited for `max`.
    pub(crate) fn expire(&mut self, max: Duration, thread: &NetworkThread) {
        let is_late = |owed: &Owed| owed.waited(thread) >= max;
        for class in [Class::Durable, Class::Written] {
            while self.queue(class).front().is_some_and(|waiting| is_late(&waiting.owed)) {
                self.end_first(class, End::Unknown, thread);
            }
        }
        while let Some(owed) = self.staged.get_mut(self.unknown).filter(|owed| is_late(owed)) {
            owed.is_unknown = true;
            self.unknown += 1;
            let opaques = self.opaques.drain(..owed.items);
            owed.connection.with(|live| {
                live.pending -= 1;
                opaques.for_each(|opaque| answer_unknown(live, opaque, thread));
                live.say(&owed.trailing, thread);
            });
            thread.touch(&owed.connection);
            owed.note_slow(WaitedFor::Sequencing, thread);
        }
    }

    /// Keeps an emptied submission for the next one.
    pub(crate) fn recycle(&mut self, mut submission: Box<Submission>) {
        if self.spare.len() < SPARE && submission.bytes.capacity() <= SPARE_BYTES {
            submission.bytes.clear();
            submission.items.clear();
            submission.outcomes.clear();
            submission.wait_durable = 0;
            self.spare.push(submission);
        }
    }
}

impl Owed {
    fn waited(&self, thread: &NetworkThread) -> Duration {
        thread.now().saturating_duration_since(self.submitted)
    }

    fn note_slow(&self, waited_for: WaitedFor, thread: &NetworkThread) {
        let waited = self.waited(thread);
        if waited >= thread.bounds().slow_put
            && let Some(partition) = &self.first
        {
            thread.broker.note_put(partition, waited, waited_for);
        }
    }
}

/// The opaque that an item was tagged with.
fn opaque_of(tag: i64) -> i32 {
    i32::try_from(tag).expect("items are tagged with their opaque")
}

/// Where an item goes.
pub(crate) fn partition_of(item: &Item) -> &Arc<Partition> {
    match &item.what {
        What::Append(append) => &append.partition,
        What::Change(change) => unreachable!("a connection only appends, not {change:?}"),
    }
}

fn answer_item(live: &mut Live, item: &Item, outcome: &Outcome, thread: &NetworkThread) {
    let out = live.output.tail(&thread.spare, thread.now());
    thread.broker.answer_put(item.tag, partition_of(item), outcome, out);
}

fn answer_unknown(live: &mut Live, opaque: i32, thread: &NetworkThread) {
    thread.shared.counters.puts_unknown.fetch_add(1, Relaxed);
    thread.broker.answer_put_unknown(opaque, live.output.tail(&thread.spare, thread.now()));
}
