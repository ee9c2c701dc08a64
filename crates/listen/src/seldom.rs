//! What happens often but is told seldom: at most one log line in a while.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lets one in a while through, and counts the others.
#[derive(Debug)]
pub struct Seldom {
    every: Duration,
    state: Mutex<(Option<Instant>, u64)>,
}

impl Seldom {
    /// One in `every` at most.
    pub const fn new(every: Duration) -> Self {
        Self { every, state: Mutex::new((None, 0)) }
    }

    /// It happened at `now`. `Some`: tell it, and that it happened so many times since it was last told.
    pub fn happened(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (told, times) = *state;
        let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= self.every);
        *state = if is_due { (Some(now), 0) } else { (told, times + 1) };
        is_due.then_some(times + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_then_one_in_a_while_with_the_count() {
        let seldom = Seldom::new(Duration::from_secs(1));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(seldom.happened(at(0)), Some(1));
        assert_eq!(seldom.happened(at(1)), None);
        assert_eq!(seldom.happened(at(999)), None);
        assert_eq!(seldom.happened(at(1000)), Some(3));
        assert_eq!(seldom.happened(at(1500)), None);
        assert_eq!(seldom.happened(at(9000)), Some(2));
    }
}
