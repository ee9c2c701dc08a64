//! Clients that err, lie, dawdle or never read: the broker goes on serving others, in bounded memory, and closes as it must.
//!
//! Each attack has a broker of its own. A probe (one put at a time, at a modest rate) runs before and during it; what it measured is
//! printed, and only memory and liveness are asserted: the machine of a test is busy with other tests.

#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_testkit::{Broker, Ini, Put, Random, Setup, Wire};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

/// What an attack may cost.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Time between two probes.
const PACE: Duration = Duration::from_millis(5);

/// The longest that one probe may take, on however busy a machine.
const ALIVE: Duration = Duration::from_secs(30);

fn started() -> (Setup, Broker) {
    let setup = Setup::with_ini(
        BINARY,
        &Ini::new().system("numPartitions", 1).system("descriptorsMax", 1000).topic("t").topic("probe"),
    );
    let broker = setup.start();
    (setup, broker)
}

/// Puts one message at a time until told to stop; the time that each took.
fn probe(address: SocketAddr, stop: &AtomicBool) -> Vec<Duration> {
    let mut wire = Wire::connect(address);
    wire.set_patience(ALIVE);
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) || times.len() < 20 {
        let began = Instant::now();
        wire.ask("put probe 0 5 0 907060870 1\r\nhello").stored();
        times.push(began.elapsed());
        thread::sleep(PACE.saturating_sub(began.elapsed()));
    }
    times.sort();
    times
}

fn p99(times: &[Duration]) -> Duration {
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

/// Attacks a broker while it is probed, and finds it alive and no larger than it may be; whatever `attack` returns is kept until the
/// memory was looked at.
fn under<T>(name: &str, broker: &Broker, attack: impl FnOnce(SocketAddr) -> T) -> T {
    let address = broker.address();
    let probing = |time: Duration| {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || probe(address, &stop)
        });
        thread::sleep(time);
        (stop, thread)
    };
    let (stop, thread) = probing(Duration::from_millis(700));
    stop.store(true, Ordering::Relaxed);
    let calm = thread.join().unwrap();
    let before = broker.pid().resident_bytes();

    let (stop, thread) = probing(Duration::ZERO);
    let kept = attack(address);
    let after = broker.pid().resident_bytes();
    stop.store(true, Ordering::Relaxed);
    let attacked = thread.join().expect("the probe is answered during the attack");

    let growth = after.saturating_sub(before);
    println!(
        "{name}: memory {} MiB + {} KiB, p99 of {} probes {:?}, of {} under attack {:?}, the longest {:?}",
        before >> 20,
        growth >> 10,
        calm.len(),
        p99(&calm),
        attacked.len(),
        p99(&attacked),
        attacked.last().unwrap()
    );
    assert!(growth <= GROWTH_BYTES_MAX, "{name}: memory grew by {} MiB", growth >> 20);
    broker.connect().usable();
    kept
}

/// Whether the other side has ended the connection, by FIN or reset; bytes before are thrown away.
fn ends(mut stream: &TcpStream, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    let mut bytes = [0; 4096];
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        stream.set_read_timeout(Some(left)).unwrap();
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => return true,
        }
    }
    false
}

#[test]
fn binary_garbage_ends_its_connection_and_nothing_else() {
    let (_setup, broker) = started();
    let mut random = Random::seeded("garbage");
    under("garbage", &broker, |address| {
        for round in 0..500 {
            let mut stream = TcpStream::connect(address).unwrap();
            let size = 1 + random.index(3000);
            let mut garbage = random.bytes(size);
            // Something that surely is a line: what the first letter means to a broker must not matter.
            garbage[0] = b"!\0\xffzZ{"[round % 6];
            garbage.extend_from_slice(b"\r\n");
            // It may be gone before all is sent.
            drop(stream.write_all(&garbage));
            assert!(ends(&stream, ALIVE), "garbage should end a connection");
        }
    });
    broker.stop();
}

