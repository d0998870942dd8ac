//! The `tailscale` command line: `status`, `up`, `debug prefs`. It has all these flags since tailscale 1.26;
//! what the documents mean holds since 1.34.

use std::time::Duration;

use miniserde::{Deserialize, json};

use super::exec::{End, Exec, Invocation, Output};
use super::status::{Status, refuses_key};
use crate::error::Error;
use crate::logger::debug;
use crate::secret::{Secret, show};

/// How long `status` and `debug prefs` may take.
const ASK_LIMIT: Duration = Duration::from_secs(15);

/// How long `up` may take. Its own --timeout does not bound all of it (≥ 1.98 can block for 45 s before).
const UP_LIMIT: Duration = Duration::from_mins(2);

/// How long `up` without a key may take: it has nothing to do but to say so to tailscaled.
const RESUME_LIMIT: Duration = Duration::from_secs(30);

/// How much of a status document is read, in bytes; 600 peers are 900 KB where --peers=false is not heeded.
const KEEP_STATUS: usize = 4 << 20;

/// How much of what `up` says is kept, in bytes.
const KEEP_WORDS: usize = 16 << 10;

/// How many spent keys are remembered for masking.
const KEEP_SPENT: usize = 4;

/// How `up` comes by the key: from its standard input. The path is there wherever Linux is, while
/// /dev/stdin need not be in an image whose /dev mdev makes.
const KEY_FROM_STDIN: &str = "--auth-key=file:/proc/self/fd/0";

/// What a node is to register with.
#[derive(Debug, PartialEq, Eq)]
pub struct Registration {
    /// The login server, as tailscale is to be told.
    pub login_server: String,
    /// The CIDRs to advertise, with commas between; empty: none.
    pub advertise_routes: String,
}

/// What came of an `up`. The texts are fit to be shown.
#[derive(Debug, PartialEq, Eq)]
pub enum UpOutcome {
    /// It says that it worked. That is no evidence (it exits 0 in many a case where it did not).
    Done,
    /// The control server refused the key; a fresh one may help.
    KeyRefused(String),
    /// It may not do this or does not know how; no key helps until somebody changes that.
    Denied(String),
    /// The login server is written otherwise than the one the running node is registered with, if only by
    /// a trailing slash. The key was not looked at.
    OtherLoginServer(String),
    /// It failed in some other way.
    Failed(String),
}

/// A sliver of `tailscale debug prefs`.
#[derive(Deserialize)]
struct Prefs {
    #[serde(rename = "ControlURL")]
    control_url: Option<String>,
}

/// The node, behind its command line.
pub struct Tailscale {
    command: Vec<String>,
    accept_routes: bool,
    up_flags: Vec<String>,
    exec: Box<dyn Exec>,
    /// The last keys that were spent, which are masked should the node repeat them.
    spent: Vec<Secret>,
}

impl Tailscale {
    /// The node that `command` (the program, and words before or after it) talks to. `up_flags` are added
    /// to each `up` that registers.
    #[must_use]
    pub fn new(command: Vec<String>, accept_routes: bool, up_flags: Vec<String>, exec: Box<dyn Exec>) -> Self {
        Self { command, accept_routes, up_flags, exec, spent: Vec::new() }
    }

    /// Goes on masking what `before` would have masked.
    pub fn take_over(&mut self, before: Self) {
        self.spent = before.spent;
    }

    /// A text of the node, fit to be shown.
    #[must_use]
    pub fn shown(&self, text: &str) -> String {
        let secrets: Vec<&Secret> = self.spent.iter().collect();
        show(text, &secrets)
    }

    /// The command has words beside the program, so that the node may be elsewhere (`podman exec …`).
    #[must_use]
    pub fn may_be_elsewhere(&self) -> bool {
        self.command.len() > 1
    }

    /// Asks the node about its state.
    ///
    /// # Errors
    /// [`Error::CannotTell`] if there is no answer that can be read, [`Error::Stopped`].
    pub fn look(&mut self) -> Result<Status, Error> {
        let output = self.run(&["status", "--json", "--peers=false"], None, ASK_LIMIT, KEEP_STATUS)?;
        // The document decides, whatever the exit code.
        let document = std::str::from_utf8(&output.stdout).ok();
        document.and_then(Status::parse).ok_or_else(|| {
            Error::CannotTell(match output.end {
                End::Exited(0) => "tailscale status prints no status document".into(),
                end => format!("tailscale status {}", failed(end, &self.words(&output))),
            })
        })
    }

