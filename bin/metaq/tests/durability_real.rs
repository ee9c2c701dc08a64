//! Full disks, failing disks, damaged files and jumping clocks, made by the operating system and met by the real binary.

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_testkit::broker::path_inside;
use metaq_testkit::preload::Faults;
use metaq_testkit::record::{bounds, read_all, walk};
use metaq_testkit::wait::PATIENCE;
use metaq_testkit::writer::{Plan, write};
use metaq_testkit::{Broker, Frame, History, Ini, Ledger, Put, Random, Setup, Wire, file, until};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

/// A broker that has a disk of 64 MiB to itself.
struct SmallDisk {
    setup: Setup,
    mount: PathBuf,
}

/// How a small disk is made, in a mount namespace of its own that ends with the broker.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A file system on a file, by a loop device; it outlives its broker. Needs root.
    Ext4,
    /// Memory; gone with its broker.
    Memory,
}

impl SmallDisk {
    fn new(kind: Kind) -> Self {
        let ini = Ini::new()
            .system("numPartitions", 2)
            .system("commitFileBytes", 4 << 20)
            .system("messageBytesMax", 512 << 10)
            .system("diskReserveBytes", 6 << 20)
            .system("maxSegmentSize", 1 << 20)
            .topic("t");
        let setup = Setup::with_ini(BINARY, &ini);
        let mount = setup.data();
        fs::create_dir_all(&mount).unwrap();
        let (unshare, script) = match kind {
            Kind::Ext4 => {
                let image = setup.folder().join("image");
                fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
                let made = Command::new("mkfs.ext4").arg("-q").arg(&image).status().expect("mkfs.ext4 can be run");
                assert!(made.success());
                (vec!["--mount"], format!("mount -o loop '{}' '{}'", image.display(), mount.display()))
            }
            Kind::Memory => (
                vec!["--mount", "--user", "--map-root-user"],
                format!("mount -t tmpfs -o size=64m none '{}'", mount.display()),
            ),
        };
        let script = format!("{script} && exec \"$0\" \"$@\"");
        let prefix = [&["unshare"], &unshare[..], &["sh", "-c", &script]].concat();
        SmallDisk { setup: setup.behind(prefix), mount }
    }

    /// The kinds that this system lets us make.
    fn kinds() -> Vec<Kind> {
        let works = |arguments: &[&str]| {
            Command::new("unshare").args(arguments).arg("true").status().is_ok_and(|status| status.success())
        };
        let mut kinds = Vec::new();
        if works(&["--mount"]) && Path::new("/dev/loop-control").exists() {
            kinds.push(Kind::Ext4);
        }
        if works(&["--mount", "--user", "--map-root-user"]) {
            kinds.push(Kind::Memory);
        }
        kinds
    }

    /// A file that takes what is free on the disk, all but `left` bytes; removed with what is returned.
    fn fill(&self, broker: &Broker, left: u64) -> Filling {
        let path = path_inside(broker, &self.mount).join("filling");
        let mut file = fs::File::create(&path).unwrap();
        let block = vec![0x5a; 64 << 10];
        while file.write_all(&block).is_ok() {}
        // The rest in small pieces, up to the last byte.
        while file.write_all(&[0x5a; 512]).is_ok() {}
        let size = file.metadata().unwrap().len();
        file.set_len(size.saturating_sub(left)).unwrap();
        Filling(path)
    }
}

struct Filling(PathBuf);

