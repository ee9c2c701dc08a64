//! Numbers from a seed (splitmix64): the only randomness of the simulator.

use std::ops::Range;

/// A stream of numbers that its seed decides.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A stream of its own, so that what is drawn there doesn't move this one further.
    pub fn split(&mut self) -> Self {
        Self(self.next_number())
    }

    /// A number in a range that isn't empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next_number() % (range.end - range.start)
    }

    /// An index below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.within(0..count as u64)).expect("below a usize")
    }

    /// True `times` in `of` times.
    pub fn chance(&mut self, times: u64, of: u64) -> bool {
        self.within(0..of) < times
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next_number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_stream_every_time() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        assert_eq!(one.bytes(100), other.bytes(100));
        assert_ne!(one.next_number(), Random::new(8).next_number());
    }

    #[test]
    fn every_value_of_a_range_comes() {
        let mut random = Random::new(1);
        let mut seen = [false; 5];
        (0..100).for_each(|_| seen[random.below(5)] = true);
        assert_eq!(seen, [true; 5]);
    }
}
