//! A process that has used up its descriptors; alone in its process, for it takes them from everybody.

use metaq_listen::{Listener, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

#[tokio::test(flavor = "current_thread")]
async fn without_descriptors_nobody_is_lost() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), Options::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr()).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) }).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        hoard.push(file);
    }
    let waiting = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(waiting.is_err(), "there is no descriptor for the connection");
    hoard.clear();
    let served = tokio::time::timeout(Duration::from_secs(10), listener.accept()).await.expect("accepted in time");
    assert_eq!(served.identity.address, client.local_addr().unwrap());
}
