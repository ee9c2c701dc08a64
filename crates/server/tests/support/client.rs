//! A client that says bytes and takes answers apart, by itself.

use super::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection.
pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Of a `result`; 0 of a `value`.
    pub code: i32,
    pub opaque: i32,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The position in the answer to a put.
    #[track_caller]
    pub fn position(&self) -> u64 {
        assert_eq!(self.code, 200, "{}", self.text());
        self.text().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self::of(stream)
    }

    /// On a socket that is connected.
    pub fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Ends the sending side.
    pub fn end(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    #[track_caller]
    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Answer {
        self.say(bytes);
        self.answer()
    }

    /// The next answer.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("an answer, not the end of the connection")
    }

    /// The next answer; `None`: the connection ended in order, or was reset.
    #[track_caller]
    pub fn try_answer(&mut self) -> Option<Answer> {
        loop {
            if let Some((answer, used)) = parse(&self.unread) {
                self.unread.drain(..used);
                return Some(answer);
            }
            let mut bytes = [0; 64 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    assert!(self.unread.is_empty(), "half an answer: {:?}", String::from_utf8_lossy(&self.unread));
                    return None;
                }
                Ok(read) => self.unread.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    #[track_caller]
    pub fn answers(&mut self, count: usize) -> Vec<Answer> {
        (0..count).map(|_| self.answer()).collect()
    }

    /// Nothing comes for a while, and the connection stays.
    #[track_caller]
    pub fn is_silent(&mut self) {
        assert!(self.unread.is_empty(), "{:?}", String::from_utf8_lossy(&self.unread));
        self.stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
        let mut bytes = [0; 1024];
        match self.stream.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(read) => panic!("not silent: {:?}", String::from_utf8_lossy(&bytes[..read])),
            Err(error) => panic!("not silent: {error}"),
        }
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// The connection ends, with nothing before that.
    #[track_caller]
    pub fn ends(&mut self) {
        assert_eq!(self.try_answer(), None, "the connection should end");
    }
}

fn parse(bytes: &[u8]) -> Option<(Answer, usize)> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let words: Vec<&str> = std::str::from_utf8(&bytes[..line]).unwrap().split(' ').collect();
    let number = |at: usize| words[at].parse::<i32>().unwrap();
    let (code, length, opaque) = match (words[0], words.len()) {
        ("result", 4) => (number(1), number(2), number(3)),
        ("value", 3) => (0, number(1), number(2)),
        _ => panic!("{words:?} is no answer"),
    };
    let end = line + 2 + usize::try_from(length).unwrap();
    let body = bytes.get(line + 2..end)?.to_vec();
    Some((Answer { code, opaque, body }, end))
}
