//! A connection's bytes, with or without TLS, and HTTP/1.1 as far as the tests need it.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::answer::{Answer, Manner};
use super::server::Request;

/// How long a read waits before it looks whether the server is closing.
const TICK: Duration = Duration::from_millis(50);

/// One accepted connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    closing: Arc<AtomicBool>,
    /// Read but not yet used.
    ahead: Vec<u8>,
}

trait Stream: Read + Write + Send {
    /// Ends the connection as a careful server would.
    fn finish(&mut self);
}

impl Stream for TcpStream {
    fn finish(&mut self) {}
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn finish(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }
}

impl Connection {
    /// Takes a connection over; TLS begins with the first read.
    pub fn new(socket: TcpStream, tls: Option<&Arc<ServerConfig>>, closing: Arc<AtomicBool>) -> io::Result<Self> {
        socket.set_read_timeout(Some(TICK))?;
        socket.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(socket),
            Some(config) => {
                let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        Ok(Self { stream, closing, ahead: Vec::new() })
    }

    /// The next request; none when the other side is done.
    pub fn request(&mut self) -> io::Result<Option<Request>> {
        let head = loop {
            if let Some(end) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.ahead.split_off(end + 4);
                break std::mem::replace(&mut self.ahead, rest);
            }
            if !self.more()? {
                return Ok(None);
            }
            if !self.ahead[0].is_ascii_uppercase() {
                // TLS where there is none: no method begins so.
                self.stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
                return Ok(None);
            }
        };
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap_or_default().split(' ');
        let mut request = Request {
            method: first.next().unwrap_or_default().to_owned(),
            path: first.next().unwrap_or_default().to_owned(),
            headers: lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_lowercase(), value.trim_matches(' ').to_owned()))
                .collect(),
            body: String::new(),
            at: Instant::now(),
        };
        let length = request.header("content-length").map_or(0, |text| text.parse().expect("a content length"));
        while self.ahead.len() < length {
            if !self.more()? {
                return Ok(None);
            }
        }
        let rest = self.ahead.split_off(length);
        let body = std::mem::replace(&mut self.ahead, rest);
        request.body = String::from_utf8_lossy(&body).into_owned();
        Ok(Some(request))
    }

    /// Answers; whether the connection is good for another request.
    pub fn answer(&mut self, answer: &Answer) -> io::Result<bool> {
        match answer.manner {
            Manner::HangUp => return Ok(false),
            Manner::Silence => {
                while self.more()? {}
                return Ok(false);
            }
            Manner::Late(pause) if !self.pause(pause) => return Ok(false),
            _ => {}
        }
        let mut head = format!("HTTP/1.1 {} Scripted\r\n", answer.status);
        for (name, value) in &answer.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if answer.status != 204 {
            let length =
                if let Manner::Announced(length) = answer.manner { length } else { answer.body.len() as u64 };
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        self.stream.write_all((head + "\r\n").as_bytes())?;
        match answer.manner {
            Manner::CutOff => {
                self.stream.write_all(&answer.body[..answer.body.len() / 2])?;
                self.stream.flush()?;
                return Ok(false);
            }
            Manner::Drip(pause) => {
                for byte in &answer.body {
                    self.stream.write_all(&[*byte])?;
                    self.stream.flush()?;
                    if !self.pause(pause) {
                        return Ok(false);
                    }
                }
            }
            _ => self.stream.write_all(&answer.body)?,
        }
        self.stream.flush()?;
        Ok(!matches!(answer.manner, Manner::Announced(_)))
    }

    /// Says goodbye.
    pub fn finish(&mut self) {
        self.stream.finish();
    }

    /// Reads some more; false at the end, be it the other side's or the server's.
    fn more(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        loop {
            if self.closing.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.ahead.extend_from_slice(&buffer[..count]);
                    return Ok(true);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets time pass, unless the server closes meanwhile.
    fn pause(&self, length: Duration) -> bool {
        !super::wait::within(length, || self.closing.load(Ordering::Relaxed))
    }
}
