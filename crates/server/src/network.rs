//! One network thread: its connections, what they are owed, and the turns in which it looks into its mailbox.
//!
//! * Everything here belongs to one thread and one current-thread runtime; nothing is borrowed across a point where
//!   another task may run.
//! * A turn formats all answers that the watermark released and then sends once per connection.

use crate::answers::Answers;
use crate::bounds::{Bounds, READ_BYTES, WAITER_BYTES, WAITING_BYTES};
use crate::connection::{Connection, Live, Looked, count_timed_out};
use crate::gets::{Asked, Found};
use crate::mailbox::{Finished, Mailbox, Submissions};
use crate::output::Means;
use crate::requests::by_partition;
use crate::shared::{Shared, Stage};
use crate::slots::Slots;
use crate::spare::Spare;
use crate::waiters::{Waiter, Waiters};
use metaq_broker::Broker;
use metaq_broker::configuration::Settings;
use metaq_listen::Accepted;
use metaq_log::{Log, OutletId, Partition, Submission};
use metaq_protocol::request::Wait;
use metaq_protocol::{Decoded, Decoder, ErrorCode, Limits, Status, answer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How many connections that wait for room are woken in a turn.
const WOKEN: usize = 32;
/// A thread without connections has nothing to look at.
const IDLE: Duration = Duration::from_secs(3600);

/// One network thread.
pub(crate) struct NetworkThread {
    pub shared: Arc<Shared>,
    pub mailbox: Arc<Mailbox>,
    pub broker: Arc<Broker>,
    pub log: Log,
    pub outlet: OutletId,
    pub answers: RefCell<Answers>,
    pub spare: Spare,
    waiters: RefCell<Waiters>,
    slots: RefCell<Slots>,
    touched: RefCell<Vec<Rc<Connection>>>,
    /// Connections that wait for room.
    queue: RefCell<VecDeque<Rc<Connection>>>,
    scratch: Cell<Vec<u8>>,
    /// Exchanged for what was sequenced.
    sequenced: Cell<Submissions>,
    settings: RefCell<Arc<Settings>>,
    bounds: RefCell<Rc<Bounds>>,
    now: Cell<Instant>,
    next_look: Cell<Instant>,
    /// What this thread has last counted into the gauges.
    memory: Cell<u64>,
    /// Bytes were given back in this turn.
    gave_back: Cell<bool>,
    is_stopping: Cell<bool>,
}

impl NetworkThread {
    pub(crate) fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox>, outlet: OutletId) -> Self {
        let (broker, now) = (Arc::clone(&shared.broker), Instant::now());
        let settings = broker.settings();
        Self {
            bounds: RefCell::new(Rc::new(Bounds::of(&settings, &shared.options))),
            settings: RefCell::new(settings),
            log: broker.log().clone(),
            broker,
            shared,
            mailbox,
            outlet,
            answers: RefCell::default(),
            spare: Spare::default(),
            waiters: RefCell::default(),
            slots: RefCell::default(),
            touched: RefCell::default(),
            queue: RefCell::default(),
            scratch: Cell::new(vec![0; READ_BYTES]),
            sequenced: Cell::default(),
            now: Cell::new(now),
            next_look: Cell::new(now),
            memory: Cell::new(0),
            gave_back: Cell::new(false),
            is_stopping: Cell::new(false),
        }
    }

    /// Serves until the server has stopped and all connections are closed. Inside a local set.
    pub(crate) async fn serve(self: Rc<Self>) {
        let mut sleep = std::pin::pin!(tokio::time::sleep(IDLE));
        while self.shared.stage() != Stage::Aborted {
            tokio::select! {
                biased;
                () = self.mailbox.notified() => {}
                () = sleep.as_mut() => {}
            }
            self.turn();
            if self.is_stopping.get() && self.slots.borrow().len() == 0 {
                break;
            }
            let due = self.due();
            if sleep.deadline().into_std() != due {
                sleep.as_mut().reset(due.into());
            }
        }
        self.end();
    }

    /// One look at everything that others had for this thread.
    fn turn(self: &Rc<Self>) {
        self.look_at_clock();
        self.mailbox.take_arrived().into_iter().for_each(|accepted| self.open(accepted));
        self.mailbox.take_finished().into_iter().for_each(|finished| self.deliver(finished));
        self.settle();
        for partition in self.mailbox.take_ready() {
            self.look_at_waiters(partition);
        }
        self.end_waits();
        if self.now() >= self.next_look.get() {
            self.look_at_all();
        }
        if self.shared.stage() != Stage::Serving && !self.is_stopping.replace(true) {
            self.end_all();
        }
        for connection in self.touched.take() {
            connection.send(self);
        }
        self.pass_on_room();
        self.mailbox.set_owes(self.answers.borrow().len() > 0);
    }

    /// Answers what the log has decided, and what it didn't decide in time.
    fn settle(&self) {
        let mut sequenced = self.sequenced.take();
        self.mailbox.take_sequenced(&mut sequenced);
        let (settled, is_closed) = (self.log.settled(), self.log.closed().is_some());
        let mut answers = self.answers.borrow_mut();
        answers.take_back(&mut sequenced, self);
        answers.release(settled, is_closed, self);
        answers.expire(self.bounds().put_max, self);
        self.sequenced.set(sequenced);
    }

    /// When the next turn is due although nobody wakes the thread.
    fn due(&self) -> Instant {
        let next_look = if self.slots.borrow().len() == 0 { self.now() + IDLE } else { self.next_look.get() };
        self.waiters.borrow().next_deadline().map_or(next_look, |deadline| deadline.min(next_look))
    }

    fn open(self: &Rc<Self>, accepted: Accepted) {
        let Accepted { stream, identity, place } = accepted;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) if !self.is_stopping.get() => stream,
            refused => {
                tracing::debug!(%identity, error = ?refused.err(), "a connection isn't served");
                self.mailbox.connections.fetch_sub(1, Relaxed);
                return;
            }
        };
        self.shared.counters.connections.fetch_add(1, Relaxed);
        self.shared.gauges.connections.fetch_add(1, Relaxed);
        let mut slots = self.slots.borrow_mut();
        if slots.len() == 0 {
            self.next_look.set(self.now());
        }
        let connection = slots.add(|slot, serial| Connection::new(slot, serial, stream, identity, place, self));
        let thread = Rc::clone(self);
        tokio::task::spawn_local(std::future::poll_fn(move |context| connection.poll(&thread, context)));
    }

    /// Forgets a connection that was closed.
    pub(crate) fn remove(&self, connection: &Connection) {
        self.slots.borrow_mut().remove(connection);
        self.mailbox.connections.fetch_sub(1, Relaxed);
        self.shared.gauges.connections.fetch_sub(1, Relaxed);
        if self.is_stopping.get() {
            self.mailbox.wake_thread();
        }
    }

    /// Looks at each connection: at what nothing else wakes it for.
    fn look_at_all(&self) {
        self.look_at_settings();
        let all: Vec<_> = self.slots.borrow().iter().cloned().collect();
        let mut memory = 0;
        for connection in all {
            let looked = connection.with(|live| {
                memory += live.memory() as u64;
                let looked = live.look(self);
                if let Looked::Close(why) = looked
                    && !why.is_empty()
                {
                    tracing::debug!(identity = %live.identity, why, "a connection is closed");
                    count_timed_out(self);
                }
                if looked == Looked::Wake {
                    live.wake();
                }
                looked
            });
            if matches!(looked, Some(Looked::Close(_))) {
                connection.close(self);
            }
        }
        let gauge = &self.shared.gauges.buffer_bytes;
        gauge.fetch_add(memory, Relaxed);
        gauge.fetch_sub(self.memory.replace(memory), Relaxed);
        self.next_look.set(self.now() + self.bounds().look_every);
    }

    fn look_at_settings(&self) {
        let settings = self.broker.settings();
        if !Arc::ptr_eq(&settings, &self.settings.borrow()) {
            *self.bounds.borrow_mut() = Rc::new(Bounds::of(&settings, &self.shared.options));
            self.settings.replace(settings);
        }
    }

    /// Nothing more is read; what was read is answered.
    fn end_all(&self) {
        let all: Vec<_> = self.slots.borrow().iter().cloned().collect();
        for connection in all {
            connection.with(|live| {
                live.end(self);
                live.wake();
            });
        }
    }

    /// Closes everything.
    fn end(&self) {
        self.mailbox.close();
        let all: Vec<_> = self.slots.borrow().iter().cloned().collect();
        let cut = all.iter().filter(|connection| connection.with(|live| live.is_owed()).unwrap_or(false)).count();
        self.shared.cut.fetch_add(cut, Relaxed);
        all.iter().for_each(|connection| connection.close(self));
        self.shared.gauges.buffer_bytes.fetch_sub(self.memory.take(), Relaxed);
    }

    // What connections need of their thread.

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn look_at_clock(&self) {
        self.now.set(Instant::now());
    }

    pub(crate) fn bounds(&self) -> Rc<Bounds> {
        Rc::clone(&self.bounds.borrow())
    }

    pub(crate) fn means(&self) -> Means<'_> {
        let (cold, counters) = (&self.shared.cold, &self.shared.counters);
        Means { cold, counters, spare: &self.spare, now: self.now() }
    }

    pub(crate) fn take_scratch(&self) -> Vec<u8> {
        self.scratch.take()
    }

    pub(crate) fn return_scratch(&self, scratch: Vec<u8>) {
        self.scratch.set(scratch);
    }

    /// Notes that a connection got answers in this turn.
    pub(crate) fn touch(&self, connection: &Rc<Connection>) {
        let is_new = connection.with(|live| !std::mem::replace(&mut live.touched, true)).unwrap_or(false);
        if is_new {
            self.touched.borrow_mut().push(Rc::clone(connection));
        }
    }

    /// The log is done with a submission: what was taken for it is given back.
    pub(crate) fn done_with(&self, connection: &Rc<Connection>, bytes: u64, submission: &Submission) {
        let budgets = &self.shared.budgets;
        for (partition, bytes) in by_partition(submission) {
            budgets.partition(partition).fetch_sub(bytes, Relaxed);
        }
        budgets.give_back(bytes);
        self.gave_back.set(true);
        connection.with(|live| live.in_flight -= bytes);
        self.touch(connection);
    }

    // Room.

    /// A connection waits until there is room for its puts.
    pub(crate) fn queue_for_room(&self, connection: &Rc<Connection>) {
        let mut queue = self.queue.borrow_mut();
        queue.push_back(Rc::clone(connection));
        self.mailbox.stalled.store(queue.len(), Relaxed);
    }

    /// Wakes some of those that wait for room, here and on other threads, if there may be some.
    fn pass_on_room(&self) {
        let gave_back = self.gave_back.take();
        if gave_back {
            self.shared.wake_stalled(&self.mailbox);
        }
        if self.shared.budgets.in_flight() >= self.bounds().broker_bytes_max {
            return;
        }
        let mut queue = self.queue.borrow_mut();
        let count = queue.len().min(WOKEN);
        for connection in queue.drain(..count) {
            connection.with(|live| {
                live.in_queue = false;
                live.wake();
            });
        }
        self.mailbox.stalled.store(queue.len(), Relaxed);
    }

    // Gets that wait.

    /// Has a request wait for more; `None`: too many wait.
    pub(crate) fn park(
        &self,
        connection: &Rc<Connection>,
        line: &[u8],
        partitions: Vec<Arc<Partition>>,
        wait: Wait,
    ) -> Option<u64> {
        let bounds = self.bounds();
        let (count, memory) = (&self.shared.gauges.waiters, &self.shared.waiting_bytes);
        let bytes = line.len() as u64 + WAITER_BYTES * partitions.len() as u64;
        let fits = memory.fetch_add(bytes, Relaxed) + bytes <= WAITING_BYTES;
        if count.fetch_add(1, Relaxed) >= bounds.waiters_max || !fits {
            count.fetch_sub(1, Relaxed);
            memory.fetch_sub(bytes, Relaxed);
            return None;
        }
        self.mailbox.set_waits(true);
        let deadline = self.now() + Duration::from_millis(wait.ms.into()).min(bounds.wait_max);
        if deadline < self.due() {
            self.mailbox.wake_thread();
        }
        let waiter = Waiter { connection: Rc::clone(connection), line: line.to_vec(), partitions, deadline, bytes };
        Some(self.waiters.borrow_mut().park(waiter))
    }

    pub(crate) fn forget_waiter(&self, number: u64) -> Option<Waiter> {
        let mut waiters = self.waiters.borrow_mut();
        let waiter = waiters.remove(number)?;
        self.shared.gauges.waiters.fetch_sub(1, Relaxed);
        self.shared.waiting_bytes.fetch_sub(waiter.bytes, Relaxed);
        self.mailbox.set_waits(!waiters.is_empty());
        Some(waiter)
    }

    /// A partition has more: answers those who wait for it and have enough.
    fn look_at_waiters(&self, partition: u32) {
        let numbers = self.waiters.borrow().of_partition(partition);
        for number in numbers {
            self.look_at_waiter(number, false);
        }
    }

    /// Answers those whose time is over.
    fn end_waits(&self) {
        loop {
            let due = self.waiters.borrow().due(self.now());
            let Some(number) = due else { return };
            self.look_at_waiter(number, true);
        }
    }

    fn look_at_waiter(&self, number: u64, is_last: bool) {
        let limits = self.bounds().requests;
        let Some(line) = self.waiters.borrow_mut().take_line(number) else { return };
        let asked = Asked::again(&line, limits);
        let found = asked.look_again(&self.broker);
        if !is_last && !asked.lacks(&found, &self.broker).is_empty() {
            self.waiters.borrow_mut().return_line(number, line);
            return;
        }
        let Some(waiter) = self.forget_waiter(number) else { return };
        waiter.connection.with(|live| {
            live.waiters.retain(|other| *other != number);
            self.answer_asked(&asked, found, live);
        });
        self.touch(&waiter.connection);
    }

    /// Answers a request that waits with what there is, for its connection ends.
    pub(crate) fn answer_waiter_now(&self, number: u64, live: &mut Live) {
        let Some(waiter) = self.forget_waiter(number) else { return };
        let asked = Asked::again(&waiter.line, self.bounds().requests);
        self.answer_asked(&asked, asked.look_again(&self.broker), live);
    }

    pub(crate) fn answer_asked(&self, asked: &Asked<'_>, found: Found, live: &mut Live) {
        if let Err(error) = asked.answer(found, &mut live.output, self.means()) {
            tracing::error!(identity = %live.identity, %error, "messages can't be read; the connection is closed");
            live.breaks(error);
        }
    }

    // Administration.

    /// Carries a request out on a thread that may block; its answer comes back through the mailbox.
    pub(crate) fn administer(&self, connection: &Connection, opaque: i32, frame: &[u8]) {
        let (slot, serial, frame) = (connection.slot, connection.serial, frame.to_vec());
        let (shared, mailbox) = (Arc::clone(&self.shared), Arc::clone(&self.mailbox));
        let limits = self.bounds().requests;
        self.shared.runtime.spawn(async move {
            let place = Arc::clone(&shared.jobs).acquire_owned().await;
            let broker = Arc::clone(&shared.broker);
            let done = tokio::task::spawn_blocking(move || administered(&broker, opaque, &frame, limits)).await;
            drop(place);
            let answer = done.unwrap_or_else(|_| {
                let mut out = Vec::new();
                let text = "carrying this out failed in the broker; its log says more";
                answer::error(&mut out, opaque, ErrorCode::Internal, text);
                out
            });
            mailbox.finish(Finished { slot, serial, answer });
        });
    }

    fn deliver(&self, finished: Finished) {
        let Finished { slot, serial, answer } = finished;
        let connection = self.slots.borrow().find(slot, serial);
        if let Some(connection) = connection {
            connection.with(|live| {
                live.jobs -= 1;
                live.say(&answer, self);
                live.wake();
            });
            self.touch(&connection);
        }
    }
}

fn administered(broker: &Broker, opaque: i32, frame: &[u8], limits: Limits) -> Vec<u8> {
    let mut out = Vec::new();
    match Decoder::new(limits).decode(frame) {
        Ok(Decoded::Request { request, .. }) => match broker.administer(&request) {
            Ok(text) => answer::result(&mut out, Status::Ok, opaque, text.as_bytes()),
            Err(refused) => refused.answer(opaque, &mut out),
        },
        other => unreachable!("a request that was read before is read again, not {other:?}"),
    }
    out
}
