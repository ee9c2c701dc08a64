//! Changes of the registry on their way through the log, and who waits for what.

use super::{REMEMBERED, Shared, wake_all};
use metaq_log::{Change, Item, Log, Outcome, Outlet, OutletId, Submission, What};
use metaq_registry::{Failure, Key, Prefix, Revision};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The registry's outlet. The log holds it, so it doesn't hold the log.
pub(super) struct Pending {
    outlet: OnceLock<OutletId>,
    registry: Weak<Shared>,
    state: Mutex<State>,
    myself: Weak<Pending>,
}

#[derive(Default)]
struct State {
    next: u64,
    submitted: HashMap<u64, Submitted>,
    /// Changes that are settled, oldest first, and what they were about.
    recent: VecDeque<(Revision, Vec<Key>)>,
    /// Changes up to this may have been forgotten.
    forgotten: Revision,
    /// By number, who waits for a change below a prefix after a revision.
    waiting: HashMap<u64, (Prefix, Revision, Waker)>,
    /// Futures that nobody else drives.
    tasks: HashMap<u64, Driven>,
}

/// A future that nobody else drives.
#[derive(Default)]
struct Driven {
    /// `None` while it is polled.
    task: Option<Task>,
    /// It was woken while it was polled.
    woken: bool,
}

#[derive(Default)]
struct Submitted {
    keys: Vec<Key>,
    sequenced: Option<(Outcome, u64)>,
    done: Option<Result<Outcome, Failure>>,
    waker: Option<Waker>,
    /// Nobody waits for it any more.
    abandoned: bool,
}

impl Pending {
    pub(super) fn register(log: &Log, registry: Weak<Shared>) -> Arc<Self> {
        let forgotten = Revision(log.settled().durable);
        let pending = Arc::new_cyclic(|myself| Self {
            outlet: OnceLock::new(),
            registry,
            state: Mutex::new(State { forgotten, ..State::default() }),
            myself: Weak::clone(myself),
        });
        let outlet = log.register(Arc::clone(&pending) as Arc<dyn Outlet>);
        pending.outlet.set(outlet).expect("registered once");
        pending
    }

    fn is_closed(&self) -> bool {
        self.registry.upgrade().is_none_or(|registry| registry.log.closed().is_some())
    }

    /// Hands a change to the log. `keys`: what it is about, for hints.
    pub(super) fn submit(&self, log: &Log, change: Change, keys: Vec<Key>) -> Settled {
        let token = {
            let mut state = self.state.lock();
            let token = state.next;
            state.next += 1;
            state.submitted.insert(token, Submitted { keys, ..Submitted::default() });
            token
        };
        log.submit(Box::new(Submission {
            outlet: *self.outlet.get().expect("set when it was registered"),
            token,
            bytes: Vec::new(),
            items: vec![Item { tag: 0, what: What::Change(Box::new(change)) }],
            outcomes: Vec::new(),
            wait_durable: 0,
        }));
        Settled { pending: self.myself.upgrade().expect("whoever calls holds it"), token }
    }

