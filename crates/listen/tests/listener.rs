//! Listeners on real sockets of the loopback interface.
#![expect(clippy::unwrap_used, reason = "functions that are run by tests panic as tests do")]

use metaq_listen::{Accepted, BindError, Listener, Options};
use socket2::SockRef;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LIMIT: Duration = Duration::from_secs(10);

fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

async fn accepted(listener: &Listener) -> Accepted {
    tokio::time::timeout(LIMIT, listener.accept()).await.expect("a connection comes in time")
}

fn connect(listener: &Listener) -> TcpStream {
    let stream = TcpStream::connect(listener.local_addr()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

#[test]
fn an_accepted_socket_is_set_as_asked() {
    run(async {
        let options = Options {
            congestion: Some("reno".to_owned()),
            keepalive: Some(Duration::from_secs(77)),
            ..Options::default()
        };
        let listener = Listener::bind(ANY, options).unwrap();
        let client = connect(&listener);
        let Accepted { stream, identity, .. } = accepted(&listener).await;
        assert_eq!(identity.address, client.local_addr().unwrap());
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.nonblocking().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(77));
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
    });
}

#[test]
fn a_connection_too_many_is_closed_and_the_next_finds_its_place() {
    run(async {
        let listener = Listener::bind(ANY, Options { connections_max: 1, ..Options::default() }).unwrap();
        let _first = connect(&listener);
        let first = accepted(&listener).await;
        let mut second = connect(&listener);
        let waiting = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
        assert!(waiting.is_err(), "nobody else is let in");
        assert_eq!(second.read(&mut [0]).unwrap(), 0, "the second was closed");
        assert_eq!((listener.places().taken(), listener.places().refused()), (1, 1));
        drop(first);
        let _third = connect(&listener);
        accepted(&listener).await;
    });
}

#[test]
fn two_listeners_share_a_port_only_if_both_say_so() {
    run(async {
        let shares = Options { shares_port: true, ..Options::default() };
        let one = Listener::bind(ANY, shares.clone()).unwrap();
        let two = Listener::bind(one.local_addr(), shares).unwrap();
        assert_eq!(one.local_addr(), two.local_addr());
        let refused = Listener::bind(one.local_addr(), Options::default()).unwrap_err();
        assert!(matches!(refused, BindError::Address { .. }));
        assert!(refused.to_string().ends_with("stop what uses the port, or choose another one"), "{refused}");
    });
}

#[test]
fn an_unknown_congestion_control_is_refused_at_once() {
    run(async {
        let options = Options { congestion: Some("pigeon".to_owned()), ..Options::default() };
        let refused = Listener::bind(ANY, options).unwrap_err();
        assert!(refused.to_string().contains("\"pigeon\""), "{refused}");
    });
}

#[test]
fn a_dropped_listener_accepts_nobody() {
    run(async {
        let listener = Listener::bind(ANY, Options::default()).unwrap();
        let address = listener.local_addr();
        drop(listener);
        assert!(TcpStream::connect(address).is_err());
    });
}
