//! One value that the tests of a file share while any of them runs.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Made by the first test that asks, dropped with the last one that holds it: nothing is left when the process ends.
#[derive(Debug)]
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// For a `static`.
    pub const fn new() -> Self {
        Shared(Mutex::new(Weak::new()))
    }

    /// The value, made if no test holds it.
    pub fn value(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let value = Arc::new(make());
            *shared = Arc::downgrade(&value);
            value
        })
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_somebody_holds_it() {
        let shared = Shared::new();
        let first = shared.value(|| 1);
        assert_eq!(*shared.value(|| 2), 1);
        drop(first);
        assert_eq!(*shared.value(|| 3), 3);
    }
}
