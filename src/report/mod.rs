//! What others see: one log line a change, the status file, the hook.

pub mod status;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::status::Status;
use crate::clock;
use crate::error::Error;
use crate::node::exec::{End, Exec, Invocation, Output};
use crate::node::status::State;
use crate::policy::News;

/// How often what is still wrong is said again, at most.
const REMINDER: Duration = Duration::from_hours(1);

/// How long the hook may take.
const HOOK_LIMIT: Duration = Duration::from_secs(10);

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
    heartbeat: bool,
    hook: Vec<String>,
    exec: Box<dyn Exec>,
    told: Option<Told>,
    status: Status,
    /// The status file is behind `status`.
    behind: bool,
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
        Self {
            run_dir: None,
            heartbeat: false,
            hook: Vec::new(),
            exec,
            told: None,
            status: Status::default(),
            behind: false,
        }
    }

    /// Keeps `status.json` in `run_dir` from now on, with a new time stamp at each look if there is to be a
    /// `heartbeat`, and runs `hook` if it has words.
    pub fn configure(&mut self, run_dir: PathBuf, heartbeat: bool, hook: Vec<String>) {
        self.run_dir = Some(run_dir);
        self.heartbeat = heartbeat;
        self.hook = hook;
    }

    /// Knows what `before` has told already, and how many keys were spent.
    pub fn take_over(&mut self, before: Self) {
        self.told = before.told;
        self.status = before.status;
    }

    /// A key was spent.
    pub fn key_spent(&mut self) {
        self.status.keys += 1;
        self.behind = true;
    }

    /// A heal took.
    pub fn healed(&mut self) {
        self.status.last_heal = Some(clock::now().as_secs());
        self.behind = true;
    }

    /// Tells `news` if it is any, or reminds of what is still wrong. The node is looked at again after `wait`.
    pub fn tell(&mut self, now: Instant, news: Option<News>, wait: Option<Duration>) {
        let Some(news) = news.filter(|news| self.is_new(news)) else {
            if self.behind {
                self.write_status(wait);
            } else if let Some(run_dir) = self.run_dir.as_ref().filter(|_| self.heartbeat && wait.is_some()) {
                Status::touch(run_dir);
            }
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
        if self.status.verdict != state {
            state.clone_into(&mut self.status.verdict);
            self.status.since = clock::now().as_secs();
        }
        text.clone_into(&mut self.status.reason);
        self.write_status(wait);
        if self.told.as_ref().is_none_or(|told| word(told.news.state) != state) {
            self.run_hook(state, text);
        }
        self.told = Some(Told { news, at: now });
    }

    fn is_new(&self, news: &News) -> bool {
        self.told.as_ref().is_none_or(|told| told.news.topic != news.topic || told.news.state != news.state)
    }

    fn write_status(&mut self, wait: Option<Duration>) {
        self.status.next_look = wait.map(|wait| clock::now().saturating_add(wait).as_secs());
        self.behind = false;
        if let Some(run_dir) = &self.run_dir {
            self.status.write(run_dir);
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
