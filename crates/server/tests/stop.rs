//! Stopping: what was read is answered, and a limit or a second call ends it.

mod support;

use metaq_server::Stopped;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::Setup;

const FILE: &str = "putMsMax=60000\n[topic=t]\n";
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_stop_answers_what_was_read_and_closes() {
    let bed = Setup::new(FILE).threads(2).start();
    let (mut put, mut wait, mut idle, mut half) = (bed.connect(), bed.connect(), bed.connect(), bed.connect());
    idle.ask("version 1\r\n");
    put.ask("put t 0 5 0 1\r\nhello").position();
    wait.say("get t g 0 25 100 2 wait=20000\r\n");
    half.say("version 1\r\nput t 0 5 0 1\r\nhel");
    half.answer();
    bed.gate.close();
    put.say("put t 0 5 0 3\r\nhello");
    support::until("a sync waits", || bed.gate.holds_one());
    let server = Arc::clone(bed.server());
    let stopping = std::thread::spawn(move || server.stop(LONG));
    assert_eq!(wait.answer().code, 404, "a get that waits is answered with what there is");
    for client in [&mut wait, &mut idle, &mut half] {
        client.ends();
    }
    support::until("nobody is accepted", || TcpStream::connect(bed.address()).is_err());
    bed.gate.open();
    assert_eq!(put.answer().position(), 25);
    put.ends();
    drop((put, wait, idle, half));
    assert_eq!(stopping.join().unwrap(), Stopped::Answered);
}

#[test]
fn a_stop_ends_at_its_limit() {
    let bed = Setup::new(FILE).start();
    let mut client = bed.connect();
    client.ask("put t 0 5 0 1\r\nhello").position();
    bed.gate.close();
    client.say("put t 0 5 0 3\r\nhello");
    support::until("a sync waits", || bed.gate.holds_one());
    let began = Instant::now();
    assert_eq!(bed.stop(Duration::from_millis(200)), Stopped::Cut(1));
    assert!(began.elapsed() < Duration::from_secs(10));
    client.ends();
}

#[test]
fn a_second_stop_ends_the_first() {
    let bed = Setup::new(FILE).threads(2).start();
    let mut client = bed.connect();
    client.ask("put t 0 5 0 1\r\nhello").position();
    bed.gate.close();
    client.say("put t 0 5 0 3\r\nhello");
    support::until("a sync waits", || bed.gate.holds_one());
    let server = Arc::clone(bed.server());
    let stopping = std::thread::spawn(move || server.stop(LONG));
    support::until("nobody is accepted", || TcpStream::connect(bed.address()).is_err());
    assert!(!stopping.is_finished());
    let began = Instant::now();
    bed.stop(LONG);
    assert_eq!(stopping.join().unwrap(), Stopped::Cut(1));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_server_without_connections_stops_at_once() {
    let bed = Setup::new(FILE).threads(3).start();
    let began = Instant::now();
    assert_eq!(bed.stop(LONG), Stopped::Answered);
    assert!(began.elapsed() < Duration::from_secs(5));
}
