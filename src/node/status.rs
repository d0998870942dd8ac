//! From the document that `tailscale status --json` prints to a [`Verdict`]. Pure.
//!
//! Texts and states are those of tailscale 1.102.3 unless a release is named.

use miniserde::{Deserialize, json};

/// A sliver of the document. Small builds leave out Health, and Go writes an empty list as null.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "BackendState")]
    backend_state: Option<String>,
    #[serde(rename = "Self")]
    this_node: Option<ThisNode>,
    #[serde(rename = "Health")]
    health: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ThisNode {
    #[serde(rename = "HostName")]
    host_name: Option<String>,
    #[serde(rename = "PublicKey")]
    public_key: Option<String>,
    #[serde(rename = "Online")]
    online: Option<bool>,
    #[serde(rename = "InNetworkMap")]
    in_network_map: Option<bool>,
}

/// What the node says of itself.
pub struct Status {
    backend_state: String,
    this_node: Option<ThisNode>,
    health: Vec<String>,
}

/// What a document means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Registered and in contact.
    Healthy,
    /// On the way up; normal for up to 90 s at boot.
    Starting,
    /// Registered as far as the node knows, but without contact to the control server.
    OutOfTouch {
        /// The node itself complains of it, which it does only after minutes.
        for_long: bool,
    },
    /// The node is logged out.
    Unregistered,
    /// Somebody said `tailscale down`.
    Stopped,
    /// Something is wrong that no key can help with.
    Stuck,
    /// Nothing follows from this document, or there is none.
    CannotTell,
}

/// What a document means, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it means.
    pub state: State,
    /// Why, for a human. Texts of the node in here are as the node wrote them.
    pub reason: String,
}

impl Verdict {
    /// What a node is that says it is well, or merely out of touch, while the control server does not know it.
    #[must_use]
    pub fn forgotten() -> Self {
        let state = State::OutOfTouch { for_long: false };
        Self { state, reason: "the control server has forgotten this node".into() }
    }
}

/// The two vocabularies for "no contact": since 1.70, at the earliest 8 min 10 s after the loss, and before, after 10 s.
const COORDINATION: [&str; 2] = ["unable to connect to the tailscale coordination server", "not in map poll"];

/// The two vocabularies for "logged out": since 1.70, and before.
const LOGGED_OUT: [&str; 2] = ["you are logged out", "not logged in"];

/// What stands before the login error, in both vocabularies.
const LOGIN_ERROR: [&str; 2] = ["last login error was:", "last login error="];

/// The state file cannot be used; no key helps.
const STORE_BROKEN: &str = "state store failed to initialize";

/// Login errors that only mean that the control server was not reached: registered or not, nobody has said no.
const NOT_REACHED: [&str; 16] = [
    "fetch control key",
    "failed to resolve",
    "no dns fallback candidates",
    "no such host",
    "server misbehaving",
    "context deadline exceeded",
    "context canceled",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "i/o timeout",
    "tls handshake",
    "x509:",
    "unexpected http response",
    "eof",
];

/// How headscale and Tailscale's server refuse a pre-auth key.
const KEY_REFUSED: [&str; 6] = [
    "invalid pre auth key",
    "authkey expired",
    "authkey already used",
    "authkey not found",
    "auth-key not found",
    "authkey revoked",
];

/// `text` says that the pre-auth key was refused: a fresh one may help.
#[must_use]
pub fn refuses_key(text: &str) -> bool {
    contains_any(text, &KEY_REFUSED)
}

fn contains_any(text: &str, needles: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    needles.iter().any(|needle| text.contains(needle))
}

impl Status {
    /// Reads the document; `None` if it is none.
    #[must_use]
    pub fn parse(document: &str) -> Option<Self> {
        let document: Document = json::from_str(document).ok()?;
        Some(Self {
            backend_state: document.backend_state.unwrap_or_default(),
            this_node: document.this_node,
            health: document.health.unwrap_or_default(),
        })
    }

