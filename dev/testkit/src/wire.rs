//! One plain connection to a broker, and the frames that come back.

use crate::wait::PATIENCE;
use metaq_protocol::{ErrorCode, Stored};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer: its line without CRLF, and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// As it came.
    pub head: String,
    /// As many bytes as the line says.
    pub body: Vec<u8>,
}

impl Frame {
    fn words(&self) -> Vec<&str> {
        self.head.split(' ').collect()
    }

    /// The status of a `result`; `None` for a `value`.
    pub fn status(&self) -> Option<i32> {
        let words = self.words();
        (words[0] == "result").then(|| words[1].parse().expect("checked when the line was read"))
    }

    /// Whether it is a `value`.
    pub fn is_value(&self) -> bool {
        self.status().is_none()
    }

    /// Which request it answers.
    pub fn opaque(&self) -> i32 {
        self.words().last().and_then(|word| word.parse().ok()).expect("checked when the line was read")
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of a 200 to `put` or `puts`.
    ///
    /// # Panics
    /// If it is anything else.
    pub fn stored(&self) -> Stored {
        assert_eq!(self.status(), Some(200), "{self}");
        assert_eq!(self.text().split(' ').count(), 3, "{self}");
        Stored::parse(&self.body).unwrap_or_else(|| panic!("no id, partition and position: {self}"))
    }

    /// The one number of a 200 to `offset`, or of a 301.
    ///
    /// # Panics
    /// If the text isn't one number.
    pub fn position(&self) -> i64 {
        self.text().parse().unwrap_or_else(|_| panic!("no position: {self}"))
    }

    /// The stable code of an error.
    pub fn code(&self) -> Option<ErrorCode> {
        if self.status() == Some(200) { None } else { ErrorCode::of_text(&self.body) }
    }

    /// The bytes of a `value`.
    ///
    /// # Panics
    /// If it is a `result`.
    pub fn value(&self) -> &[u8] {
        assert!(self.is_value(), "no value: {self}");
        &self.body
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(300)];
        write!(f, "{:?} {:?}", self.head, String::from_utf8_lossy(shown))
    }
}

/// Why no frame came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The connection ended, by FIN or reset, with these bytes of a frame before.
    Closed(Vec<u8>),
    /// Nothing whole came in time.
    Late(Vec<u8>),
    /// The bytes are no frame.
    NoFrame(Vec<u8>),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, bytes) = match self {
            Lost::Closed(bytes) => ("the connection ended after", bytes),
            Lost::Late(bytes) => ("no whole frame in time, only", bytes),
            Lost::NoFrame(bytes) => ("no frame:", bytes),
        };
        write!(f, "{what} {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    pending: Vec<u8>,
    read: usize,
    patience: Duration,
}

