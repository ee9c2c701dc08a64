//! The broker as a process: started, watched, stopped, killed, and started again on the same folder.

use crate::folder::Folder;
use crate::ini::Ini;
use crate::process::Pid;
use crate::wait::{PATIENCE, until};
use crate::wire::Wire;
use rustix::process::{Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the broker prints before the address that it listens at.
const READY: &str = "listening on ";

/// How a broker is started, and where it lives. Starting twice is a restart.
#[derive(Debug, Clone)]
pub struct Setup {
    binary: PathBuf,
    folder: Arc<Folder>,
    prefix: Vec<OsString>,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
}

impl Setup {
    /// A broker without a configuration file, on a folder and free ports of its own.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let setup = Setup::bare(binary);
        let data = setup.data();
        setup
            .argument("--data-dir")
            .argument(data)
            .argument("--listen")
            .argument("127.0.0.1:0")
            .argument("--http")
            .argument("127.0.0.1:0")
    }

    /// A broker with a configuration file. `dataPath` is set to [`Setup::data`].
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn with_ini(binary: impl Into<PathBuf>, ini: &Ini) -> Self {
        let setup = Setup::bare(binary);
        setup.write_ini(ini);
        let path = setup.ini();
        setup.argument("-f").argument(path)
    }

    fn bare(binary: impl Into<PathBuf>) -> Self {
        Setup {
            binary: binary.into(),
            folder: Arc::new(Folder::new()),
            prefix: Vec::new(),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Replaces the configuration file.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn write_ini(&self, ini: &Ini) {
        let text = ini.clone().system("dataPath", self.data().display()).to_string();
        fs::write(self.ini(), text).unwrap_or_else(|error| panic!("can't write server.ini: {error}"));
    }

    /// Adds an argument behind `metaq server`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts the broker by another program, which must become it (`exec`): `prefix… metaq server …`.
    #[must_use]
    pub fn behind(mut self, prefix: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// The folder of this broker: its data, its configuration, its log.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of a partition.
    pub fn partition(&self, topic: &str, index: i32) -> PathBuf {
        self.data().join(format!("{topic}-{index}"))
    }

    /// The configuration file.
    pub fn ini(&self) -> PathBuf {
        self.folder.join("server.ini")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("broker.log")
    }

    fn spawn(&self) -> Running {
        let path = self.log_path();
        let log = fs::OpenOptions::new().create(true).append(true).open(&path).expect("the test's folder is writable");
        let from = log.metadata().map_or(0, |metadata| metadata.len());
        let mut program = self.prefix.clone();
        program.extend([self.binary.clone().into_os_string(), "server".into()]);
        let child = Command::new(&program[0])
            .args(&program[1..])
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be duplicated"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("can't start {}: {error}", self.binary.display()));
        Running { child, log: Log { path, from }, ended: None }
    }

    /// Starts the broker and waits until it answers.
    ///
    /// # Panics
    /// If it ends or doesn't answer; its log is shown.
    pub fn start(&self) -> Broker {
        let began = Instant::now();
        let mut running = self.spawn();
        let address = until(PATIENCE, "the broker to listen", || {
            let address = running.log.address();
            if address.is_none()
                && let Some(status) = running.ended()
            {
                panic!("the broker ended at once, {status}:\n{}", running.log.text());
            }
            address
        });
        Wire::connect(address).usable();
        Broker { running, address, took: began.elapsed(), _folder: Arc::clone(&self.folder) }
    }

    /// Starts the broker and kills it after a while, wherever it is by then.
    ///
    /// # Panics
    /// If it ends by itself.
    pub fn start_and_kill(&self, after: Duration) {
        let mut running = self.spawn();
        std::thread::sleep(after);
        if let Some(status) = running.ended() {
            panic!("the broker ended by itself, {status}:\n{}", running.log.text());
        }
    }

    /// Starts a broker that must refuse to serve.
    ///
    /// # Panics
    /// If it is still there after a while.
    pub fn start_refused(&self) -> Refusal {
        let mut running = self.spawn();
        let status = until(PATIENCE, "the broker to refuse", || running.ended());
        Refusal { status, log: running.log.text() }
    }
}

/// What a broker that didn't serve left behind.
#[derive(Debug)]
pub struct Refusal {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it printed.
    pub log: String,
}

/// What the broker printed since it was started.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    from: u64,
}

impl Log {
    fn text(&self) -> String {
        let bytes = fs::read(&self.path).unwrap_or_default();
        let from = usize::try_from(self.from).expect("a log fits into memory");
        String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
    }

    /// The address in the first whole line that says that the broker listens.
    fn address(&self) -> Option<SocketAddr> {
        let text = self.text();
        let whole = &text[..text.rfind('\n')?];
        whole.lines().find_map(|line| {
            let (_, after) = line.split_once(READY)?;
            let word: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || "[]:.".contains(*c)).collect();
            word.trim_end_matches(['.', ':']).parse().ok()
        })
    }
}

#[derive(Debug)]
struct Running {
    child: Child,
    log: Log,
    ended: Option<ExitStatus>,
}

impl Running {
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended
    }

    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
            kill_process(pid.expect("a process has a number"), signal).expect("an own child can be signalled");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::KILL);
            drop(self.child.wait());
        }
        if std::thread::panicking() {
            let text = self.log.text();
            let shown: Vec<&str> = text.lines().rev().take(60).collect();
            eprintln!("--- the broker's log ends with ---");
            for line in shown.into_iter().rev() {
                eprintln!("{line}");
            }
        }
    }
}

