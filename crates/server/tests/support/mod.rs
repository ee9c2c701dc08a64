//! A server on real sockets over a real log, on a disk whose syncs a test can hold.
#![allow(dead_code, reason = "each test file uses what it needs")]
#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

pub mod client;
pub mod gate;

use client::Client;
use gate::{Gate, GatedDisk};
use metaq_broker::configuration::{Settings, Sources};
use metaq_broker::{Broker, Loaded, Surroundings, log_options};
use metaq_disk::{Disk, FaultyDisk, RealDisk};
use metaq_listen::{Listener, Options as ListenOptions};
use metaq_log::Running;
use metaq_server::{Options, Server, Stopped};
use parking_lot::Mutex;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
pub struct Bed {
    pub broker: Arc<Broker>,
    pub gate: Gate,
    pub faulty: FaultyDisk,
    /// What a reload reads.
    file: Arc<Mutex<String>>,
    server: Arc<Server>,
    running: Option<Running>,
    _runtime: Runtime,
    folder: tempfile::TempDir,
}

/// What a bed is made with.
pub struct Setup {
    /// Lines of `[system]`, then sections.
    pub file: String,
    pub options: Options,
    pub listen: ListenOptions,
    /// On the real disk, in a temporary folder.
    pub real: bool,
}

impl Setup {
    /// A server with one thread on the simulated disk.
    pub fn new(file: &str) -> Self {
        let options = Options { threads: NonZeroUsize::MIN, ..Options::default() };
        Self { file: file.to_owned(), options, listen: ListenOptions::default(), real: false }
    }

    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = NonZeroUsize::new(threads).unwrap();
        self
    }

    pub fn start(self) -> Bed {
        let folder = tempfile::tempdir().unwrap();
        let root = if self.real { folder.path().display().to_string() } else { String::new() };
        let text = format!(
            "[system]\ndataPath={root}/data\ndataLogPath={root}/log\ncommitFileBytes=16*1024*1024\ncommitFiles=4\n{}",
            self.file
        );
        let loaded = load(&text).unwrap();
        let gate = Gate::default();
        let faulty = FaultyDisk::new(7);
        let disk: Arc<dyn Disk> = if self.real { Arc::new(RealDisk) } else { Arc::new(faulty.clone()) };
        let disk: Arc<dyn Disk> = Arc::new(GatedDisk::new(disk, gate.clone()));
        let opened = metaq_log::open(disk, log_options(&loaded.settings, "metaq test", None), now_ms()).unwrap();
        let running = metaq_log::run(opened, Arc::new(now_ms)).unwrap();
        let (chance, file) = (AtomicU64::new(1), Arc::new(Mutex::new(text.clone())));
        let surroundings = Surroundings {
            clock: Arc::new(now_ms),
            random: Arc::new(move || chance.fetch_add(1, Ordering::Relaxed)),
            pid: std::process::id(),
            version: "1.4.6.3-test".to_owned(),
            file: loaded.file,
            reload: {
                let file = Arc::clone(&file);
                Arc::new(move || load(&file.lock()))
            },
        };
        let broker = Broker::new(running.log().clone(), loaded.settings, surroundings).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = {
            let _inside = runtime.enter();
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), self.listen).unwrap();
            Server::start(Arc::clone(&broker), vec![listener], runtime.handle().clone(), self.options).unwrap()
        };
        let server = Arc::new(server);
        Bed { broker, gate, faulty, file, server, running: Some(running), _runtime: runtime, folder }
    }
}

impl Bed {
    /// The bed of the conformance list, on the simulated disk.
    pub fn start() -> Self {
        Setup::new("[topic=t]\nnumPartitions=2\nstat=true\n[topic=u]\n").start()
    }

    pub fn address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    /// Of a bed on the real disk.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Replaces a line of the configuration and has it read again.
    pub fn reload(&self, old: &str, new: &str) {
        let text = self.file.lock().replace(old, new);
        *self.file.lock() = text;
        let answer = self.connect().ask("admin reload 1\r\n");
        assert_eq!(answer.code, 200, "{}", answer.text());
    }

    /// A counter of the server.
    pub fn count(&self, which: impl FnOnce(&metaq_server::Counters) -> &AtomicU64) -> u64 {
        which(self.server.counters()).load(Ordering::Relaxed)
    }

    pub fn stop(&self, limit: Duration) -> Stopped {
        self.server.stop(limit)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.gate.open();
        self.server.stop(Duration::ZERO);
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

fn load(text: &str) -> Result<Loaded, String> {
    let settings = Settings::load(&Sources { file: Some(text.as_bytes()), ..Sources::default() })
        .map_err(|errors| errors.to_string())?;
    Ok(Loaded { settings, file: Some(text.as_bytes().into()) })
}

#[expect(clippy::disallowed_methods, reason = "a test owns its clock")]
fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Waits until something is true.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