impl Drop for Filling {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// One message, noted with its answer.
fn put(wire: &mut Wire, ledger: &mut Ledger, size: usize) -> Frame {
    let (number, body) = ledger.next("t", 0, size);
    let frame = wire.ask(Put::to("t", 0, &body).checked().bytes());
    match frame.status() {
        Some(200) => ledger.stored(number, frame.stored()),
        _ if frame.text().starts_with("outcome-unknown") => {}
        _ => ledger.refused(number),
    }
    frame
}

fn check(ledger: &Ledger, wire: &mut Wire) {
    let mut history = History::new();
    history.add(ledger.clone());
    history.check_broker(wire);
}

#[test]
fn a_full_disk_refuses_puts_and_serves_reads_until_there_is_room_again() {
    let kinds = SmallDisk::kinds();
    if kinds.is_empty() {
        println!("SKIPPED: this system lets us make no small disk (unshare --mount)");
    }
    for kind in kinds {
        println!("on {kind:?}");
        let disk = SmallDisk::new(kind);
        let broker = disk.setup.start();
        let mut wire = broker.connect();
        let mut ledger = Ledger::new(1);
        for _ in 0..20 {
            assert_eq!(put(&mut wire, &mut ledger, 10_000).status(), Some(200));
        }
        // Inside of what the broker keeps free for itself; to the last byte; and again.
        for (round, left) in [3 << 20, 0, 3 << 20].into_iter().enumerate() {
            let filling = disk.fill(&broker, left);
            until(PATIENCE, "a put to be refused", || {
                let frame = put(&mut wire, &mut ledger, 500);
                let is_refused = frame.status() != Some(200);
                assert!(!is_refused || frame.text().starts_with("disk-full: "), "{frame}");
                is_refused.then_some(())
            });
            // Reads, positions, statistics and heartbeats go on. What waits for room in its segment may have to wait.
            if left > 0 {
                check(&ledger, &mut wire);
            }
            assert!(wire.ask("get t g 0 0 1000 1\r\n").is_value());
            assert_eq!(wire.ask("stats 1\r\n").status(), Some(200));
            let commit = wire.ask("offsets commit g t 0 0 - 1\r\n");
            assert_eq!(commit.status(), Some(200), "positions are small, and kept in what was reserved: {commit}");
            drop(filling);
            until(PATIENCE, "puts to be taken again", || {
                (put(&mut wire, &mut ledger, 500).status() == Some(200)).then_some(())
            });
            check(&ledger, &mut wire);
            println!("round {round}: {} messages acknowledged", ledger.acknowledged());
        }
        drop(wire);
        if matches!(kind, Kind::Memory) {
            broker.stop();
            continue;
        }
        // Killed on a full disk, it comes back on it. (The way to the file ends with the broker: it stays.)
        let filling = disk.fill(&broker, 3 << 20);
        broker.kill();
        drop(filling);
        let broker = disk.setup.start();
        let mut wire = broker.connect();
        check(&ledger, &mut wire);
        fs::remove_file(path_inside(&broker, &disk.mount).join("filling")).unwrap();
        until(PATIENCE, "puts to be taken again", || {
            (put(&mut wire, &mut ledger, 500).status() == Some(200)).then_some(())
        });
        check(&ledger, &mut wire);
        drop(wire);
        broker.stop();
    }
}

const TREES: [&str; 5] = ["alder", "birch", "cedar", "dogwood", "elm"];

/// A stopped broker with a topic for each tree, each of five messages of 600 bytes in three segments, and their ids.
fn stopped_with_segments() -> (Setup, BTreeMap<&'static str, Vec<i64>>) {
    let setup = Setup::with_ini(BINARY, &Ini::new().system("maxSegmentSize", 1024).topic("*"));
    let broker = setup.start();
    let mut wire = broker.connect();
    let ids = TREES.map(|topic| {
        let put = |_| wire.ask(Put::to(topic, 0, &[b'x'; 600]).checked().bytes()).stored().id;
        (topic, (0..5).map(put).collect())
    });
    drop(wire);
    broker.stop();
    (setup, BTreeMap::from(ids))
}

/// The ids of whole, intact messages that are served at their positions. Whatever isn't served is answered all the same.
fn served(wire: &mut Wire, topic: &str) -> Vec<i64> {
    let mut ids = Vec::new();
    for position in (0..5).map(|number| number * 620) {
        let frame = wire.ask(format!("get {topic} g 0 {position} 620 1\r\n"));
        if frame.is_value() {
            ids.extend(walk(frame.value(), position).iter().filter(|found| found.is_intact).map(|found| found.id));
        }
    }
    ids
}

/// Whether the log says, as a warning or an error, that something is wrong with a topic.
fn is_reported(broker: &Broker, topic: &str) -> bool {
    broker.log().lines().any(|line| line.contains(topic) && (line.contains("WARN") || line.contains("ERROR")))
}

#[test]
fn missing_short_and_flipped_segments_harm_only_what_they_held() {
    let (setup, ids) = stopped_with_segments();
    let segment = |topic: &str, number: usize| file::segments(&setup.partition(topic, 0))[number].clone();
    assert_eq!(file::segments(&setup.partition("alder", 0)).len(), 3);
    fs::remove_file(segment("alder", 1)).unwrap();
    fs::remove_file(segment("birch", 2)).unwrap();
    file::set_len(&segment("cedar", 2), 600);
    file::flip_bit(&segment("dogwood", 1), 300, 5);
    let check = |wire: &mut Wire, topic: &str, numbers: &[usize]| {
        let expected: Vec<i64> = numbers.iter().map(|&number| ids[topic][number]).collect();
        assert_eq!(served(wire, topic), expected, "{topic}");
    };
    // And again: a restart makes nothing worse.
    for round in 0..2 {
        let broker = setup.start();
        let mut wire = broker.connect();
        check(&mut wire, "alder", &[0, 1, 4]);
        check(&mut wire, "birch", &[0, 1, 2, 3]);
        check(&mut wire, "cedar", &[0, 1, 2, 3]);
        check(&mut wire, "dogwood", &[0, 1, 3, 4]);
        check(&mut wire, "elm", &[0, 1, 2, 3, 4]);
        // A bit that flipped in a segment that a clean stop sealed is found when somebody looks.
        let verified = wire.ask("admin verify 1\r\n");
        assert!(verified.text().contains("topic=dogwood"), "{verified}");
        if round == 0 {
            for topic in ["alder", "birch", "cedar"] {
                assert!(is_reported(&broker, topic), "nothing is said of {topic}:\n{}", broker.log());
            }
            assert!(!is_reported(&broker, "elm"));
        }
        drop(wire);
        broker.stop();
    }
    let broker = setup.start();
    broker.connect().ask(Put::to("elm", 0, b"more").bytes()).stored();
    broker.stop();
}

#[test]
fn a_folder_of_a_partition_that_is_gone_is_reported_and_the_rest_is_served() {
    let (setup, ids) = stopped_with_segments();
    fs::remove_dir_all(setup.partition("alder", 0)).unwrap();
    let broker = setup.start();
    let mut wire = broker.connect();
    assert!(is_reported(&broker, "alder"), "nothing is said of it:\n{}", broker.log());
    assert_eq!(served(&mut wire, "alder"), Vec::<i64>::new());
    let frame = wire.ask(Put::to("alder", 0, b"more").bytes());
    assert!(frame.text().starts_with("partition-failed: "), "{frame}");
    for topic in &TREES[1..] {
        assert_eq!(served(&mut wire, topic), ids[topic]);
    }
    drop(wire);
    broker.stop();
}

/// A broker under faults, and the writer's plan for it.
fn faulty() -> (Faults, Setup) {
    let faults = Faults::new();
    let ini =
        Ini::new().system("numPartitions", 2).system("commitFileBytes", 1 << 20).system("maxSegmentSize", 64 << 10);
    let ini = ini.system("checkpointIntervalMs", 200).system("messageBytesMax", 100 << 10).topic("t").topic("u");
    let setup = faults.on(Setup::with_ini(BINARY, &ini));
    (faults, setup)
}

#[test]
fn a_failed_sync_of_the_commit_log_ends_writing_and_nothing_else() {
    let (faults, setup) = faulty();
    let broker = setup.start();
    let mut wire = broker.connect();
    let mut ledger = Ledger::new(1);
    for _ in 0..50 {
        assert_eq!(put(&mut wire, &mut ledger, 500).status(), Some(200));
    }
    faults.only("/commit/");
    faults.sync(Some(Errno::IO));
    let frame = put(&mut wire, &mut ledger, 500);
    assert!(matches!(frame.status(), Some(500 | 503)), "acknowledged without a sync: {frame}");
    assert!(faults.count() > 0, "no sync was met: the preloaded library doesn't see them");
    // Working syncs change nothing: what failed may be gone from the disk, and nobody knows what.
    faults.sync(None);
    let frame = put(&mut wire, &mut ledger, 500);
    assert!(frame.text().starts_with("store-closed: "), "{frame}");
    assert_eq!(frame.status(), Some(503));
    wire.usable();
    let (_, end) = bounds(&mut wire, "t", 0).unwrap();
    assert!(wire.ask("get t g 0 0 100000 1\r\n").is_value(), "reads go on");
    assert!(end > 0);
    drop(wire);
    let log = broker.kill();
    assert!(log.contains("sync"), "the log should say what failed:\n{log}");
    let broker = setup.start();
    let mut wire = broker.connect();
    check(&ledger, &mut wire);
    assert_eq!(put(&mut wire, &mut ledger, 500).status(), Some(200));
    check(&ledger, &mut wire);
    drop(wire);
    broker.stop();
}

#[test]
fn a_disk_that_stalls_holds_up_puts_and_nothing_else() {
    let (faults, setup) = faulty();
    let broker = setup.start();
    let mut ledger = Ledger::new(1);
    let mut wire = broker.connect();
    assert_eq!(put(&mut wire, &mut ledger, 500).status(), Some(200));
    faults.only("/commit/");
    faults.sync_takes(6000);
    let began = Instant::now();
    let (_, body) = ledger.next("t", 0, 500);
    wire.send(Put::to("t", 0, &body).opaque(7).bytes());
    for opaque in 10..20 {
        let frame = wire.ask(format!("version {opaque}\r\n"));
        assert_eq!((frame.status(), frame.opaque()), (Some(200), opaque), "a heartbeat waits for a put");
        assert_eq!(wire.ask(format!("stats {opaque}\r\n")).status(), Some(200));
        assert!(wire.ask("get t g 0 0 1000 9\r\n").is_value(), "what is safe can be read");
    }
    assert!(began.elapsed() < Duration::from_millis(1900), "took {:?}", began.elapsed());
    // By 2 s it is decided: nobody knows.
    let frame = wire.frame();
    assert_eq!((frame.status(), frame.opaque()), (Some(500), 7), "{frame}");
    assert!(frame.text().starts_with("outcome-unknown: "), "{frame}");
    assert!((Duration::from_millis(1900)..Duration::from_secs(5)).contains(&began.elapsed()), "{:?}", began.elapsed());
    let (_, end) = bounds(&mut wire, "t", 0).unwrap();
    assert_eq!(end, 520, "what isn't synced is shown");
    assert_eq!(wire.ask("get t g 0 520 1000 9\r\n").status(), Some(404), "what isn't synced is read");
    faults.sync_takes(0);
    until(PATIENCE, "puts to be taken again", || {
        (put(&mut wire, &mut ledger, 500).status() == Some(200)).then_some(())
    });
    check(&ledger, &mut wire);
    drop(wire);
    broker.stop();
}

#[test]
fn short_writes_are_completed() {
    let (faults, setup) = faulty();
    let broker = setup.start();
    faults.short_writes(1000);
    let mut history = History::new();
    let plan =
        Plan { topics: vec![("t".into(), 2), ("u".into(), 2)], window: 8, body_bytes_max: 20_000, batches: true };
    let mut random = Random::seeded("short writes");
    let stop = AtomicBool::new(false);
    let address = broker.address();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(address, 1, &plan, &mut random, &stop));
        std::thread::sleep(Duration::from_millis(700));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        history.add(writer.join().unwrap());
    });
    assert!(faults.count() > 10, "no write was short");
    assert!(history.acknowledged() > 50);
    history.check_broker(&mut broker.connect());
    broker.kill();
    let broker = setup.start();
    history.check_broker(&mut broker.connect());
    broker.stop();
}

