//! Reads everything back after a run: how many whole messages with right checksums a topic holds.

use metaq_protocol::record::{End, Walk};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Messages in partitions 0 to `partitions` of `topic`; an error at the first damaged one.
pub fn count(address: SocketAddr, topic: &str, partitions: u32) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    (0..partitions).map(|partition| count_partition(&mut stream, topic, partition)).sum()
}

fn count_partition(stream: &mut TcpStream, topic: &str, partition: u32) -> io::Result<u64> {
    let (mut position, mut messages) = (0, 0);
    loop {
        stream.write_all(format!("get {topic} verify {partition} {position} 1048576 1\r\n").as_bytes())?;
        let Some(chunk) = chunk(stream)? else { return Ok(messages) };
        let mut walk = Walk::new(&chunk);
        messages += walk.by_ref().count() as u64;
        let end = match walk.end() {
            Some(End::Clean) => chunk.len(),
            Some(End::Partial { position, .. }) if position > 0 => position,
            other => return Err(io::Error::other(format!("{topic}-{partition} at {position}: {other:?}"))),
        };
        position += end as u64;
    }
}

fn chunk(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&head).into_owned();
    let words: Vec<_> = line.split_whitespace().collect();
    let (found, length) = match words.as_slice() {
        ["value", length, _] => (true, length),
        ["result", "404", length, _] => (false, length),
        _ => return Err(io::Error::other(format!("a get was answered with {line:?}"))),
    };
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    Ok(found.then_some(body))
}
