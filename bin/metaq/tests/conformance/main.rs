//! The text protocol row by row, against the real broker or against any other (`METAQ_TEST_ADDR`), the original included.
//!
//! Each row has topics of its own, so that rows run side by side on one broker. What the original can't do (closing a partition by
//! a word) or does otherwise on purpose is left out when `METAQ_TEST_ORIGINAL` is set too.

mod connection;
mod framing;
mod get;
mod put;
mod quirks;
mod stats;
mod transactions;

use metaq_testkit::transcript;
use metaq_testkit::{Broker, Ini, Put, Setup, Shared, Wire};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

const BINARY: &str = env!("CARGO_BIN_EXE_metaq");

static BROKER: Shared<Target> = Shared::new();

/// Who is tested.
struct Target {
    address: SocketAddr,
    own: Option<(Setup, Broker)>,
}

fn fixture() -> Ini {
    ["t*", "seg*", "wild*", "empty", "tx", "b.c"].into_iter().fold(
        Ini::new()
            .system("numPartitions", 2)
            .system("maxSegmentSize", 1024)
            .system("stat", "true")
            .system("updateConsumerOffsets", "false")
            .topic("closed")
            .topic("shut"),
        Ini::topic,
    )
}

thread_local! {
    /// A test's thread holds the broker until the test ends.
    static HELD: RefCell<Option<Arc<Target>>> = const { RefCell::new(None) };
}

fn target() -> Arc<Target> {
    HELD.with_borrow_mut(|held| Arc::clone(held.get_or_insert_with(|| BROKER.value(begin))))
}

fn begin() -> Target {
    match std::env::var("METAQ_TEST_ADDR") {
        Ok(address) => Target { address: address.parse().expect("METAQ_TEST_ADDR is HOST:PORT"), own: None },
        Err(_) => {
            let setup = Setup::with_ini(BINARY, &fixture());
            let broker = setup.start();
            Target { address: broker.address(), own: Some((setup, broker)) }
        }
    }
}

fn is_original() -> bool {
    std::env::var_os("METAQ_TEST_ORIGINAL").is_some()
}

/// Replays exchanges, each over a connection of its own.
fn check(exchanges: &[&str]) {
    let target = target();
    for exchange in exchanges {
        transcript::check(target.address, exchange);
    }
}

/// Topics whose partition 0 is closed.
fn close(wire: &mut Wire, topic: &str) {
    let frame = wire.ask(format!("partition close {topic} 0 1\r\n"));
    assert_eq!(frame.status(), Some(200), "{frame}");
}

/// A topic with three messages `hello` at 0, 25 and 50; their ids.
fn three(wire: &mut Wire, topic: &str) -> Vec<i64> {
    (0..3)
        .map(|number| {
            let stored = wire.ask(Put::to(topic, 0, b"hello").checked().opaque(number).bytes()).stored();
            assert_eq!(stored.position, i64::from(number) * 25);
            stored.id
        })
        .collect()
}
