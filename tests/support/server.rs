//! A server on loopback that answers as a test says and remembers what it was asked.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::answer::Answer;
use super::authority::{Certificate, server_config};
use super::transport::Connection;

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// GET, POST.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As text.
    pub body: String,
    /// When it was complete.
    pub at: Instant,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

type Handler = dyn FnMut(&Request) -> Answer + Send;

/// What the threads of one server share.
struct Shared {
    tls: Option<Arc<ServerConfig>>,
    handler: Mutex<Box<Handler>>,
    requests: Mutex<Vec<Request>>,
    connections: Mutex<usize>,
    closing: Arc<AtomicBool>,
    /// Accepts and never says a word, not even of TLS.
    mute: bool,
    /// Answers every connection with a reset.
    resetting: bool,
}

/// A running server; it ends when dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// A server without TLS.
    pub fn http(handler: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::start(None, handler, false, false)
    }

    /// A server with TLS.
    pub fn https(kind: Certificate, handler: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        Self::start(Some(server_config(kind)), handler, false, false)
    }

    /// A server that accepts connections and never says anything on them.
    pub fn mute() -> Self {
        Self::start(None, |_| unreachable!("it reads nothing"), true, false)
    }

    /// A server that resets each connection once something came over it.
    pub fn resetting() -> Self {
        Self::start(None, |_| unreachable!("it reads nothing"), false, true)
    }

    fn start(
        tls: Option<Arc<ServerConfig>>,
        handler: impl FnMut(&Request) -> Answer + Send + 'static,
        mute: bool,
        resetting: bool,
    ) -> Self {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = socket.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            tls,
            handler: Mutex::new(Box::new(handler)),
            requests: Mutex::default(),
            connections: Mutex::default(),
            closing: Arc::default(),
            mute,
            resetting,
        });
        let listener = thread::spawn({
            let shared = shared.clone();
            move || listen(&socket, &shared)
        });
        Self { address, shared, listener: Some(listener) }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on it answers so.
    pub fn answers(&self, handler: impl FnMut(&Request) -> Answer + Send + 'static) {
        *self.shared.handler.lock().unwrap() = Box::new(handler);
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many requests for paths that begin so it got.
    pub fn asked(&self, path: &str) -> usize {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| request.path.starts_with(path)).count()
    }

    /// How many connections it accepted.
    pub fn connections(&self) -> usize {
        *self.shared.connections.lock().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        // The listener sits in accept: a last connection lets it see.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

fn listen(socket: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = socket.accept() {
        if shared.closing.load(Ordering::Relaxed) {
            return;
        }
        *shared.connections.lock().unwrap() += 1;
        let shared = shared.clone();
        thread::spawn(move || serve(stream, &shared));
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    if shared.resetting {
        // Closing a socket with bytes unread makes the kernel send a reset.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = stream.peek(&mut [0]);
        return;
    }
    if shared.mute {
        while !shared.closing.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        return;
    }
    let Ok(mut connection) = Connection::new(stream, shared.tls.as_ref(), shared.closing.clone()) else {
        return;
    };
    // A client that breaks off, or does not like the certificate, is none of the server's business.
    while let Ok(Some(request)) = connection.request() {
        let answer = (shared.handler.lock().unwrap())(&request);
        shared.requests.lock().unwrap().push(request);
        if !connection.answer(&answer).unwrap_or(false) {
            break;
        }
    }
    connection.finish();
}
