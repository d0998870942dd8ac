//! The real binary, under way and at its end.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::process::{self, alive};
use super::site::Site;
use super::wait::{PATIENCE, within};

/// How long a command that is expected to end may take: more than any one deadline of the program but that of `up`.
const ENOUGH: Duration = Duration::from_secs(45);

/// The program under way; killed when dropped.
pub struct Program<'s> {
    site: &'s Site,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    started: Instant,
}

impl<'s> Program<'s> {
    /// Starts it in an environment that holds nothing but a short PATH, TMPDIR, `FAKE_DIR` and what the test adds.
    pub fn start(site: &'s Site, arguments: &[String], environment: &BTreeMap<String, String>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (stdout, stderr) =
            (site.dir.path(&format!("stdout.{number}")), site.dir.path(&format!("stderr.{number}")));
        let log = match site.log_device() {
            Some(device) => File::options().write(true).open(device).expect("a device for stderr"),
            None => File::create(&stderr).expect("a file for stderr"),
        };
        let child = Command::new(site.program())
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", site.dir.path("tmp"))
            .env("FAKE_DIR", site.node.folder().root())
            .envs(environment)
            .stdin(Stdio::null())
            // Files, not pipes: nobody has to read them, and what a forgotten grandchild holds open does not matter.
            .stdout(File::create(&stdout).expect("a file for stdout"))
            .stderr(log)
            .spawn()
            .expect("the program starts");
        Self { site, child, stdout, stderr, started: Instant::now() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said on stderr so far.
    pub fn log(&self) -> String {
        read(&self.stderr)
    }

    /// The file that it says it to.
    pub fn log_file(&self) -> &Path {
        &self.stderr
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("the program's state").is_none()
    }

    /// Waits for a condition; fails, with all that happened, if it does not come true or the program ends meanwhile.
    pub fn wait_until(&mut self, what: &str, condition: impl FnMut(&Self) -> bool) {
        self.wait_within(PATIENCE, what, condition);
    }

    /// The same for what takes longer than most.
    pub fn wait_within(&mut self, limit: Duration, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let mut ended = false;
        let come = within(limit, || {
            condition(self) || {
                ended = !self.runs();
                ended
            }
        });
        let ended = if ended { ": the program ended" } else { "" };
        assert!(come && ended.is_empty(), "waited in vain until {what}{ended}\n{}", self.story());
    }

    /// Fails, with all that happened, if the condition comes true, or the program ends, within `limit`.
    pub fn never(&mut self, what: &str, limit: Duration, mut condition: impl FnMut(&Self) -> bool) {
        let come = within(limit, || condition(self) || !self.runs());
        assert!(!come, "it must not be that {what}, and the program must go on\n{}", self.story());
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("signal the program");
    }

    /// Waits for its end.
    pub fn ends(self) -> Ended {
        self.ends_within(ENOUGH)
    }

    /// Waits for its end, which must come in time.
    pub fn ends_within(mut self, limit: Duration) -> Ended {
        let mut peak = 0;
        let come = within(limit, || {
            peak = peak.max(process::resident(self.pid()).unwrap_or(0));
            !self.runs()
        });
        assert!(come, "the program did not end within {limit:?}\n{}", self.story());
        let status = self.child.wait().expect("the program's status");
        Ended {
            code: status.code(),
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
            took: self.started.elapsed(),
            peak,
            story: format!("{status}\n{}", self.story()),
        }
    }

    /// Tells it to end and holds it to its promise: exit code 0 within a second, here with room for a busy machine, and
    /// nothing that it started left running. Returns what it said.
    pub fn stops_on(self, signal: Signal) -> Ended {
        let site = self.site;
        let asked = Instant::now();
        self.signal(signal);
        let ended = self.ends();
        let took = asked.elapsed();
        assert_eq!(ended.code, Some(0), "{ended}");
        assert!(took < Duration::from_secs(3), "it took {took:?} to stop\n{ended}");
        let leftover = |pid: &u32| !within(Duration::from_secs(2), || !alive(*pid));
        let started = site.node.seen().into_iter().map(|seen| seen.pid).chain(site.node.hanging());
        let left: Vec<u32> = started.filter(leftover).collect();
        assert!(left.is_empty(), "left running: {left:?}\n{ended}");
        ended
    }

    fn story(&self) -> String {
        format!("stdout:\n{}\nstderr:\n{}\n{}", read(&self.stdout), self.log(), self.site.story())
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program at its end; displays all that happened.
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
    /// The most memory that it was seen to have, in KiB.
    pub peak: u64,
    story: String,
}

impl Ended {
    /// All that it said, on both streams.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.story)
    }
}

fn read(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
