//! What goes on beside serving: retention, the survey of adopted segments, and small things now and then.

use crate::clock;
use crate::exit::Failure;
use jiff::tz::TimeZone;
use metaq_broker::{Broker, Retention};
use metaq_listen::Places;
use metaq_log::Partition;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often small things are looked at, and retention whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the survey rests after each MiB, so that it takes little from clients.
const SURVEY_REST: Duration = Duration::from_millis(2);

/// Says that it is time to stop.
#[derive(Debug, Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Rests so long, or until it is time to stop; then `true`.
    fn after(&self, rest: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(asked, rest, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The threads beside serving.
#[derive(Debug)]
pub struct Background {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Begins. `to_survey`: adopted partitions whose older segments are to be looked through. `places`: those of clients.
    pub fn begin(broker: &Arc<Broker>, to_survey: Vec<Arc<Partition>>, places: Arc<Places>) -> Result<Self, Failure> {
        let mut background = Self { stop: Arc::default(), threads: Vec::new() };
        background.spawn("retain", broker, retain)?;
        background.spawn("tend", broker, move |broker, stop| tend(&broker, &places, stop))?;
        if !to_survey.is_empty() {
            background.spawn("survey", broker, move |broker, stop| {
                broker.survey(&to_survey, || std::thread::sleep(SURVEY_REST), || !stop.after(Duration::ZERO));
            })?;
        }
        Ok(background)
    }

    fn spawn(
        &mut self,
        name: &str,
        broker: &Arc<Broker>,
        work: impl FnOnce(Arc<Broker>, &Stop) + Send + 'static,
    ) -> Result<(), Failure> {
        let (broker, stop) = (Arc::clone(broker), Arc::clone(&self.stop));
        let failed = |error: io::Error| Failure::failed(format!("a thread can't be started: {error}"));
        let thread = Builder::new().name(format!("metaq-{name}")).spawn(move || work(broker, &stop)).map_err(failed)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Ends all of it; what is at work on a segment finishes that.
    pub fn end(self) {
        self.stop.ask();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread beside serving ended with a panic");
            }
        }
    }
}

/// Removes what is due, when it is due.
fn retain(broker: Arc<Broker>, stop: &Stop) {
    let mut retention = Retention::new(broker, TimeZone::system());
    loop {
        let now = clock::now();
        let ran = retention.run(now);
        if ran.segments > 0 {
            tracing::info!(segments = ran.segments, bytes = ran.bytes, "retention removed or archived segments");
        }
        // It is looked at more often than the next time says: topics and schedules come and change, clocks jump.
        let due = Duration::from_millis(ran.next.saturating_sub(clock::now()));
        if stop.after(due.min(LOOK_EVERY)) {
            return;
        }
    }
}

/// Keeps what follows the settings, and counters that begin anew after a while.
fn tend(broker: &Broker, places: &Places, stop: &Stop) {
    while !stop.after(LOOK_EVERY) {
        broker.tick();
        places.set_max(broker.settings().limits.connections_max);
    }
}
