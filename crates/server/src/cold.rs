//! Reads bytes that aren't in the page cache, away from the network threads and not too many at a time.

use metaq_disk::{File, read_exact_at};
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A read that goes on elsewhere.
pub(crate) type Reading = JoinHandle<io::Result<Vec<u8>>>;

/// The pool for cold reads.
#[derive(Debug)]
pub(crate) struct ColdReads {
    runtime: Handle,
    places: Arc<Semaphore>,
}

impl ColdReads {
    /// At most `max` reads at a time, on the blocking threads of `runtime`.
    pub(crate) fn new(runtime: Handle, max: usize) -> Self {
        Self { runtime, places: Arc::new(Semaphore::new(max)) }
    }

    /// Reads `len` bytes at `offset`.
    pub(crate) fn read(&self, file: Arc<dyn File>, offset: u64, len: usize) -> Reading {
        let places = Arc::clone(&self.places);
        self.runtime.spawn(async move {
            let _place = places.acquire_owned().await.map_err(io::Error::other)?;
            let read = move || {
                let mut bytes = vec![0; len];
                read_exact_at(&*file, &mut bytes, offset).map(|()| bytes)
            };
            tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
        })
    }
}
