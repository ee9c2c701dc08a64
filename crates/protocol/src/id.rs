//! Message ids: a clock, a broker and a counter in 64 bits.
//!
//! ```text
//! bit 63 ..................... 22 | 21 ..... 12 | 11 ..... 0
//!     signed ms since EPOCH_MS    |   broker    |  sequence
//! ```
//! The clock comes from the caller. Ids of original brokers are negative (their clock is the machine's uptime) and decode just as well.

use thiserror::Error;

/// Zero of the id's clock, in milliseconds since 1970: 2011-04-27 09:14:20.503 UTC.
pub const EPOCH_MS: i64 = 1_303_895_660_503;
/// Largest broker id.
pub const BROKER_MAX: u16 = 1023;
/// Largest sequence inside one millisecond.
pub const SEQUENCE_MAX: u16 = 4095;

const BROKER_SHIFT: u32 = 12;
const CLOCK_SHIFT: u32 = 22;

/// Number of a broker (of a broker group, when replicated): 0..=1023.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(u16);

/// A broker id outside 0..=1023, by whoever configured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("broker id {0} is outside 0..={BROKER_MAX}: choose one that no other broker of the cluster has")]
pub struct BrokerIdRefused(pub i64);

impl BrokerId {
    /// The id, if it is in range.
    pub fn new(number: i64) -> Result<Self, BrokerIdRefused> {
        match u16::try_from(number) {
            Ok(id) if id <= BROKER_MAX => Ok(BrokerId(id)),
            _ => Err(BrokerIdRefused(number)),
        }
    }

    /// The number, 0..=1023.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for BrokerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What an id is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdParts {
    /// Milliseconds since 1970.
    pub clock_ms: i64,
    /// The broker that gave the id.
    pub broker: BrokerId,
    /// Running number inside the millisecond, 0..=4095.
    pub sequence: u16,
}

/// Parts that don't fit an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IdRefused {
    /// The clock doesn't fit 42 signed bits.
    #[error("clock {0} ms doesn't fit a message id")]
    Clock(i64),
    /// The sequence doesn't fit 12 bits.
    #[error("sequence {0} is over {SEQUENCE_MAX}")]
    Sequence(u16),
}

impl IdParts {
    /// Splits any 64-bit number: every one is an id.
    pub fn of(id: i64) -> Self {
        let broker = (id >> BROKER_SHIFT) & i64::from(BROKER_MAX);
        let sequence = id & i64::from(SEQUENCE_MAX);
        IdParts {
            clock_ms: (id >> CLOCK_SHIFT) + EPOCH_MS,
            broker: BrokerId(u16::try_from(broker).expect("masked to 10 bits")),
            sequence: u16::try_from(sequence).expect("masked to 12 bits"),
        }
    }

    /// The id of these parts.
    pub fn id(self) -> Result<i64, IdRefused> {
        if self.sequence > SEQUENCE_MAX {
            return Err(IdRefused::Sequence(self.sequence));
        }
        let clock = self.clock_ms.checked_sub(EPOCH_MS).ok_or(IdRefused::Clock(self.clock_ms))?;
        let shifted = clock << CLOCK_SHIFT;
        if shifted >> CLOCK_SHIFT != clock {
            return Err(IdRefused::Clock(self.clock_ms));
        }
        Ok(shifted | i64::from(self.broker.0) << BROKER_SHIFT | i64::from(self.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let broker = BrokerId::new(1023).unwrap();
        let parts = IdParts { clock_ms: EPOCH_MS, broker, sequence: SEQUENCE_MAX };
        assert_eq!(parts.id(), Ok(i64::from(1023 << 12 | 4095)));
        assert_eq!(IdParts { sequence: 4096, ..parts }.id(), Err(IdRefused::Sequence(4096)));
        for clock_ms in [i64::MIN, i64::MAX, EPOCH_MS + (1 << 41), EPOCH_MS - (1 << 41) - 1] {
            assert_eq!(IdParts { clock_ms, ..parts }.id(), Err(IdRefused::Clock(clock_ms)));
        }
        assert!(BrokerId::new(1024).is_err() && BrokerId::new(-1).is_err());
    }

    proptest! {
        #[test]
        fn every_id_is_its_parts(id: i64) {
            prop_assert_eq!(IdParts::of(id).id(), Ok(id));
        }
    }
}
