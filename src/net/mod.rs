//! The HTTP client that [`cloudbox`](crate::cloudbox) and [`control`](crate::control) share: one thread,
//! answers bounded in size and time, no redirects, no proxies, TLS always verified.

mod crypto;
mod dns;
pub mod resolver;
mod tls;
pub mod url;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ureq::Agent;
use ureq::Body;
use ureq::config::Config;
use ureq::http::{HeaderMap, Response};
use ureq::unversioned::transport::{Connector as _, TcpConnector};

use self::resolver::{Names, Pin};
use self::url::Url;
use crate::clock;
use crate::error::Error;
use crate::secret::Secret;
use crate::signals::Signals;

/// An answer longer than this is refused, in bytes: what is asked here is answered in a few hundred.
const MAX_BODY: u64 = 64 * 1024;

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The wall clock stands before the build date: no certificate could be valid.
    ClockNotSet,
    /// A signal asked the program to end.
    Stopped,
    /// The server could not be reached, or what came is no HTTP answer of a reasonable size.
    Failed(String),
}

impl NoAnswer {
    /// The error for a caller to whom a server that does not answer is `failed`.
    pub fn into_error(self, failed: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::ClockNotSet => Error::ClockNotSet,
            Self::Stopped => Error::Stopped,
            Self::Failed(why) => failed(why),
        }
    }
}

/// What a server said.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The header lines.
    pub headers: HeaderMap,
    /// The body, at most 64 KiB. It may hold a key.
    pub body: Secret,
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct Http {
    /// Made at the first request: most devices never need one, and the roots take 100 KB.
    agent: Rc<OnceCell<Agent>>,
    ca_file: Option<PathBuf>,
    pinned: Vec<Pin>,
    signals: Option<Rc<Signals>>,
}

impl Http {
    /// A client that trusts the built-in roots, the system's and those of `ca_file` (PEM), that knows the
    /// addresses `pinned`, and that is ended by `signals`, if there are any.
    ///
    /// # Errors
    /// `ca_file` cannot be read or holds no certificate.
    pub fn new(ca_file: Option<&Path>, pinned: Vec<Pin>, signals: Option<Rc<Signals>>) -> Result<Self, String> {
        if let Some(path) = ca_file {
            tls::check(path)?;
        }
        Ok(Self { agent: Rc::default(), ca_file: ca_file.map(Into::into), pinned, signals })
    }

    fn agent(&self) -> Result<&Agent, NoAnswer> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0) // the next request is minutes away
            // A quarter of what ureq takes, twice, for each connection.
            .input_buffer_size(32 * 1024)
            .output_buffer_size(8 * 1024)
            .user_agent(concat!("overlaykey/", env!("CARGO_PKG_VERSION")))
            .build();
        let tls = tls::TlsConnector::new(self.ca_file.as_deref())
            .map_err(|why| NoAnswer::Failed(format!("CA_FILE: {why}")))?;
        let names = Names { pinned: self.pinned.clone() };
        Ok(self.agent.get_or_init(|| Agent::with_parts(config, TcpConnector::default().chain(tls), names)))
    }

    /// Posts `body`, which is JSON, to `path` under `server`, with the bearer `token` if there is one. The whole of
    /// it takes at most `limit`.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn post(
        &self,
        server: &Url,
        path: &str,
        token: Option<&Secret>,
        body: &str,
        limit: Duration,
    ) -> Result<Answer, NoAnswer> {
        self.request(server, |agent| {
            let mut request = agent.post(server.join(path)).header("Content-Type", "application/json");
            if let Some(token) = token {
                request = request.header("Authorization", format!("Bearer {}", token.expose()));
            }
            request.config().timeout_global(Some(limit)).build().send(body)
        })
    }

    /// Gets `path` under `server`. The whole of it takes at most `limit`.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn get(&self, server: &Url, path: &str, limit: Duration) -> Result<Answer, NoAnswer> {
        self.request(server, |agent| agent.get(server.join(path)).config().timeout_global(Some(limit)).build().call())
    }

    fn request(
        &self,
        server: &Url,
        send: impl FnOnce(&Agent) -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Answer, NoAnswer> {
        if server.is_https() && !clock::is_set() {
            return Err(NoAnswer::ClockNotSet);
        }
        let agent = self.agent()?;
        let whole = || send(agent).and_then(read);
        match &self.signals {
            Some(signals) => signals.during_request(whole).ok_or(NoAnswer::Stopped)?,
            None => whole(),
        }
        .map_err(|error| NoAnswer::Failed(explain(&error)))
    }
}

fn read(answer: Response<Body>) -> Result<Answer, ureq::Error> {
    let (head, mut body) = answer.into_parts();
    let body = body.with_config().limit(MAX_BODY).lossy_utf8(true).read_to_string()?;
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: Secret::new(body) })
}

/// In the words of somebody who looks at a serial console.
fn explain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::HostNotFound => "the name does not resolve".into(),
        ureq::Error::BodyExceedsLimit(limit) => format!("the answer is longer than {limit} bytes"),
        ureq::Error::Io(io) => match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => tls::explain(tls),
            None => io.to_string(),
        },
        ureq::Error::Rustls(tls) => tls::explain(tls),
        other => other.to_string(),
    }
}