    /// Registers the node with the key, which goes to `up` through a pipe: never into its arguments, its
    /// environment or a file.
    ///
    /// # Errors
    /// [`Error::Stopped`] only.
    pub fn up(&mut self, registration: &Registration, key: Secret) -> Result<UpOutcome, Error> {
        let mut args = vec!["up".to_owned()];
        args.push(format!("--login-server={}", registration.login_server));
        args.push(KEY_FROM_STDIN.into());
        args.extend(["--reset".into(), "--timeout=60s".into()]);
        if self.accept_routes {
            args.push("--accept-routes".into());
        }
        if !registration.advertise_routes.is_empty() {
            args.push(format!("--advertise-routes={}", registration.advertise_routes));
        }
        args.extend(self.up_flags.iter().cloned());
        if self.spent.len() == KEEP_SPENT {
            self.spent.remove(0);
        }
        self.spent.push(key);
        match self.run_up(&args)? {
            UpOutcome::OtherLoginServer(_) => {
                debug!("the login server is written otherwise: again with --force-reauth");
                args.push("--force-reauth".into());
                self.run_up(&args)
            }
            outcome => Ok(outcome),
        }
    }

    /// Undoes a `tailscale down`: `up` without any flag, which is the one form that keeps every preference.
    ///
    /// # Errors
    /// [`Error::Stopped`] only.
    pub fn resume(&mut self) -> Result<UpOutcome, Error> {
        let output = self.run(&["up"], None, RESUME_LIMIT, KEEP_WORDS);
        self.judge(output)
    }

    /// The login server in the node's preferences, if it says.
    ///
    /// # Errors
    /// [`Error::Stopped`] only.
    pub fn control_url(&mut self) -> Result<Option<String>, Error> {
        let output = match self.run(&["debug", "prefs"], None, ASK_LIMIT, KEEP_WORDS) {
            Ok(output) => output,
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(_) => return Ok(None),
        };
        let prefs = std::str::from_utf8(&output.stdout).ok().and_then(|text| json::from_str::<Prefs>(text).ok());
        Ok(prefs.and_then(|prefs| prefs.control_url).filter(|url| !url.is_empty()))
    }

    /// Runs `up` with the last key.
    fn run_up(&mut self, args: &[String]) -> Result<UpOutcome, Error> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let key = self.spent.pop();
        let output = self.run(&args, key.as_ref(), UP_LIMIT, KEEP_WORDS);
        self.spent.extend(key);
        self.judge(output)
    }

    /// From how `up` ended and what it said to what it means.
    fn judge(&self, output: Result<Output, Error>) -> Result<UpOutcome, Error> {
        let output = match output {
            Ok(output) => output,
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => return Ok(UpOutcome::Failed(error.to_string())),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let says = |text| said.contains(text);
        let shown = self.words(&output);
        debug!("tailscale up said: {shown}");
        Ok(match output.end {
            End::Exited(0) => UpOutcome::Done,
            _ if refuses_key(&said) => UpOutcome::KeyRefused(shown),
            // The last is a command that runs as another user, who may not read our pipe.
            _ if says("Access denied") || says("flag provided but not defined") || says("/proc/self/fd/0") => {
                UpOutcome::Denied(shown)
            }
            _ if says("without --force-reauth") => UpOutcome::OtherLoginServer(shown),
            end => UpOutcome::Failed(format!("tailscale up {}", failed(end, &shown))),
        })
    }

    /// What a command says when it fails: on stderr, or else on stdout (where `up` puts its warnings).
    fn words(&self, output: &Output) -> String {
        let stderr = self.shown(&String::from_utf8_lossy(&output.stderr));
        if stderr.is_empty() { self.shown(&String::from_utf8_lossy(&output.stdout)) } else { stderr }
    }

    fn run(&mut self, args: &[&str], stdin: Option<&Secret>, limit: Duration, keep: usize) -> Result<Output, Error> {
        let mut command = self.command.clone();
        command.extend(args.iter().map(|&arg| arg.into()));
        debug!("running {}", command.join(" "));
        self.exec.run(&Invocation { argv: &command, stdin, env: &[], limit, keep })
    }
}

fn failed(end: End, said: &str) -> String {
    if said.is_empty() { end.to_string() } else { format!("{end}: {said}") }
}