#[test]
fn a_segment_that_cannot_be_written_closes_its_partition_and_loses_nothing() {
    let (faults, setup) = faulty();
    let broker = setup.start();
    let mut wire = broker.connect();
    let mut ledger = Ledger::new(1);
    for _ in 0..20 {
        assert_eq!(put(&mut wire, &mut ledger, 500).status(), Some(200));
    }
    faults.only("/t-0/");
    faults.write_error(Some(Errno::IO));
    until(PATIENCE, "the partition to fail", || {
        let frame = put(&mut wire, &mut ledger, 5000);
        let is_refused = frame.status() != Some(200);
        assert!(!is_refused || frame.text().starts_with("partition-failed: "), "{frame}");
        is_refused.then_some(())
    });
    wire.ask("put t 1 5 0 1\r\nhello").stored();
    wire.ask("put u 0 5 0 1\r\nhello").stored();
    wire.usable();
    drop(wire);
    broker.kill();
    faults.write_error(None);
    let broker = setup.start();
    let mut wire = broker.connect();
    let logs = BTreeMap::from([(("t".to_owned(), 0), read_all(&mut wire, "t", 0))]);
    let mut history = History::new();
    history.add(ledger.clone());
    history.check(&logs).unwrap();
    assert_eq!(put(&mut wire, &mut ledger, 500).status(), Some(200));
    drop(wire);
    broker.stop();
}

