//! The loop: look, decide, act, wait.

mod check;
mod heal;

use std::time::{Duration, Instant};

pub use self::check::Checked;
use crate::cloudbox::KeySource;
use crate::control::{ControlServer, Membership};
use crate::error::Error;
use crate::logger::debug;
use crate::net::url::Url;
use crate::node::status::{Status, Verdict};
use crate::node::tailscale::{Tailscale, UpOutcome};
use crate::policy::{Action, Policy, Seen, Settings};
use crate::report::{Report, word};
use crate::signals::Wake;

/// For how long a node is looked at after `up` without a key until it is healthy.
const SETTLE_AFTER_RESUME: Duration = Duration::from_secs(20);

/// What a refresher is to do, apart from when.
#[derive(Debug, Default)]
pub struct Options {
    /// Replaces the login server that cloudbox names.
    ///
    /// The public address may be fronted by a proxy that strips the Upgrade header of the control
    /// protocol; then the node must use another way in.
    pub control_url: Option<Url>,
    /// The CIDRs to advertise if cloudbox names none.
    pub pod_cidr: String,
    /// Advertise only `pod_cidr`, whatever cloudbox says: on a worker whose pod network another plane
    /// allocates, cloudbox's CIDR has no authority.
    pub ignore_credential_pod_cidr: bool,
}

/// Why [`Refresher::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A signal asked the program to end.
    Stop,
    /// A signal asked for the configuration to be read again. Another `run` goes on as if nothing had been.
    Reload,
}

/// Keeps this host registered on the overlay.
pub struct Refresher {
    node: Tailscale,
    keys: Box<dyn KeySource>,
    control: Box<dyn ControlServer>,
    wait: Box<dyn FnMut(Duration) -> Wake>,
    options: Options,
    policy: Policy,
    report: Report,
    /// The login server of the last credentials that took.
    login_server: Option<Url>,
    /// A login server that cloudbox named and that did not answer, and when that was.
    silent: Option<(Url, Instant)>,
    /// The node's public key at the last look.
    node_key: Option<String>,
    /// A reload was asked for in the middle of something.
    reload: bool,
}

