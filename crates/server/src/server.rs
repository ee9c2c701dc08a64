//! Starting and stopping the text front end.

use crate::bounds::Options;
use crate::counters::Counters;
use crate::mailbox::Mailbox;
use crate::network::NetworkThread;
use crate::shared::{Shared, Stage};
use metaq_broker::Broker;
use metaq_listen::Listener;
use metaq_log::Outlet;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, LocalSet};

/// The text front end, serving. Dropping it stops it at once.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    acceptors: Vec<AbortHandle>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    ended: Arc<Ended>,
}

/// How many threads have ended.
#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    changed: Condvar,
}

/// How a stop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything that was read was answered.
    Answered,
    /// So many connections were closed although they were owed something.
    Cut(usize),
}

impl Server {
    /// Serves the connections of `listeners`. Accepting, cold reads and administration run on `runtime`, which must have
    /// blocking threads; connections on threads of their own.
    pub fn start(broker: Arc<Broker>, listeners: Vec<Listener>, runtime: Handle, options: Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(broker, runtime.clone(), options));
        let addresses: Vec<_> = listeners.iter().map(Listener::local_addr).collect();
        let ended = Arc::new(Ended::default());
        let mut server =
            Self { shared: Arc::clone(&shared), addresses, acceptors: Vec::new(), threads: Mutex::default(), ended };
        for index in 0..shared.mailboxes.len() {
            let thread = server.thread(index)?;
            server.threads.lock().push(thread);
        }
        shared.gauges.threads.store(shared.mailboxes.len() as u64, Relaxed);
        if let Some(address) = server.addresses.first() {
            shared.gauges.port.store(address.port().into(), Relaxed);
        }
        for listener in listeners {
            let acceptor = runtime.spawn(accept(listener, Arc::clone(&shared)));
            server.acceptors.push(acceptor.abort_handle());
        }
        Ok(server)
    }

    fn thread(&self, index: usize) -> io::Result<JoinHandle<()>> {
        let (shared, ended) = (Arc::clone(&self.shared), Arc::clone(&self.ended));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mailbox = Arc::clone(&shared.mailboxes[index]);
        let outlet = shared.broker.log().register(Arc::clone(&mailbox) as Arc<dyn Outlet>);
        std::thread::Builder::new().name(format!("metaq-net-{index}")).spawn(move || {
            let _ended = EndsWith { ended, mailbox: Arc::clone(&mailbox) };
            let tasks = LocalSet::new();
            runtime.block_on(tasks.run_until(async move {
                Rc::new(NetworkThread::new(shared, mailbox, outlet)).serve().await;
            }));
        })
    }

    /// Where it listens, in the order of the listeners.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where its first listener listens.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// What it counts.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Accepts and reads nothing more, answers what was read, closes all connections; what isn't done after `limit` is
    /// closed as it is. Blocks. A second call, from another thread, ends the first one at once.
    pub fn stop(&self, limit: Duration) -> Stopped {
        self.acceptors.iter().for_each(AbortHandle::abort);
        if self.shared.go_on_to(Stage::Stopping) != Stage::Serving {
            self.shared.go_on_to(Stage::Aborted);
        }
        let threads = self.shared.mailboxes.len();
        let until = Instant::now() + limit;
        let mut count = self.ended.count.lock();
        while *count < threads && !self.ended.changed.wait_until(&mut count, until).timed_out() {}
        drop(count);
        self.shared.go_on_to(Stage::Aborted);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A panic was told when it happened.
            drop(thread.join());
        }
        match self.shared.cut.load(Relaxed) {
            0 => Stopped::Answered,
            cut => Stopped::Cut(cut),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Counts a thread as ended. If it panicked, its connections are lost, and it is given no more.
struct EndsWith {
    ended: Arc<Ended>,
    mailbox: Arc<Mailbox>,
}

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.mailbox.close();
        *self.ended.count.lock() += 1;
        self.ended.changed.notify_all();
        if std::thread::panicking() {
            tracing::error!("a network thread ended with a panic; its connections are closed, the others go on");
        }
    }
}

/// Hands each connection to the thread that has the fewest.
async fn accept(listener: Listener, shared: Arc<Shared>) {
    loop {
        let accepted = listener.accept().await;
        let Some(mailbox) = shared.idlest() else { continue };
        mailbox.connections.fetch_add(1, Relaxed);
        mailbox.bring(accepted);
    }
}
