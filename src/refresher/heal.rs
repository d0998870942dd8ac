//! The repair: make sure that a key would not be wasted, mint one, spend it, make sure that it worked.

use std::time::{Duration, Instant};

use super::Refresher;
use crate::cloudbox::Credentials;
use crate::control::Membership;
use crate::error::Error;
use crate::net::url::Url;
use crate::node::routes;
use crate::node::status::State;
use crate::node::tailscale::{Registration, UpOutcome};
use crate::secret::show;

/// For how long a node is looked at after `up` until it is healthy. Contact takes 1 to 2 s on a good day.
const SETTLE: Duration = Duration::from_mins(1);

/// The same after an `up` that failed: it may have worked all the same.
const SETTLE_AFTER_FAILURE: Duration = Duration::from_secs(10);

/// A refusal that is still shown this long after `up` is not left over from the key before.
const REFUSAL_STAYS: Duration = Duration::from_secs(5);

/// A control server that does not know a node that has just registered is asked once more after this.
const REGISTRATION_SHOWS: Duration = Duration::from_secs(2);

/// What became of a node after `up`.
pub(super) enum Settled {
    Healthy,
    KeyRefused(String),
    Not(String),
}

impl Refresher {
    /// Heals with at most `keys` keys: each after the first only because the one before was refused.
    pub(super) fn heal_with_keys(&mut self, keys: u32) -> Result<(), Error> {
        self.spent_keys.clear();
        self.control_server_answers()?;
        let mut refusal = String::new();
        for _ in 0..keys {
            match self.register()? {
                None => return Ok(()),
                Some(why) => refusal = why,
            }
            log::info!("the key was refused: {refusal}");
        }
        Err(Error::NotRegistered(format!("the key was refused: {refusal}")))
    }

    /// Makes sure that a key would not be wasted: the control server must be there, where its address is known.
    fn control_server_answers(&mut self) -> Result<(), Error> {
        let Some(server) = self.control_server()? else { return Ok(()) };
        match self.control.answers(&server) {
            Err(Error::ControlAway(_)) if self.out_of_reach(&server) => Ok(()),
            answer => answer,
        }
    }

    /// Spends one key. `Some`: it was refused, for this reason.
    fn register(&mut self) -> Result<Option<String>, Error> {
        let credentials = self.keys.fetch()?;
        self.report.key_spent();
        let registration = self.registration(&credentials)?;
        log::debug!("registering at {}", registration.login_server);
        let outcome = self.node.up(&registration, &credentials.auth_key)?;
        self.spent_keys.push(credentials.auth_key);
        let (limit, said) = match outcome {
            UpOutcome::Done => (SETTLE, String::new()),
            UpOutcome::KeyRefused(why) => return Ok(Some(why)),
            UpOutcome::Denied(why) => return Err(Error::Denied(why)),
            UpOutcome::OtherLoginServer(why) | UpOutcome::Failed(why) => (SETTLE_AFTER_FAILURE, why),
        };
        let reason = match self.settle(limit)? {
            Settled::Healthy if self.is_known()? => return Ok(None),
            Settled::Healthy => "the control server does not know this node".into(),
            Settled::KeyRefused(why) => return Ok(Some(why)),
            Settled::Not(reason) => reason,
        };
        // What `up` complained of says more than how the node looks after it.
        Err(Error::NotRegistered(if said.is_empty() { reason } else { said }))
    }

    /// What the node is to be told, from what cloudbox says and what is configured.
    fn registration(&mut self, credentials: &Credentials) -> Result<Registration, Error> {
        let invalid = |why: String| Error::Unavailable(format!("the credentials are of no use: {why}"));
        if self.options.control_url.is_none() && !credentials.login_server.is_empty() {
            let url = Url::parse(&credentials.login_server);
            self.login_server = Some(url.map_err(|why| invalid(format!("login server: {why}")))?);
        }
        let named = self.options.control_url.as_ref().or(self.login_server.as_ref());
        let login_server = match named {
            Some(url) => url.clone(),
            // The one the node has been with. Without any, `up --reset` would turn it to Tailscale's own.
            None => self
                .control_server()?
                .ok_or_else(|| invalid("they name no login server, and CONTROL_URL is not set".into()))?,
        };
        let cidr = match credentials.pod_cidr.as_str() {
            "" => &self.options.pod_cidr,
            _ if self.options.ignore_credential_pod_cidr => &self.options.pod_cidr,
            cidr => cidr,
        };
        Ok(Registration {
            login_server: login_server.as_str().into(),
            advertise_routes: routes::normalise(cidr).map_err(|why| invalid(show(&why, &[])))?,
        })
    }

    /// Looks until the node is healthy, every second at first and then less often.
    pub(super) fn settle(&mut self, limit: Duration) -> Result<Settled, Error> {
        let begun = Instant::now();
        let mut waited = Duration::ZERO;
        let mut delay = Duration::from_secs(1);
        let mut refused_since = None;
        loop {
            self.pause(delay)?;
            // A look takes its time as well, up to 15 s.
            waited = begun.elapsed().max(waited + delay);
            delay = (delay * 3 / 2).min(Duration::from_secs(10));
            let reason = match self.look() {
                Ok(status) => {
                    let verdict = status.verdict();
                    match verdict.state {
                        State::Healthy => return Ok(Settled::Healthy),
                        State::Stuck => return Ok(Settled::Not(self.shown(&verdict.reason))),
                        _ => {}
                    }
                    match status.key_refusal() {
                        Some(why) if waited >= *refused_since.get_or_insert(waited) + REFUSAL_STAYS => {
                            return Ok(Settled::KeyRefused(self.shown(why)));
                        }
                        Some(_) => {}
                        None => refused_since = None,
                    }
                    verdict.reason
                }
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => error.to_string(),
            };
            if waited >= limit {
                return Ok(Settled::Not(self.shown(&reason)));
            }
        }
    }

    /// Whether the control server knows the node that says it is healthy again; asked once more if not, for
    /// the look before may have shown the node's former key. No answer is not held against the node.
    fn is_known(&mut self) -> Result<bool, Error> {
        if self.ask()? != Membership::Forgotten {
            return Ok(true);
        }
        self.pause(REGISTRATION_SHOWS)?;
        self.look_for_verdict()?;
        Ok(self.ask()? != Membership::Forgotten)
    }
}