impl Refresher {
    /// A refresher of `node`, with keys of `keys`, which asks `control` and waits by `wait`.
    #[must_use]
    pub fn new(
        node: Tailscale,
        keys: Box<dyn KeySource>,
        control: Box<dyn ControlServer>,
        wait: Box<dyn FnMut(Duration) -> Wake>,
        options: Options,
        settings: Settings,
        report: Report,
    ) -> Self {
        // What differs between the devices of a fleet, without asking for randomness twice.
        let seed = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0);
        Self {
            node,
            keys,
            control,
            wait,
            options,
            policy: Policy::new(settings, seed),
            report,
            login_server: None,
            silent: None,
            node_key: None,
            reload: false,
        }
    }

    /// Whether tailscaled is logged in and in the network map (see [`Status::healthy`]).
    ///
    /// # Errors
    /// [`Error::CannotTell`]: a failure to ask is not "unhealthy". The node may not be there at all, and
    /// to act on that would be to mint keys for hosts that never wanted an overlay. [`Error::Stopped`].
    pub fn healthy(&mut self) -> Result<bool, Error> {
        Ok(self.node.look()?.healthy())
    }

    /// Registers the node anew with a fresh key, and makes sure that it worked.
    ///
    /// # Errors
    /// [`Error::CannotTell`] or [`Error::ControlAway`] before a key is asked for, what [`KeySource::fetch`]
    /// says, [`Error::Denied`], or [`Error::NotRegistered`] if the node is not healthy within a minute.
    pub fn heal(&mut self) -> Result<(), Error> {
        // Where there is no node to be asked, there is none to be registered.
        self.look()?;
        self.heal_with_keys(2)
    }

    /// Keeps the node registered until a signal says otherwise. What fails is reported and tried again;
    /// nothing but a signal ends this.
    pub fn run(&mut self) -> Ended {
        let mut action = Action::Wait(Duration::ZERO);
        loop {
            let seen = match self.act(action) {
                Ok(seen) => seen,
                Err(Interrupted(ended)) => return ended,
            };
            let now = Instant::now();
            if matches!(seen, Seen::Heal(Ok(()))) {
                self.report.healed();
            }
            let decision = self.policy.next(now, seen);
            debug!("next: {}", decision.action);
            action = decision.action;
            let wait = if let Action::Wait(time) = action { Some(time) } else { None };
            self.report.tell(now, decision.news, wait);
        }
    }

    fn act(&mut self, action: Action) -> Result<Seen, Interrupted> {
        let done = match action {
            Action::Wait(time) => {
                self.wait_then_reload(time)?;
                self.look_for_verdict().map(Seen::Look)
            }
            Action::Ask => self.ask().map(Seen::Membership),
            Action::Resume => self.resume(),
            Action::Heal { second_key } => match self.heal_with_keys(if second_key { 2 } else { 1 }) {
                Err(Error::Stopped) => Err(Error::Stopped),
                done => Ok(Seen::Heal(done)),
            },
        };
        match done {
            Ok(seen) => Ok(seen),
            Err(Error::Stopped) => Err(Interrupted(Ended::Stop)),
            Err(error) => Ok(Seen::Heal(Err(error))),
        }
    }

    /// Brings a stopped node up again, and looks what became of it.
    fn resume(&mut self) -> Result<Seen, Error> {
        match self.node.resume()? {
            UpOutcome::Denied(why) => return Err(Error::Denied(why)),
            UpOutcome::Done => {}
            UpOutcome::KeyRefused(why) | UpOutcome::OtherLoginServer(why) | UpOutcome::Failed(why) => {
                log::info!("{why}");
            }
        }
        self.settle(SETTLE_AFTER_RESUME)?;
        self.look_for_verdict().map(Seen::Look)
    }

    fn look(&mut self) -> Result<Status, Error> {
        let status = self.node.look()?;
        self.node_key = status.node_key().map(Into::into);
        Ok(status)
    }

    /// A look, of which a failure is a verdict as well.
    fn look_for_verdict(&mut self) -> Result<Verdict, Error> {
        match self.look() {
            Ok(status) => {
                let Verdict { state, reason } = status.verdict();
                debug!("looked: {}", word(state));
                Ok(Verdict { state, reason: self.node.shown(&reason) })
            }
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(error) => Ok(Checked::unreadable(&error).verdict),
        }
    }

    /// Asks the control server about the node as last seen. "Unsupported" is only said of one that is there.
    fn ask(&mut self) -> Result<Membership, Error> {
        let Some(server) = self.control_server()? else { return Ok(Membership::NotAsked) };
        let mut membership = match &self.node_key {
            Some(key) => self.control.knows(&server, key)?,
            None => Membership::Unsupported,
        };
        if membership == Membership::Unsupported {
            membership = match self.control.answers(&server) {
                Ok(()) => Membership::Unsupported,
                Err(Error::ControlAway(why)) => Membership::NoAnswer(why),
                Err(error) => return Err(error),
            };
        }
        if matches!(membership, Membership::NoAnswer(_)) && self.out_of_reach(&server) {
            membership = Membership::NotAsked;
        }
        Ok(membership)
    }

    /// Where the control server is, if that is known: CONTROL_URL, else what the last credentials that took named,
    /// else what the node's preferences say. Tailscale's own server, which those name as long as nobody
    /// has said otherwise, is not asked.
    fn control_server(&mut self) -> Result<Option<Url>, Error> {
        let known = self.options.control_url.as_ref().or(self.login_server.as_ref());
        let server = match known {
            Some(url) => Some(url.clone()),
            None => self.node.control_url()?.and_then(|url| Url::parse(&url).ok()),
        };
        Ok(server.filter(|url| !url.is_tailscales_own()))
    }

    /// A loopback address may be that of the container that the node lives in, and its silence says nothing.
    fn out_of_reach(&self, server: &Url) -> bool {
        server.is_loopback() && self.node.may_be_elsewhere()
    }

    fn wait_then_reload(&mut self, time: Duration) -> Result<(), Interrupted> {
        let wake = if std::mem::take(&mut self.reload) { Wake::Reload } else { (self.wait)(time) };
        match wake {
            Wake::Elapsed => Ok(()),
            Wake::Look => {
                self.policy.hurry(Instant::now());
                Ok(())
            }
            Wake::Reload => Err(Interrupted(Ended::Reload)),
            Wake::Stop => Err(Interrupted(Ended::Stop)),
        }
    }

    /// A wait in the middle of something, which only the end of the program cuts short.
    fn pause(&mut self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        loop {
            match (self.wait)(end.saturating_duration_since(Instant::now())) {
                Wake::Elapsed => return Ok(()),
                Wake::Look => {}
                Wake::Reload => self.reload = true,
                Wake::Stop => return Err(Error::Stopped),
            }
        }
    }

    /// Goes on where the refresher of the former configuration left off: delays and what was told stay. If
    /// the configuration has `changed`, the next heal need not wait.
    pub fn take_over(&mut self, before: Self, changed: bool) {
        self.node.take_over(before.node);
        self.report.take_over(before.report);
        self.policy.take_over(before.policy, Instant::now(), changed);
        if !changed {
            self.login_server = before.login_server;
            self.silent = before.silent;
        }
    }
}

/// A signal came.
struct Interrupted(Ended);
