//! TERM, INT, HUP, USR1 and CHLD as a self-pipe, and the only place that sleeps.

use std::io::{PipeReader, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The time is up.
    Elapsed,
    /// USR1: look at the node now.
    Look,
    /// HUP: read the configuration again.
    Reload,
    /// TERM or INT: end.
    Stop,
}

/// The process's signals. There can be only one of these: signal handlers belong to the process.
pub struct Signals {
    pipe: PipeReader,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    look: Arc<AtomicBool>,
    exit_at_once: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers. `exit_code` is what the process ends with when it is stopped in the middle
    /// of a request (see [`Signals::during_request`]).
    ///
    /// # Errors
    /// The system refuses a pipe or a handler: it is out of descriptors or memory.
    pub fn install(exit_code: i32) -> std::io::Result<Self> {
        let (pipe, writer) = std::io::pipe()?;
        let [stop, reload, look, exit_at_once] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        // Handlers run in the order of registration: the flag is up before the pipe wakes anybody.
        for signal in [SIGTERM, SIGINT] {
            flag::register_conditional_shutdown(signal, exit_code, Arc::clone(&exit_at_once))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        flag::register(SIGHUP, Arc::clone(&reload))?;
        flag::register(SIGUSR1, Arc::clone(&look))?;
        // CHLD only wakes: whoever waits for a child looks for itself.
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD] {
            low_level::pipe::register(signal, OwnedFd::from(writer.try_clone()?))?;
        }
        Ok(Self { pipe, stop, reload, look, exit_at_once })
    }

    /// TERM or INT has come.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits for `time`, or less when a signal comes. Signals that came before count as well.
    #[must_use]
    pub fn wait(&self, time: Duration) -> Wake {
        let end = Instant::now() + time;
        loop {
            if self.stopped() {
                return Wake::Stop;
            }
            if self.reload.swap(false, Ordering::SeqCst) {
                return Wake::Reload;
            }
            if self.look.swap(false, Ordering::SeqCst) {
                return Wake::Look;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Wake::Elapsed;
            }
            let [] = self.poll([], left);
        }
    }

    /// Waits until one of `fds` has something to read or is closed, a signal (the death of a child too)
    /// comes, or `time` is up. Says for each of `fds` whether it is worth a read.
    #[must_use]
    pub fn poll<const N: usize>(&self, fds: [Option<BorrowedFd<'_>>; N], time: Duration) -> [bool; N] {
        let mut polled = vec![PollFd::new(&self.pipe, PollFlags::IN)];
        polled.extend(fds.iter().flatten().map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // A time too long for the kernel's type means for ever.
        let timeout = Timespec::try_from(time).ok();
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return [false; N]; // interrupted by the very signal that the caller will see
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        if ready.next() == Some(true) {
            // What the bytes stood for is in the flags.
            let _ = (&self.pipe).read(&mut [0; 64]);
        }
        fds.map(|fd| fd.is_some() && ready.next() == Some(true))
    }

    /// Runs `request`, during which TERM or INT ends the process at once, from within the handler: name
    /// resolution cannot be interrupted in any other way, and there is nothing to tidy up, for no child
    /// runs while this single thread waits for a server. `None`: the signal came before.
    pub fn during_request<T>(&self, request: impl FnOnce() -> T) -> Option<T> {
        self.exit_at_once.store(true, Ordering::SeqCst);
        let answer = (!self.stopped()).then(request);
        self.exit_at_once.store(false, Ordering::SeqCst);
        answer
    }
}
