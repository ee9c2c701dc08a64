//! One connection: a state machine that its task, its thread's turns and nothing else drive.
//!
//! * Only the task reads the socket. Answers are appended by whoever has them, and sent by whoever gets there first.
//! * A connection ends when its client ended it, said something that can't be understood or `quit`, or the server
//!   stops: then it isn't read any more, what it is owed is still answered, and it is closed.
//! * Nothing here waits: a connection that can't go on is woken when it can.

use crate::bounds::READS;
use crate::input::{Brought, Input};
use crate::network::NetworkThread;
use crate::output::{Output, Sent};
use crate::requests::Requests;
use metaq_listen::{Identity, Place};
use metaq_protocol::{Decoder, Limits};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// One connection. What it is made of is gone once it is closed; who is still owed something by the log may outlive it.
pub(crate) struct Connection {
    pub slot: usize,
    /// Never the same for two connections of a thread.
    pub serial: u64,
    live: RefCell<Option<Live>>,
}

/// A connection that isn't closed.
pub(crate) struct Live {
    stream: TcpStream,
    pub identity: Identity,
    _place: Place,
    waker: Option<Waker>,
    pub decoder: Decoder,
    /// What the decoder was made with.
    pub limits: Limits,
    pub input: Input,
    pub output: Output,
    /// Bytes of its puts that the log isn't done with.
    pub in_flight: u64,
    /// Submissions that are owed an answer.
    pub pending: usize,
    /// Its gets that wait.
    pub waiters: Vec<u64>,
    /// Its requests that are carried out elsewhere.
    pub jobs: usize,
    /// Nothing more is read.
    pub ended: bool,
    /// Nothing more is executed.
    pub deaf: bool,
    /// `held` may begin with whole requests.
    pub held_back: bool,
    /// Since when there is no room for its puts.
    pub stalled: Option<Instant>,
    /// There was none for so long that its puts are refused until there is.
    pub refuses_puts: bool,
    /// A partition that its last puts filled.
    pub full_partition: Option<u32>,
    /// Stands in the thread's queue for room.
    pub in_queue: bool,
    /// Stands in the thread's list of those that got answers in this turn.
    pub touched: bool,
    /// When bytes last came or went.
    active: Instant,
    /// Everything was sent and the sending side closed.
    lingering: Option<Instant>,
    broken: Option<io::Error>,
}

/// What a look at a connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    Fine,
    /// Its task should look too.
    Wake,
    /// It did nothing, or too little, for too long.
    Close(&'static str),
}

impl Connection {
    pub(crate) fn new(
        slot: usize,
        serial: u64,
        stream: TcpStream,
        identity: Identity,
        place: Place,
        thread: &NetworkThread,
    ) -> Self {
        let live = Live {
            stream,
            identity,
            _place: place,
            waker: None,
            decoder: Decoder::new(thread.bounds().requests),
            limits: thread.bounds().requests,
            input: Input::default(),
            output: Output::default(),
            in_flight: 0,
            pending: 0,
            waiters: Vec::new(),
            jobs: 0,
            ended: false,
            deaf: false,
            held_back: false,
            stalled: None,
            refuses_puts: false,
            full_partition: None,
            in_queue: false,
            touched: false,
            active: thread.now(),
            lingering: None,
            broken: None,
        };
        Self { slot, serial, live: RefCell::new(Some(live)) }
    }

    /// Does something with it, unless it is closed.
    pub(crate) fn with<T>(&self, then: impl FnOnce(&mut Live) -> T) -> Option<T> {
        self.live.borrow_mut().as_mut().map(then)
    }

    /// Goes on as far as possible; ready when it is closed.
    pub(crate) fn poll(self: &Rc<Self>, thread: &NetworkThread, context: &mut Context<'_>) -> Poll<()> {
        let result = {
            let mut live = self.live.borrow_mut();
            let Some(live) = live.as_mut() else { return Poll::Ready(()) };
            if !live.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                live.waker = Some(context.waker().clone());
            }
            thread.look_at_clock();
            ready!(live.advance(self, thread, context))
        };
        if let Err(error) = result {
            tracing::debug!(slot = self.slot, %error, "a connection broke");
        }
        self.close(thread);
        Poll::Ready(())
    }

    /// Ends it at once, whatever it is owed.
    pub(crate) fn close(self: &Rc<Self>, thread: &NetworkThread) {
        let Some(mut live) = self.live.borrow_mut().take() else { return };
        for waiter in std::mem::take(&mut live.waiters) {
            thread.forget_waiter(waiter);
        }
        live.input.arrived(&thread.shared.budgets);
        thread.remove(self);
        live.wake();
    }

    /// Sends what a turn has appended; the task goes on with what can't be sent at once.
    pub(crate) fn send(&self, thread: &NetworkThread) {
        self.with(|live| {
            live.touched = false;
            let sent = live.output.send(&live.stream, thread.means(), None);
            live.active = thread.now();
            if live.ended || live.held_back || !matches!(sent, Ok(Sent::All)) {
                live.wake();
            }
            if let Err(error) = sent {
                live.breaks(error);
            }
        });
    }
}

