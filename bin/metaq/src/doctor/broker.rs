//! What can be found out about a broker from outside: whether it answers, its health, its clock.

use super::Check;
use crate::clock;
use crate::connection::Connection;
use crate::exit::Exit;
use jiff::fmt::rfc2822;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Clocks may differ so much without anybody noticing: the answer tells whole seconds.
const CLOCK_NOTE: Duration = Duration::from_secs(3);
/// From here on timestamps of messages mislead retention and people.
const CLOCK_BAD: Duration = Duration::from_secs(60);
/// An answer to a first question that takes longer is worth knowing.
const SLOW: Duration = Duration::from_millis(500);

/// Looks at the broker, if there is one.
pub fn checks(connection: &Connection, http: &str) -> Vec<Check> {
    let mut checks = vec![answers(connection)];
    match ask(http, connection.timeout) {
        Ok(answer) => {
            checks.extend(health(&answer));
            checks.extend(clock(&answer));
        }
        Err(why) if checks[0].state == super::State::Good => {
            let advice = "say where it is with --http, or switch it on: dashboardHttpPort";
            checks.push(Check::note("health", format!("{http} doesn't answer: {why}"), advice));
        }
        Err(_) => {}
    }
    checks
}

fn answers(connection: &Connection) -> Check {
    let began = Instant::now();
    let server = &connection.server;
    match connection.connect() {
        Ok(wire) => {
            let took = began.elapsed();
            let found = format!("{} answers at {server} after {} ms", wire.greeting().server, took.as_millis());
            if took > SLOW {
                return Check::note("broker", found, "look at the machine's load and the network");
            }
            Check::good("broker", found)
        }
        Err(failure) => match (failure.exit, address(server)) {
            (Exit::Unreachable, Some(address)) => port(address, &failure.text),
            (Exit::Unreachable, None) => Check::bad("broker", failure.text, "start it, or look at the network"),
            _ => Check::bad("broker", failure.text, "something else listens there: choose another port"),
        },
    }
}

/// The address if it is one of this machine.
fn address(server: &str) -> Option<SocketAddr> {
    server.to_socket_addrs().ok()?.find(|address| address.ip().is_loopback())
}

/// No broker answers at a port of this machine: is it free?
fn port(address: SocketAddr, why: &str) -> Check {
    match TcpListener::bind(address) {
        Ok(_) => {
            Check::note("broker", format!("no broker runs at {address}; the port is free"), "start one: metaq server")
        }
        Err(error) => {
            let user = user_of(address.port()).map_or_else(
                || "who uses it can't be seen by this user".to_owned(),
                |(pid, name)| format!("process {pid} ({name}) uses it"),
            );
            let advice = format!("{user}: stop it, or choose another port with --listen");
            Check::bad("broker", format!("{why}; the port can't be had: {error}"), advice)
        }
    }
}

/// The process that listens at a port, as far as this user may see it.
fn user_of(port: u16) -> Option<(u32, String)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let inodes: Vec<String> =
        tables.iter().flat_map(|table| table.lines()).filter_map(|line| listener(line, port)).collect();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(open) = fs::read_dir(process.path().join("fd")) else { continue };
        let sockets = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let holds = sockets.map(|link| link.to_string_lossy().into_owned()).any(|link| inodes.contains(&link));
        if holds {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim().to_owned()));
        }
    }
    None
}

/// The socket of a line of the kernel's table that listens at the port, as its descriptor is called.
fn listener(line: &str, port: u16) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
    let at = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    (at == port && *state == "0A").then(|| format!("socket:[{inode}]"))
}

/// Head and body of the health page.
struct Answer {
    head: String,
    body: Value,
}

