//! The load: connections that put messages in a closed loop or at an offered rate, from one thread, and count answers.
//!
//! At an offered rate the latency of a message counts from when it was to be sent, not from when there was room.

use hdrhistogram::Histogram;
use metaq_protocol::extension::Batch;
use metaq_protocol::request::Put;
use metaq_protocol::{Answer, AnswerDecoder, DecodedAnswer, Limits, record};
use rustix::event::epoll;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What is sent.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub in_flight: usize,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages of a request: 1 is a `put`, more a `puts`.
    pub batch: u32,
    /// Where to.
    pub topic: String,
    /// Partitions, in turn at random.
    pub partitions: u32,
    /// Messages offered a second; `None`: as fast as answers come.
    pub rate: Option<f64>,
    /// How long it is measured.
    #[serde(skip)]
    pub time: Duration,
    /// How long it runs before.
    #[serde(skip)]
    pub warm_up: Duration,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Messages acknowledged in the measured time.
    pub messages: u64,
    /// Messages acknowledged in all.
    pub acknowledged: u64,
    /// Requests refused in all.
    pub refused: u64,
    /// Measured seconds.
    pub seconds: f64,
    /// Microseconds.
    pub latency: Histogram<u64>,
    /// Of the broker, at the start and the end of the measured time.
    pub broker: [crate::process::Usage; 2],
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    decoder: AnswerDecoder,
    /// When the request with that opaque was (to be) sent.
    sent: Vec<Instant>,
    free: Vec<usize>,
    /// Requests that are due but have no room.
    overdue: VecDeque<Instant>,
    blocked: bool,
}

struct Generator<'a> {
    load: &'a Load,
    bodies: Vec<Vec<u8>>,
    random: u64,
}

impl Generator<'_> {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn request(&mut self, opaque: usize, out: &mut Vec<u8>) {
        let pick = self.next();
        let partition = i32::try_from((pick >> 8) % u64::from(self.load.partitions)).expect("an index");
        let body = &self.bodies[usize::try_from(pick % self.bodies.len() as u64).expect("an index")];
        let (topic, opaque) = (self.load.topic.as_str().into(), i32::try_from(opaque).expect("a slot"));
        let encoded = if self.load.batch > 1 {
            Batch { topic, partition, count: self.load.batch, stamp: None, opaque, body }.encode(out)
        } else {
            Put { topic, partition, flag: 0, checksum: None, transaction: None, opaque, body }.encode(out)
        };
        encoded.expect("a request of ours can be written");
    }
}

/// Bodies that are half random, half text.
fn bodies(load: &Load) -> Vec<Vec<u8>> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut message = || {
        (0..load.bytes)
            .map(|at| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if at % 2 == 0 { random.to_le_bytes()[0] } else { b"abcdefghijklmnopqrstuvwxyz"[at % 26] }
            })
            .collect::<Vec<u8>>()
    };
    (0..16)
        .map(|_| {
            if load.batch == 1 {
                return message();
            }
            let mut batch = Vec::new();
            (0..load.batch).for_each(|_| record::encode(&mut batch, 0, 0, &message()));
            batch
        })
        .collect()
}

/// Runs a load against a broker. `pid`: whose CPU is counted.
pub fn run(address: SocketAddr, pid: u32, load: &Load) -> io::Result<Sent> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::new();
    for at in 0..load.connections {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(at as u64), flags)?;
        connections.push(Connection {
            stream,
            out: Vec::new(),
            input: Vec::new(),
            decoder: AnswerDecoder::new(Limits::DEFAULT),
            sent: vec![Instant::now(); load.in_flight],
            free: (0..load.in_flight).rev().collect(),
            overdue: VecDeque::new(),
            blocked: false,
        });
    }
    let mut generator = Generator { load, bodies: bodies(load), random: 0x9e37_79b9_7f4a_7c15 };
    let mut latency = Histogram::new(3).expect("three digits");
    let (mut acknowledged, mut refused, mut messages) = (0, 0, 0);
    let began = Instant::now();
    let (from, until) = (began + load.warm_up, began + load.warm_up + load.time);
    let mut usage: Option<crate::process::Usage> = None;
    let interval = load.rate.map(|rate| Duration::from_secs_f64(f64::from(load.batch) / rate));
    let (mut due, mut turn) = (began, 0);
    if interval.is_none() {
        for connection in &mut connections {
            fill(connection, &mut generator, began);
            flush(connection)?;
        }
    }
    let mut events = Vec::with_capacity(256);
    let mut measured = began;
    loop {
        let now = Instant::now();
        if now >= from && usage.is_none() {
            usage = Some(crate::process::Usage::of(pid));
            measured = now;
        }
        if now >= until {
            break;
        }
        let mut wait_for = until - now;
        if let Some(interval) = interval {
            while due <= now {
                connections[turn].overdue.push_back(due);
                offer(&mut connections[turn], &mut generator);
                turn = (turn + 1) % connections.len();
                due += interval;
            }
            connections.iter_mut().try_for_each(flush)?;
            wait_for = wait_for.min(due.saturating_duration_since(now));
        }
        events.clear();
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: wait_for.as_nanos().clamp(1, 50_000_000) as i64 };
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        for event in events.drain(..) {
            let at = usize::try_from(event.data.u64()).expect("an index");
            let connection = &mut connections[at];
            let answers = receive(connection)?;
            let now = Instant::now();
            for (opaque, good) in answers {
                let slot = usize::try_from(opaque).expect("an opaque of ours");
                connection.free.push(slot);
                if !good {
                    refused += 1;
                    continue;
                }
                acknowledged += u64::from(load.batch);
                if usage.is_some() {
                    messages += u64::from(load.batch);
                    let micros = u64::try_from((now - connection.sent[slot]).as_micros()).expect("a run is short");
                    latency.record_n(micros.max(1), u64::from(load.batch)).expect("in range");
                }
            }
            if interval.is_none() {
                fill(connection, &mut generator, now)
            } else {
                offer(connection, &mut generator)
            }
            flush(connection)?;
        }
    }
    let seconds = measured.elapsed().as_secs_f64();
    let after = crate::process::Usage::of(pid);
    let broker = [usage.unwrap_or(after), after];
    acknowledged += drain(&mut connections, load)?;
    Ok(Sent { messages, acknowledged, refused, seconds, latency, broker })
}