#[test]
fn a_read_that_fails_is_answered_with_an_error_and_can_be_asked_again() {
    let (faults, setup) = faulty();
    let broker = setup.start();
    let mut wire = broker.connect();
    for _ in 0..20 {
        wire.ask(Put::to("t", 0, &[b'x'; 5000]).bytes()).stored();
    }
    drop(wire);
    broker.stop();
    let broker = setup.start();
    let mut wire = broker.connect();
    faults.only("/t-0/");
    faults.read_error(Some(Errno::IO));
    for size in [100, 5020, 15_000] {
        wire.send(format!("get t g 0 0 {size} 1\r\n"));
        match wire.try_frame() {
            Ok(frame) => assert_eq!(frame.status(), Some(500), "{frame}"),
            // A head that was sent can't be taken back: the connection ends before wrong bytes are taken for the truth.
            Err(lost) => {
                println!("at {size}: {lost}");
                wire = broker.connect();
            }
        }
    }
    assert!(faults.count() > 0, "no read was met");
    wire.usable();
    assert_eq!(wire.ask("stats 1\r\n").status(), Some(200));
    faults.read_error(None);
    let mut wire = broker.connect();
    assert_eq!(read_all(&mut wire, "t", 0).len(), 20);
    drop(wire);
    broker.stop();
}

