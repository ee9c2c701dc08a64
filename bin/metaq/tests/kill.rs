//! The broker is killed, stopped and started again, and loses nothing that it acknowledged or showed.
//!
//! `METAQ_SEED` repeats a run as far as chance is ours; `METAQ_KILLS` is how often the broker is killed (20).

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_testkit::put::batch;
use metaq_testkit::record::{read_all, read_bytes};
use metaq_testkit::writer::{Plan, write};
use metaq_testkit::{Broker, History, Ini, Ledger, Random, Setup, Wire};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");
const WRITERS: u64 = 4;

/// Everything happens often: segments roll, files of the commit log are reused, checkpoints come.
fn configuration() -> Ini {
    Ini::new()
        .system("numPartitions", 3)
        .system("commitFileBytes", 1 << 20)
        .system("messageBytesMax", 100 << 10)
        .system("commitFiles", 3)
        .system("checkpointIntervalMs", 100)
        .system("maxSegmentSize", 64 << 10)
        .topic("orders")
        .topic("small")
        .topic_key("small", "numPartitions", 1)
        .topic_key("small", "maxSegmentSize", 2 << 10)
        .topic("slow")
        .topic_key("slow", "durability", "interval")
        .topic_key("slow", "unflushInterval", 50)
}

fn plan() -> Plan {
    Plan {
        topics: vec![("orders".into(), 3), ("small".into(), 1), ("slow".into(), 3)],
        window: 16,
        body_bytes_max: 20_000,
        batches: true,
    }
}

/// Writers on connections of their own, until they are told to stop or the broker is gone.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Ledger>>,
}

impl Writers {
    /// `first` and the numbers after it are used by no other writer.
    fn start(address: SocketAddr, first: u64, random: &mut Random) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (first..first + WRITERS)
            .map(|writer| {
                let (stop, mut random) = (Arc::clone(&stop), Random::new(random.number()));
                thread::spawn(move || write(address, writer, &plan(), &mut random, &stop))
            })
            .collect();
        Writers { stop, threads }
    }

    fn finish(self, history: &mut History) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            history.add(thread.join().unwrap());
        }
    }
}

