//! cloudbox, where keys come from.

mod authkey;
mod retry_after;

use std::path::PathBuf;
use std::time::Duration;

pub use authkey::Credentials;

use crate::clock;
use crate::error::Error;
use crate::file;
use crate::net::url::Url;
use crate::net::{Answer, Http};
use crate::secret::{Secret, show};

/// How long a whole request may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The longest access token that is read, in bytes: header lines have to end somewhere.
const MAX_TOKEN: u64 = 16 * 1024;

/// Who can issue a key.
pub trait KeySource {
    /// Asks for fresh credentials. Each call costs a key.
    ///
    /// # Errors
    /// Why there are none; see [`Error`] for what to do about each.
    fn fetch(&self) -> Result<Credentials, Error>;
}

/// Where the access token comes from.
#[derive(Debug)]
pub enum Token {
    /// It is this.
    Value(Secret),
    /// It is in this file, which is read at each request: it may be provisioned or renewed at any time.
    File(PathBuf),
}

/// Fetches overlay credentials for one paired host.
pub struct Client {
    base_url: String,
    token: Token,
    agent_name: String,
    http: Http,
}

impl Client {
    /// A client that asks the cloudbox at `base_url` for the host registered as `agent_name`.
    #[must_use]
    pub fn new(base_url: &str, token: Token, agent_name: &str, http: Http) -> Self {
        Self { base_url: base_url.trim().to_owned(), token, agent_name: agent_name.trim().to_owned(), http }
    }

    /// Asks for a fresh single-use key. The whole request takes at most 30 s.
    ///
    /// # Errors
    /// [`Error::OverlayDisabled`] for a 503, [`Error::Throttled`] for a 429, [`Error::Refused`] for 401,
    /// 403 and 404, [`Error::Unusable`] for a 200 without a good key, [`Error::Unavailable`] for any other
    /// trouble with the server or its answer;
    /// [`Error::Invalid`] before any request if the base address, the token or the agent name is
    /// empty or unfit.
    pub fn fetch(&self) -> Result<Credentials, Error> {
        let url = Url::parse(&self.base_url).map_err(|why| Error::Invalid(format!("cloudbox's address: {why}")))?;
        if !url.is_https() && !url.is_loopback() {
            return Err(Error::Invalid("cloudbox's address must be https: the access token goes there".into()));
        }
        if self.agent_name.is_empty() {
            return Err(Error::Invalid("the agent name is empty".into()));
        }
        let token = self.token.read()?;
        let answer = self
            .http
            .post(&url, authkey::PATH, Some(&token), &authkey::question(&self.agent_name), LIMIT)
            .map_err(|none| none.into_error(|why| Error::Unavailable(show(&why, &[&token]))))?;
        judge(&answer)
    }
}

impl KeySource for Client {
    fn fetch(&self) -> Result<Credentials, Error> {
        self.fetch()
    }
}

impl Token {
    fn read(&self) -> Result<Secret, Error> {
        let (origin, text) = match self {
            Self::Value(secret) => ("the access token".into(), secret.expose().to_owned()),
            Self::File(path) => {
                let origin = format!("token file {}", path.display());
                let text =
                    file::read_text(path, MAX_TOKEN).map_err(|why| Error::Invalid(format!("{origin}: {why}")))?;
                (origin, text)
            }
        };
        let text = Secret::new(text);
        // An editor on Windows leaves a byte order mark.
        let token = Secret::new(text.expose().trim_start_matches('\u{feff}').trim().to_owned());
        if token.expose().is_empty() {
            return Err(Error::Invalid(format!("{origin} is empty")));
        }
        if !token.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Invalid(format!("{origin} must hold one word of printable ASCII characters")));
        }
        Ok(token)
    }
}

/// What an answer means.
fn judge(answer: &Answer) -> Result<Credentials, Error> {
    let retry_after = || {
        let value = answer.headers.get("retry-after")?.to_str().ok()?;
        retry_after::parse(value, clock::now())
    };
    match answer.status {
        200 => authkey::answer(answer.body.expose()).map_err(|why| Error::Unusable(why.into())),
        429 => Err(Error::Throttled { retry_after: retry_after() }),
        503 => Err(Error::OverlayDisabled { from_cloudbox: is_json(answer), retry_after: retry_after() }),
        status @ (401 | 403 | 404) => Err(Error::Refused { status }),
        status => Err(Error::Unavailable(format!("the answer has status {status}"))),
    }
}

/// A proxy's error page is HTML, or says nothing.
fn is_json(answer: &Answer) -> bool {
    let named = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
    named.is_some_and(|name| name.contains("json")) || answer.body.expose().trim_start().starts_with('{')
}
