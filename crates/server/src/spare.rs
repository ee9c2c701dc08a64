//! Emptied buffers, kept for whoever needs one next.

use std::cell::RefCell;

/// A buffer of more than this is freed, so that idle connections and their thread keep little.
const KEPT_BYTES: usize = 64 << 10;
/// How many are kept.
const KEPT: usize = 64;

/// The spare buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Spare(RefCell<Vec<Vec<u8>>>);

impl Spare {
    /// An empty buffer.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.borrow_mut();
        if buffer.capacity() > 0 && buffer.capacity() <= KEPT_BYTES && kept.len() < KEPT {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_a_large_one_does_not() {
        let spare = Spare::default();
        let mut buffer = spare.take();
        buffer.extend_from_slice(&[1; 100]);
        let capacity = buffer.capacity();
        spare.give(buffer);
        let again = spare.take();
        assert_eq!((again.len(), again.capacity()), (0, capacity));
        spare.give(Vec::with_capacity(KEPT_BYTES + 1));
        assert_eq!(spare.take().capacity(), 0);
    }
}
