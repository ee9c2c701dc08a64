//! What one connection has still to send: bytes, and slices of files that go from the page cache to the socket.
//!
//! * Answers leave in the order in which they were put here, each contiguous.
//! * Bytes that the page cache hasn't are never waited for by the network thread: a pool reads them.

use crate::bounds::{COPY_BYTES, LARGE_BYTES, PIECES, SEND_BYTES, SLICE_BYTES};
use crate::cold::{ColdReads, Reading};
use crate::counters::Counters;
use crate::spare::Spare;
use metaq_disk::{File, read_exact_at};
use metaq_log::Slice;
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What one connection has still to send.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pieces: VecDeque<Piece>,
    /// When something was last sent, or put into an empty output.
    moved: Option<Instant>,
}

#[derive(Debug)]
enum Piece {
    Bytes { buffer: Vec<u8>, sent: usize },
    Slice(Sending),
}

/// A slice on its way.
#[derive(Debug)]
struct Sending {
    file: Arc<dyn File>,
    /// In the file.
    offset: u64,
    left: usize,
    /// The whole slice has at least [`LARGE_BYTES`].
    is_large: bool,
    /// Up to here the page cache has the bytes.
    warm_until: u64,
    /// The pool reads the next bytes.
    reading: Option<Reading>,
    since: Instant,
}

/// How far sending got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything.
    All,
    /// Until the socket took no more.
    Blocked,
    /// Up to bytes that are being read.
    Reading,
    /// As much as one turn may.
    Enough,
}

/// What sending needs of its thread.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub cold: &'a ColdReads,
    pub counters: &'a Counters,
    pub spare: &'a Spare,
    pub now: Instant,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Where answers are appended.
    pub(crate) fn tail(&mut self, spare: &Spare, now: Instant) -> &mut Vec<u8> {
        if self.pieces.is_empty() {
            self.moved = Some(now);
        }
        if !matches!(self.pieces.back(), Some(Piece::Bytes { .. })) {
            self.pieces.push_back(Piece::Bytes { buffer: spare.take(), sent: 0 });
        }
        match self.pieces.back_mut() {
            Some(Piece::Bytes { buffer, .. }) => buffer,
            _ => unreachable!("the last piece was made one of bytes"),
        }
    }

    /// Appends the bytes of a slice behind its head, which is the end of [`Output::tail`].
    pub(crate) fn slice(&mut self, slice: Slice, means: Means<'_>) -> io::Result<()> {
        let Slice { file, offset, len, .. } = slice;
        if len < COPY_BYTES && file.is_cached(offset..offset + len as u64) {
            let tail = self.tail(means.spare, means.now);
            let head = tail.len();
            tail.resize(head + len, 0);
            read_exact_at(&*file, &mut tail[head..], offset).inspect_err(|_| tail.truncate(head))?;
            means.counters.copied_small_bytes.fetch_add(len as u64, Relaxed);
            return Ok(());
        }
        let is_large = len >= LARGE_BYTES;
        let sending =
            Sending { file, offset, left: len, is_large, warm_until: offset, reading: None, since: means.now };
        self.pieces.push_back(Piece::Slice(sending));
        Ok(())
    }

    /// Whether more than `bytes` wait to be sent, or too many answers.
    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        self.pieces.len() >= PIECES || self.pieces.iter().map(Piece::left).sum::<usize>() > bytes
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.pieces.iter().map(Piece::memory).sum()
    }

    /// Whether nothing moved, or a slice was held, for longer than `max`.
    pub(crate) fn is_stuck(&self, now: Instant, max: Duration) -> bool {
        let over = |since: Instant| now.saturating_duration_since(since) > max;
        let held = match self.pieces.front() {
            None => return false,
            Some(Piece::Slice(sending)) => over(sending.since),
            Some(Piece::Bytes { .. }) => false,
        };
        held || self.moved.is_some_and(over)
    }

    /// Sends what can be sent at once. Without a context, a read in the pool isn't waited for.
    pub(crate) fn send(
        &mut self,
        stream: &TcpStream,
        means: Means<'_>,
        mut context: Option<&mut Context<'_>>,
    ) -> io::Result<Sent> {
        let mut allowed = SEND_BYTES;
        loop {
            let has_more = self.pieces.len() > 1;
            let Some(piece) = self.pieces.front_mut() else { return Ok(Sent::All) };
            if allowed == 0 {
                return Ok(Sent::Enough);
            }
            let step = match piece {
                Piece::Bytes { buffer, sent } => send_bytes(stream, &buffer[*sent..], has_more),
                Piece::Slice(sending) => sending.step(stream, means, context.as_deref_mut()),
            };
            match step? {
                Step::Sent(bytes) => {
                    means.counters.sends.fetch_add(1, Relaxed);
                    self.moved = Some(means.now);
                    allowed = allowed.saturating_sub(bytes);
                    self.advance(bytes, means.spare);
                }
                Step::Read(buffer) => self.insert(buffer, means.counters),
                Step::Blocked => return Ok(Sent::Blocked),
                Step::Reading => return Ok(Sent::Reading),
            }
        }
    }

    /// Notes that the first piece got so many bytes further.
    fn advance(&mut self, bytes: usize, spare: &Spare) {
        let Some(piece) = self.pieces.front_mut() else { return };
        match piece {
            Piece::Bytes { sent, .. } => *sent += bytes,
            Piece::Slice(sending) => sending.advance(bytes),
        }
        if piece.left() == 0
            && let Some(Piece::Bytes { buffer, .. }) = self.pieces.pop_front()
        {
            spare.give(buffer);
        }
    }

    /// Puts bytes that the pool has read before the rest of their slice.
    fn insert(&mut self, buffer: Vec<u8>, counters: &Counters) {
        let Some(Piece::Slice(sending)) = self.pieces.front_mut() else { return };
        let counter = if sending.is_large { &counters.copied_large_bytes } else { &counters.copied_small_bytes };
        counter.fetch_add(buffer.len() as u64, Relaxed);
        sending.advance(buffer.len());
        if sending.left == 0 {
            self.pieces.pop_front();
        }
        self.pieces.push_front(Piece::Bytes { buffer, sent: 0 });
    }
}