#[test]
fn ids_are_unique_and_grow_whatever_the_clock_does() {
    const DAY_MS: i64 = 86_400_000;
    let (faults, setup) = faulty();
    let mut ids = Vec::new();
    let mut send = |broker: &Broker, count: usize| {
        let mut wire = broker.connect();
        for number in 0..count {
            let partition = i32::try_from(number % 2).unwrap();
            ids.push(wire.ask(Put::to("t", partition, b"x").bytes()).stored().id);
        }
    };
    let broker = setup.start();
    send(&broker, 50);
    for clock in [DAY_MS, 0, -2 * DAY_MS, -1, 1, DAY_MS / 24] {
        faults.clock_ms(clock);
        send(&broker, 50);
    }
    broker.stop();
    faults.clock_ms(-3 * DAY_MS);
    let broker = setup.start();
    send(&broker, 50);
    broker.kill();
    faults.clock_ms(-30 * DAY_MS);
    let broker = setup.start();
    send(&broker, 50);
    let mut wire = broker.connect();
    let stored = read_all(&mut wire, "t", 0).len() + read_all(&mut wire, "t", 1).len();
    drop(wire);
    broker.stop();
    assert_eq!(stored, ids.len());
    for pair in ids.windows(2) {
        assert!(pair[0] < pair[1], "id {} came before {}", pair[0], pair[1]);
    }
}
