//! Tables of cases: all of them are run, side by side, and each that fails is named.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many cases run at once: most of a case's time is spent waiting for a child.
const ABREAST: usize = 6;

/// Runs `check` on every case and fails with the names of those that failed.
pub fn each<C: Sync>(cases: &[C], name: impl Fn(&C) -> String + Sync, check: impl Fn(&C) + Sync) {
    assert!(!cases.is_empty(), "a table without cases");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..ABREAST.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(case))) {
                        let text = panic
                            .downcast_ref::<String>()
                            .map(String::as_str)
                            .or_else(|| panic.downcast_ref::<&str>().copied())
                            .unwrap_or("no message");
                        let report = format!("case `{}`: {text}", name(case));
                        failed.lock().unwrap().push(report);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} cases failed\n{}", failed.len(), cases.len(), failed.join("\n"));
}
