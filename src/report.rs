//! What others see: one log line a change, the status file, the hook.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use miniserde::{Serialize, json};

use crate::error::Error;
use crate::file;
use crate::logger::debug;
use crate::net::clock;
use crate::node::exec::{End, Exec, Invocation, Output};
use crate::node::status::State;
use crate::policy::News;

/// How often what is still wrong is said again, at most.
const REMINDER: Duration = Duration::from_hours(1);

/// How long the hook may take.
const HOOK_LIMIT: Duration = Duration::from_secs(10);

/// The status file in RUN_DIR.
const STATUS_FILE: &str = "status.json";

#[derive(Serialize)]
struct StatusFile<'a> {
    verdict: &'a str,
    reason: &'a str,
    /// Wall time of the change, in seconds since 1970.
    since: u64,
    /// Keys spent since the program started.
    keys: u32,
}

/// The word for a state, in the log, in files and in `check --json`.
#[must_use]
pub fn word(state: State) -> &'static str {
    match state {
        State::Healthy => "healthy",
        State::Starting => "starting",
        State::OutOfTouch { .. } => "out-of-touch",
        State::Unregistered => "unregistered",
        State::Stopped => "stopped",
        State::Stuck => "stuck",
        State::CannotTell => "cannot-tell",
    }
}

/// Tells others what changes.
pub struct Report {
    run_dir: Option<PathBuf>,
    hook: Vec<String>,
    exec: Box<dyn Exec>,
    told: Option<Told>,
    keys: u32,
}

/// What was told last.
struct Told {
    news: News,
    at: Instant,
}

impl Report {
    /// Tells the log only. Hooks are run by `exec`.
    #[must_use]
    pub fn new(exec: Box<dyn Exec>) -> Self {
        Self { run_dir: None, hook: Vec::new(), exec, told: None, keys: 0 }
    }

    /// Keeps `status.json` in `run_dir` from now on, and runs `hook` if it has words.
    pub fn configure(&mut self, run_dir: PathBuf, hook: Vec<String>) {
        self.run_dir = Some(run_dir);
        self.hook = hook;
    }

    /// Knows what `before` has told already, and how many keys were spent.
    pub fn take_over(&mut self, before: Self) {
        self.told = before.told;
        self.keys = before.keys;
    }

    /// A key was spent.
    pub fn key_spent(&mut self) {
        self.keys += 1;
    }

    /// Tells `news` if it is any, or reminds of what is still wrong.
    pub fn tell(&mut self, now: Instant, news: Option<News>) {
        let Some(news) = news.filter(|news| self.is_new(news)) else {
            if let Some(told) = self.told.as_mut().filter(|told| is_wrong(&told.news) && now >= told.at + REMINDER) {
                told.at = now;
                log::warn!("still {}: {}", word(told.news.state), told.news.text);
            }
            return;
        };
        let (state, text) = (word(news.state), &news.text);
        let next =
            news.next_attempt.map_or_else(String::new, |time| format!(", next attempt in {} s", time.as_secs()));
        if is_wrong(&news) {
            log::warn!("{state}: {text}{next}");
        } else {
            log::info!("{state}: {text}");
        }
        self.write_status(state, text);
        if self.told.as_ref().is_none_or(|told| word(told.news.state) != state) {
            self.run_hook(state, text);
        }
        self.told = Some(Told { news, at: now });
    }

    fn is_new(&self, news: &News) -> bool {
        self.told.as_ref().is_none_or(|told| told.news.topic != news.topic || told.news.state != news.state)
    }

    /// Writes the status file anew, by rename. Where that does not work there is none: an old one would lie.
    fn write_status(&self, verdict: &str, reason: &str) {
        let Some(dir) = &self.run_dir else { return };
        let status = StatusFile { verdict, reason, since: clock::now().as_secs(), keys: self.keys };
        let path = dir.join(STATUS_FILE);
        if let Err(error) = file::replace(&path, &(json::to_string(&status) + "\n")) {
            debug!("{}: {error}", path.display());
            let _ = fs::remove_file(&path);
        }
    }

    fn run_hook(&mut self, state: &str, reason: &str) {
        if self.hook.is_empty() {
            return;
        }
        let env = [("OVERLAYKEY_VERDICT", state), ("OVERLAYKEY_REASON", reason)];
        let invocation = Invocation { argv: &self.hook, stdin: None, env: &env, limit: HOOK_LIMIT, keep: 0 };
        match self.exec.run(&invocation) {
            Ok(Output { end: End::Exited(0), .. }) | Err(Error::Stopped) => {}
            Ok(output) => log::warn!("the ON_CHANGE hook {}", output.end),
            Err(error) => log::warn!("the ON_CHANGE hook: {error}"),
        }
    }
}

fn is_wrong(news: &News) -> bool {
    !matches!(news.state, State::Healthy | State::Starting)
}
