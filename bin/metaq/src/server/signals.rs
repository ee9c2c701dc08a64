//! What the process is asked by signals.

use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To stop; by the signal of this name.
    Stop(&'static str),
    /// To read the configuration again.
    Reload,
}

/// The signals that are listened to.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to listen; inside a runtime.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::failed(format!("signals can't be had: {error}")));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    /// The next one that asks to stop.
    pub async fn stop(&mut self) -> &'static str {
        loop {
            if let Asked::Stop(signal) = self.next().await {
                return signal;
            }
        }
    }
}
