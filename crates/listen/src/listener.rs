//! A bound socket that accepts, whatever happens.

use crate::identity::Identity;
use crate::options::Options;
use crate::places::{Place, Places};
use crate::seldom::Seldom;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long accepting rests after an error that the next call would meet again.
const REST: Duration = Duration::from_millis(50);
/// A log line about the same trouble comes at most so often.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Why an address can't be listened on. Whoever wrote the configuration erred, or another process was faster.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address.
    #[error("can't listen on {address}: {source}{}", hint(source))]
    Address {
        /// Which address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The congestion control.
    #[error(
        "the system has no TCP congestion control {name:?} for us ({source}); \
         /proc/sys/net/ipv4/tcp_available_congestion_control lists what it has"
    )]
    Congestion {
        /// As configured.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; stop what uses the port, or choose another one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege, choose a higher one",
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has that address",
        _ => "",
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket; calls on it don't block.
    pub stream: TcpStream,
    /// Who is there.
    pub identity: Identity,
    /// To be kept as long as the connection.
    pub place: Place,
}

/// A bound socket. Dropping it stops accepting.
#[derive(Debug)]
pub struct Listener {
    socket: tokio::net::TcpListener,
    address: SocketAddr,
    options: Options,
    places: Arc<Places>,
    full: Seldom,
    failing: Seldom,
}

impl Listener {
    /// Binds `address` (port 0 lets the system choose). Called inside the runtime that will accept.
    pub fn bind(address: SocketAddr, options: Options) -> Result<Self, BindError> {
        let places = Places::new(options.connections_max);
        Self::bind_with(address, options, places)
    }

    /// As [`Listener::bind`], with places that others take too.
    pub fn bind_with(address: SocketAddr, options: Options, places: Arc<Places>) -> Result<Self, BindError> {
        let refused = |source| BindError::Address { address, source };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(refused)?;
        if let Some(name) = &options.congestion {
            set_congestion(&SockRef::from(&socket), name)
                .map_err(|source| BindError::Congestion { name: name.clone(), source })?;
        }
        let socket = bound(socket, address, &options).map_err(refused)?;
        let address = socket.local_addr().map_err(refused)?;
        let socket = tokio::net::TcpListener::from_std(socket).map_err(refused)?;
        let (full, failing) = (Seldom::new(TOLD_EVERY), Seldom::new(TOLD_EVERY));
        Ok(Self { socket, address, options, places, full, failing })
    }

    /// Where it listens: with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The places of its connections.
    pub fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// The next connection. Never fails: what comes while all places are taken is closed, and what the system can't
    /// give (no descriptors, no memory) is asked for again a little later, while the kernel keeps who waits.
    pub async fn accept(&self) -> Accepted {
        loop {
            match self.socket.accept().await {
                Ok((stream, address)) => {
                    if let Some(accepted) = self.admit(stream, address) {
                        return accepted;
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if let Some(times) = self.failing.happened(Instant::now()) {
                        let open = self.places.taken();
                        tracing::error!(address = %self.address, %error, times, open, "accepting fails; it is tried again");
                    }
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    fn admit(&self, stream: tokio::net::TcpStream, address: SocketAddr) -> Option<Accepted> {
        let Some(place) = self.places.take() else {
            if let Some(times) = self.full.happened(Instant::now()) {
                let max = self.places.max();
                tracing::warn!(%address, max, times, "all places for connections are taken; a connection was closed");
            }
            return None;
        };
        // It is registered with this runtime here; who serves it may live on another.
        match stream.into_std().and_then(|stream| set(&stream, &self.options).map(|()| stream)) {
            Ok(stream) => Some(Accepted { stream, identity: Identity { address }, place }),
            // It is gone already.
            Err(error) => {
                tracing::debug!(%address, %error, "a connection can't be set up");
                None
            }
        }
    }
}

fn bound(socket: Socket, address: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    socket.set_reuse_address(true)?;
    if options.shares_port {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::from(options.backlog))?;
    Ok(socket.into())
}

fn set(stream: &TcpStream, options: &Options) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    if let Some(time) = options.keepalive {
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time))?;
    }
    match &options.congestion {
        Some(name) => set_congestion(&socket, name),
        None => Ok(()),
    }
}

fn set_congestion(socket: &SockRef<'_>, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes())
}

/// Whether an error tells of one connection that failed before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NetworkDown, NetworkUnreachable};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | NetworkDown | NetworkUnreachable)
}
