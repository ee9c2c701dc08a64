//! What the machine's round trips allow: a server that answers each `put` at once and keeps nothing, or that syncs a
//! block of a zero-filled file once for all that came together.

use metaq_protocol::{Decoded, Decoder, Limits, Request, answer};
use rustix::event::epoll;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;

const SYNC_BYTES: u64 = 64 << 20;

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    out: Vec<u8>,
    decoder: Decoder,
}

/// Serves for ever on a port that is printed.
pub fn serve(sync: Option<&Path>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let mut log = sync.map(Log::create).transpose()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut piece = vec![0; 256 * 1024];
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        let mut touched = Vec::new();
        let mut bytes = 0;
        for event in events.drain(..) {
            if event.data.u64() == u64::MAX {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                epoll::add(
                    &epoll,
                    &stream,
                    epoll::EventData::new_u64(connections.len() as u64),
                    epoll::EventFlags::IN,
                )?;
                let decoder = Decoder::new(Limits::DEFAULT);
                connections.push(Some(Connection { stream, input: Vec::new(), out: Vec::new(), decoder }));
                continue;
            }
            let at = usize::try_from(event.data.u64()).expect("an index");
            let Some(connection) = &mut connections[at] else { continue };
            match connection.stream.read(&mut piece) {
                Ok(0) => connections[at] = None,
                Ok(read) => {
                    connection.input.extend_from_slice(&piece[..read]);
                    bytes += connection.answer()?;
                    touched.push(at);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => connections[at] = None,
            }
        }
        if let Some(log) = log.as_mut().filter(|_| bytes > 0) {
            log.sync(bytes)?;
        }
        for at in touched {
            if let Some(connection) = &mut connections[at] {
                // The benchmark's client always reads: a full socket is not worth a queue here.
                connection.stream.set_nonblocking(false)?;
                connection.stream.write_all(&connection.out)?;
                connection.stream.set_nonblocking(true)?;
                connection.out.clear();
            }
        }
    }
}

impl Connection {
    fn answer(&mut self) -> io::Result<u64> {
        let mut used = 0;
        let mut bytes = 0;
        loop {
            match self.decoder.decode(&self.input[used..]) {
                Ok(Decoded::Request { request, used: len }) => {
                    match request {
                        Request::Put(put) => {
                            bytes += put.body.len() as u64;
                            answer::stored(&mut self.out, put.opaque, 1, put.partition, 0);
                        }
                        Request::Version(version) => {
                            answer::result(&mut self.out, metaq_protocol::Status::Ok, version.opaque, b"echo")
                        }
                        _ => {}
                    }
                    used += len;
                }
                Ok(_) => break,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        self.input.drain(..used);
        Ok(bytes)
    }
}

struct Log {
    file: File,
    at: u64,
    block: Vec<u8>,
}

impl Log {
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for at in 0..SYNC_BYTES >> 20 {
            file.write_all_at(&zeros, at << 20)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0, block: vec![1; 8 << 20] })
    }

    fn sync(&mut self, bytes: u64) -> io::Result<()> {
        let len = bytes.next_multiple_of(4096).min(self.block.len() as u64);
        if self.at + len > SYNC_BYTES {
            self.at = 0;
        }
        self.file.write_all_at(&self.block[..usize::try_from(len).expect("at most the block")], self.at)?;
        self.at += len;
        self.file.sync_data()
    }
}
