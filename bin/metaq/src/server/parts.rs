//! The parts of a broker: built, joined, and stopped.

use super::background::Background;
use super::configuration::Configuration;
use super::{descriptors, transactions};
use crate::clock;
use crate::exit::{Exit, Failure};
use metaq_broker::configuration::Settings;
use metaq_broker::{Broker, Loaded, Surroundings, log_options};
use metaq_disk::{Disk, RealDisk};
use metaq_http::{Observed, Reading, Sample, Samples};
use metaq_listen::{Listener, Places};
use metaq_log::{Found, Report, Running};
use metaq_server::{Counters, Server};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// What this program calls itself in data directories.
const PROGRAM: &str = concat!("metaq ", env!("CARGO_PKG_VERSION"));
/// Clients of metrics and health at a time.
const HTTP_CONNECTIONS_MAX: usize = 256;

/// How a stop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The data directory is clean.
    Clean,
    /// The next start recovers it.
    ToBeRecovered,
}

/// The parts of a broker that serves.
pub struct Parts {
    broker: Arc<Broker>,
    server: Server,
    listens: SocketAddr,
    http: Option<Http>,
    observed: Arc<Observed>,
    ending: Mutex<Option<Ending>>,
}

/// What is taken apart by a stop.
struct Ending {
    running: Running,
    background: Background,
    stop_http: Option<oneshot::Sender<()>>,
}

/// Metrics and health, served.
struct Http {
    address: SocketAddr,
}

impl Parts {
    /// Builds and joins everything. If it fails, what was opened is closed again.
    pub fn start(
        runtime: &Runtime,
        configuration: Configuration,
        loaded: Loaded,
        set_aside_transactions: bool,
    ) -> Result<Self, Failure> {
        let Loaded { settings, file } = loaded;
        let limit = descriptors::raise();
        try_port(settings.listen)?;
        let observed = Observed::new(clock::wall_clock());
        let (http, stop_http) = start_http(runtime, &settings, &observed)?.unzip();
        let disk = Arc::new(RealDisk);
        refuse_transactions(&*disk, &settings, set_aside_transactions)?;
        let (running, report) = open(disk, &settings, limit)?;
        let surroundings = Surroundings {
            clock: clock::wall_clock(),
            random: clock::random(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            file,
            reload: Arc::new(move || configuration.load().map_err(|mistakes| mistakes.lines.join("\n"))),
        };
        let joined = join(runtime, &running, settings, surroundings, report);
        let Joined { broker, server, listens, places, background } = match joined {
            Ok(joined) => joined,
            Err(failure) => {
                running.stop();
                return Err(failure);
            }
        };
        observed.serves(Arc::clone(&broker), samples(Arc::clone(server.counters()), places));
        let ending = Mutex::new(Some(Ending { running, background, stop_http }));
        Ok(Self { broker, server, listens, http, observed, ending })
    }

    /// The broker.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Where the text protocol is served.
    pub fn listens(&self) -> SocketAddr {
        self.listens
    }

    /// Where metrics and health are served.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address)
    }

    /// Stops everything: clients first, the log last. Half of `limit` is the clients', so that the rest is enough for a
    /// clean end. Blocks. Said once.
    pub fn stop(&self, limit: Duration) -> Stopped {
        self.observed.stops();
        if let metaq_server::Stopped::Cut(connections) = self.server.stop(limit / 2) {
            tracing::warn!(connections, "connections were closed although they were owed answers");
        }
        let ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Ending { running, background, stop_http }) = ending else { return Stopped::ToBeRecovered };
        background.end();
        let stopped = running.stop();
        // Until here its health could be asked.
        drop(stop_http);
        match stopped {
            metaq_log::Stopped::Clean => Stopped::Clean,
            metaq_log::Stopped::ToBeRecovered => Stopped::ToBeRecovered,
        }
    }
}

