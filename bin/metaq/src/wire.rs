//! A small client: one blocking connection that asks and reads answers.
//!
//! Requests may be sent ahead of their answers, which come back in any order and are told apart by their opaque.

use crate::exit::{Exit, Failure};
use metaq_protocol::answer::DecodedAnswer;
use metaq_protocol::extension::{Hello, HelloAnswer};
use metaq_protocol::request::{Stats, Version};
use metaq_protocol::{Answer, AnswerDecoder, Limits, Request, Status};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes that are asked of the socket at once.
const READ_BYTES: usize = 64 << 10;
/// Answers may be as large as any `get` can ask for.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize;

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status and a text.
    Text {
        /// The status.
        code: i32,
        /// What the broker says.
        text: Vec<u8>,
    },
    /// Bytes of a log, or of a fetch.
    Value(Vec<u8>),
}

impl Reply {
    /// The text of a 200; anything else is a failure, about `what`.
    pub fn text(self, what: &str) -> Result<String, Failure> {
        match self {
            Reply::Text { code: 200, text } => Ok(String::from_utf8_lossy(&text).into_owned()),
            other => Err(other.failure(what)),
        }
    }

    /// Why this isn't what was asked for.
    pub fn failure(&self, what: &str) -> Failure {
        let Reply::Text { code, text } = self else {
            return Failure::failed(format!("{what}: the broker answered with bytes instead of a text"));
        };
        let exit = if *code == Status::NotFound.number() { Exit::NotFound } else { Exit::Refused };
        let text = String::from_utf8_lossy(text);
        Failure::new(exit, format!("{what}: the broker answered {code}: {text}"))
    }
}

/// What a broker said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Greeting {
    /// Name and version; of an original, its version.
    pub server: String,
    /// What it can do beyond the original; nothing if it is one.
    pub features: Vec<String>,
    /// Limits by name.
    limits: Vec<(String, u64)>,
}

impl Greeting {
    /// Whether it can do something.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|known| known == feature)
    }

    /// A limit by its name.
    pub fn limit(&self, name: &str) -> Option<u64> {
        self.limits.iter().find(|(known, _)| known == name).map(|(_, limit)| *limit)
    }

    fn of(text: &[u8]) -> Self {
        match HelloAnswer::parse(text) {
            Some(answer) => Self {
                server: answer.server.into_owned(),
                features: answer.features.into_iter().map(String::from).collect(),
                limits: answer.limits.into_iter().map(|(name, limit)| (name.into_owned(), limit)).collect(),
            },
            None => Self { server: String::from_utf8_lossy(text).into_owned(), ..Self::default() },
        }
    }
}

/// A connection to a broker.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    server: String,
    timeout: Duration,
    decoder: AnswerDecoder,
    /// What came and isn't taken yet begins at `from`.
    buffer: Vec<u8>,
    from: usize,
    out: Vec<u8>,
    opaque: i32,
    greeting: Greeting,
}