impl Live {
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Goes by these limits from the next request on.
    pub(crate) fn follow(&mut self, limits: &Limits) {
        if self.limits != *limits && self.input.began.is_none() {
            self.limits = *limits;
            self.decoder = Decoder::new(*limits);
        }
    }

    /// Appends whole answers.
    pub(crate) fn say(&mut self, answers: &[u8], thread: &NetworkThread) {
        if !answers.is_empty() {
            self.output.tail(&thread.spare, thread.now()).extend_from_slice(answers);
        }
    }

    /// Has it closed: half an answer was said.
    pub(crate) fn breaks(&mut self, error: io::Error) {
        self.broken = Some(error);
        self.wake();
    }

    fn advance(
        &mut self,
        this: &Rc<Connection>,
        thread: &NetworkThread,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Err(error));
        }
        let mut reads = 0;
        loop {
            match self.output.send(&self.stream, thread.means(), Some(context))? {
                Sent::All | Sent::Reading => {}
                Sent::Blocked => {
                    if self.stream.poll_write_ready(context)?.is_ready() {
                        continue;
                    }
                }
                Sent::Enough => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if self.lingering.is_some() {
                return self.linger(thread, context);
            }
            if self.held_back {
                if self.must_wait(thread) || !self.execute_held(this, thread) {
                    return Poll::Pending;
                }
                continue;
            }
            if self.ended {
                if self.is_owed() {
                    return Poll::Pending;
                }
                ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
                self.lingering = Some(thread.now());
                continue;
            }
            if self.must_wait(thread) {
                return Poll::Pending;
            }
            if reads == READS {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            ready!(self.read(this, thread, context))?;
        }
    }

    /// Whether requests wait until answers were read, or other requests carried out.
    pub(crate) fn must_wait(&self, thread: &NetworkThread) -> bool {
        let options = &thread.shared.options;
        self.jobs >= options.jobs_max || self.output.is_full(options.unsent_bytes_max)
    }

    /// Whether an answer is missing, or wasn't sent.
    pub(crate) fn is_owed(&self) -> bool {
        self.pending > 0 || self.jobs > 0 || !self.waiters.is_empty() || !self.output.is_empty()
    }

    fn read(
        &mut self,
        this: &Rc<Connection>,
        thread: &NetworkThread,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut scratch = thread.take_scratch();
        let bounds = thread.bounds();
        let brought = self.input.read(&mut self.stream, &mut scratch, &thread.shared.budgets, &bounds, context);
        let result = brought.map_ok(|brought| self.take_in(brought, &scratch, this, thread));
        thread.return_scratch(scratch);
        match result {
            Poll::Ready(Ok(false)) => Poll::Pending,
            Poll::Ready(Ok(true)) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Executes what was read. `false`: the connection waits for room.
    fn take_in(&mut self, brought: Brought, scratch: &[u8], this: &Rc<Connection>, thread: &NetworkThread) -> bool {
        match brought {
            Brought::End => self.end(thread),
            Brought::NoRoom => return self.refuse_arriving(this, thread),
            Brought::InScratch(read) => {
                self.active = thread.now();
                let skipped = self.input.skip(read);
                let bytes = &scratch[skipped..read];
                let used = Requests::new(this, self, thread).run(bytes);
                self.input.keep(&bytes[used..]);
                self.input.charge(&thread.shared.budgets);
                self.input.note(used > 0 || skipped > 0 && self.input.discard == 0, thread.now());
            }
            Brought::InHeld => {
                self.active = thread.now();
                self.stalled = None;
                if self.input.held.len() >= self.input.needed {
                    self.execute_held(this, thread);
                }
            }
        }
        true
    }

    /// Executes requests that are whole or were held back. `false`: none could be.
    fn execute_held(&mut self, this: &Rc<Connection>, thread: &NetworkThread) -> bool {
        self.input.arrived(&thread.shared.budgets);
        let held = std::mem::take(&mut self.input.held);
        let used = Requests::new(this, self, thread).run(&held);
        self.input.put_back(held, used);
        self.input.charge(&thread.shared.budgets);
        self.input.note(used > 0, thread.now());
        used > 0 || !self.held_back
    }

    /// There is no room for the rest of a large request: waits, or throws it away and answers.
    fn refuse_arriving(&mut self, this: &Rc<Connection>, thread: &NetworkThread) -> bool {
        if !self.waits_too_long(this, thread) {
            return false;
        }
        self.input.arrived(&thread.shared.budgets);
        let held = std::mem::take(&mut self.input.held);
        let used = Requests::new(this, self, thread).refuse_arriving(&held);
        self.input.put_back(held, used);
        self.input.charge(&thread.shared.budgets);
        self.input.note(used > 0, thread.now());
        true
    }

    /// There is no room. Whether there was none for so long that puts are refused.
    pub(crate) fn waits_too_long(&mut self, this: &Rc<Connection>, thread: &NetworkThread) -> bool {
        if self.refuses_puts {
            return true;
        }
        let since = *self.stalled.get_or_insert(thread.now());
        if thread.now().saturating_duration_since(since) >= thread.bounds().stall_max {
            self.stalled = None;
            self.refuses_puts = true;
            return true;
        }
        if !self.in_queue {
            self.in_queue = true;
            thread.queue_for_room(this);
        }
        false
    }

    /// There is room again.
    pub(crate) fn has_room(&mut self) {
        self.stalled = None;
        self.refuses_puts = false;
    }

    /// Nothing more is read; gets that wait are answered with what there is.
    pub(crate) fn end(&mut self, thread: &NetworkThread) {
        self.ended = true;
        for waiter in std::mem::take(&mut self.waiters) {
            thread.answer_waiter_now(waiter, self);
        }
    }

    /// Nothing more is executed either.
    pub(crate) fn end_deaf(&mut self, thread: &NetworkThread) {
        self.deaf = true;
        self.held_back = false;
        self.end(thread);
    }

    /// Reads on until the client ends too, so that closing doesn't take back the last answers.
    fn linger(&mut self, thread: &NetworkThread, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = thread.take_scratch();
        let mut result = Poll::Pending;
        for _ in 0..READS {
            let mut bytes = ReadBuf::new(&mut scratch);
            result = Pin::new(&mut self.stream).poll_read(context, &mut bytes);
            if !matches!(result, Poll::Ready(Ok(()))) || bytes.filled().is_empty() {
                break;
            }
            context.waker().wake_by_ref();
            result = Poll::Pending;
        }
        thread.return_scratch(scratch);
        result
    }

    /// Looks at what nothing wakes it for. To be called now and then.
    pub(crate) fn look(&mut self, thread: &NetworkThread) -> Looked {
        let (now, bounds, options) = (thread.now(), thread.bounds(), &thread.shared.options);
        let since = |then: Instant| now.saturating_duration_since(then);
        if self.lingering.is_some_and(|lingering| since(lingering) > options.linger_max) {
            return Looked::Close("");
        }
        if self.output.is_stuck(now, options.sending_max) {
            return Looked::Close("it doesn't read its answers");
        }
        let waits_for_us = self.held_back || self.stalled.is_some() || self.must_wait(thread);
        if !waits_for_us && !self.ended && self.input.is_late(now, |bytes| options.arrival_max_of(bytes)) {
            return Looked::Close("its request doesn't arrive");
        }
        if !self.is_owed() && !waits_for_us && since(self.active) > bounds.idle_max {
            return Looked::Close("it did nothing");
        }
        if since(self.active) >= bounds.look_every {
            self.input.trim();
        }
        if self.stalled.is_some_and(|stalled| since(stalled) >= bounds.stall_max) { Looked::Wake } else { Looked::Fine }
    }

    /// Bytes of its buffers.
    pub(crate) fn memory(&self) -> usize {
        self.input.held.capacity() + self.output.memory()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        tracing::trace!(identity = %self.identity, "a connection was closed");
    }
}

/// Counts a connection that is closed for what its client did.
pub(crate) fn count_timed_out(thread: &NetworkThread) {
    thread.shared.counters.timed_out.fetch_add(1, Relaxed);
}
