//! One daemon at a time, and not too often one after another. Both rest on files in RUN_DIR: where that cannot be
//! written, neither holds, and the daemon runs all the same.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::logger::debug;
use crate::{clock, file};

/// Locked as long as a daemon runs; by the kernel, which forgets nothing and leaves nothing behind.
const LOCK_FILE: &str = "lock";

/// How many quick starts there were in a row, and the uptime in seconds at which the last one began its work.
const STARTS_FILE: &str = "starts";

/// A start that comes so soon after the last one is a quick one.
const QUICK: Duration = Duration::from_secs(10);

/// The pause before the first quick start; the second has twice that, and so on.
const PAUSE: Duration = Duration::from_secs(5);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The turn of this process; it ends when this is dropped, or with the process, however that ends.
#[derive(Debug)]
pub struct Turn {
    _lock: Option<File>,
}

/// Takes the turn in `run_dir`. `None`: another daemon has it.
#[must_use]
pub fn take_turn(run_dir: &Path) -> Option<Turn> {
    let path = run_dir.join(LOCK_FILE);
    let opened = file::make_dir(run_dir)
        .and_then(|()| OpenOptions::new().create(true).truncate(false).write(true).open(&path));
    match opened.map_err(TryLockError::Error).and_then(|lock| lock.try_lock().map(|()| lock)) {
        Ok(lock) => Some(Turn { _lock: Some(lock) }),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => {
            debug!("{}: {error}: another daemon would not be seen", path.display());
            Some(Turn { _lock: None })
        }
    }
}

/// Whether a daemon has the turn in `run_dir`.
#[must_use]
pub fn is_taken(run_dir: &Path) -> bool {
    let lock = File::open(run_dir.join(LOCK_FILE));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Tells whoever waits at the other end of the descriptor `fd` that the daemon runs, with a newline.
pub fn tell_ready(fd: u32) {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).custom_flags(nonblocking).open(format!("/proc/self/fd/{fd}"));
    if let Err(error) = opened.and_then(|mut pipe| pipe.write_all(b"\n")) {
        log::error!("--ready-fd {fd}: {error}");
    }
}

/// How long a daemon that starts now must wait: not at all, unless it is started again and again. An init system that
/// starts it every second must not make it ask every second.
#[must_use]
pub fn pause_before_start(run_dir: &Path) -> Duration {
    let path = run_dir.join(STARTS_FILE);
    let now = clock::uptime().as_secs();
    let before = file::read_text(&path, 64).ok().and_then(|text| {
        let (quick, began) = text.trim().split_once(' ')?;
        Some((quick.parse::<u32>().ok()?, began.parse::<u64>().ok()?))
    });
    let quick = match before {
        // From the future: the file has outlived a boot.
        Some((quick, began)) if began <= now + MAX_PAUSE.as_secs() && now < began + QUICK.as_secs() => {
            quick.saturating_add(1)
        }
        _ => 0,
    };
    let pause = PAUSE.saturating_mul(quick).min(MAX_PAUSE);
    if let Err(error) = file::replace(&path, &format!("{quick} {}\n", now + pause.as_secs())) {
        debug!("{}: {error}: a start too soon would not be seen", path.display());
    }
    pause
}
