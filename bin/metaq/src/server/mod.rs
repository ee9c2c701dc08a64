//! `metaq server`: a broker, made of its parts.
//!
//! In this order: the configuration is judged as a whole; ports are tried; metrics and health answer ("recovering"); the
//! data directory is recovered; then clients are served; then what may wait begins (retention, the survey of adopted
//! segments). A stop goes the other way.

mod background;
pub mod configuration;
mod descriptors;
mod greeting;
pub mod keys;
mod logging;
mod parts;
mod signals;
pub mod transactions;

use crate::exit::{CODES, Exit, Failure, Outcome};
use configuration::Configuration;
use greeting::Greeting;
use keys::Keys;
use logging::Form;
use parts::{Parts, Stopped};
use sd_notify::NotifyState;
use signals::{Asked, Signals};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Threads that accept, administrate, and serve metrics and health.
const ORDINARY_THREADS: usize = 2;

/// The arguments of `metaq server`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{SIGNALS}\n\n{CODES}"))]
pub struct Arguments {
    /// The configuration: a `server.ini` of the original is read as it is
    #[arg(short = 'f', long, value_name = "FILE", env = "METAQ_CONFIG")]
    config: Option<PathBuf>,
    /// Which log lines are written: a level, or levels by part
    #[arg(long, value_name = "LEVELS", env = "METAQ_LOG", default_value = "info")]
    log: String,
    /// The form of log lines
    #[arg(long, value_name = "FORM", env = "METAQ_LOG_FORMAT", default_value = "human")]
    log_format: Form,
    /// Starts although an original broker left transactions: renames their folder, and forgets them
    #[arg(long, env = "METAQ_SET_ASIDE_TRANSACTIONS", value_parser = clap::builder::BoolishValueParser::new())]
    set_aside_transactions: bool,
    #[command(flatten)]
    keys: Keys,
}

const EXAMPLES: &str = "\
Examples:
  metaq server                                          data in ./metaq-data, port 8123 on this machine
  metaq server --data-dir /var/lib/metaq --listen 0.0.0.0:8123
  metaq server -f /etc/metaq/server.ini --log-format json
  METAQ_BROKER_ID=7 metaq server --durability os        every key is a flag and a variable";

const SIGNALS: &str = "\
Signals:
  TERM, INT   stops: finishes what is in flight, leaves a clean directory; a second one ends it at once
  HUP         reads the configuration again; refused as a whole if there is a mistake";

/// Runs `metaq server`.
pub fn run(arguments: Arguments) -> Outcome {
    logging::begin(&arguments.log, arguments.log_format)?;
    let form = arguments.log_format;
    match serve(arguments) {
        // Programs read log lines, so that is where they find it.
        Err(failure) if form == Form::Json && !failure.text.is_empty() => {
            tracing::error!(exit = failure.exit as u8, "{failure}");
            Err(Failure::silent(failure.exit))
        }
        other => other,
    }
}

fn serve(arguments: Arguments) -> Outcome {
    let began = Instant::now();
    let configuration = Configuration { file: arguments.config, overrides: arguments.keys.overrides };
    let loaded = configuration.needed()?;
    for warning in loaded.settings.warnings() {
        tracing::warn!(from = %warning.origin, "{}", warning.text);
    }
    let runtime = ordinary_runtime()?;
    // Before anything is served: a signal that comes meanwhile isn't lost.
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let parts = Arc::new(Parts::start(&runtime, configuration, loaded, arguments.set_aside_transactions)?);
    say(&parts, arguments.log_format, began.elapsed());
    tell(&[NotifyState::Ready]);
    let asked = runtime.block_on(wait(&mut signals, &parts));
    tracing::info!("stopping ({asked}): what is in flight is finished; a second signal ends it at once");
    tell(&[NotifyState::Stopping]);
    let ended = stop(&runtime, &mut signals, parts);
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

fn ordinary_runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(ORDINARY_THREADS)
        .thread_name("metaq-ordinary")
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("threads can't be started: {error}")))
}

/// The first lines: for people on the standard output, for programs in the log.
fn say(parts: &Parts, form: Form, took: Duration) {
    let greeting = Greeting { broker: parts.broker(), listens: parts.listens(), http: parts.http() };
    let ready = format!("ready after {} ms", took.as_millis());
    match form {
        Form::Human => {
            println!("metaq {}, broker {}", env!("CARGO_PKG_VERSION"), parts.broker().settings().broker_id);
            let lines = greeting.facts().into_iter().chain([ready]).chain(greeting.advice());
            lines.for_each(|line| println!("  {line}"));
        }
        Form::Json => greeting.facts().into_iter().chain([ready]).for_each(|line| tracing::info!("{line}")),
    }
}

/// Tells systemd, if it is there.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd can't be told");
    }
}

/// Serves until somebody asks for a stop.
async fn wait(signals: &mut Signals, parts: &Parts) -> &'static str {
    loop {
        match signals.next().await {
            Asked::Stop(signal) => return signal,
            Asked::Reload => {
                let reloading = NotifyState::monotonic_usec_now().map(|now| [NotifyState::Reloading, now]);
                if let Ok(states) = reloading {
                    tell(&states);
                }
                let broker = Arc::clone(parts.broker());
                match tokio::task::spawn_blocking(move || broker.reload()).await {
                    Ok(Ok(changes)) => {
                        let changes = changes.lines().count().saturating_sub(1);
                        tracing::info!(changes, "SIGHUP: the configuration was read again");
                    }
                    Ok(Err(refused)) => {
                        tracing::error!(%refused, "SIGHUP: the configuration was read again and is refused")
                    }
                    Err(error) => tracing::error!(%error, "SIGHUP: reading the configuration again failed"),
                }
                tell(&[NotifyState::Ready]);
            }
        }
    }
}

/// Stops everything, within its limit.
fn stop(runtime: &Runtime, signals: &mut Signals, parts: Arc<Parts>) -> Outcome {
    let limit = parts.broker().settings().times.stop_max;
    let (done, ended) = oneshot::channel();
    let broker = Arc::clone(parts.broker());
    std::thread::spawn(move || {
        // Nobody listens any more if the stop was cut short.
        let _: Result<(), Stopped> = done.send(parts.stop(limit));
    });
    let cut = |why: &str| {
        tracing::warn!("the stop was cut short {why}: the next start recovers what is in the commit log");
        std::process::exit(Exit::CutShort as i32)
    };
    let stopped = runtime.block_on(async {
        tokio::select! {
            stopped = ended => stopped.unwrap_or(Stopped::ToBeRecovered),
            signal = signals.stop() => cut(&format!("by a second signal ({signal})")),
            () = tokio::time::sleep(limit) => cut(&format!("after {} ms (stopMsMax)", limit.as_millis())),
        }
    });
    match (stopped, broker.log().closed()) {
        (Stopped::Clean, _) => {
            tracing::info!("stopped; the data directory is clean");
            Ok(())
        }
        (Stopped::ToBeRecovered, Some(why)) => Err(Failure::new(
            Exit::StoreClosed,
            format!("stopped; the data directory was closed for writing and is recovered at the next start: {why}"),
        )),
        (Stopped::ToBeRecovered, None) => Err(Failure::new(
            Exit::CutShort,
            "stopped, but the last checkpoint failed; nothing is lost, the next start recovers it from the commit log",
        )),
    }
}