/// A consumer that reads one partition from its beginning until the broker is gone; what it saw.
fn reader(address: SocketAddr) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut seen = Vec::new();
        let Ok(mut wire) = Wire::try_connect(address) else { return seen };
        loop {
            let request = format!("get orders g 0 {} 1048576 1\r\n", seen.len());
            let Some(frame) = wire.try_send(request).ok().and_then(|()| wire.try_frame().ok()) else { return seen };
            if frame.is_value() {
                seen.extend_from_slice(&frame.body);
            } else {
                assert_eq!(frame.status(), Some(404), "{frame}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    })
}

/// After so many kills it goes on with an empty directory: every look reads everything.
const KILLS_PER_DIRECTORY: u64 = 20;

#[test]
fn a_killed_broker_has_all_that_it_acknowledged_or_showed() {
    let mut random = Random::seeded("kill");
    let kills = std::env::var("METAQ_KILLS").map_or(20, |text| text.parse().expect("METAQ_KILLS is a number"));
    let mut acknowledged = 0;
    for first in (0..kills).step_by(usize::try_from(KILLS_PER_DIRECTORY).unwrap()) {
        acknowledged += kill_again_and_again(KILLS_PER_DIRECTORY.min(kills - first), &mut random);
    }
    println!("{kills} kills, {acknowledged} messages acknowledged");
    assert!(acknowledged > 1000, "too little was sent to find anything");
}

/// Kills a broker so often, looks at all that it has each time, and gives how many messages it acknowledged.
fn kill_again_and_again(kills: u64, random: &mut Random) -> usize {
    let setup = Setup::with_ini(BINARY, &configuration());
    let mut history = History::new();
    let mut broker = setup.start();
    for kill in 0..kills {
        let writers = Writers::start(broker.address(), kill * WRITERS, random);
        let reader = reader(broker.address());
        thread::sleep(Duration::from_millis(5 + random.below(250)));
        broker.kill();
        writers.finish(&mut history);
        let seen = reader.join().unwrap();
        if random.one_in(3) {
            // Again, while it recovers.
            setup.start_and_kill(Duration::from_millis(random.below(40)));
        }
        broker = setup.start();
        let mut wire = broker.connect();
        let (_, bytes) = read_bytes(&mut wire, "orders", 0);
        assert!(bytes.starts_with(&seen), "kill {kill}: what a consumer saw was taken back");
        history.check_broker(&mut wire);
    }
    broker.stop();
    history.check_broker(&mut setup.start().connect());
    history.acknowledged()
}

#[test]
fn a_clean_stop_while_producers_send_loses_nothing() {
    let mut random = Random::seeded("stop");
    let setup = Setup::with_ini(BINARY, &configuration());
    let mut history = History::new();
    for round in 0..4 {
        let broker = setup.start();
        let writers = Writers::start(broker.address(), round * WRITERS, &mut random);
        thread::sleep(Duration::from_millis(50 + random.below(200)));
        broker.stop();
        writers.finish(&mut history);
        history.check_broker(&mut setup.start().connect());
    }
    assert!(history.acknowledged() > 100);
}

#[test]
fn a_batch_that_is_sent_again_after_a_kill_is_stored_once() {
    let setup = Setup::with_ini(BINARY, &configuration());
    let broker = setup.start();
    let bodies: [&[u8]; 3] = [b"one", b"two", b"three"];
    let request = batch("orders", 1, &bodies, Some((77, 3, 0)), 5);
    let first = broker.connect().ask(&request).stored();
    let next = batch("orders", 1, &bodies[..1], Some((77, 3, 3)), 6);
    broker.connect().ask(&next).stored();
    broker.kill();
    let broker = setup.start();
    let mut wire = broker.connect();
    assert_eq!(wire.ask(&request).stored(), first);
    assert_eq!(read_all(&mut wire, "orders", 1).len(), 4);
    let gap = wire.ask(batch("orders", 1, &bodies, Some((77, 3, 9)), 7));
    assert!(gap.text().starts_with("sequence-gap: "), "{gap}");
    let fenced = wire.ask(batch("orders", 1, &bodies, Some((77, 2, 4)), 8));
    assert!(fenced.text().starts_with("producer-fenced: "), "{fenced}");
    assert_eq!(read_all(&mut wire, "orders", 1).len(), 4);
    broker.stop();
}

/// `stats topics` without order.
fn topics(broker: &Broker) -> Vec<String> {
    let text = broker.connect().ask("stats topics 1\r\n").text();
    let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn counts_of_messages_and_bytes_survive_a_stop_and_a_kill() {
    let setup = Setup::with_ini(BINARY, &configuration());
    let broker = setup.start();
    let mut wire = broker.connect();
    for number in 0..100 {
        wire.ask(format!("put orders {} 5 0 1\r\nhello", number % 3)).stored();
        wire.ask("put small 0 5 0 1\r\nhello").stored();
    }
    let line = |name: &str, partitions| {
        format!(
            "{name} partitions {partitions} message_count 100 message_bytes 2500 accept_publish true accept_subscribe true"
        )
    };
    let expected = [line("orders", 3), line("small", 1)];
    let has_them = |broker: &Broker| {
        let topics = topics(broker);
        assert!(expected.iter().all(|line| topics.contains(line)), "{topics:?}");
        topics
    };
    let before = has_them(&broker);
    broker.stop();
    let broker = setup.start();
    assert_eq!(has_them(&broker), before);
    broker.kill();
    let broker = setup.start();
    assert_eq!(has_them(&broker), before);
    broker.stop();
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused_and_harms_nothing() {
    let setup = Setup::with_ini(BINARY, &configuration());
    let broker = setup.start();
    let mut wire = broker.connect();
    wire.ask("put orders 0 5 0 1\r\nhello").stored();
    let refusal = setup.start_refused();
    assert_ne!(refusal.status.code(), Some(0));
    assert!(
        refusal.log.contains(&setup.data().display().to_string()),
        "it should say which directory:\n{}",
        refusal.log
    );
    assert!(!refusal.log.contains("panicked"), "{}", refusal.log);
    wire.ask("put orders 0 5 0 1\r\nhello").stored();
    drop(wire);
    broker.kill();
    let broker = setup.start();
    assert_eq!(read_all(&mut broker.connect(), "orders", 0).len(), 2);
    broker.stop();
}

#[test]
fn a_clean_stop_leaves_segments_as_an_original_broker_has_them() {
    let setup = Setup::with_ini(BINARY, &configuration());
    let broker = setup.start();
    let mut wire = broker.connect();
    for _ in 0..300 {
        wire.ask("put small 0 5 0 907060870 1\r\nhello").stored();
    }
    let (min, bytes) = read_bytes(&mut wire, "small", 0);
    drop(wire);
    broker.stop();
    let mut position = min;
    let mut joined = Vec::new();
    for path in metaq_testkit::file::segments(&setup.partition("small", 0)) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(name, format!("{position:020}.meta"));
        let content = std::fs::read(&path).unwrap();
        position += i64::try_from(content.len()).unwrap();
        joined.extend_from_slice(&content);
    }
    assert_eq!(joined, bytes);
}
