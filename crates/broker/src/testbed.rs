//! A broker on a simulated disk, with a clock that tests move, for the tests of use cases.

use crate::broker::Broker;
use crate::configuration::{Settings, Sources};
use crate::opening::log_options;
use crate::refused::Refused;
use crate::surroundings::{Loaded, Surroundings};
use metaq_disk::{CrashChoice, Disk, FaultyDisk, Kind};
use metaq_log::{Item, Options, Outcome, Outlet, OutletId, Report, Running, Stopped, Submission, What};
use metaq_protocol::request::Request;
use metaq_protocol::{Decoded, Decoder};
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant, SystemTime};

/// When the tests' clock begins: 2027, in milliseconds since 1970.
pub(crate) const BEGIN: u64 = 1_800_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// What every test's configuration begins with: small files.
const SMALL: &str = "[system]\ndataPath=/data\ndataLogPath=/log\ncommitFileBytes=256*1024\nmessageBytesMax=16*1024\n";

/// Keeps what was sequenced until somebody takes it.
#[derive(Default)]
struct Inbox {
    #[expect(clippy::vec_box, reason = "the log hands boxes out")]
    arrived: Mutex<Vec<Box<Submission>>>,
    changed: Condvar,
}

impl Outlet for Inbox {
    fn deliver(&self, sequenced: &mut Vec<Box<Submission>>) {
        self.arrived.lock().append(sequenced);
        self.changed.notify_all();
    }

    fn wake(&self, _ready: &[u32]) {
        let _arrived = self.arrived.lock();
        self.changed.notify_all();
    }
}

/// A running broker.
pub(crate) struct Testbed {
    pub disk: FaultyDisk,
    pub broker: Arc<Broker>,
    pub report: Report,
    clock: Arc<AtomicU64>,
    running: Option<Running>,
    inbox: Arc<Inbox>,
    outlet: OutletId,
    tokens: AtomicU64,
    /// What a reload reads.
    file: Arc<Mutex<String>>,
}

impl Testbed {
    /// A broker on an empty disk; `file` goes on in `[system]`.
    pub(crate) fn begin(file: &str) -> Self {
        Self::on(FaultyDisk::new(7), file, BEGIN)
    }

    pub(crate) fn on(disk: FaultyDisk, file: &str, now: u64) -> Self {
        let text = format!("{SMALL}{file}");
        let settings = load(&text).unwrap().settings;
        let apply_after = Duration::from_millis(20);
        let options = Options { apply_after, ..log_options(&settings, "metaq test", None) };
        Self::with(disk, options, text, now)
    }