    /// A number that wasn't given before.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        state.next - 1
    }

    /// Whether something below `under` changed after `seen`; if not, the waker is called when something did.
    pub(super) fn poll_changed(&self, number: u64, under: &Prefix, seen: Revision, waker: &Waker) -> Poll<()> {
        let closed = self.is_closed();
        let mut state = self.state.lock();
        if closed || seen < state.forgotten || has_changed(&state.recent, under, seen) {
            state.waiting.remove(&number);
            return Poll::Ready(());
        }
        state.waiting.insert(number, (under.clone(), seen, waker.clone()));
        Poll::Pending
    }

    /// Forgets who waited.
    pub(super) fn forget(&self, number: u64) {
        self.state.lock().waiting.remove(&number);
    }

    /// How many wait for a hint.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Drives a future that nobody waits for.
    pub(super) fn drive(&self, task: Task) {
        let number = self.number();
        self.state.lock().tasks.insert(number, Driven { task: Some(task), woken: false });
        self.step(number);
    }

    fn step(&self, number: u64) {
        let waker = Waker::from(Arc::new(Driver { pending: Weak::clone(&self.myself), number }));
        loop {
            let task = {
                let mut state = self.state.lock();
                let Some(driven) = state.tasks.get_mut(&number) else { return };
                driven.woken = driven.task.is_none();
                driven.task.take()
            };
            // Somebody polls it; it is woken again when that is done.
            let Some(mut task) = task else { return };
            // Polled without the lock: it submits.
            let is_done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            let mut state = self.state.lock();
            if is_done {
                state.tasks.remove(&number);
                return;
            }
            let driven = state.tasks.entry(number).or_default();
            driven.task = Some(task);
            if !std::mem::take(&mut driven.woken) {
                return;
            }
        }
    }

    /// Tells everybody whose change is settled, and those who wait for it.
    fn settle(&self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let (settled, closed) = (registry.log.settled().durable, registry.log.closed().is_some());
        let mut state = self.state.lock();
        if state.submitted.is_empty() && !closed {
            return;
        }
        let State { submitted, recent, forgotten, waiting, .. } = &mut *state;
        let mut wakers = Vec::new();
        let mut changed = Vec::new();
        submitted.retain(|_, one| {
            let outcome = match one.sequenced.take_if(|(_, wait)| *wait <= settled) {
                Some((outcome, _)) => Ok(outcome),
                None if closed && one.done.is_none() => Err(Failure::Unknown),
                None => return true,
            };
            if let Ok(Outcome::Changed { lsn }) = &outcome {
                changed.push((Revision(*lsn), std::mem::take(&mut one.keys)));
            }
            one.done = Some(outcome);
            wakers.extend(one.waker.take());
            !one.abandoned
        });
        if !changed.is_empty() {
            recent.extend(changed);
            recent.make_contiguous().sort_by_key(|(revision, _)| *revision);
        }
        while recent.len() > REMEMBERED {
            *forgotten = recent.pop_front().map_or(*forgotten, |(revision, _)| revision);
        }
        let hinted = waiting.extract_if(|_, (under, seen, _)| closed || has_changed(recent, under, *seen));
        wakers.extend(hinted.map(|(_, (_, _, waker))| waker));
        drop(state);
        wake_all(wakers);
    }
}

/// Whether something below `under` changed after `seen`, as far as it is remembered.
fn has_changed(recent: &VecDeque<(Revision, Vec<Key>)>, under: &Prefix, seen: Revision) -> bool {
    let mut later = recent.iter().rev().take_while(|(revision, _)| *revision > seen);
    later.any(|(_, keys)| keys.iter().any(|key| under.holds(key)))
}

impl Outlet for Pending {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        {
            let mut state = self.state.lock();
            for mut submission in sequenced.drain(..) {
                let outcome = submission.outcomes.pop().expect("one item has one outcome");
                if let Some(one) = state.submitted.get_mut(&submission.token) {
                    one.sequenced = Some((outcome, submission.wait_durable));
                }
            }
        }
        self.settle();
    }

    fn wake(&self, _ready: &[u32]) {
        self.settle();
    }
}

/// Wakes a driven future: polls it on the thread that wakes it.
struct Driver {
    pending: Weak<Pending>,
    number: u64,
}

impl Wake for Driver {
    fn wake(self: Arc<Self>) {
        if let Some(pending) = self.pending.upgrade() {
            pending.step(self.number);
        }
    }
}

/// A change on its way; done when it is settled.
pub(super) struct Settled {
    pending: Arc<Pending>,
    token: u64,
}

impl Future for Settled {
    type Output = Result<Outcome, Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.pending.state.lock();
        let one = state.submitted.get_mut(&self.token).expect("it stays until it is done");
        match one.done.take() {
            Some(outcome) => {
                state.submitted.remove(&self.token);
                Poll::Ready(outcome)
            }
            None => {
                one.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        let mut state = self.pending.state.lock();
        let Some(one) = state.submitted.get_mut(&self.token) else { return };
        if one.done.is_some() {
            state.submitted.remove(&self.token);
        } else {
            one.abandoned = true;
            one.waker = None;
        }
    }
}