impl Wire {
    /// Connects.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(address: SocketAddr) -> Self {
        Wire::try_connect(address).unwrap_or_else(|error| panic!("can't connect to {address}: {error}"))
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, pending: Vec::new(), read: 0, patience: PATIENCE })
    }

    /// Sets how long a frame is waited for; [`PATIENCE`] by default.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// A second hand on the same connection, for a thread that only sends.
    ///
    /// # Panics
    /// If the system has no descriptor left.
    pub fn sender(&self) -> TcpStream {
        self.stream.try_clone().expect("a socket can be duplicated")
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the connection has ended.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("can't send: {error}"));
    }

    /// Sends bytes, or says why not.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends FIN: there will be no more requests.
    ///
    /// # Panics
    /// If the connection has ended.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap_or_else(|error| panic!("can't half-close: {error}"));
    }

    /// Sends a request and takes the next frame.
    ///
    /// # Panics
    /// If no frame comes.
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Frame {
        self.send(request);
        self.frame()
    }

    /// The next frame.
    ///
    /// # Panics
    /// If none comes.
    pub fn frame(&mut self) -> Frame {
        self.try_frame().unwrap_or_else(|lost| panic!("{lost}"))
    }

    /// The next frame, or why there is none.
    pub fn try_frame(&mut self) -> Result<Frame, Lost> {
        let end = Instant::now() + self.patience;
        loop {
            if let Some(frame) = self.cut()? {
                return Ok(frame);
            }
            match self.more(end) {
                Ok(0) => return Err(Lost::Closed(self.rest())),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Err(Lost::Late(self.rest())),
                Err(_) => return Err(Lost::Closed(self.rest())),
            }
        }
    }

    /// So many frames, in the order in which they come.
    ///
    /// # Panics
    /// If fewer come.
    pub fn frames(&mut self, count: usize) -> Vec<Frame> {
        (0..count).map(|_| self.frame()).collect()
    }

    /// Expects the connection to end, by FIN or reset, without another byte.
    ///
    /// # Panics
    /// If bytes come, or nothing does in time.
    pub fn closed(&mut self) {
        match self.try_frame() {
            Err(Lost::Closed(bytes)) if bytes.is_empty() => {}
            Ok(frame) => panic!("should have closed, but answered {frame}"),
            Err(lost) => panic!("should have closed: {lost}"),
        }
    }

    /// Expects no byte, and an open connection, for a while.
    ///
    /// # Panics
    /// If bytes come or the connection ends.
    pub fn silent(&mut self, time: Duration) {
        let patience = std::mem::replace(&mut self.patience, time);
        let found = self.try_frame();
        self.patience = patience;
        match found {
            Err(Lost::Late(bytes)) if bytes.is_empty() => {}
            Ok(frame) => panic!("should have been silent, but answered {frame}"),
            Err(lost) => panic!("should have been silent: {lost}"),
        }
    }

    /// Finds the connection usable and nothing on it that wasn't expected: a `version` is answered next.
    ///
    /// # Panics
    /// If anything else comes.
    pub fn usable(&mut self) {
        const PROBE: i32 = -1_234_567_890;
        let frame = self.ask(format!("version {PROBE}\r\n"));
        assert_eq!((frame.status(), frame.opaque()), (Some(200), PROBE), "expected a version, not {frame}");
    }

    fn rest(&self) -> Vec<u8> {
        self.pending[self.read..].to_vec()
    }

    fn more(&mut self, end: Instant) -> io::Result<usize> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        if self.read > 0 {
            self.pending.drain(..self.read);
            self.read = 0;
        }
        let mut bytes = [0; 64 << 10];
        let count = self.stream.read(&mut bytes)?;
        self.pending.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn cut(&mut self) -> Result<Option<Frame>, Lost> {
        let pending = &self.pending[self.read..];
        let Some(line) = pending.windows(2).take(200).position(|pair| pair == b"\r\n") else {
            return if pending.len() > 200 { Err(Lost::NoFrame(self.rest())) } else { Ok(None) };
        };
        let head = std::str::from_utf8(&pending[..line]).map_err(|_| Lost::NoFrame(self.rest()))?;
        let length = length(head).ok_or_else(|| Lost::NoFrame(self.rest()))?;
        let Some(body) = pending.get(line + 2..line + 2 + length) else { return Ok(None) };
        let frame = Frame { head: head.to_owned(), body: body.to_vec() };
        self.read += line + 2 + length;
        Ok(Some(frame))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The length in a head that is written exactly as a broker must write it.
fn length(head: &str) -> Option<usize> {
    let is_number = |word: &str| word.parse::<i32>().is_ok_and(|number| number.to_string() == word);
    match head.split(' ').collect::<Vec<_>>()[..] {
        ["result", code, length, opaque] if is_number(code) && is_number(length) && is_number(opaque) => {
            length.parse().ok()
        }
        ["value", length, opaque] if is_number(length) && is_number(opaque) => {
            length.parse().ok().filter(|&length: &usize| length > 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A connection whose other side sends `bytes` and then ends.
    fn answered(bytes: &'static [u8]) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || listener.accept().unwrap().0.write_all(bytes).unwrap());
        Wire::connect(address)
    }

    #[test]
    fn frames_are_cut_by_their_length() {
        let mut wire = answered(b"result 200 7 -5\r\n-9 0 25value 3 1\r\na\r\nresult 404 0 2\r\n");
        let frame = wire.frame();
        assert_eq!((frame.stored().id, frame.stored().position, frame.opaque()), (-9, 25, -5));
        assert_eq!(wire.frame().value(), b"a\r\n");
        assert_eq!(wire.frame().head, "result 404 0 2");
        wire.closed();
    }

    #[test]
    fn what_is_no_frame_is_told_from_what_is_half_a_frame() {
        assert!(matches!(answered(b"result 200 7  5\r\n").try_frame(), Err(Lost::NoFrame(_))));
        assert!(matches!(answered(b"result 200 +7 5\r\n").try_frame(), Err(Lost::NoFrame(_))));
        assert!(matches!(answered(b"value 0 5\r\n").try_frame(), Err(Lost::NoFrame(_))));
        assert!(matches!(answered(b"value 5 5\r\nab").try_frame(), Err(Lost::Closed(bytes)) if bytes.len() == 13));
    }

    #[test]
    #[should_panic(expected = "should have been silent")]
    fn a_byte_is_no_silence() {
        answered(b"r").silent(Duration::from_secs(5));
    }
}
