//! Waiting for a condition: the tests have no other way to let time pass.

use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take to come true, on a machine that is busy with everything else.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Whether `condition` holds within `limit`.
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
