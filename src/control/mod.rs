//! The control server's own word on whether it knows this node.

mod verify;

use std::time::Duration;

use crate::error::Error;
use crate::net::url::Url;
use crate::net::{Answer, Http, NoAnswer};
use crate::secret::show;

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Which client's protocol the question for the server's key is asked in: any version is answered; this
/// is that of tailscale 1.80, the oldest that headscale 0.29 accepts.
const KEY_PATH: &str = "/key?v=113";

/// What the control server says of a node key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It knows this node.
    Known,
    /// It does not.
    Forgotten,
    /// It could not be reached, or a gateway answered in its place.
    NoAnswer(String),
    /// It answers, but not this question; or there is no node key to ask about.
    Unsupported,
    /// It was not asked: its address is unknown or out of reach from here.
    NotAsked,
}

/// The control server.
pub trait ControlServer {
    /// Asks the one at `server` whether it knows the node key.
    ///
    /// # Errors
    /// [`Error::ClockNotSet`] and [`Error::Stopped`] only; anything else is a [`Membership`].
    fn knows(&self, server: &Url, node_key: &str) -> Result<Membership, Error>;

    /// Asks the one at `server` for its public key, as any client does first: whatever it answers, it is
    /// there.
    ///
    /// # Errors
    /// [`Error::ControlAway`], [`Error::ClockNotSet`] or [`Error::Stopped`].
    fn answers(&self, server: &Url) -> Result<(), Error>;
}

impl ControlServer for Http {
    fn knows(&self, server: &Url, node_key: &str) -> Result<Membership, Error> {
        match self.post(server, "/verify", None, &verify::question(node_key), LIMIT) {
            Ok(Answer { status, body, .. }) => Ok(verify::answer(status, body.expose())),
            Err(NoAnswer::Failed(why)) => Ok(Membership::NoAnswer(show(&why, &[]))),
            Err(none) => Err(none.into_error(Error::ControlAway)),
        }
    }

    fn answers(&self, server: &Url) -> Result<(), Error> {
        match self.get(server, KEY_PATH, LIMIT) {
            // These are a gateway's word that the server behind it is away; the second ones are Cloudflare's.
            Ok(Answer { status: status @ (502..=504 | 520..=530), .. }) => {
                Err(Error::ControlAway(format!("status {status}")))
            }
            Ok(_) => Ok(()),
            Err(none) => Err(none.into_error(|why| Error::ControlAway(show(&why, &[])))),
        }
    }
}