    /// The rule of the Go package, to the letter: Running, in the network map, and no complaint about the
    /// coordination server. Necessary, but not enough (see [`Status::verdict`]).
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.backend_state.eq_ignore_ascii_case("Running")
            && self.this_node.as_ref().is_some_and(|node| node.in_network_map == Some(true))
            && !self.health.iter().any(|text| contains_any(text, &COORDINATION[..1]))
    }

    /// The node's public key (`nodekey:…`), if it is one that can be asked about: without a network map it
    /// is all zeros.
    #[must_use]
    pub fn node_key(&self) -> Option<&str> {
        let key = self.this_node.as_ref()?.public_key.as_deref()?;
        let digits = key.strip_prefix("nodekey:")?;
        digits.bytes().any(|digit| digit != b'0').then_some(key)
    }

    /// The node's host name, or nothing.
    #[must_use]
    pub fn host_name(&self) -> &str {
        self.this_node.as_ref().and_then(|node| node.host_name.as_deref()).unwrap_or_default()
    }

    /// The backend state as the node wrote it.
    #[must_use]
    pub fn backend_state(&self) -> &str {
        &self.backend_state
    }

    /// The text with which the last pre-auth key was refused. It may be an old one.
    #[must_use]
    pub fn key_refusal(&self) -> Option<&str> {
        self.logged_out()?.login_error.filter(|error| refuses_key(error))
    }

    /// What this document means; the first rule that matches decides.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdict = |state, reason: &str| Verdict { state, reason: reason.into() };
        let backend = self.backend_state.to_ascii_lowercase();
        match backend.as_str() {
            "nostate" | "needslogin" | "needsmachineauth" | "stopped" | "starting" | "running" => {}
            "inuseotheruser" => {
                return verdict(State::CannotTell, "another user of this machine is using tailscaled");
            }
            "" => return verdict(State::CannotTell, "the node says nothing of its state"),
            _ => {
                return verdict(
                    State::CannotTell,
                    &format!("the node is in the unknown state {}", self.backend_state),
                );
            }
        }
        if let Some(text) = self.health.iter().find(|text| contains_any(text, &[STORE_BROKEN])) {
            return verdict(State::Stuck, text);
        }
        if backend == "needsmachineauth" {
            return verdict(State::Stuck, "the node waits for an admin's approval");
        }
        if backend == "stopped" {
            return verdict(State::Stopped, "tailscale is down");
        }
        if let Some(LoggedOut { text, login_error }) = self.logged_out() {
            return match login_error {
                Some(error) if contains_any(error, &NOT_REACHED) => {
                    verdict(State::OutOfTouch { for_long: false }, &format!("the node cannot log in: {error}"))
                }
                Some(error) => verdict(State::Unregistered, &format!("the node is logged out: {error}")),
                None => verdict(State::Unregistered, text),
            };
        }
        match backend.as_str() {
            "needslogin" => verdict(State::Unregistered, "the node is logged out (NeedsLogin)"),
            "nostate" | "starting" => {
                verdict(State::Starting, &format!("tailscaled is in state {}", self.backend_state))
            }
            _ => self.running_verdict(),
        }
    }

    fn running_verdict(&self) -> Verdict {
        let verdict = |state, reason: &str| Verdict { state, reason: reason.into() };
        let out_of_touch = |for_long, reason| verdict(State::OutOfTouch { for_long }, reason);
        let complaint = self.health.iter().find(|text| contains_any(text, &COORDINATION));
        let (online, in_network_map) = match &self.this_node {
            Some(ThisNode { online, in_network_map: Some(in_map), .. }) => (*online, *in_map),
            Some(_) => return out_of_touch(false, "the node does not say whether it is in the network map"),
            None => return out_of_touch(false, "the node says nothing of itself"),
        };
        match (in_network_map, online) {
            // Clients before 1.34 never set InNetworkMap for themselves.
            (false, Some(true)) => out_of_touch(false, "the node is online but in no network map"),
            (false, _) => verdict(State::Unregistered, "the node is in no network map"),
            _ if complaint.is_some() => {
                // The old text comes after 10 s, which is not long.
                let text = complaint.map_or("", String::as_str);
                out_of_touch(contains_any(text, &COORDINATION[..1]), text)
            }
            (true, Some(false)) => out_of_touch(false, "the node is not online"),
            (true, _) => verdict(State::Healthy, "registered and in contact"),
        }
    }

    fn logged_out(&self) -> Option<LoggedOut<'_>> {
        let text = self.health.iter().find(|text| {
            let text = text.trim_start().to_ascii_lowercase();
            LOGGED_OUT.iter().any(|prefix| text.starts_with(prefix))
        })?;
        let lower = text.to_ascii_lowercase();
        let login_error = LOGIN_ERROR.iter().find_map(|marker| {
            let at = lower.find(marker)? + marker.len();
            let error = text[at..].trim();
            (!error.is_empty()).then_some(error)
        });
        Some(LoggedOut { text, login_error })
    }
}

/// A Health entry that says that the node is logged out.
struct LoggedOut<'a> {
    text: &'a str,
    login_error: Option<&'a str>,
}
