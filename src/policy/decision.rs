//! What goes into a policy and what comes out of it.

use std::fmt;
use std::time::Duration;

use crate::control::Membership;
use crate::error::Error;
use crate::node::status::{State, Verdict};

/// How often a healthy node is looked at.
///
/// What is repaired is rare, but it leaves the node unusable until it is; and a look is one cheap command.
pub const DEFAULT_INTERVAL: Duration = Duration::from_mins(1);

/// What the policy depends on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The time between two looks at a healthy node.
    pub interval: Duration,
    /// The time between two questions to the control server about a healthy node; `None`: never.
    pub membership_interval: Option<Duration>,
    /// A node that somebody stopped is brought up again.
    pub resume_stopped: bool,
}

/// What was seen.
#[derive(Debug)]
pub enum Seen {
    /// A look at the node.
    Look(Verdict),
    /// What the control server says of it.
    Membership(Membership),
    /// A heal, or what hindered it (or a question) from the start.
    Heal(Result<(), Error>),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait, then look at the node.
    Wait(Duration),
    /// Ask the control server whether it knows the node.
    Ask,
    /// Bring a stopped node up again and look at it.
    Resume,
    /// Register the node anew.
    Heal {
        /// A refused key may be followed by another one at once.
        second_key: bool,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(time) => write!(f, "wait {} s", time.as_secs()),
            Self::Ask => f.write_str("ask the control server"),
            Self::Resume => f.write_str("bring it up again"),
            Self::Heal { .. } => f.write_str("heal"),
        }
    }
}

/// What others should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What the node is.
    pub state: State,
    /// Tells whether this is news: the same topic is not told twice.
    pub topic: String,
    /// What is, and what is done about it.
    pub text: String,
    /// When a heal that failed is tried again.
    pub next_attempt: Option<Duration>,
}

/// What is to be done, and what is to be told.
#[derive(Debug)]
pub struct Decision {
    /// The next step.
    pub action: Action,
    /// `None`: what was told last still holds.
    pub news: Option<News>,
}

impl Decision {
    /// Nothing is to be told.
    pub(super) fn silent(action: Action) -> Self {
        Self { action, news: None }
    }
}