/// Finds out whether a port can be had, before the data directory is touched.
fn try_port(address: SocketAddr) -> Result<(), Failure> {
    TcpListener::bind(address).map(drop).map_err(|error| {
        let hint = "stop what uses it, or choose another with --listen (metaq doctor looks who it is)";
        Failure::new(Exit::Unreachable, format!("{address} can't be listened on: {error}; {hint}"))
    })
}

fn unreachable(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Unreachable, error.to_string())
}

/// Serves metrics and health, if anybody wants them.
fn start_http(
    runtime: &Runtime,
    settings: &Settings,
    observed: &Arc<Observed>,
) -> Result<Option<(Http, oneshot::Sender<()>)>, Failure> {
    let Some(address) = settings.http else { return Ok(None) };
    let options = metaq_listen::Options { connections_max: HTTP_CONNECTIONS_MAX, ..metaq_listen::Options::default() };
    let listener = runtime.block_on(async { Listener::bind(address, options) });
    let listener = listener.map_err(|error| unreachable(format!("{error} (--http, or --http off)")))?;
    let address = listener.local_addr();
    let (stop, stopped) = oneshot::channel();
    runtime.spawn(metaq_http::serve(listener, Arc::clone(observed), metaq_http::Limits::DEFAULT, async {
        // The sender is dropped when it is time.
        let _: Result<(), oneshot::error::RecvError> = stopped.await;
    }));
    Ok(Some((Http { address }, stop)))
}

fn refuse_transactions(disk: &dyn Disk, settings: &Settings, set_aside: bool) -> Result<(), Failure> {
    if let Some(aside) = transactions::refuse(disk, &settings.data_log_path, set_aside)? {
        tracing::warn!(folder = %aside.display(), "the transactions of an original broker were set aside");
    }
    Ok(())
}

/// Recovers the data directory and starts the threads of its log.
fn open(disk: Arc<dyn Disk>, settings: &Settings, descriptors: Option<u64>) -> Result<(Running, Report), Failure> {
    let descriptors = descriptors.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let options = log_options(settings, PROGRAM, descriptors);
    let mut opened = metaq_log::open(disk, options, clock::now())
        .map_err(|error| Failure::new(Exit::Directory, error.to_string()))?;
    let report = std::mem::take(&mut opened.report);
    tell(&report);
    let running = metaq_log::run(opened, clock::wall_clock())
        .map_err(|error| Failure::failed(format!("the threads of the log can't be started: {error}")))?;
    Ok((running, report))
}

/// What recovery found, as log lines.
fn tell(report: &Report) {
    if !report.clean {
        let (turns, entries, torn) = (report.turns, report.entries, report.torn);
        tracing::info!(turns, entries, torn, "the last stop wasn't clean; the commit log was replayed");
    }
    for finding in &report.findings {
        match finding.what {
            Found::Adopted { .. } => tracing::info!("{finding}"),
            Found::ChangedElsewhere { .. } | Found::Cut { .. } | Found::Shorter { .. } => tracing::warn!("{finding}"),
            Found::Damaged { .. } | Found::Closed { .. } => tracing::error!("{finding}"),
        }
    }
}

/// What is built on an open log.
struct Joined {
    broker: Arc<Broker>,
    server: Server,
    listens: SocketAddr,
    places: Arc<Places>,
    background: Background,
}

fn join(
    runtime: &Runtime,
    running: &Running,
    settings: Settings,
    surroundings: Surroundings,
    report: Report,
) -> Result<Joined, Failure> {
    let options = metaq_listen::Options {
        connections_max: settings.limits.connections_max,
        congestion: settings.tcp_congestion.clone(),
        ..metaq_listen::Options::default()
    };
    let (address, threads) = (settings.listen, settings.network_threads);
    let broker = Broker::new(running.log().clone(), settings, surroundings)
        .map_err(|error| Failure::new(Exit::Directory, error.to_string()))?;
    let listener = runtime.block_on(async { Listener::bind(address, options) }).map_err(unreachable)?;
    let (listens, places) = (listener.local_addr(), Arc::clone(listener.places()));
    let mut options = metaq_server::Options::default();
    options.threads = threads.unwrap_or(options.threads);
    let server = Server::start(Arc::clone(&broker), vec![listener], runtime.handle().clone(), options)
        .map_err(|error| Failure::failed(format!("network threads can't be started: {error}")))?;
    let background = Background::begin(&broker, report.to_survey, Arc::clone(&places))?;
    Ok(Joined { broker, server, listens, places, background })
}