    pub(crate) fn with(disk: FaultyDisk, options: Options, text: String, now: u64) -> Self {
        disk.set_time(SystemTime::UNIX_EPOCH + Duration::from_millis(now));
        let clock = Arc::new(AtomicU64::new(now));
        let opened = metaq_log::open(Arc::new(disk.clone()) as Arc<dyn Disk>, options, now).unwrap();
        let report = opened.report.clone();
        let time = Arc::clone(&clock);
        let time: metaq_log::Clock = Arc::new(move || time.load(SeqCst));
        let running = metaq_log::run(opened, Arc::clone(&time)).unwrap();
        let inbox = Arc::new(Inbox::default());
        let outlet = running.log().register(Arc::clone(&inbox) as Arc<dyn Outlet>);
        let (file, chance) = (Arc::new(Mutex::new(text.clone())), AtomicU64::new(1));
        let loaded = load(&text).unwrap();
        let surroundings = Surroundings {
            clock: time,
            random: Arc::new(move || chance.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst) >> 11),
            pid: 4711,
            version: "1.4.6.3-test".to_owned(),
            file: loaded.file,
            reload: {
                let file = Arc::clone(&file);
                Arc::new(move || load(&file.lock()))
            },
        };
        let broker = Broker::new(running.log().clone(), loaded.settings, surroundings).unwrap();
        let tokens = AtomicU64::new(0);
        Self { disk, broker, report, clock, running: Some(running), inbox, outlet, tokens, file }
    }

    pub(crate) fn clock(&self) -> metaq_log::Clock {
        let clock = Arc::clone(&self.clock);
        Arc::new(move || clock.load(SeqCst))
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(SeqCst)
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        let now = self.now() + u64::try_from(time.as_millis()).unwrap();
        self.clock.store(now, SeqCst);
        self.disk.set_time(SystemTime::UNIX_EPOCH + Duration::from_millis(now));
    }

    /// Changes what a reload will read; goes on in `[system]`.
    pub(crate) fn rewrite(&self, file: &str) {
        *self.file.lock() = format!("{SMALL}{file}");
    }

    /// Hands in one request that is stored, and waits until it is settled: the item and what became of it; `None` if the
    /// log closed before.
    pub(crate) fn store(&self, line: &[u8]) -> Result<(Item, Option<Outcome>), Refused> {
        let mut submission = self.submission();
        with_request(line, |request| match request {
            Request::Put(put) => self.broker.put(put, &mut submission),
            Request::Batch(batch) => self.broker.put_batch(batch, &mut submission),
            other => panic!("{other:?} isn't stored"),
        })?;
        let mut done = self.settle(submission);
        let is_settled = done.wait_durable <= self.broker.log().settled().durable;
        Ok((done.items.remove(0), done.outcomes.pop().filter(|_| is_settled)))
    }

    pub(crate) fn submission(&self) -> Box<Submission> {
        Box::new(Submission {
            outlet: self.outlet,
            token: self.tokens.fetch_add(1, SeqCst),
            bytes: Vec::new(),
            items: Vec::new(),
            outcomes: Vec::new(),
            wait_durable: 0,
        })
    }

    /// Submits, and waits until it is settled or the log is closed.
    pub(crate) fn settle(&self, submission: Box<Submission>) -> Box<Submission> {
        let (token, log) = (submission.token, self.broker.log());
        log.submit(submission);
        let deadline = Instant::now() + PATIENCE;
        let mut arrived = self.inbox.arrived.lock();
        loop {
            let (settled, closed) = (log.settled().durable, log.closed().is_some());
            let is_done = |one: &Submission| one.token == token && (closed || one.wait_durable <= settled);
            if let Some(at) = arrived.iter().position(|one| is_done(one)) {
                return arrived.swap_remove(at);
            }
            let late = self.inbox.changed.wait_until(&mut arrived, deadline).timed_out();
            assert!(!late, "the submission wasn't settled within {PATIENCE:?}");
        }
    }

    /// Puts a message and gives the position that it got.
    pub(crate) fn put(&self, topic: &str, partition: i32, body: &str) -> u64 {
        match self.store(format!("put {topic} {partition} {} 0 1\r\n{body}", body.len()).as_bytes()) {
            Ok((_, Some(Outcome::Appended { position, .. }))) => position,
            other => panic!("{topic} {partition}: {other:?}"),
        }
    }

    /// The answer to a request of any kind, as a front would write it.
    pub(crate) fn answer(&self, line: &str) -> String {
        let mut out = Vec::new();
        if line.starts_with("put") {
            match self.store(line.as_bytes()) {
                Err(refused) => refused.answer(opaque_of(line.as_bytes()), &mut out),
                Ok((item, outcome)) => {
                    let What::Append(append) = &item.what else { panic!("{item:?} is no append") };
                    match outcome {
                        Some(outcome) => self.broker.answer_put(item.tag, &append.partition, &outcome, &mut out),
                        None => self.broker.answer_put_unknown(opaque_of(line.as_bytes()), &mut out),
                    }
                }
            }
            return String::from_utf8(out).unwrap();
        }
        with_request(line.as_bytes(), |request| match request {
            Request::Get(get) => {
                let got = self.broker.get(get);
                got.answer(get.opaque, &mut out);
                if let crate::Got::Slice(slice) = &got {
                    let start = out.len();
                    out.resize(start + slice.len, 0);
                    metaq_disk::read_exact_at(&*slice.file, &mut out[start..], slice.offset).unwrap();
                }
            }
            Request::Offset(offset) => match self.broker.offset(offset) {
                Ok(to) => metaq_protocol::answer::result(
                    &mut out,
                    metaq_protocol::Status::Ok,
                    offset.opaque,
                    to.to_string().as_bytes(),
                ),
                Err(refused) => refused.answer(offset.opaque, &mut out),
            },
            Request::Stats(stats) => self.broker.stats(stats.item.as_deref()).answer(stats.opaque, &mut out),
            other => panic!("{other:?}"),
        });
        String::from_utf8_lossy(&out).into_owned()
    }

    /// What an administrator is answered.
    pub(crate) fn administer(&self, line: &str) -> Result<String, Refused> {
        with_request(line.as_bytes(), |request| self.broker.administer(request))
    }

    /// Stops cleanly and gives the disk.
    pub(crate) fn stop(mut self) -> FaultyDisk {
        let running = self.running.take().unwrap();
        assert_eq!(running.stop(), Stopped::Clean);
        self.disk.clone()
    }

    /// Stops cleanly and starts again with another configuration.
    pub(crate) fn restart(self, file: &str) -> Self {
        let now = self.now();
        let disk = self.stop();
        Self::on(disk.crash_image(&mut CrashChoice::Everything), file, now)
    }

    /// Loses power and starts again: only what is durable is left.
    pub(crate) fn crash(self, file: &str) -> Self {
        let image = self.disk.crash_image(&mut CrashChoice::Nothing);
        Self::on(image, file, self.now())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

/// Removes what is ours, as if an original broker had written the rest.
pub(crate) fn make_foreign(disk: &FaultyDisk) {
    for folder in ["/log/commit", "/log"].map(Path::new) {
        for listed in disk.list(folder).unwrap().iter().filter(|listed| listed.kind == Kind::File) {
            disk.remove_file(&folder.join(&listed.name)).unwrap();
        }
    }
    for listed in disk.list(Path::new("/data")).unwrap().iter().filter(|listed| listed.kind == Kind::Folder) {
        let folder = Path::new("/data").join(&listed.name);
        for file in disk.list(&folder).unwrap().iter().filter(|file| !file.name.ends_with(".meta")) {
            disk.remove_file(&folder.join(&file.name)).unwrap();
        }
    }
}

fn load(text: &str) -> Result<Loaded, String> {
    let settings = Settings::load(&Sources { file: Some(text.as_bytes()), overrides: &[], home: None })
        .map_err(|errors| errors.to_string())?;
    Ok(Loaded { settings, file: Some(text.as_bytes().into()) })
}

fn with_request<T>(bytes: &[u8], then: impl FnOnce(&Request<'_>) -> T) -> T {
    match Decoder::default().decode(bytes) {
        Ok(Decoded::Request { request, .. }) => then(&request),
        other => panic!("{:?} is no request: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

fn opaque_of(bytes: &[u8]) -> i32 {
    with_request(bytes, |request| request.opaque().unwrap())
}