impl Piece {
    fn left(&self) -> usize {
        match self {
            Piece::Bytes { buffer, sent } => buffer.len() - sent,
            Piece::Slice(sending) => sending.left,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Piece::Bytes { buffer, .. } => buffer.capacity(),
            Piece::Slice(_) => 0,
        }
    }
}

enum Step {
    Sent(usize),
    Read(Vec<u8>),
    Blocked,
    Reading,
}

fn send_bytes(stream: &TcpStream, bytes: &[u8], has_more: bool) -> io::Result<Step> {
    let flags = if has_more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    step_of(stream.try_io(Interest::WRITABLE, || Ok(send(stream, bytes, flags)?)))
}

fn step_of(result: io::Result<usize>) -> io::Result<Step> {
    match result {
        Ok(bytes) => Ok(Step::Sent(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Step::Sent(0)),
        Err(error) => Err(error),
    }
}

impl Sending {
    fn advance(&mut self, bytes: usize) {
        self.offset += bytes as u64;
        self.left -= bytes;
    }

    fn step(&mut self, stream: &TcpStream, means: Means<'_>, context: Option<&mut Context<'_>>) -> io::Result<Step> {
        if self.reading.is_some() {
            return self.poll_reading(context);
        }
        let end = self.offset + self.left.min(SLICE_BYTES) as u64;
        if self.offset >= self.warm_until {
            if self.file.descriptor().is_none() || !self.file.is_cached(self.offset..end) {
                return self.read(means, context);
            }
            self.warm_until = end;
        }
        let Some(descriptor) = self.file.descriptor() else { return self.read(means, context) };
        let count = usize::try_from(self.warm_until - self.offset).unwrap_or(SLICE_BYTES);
        let mut offset = self.offset;
        let result = stream.try_io(Interest::WRITABLE, || Ok(sendfile(stream, descriptor, Some(&mut offset), count)?));
        match result {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a segment ends before what it should hold")),
            // A file system without sendfile.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOSYS)) => {
                self.read(means, context)
            }
            result => {
                if let Ok(bytes) = result {
                    means.counters.sendfile_bytes.fetch_add(bytes as u64, Relaxed);
                }
                step_of(result)
            }
        }
    }

    fn read(&mut self, means: Means<'_>, context: Option<&mut Context<'_>>) -> io::Result<Step> {
        means.counters.cold_reads.fetch_add(1, Relaxed);
        self.reading = Some(means.cold.read(Arc::clone(&self.file), self.offset, self.left.min(SLICE_BYTES)));
        self.poll_reading(context)
    }

    fn poll_reading(&mut self, context: Option<&mut Context<'_>>) -> io::Result<Step> {
        let (Some(context), Some(reading)) = (context, self.reading.as_mut()) else { return Ok(Step::Reading) };
        match Pin::new(reading).poll(context) {
            Poll::Pending => Ok(Step::Reading),
            Poll::Ready(result) => {
                self.reading = None;
                result.unwrap_or_else(|ended| Err(io::Error::other(ended))).map(Step::Read)
            }
        }
    }
}
