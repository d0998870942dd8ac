//! The clocks that are read by the system call. Every wait is on std's monotonic one.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time this program was built at (or of its last commit), in seconds since 1970. A board without a
/// battery starts in 1970 or at the date of its newest file, which is before this.
const FLOOR: &str = env!("OVERLAYKEY_CLOCK_FLOOR");

/// Wall time, since 1970. Read by the system call: std's clock on 32-bit musl panics after 2038-01-19.
#[must_use]
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    // A clock before 1970 is as wrong as one at 1970.
    Duration::try_from(now).unwrap_or_default()
}

/// Time since the system was started, sleep included: what a program that is started again can compare.
#[must_use]
pub fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// The wall clock stands past the day this program was built.
#[must_use]
pub fn is_set() -> bool {
    now().as_secs() >= FLOOR.parse().unwrap_or(0)
}
