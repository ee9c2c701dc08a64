//! `metaq produce`: messages go in.
//!
//! Messages are read on a thread of their own and sent in batches, several ahead of their answers, as far as the broker
//! takes batches; an original broker gets one `put` after the other. What is typed by hand is sent at once.

mod lines;
pub mod sender;

use crate::connection::Connection;
use crate::exit::Outcome;
use crate::output::{self, Form};
use crate::progress::Progress;
use lines::Input;
use sender::{Sender, Target};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Messages that are read ahead.
const AHEAD: usize = 4096;
/// A rate is kept in pieces of this length.
const PACE: Duration = Duration::from_millis(20);

/// The arguments of `metaq produce`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    connection: Connection,
    /// To which topic; it is created if the broker creates topics by itself
    topic: String,
    /// Messages; without any, each line of the standard input is one
    messages: Vec<String>,
    /// Each line of these files is a message
    #[arg(long, value_name = "FILE", env = "METAQ_FILE", conflicts_with = "messages")]
    file: Vec<PathBuf>,
    /// Each file (or the standard input) as a whole is a message
    #[arg(long, env = "METAQ_WHOLE", conflicts_with = "messages", value_parser = clap::builder::BoolishValueParser::new())]
    whole: bool,
    /// To this partition; else the broker chooses one for each batch
    #[arg(long, value_name = "INDEX", env = "METAQ_PARTITION")]
    partition: Option<i32>,
    /// An attribute for each message
    #[arg(long, value_name = "TEXT", env = "METAQ_ATTRIBUTE")]
    attribute: Option<String>,
    /// Messages a second at most
    #[arg(long, value_name = "N", env = "METAQ_RATE", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Messages of a batch at most
    #[arg(long, value_name = "N", env = "METAQ_BATCH", default_value = "500", value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Requests that may be sent ahead of their answers
    #[arg(long, value_name = "N", env = "METAQ_WINDOW", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=1024))]
    window: u32,
    /// Prints where each message went: topic, partition, position, id
    #[arg(short, long, env = "METAQ_VERBOSE", value_parser = clap::builder::BoolishValueParser::new())]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  metaq produce orders 'one message' 'another one'
  seq 100000 | metaq produce orders --rate 20000
  metaq produce orders --file today.log --partition 0 -v
  metaq produce images --whole --file a.jpg --attribute image/jpeg
  metaq produce orders -o json < lines.txt       # where each went, and a sum, as JSON lines";

/// Runs `metaq produce`.
pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { connection, topic, messages, file, whole, partition, attribute, rate, batch, window, verbose } =
        arguments;
    let wire = connection.connect()?;
    let target = Target { topic, partition, attribute, verbose, form: connection.output };
    let mut sender = Sender::new(wire, target, window);
    let input = match (messages.is_empty(), file.is_empty()) {
        (false, _) => Input::Given(messages),
        (true, false) => Input::Files(file, whole),
        (true, true) => Input::Standard(whole),
    };
    let (to, from) = sync_channel(AHEAD);
    let reader = thread::spawn(move || input.read(&to));
    let mut progress = Progress::begin(!verbose && connection.output == Form::Table);
    let sent = send(&mut sender, &from, batch, rate, &mut progress);
    // Nobody takes what it still reads.
    drop(from);
    progress.end();
    // After a failure the reader may wait for a terminal for good: it ends with the process.
    let sent = sent.and_then(|()| reader.join().unwrap_or_else(|_| unreachable!("reading doesn't panic")));
    sum(&sender, &progress, connection.output)?;
    sent
}

/// Sends what comes, until nothing comes any more.
fn send(
    sender: &mut Sender,
    from: &Receiver<Vec<u8>>,
    batch: u32,
    rate: Option<u32>,
    progress: &mut Progress,
) -> Outcome {
    let mut pace = rate.map(Pace::new);
    let most = pace.as_ref().map_or(batch, |pace| batch.min(pace.piece()));
    let mut ended = false;
    while !ended {
        // Nothing more is here: what is on its way is waited for before the next message is.
        let first = match from.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                sender.settle(progress)?;
                from.recv().ok()
            }
        };
        let Some(first) = first else { break };
        let mut some = vec![first];
        while some.len() < most as usize && sender.has_room_behind(&some) {
            match from.try_recv() {
                Ok(message) => some.push(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    ended = true;
                    break;
                }
            }
        }
        if let Some(pace) = &mut pace {
            pace.wait(some.len());
        }
        sender.send(&some, progress)?;
    }
    sender.settle(progress)
}

fn sum(sender: &Sender, progress: &Progress, form: Form) -> Outcome {
    match form {
        Form::Table => {
            // For people; a program has the exit code.
            if io::stderr().is_terminal() {
                eprintln!("{}", progress.text());
            }
            Ok(())
        }
        Form::Json => output::line(json!({
            "topic": sender.target.topic,
            "messages": progress.messages,
            "bytes": progress.bytes,
            "seconds": progress.took().as_secs_f64(),
        })),
    }
}

/// Keeps a rate.
struct Pace {
    rate: u32,
    started: Instant,
    sent: u64,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { rate, started: Instant::now(), sent: 0 }
    }

    /// Messages that may be sent together without the rate being felt to jump.
    fn piece(&self) -> u32 {
        let piece = u64::from(self.rate) * u64::try_from(PACE.as_millis()).expect("a short time") / 1000;
        u32::try_from(piece).unwrap_or(u32::MAX).max(1)
    }

    /// Waits until so many more may be sent.
    fn wait(&mut self, count: usize) {
        let due = self.started + Duration::from_secs(1).mul_f64(self.seconds());
        self.sent += count as u64;
        let rest = due.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            thread::sleep(rest);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a rate that people give")]
    fn seconds(&self) -> f64 {
        self.sent as f64 / f64::from(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_its_pieces() {
        let mut pace = Pace::new(1000);
        assert_eq!(pace.piece(), 20);
        for _ in 0..3 {
            pace.wait(50);
        }
        assert!(pace.started.elapsed() >= Duration::from_millis(100));
        assert_eq!(Pace::new(1).piece(), 1);
    }
}