fn ask(http: &str, timeout: Duration) -> Result<Answer, String> {
    let text = |error: std::io::Error| error.to_string();
    let address = http.to_socket_addrs().map_err(text)?.next().ok_or("it has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(text)?;
    stream.set_read_timeout(Some(timeout)).map_err(text)?;
    stream.write_all(b"GET /health/ready HTTP/1.0\r\n\r\n").map_err(text)?;
    let mut bytes = Vec::new();
    stream.take(1 << 20).read_to_end(&mut bytes).map_err(text)?;
    let page = String::from_utf8_lossy(&bytes);
    let (head, body) = page.split_once("\r\n\r\n").ok_or("it doesn't speak HTTP")?;
    let body = serde_json::from_str(body).map_err(|_| "it isn't a broker's health page")?;
    Ok(Answer { head: head.to_owned(), body })
}

fn health(answer: &Answer) -> Vec<Check> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |name: &str| answer.body[name].as_array().cloned().unwrap_or_default();
    let failing = list("checks").into_iter().filter(|check| check["ok"] == false);
    let mut checks: Vec<_> = failing
        .map(|check| {
            Check::bad("health", format!("{}: {}", text(&check["name"]), text(&check["reason"])), "as it says")
        })
        .collect();
    if checks.is_empty() {
        checks.push(Check::good("health", "the broker is ready"));
    }
    checks.extend(list("warnings").iter().map(|warning| Check::note("health", text(warning), "")));
    checks
}

fn clock(answer: &Answer) -> Option<Check> {
    let date =
        answer.head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("date:").map(|_| &line[5..]))?;
    let told = rfc2822::DateTimeParser::new().parse_zoned_datetime(date.trim()).ok()?;
    let told = u64::try_from(told.timestamp().as_millisecond()).ok()?;
    Some(judged(Duration::from_millis(told.abs_diff(clock::now()))))
}

fn judged(apart: Duration) -> Check {
    let advice = "let both machines follow the same time servers (chrony, systemd-timesyncd)";
    let found = format!("the clocks of the broker and of this machine are {} s apart", apart.as_secs());
    match apart {
        apart if apart >= CLOCK_BAD => Check::bad("clock", found, advice),
        apart if apart >= CLOCK_NOTE => Check::note("clock", found, advice),
        _ => Check::good("clock", "the clocks of the broker and of this machine agree"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_listening_socket_is_found_in_the_kernels_table() {
        let line = "   0: 0100007F:1FBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 12345 1 0 100";
        assert_eq!(listener(line, 8123), Some("socket:[12345]".to_owned()));
        assert_eq!(listener(line, 8124), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), 8123), None);
        assert_eq!(listener("  sl  local_address rem_address   st", 8123), None);
    }

    #[test]
    fn the_process_that_uses_a_port_is_named() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(user_of(address.port()).unwrap().0, std::process::id());
        let check = port(address, "nobody answers");
        assert_eq!(check.state, State::Bad);
        assert!(check.advice.contains(&std::process::id().to_string()), "{check:?}");
    }

    #[test]
    fn health_is_as_bad_as_its_checks() {
        let answer = |body: &str| Answer { head: String::new(), body: serde_json::from_str(body).unwrap() };
        let good = health(&answer(r#"{"ready":true,"checks":[{"name":"disk","ok":true}],"warnings":["w"]}"#));
        assert_eq!(good.iter().map(|check| check.state).collect::<Vec<_>>(), [State::Good, State::Note]);
        let bad = health(&answer(r#"{"ready":false,"checks":[{"name":"disk","ok":false,"reason":"full"}]}"#));
        assert_eq!((bad[0].state, bad[0].found.as_str()), (State::Bad, "disk: full"));
    }

    #[test]
    fn clocks_are_compared_by_the_date_of_the_answer() {
        let head = |date: &str| Answer { head: format!("HTTP/1.0 200 OK\r\nDate: {date}"), body: Value::Null };
        let check = clock(&head("Sun, 06 Nov 1994 08:49:37 GMT")).unwrap();
        assert_eq!(check.state, State::Bad);
        assert!(clock(&head("yesterday")).is_none());
        assert_eq!(judged(Duration::from_secs(1)).state, State::Good);
        assert_eq!(judged(Duration::from_secs(5)).state, State::Note);
    }
}
