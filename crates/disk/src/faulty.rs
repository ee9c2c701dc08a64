//! A disk in memory that loses power, fills up, tears writes and fails to sync, all decided by seeds.
//!
//! What is not synced is kept apart from what is: per sector of 512 bytes every version since the last sync, per file
//! every length, per folder the changes of names in their order. [`FaultyDisk::crash_image`] picks from these what a
//! power cut leaves. A change that the operating system would bring to the device anyway (a file's name with its sync,
//! say) is not: nothing is durable here but what the contract of [`Disk`](crate::Disk) says.

mod changes;
mod content;
mod fault;
mod files;
mod image;
mod inode;
mod operation;
mod random;
mod state;
mod tree;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::io::Errno;

pub use fault::Fault;
pub use operation::{Asked, Operation};

use random::Random;
use state::State;

/// What of the unsynced a [`FaultyDisk::crash_image`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashChoice {
    /// Nothing: the device kept what was synced and lost the rest.
    Nothing,
    /// Everything: only the processes were killed. What was unsynced still is, so the power may take it later.
    Everything,
    /// Anything that a power cut may leave, picked by the seed, which moves on with every image.
    Random(u64),
}

/// A simulated disk; clones are the same disk.
///
/// Its root folder exists; relative paths begin there. It holds no more than 1 TiB unless
/// [`set_capacity`](Self::set_capacity) says so, and its clock stands still unless [`set_time`](Self::set_time) moves it.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

impl FaultyDisk {
    /// An empty disk; the seed decides how short short reads and writes are.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(State::new(seed))
    }

    fn with(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// How many operations were begun that change or sync something. Failed ones count, reads don't.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The last `count` operations (of at most 4096 that are kept), oldest first.
    #[must_use]
    pub fn history(&self, count: usize) -> Vec<Operation> {
        self.state.lock().history(count)
    }

    /// The power goes while operation `last + 1` is carried out: it and everything later, reads too, fails with
    /// "power is off". What that operation wrote or named is left like everything else that isn't synced.
    pub fn cut_power_after(&self, last: u64) {
        let mut state = self.state.lock();
        state.cut_after = Some(last);
        state.has_power &= state.operations <= last;
    }

    /// Whether the power is on.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.state.lock().has_power
    }

    /// A disk with what may be left if all stopped now: power on, nothing open, nothing locked, no faults, no operations
    /// counted. This disk stays as it is.
    #[must_use]
    pub fn crash_image(&self, choice: &mut CrashChoice) -> Self {
        let state = self.state.lock();
        let tree = match choice {
            CrashChoice::Nothing => state.tree.synced(),
            CrashChoice::Everything => state.tree.after_kill(),
            CrashChoice::Random(seed) => {
                let mut random = Random(*seed);
                let tree = state.tree.after_power_cut(&mut random);
                *seed = random.next();
                tree
            }
        };
        Self::with(state.restarted(tree))
    }

    /// Lets operations fail. Of those that can suffer `fault` and whose path (that they were asked for or their file was
    /// opened by) contains `path_part`, counted from 0 and from now, the ones in `occurrences` do.
    pub fn inject(&self, path_part: &str, fault: Fault, occurrences: Range<u64>) {
        self.state.lock().faults.inject(path_part, fault, occurrences);
    }

    /// Forgets all that was injected.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// How many operations suffered an injected fault.
    #[must_use]
    pub fn faults_fired(&self) -> u64 {
        self.state.lock().faults.fired
    }

    /// Flips a bit (0 is the lowest) of a byte, for readers and on the device. `InvalidInput` behind the end.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u8) -> io::Result<()> {
        assert!(bit < 8, "a byte has no bit {bit}");
        let mut state = self.state.lock();
        let id = state.tree.existing(path)?;
        match state.tree.change(id, |inode| inode.flip_bit(byte, 1 << bit))? {
            true => Ok(()),
            false => Err(Errno::INVAL.into()),
        }
    }

    /// Takes a name away, for readers and on the device, as a damaged folder does. Its folder's other names are as
    /// after a sync.
    pub fn lose_name(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let place = state.tree.place(path)?.ok_or(Errno::BUSY)?;
        place.node.ok_or(Errno::NOENT)?;
        state.tree.lose_name(&place);
        Ok(())
    }

    /// Sets the size of the disk in bytes. It may be less than what is in use: then nothing is free.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Sets the clock that changes of content and names are dated by.
    pub fn set_time(&self, now: SystemTime) {
        self.state.lock().now = now;
    }

    /// Says whether [`File::is_cached`](crate::File::is_cached) is to answer no for everything.
    pub fn set_cold(&self, is_cold: bool) {
        self.state.lock().is_cold = is_cold;
    }
}