/// A broker that serves. It is killed when this is dropped.
#[derive(Debug)]
pub struct Broker {
    running: Running,
    address: SocketAddr,
    took: Duration,
    _folder: Arc<Folder>,
}

impl Broker {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long it took from the start to the first answer.
    pub fn start_took(&self) -> Duration {
        self.took
    }

    /// A connection to it.
    pub fn connect(&self) -> Wire {
        Wire::connect(self.address)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::of(self.running.child.id())
    }

    /// What it printed since it was started.
    pub fn log(&self) -> String {
        self.running.log.text()
    }

    /// Waits until it prints `text`.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn logged(&self, text: &str) {
        until(PATIENCE, &format!("the broker to say {text:?}"), || self.log().contains(text).then_some(()));
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.running.ended()
    }

    /// Asks it to stop (SIGTERM), without waiting.
    pub fn terminate(&mut self) {
        self.running.signal(Signal::TERM);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&mut self) {
        self.running.signal(Signal::HUP);
    }

    /// Stops it from running (SIGSTOP) until [`Broker::resume`].
    pub fn freeze(&mut self) {
        self.running.signal(Signal::STOP);
    }

    /// Lets it run again.
    pub fn resume(&mut self) {
        self.running.signal(Signal::CONT);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it goes on.
    pub fn wait(&mut self) -> ExitStatus {
        until(PATIENCE, "the broker to end", || self.running.ended())
    }

    /// Stops it cleanly and says what it printed.
    ///
    /// # Panics
    /// If it doesn't end, or not with exit code 0.
    pub fn stop(mut self) -> String {
        self.terminate();
        let status = self.wait();
        assert!(status.success(), "a clean stop ends with 0, not {status}");
        self.log()
    }

    /// Kills it at once (SIGKILL) and says what it printed.
    pub fn kill(mut self) -> String {
        self.running.signal(Signal::KILL);
        self.wait();
        self.log()
    }
}

/// The path of a file of the broker, seen from outside even if it lives in a mount namespace of its own.
pub fn path_inside(broker: &Broker, path: &Path) -> PathBuf {
    let inside = path.strip_prefix("/").expect("an absolute path");
    PathBuf::from(format!("/proc/{}/root", broker.pid().number())).join(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Setup {
        let setup = Setup::bare("/bin/sh");
        let path = setup.folder().join("server");
        fs::write(path, text).unwrap();
        setup
    }

    #[test]
    fn a_program_that_refuses_is_told_from_one_that_serves() {
        let refusal = script("echo no; exit 3").start_refused();
        assert_eq!((refusal.status.code(), refusal.log.as_str()), (Some(3), "no\n"));
    }

    #[test]
    fn the_address_is_the_first_that_is_listened_at() {
        let folder = Folder::new();
        let path = folder.join("log");
        let log = Log { path: path.clone(), from: 4 };
        fs::write(&path, "old\nINFO metaq: listening on 127.0.0.1:81").unwrap();
        assert_eq!(log.address(), None);
        fs::write(&path, "old\nINFO metaq: listening on 127.0.0.1:8123, data\nlistening on 127.0.0.1:9\n").unwrap();
        assert_eq!(log.address(), Some(([127, 0, 0, 1], 8123).into()));
    }
}
