//! The delays between heals. Pure.

use std::time::{Duration, Instant};

/// The first delay after a failed heal. After one that took it is a quarter of it: a node that loses its
/// registration again is repaired soon, and ever more slowly if that goes on.
const FIRST: Duration = Duration::from_secs(15);

/// The longest delay.
pub(super) const MAX: Duration = Duration::from_mins(15);

/// The shortest delay after a failed heal, however much somebody wants the next one: signals come in bursts.
const PAUSE: Duration = Duration::from_secs(5);

/// The delays between heals.
pub(super) struct Backoff {
    /// Heals since the node was last sound.
    heals: u32,
    /// When the last of them ended.
    last: Option<Instant>,
    /// The last of them failed.
    failing: bool,
    not_before: Option<Instant>,
    /// The next heal need not wait for that if somebody wants it now.
    may_hurry: bool,
    random: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self { heals: 0, last: None, failing: false, not_before: None, may_hurry: false, random: seed | 1 }
    }

    /// The last heal failed, and the node has not been sound since.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    /// Counts a heal that took.
    pub(super) fn succeeded(&mut self, now: Instant) {
        self.failing = false;
        self.may_hurry = false;
        self.count(now, FIRST / 4, MAX);
    }

    /// Counts a heal that failed; the next one comes after at most `longest`, but not before `at_least`.
    pub(super) fn failed(&mut self, now: Instant, longest: Duration, at_least: Duration, may_hurry: bool) {
        self.failing = true;
        self.may_hurry = may_hurry;
        self.count(now, FIRST, longest);
        self.not_before = self.not_before.max(Some(now + at_least));
    }

    /// Counts a heal. The next one comes not before `first`, doubled for each heal before this one, but at
    /// most `longest`; give or take a quarter, so that a fleet does not come at once.
    fn count(&mut self, now: Instant, first: Duration, longest: Duration) {
        let delay = first.saturating_mul(1 << self.heals.min(16)).min(longest);
        self.heals += 1;
        self.last = Some(now);
        self.not_before = Some(now + delay.mul_f64(0.75 + 0.5 * self.fraction()));
    }

    pub(super) fn left(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }

    /// Somebody wants the next heal now, or as soon as is decent.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.may_hurry {
            self.not_before = self.not_before.min(self.last.map(|last| last + PAUSE)).max(Some(now));
        }
    }

    /// What hindered the last heal may be gone.
    pub(super) fn wait_no_more(&mut self) {
        self.not_before = None;
    }

    pub(super) fn forget(&mut self) {
        self.heals = 0;
        self.failing = false;
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
