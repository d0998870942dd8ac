//! The only spawner: runs a command with a deadline and bounded output, and leaves nothing behind.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::Error;
use crate::secret::Secret;
use crate::signals::Signals;

/// How long a killed child may take to die. One that hangs in the kernel is left to a later look.
const DYING: Duration = Duration::from_millis(500);

/// How often a running child is looked after, for a supervisor may have left CHLD blocked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where programs are, besides PATH: init systems leave out where images often put tailscale.
const MORE_PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What is to be run.
pub struct Invocation<'a> {
    /// The program and its arguments. No secret may be among them.
    pub argv: &'a [String],
    /// What the child reads on its stdin; nothing: /dev/null.
    pub stdin: Option<&'a Secret>,
    /// What is added to the child's environment. No secret may be among it.
    pub env: &'a [(&'a str, &'a str)],
    /// How long it may run.
    pub limit: Duration,
    /// How much of each output is kept, in bytes; the rest is read and forgotten.
    pub keep: usize,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, and not by ours.
    Killed(i32),
    /// By us, for its time was up.
    TimedOut,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "failed with exit code {code}"),
            Self::Killed(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut => f.write_str("took too long and was killed"),
        }
    }
}

/// What came of a command.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub end: End,
    /// The start of its standard output.
    pub stdout: Vec<u8>,
    /// The start of its standard error.
    pub stderr: Vec<u8>,
}

/// Who can run commands.
pub trait Exec {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// [`Error::CannotTell`] if it could not be started, [`Error::Stopped`] if a signal asked the program
    /// to end.
    fn run(&mut self, invocation: &Invocation) -> Result<Output, Error>;
}

/// Runs commands on this system.
pub struct SystemExec {
    signals: Rc<Signals>,
    /// Killed, but not dead yet.
    undead: Vec<Child>,
}

impl SystemExec {
    /// Ends whatever it runs when `signals` say so.
    #[must_use]
    pub fn new(signals: Rc<Signals>) -> Self {
        Self { signals, undead: Vec::new() }
    }

    fn spawn(invocation: &Invocation) -> io::Result<Child> {
        let (program, args) = invocation.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        #[allow(clippy::disallowed_methods)] // this is the one place
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(if invocation.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .envs(invocation.env.iter().copied())
            .env("PATH", full_path(&std::env::var("PATH").unwrap_or_default()));
        // `tailscale up` that believes it runs over SSH may ask a question instead of acting.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"SSH_") {
                command.env_remove(name);
            }
        }
        command.spawn()
    }

    /// Reads what the child writes until it has ended, its time is up, or we are to end.
    fn watch(&self, child: &mut Child, invocation: &Invocation) -> Result<Output, Error> {
        let deadline = Instant::now() + invocation.limit;
        let mut out = Capture::new(child.stdout.take(), invocation.keep);
        let mut err = Capture::new(child.stderr.take(), invocation.keep);
        loop {
            if self.signals.stopped() {
                return Err(Error::Stopped);
            }
            // Looked for before the pipes, so that what it wrote last is read below. What a grandchild
            // writes later is of no interest, however long it holds the pipes open.
            let ended = ended(child);
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if ended.is_some() { Duration::ZERO } else { left.min(LOOK_AGAIN) };
            let [out_ready, err_ready] = self.signals.poll([out.fd(), err.fd()], wait);
            if out_ready {
                out.read();
            }
            if err_ready {
                err.read();
            }
            let quiet = !out_ready && !err_ready;
            let end = match ended {
                Some(end) if quiet || left.is_zero() => end,
                None if left.is_zero() => End::TimedOut,
                _ => continue,
            };
            return Ok(Output { end, stdout: out.kept, stderr: err.kept });
        }
    }

    /// Kills the child's whole process group and takes its zombie away.
    fn finish(&mut self, mut child: Child) {
        // The group is killed while the child is a zombie at least, so that its number is still its own.
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let deadline = Instant::now() + DYING;
        while matches!(child.try_wait(), Ok(None)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.undead.push(child);
                return;
            }
            let [] = self.signals.poll([], left);
        }
    }
}

impl Exec for SystemExec {
    fn run(&mut self, invocation: &Invocation) -> Result<Output, Error> {
        self.undead.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let mut child = Self::spawn(invocation).map_err(|error| {
            let program = invocation.argv.first().map_or("", String::as_str);
            Error::CannotTell(format!("{program} cannot be started: {error}"))
        })?;
        if let (Some(secret), Some(mut stdin)) = (invocation.stdin, child.stdin.take()) {
            // A key fits into the pipe, so this cannot block. A child that is gone already tells more by its end.
            let _ = stdin.write_all(secret.expose().as_bytes());
        }
        let output = self.watch(&mut child, invocation);
        self.finish(child);
        output
    }
}

/// Looks whether the child has ended, without taking its zombie away.
fn ended(child: &Child) -> Option<End> {
    let pid = Pid::from_raw(child.id().cast_signed())?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited(code),
        (None, signal) => End::Killed(signal.unwrap_or_default()),
    })
}

/// The start of what comes through a pipe.
struct Capture<T> {
    pipe: Option<T>,
    kept: Vec<u8>,
    keep: usize,
}

impl<T: Read + AsFd> Capture<T> {
    fn new(pipe: Option<T>, keep: usize) -> Self {
        Self { pipe, kept: Vec::new(), keep }
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads once, which does not block after a poll has said so.
    fn read(&mut self) {
        let mut chunk = [0; 4096];
        match self.pipe.as_mut().map(|pipe| pipe.read(&mut chunk)) {
            Some(Ok(length @ 1..)) => {
                let room = self.keep - self.kept.len();
                self.kept.extend_from_slice(&chunk[..length.min(room)]);
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.pipe = None,
        }
    }
}

/// PATH with the usual folders added.
fn full_path(path: &str) -> String {
    let mut folders: Vec<&str> = path.split(':').filter(|folder| !folder.is_empty()).collect();
    for folder in MORE_PATH {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders.join(":")
}
