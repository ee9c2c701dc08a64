//! What one connection has sent and what isn't used yet.
//!
//! * Reads go into the one buffer of the thread. Only what is left of a request that hasn't arrived whole stays with the
//!   connection: an idle connection has no buffer.
//! * What of a request has come over [`SMALL_BYTES`](crate::bounds::SMALL_BYTES) is read into a buffer of its own. It grows
//!   as the bytes come, and each step is taken from the budgets first: to announce a body costs the broker nothing.

use crate::bounds::{Bounds, SMALL_BYTES};
use crate::budgets::Budgets;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

/// What one connection has sent and what isn't used yet.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The beginning of a request; behind it, if it was held back, more of them.
    pub held: Vec<u8>,
    /// So many bytes, from the beginning of `held`, make it worth another look.
    pub needed: usize,
    /// So many bytes that come next are thrown away.
    pub discard: usize,
    /// Of so many.
    discarded_of: usize,
    /// Taken from the budgets for `held`.
    charged: u64,
    /// When the request that hasn't arrived whole began to.
    pub began: Option<Instant>,
}

/// Where a read has put its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brought {
    /// The client sends no more.
    End,
    /// In the thread's buffer, those that were held before them.
    InScratch(usize),
    /// Behind those that were held.
    InHeld,
    /// Nowhere: the request is larger than what there is room for.
    NoRoom,
}

impl Input {
    /// Reads once.
    pub(crate) fn read(
        &mut self,
        stream: &mut TcpStream,
        scratch: &mut [u8],
        budgets: &Budgets,
        bounds: &Bounds,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Brought>> {
        if self.held.len() > SMALL_BYTES {
            return self.read_large(stream, budgets, bounds, context);
        }
        let held = self.held.len();
        let mut free = ReadBuf::new(&mut scratch[held..]);
        ready!(Pin::new(stream).poll_read(context, &mut free))?;
        let read = free.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(Brought::End));
        }
        scratch[..held].copy_from_slice(&self.held);
        self.held.clear();
        Poll::Ready(Ok(Brought::InScratch(held + read)))
    }

    fn read_large(
        &mut self,
        stream: &TcpStream,
        budgets: &Budgets,
        bounds: &Bounds,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Brought>> {
        ready!(stream.poll_read_ready(context))?;
        if self.held.len() == self.held.capacity() || (self.held.capacity() as u64) > self.charged {
            let capacity = self.needed.min((2 * self.held.len()).max(2 * SMALL_BYTES));
            let more = (capacity as u64).saturating_sub(self.charged);
            if more > 0 && !budgets.arrive(more, bounds.arriving_bytes_max, bounds.broker_bytes_max) {
                return Poll::Ready(Ok(Brought::NoRoom));
            }
            self.charged += more;
            self.held.reserve_exact(capacity.saturating_sub(self.held.len()));
        }
        match stream.try_read_buf(&mut self.held) {
            Ok(0) => Poll::Ready(Ok(Brought::End)),
            Ok(_) => Poll::Ready(Ok(Brought::InHeld)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                ready!(stream.poll_read_ready(context))?;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Has the rest of a body of `size` bytes thrown away, of which `here` are already.
    pub(crate) fn throw_away(&mut self, size: usize, here: usize) {
        (self.discard, self.discarded_of) = (size - here, size);
    }

    /// Throws away what is to be; gives how many of `bytes` that were.
    pub(crate) fn skip(&mut self, bytes: usize) -> usize {
        let skipped = bytes.min(self.discard);
        self.discard -= skipped;
        skipped
    }

    /// Keeps what wasn't used.
    pub(crate) fn keep(&mut self, unused: &[u8]) {
        self.held.clear();
        self.held.extend_from_slice(unused);
    }

    /// Takes what is held from the budgets, if it is large: it is in memory, so it isn't asked for.
    pub(crate) fn charge(&mut self, budgets: &Budgets) {
        if self.held.len() > SMALL_BYTES && self.charged == 0 {
            self.charged = self.held.capacity() as u64;
            budgets.hold(self.charged);
        }
    }

    /// Gives back what was taken for a request that has arrived. To be called before it is judged: it is counted anew.
    pub(crate) fn arrived(&mut self, budgets: &Budgets) {
        budgets.arrived(std::mem::take(&mut self.charged));
    }

    /// Drops what was used of `held`, which was taken out to be looked at, and keeps the rest.
    pub(crate) fn put_back(&mut self, mut held: Vec<u8>, used: usize) {
        if used == 0 {
            self.held = held;
        } else if held.capacity() > SMALL_BYTES {
            self.held = held[used..].to_vec();
        } else {
            held.drain(..used);
            self.held = held;
        }
    }

    /// Notes whether a request has begun to arrive, and whether one was used up.
    pub(crate) fn note(&mut self, used_some: bool, now: Instant) {
        let is_partial = !self.held.is_empty() || self.discard > 0;
        self.began = match self.began {
            _ if !is_partial => None,
            Some(began) if !used_some => Some(began),
            _ => Some(now),
        };
    }

    /// Whether the request at the beginning takes longer to arrive than it may.
    pub(crate) fn is_late(&self, now: Instant, max_of: impl FnOnce(usize) -> Duration) -> bool {
        let bytes = if self.discard > 0 { self.discarded_of } else { self.needed };
        self.began.is_some_and(|began| now.saturating_duration_since(began) > max_of(bytes))
    }

    /// Frees a buffer that isn't used.
    pub(crate) fn trim(&mut self) {
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_late_from_its_first_byte_on() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut input = Input::default();
        let late = |input: &Input, now| input.is_late(now, |_| Duration::from_secs(10));
        input.note(false, at(0));
        assert!(!late(&input, at(100)));
        input.keep(b"ver");
        input.note(true, at(100));
        input.keep(b"version");
        input.note(false, at(109));
        assert!(late(&input, at(111)), "more bytes of the same request don't make it younger");
        input.keep(b"v");
        input.note(true, at(111));
        assert!(!late(&input, at(120)), "the next request is another one");
        input.keep(b"");
        input.note(true, at(120));
        assert!(!late(&input, at(1000)));
    }

    #[test]
    fn what_is_thrown_away_is_counted_down() {
        let mut input = Input { discard: 10, ..Input::default() };
        assert_eq!((input.skip(7), input.skip(7), input.skip(7)), (7, 3, 0));
    }

    #[test]
    fn a_large_buffer_is_not_kept_for_a_small_rest() {
        let mut input = Input::default();
        let mut large = Vec::with_capacity(1 << 20);
        large.extend_from_slice(b"used rest");
        input.put_back(large, 5);
        assert_eq!(input.held, b"rest");
        assert!(input.held.capacity() <= SMALL_BYTES);
        input.keep(b"");
        input.trim();
        assert_eq!(input.held.capacity(), 0);
    }
}