/// The numbers of the text front end, for metrics.
fn samples(counters: Arc<Counters>, places: Arc<Places>) -> Samples {
    Samples::new(move || {
        let count = |name, about, counter: &AtomicU64| Sample {
            name,
            about,
            reading: Reading::Counter,
            value: counter.load(Ordering::Relaxed),
        };
        let c = &*counters;
        vec![
            count("connections_accepted", "Connections accepted", &c.connections),
            Sample {
                name: "connections_refused",
                about: "Connections closed at once since all places were taken",
                reading: Reading::Counter,
                value: places.refused() as u64,
            },
            count("connections_malformed", "Connections closed because of a malformed line", &c.malformed),
            count("connections_timed_out", "Connections closed since they did too little for too long", &c.timed_out),
            count("get_sendfile_bytes", "Bytes of messages that left by sendfile", &c.sendfile_bytes),
            count("get_copied_small_bytes", "Bytes of messages copied, of gets below 64 KiB", &c.copied_small_bytes),
            count("get_copied_large_bytes", "Bytes of messages copied, of larger gets", &c.copied_large_bytes),
            count("get_cold_reads", "Reads of bytes that weren't in memory", &c.cold_reads),
            count("put_submissions", "Submissions handed to the log", &c.submissions),
            count("puts_unknown", "Puts answered as outcome unknown", &c.puts_unknown),
            count("puts_busy", "Puts answered as busy", &c.puts_busy),
            count("sends", "System calls that sent something", &c.sends),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Outcome;
    use crate::output::Form;
    use crate::partitions;
    use crate::produce::sender::{Sender, Target};
    use crate::progress::Progress;
    use crate::reader::{Cursor, Reader, Sink};
    use crate::wire::Wire;
    use metaq_broker::configuration::Override;
    use metaq_protocol::record::Found;
    use metaq_testkit::Folder;

    const SOON: Duration = Duration::from_secs(10);

    struct Broker {
        parts: Parts,
        runtime: Runtime,
    }

    fn configuration(folder: &Folder) -> Configuration {
        let data = folder.join("data").display().to_string();
        let flag = |key: &str, value: &str| Override::flag(key, value, "--test");
        let overrides = vec![
            flag("dataPath", &data),
            flag("serverPort", "0"),
            flag("dashboardHttpPort", "0"),
            flag("commitFileBytes", "16*1024*1024"),
            flag("diskReserveBytes", "0"),
            flag("numPartitions", "2"),
        ];
        Configuration { file: None, overrides }
    }

    fn start(folder: &Folder) -> Result<Broker, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let configuration = configuration(folder);
        let loaded = configuration.needed()?;
        Parts::start(&runtime, configuration, loaded, false).map(|parts| Broker { parts, runtime })
    }

    impl Broker {
        fn connect(&self) -> Wire {
            Wire::connect(&self.parts.listens().to_string(), SOON).unwrap()
        }
    }

    fn produce(wire: Wire, messages: &[&str]) -> (u64, Outcome) {
        let (topic, attribute) = ("t".to_owned(), Some("red".to_owned()));
        let target = Target { topic, partition: None, attribute, verbose: false, form: Form::Table };
        let mut sender = Sender::new(wire, target, 4);
        let mut progress = Progress::begin(false);
        let messages: Vec<Vec<u8>> = messages.iter().map(|message| message.as_bytes().to_vec()).collect();
        let sent = messages.chunks(3).try_for_each(|some| sender.send(some, &mut progress));
        let sent = sent.and_then(|()| sender.settle(&mut progress));
        (progress.messages, sent)
    }

    /// Keeps what is read, up to so many.
    struct Kept {
        payloads: Vec<String>,
        most: usize,
    }

    impl Sink for Kept {
        fn take(&mut self, _: i32, _: i64, found: Found<'_>) -> Result<bool, Failure> {
            let parts = found.record.parts().unwrap();
            assert_eq!(parts.attribute, Some(&b"red"[..]));
            self.payloads.push(String::from_utf8(parts.payload.to_vec()).unwrap());
            Ok(self.payloads.len() < self.most)
        }

        fn taken(&mut self, _: &mut Wire, _: i32, _: i64, _: i64) -> Outcome {
            Ok(())
        }
    }

    fn consume(wire: &mut Wire, most: usize, follows: bool) -> Vec<String> {
        let known = partitions::of(wire, "t", None).unwrap();
        let mut cursors: Vec<_> = known.existing.into_iter().map(|one| Cursor::new(one, one.first, follows)).collect();
        let mut kept = Kept { payloads: Vec::new(), most };
        let mut reader = Reader::new(wire, "t", "g");
        let read =
            if follows { reader.follow(&mut cursors, None, &mut kept) } else { reader.read(&mut cursors, &mut kept) };
        read.unwrap();
        kept.payloads.sort_unstable();
        kept.payloads
    }

    #[test]
    fn what_goes_in_comes_out_also_after_a_clean_stop() {
        let folder = Folder::new();
        let broker = start(&folder).unwrap();
        let messages = ["1", "2", "3", "4", "5", "6", "7"];
        assert_eq!(produce(broker.connect(), &messages), (7, Ok(())));
        assert_eq!(consume(&mut broker.connect(), usize::MAX, false), messages);
        assert_eq!(consume(&mut broker.connect(), 7, true), messages);
        assert_eq!(broker.parts.stop(SOON), Stopped::Clean);
        drop(broker);
        let broker = start(&folder).unwrap();
        assert_eq!(consume(&mut broker.connect(), usize::MAX, false), messages);
        assert_eq!(broker.parts.stop(SOON), Stopped::Clean);
    }

    #[test]
    fn who_follows_gets_what_comes_later() {
        let folder = Folder::new();
        let broker = start(&folder).unwrap();
        // Into one of two partitions: the other one comes into being later.
        produce(broker.connect(), &["1"]).1.unwrap();
        let mut wire = broker.connect();
        let follower = std::thread::spawn(move || consume(&mut wire, 7, true));
        for message in ["2", "3", "4", "5", "6", "7"] {
            produce(broker.connect(), &[message]).1.unwrap();
        }
        assert_eq!(follower.join().unwrap(), ["1", "2", "3", "4", "5", "6", "7"]);
        broker.parts.stop(SOON);
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_and_those_before_it_are_stored() {
        let folder = Folder::new();
        let broker = start(&folder).unwrap();
        let large = "x".repeat(3 << 20);
        let (stored, sent) = produce(broker.connect(), &["1", "2", "3", &large]);
        let failure = sent.unwrap_err();
        assert_eq!((stored, failure.exit), (3, Exit::Refused));
        assert!(failure.text.contains("message-too-large"), "{failure}");
        broker.parts.stop(SOON);
    }

    #[test]
    fn a_directory_in_use_and_a_port_in_use_are_told_apart() {
        let folder = Folder::new();
        let broker = start(&folder).unwrap();
        assert_eq!(start(&folder).err().map(|failure| failure.exit), Some(Exit::Directory));
        let other = Folder::new();
        let mut configuration = configuration(&other);
        let port = broker.parts.listens().port().to_string();
        configuration.overrides.push(Override::flag("serverPort", &port, "--test"));
        let loaded = configuration.needed().unwrap();
        let refused = Parts::start(&broker.runtime, configuration, loaded, false).err();
        assert_eq!(refused.map(|failure| failure.exit), Some(Exit::Unreachable));
        assert!(!other.join("data").exists(), "nothing was made");
        broker.parts.stop(SOON);
    }
}