/// Puts one message into each partition, so that none is created while it is measured.
pub fn touch(address: SocketAddr, load: &Load) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut puts = Vec::new();
    for partition in 0..load.partitions {
        let opaque = i32::try_from(partition).expect("an index");
        let put = Put {
            topic: load.topic.as_str().into(),
            partition: opaque,
            flag: 0,
            checksum: None,
            transaction: None,
            opaque,
            body: b"x",
        };
        put.encode(&mut puts).map_err(io::Error::other)?;
    }
    let mut reader = stream.try_clone()?;
    let writer = std::thread::spawn(move || stream.write_all(&puts).map(|()| stream));
    let (mut decoder, mut input, mut piece, mut answered) =
        (AnswerDecoder::new(Limits::DEFAULT), Vec::new(), [0; 65536], 0);
    while answered < load.partitions {
        let bytes = reader.read(&mut piece)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        input.extend_from_slice(&piece[..bytes]);
        let mut used = 0;
        while let DecodedAnswer::Answer { used: bytes, .. } =
            decoder.decode(&input[used..]).map_err(io::Error::other)?
        {
            used += bytes;
            answered += 1;
        }
        input.drain(..used);
    }
    writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
    // Until they are in segments and a checkpoint.
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// Waits for the answers that are still owed.
fn drain(connections: &mut [Connection], load: &Load) -> io::Result<u64> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut acknowledged = 0;
    while connections.iter().any(|connection| connection.free.len() < load.in_flight) && Instant::now() < until {
        for connection in &mut *connections {
            flush(connection)?;
            for (opaque, good) in receive(connection)? {
                connection.free.push(usize::try_from(opaque).expect("an opaque of ours"));
                acknowledged += u64::from(good) * u64::from(load.batch);
            }
        }
        std::thread::yield_now();
    }
    Ok(acknowledged)
}

fn fill(connection: &mut Connection, generator: &mut Generator<'_>, now: Instant) {
    while let Some(slot) = connection.free.pop() {
        connection.sent[slot] = now;
        generator.request(slot, &mut connection.out);
    }
}

fn offer(connection: &mut Connection, generator: &mut Generator<'_>) {
    while let Some(due) = connection.overdue.front().copied() {
        let Some(slot) = connection.free.pop() else { return };
        connection.overdue.pop_front();
        connection.sent[slot] = due;
        generator.request(slot, &mut connection.out);
    }
}

fn flush(connection: &mut Connection) -> io::Result<()> {
    let mut written = 0;
    while written < connection.out.len() {
        match connection.stream.write(&connection.out[written..]) {
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.blocked = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    connection.out.drain(..written);
    Ok(())
}

fn receive(connection: &mut Connection) -> io::Result<Vec<(i32, bool)>> {
    let mut piece = [0; 64 * 1024];
    loop {
        match connection.stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => connection.input.extend_from_slice(&piece[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    let mut answers = Vec::new();
    let mut used = 0;
    loop {
        match connection.decoder.decode(&connection.input[used..]) {
            Ok(DecodedAnswer::Answer { answer, used: bytes }) => {
                used += bytes;
                if let Answer::Result { code, opaque, text } = answer {
                    if code != 200 {
                        eprintln!("refused: {code} {}", String::from_utf8_lossy(text));
                    }
                    answers.push((opaque, code == 200));
                }
            }
            Ok(DecodedAnswer::Incomplete { .. }) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    connection.input.drain(..used);
    Ok(answers)
}
