//! A data directory goes from this broker to the original (Java, with a real ZooKeeper and its own client) and back.

use metaq_testkit::{Ini, Put, Setup, file, record, wait};
use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// No multiple of the processors + 1 of any usual machine: the original's loader works in such batches.
const PARTITIONS: i32 = 7;
const MESSAGES: usize = 280;
const TOPIC: &str = "trip";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// The original's jars and our Java sources, compiled; fetched once.
fn java() -> &'static str {
    static CLASS_PATH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CLASS_PATH.get_or_init(|| {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
        let jars = built.join("jars");
        if !jars.join("complete").exists() {
            run(Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-f"])
                .arg(workspace().join("interop/pom.xml"))
                .arg(format!("-DoutputDirectory={}", jars.display())));
            fs::write(jars.join("complete"), "").expect("the jars' folder is writable");
        }
        let classes = built.join("classes");
        run(Command::new("javac")
            .arg("-d")
            .arg(&classes)
            .arg("-cp")
            .arg(format!("{}/*", jars.display()))
            .arg(workspace().join("interop/java/RoundTrip.java")));
        format!("{}:{}/*", classes.display(), jars.display())
    })
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}:\n{out}\n{err}", output.status);
    out.into_owned()
}

/// A child process that dies with the test.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::create(log).expect("the log can be created");
        let out = log.try_clone().expect("a file can be duplicated");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(log).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?} can't be started: {error}")))
    }

    fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the process runs");
        self.0.wait().expect("a child can be waited for");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("a bound listener has an address").port()
}

