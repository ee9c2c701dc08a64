//! The brokers that are measured: ours and the original, each a process of its own with a fresh directory.

use serde::Serialize;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Which broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The binary of this repository.
    Metaq,
    /// The original 1.4.6.2 on Java.
    Original,
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The binary of this repository.
    pub metaq: PathBuf,
    /// Folder of the original's jars.
    pub jars: Option<PathBuf>,
    /// Where directories are made.
    pub folder: PathBuf,
}

/// When an acknowledged message is durable: the original's `unflushThreshold` (and interval).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Synced before it is acknowledged (`unflushThreshold=0`).
    Fsync,
    /// After 1,000 messages or 10 s (`unflushThreshold=1000`).
    Interval,
}

/// A running broker.
pub struct Running {
    child: Child,
    others: Vec<Child>,
    folder: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    /// From the start of the process to the first answer.
    pub started_in: Duration,
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn ini(folder: &Path, port: u16, http: u16, zookeeper: Option<u16>, durability: Durability, partitions: u32) -> String {
    let threshold = match durability {
        Durability::Fsync => 0,
        Durability::Interval => 1000,
    };
    let zookeeper = zookeeper
        .map_or(String::new(), |port| format!("\n[zookeeper]\nzk.zkConnect=127.0.0.1:{port}\nzk.zkSyncTimeMs=500\n"));
    let folder = folder.display();
    format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nnumPartitions={partitions}\nserverPort={port}\ndashboardHttpPort={http}\n\
         unflushThreshold={threshold}\nunflushInterval=10000\nmaxSegmentSize=1073741824\nmaxTransferSize=1048576\n\
         deletePolicy=delete,168\ndeleteWhen=0 0 6,18 * * ?\nflushTxLogAtCommit=1\ndataPath={folder}/data\n\
         dataLogPath={folder}/datalog\n{zookeeper}\n[topic=test]\n"
    )
}

impl Running {
    /// Starts a broker in a fresh directory and waits for its first answer.
    pub fn start(programs: &Programs, kind: Kind, durability: Durability, partitions: u32) -> io::Result<Self> {
        // A fresh name each time, and nothing is removed meanwhile: a file system that just lost many files is slow
        // to create others.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let folder = programs.folder.join(format!("run-{}", STARTED.fetch_add(1, Ordering::Relaxed)));
        for name in ["data", "datalog", "zookeeper"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let (port, http) = (free_port()?, free_port()?);
        let log = fs::File::create(folder.join("output"))?;
        let mut others = Vec::new();
        let mut command = match kind {
            Kind::Metaq => {
                fs::write(folder.join("server.ini"), ini(&folder, port, http, None, durability, partitions))?;
                let mut command = Command::new(&programs.metaq);
                command.arg("server").arg("-f").arg(folder.join("server.ini"));
                command
            }
            Kind::Original => {
                let zookeeper = free_port()?;
                others.push(start_zookeeper(&folder.join("zookeeper"), zookeeper)?);
                wait_for_port(zookeeper)?;
                fs::write(
                    folder.join("server.ini"),
                    ini(&folder, port, http, Some(zookeeper), durability, partitions),
                )?;
                original(programs, &folder)?
            }
        };
        let began = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut running = Self { child, others, folder, address, started_in: Duration::ZERO };
        running.wait_until_ready(began)?;
        Ok(running)
    }

    fn wait_until_ready(&mut self, began: Instant) -> io::Result<()> {
        while began.elapsed() < Duration::from_secs(60) {
            if answers(self.address) {
                self.started_in = began.elapsed();
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let output = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
                return Err(io::Error::other(format!("the broker ended with {status}:\n{output}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::other("the broker didn't answer within a minute"))
    }

    /// Stops ours with SIGTERM and starts it again on the same directory.
    pub fn restart(&mut self, programs: &Programs) -> io::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        let log = fs::File::create(self.folder.join("output"))?;
        let mut command = Command::new(&programs.metaq);
        command.arg("server").arg("-f").arg(self.folder.join("server.ini"));
        let began = Instant::now();
        self.child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.wait_until_ready(began)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

fn answers(address: SocketAddr) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = [0; 6];
    stream.write_all(b"version 1\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"result"
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.child].into_iter().chain(&mut self.others) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start_zookeeper(folder: &Path, port: u16) -> io::Result<Child> {
    let config = folder.join("zoo.cfg");
    let data = folder.display();
    fs::write(
        &config,
        format!(
            "tickTime=500\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\nforceSync=no\n"
        ),
    )?;
    let output = fs::File::create(folder.join("output"))?;
    Command::new("java")
        .args([
            "-Xmx128m",
            "-cp",
            "/usr/share/java/zookeeper.jar:/usr/share/java/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        ])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
}

fn wait_for_port(port: u16) -> io::Result<()> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(io::Error::other("ZooKeeper didn't listen within a minute"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn original(programs: &Programs, folder: &Path) -> io::Result<Command> {
    let jars = programs.jars.as_ref().ok_or_else(|| io::Error::other("--jars is needed for the original"))?;
    let logging = folder.join("log4j.properties");
    fs::write(
        &logging,
        "log4j.rootLogger=WARN, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\nlog4j.appender.A.layout=org.apache.log4j.SimpleLayout\n",
    )?;
    let mut command = Command::new("java");
    command.arg("-Xmx1g");
    for package in ["java.lang", "java.util", "java.nio", "sun.nio.ch", "jdk.internal.ref"] {
        command.arg("--add-opens").arg(format!("java.base/{package}=ALL-UNNAMED"));
    }
    command.arg(format!("-Dlog4j.configuration=file:{}", logging.display()));
    command.arg("-cp").arg(format!("{}/*", jars.display()));
    command.arg("com.taobao.metamorphosis.server.MetamorphosisStartup").arg("-f").arg(folder.join("server.ini"));
    Ok(command)
}
