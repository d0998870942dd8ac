//! Errors, split by what the caller must do about them.

use std::fmt;
use std::time::Duration;

/// Why something did not work. No text in here holds a secret.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operation cannot be begun with what is configured (an empty access token, a bad CIDR, a token
    /// file that cannot be read): nothing was sent. Set it right and try again.
    Invalid(String),

    /// The wall clock stands before the day this program was built, so that TLS would refuse every
    /// certificate. Nothing was sent; try again once the clock is set.
    ClockNotSet,

    /// cloudbox answered 503: it is not running the overlay at all. Proxies answer the same during a
    /// deploy, so ask again, but ever more slowly.
    OverlayDisabled {
        /// The answer was JSON, so it came from cloudbox itself and not from a proxy before it.
        from_cloudbox: bool,
        /// How long cloudbox wants to be left alone.
        retry_after: Option<Duration>,
    },

    /// cloudbox answered 429: it was asked too recently. Ask again later.
    Throttled {
        /// How long cloudbox wants to be left alone.
        retry_after: Option<Duration>,
    },

    /// cloudbox answered 401, 403 or 404: the access token or the address is wrong. A human must act.
    Refused {
        /// The HTTP status.
        status: u16,
    },

    /// cloudbox could not be reached, or did not answer with credentials. Passes by itself.
    Unavailable(String),

    /// cloudbox issued credentials that are of no use, and a key may be spent with each. Ask again, but not
    /// soon.
    Unusable(String),

    /// The node could not be asked about its state. That is no evidence of anything: do nothing.
    CannotTell(String),

    /// The control server does not answer, so a key would be wasted. Passes by itself.
    ControlAway(String),

    /// `tailscale up` may not do what it is asked (no permission, an unknown flag): no key can help
    /// until somebody changes that.
    Denied(String),

    /// The heal was carried out and the node is still not registered, for this reason.
    NotRegistered(String),

    /// A signal asked the program to end.
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) | Self::CannotTell(what) => f.write_str(what),
            Self::ClockNotSet => f.write_str("the clock is not set"),
            Self::OverlayDisabled { from_cloudbox: true, .. } => f.write_str("overlay not enabled on cloudbox (503)"),
            Self::OverlayDisabled { .. } => f.write_str("cloudbox is away, or has no overlay (503)"),
            Self::Throttled { .. } => f.write_str("throttled by cloudbox (429)"),
            Self::Refused { status: 404 } => {
                f.write_str("cloudbox does not know this address (404): check CLOUDBOX_URL and AGENT_NAME")
            }
            Self::Refused { status } => write!(f, "cloudbox refused the access token ({status})"),
            Self::Unavailable(what) | Self::Unusable(what) => write!(f, "cloudbox: {what}"),
            Self::ControlAway(what) => write!(f, "the control server does not answer: {what}"),
            Self::Denied(what) => write!(f, "tailscale up: {what}"),
            Self::NotRegistered(why) => write!(f, "still not registered: {why}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_small() {
        assert!(size_of::<Error>() <= 32, "{}", size_of::<Error>());
    }
}
