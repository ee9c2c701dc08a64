//! Random numbers from a seed that a test prints, so that a run can be had again.

/// A small generator (xorshift64*): good enough for tests, the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0; the first numbers of small seeds are alike without this mixing.
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.number();
        random
    }

    /// The seed in the variable `METAQ_SEED`, or one that differs from process to process; it is printed either way.
    pub fn seeded(test: &str) -> Self {
        let seed = match std::env::var("METAQ_SEED") {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("METAQ_SEED must be a number, not {text:?}")),
            Err(_) => u64::from(std::process::id()),
        };
        println!("{test}: METAQ_SEED={seed}");
        Random::new(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// An index below `bound`.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("below an index")
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// So many random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.below(10), random.number()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_eq!(Random::new(0).bytes(13).len(), 13);
    }
}
