//! The status file: what the daemon saw last, for others to read.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use miniserde::{Deserialize, Serialize, json};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use crate::file;
use crate::logger::debug;

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// What the file holds, as one line of JSON. Times are wall times, in seconds since 1970.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Status {
    /// What the node is, as [`word`](super::word) has it.
    pub verdict: String,
    /// Why, and what is done about it.
    pub reason: String,
    /// When it became so.
    pub since: u64,
    /// When the last heal that took ended, if there was one since the program started.
    pub last_heal: Option<u64>,
    /// Keys spent since the program started.
    pub keys: u32,
    /// When the node would be looked at next as this was written, if not at once.
    pub next_look: Option<u64>,
}

impl Status {
    /// The file in `run_dir`.
    #[must_use]
    pub fn path(run_dir: &Path) -> PathBuf {
        run_dir.join("status.json")
    }

    /// Writes the file anew, by rename. Where that does not work there is none: an old one would lie.
    pub fn write(&self, run_dir: &Path) {
        let path = Self::path(run_dir);
        if let Err(error) = file::replace(&path, &(json::to_string(self) + "\n")) {
            debug!("{}: {error}", path.display());
            let _ = fs::remove_file(&path);
        }
    }

    /// Gives the file in `run_dir` the time stamp of now.
    pub fn touch(run_dir: &Path) {
        let now = || Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let now = Timestamps { last_access: now(), last_modification: now() };
        if let Err(error) = utimensat(CWD, Self::path(run_dir), &now, AtFlags::empty()) {
            debug!("the status file's time stamp: {error}");
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// What the system says, or that it is none of ours.
    pub fn read(run_dir: &Path) -> io::Result<Self> {
        let text = file::read_text(&Self::path(run_dir), MAX_FILE)?;
        json::from_str(&text).map_err(|_| io::Error::other("it is no status of overlaykey"))
    }

    /// As JSON, one line.
    #[must_use]
    pub fn json(&self) -> String {
        json::to_string(self)
    }

    /// For a human, at the wall time `now`.
    #[must_use]
    pub fn text(&self, now: Duration) -> String {
        let ago = |then: u64| duration(now.as_secs().saturating_sub(then));
        let mut text =
            format!("{} for {}: {}\nkeys spent: {}", self.verdict, ago(self.since), self.reason, self.keys);
        if let Some(healed) = self.last_heal {
            let _ = write!(text, "\nlast heal: {} ago", ago(healed));
        }
        if let Some(next) = self.next_look.and_then(|next| next.checked_sub(now.as_secs())) {
            let _ = write!(text, "\nnext look: in {}", duration(next));
        }
        text
    }
}

/// In the two largest units that it takes.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_human_reads_how_long_ago() {
        let status = Status {
            verdict: "healthy".into(),
            reason: "registered and in contact".into(),
            since: 1_000_000,
            last_heal: Some(999_990),
            keys: 2,
            next_look: Some(1_000_060),
        };
        assert_eq!(
            status.text(Duration::from_secs(1_000_045)),
            "healthy for 45 s: registered and in contact\nkeys spent: 2\nlast heal: 55 s ago\nnext look: in 15 s"
        );
        // Written only on change: what was due then is over.
        assert_eq!(
            status.text(Duration::from_secs(1_093_785)),
            "healthy for 1 d 2 h: registered and in contact\nkeys spent: 2\nlast heal: 1 d 2 h ago"
        );
        // The clock was set back.
        assert!(status.text(Duration::ZERO).starts_with("healthy for 0 s"), "{}", status.text(Duration::ZERO));
    }

    #[test]
    fn durations_have_two_units() {
        let cases =
            [(59, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (86_400, "1 d 0 h")];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
    }
}
