//! A reply on its way: filled once by the model, awaited once by the caller.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

struct Filled<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// The model's end.
pub(super) struct Filler<T>(Arc<Mutex<Filled<T>>>);

/// The caller's end.
pub(super) struct Waiting<T>(Arc<Mutex<Filled<T>>>);

/// Both ends of an empty slot.
pub(super) fn slot<T>() -> (Filler<T>, Waiting<T>) {
    let filled = Arc::new(Mutex::new(Filled { value: None, waker: None }));
    (Filler(filled.clone()), Waiting(filled))
}

impl<T> Filler<T> {
    /// Fills it and wakes the caller.
    pub(super) fn fill(self, value: T) {
        let mut filled = self.0.lock().expect("nothing panics while a slot is locked");
        filled.value = Some(value);
        let waker = filled.waker.take();
        drop(filled);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Waiting<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut filled = self.0.lock().expect("nothing panics while a slot is locked");
        match filled.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                filled.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
