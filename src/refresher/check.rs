//! One look, for somebody who asks.

use super::Refresher;
use crate::control::Membership;
use crate::error::Error;
use crate::node::status::{State, Verdict};

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

impl Checked {
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
        let status = match self.node.look() {
            Ok(status) => status,
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => return Ok(Checked::unreadable(&error)),
        };
        let mut verdict = status.verdict();
        let mut membership = Membership::NotAsked;
        let worth_a_question = match verdict.state {
            State::Healthy => ask_about_healthy,
            State::OutOfTouch { .. } => true,
            _ => false,
        };
        if worth_a_question
            && let Some(key) = status.node_key()
            && let Some(server) = self.control_server()?
        {
            membership = match self.control.knows(&server, key) {
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => Membership::NoAnswer(error.to_string()),
                Ok(membership) => membership,
            };
        }
        if membership == Membership::Forgotten {
            verdict = Verdict {
                state: State::OutOfTouch { for_long: false },
                reason: "the control server has forgotten this node".into(),
            };
        }
        Ok(Checked {
            verdict,
            membership,
            backend_state: status.backend_state().into(),
            node: status.host_name().into(),
        })
    }
}
