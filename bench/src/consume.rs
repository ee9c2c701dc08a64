//! Reading: gets over several connections, each with some in flight; and plain `sendfile` as what is possible.

use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a reading reached.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Consumed {
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// CPU seconds of the broker a gigabyte.
    pub cpu_seconds_per_gb: f64,
}

/// Reads partitions 0, 1, … of `topic` from their beginning again and again, one connection each.
pub fn gets(
    address: SocketAddr,
    pid: u32,
    topic: &str,
    connections: u32,
    in_flight: usize,
    ends: u64,
    time: Duration,
) -> io::Result<Consumed> {
    let total = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + time;
    let before = crate::process::Usage::of(pid);
    let began = Instant::now();
    let threads: Vec<_> = (0..connections)
        .map(|partition| {
            let (topic, total) = (topic.to_owned(), Arc::clone(&total));
            std::thread::spawn(move || read_loop(address, &topic, partition, in_flight, ends, until, &total))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a reader panicked"))??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu = crate::process::Usage::of(pid).cpu_seconds - before.cpu_seconds;
    let bytes = total.load(Ordering::Relaxed) as f64;
    Ok(Consumed { bytes_per_second: bytes / seconds, cpu_seconds_per_gb: cpu / (bytes / 1e9) })
}

const SIZE: u64 = 1 << 20;

fn read_loop(
    address: SocketAddr,
    topic: &str,
    partition: u32,
    in_flight: usize,
    ends: u64,
    until: Instant,
    total: &AtomicU64,
) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut position = 0;
    let mut buffer = vec![0; 1 << 20];
    let mut head = Vec::new();
    let mut asked = 0;
    while Instant::now() < until {
        while asked < in_flight {
            stream.write_all(format!("get {topic} bench {partition} {position} {SIZE} 1\r\n").as_bytes())?;
            position = (position + SIZE) % (ends / SIZE * SIZE).max(SIZE);
            asked += 1;
        }
        head.clear();
        let mut left = read_head(&mut stream, &mut head)?;
        asked -= 1;
        while left > 0 {
            let want = left.min(buffer.len());
            let bytes = stream.read(&mut buffer[..want])?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= bytes;
            total.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Reads an answer's line; gives the bytes that follow it.
fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<usize> {
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        if head.ends_with(b"\r\n") {
            break;
        }
    }
    let line = String::from_utf8_lossy(head);
    let words: Vec<_> = line.split_whitespace().collect();
    match words.as_slice() {
        ["value", length, _] => length.parse().map_err(io::Error::other),
        _ => Err(io::Error::other(format!("a get was answered with {line:?}"))),
    }
}

/// What `sendfile` alone reaches over loopback from `file`, with as many connections.
pub fn plain_sendfile(file: &Path, connections: u32, time: Duration) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let total = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + time;
    let began = Instant::now();
    let mut threads = Vec::new();
    for _ in 0..connections {
        let total = Arc::clone(&total);
        threads.push(std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address)?;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let bytes = stream.read(&mut buffer)?;
                if bytes == 0 {
                    return io::Result::Ok(());
                }
                total.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }));
        let (stream, _) = listener.accept()?;
        let source = File::open(file)?;
        threads.push(std::thread::spawn(move || {
            let len = source.metadata()?.len();
            while Instant::now() < until {
                let mut at = 0;
                while at + SIZE <= len && Instant::now() < until {
                    let sent = rustix::fs::sendfile(&stream, &source, Some(&mut at), 1 << 20)?;
                    if sent == 0 {
                        break;
                    }
                }
            }
            Ok(())
        }));
    }
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(total.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}
