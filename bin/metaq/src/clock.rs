//! The wall clock and chance: the one place where the process reads them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The clock for parts that are given one.
pub fn wall_clock() -> Arc<dyn Fn() -> u64 + Send + Sync> {
    Arc::new(now)
}

/// Numbers that nobody foresees, for choosing partitions; not for secrets.
pub fn random() -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let (seed, drawn) = (RandomState::new(), AtomicU64::new(0));
    Arc::new(move || {
        let mut hasher = seed.build_hasher();
        hasher.write_u64(drawn.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_differ_from_draw_to_draw_and_from_seed_to_seed() {
        let (one, other) = (random(), random());
        let drawn: Vec<u64> = (0..100).flat_map(|_| [one(), other()]).collect();
        let different: std::collections::HashSet<_> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }
}
