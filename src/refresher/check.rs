//! One look, for somebody who asks.

use miniserde::{Serialize, json};

use super::Refresher;
use crate::control::Membership;
use crate::error::Error;
use crate::node::status::{State, Verdict};
use crate::report;
use crate::secret::show;

/// What a check found.
#[derive(Debug)]
pub struct Checked {
    /// What the node is, in the light of what the control server says.
    pub verdict: Verdict,
    /// What the control server says.
    pub membership: Membership,
    /// The backend state as the node wrote it; empty if it could not be read.
    pub backend_state: String,
    /// The node's host name; empty if it could not be read.
    pub node: String,
}

/// The line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    verdict: &'a str,
    reason: &'a str,
    control: &'a str,
    backend_state: &'a str,
    node: &'a str,
}

impl Checked {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        json::to_string(&Line {
            verdict: report::word(self.verdict.state),
            reason: &show(&self.verdict.reason, &[]),
            control: match self.membership {
                Membership::Known => "known",
                Membership::Forgotten => "forgotten",
                Membership::NoAnswer(_) => "no-answer",
                Membership::Unsupported => "unsupported",
                Membership::NotAsked => "not-asked",
            },
            backend_state: &self.backend_state,
            node: &self.node,
        })
    }

    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let control = match &self.membership {
            Membership::Known => "; the control server knows it".into(),
            Membership::NoAnswer(why) => format!("; the control server does not answer: {why}"),
            Membership::Unsupported => "; the control server cannot be asked about it".into(),
            // The reason says the first; the second says nothing.
            Membership::Forgotten | Membership::NotAsked => String::new(),
        };
        format!("{}: {}{control}", report::word(self.verdict.state), show(&self.verdict.reason, &[]))
    }

    pub(super) fn unreadable(error: &Error) -> Self {
        Self {
            verdict: Verdict { state: State::CannotTell, reason: error.to_string() },
            membership: Membership::NotAsked,
            backend_state: String::new(),
            node: String::new(),
        }
    }
}

impl Refresher {
    /// Looks at the node once, and asks the control server about it where it is out of touch or, if
    /// `ask_about_healthy`, in contact.
    ///
    /// # Errors
    /// [`Error::Stopped`] only.
    pub fn check(&mut self, ask_about_healthy: bool) -> Result<Checked, Error> {
        let status = match self.look() {
            Ok(status) => status,
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => return Ok(Checked::unreadable(&error)),
        };
        let mut verdict = status.verdict();
        let worth_a_question = match verdict.state {
            State::Healthy => ask_about_healthy,
            State::OutOfTouch { .. } => true,
            _ => false,
        };
        let mut membership = Membership::NotAsked;
        if worth_a_question && status.node_key().is_some() {
            membership = match self.ask() {
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => Membership::NoAnswer(error.to_string()),
                Ok(membership) => membership,
            };
        }
        if membership == Membership::Forgotten {
            verdict = Verdict::forgotten();
        }
        Ok(Checked {
            verdict,
            membership,
            backend_state: status.backend_state().into(),
            node: status.host_name().into(),
        })
    }
}