#[test]
fn mutilated_requests_are_answered_or_end_their_connection() {
    let (_setup, broker) = started();
    let mut random = Random::seeded("mutilated");
    let good: [&[u8]; 8] = [
        b"put t 0 5 0 907060870 1\r\nhello",
        b"get t g 0 0 1048576 1 wait=10 min=1\r\n",
        b"offset t g 0 0 1\r\n",
        b"stats topics 1\r\nversion 2\r\n",
        b"puts t 0 25 1 - - 1\r\n\0\0\0\x05\x36\x10\xa6\x86\0\0\0\0\0\0\0\0\0\0\0\0hello",
        b"fetch g 1000 t:0:0 1\r\n",
        b"topic describe t 1\r\noffsets fetch g 1\r\n",
        b"transaction TX:s:1 s BEGIN 1\r\nsync t 0 5 0 99 907060870 7\r\nhello",
    ];
    under("mutilated", &broker, |address| {
        for _ in 0..600 {
            let mut bytes = good[random.index(good.len())].to_vec();
            for _ in 0..1 + random.index(4) {
                let at = random.index(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.number().to_le_bytes()[0],
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, b" \r\n-9\0"[random.index(6)]),
                    _ => bytes.truncate(at.max(1)),
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            let mut stream = TcpStream::connect(address).unwrap();
            drop(stream.write_all(&bytes));
            drop(stream.shutdown(Shutdown::Write));
            assert!(ends(&stream, ALIVE), "after FIN the connection must end: {:?}", String::from_utf8_lossy(&bytes));
        }
    });
    let log = broker.stop();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn absurd_lengths_end_the_connection_before_memory_is_taken() {
    let (_setup, broker) = started();
    under("absurd lengths", &broker, |address| {
        for line in [
            "put t 0 2147483647 0 1\r\n",
            "put t 0 99999999999999999999 0 1\r\n",
            "put t 0 -2147483648 0 1\r\n",
            "puts t 0 2147483647 1 - - 1\r\n",
            "sync t 0 2147483647 0 1 -1 1\r\n",
            "result 200 2147483647 1\r\n",
            "value 2147483647 1\r\n",
        ] {
            for _ in 0..20 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(line.as_bytes()).unwrap();
                assert!(ends(&stream, ALIVE), "{line:?} should end its connection");
            }
        }
    });
    broker.stop();
}

#[test]
fn bodies_that_never_come_whole_take_only_what_came() {
    let (_setup, broker) = started();
    under("bodies that don't come", &broker, |address| {
        let streams: Vec<TcpStream> = (0..500)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"put t 0 2097152 0 1\r\nhello").unwrap();
                stream
            })
            .collect();
        thread::sleep(Duration::from_millis(500));
        streams
    });
    broker.stop();
}

#[test]
fn a_body_over_the_limit_is_thrown_away_as_it_comes() {
    let (_setup, broker) = started();
    under("bodies over the limit", &broker, |address| {
        for _ in 0..4 {
            let mut wire = Wire::connect(address);
            let body = vec![b'x'; 32 << 20];
            let frame = wire.ask(Put::to("t", 0, &body).opaque(3).bytes());
            assert_eq!((frame.status(), frame.opaque()), (Some(500), 3), "{frame}");
            wire.usable();
        }
    });
    broker.stop();
}

#[test]
fn slow_lines_hold_nobody_up() {
    let (_setup, broker) = started();
    under("slow lines", &broker, |address| {
        let mut streams: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(address).unwrap()).collect();
        for byte in b"get t g 0 0" {
            for stream in &mut streams {
                stream.write_all(&[*byte]).unwrap();
            }
            thread::sleep(Duration::from_millis(100));
        }
        streams
    });
    broker.stop();
}

#[test]
fn half_closed_connections_are_given_back() {
    let (_setup, broker) = started();
    let before = broker.pid().descriptors();
    under("half-closed", &broker, |address| {
        let streams: Vec<TcpStream> = (0..500)
            .map(|number| {
                let mut stream = TcpStream::connect(address).unwrap();
                if number % 2 == 0 {
                    stream.write_all(b"put t 0 500 0 1\r\nhel").unwrap();
                }
                stream.shutdown(Shutdown::Write).unwrap();
                stream
            })
            .collect();
        assert!(streams.iter().all(|stream| ends(stream, ALIVE)));
        streams
    });
    metaq_testkit::until(ALIVE, "descriptors to be given back", || {
        (broker.pid().descriptors() <= before + 10).then_some(())
    });
    broker.stop();
}

