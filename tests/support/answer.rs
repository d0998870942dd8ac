//! What a scripted server answers, and how.

use std::time::Duration;

/// How an answer goes over the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    /// As it should.
    Whole,
    /// Whole, after a pause.
    Late(Duration),
    /// The head at once, then a byte of the body every so often.
    Drip(Duration),
    /// Announces the whole body, sends half of it and hangs up.
    CutOff,
    /// Announces so many bytes, sends the body and hangs up.
    Announced(u64),
    /// Hangs up instead of answering.
    HangUp,
    /// Keeps the connection and says nothing.
    Silence,
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Header lines besides Content-Length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How it is sent.
    pub manner: Manner,
}

impl Answer {
    /// An answer of a type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Self { status, headers, body: body.into(), manner: Manner::Whole }
    }

    /// A JSON answer.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "application/json", body)
    }

    /// A page, as a proxy in between shows it.
    pub fn html(status: u16) -> Self {
        let body = format!("<html><body><h1>{status}</h1></body></html>\n");
        Self::new(status, "text/html", body)
    }

    /// No answer but how it fails.
    pub fn none(manner: Manner) -> Self {
        Self::json(200, "{}").by(manner)
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sent in another manner.
    pub fn by(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}
