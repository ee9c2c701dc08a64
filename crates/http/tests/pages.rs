//! The pages as a client reads them from a real socket.
#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_broker::configuration::{Override, Settings, Sources};
use metaq_broker::{Broker, Surroundings};
use metaq_disk::FaultyDisk;
use metaq_http::{Limits, Observed, Reading, Sample, Samples, serve};
use metaq_listen::{Listener, Options};
use metaq_log::{Outlet, Running, Submission};
use metaq_protocol::request::Put;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const NOW: u64 = 1_700_000_000_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// Pages that are served until this is dropped.
struct Pages {
    observed: Arc<Observed>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<()>,
    runtime: tokio::runtime::Runtime,
}

fn pages(limits: Limits, connections_max: usize) -> Pages {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let observed = Observed::new(Arc::new(|| NOW));
    let options = Options { connections_max, ..Options::default() };
    let listener =
        runtime.block_on(async { Listener::bind("127.0.0.1:0".parse().unwrap(), options) }).expect("a free port");
    let address = listener.local_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = runtime.spawn(serve(listener, Arc::clone(&observed), limits, async {
        let _ = stopped.await;
    }));
    Pages { observed, address, stop: Some(stop), served, runtime }
}

impl Pages {
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Status and body.
    fn get(&self, path: &str) -> (u16, String) {
        let answer = self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn json(&self, path: &str) -> (u16, serde_json::Value) {
        let (status, body) = self.get(path);
        (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
    }

    fn metrics(&self) -> String {
        let (status, body) = self.get("/metrics");
        assert_eq!(status, 200);
        body
    }

    /// The sample of that name and labels.
    fn metric(&self, name: &str) -> f64 {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }
}

/// A broker in memory.
struct Served {
    disk: FaultyDisk,
    running: Running,
    broker: Arc<Broker>,
}

fn broker() -> Served {
    let disk = FaultyDisk::new(1);
    let overrides = [
        Override::flag("dataPath", "/data", "--data-dir"),
        Override::flag("diskReserveBytes", "0", "--disk-reserve-bytes"),
        Override::flag("hostName", "127.0.0.1", "--host-name"),
        Override::flag("zk.zkConnect", "zoo:2181", "--zk-zk-connect"),
    ];
    let settings = Settings::load(&Sources { file: None, overrides: &overrides, home: None }).unwrap();
    let mut options = metaq_log::Options::new("/data", "/data");
    options.ring = metaq_log::Geometry { files: 2, file_bytes: 1 << 20 };
    let opened = metaq_log::open(Arc::new(disk.clone()), options, NOW).unwrap();
    let running = metaq_log::run(opened, Arc::new(|| NOW)).unwrap();
    let surroundings = Surroundings {
        clock: Arc::new(|| NOW),
        random: Arc::new(|| 0),
        pid: 1,
        version: "test".to_owned(),
        file: None,
        reload: Arc::new(|| Err("nothing to reload".to_owned())),
    };
    let broker = Broker::new(running.log().clone(), settings, surroundings).unwrap();
    Served { disk, running, broker }
}

/// Takes back what was submitted, and drops it.
#[derive(Debug, Default)]
struct Sink;

impl Outlet for Sink {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        sequenced.clear();
    }

    fn wake(&self, _ready: &[u32]) {}
}

impl Served {
    fn put(&self, topic: &str, partition: i32, body: &[u8]) {
        let outlet = self.running.log().register(Arc::new(Sink));
        let mut submission =
            Submission { outlet, token: 0, bytes: vec![], items: vec![], outcomes: vec![], wait_durable: 0 };
        let topic = topic.into();
        let put = Put { topic, partition, flag: 0, checksum: None, transaction: None, opaque: 1, body };
        self.broker.put(&put, &mut submission).unwrap();
        self.running.log().submit(Box::new(submission));
    }
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_broker_that_recovers_is_live_but_not_ready() {
    let pages = pages(Limits::DEFAULT, 10);
    assert_eq!(pages.json("/health/live"), (200, serde_json::json!({ "live": true })));
    let (status, health) = pages.json("/health/ready");
    assert_eq!((status, &health["ready"]), (503, &false.into()));
    assert_eq!(health["checks"][0]["name"], "recovery");
    assert_eq!(pages.metric("metaq_up"), 0.0);
}

#[test]
fn a_broker_that_serves_is_ready_and_tells_what_should_be_known() {
    let (pages, served) = (pages(Limits::DEFAULT, 10), broker());
    pages.observed.serves(Arc::clone(&served.broker), Samples::new(Vec::new));
    let (status, health) = pages.json("/health/ready");
    assert_eq!(status, 200, "{health}");
    let warnings = health["warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("registers nothing in ZooKeeper"), "{health}");
    let names: Vec<_> = health["checks"].as_array().unwrap().iter().map(|check| check["name"].clone()).collect();
    assert_eq!(names, ["recovery", "store", "disk"]);
}

#[test]
fn a_failed_sync_is_told_with_what_to_do() {
    let (pages, served) = (pages(Limits::DEFAULT, 10), broker());
    pages.observed.serves(Arc::clone(&served.broker), Samples::new(Vec::new));
    served.disk.inject("", metaq_disk::Fault::FailSync, 0..u64::MAX);
    served.put("orders", 0, b"one");
    until("the store to close", || served.broker.log().closed().is_some());
    let (status, health) = pages.json("/health/ready");
    assert_eq!(status, 503, "{health}");
    assert_eq!((&health["checks"][1]["name"], &health["checks"][1]["ok"]), (&"store".into(), &false.into()));
    assert!(health["checks"][1]["reason"].as_str().unwrap().contains("restart the broker"), "{health}");
    assert_eq!(pages.metric("metaq_store_closed"), 1.0);
    let (status, live) = pages.json("/health/live");
    assert_eq!((status, &live["live"]), (503, &false.into()));
}

#[test]
fn a_broker_that_stops_is_not_ready() {
    let (pages, served) = (pages(Limits::DEFAULT, 10), broker());
    pages.observed.serves(Arc::clone(&served.broker), Samples::new(Vec::new));
    pages.observed.stops();
    let (status, health) = pages.json("/health/ready");
    assert_eq!((status, &health["checks"][3]["name"]), (503, &"stopping".into()));
}

#[test]
fn metrics_tell_what_was_written_by_topic() {
    let (pages, served) = (pages(Limits::DEFAULT, 10), broker());
    let sent = Arc::new(AtomicU64::new(41));
    let fronts = Arc::clone(&sent);
    pages.observed.serves(
        Arc::clone(&served.broker),
        Samples::new(move || {
            let value = fronts.load(Ordering::Relaxed);
            vec![Sample { name: "sendfile_bytes", about: "Sent", reading: Reading::Counter, value }]
        }),
    );
    served.put("orders", 0, b"one");
    served.put("orders", 0, b"three");
    served.put("audit", 0, b"");
    until("three messages", || pages.metric("metaq_log_entries_total") >= 3.0);
    sent.store(42, Ordering::Relaxed);
    until("both orders to be visible", || pages.metric("metaq_topic_messages{topic=\"orders\"}") == 2.0);
    assert_eq!(pages.metric("metaq_topic_partitions{topic=\"orders\"}"), 1.0);
    assert_eq!(pages.metric("metaq_topic_bytes{topic=\"orders\"}"), 48.0);
    assert_eq!(pages.metric("metaq_topic_put_messages_total{topic=\"orders\"}"), 2.0);
    assert_eq!(pages.metric("metaq_topic_put_bytes_total{topic=\"orders\"}"), 8.0);
    assert_eq!(pages.metric("metaq_put_messages_total"), 3.0);
    assert_eq!((pages.metric("metaq_topics"), pages.metric("metaq_partitions")), (2.0, 2.0));
    assert_eq!(pages.metric("metaq_sendfile_bytes_total"), 42.0);
    let syncs = pages.metric("metaq_log_syncs_total");
    assert!(syncs >= 1.0);
    let text = pages.metrics();
    let buckets = text.lines().filter(|line| line.starts_with("metaq_log_sync_seconds_bucket")).count();
    assert!(buckets > 10, "{text}");
    assert!(text.contains("metaq_log_sync_seconds_bucket{le=\"+Inf\"}"), "{text}");
    assert!(pages.metric("metaq_log_sync_seconds_count") >= syncs);
}

#[test]
fn every_metric_is_said_once_with_its_help_and_type() {
    let (pages, served) = (pages(Limits::DEFAULT, 10), broker());
    pages.observed.serves(Arc::clone(&served.broker), Samples::new(Vec::new));
    let text = pages.metrics();
    let mut types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(types.len() > 25, "{text}");
    assert!(types.iter().all(|line| line.starts_with("metaq_")), "{text}");
    types.sort_unstable();
    let all = types.len();
    types.dedup();
    assert_eq!(types.len(), all, "{text}");
}

#[test]
fn what_is_not_there_is_said_so() {
    let pages = pages(Limits::DEFAULT, 10);
    let (status, body) = pages.json("/dashboard?x=1");
    assert_eq!(status, 404);
    assert!(body["error"].as_str().unwrap().contains("/dashboard;"), "{body}");
    let answer = pages.ask("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

#[test]
fn who_does_not_say_what_it_wants_is_hung_up_on() {
    let pages = pages(Limits { head_max: Duration::from_millis(200), ..Limits::DEFAULT }, 1);
    let mut slow = TcpStream::connect(pages.address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"GET /health/live HT").unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    until("the place to be free again", || {
        let mut stream = TcpStream::connect(pages.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        stream.write_all(b"GET /health/live HTTP/1.0\r\n\r\n").is_ok()
            && stream.read_to_end(&mut answer).is_ok()
            && answer.starts_with(b"HTTP/1.0 200")
    });
}

#[test]
fn a_connection_that_goes_on_and_on_ends() {
    let limits = Limits { connection_max: Duration::from_millis(200), ..Limits::DEFAULT };
    let pages = pages(limits, 1);
    let mut stream = TcpStream::connect(pages.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 4096];
    until("the end of the connection", || {
        let asked = stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n");
        asked.is_err() || !matches!(stream.read(&mut bytes), Ok(1..))
    });
}

#[test]
fn a_stop_ends_idle_connections_too() {
    let mut pages = pages(Limits::DEFAULT, 10);
    let mut idle = TcpStream::connect(pages.address).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    idle.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut bytes = [0; 4096];
    assert!(idle.read(&mut bytes).unwrap() > 0);
    pages.stop.take().unwrap().send(()).unwrap();
    let served = &mut pages.served;
    pages.runtime.block_on(async { tokio::time::timeout(PATIENCE, served).await }).unwrap().unwrap();
    assert_eq!(idle.read(&mut bytes).unwrap(), 0);
}
