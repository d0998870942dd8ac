//! The delays between heals. Pure.

use std::time::{Duration, Instant};

/// The delays between heals.
pub(super) struct Backoff {
    /// Heals since the node was last sound.
    heals: u32,
    not_before: Option<Instant>,
    random: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self { heals: 0, not_before: None, random: seed | 1 }
    }

    /// There has been no heal since the node was last sound.
    pub(super) fn is_fresh(&self) -> bool {
        self.heals == 0
    }

    /// Counts a heal. The next one comes not before `first`, doubled for each heal before this one, but at
    /// most `longest`; give or take a quarter, so that a fleet does not come at once.
    pub(super) fn count(&mut self, now: Instant, first: Duration, longest: Duration) {
        let delay = first.saturating_mul(1 << self.heals.min(16)).min(longest);
        self.heals += 1;
        self.not_before = Some(now + delay.mul_f64(0.75 + 0.5 * self.fraction()));
    }

    pub(super) fn at_least(&mut self, now: Instant, delay: Duration) {
        self.not_before = self.not_before.max(Some(now + delay));
    }

    pub(super) fn left(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }

    pub(super) fn forget(&mut self) {
        self.heals = 0;
        self.not_before = None;
    }

    /// A number from 0 to 1 (xorshift64*: good enough to spread a fleet).
    fn fraction(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let number = (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32;
        f64::from(number) / f64::from(u32::MAX)
    }
}
