//! The first lines of a broker: where it listens, where its data is, how durable it is, and what to type next.

use metaq_broker::Broker;
use metaq_broker::configuration::{Durability, Settings};
use std::net::SocketAddr;
use std::path::Path;

/// What the first lines are about.
pub struct Greeting<'a> {
    /// The broker.
    pub broker: &'a Broker,
    /// Where the text protocol is served.
    pub listens: SocketAddr,
    /// Where metrics and health are served.
    pub http: Option<SocketAddr>,
}

impl Greeting<'_> {
    /// The lines that say what is so.
    pub fn facts(&self) -> Vec<String> {
        let settings = self.broker.settings();
        let http = match self.http {
            Some(address) => format!("http on {address} (/metrics, /health/ready)"),
            None => "no http: dashboardHttpPort is -1".to_owned(),
        };
        vec![format!("listening on {}", self.listens), http, self.data(&settings), durability(&settings)]
    }

    /// The lines that say what to type next, for people.
    pub fn advice(&self) -> Vec<String> {
        let (host, port) = (reachable(self.listens), self.listens.port());
        let server = if port == 8123 { String::new() } else { format!(" --server {host}:{port}") };
        vec![
            "to try it:".to_owned(),
            format!(r"  printf 'put hello 0 5 0 1\r\nworldquit\r\n' | nc {host} {port}      # a message goes in"),
            format!(r"  printf 'get hello me 0 0 1024 2\r\nquit\r\n' | nc {host} {port}  # and comes out"),
            format!("  metaq produce hello 'Hello, MetaQ!'{server}"),
            format!("  metaq consume hello{server}"),
        ]
    }

    fn data(&self, settings: &Settings) -> String {
        let log = self.broker.log();
        let settled = log.settled();
        let partitions = log.partitions();
        let messages: u64 = partitions.iter().map(|partition| partition.bounds(settled).messages).sum();
        let commit = match settings.data_log_path == settings.data_path {
            true => String::new(),
            false => format!(", commit log in {}", absolute(&settings.data_log_path)),
        };
        let (path, partitions) = (absolute(&settings.data_path), partitions.len());
        format!("data in {path}{commit}: {messages} messages in {partitions} partitions")
    }
}

/// A host that a client of this machine can type.
fn reachable(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) if address.ip().is_unspecified() => "127.0.0.1".to_owned(),
        SocketAddr::V6(address) if address.ip().is_unspecified() => "::1".to_owned(),
        address => address.ip().to_string(),
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// How durable topics are that say nothing else.
fn durability(settings: &Settings) -> String {
    // A name that no section names and no pattern but `*` matches.
    let how = match settings.topic("metaq.none").durability {
        Durability::Fsync => "a put is answered when it is on the disk (fsync)".to_owned(),
        Durability::Interval { messages, period } => format!(
            "a put is answered when it is written, and on the disk after {messages} messages or {} ms (interval)",
            period.as_millis()
        ),
        Durability::Os => "a put is answered when it is written; the system takes it to the disk (os)".to_owned(),
    };
    format!("durability: {how}; topics may say otherwise")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_this_machine_can_type_the_host() {
        let host = |address: &str| reachable(address.parse().unwrap());
        assert_eq!(host("0.0.0.0:1"), "127.0.0.1");
        assert_eq!(host("[::]:1"), "::1");
        assert_eq!(host("10.0.0.7:1"), "10.0.0.7");
    }
}