fn zookeeper(folder: &Path) -> (Process, u16) {
    let port = free_port();
    fs::create_dir_all(folder).expect("the test's folder is writable");
    let config = folder.join("zoo.cfg");
    let text = format!(
        "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nforceSync=no\n",
        folder.display()
    );
    fs::write(&config, text).expect("the test's folder is writable");
    let mut command = Command::new("java");
    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/*"]);
    command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
    let process = Process::start(&mut command, &folder.join("log"));
    wait::until(Duration::from_secs(60), "ZooKeeper to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
    (process, port)
}

fn original(folder: &Path, ini: &Path, port: u16) -> Process {
    let logging = folder.join("log4j.properties");
    let text = "log4j.rootLogger=INFO, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n\
                log4j.appender.A.layout=org.apache.log4j.SimpleLayout\n";
    fs::write(&logging, text).expect("the test's folder is writable");
    let mut command = Command::new("java");
    command.arg("-Xmx256m").arg(format!("-Dlog4j.configuration=file:{}", logging.display()));
    for package in ["java.lang", "java.util", "java.nio", "sun.nio.ch", "jdk.internal.ref"] {
        command.arg("--add-opens").arg(format!("java.base/{package}=ALL-UNNAMED"));
    }
    command.args(["-cp", java(), "com.taobao.metamorphosis.server.MetamorphosisStartup", "-f"]).arg(ini);
    let mut process = Process::start(&mut command, &folder.join("original.log"));
    wait::until(Duration::from_secs(60), "the original to listen", || {
        let ended = process.0.try_wait().expect("a child can be asked");
        assert!(
            ended.is_none(),
            "the original ended: {}",
            fs::read_to_string(folder.join("original.log")).unwrap_or_default()
        );
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    process
}

fn round_trip(zookeeper: u16, arguments: &[&str]) -> String {
    let mut command = Command::new("java");
    command.arg("-Xmx128m").arg("-cp").arg(java()).arg("RoundTrip").arg(format!("127.0.0.1:{zookeeper}")).arg(TOPIC);
    run(command.args(arguments))
}

/// What is in the topic, by partition: (id, attribute and payload as stored).
type Contents = BTreeMap<i32, Vec<(i64, Vec<u8>)>>;

fn contents(setup: &Setup) -> Contents {
    let mut broker = setup.start();
    let mut wire = broker.connect();
    let contents = (0..PARTITIONS)
        .map(|partition| {
            let found = record::read_all(&mut wire, TOPIC, partition);
            assert!(found.iter().all(|message| message.is_intact));
            (partition, found.into_iter().map(|message| (message.id, message.body)).collect())
        })
        .collect();
    broker.terminate();
    assert_eq!(broker.wait().code(), Some(0), "a stop is clean: {}", broker.log());
    contents
}

#[test]
fn the_original_serves_what_this_broker_wrote_and_this_broker_what_the_original_appended() {
    let ini = Ini::new().system("numPartitions", PARTITIONS).system("maxSegmentSize", 2048).topic(TOPIC);
    let setup = Setup::with_ini(env!("CARGO_BIN_EXE_metaq"), &ini);
    let datalog = setup.folder().join("datalog");
    fs::create_dir_all(&datalog).expect("the test's folder is writable");
    let ini = ini.system("dataLogPath", datalog.display());
    setup.write_ini(&ini);

    let mut broker = setup.start();
    let mut wire = broker.connect();
    for number in 0..MESSAGES {
        let partition = i32::try_from(number).expect("small") % PARTITIONS;
        let payload = format!("ours {number} {}", "x".repeat(number));
        let body = [&3u32.to_be_bytes()[..], b"tag", payload.as_bytes()].concat();
        wire.send(Put::to(TOPIC, partition, &body).flag(1).checked().bytes());
        assert_eq!(wire.frame().status(), Some(200));
    }
    broker.terminate();
    assert_eq!(broker.wait().code(), Some(0), "a stop is clean: {}", broker.log());
    let before = contents(&setup);
    let sealed: BTreeMap<_, _> = (0..PARTITIONS)
        .flat_map(|partition| {
            let mut segments = file::segments(&setup.partition(TOPIC, partition));
            segments.pop();
            segments
        })
        .map(|path| (path.clone(), fs::read(path).expect("a segment can be read")))
        .collect();
    assert!(sealed.len() >= 7, "several segments each: {}", sealed.len());

    // The original on the same folders.
    let (mut zookeeper, zookeeper_port) = zookeeper(&setup.folder().join("zookeeper"));
    let port = free_port();
    let text = format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nnumPartitions={PARTITIONS}\nserverPort={port}\ndashboardHttpPort={}\n\
         unflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=2048\nmaxTransferSize=1048576\ndeletePolicy=delete,8760\n\
         dataPath={}\ndataLogPath={}\n[zookeeper]\nzk.zkConnect=127.0.0.1:{zookeeper_port}\nzk.zkSyncTimeMs=200\n[topic={TOPIC}]\n",
        free_port(),
        setup.data().display(),
        datalog.display()
    );
    let original_ini = setup.folder().join("original.ini");
    fs::write(&original_ini, text).expect("the test's folder is writable");
    let mut original = original(setup.folder().path(), &original_ini, port);
    let consumed = round_trip(zookeeper_port, &["consume", &MESSAGES.to_string()]);
    assert!(consumed.contains("complete"), "{consumed}");
    let mut seen = Contents::new();
    for line in consumed.lines().filter_map(|line| line.strip_prefix("message ")) {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        let (id, partition, attribute, payload) = (words[0], words[1], words[2], words[3]);
        assert_eq!(attribute, "tag");
        let body = [&3u32.to_be_bytes()[..], b"tag", payload.as_bytes()].concat();
        seen.entry(partition.parse().expect("an index")).or_default().push((id.parse().expect("an id"), body));
    }
    assert_eq!(seen, before, "the original's consumer gets every message, in order, as it was put");
    let sent = round_trip(zookeeper_port, &["produce", "40", "theirs "]);
    original.terminate();
    zookeeper.terminate();
    for (path, bytes) in &sealed {
        assert!(fs::read(path).expect("a segment can be read") == *bytes, "{} was changed", path.display());
    }

    // And back.
    let mut expected: BTreeMap<i32, Vec<Vec<u8>>> = before
        .iter()
        .map(|(partition, all)| (*partition, all.iter().map(|(_, body)| body.clone()).collect()))
        .collect();
    for (number, line) in sent.lines().filter_map(|line| line.strip_prefix("sent ")).enumerate() {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        let text = words[2].as_bytes();
        let body = if number % 2 == 0 { [&4u32.to_be_bytes()[..], b"even", text].concat() } else { text.to_vec() };
        expected.entry(words[0].parse().expect("an index")).or_default().push(body);
    }
    let after: BTreeMap<i32, Vec<Vec<u8>>> = contents(&setup)
        .into_iter()
        .map(|(partition, all)| (partition, all.into_iter().map(|(_, body)| body).collect()))
        .collect();
    assert_eq!(after, expected);
    assert_eq!(after.values().map(Vec::len).sum::<usize>(), MESSAGES + 40);

    // And on: what comes next goes behind what the original appended.
    let broker = setup.start();
    let mut wire = broker.connect();
    for partition in 0..PARTITIONS {
        let end = record::bounds(&mut wire, TOPIC, partition).expect("the partition exists").1;
        wire.send(Put::to(TOPIC, partition, b"on").bytes());
        assert_eq!(wire.frame().stored().position, end);
    }
    broker.stop();
}
