//! The repair: make sure that a key would not be wasted, mint one, spend it, make sure that it worked.

use std::time::{Duration, Instant};

use super::Refresher;
use crate::cloudbox::Credentials;
use crate::control::Membership;
use crate::error::Error;
use crate::logger::debug;
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

/// A login server that cloudbox named and that did not answer is waited for this long before cloudbox is asked
/// for another key, and whether it still names that one.
const NAMED_AGAIN: Duration = Duration::from_mins(15);

/// What became of a node after `up`.
pub(super) enum Settled {
    Healthy,
    KeyRefused(String),
    Not(String),
}

impl Refresher {
    /// Heals with at most `keys` keys: each after the first only because the one before was refused.
    pub(super) fn heal_with_keys(&mut self, keys: u32) -> Result<(), Error> {
        self.control_server_answers()?;
        let mut refusal = String::new();
        for _ in 0..keys {
            match self.register()? {
                None => return Ok(()),
                Some(why) => refusal = why,
            }
            debug!("the key was refused: {refusal}");
        }
        Err(Error::NotRegistered(format!("the key was refused: {refusal}")))
    }

    /// Makes sure that a key would not be wasted: the control server must be there, where its address is known,
    /// and so must the one that cloudbox named lately.
    fn control_server_answers(&mut self) -> Result<(), Error> {
        if let Some(server) = self.control_server()? {
            self.answers(&server)?;
        }
        match &self.silent {
            Some((server, since)) if since.elapsed() < NAMED_AGAIN => self.answers(server),
            _ => Ok(()),
        }
    }

    fn answers(&self, server: &Url) -> Result<(), Error> {
        match self.control.answers(server) {
            Err(Error::ControlAway(_)) if self.out_of_reach(server) => Ok(()),
            Err(Error::ControlAway(why)) => Err(Error::ControlAway(format!("{}: {why}", server.as_str()))),
            answer => answer,
        }
    }

    /// Spends one key. `Some`: it was refused, for this reason.
    fn register(&mut self) -> Result<Option<String>, Error> {
        let credentials = self.keys.fetch()?;
        self.report.key_spent();
        let login_server = self.new_login_server(&credentials)?;
        let registration =
            Registration { login_server: login_server.as_str().into(), advertise_routes: self.routes(&credentials)? };
        debug!("registering at {}", login_server.as_str());
        let outcome = self.node.up(&registration, credentials.auth_key)?;
        let (limit, said) = match outcome {
            UpOutcome::Done => (SETTLE, String::new()),
            UpOutcome::KeyRefused(why) => return Ok(Some(why)),
            UpOutcome::Denied(why) => return Err(Error::Denied(why)),
            UpOutcome::OtherLoginServer(why) | UpOutcome::Failed(why) => (SETTLE_AFTER_FAILURE, why),
        };
        let reason = match self.settle(limit)? {
            Settled::Healthy => {
                let former = self.login_server.replace(login_server);
                if self.is_known()? {
                    return Ok(None);
                }
                // An address that did not prove good must not stand in the way of the next heal.
                self.login_server = former;
                "the control server does not know this node".into()
            }
            Settled::KeyRefused(why) => return Ok(Some(why)),
            Settled::Not(reason) => reason,
        };
        // What `up` complained of says more than how the node looks after it.
        Err(Error::NotRegistered(if said.is_empty() { reason } else { said }))
    }

    /// Where the node is to register: CONTROL_URL, else what cloudbox says, else where it has been. Without
    /// any, `up --reset` would turn it to Tailscale's own server. A server that cloudbox names anew must
    /// answer, or the node would be sent to nowhere.
    fn new_login_server(&mut self, credentials: &Credentials) -> Result<Url, Error> {
        if let Some(url) = &self.options.control_url {
            return Ok(url.clone());
        }
        let known = self.control_server()?;
        if credentials.login_server.is_empty() {
            let none = || of_no_use("they name no login server, and CONTROL_URL is not set");
            return known.ok_or_else(none);
        }
        let named =
            Url::parse(&credentials.login_server).map_err(|why| of_no_use(&format!("login server: {why}")))?;
        if known.as_ref() != Some(&named)
            && !named.is_tailscales_own()
            && let Err(error) = self.answers(&named)
        {
            self.silent = Some((named, Instant::now()));
            return Err(error);
        }
        self.silent = None;
        Ok(named)
    }

    /// The CIDRs to advertise.
    fn routes(&self, credentials: &Credentials) -> Result<String, Error> {
        let cidr = match credentials.pod_cidr.as_str() {
            "" => &self.options.pod_cidr,
            _ if self.options.ignore_credential_pod_cidr => &self.options.pod_cidr,
            cidr => cidr,
        };
        routes::normalise(cidr).map_err(|why| of_no_use(&show(&why, &[])))
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
                        State::Stuck => return Ok(Settled::Not(self.node.shown(&verdict.reason))),
                        _ => {}
                    }
                    match status.key_refusal() {
                        Some(why) if waited >= *refused_since.get_or_insert(waited) + REFUSAL_STAYS => {
                            return Ok(Settled::KeyRefused(self.node.shown(why)));
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
                return Ok(Settled::Not(self.node.shown(&reason)));
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

fn of_no_use(why: &str) -> Error {
    Error::Unusable(format!("the credentials are of no use: {why}"))
}
