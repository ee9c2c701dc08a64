//! Waiting for a condition, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(2);

/// Asks again and again until there is an answer.
///
/// # Panics
/// If there is none after `patience`; `what` is what was waited for.
pub fn until<T>(patience: Duration, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited {patience:?} for {what}, in vain");
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_the_wait() {
        let mut asked = 0;
        let answer = until(PATIENCE, "the third time", || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(answer, 3);
    }

    #[test]
    #[should_panic(expected = "for the impossible, in vain")]
    fn no_wait_is_endless() {
        until(Duration::from_millis(5), "the impossible", || None::<()>);
    }
}