impl Wire {
    /// Connects to `HOST:PORT` and exchanges greetings.
    pub fn connect(server: &str, timeout: Duration) -> Result<Self, Failure> {
        let unreachable = |why: String| Failure::new(Exit::Unreachable, format!("{server} can't be reached: {why}"));
        let addresses: Vec<_> = server
            .to_socket_addrs()
            .map_err(|error| match error.kind() {
                ErrorKind::InvalidInput => Failure::usage(format!("{server:?} isn't HOST:PORT")),
                _ => unreachable(error.to_string()),
            })?
            .collect();
        let mut last = "it has no address".to_owned();
        let connected = addresses.iter().find_map(|address| match TcpStream::connect_timeout(address, timeout) {
            Ok(stream) => Some(stream),
            Err(error) => {
                last = format!("{error}; is a broker running there? (metaq server)");
                None
            }
        });
        let stream = connected.ok_or_else(|| unreachable(last))?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(timeout)))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        set.map_err(|error| unreachable(error.to_string()))?;
        let limits = Limits { answer_bytes_max: ANSWER_BYTES_MAX, ..Limits::DEFAULT };
        let mut wire = Self {
            stream,
            server: server.to_owned(),
            timeout,
            decoder: AnswerDecoder::new(limits),
            buffer: Vec::new(),
            from: 0,
            out: Vec::new(),
            opaque: 0,
            greeting: Greeting::default(),
        };
        wire.greet()?;
        Ok(wire)
    }

    fn greet(&mut self) -> Result<(), Failure> {
        let client = concat!("metaq-cli/", env!("CARGO_PKG_VERSION"));
        let hello = Hello { client: client.into(), ..Hello::default() };
        let reply = self.ask(|opaque| Request::Version(Version { opaque, hello: Some(hello.clone()) }))?;
        match reply {
            Reply::Text { code: 200, text } => self.greeting = Greeting::of(&text),
            other => return Err(other.failure("version")),
        }
        Ok(())
    }

    /// What the broker said of itself.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// An opaque that no request in flight has.
    pub fn opaque(&mut self) -> i32 {
        self.opaque = if self.opaque == i32::MAX - 1 { 1 } else { self.opaque + 1 };
        self.opaque
    }

    /// Puts a request into what is sent next.
    pub fn add(&mut self, request: &Request<'_>) -> Result<(), Failure> {
        let before = self.out.len();
        request.encode(&mut self.out).map_err(|why| {
            self.out.truncate(before);
            Failure::usage(format!("this can't be asked: {why}"))
        })
    }

    /// Sends what was put in.
    pub fn send(&mut self) -> Result<(), Failure> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent.map_err(|error| self.lost(&error))
    }

    /// Asks and waits for the answer. No other request may be in flight.
    pub fn ask<'a>(&mut self, request: impl FnOnce(i32) -> Request<'a>) -> Result<Reply, Failure> {
        let opaque = self.opaque();
        self.add(&request(opaque))?;
        self.send()?;
        loop {
            let (answered, reply) = self.reply(self.timeout)?;
            // Anything else is the answer to a request that was given up.
            if answered == opaque {
                return Ok(reply);
            }
        }
    }

    /// The text of a 200 to a request; `what` is what the sentence of a failure is about.
    pub fn text<'a>(&mut self, what: &str, request: impl FnOnce(i32) -> Request<'a>) -> Result<String, Failure> {
        self.ask(request)?.text(what)
    }

    /// The text of `stats`.
    pub fn stats(&mut self, item: Option<&str>) -> Result<String, Failure> {
        let what = item.map_or("stats".to_owned(), |item| format!("stats {item}"));
        self.text(&what, |opaque| Request::Stats(Stats { item: item.map(Into::into), opaque }))
    }

    /// The next answer, whosever it is.
    pub fn next_reply(&mut self) -> Result<(i32, Reply), Failure> {
        self.reply(self.timeout)
    }

    /// As [`Wire::next_reply`], for an answer that may take `longer` than others.
    pub fn next_reply_after(&mut self, longer: Duration) -> Result<(i32, Reply), Failure> {
        self.reply(self.timeout + longer)
    }

    /// An answer that is here already.
    pub fn ready_reply(&mut self) -> Result<Option<(i32, Reply)>, Failure> {
        match self.decoded()? {
            Ok(reply) => Ok(Some(reply)),
            Err(_) => Ok(None),
        }
    }

    fn reply(&mut self, limit: Duration) -> Result<(i32, Reply), Failure> {
        let until = Instant::now() + limit;
        loop {
            match self.decoded()? {
                Ok(reply) => return Ok(reply),
                Err(needed) => self.receive(needed, until)?,
            }
        }
    }

    /// A whole answer from what came, or how many bytes it needs at least.
    fn decoded(&mut self) -> Result<Result<(i32, Reply), usize>, Failure> {
        match self.decoder.decode(&self.buffer[self.from..]) {
            Ok(DecodedAnswer::Incomplete { needed }) => Ok(Err(needed)),
            Ok(DecodedAnswer::Answer { answer, used }) => {
                let opaque = answer.opaque();
                let reply = match answer {
                    Answer::Result { code, text, .. } => Reply::Text { code, text: text.to_vec() },
                    Answer::Value { data, .. } => Reply::Value(data.to_vec()),
                };
                self.from += used;
                if self.from == self.buffer.len() {
                    (self.from, _) = (0, self.buffer.clear());
                }
                Ok(Ok((opaque, reply)))
            }
            Err(why) => Err(Failure::failed(format!(
                "{} doesn't speak the protocol of MetaQ: {why}; is the port right?",
                self.server
            ))),
        }
    }

    fn receive(&mut self, needed: usize, until: Instant) -> Result<(), Failure> {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(self.silent());
        }
        let set = self.stream.set_read_timeout(Some(rest));
        set.map_err(|error| self.lost(&error))?;
        self.buffer.drain(..self.from);
        self.from = 0;
        let came = self.buffer.len();
        self.buffer.resize(came + needed.saturating_sub(came).max(READ_BYTES), 0);
        let read = self.stream.read(&mut self.buffer[came..]);
        self.buffer.truncate(came + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Failure::new(Exit::Unreachable, format!("{} closed the connection", self.server))),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(self.silent()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn silent(&self) -> Failure {
        let seconds = self.timeout.as_secs_f64();
        let text = format!("{} didn't answer within {seconds} s; --timeout gives it longer", self.server);
        Failure::new(Exit::Unreachable, text)
    }

    fn lost(&self, error: &std::io::Error) -> Failure {
        Failure::new(Exit::Unreachable, format!("the connection to {} is lost: {error}", self.server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::{JoinHandle, spawn};

    const SOON: Duration = Duration::from_secs(5);

    /// Answers the first connection's bytes with `answers`, one for each line that comes.
    fn broker(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let served = spawn(move || {
            use std::io::{BufRead, BufReader};
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = Vec::new();
            let mut input = BufReader::new(stream.try_clone().unwrap());
            for answer in answers {
                let mut line = String::new();
                input.read_line(&mut line).unwrap();
                lines.push(line);
                stream.write_all(answer.as_bytes()).unwrap();
            }
            lines
        });
        (server, served)
    }

    #[test]
    fn a_broker_is_greeted_and_asked() {
        const HELLO: &str = "result 200 38 1\r\nmetaq 2\r\nserver metaq/1\r\nfeatures puts";
        let (server, served) = broker(&[HELLO, "value 3 2\r\nold", "result 404 4 3\r\nnone"]);
        let mut wire = Wire::connect(&server, SOON).unwrap();
        assert_eq!(wire.greeting().server, "metaq/1");
        assert!(wire.greeting().has("puts") && !wire.greeting().has("wait"));
        let opaque = wire.opaque();
        wire.add(&Request::Stats(Stats { item: None, opaque })).unwrap();
        wire.send().unwrap();
        assert_eq!(wire.next_reply().unwrap(), (2, Reply::Value(b"old".to_vec())));
        let failure = wire.stats(Some("x")).unwrap_err();
        assert_eq!(failure, Failure::new(Exit::NotFound, "stats x: the broker answered 404: none"));
        drop(wire);
        assert!(served.join().unwrap()[0].starts_with("version 1 hello 1 metaq-cli/"));
    }

    #[test]
    fn an_original_is_known_by_its_version() {
        let (server, _served) = broker(&["result 200 5 1\r\n1.4.6"]);
        let wire = Wire::connect(&server, SOON).unwrap();
        assert_eq!(*wire.greeting(), Greeting { server: "1.4.6".to_owned(), ..Greeting::default() });
    }

    #[test]
    fn who_is_not_there_or_no_broker_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert_eq!(Wire::connect(&server, SOON).unwrap_err().exit, Exit::Unreachable);
        assert_eq!(Wire::connect("127.0.0.1", SOON).unwrap_err().exit, Exit::Usage);
        let (server, _served) = broker(&["HTTP/1.1 400 Bad Request\r\n\r\n"]);
        let failure = Wire::connect(&server, SOON).unwrap_err();
        assert!(failure.text.contains("doesn't speak the protocol"), "{failure}");
        let (server, _served) = broker(&[""]);
        let failure = Wire::connect(&server, Duration::from_millis(50)).unwrap_err();
        assert_eq!(failure.exit, Exit::Unreachable);
    }
}
