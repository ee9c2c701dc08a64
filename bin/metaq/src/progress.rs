//! How far a command is: a line that changes on a terminal, and nothing anywhere else.

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// How far a command is.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    /// Messages so far.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
}

impl Progress {
    /// Begins. `shown`: on a terminal, unless that would mix with what the command prints there.
    pub fn begin(shown: bool) -> Self {
        let bar = (shown && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
            bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is a good one"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, started: Instant::now(), messages: 0, bytes: 0 }
    }

    /// So many messages and bytes more.
    pub fn add(&mut self, messages: u64, bytes: u64) {
        self.messages += messages;
        self.bytes += bytes;
        if let Some(bar) = &self.bar {
            bar.set_message(self.text());
        }
    }

    /// Time since the beginning.
    pub fn took(&self) -> Duration {
        self.started.elapsed()
    }

    /// What was done so far, for people.
    pub fn text(&self) -> String {
        let seconds = self.took().as_secs_f64();
        let bytes = HumanBytes(self.bytes);
        if self.messages == 0 {
            return format!("{bytes} in {seconds:.1} s");
        }
        let (messages, rate) = (HumanCount(self.messages), HumanCount(per_second(self.messages, seconds)));
        format!("{messages} messages, {bytes} in {seconds:.1} s ({rate} a second)")
    }

    /// Takes the line away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people"
)]
fn per_second(messages: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (messages as f64 / seconds) as u64 } else { messages }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_messages_over_seconds() {
        assert_eq!(per_second(1000, 2.0), 500);
        assert_eq!(per_second(7, 0.0), 7);
    }
}