#[test]
fn ten_thousand_idle_connections_cost_little() {
    const CONNECTIONS: u64 = 10_000;
    // The other tests of this file need some too.
    let needed = CONNECTIONS + 4000;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        println!("SKIPPED: {needed} descriptors are needed, this system allows {:?} (ulimit -Hn)", limit.maximum);
        return;
    }
    if limit.current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    }
    let (_setup, broker) = started();
    let streams = under("idle connections", &broker, |address| {
        (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
    });
    for stream in streams.iter().step_by(97) {
        let mut stream = stream;
        stream.write_all(b"version 5\r\n").unwrap();
        let mut answer = [0; 11];
        stream.set_read_timeout(Some(ALIVE)).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"result 200 ");
    }
    let before = broker.pid().descriptors();
    assert!(before >= 10_000);
    drop(streams);
    metaq_testkit::until(ALIVE, "descriptors to be given back", || (broker.pid().descriptors() < 1000).then_some(()));
    broker.stop();
}

/// A connection that sends `request` again and again and never reads an answer, until its sending is stuck or time is up.
fn never_reads(address: SocketAddr, request: &[u8], time: Duration) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let burst = request.repeat((64 << 10) / request.len() + 1);
    let end = Instant::now() + time;
    while Instant::now() < end {
        // A part of a burst may have been sent: what follows then is no request, which is as bad as it gets.
        if stream.write_all(&burst).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn a_reader_that_never_reads_its_answers_is_not_answered_into_memory() {
    let (_setup, broker) = started();
    let mut wire = broker.connect();
    for _ in 0..20 {
        wire.ask(Put::to("t", 0, &vec![b'x'; 256 << 10]).bytes()).stored();
    }
    drop(wire);
    under("gets without reading", &broker, |address| {
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(move || never_reads(address, b"get t g 0 0 1048576 1\r\n", Duration::from_secs(2))))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    broker.stop();
}

#[test]
fn a_producer_that_never_reads_its_answers_is_slowed() {
    let (_setup, broker) = started();
    under("puts without reading", &broker, |address| {
        let request = Put::to("t", 0, b"").bytes();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let request = request.clone();
                thread::spawn(move || never_reads(address, &request, Duration::from_secs(2)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    broker.stop();
}

#[test]
fn many_waiting_gets_hold_nobody_up_and_end_with_their_connections() {
    let (_setup, broker) = started();
    broker.connect().ask("put t 0 5 0 1\r\nhello").stored();
    let wires = under("waiting gets", &broker, |address| {
        let mut wires: Vec<Wire> = (0..200).map(|_| Wire::connect(address)).collect();
        for wire in &mut wires {
            for opaque in 0..20 {
                wire.send(format!("get t g 0 25 1000 {opaque} wait=30000\r\n"));
            }
            // A waiting get holds nothing back.
            wire.usable();
        }
        wires
    });
    let mut wires = wires.into_iter();
    let mut kept = wires.next().unwrap();
    drop(wires);
    broker.connect().ask("put t 0 5 0 1\r\nworld").stored();
    for frame in kept.frames(20) {
        assert_eq!(frame.value().len(), 25);
    }
    broker.stop();
}

#[test]
fn connections_over_the_limit_are_turned_away_and_others_stay() {
    let setup = Setup::with_ini(BINARY, &Ini::new().system("connectionsMax", 20).topic("t"));
    let broker = setup.start();
    let mut wires: Vec<Wire> = (0..18).map(|_| broker.connect()).collect();
    wires.iter_mut().for_each(Wire::usable);
    let more: Vec<TcpStream> = (0..40).filter_map(|_| TcpStream::connect(broker.address()).ok()).collect();
    let away = more.iter().filter(|stream| ends(stream, Duration::from_millis(500))).count();
    assert!(away >= 30, "only {away} of {} were turned away", more.len());
    wires.iter_mut().for_each(Wire::usable);
    drop(more);
    // There is room again.
    metaq_testkit::until(ALIVE, "a place to be free", || {
        let mut wire = Wire::try_connect(broker.address()).ok()?;
        wire.try_send("version 1\r\n").ok()?;
        wire.try_frame().ok()
    });
    broker.stop();
}
