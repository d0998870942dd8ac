//! TLS by rustls. ureq's own connector can neither add a file's certificates to the built-in roots nor
//! use another clock than std's.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter, time,
};

use super::crypto;
use super::url::bare;
use crate::{clock, file};

/// Where distributions keep their bundle: Debian, Alpine and Buildroot; OpenWrt has the same by
/// ca-bundle; then Fedora and the BSD-like `/etc/ssl/cert.pem`.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The largest bundle that is read, in bytes; Debian's has 220 KB.
const MAX_BUNDLE: u64 = 4 << 20;

/// The certificates that are trusted: Mozilla's roots that are built in (feature `webpki-roots`), the
/// first system bundle there is, and those of `ca_file`. Only `ca_file` can be at fault: somebody named
/// it, so it must be there and hold a certificate.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    #[cfg(feature = "webpki-roots")]
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for bundle in SYSTEM_BUNDLES {
        if add(&mut roots, Path::new(bundle)).is_ok_and(|added| added > 0) {
            break;
        }
    }
    if let Some(path) = ca_file {
        match add(&mut roots, path) {
            Ok(0) => return Err(no_certificate(path)),
            Ok(_) => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(roots)
}

/// Whether the file at `path` looks as if it would do as `CA_FILE`: its certificates are not read until they are needed.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let pem = file::read(path, MAX_BUNDLE).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = CertificateDer::pem_slice_iter(&pem).any(|certificate| certificate.is_ok());
    found.then_some(()).ok_or_else(|| no_certificate(path))
}

fn no_certificate(path: &Path) -> String {
    format!("{} holds no certificate in PEM form", path.display())
}

/// Adds the certificates of a PEM file, and returns how many there are; those that rustls cannot use are passed over.
fn add(roots: &mut RootCertStore, path: &Path) -> io::Result<usize> {
    let pem = file::read(path, MAX_BUNDLE)?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok) {
        let Ok(root) = webpki::anchor_from_trusted_cert(&certificate) else { continue };
        count += 1;
        // A system's bundle has mostly what is built in: it would take 200 KB once more.
        let known = |other: &TrustAnchor| {
            other.subject == root.subject && other.subject_public_key_info == root.subject_public_key_info
        };
        if !roots.roots.iter().any(known) {
            roots.roots.push(root.to_owned());
        }
    }
    Ok(count)
}

/// What is wrong with a certificate, in words for a human.
pub(super) fn explain(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return format!("TLS: {error}");
    };
    match certificate {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired (or this clock is wrong)".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet (or this clock is wrong)".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".into()
        }
        CertificateError::UnknownIssuer => "its certificate is by an unknown authority (see CA_FILE)".into(),
        other => format!("its certificate is not valid: {other}"),
    }
}

/// The clock of this program, for certificates.
#[derive(Debug)]
struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(clock::now()))
    }
}

/// Wraps the connection in TLS where the address says https.
pub struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    /// A connector that trusts [`roots`].
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let provider = crypto::provider();
        let mut config = ClientConfig::builder_with_details(Arc::new(provider), Arc::new(WallClock))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(ca_file)?)
            .with_no_client_auth();
        // One handshake in many minutes: a session cache would only hold memory.
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport<In>>;

    fn connect(&self, details: &ConnectionDetails, tcp: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(tcp) = tcp else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(tcp)));
        }
        let host = bare(details.uri.host().unwrap_or_default());
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls("not a host name for TLS"))?;
        let mut session = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut tcp = TransportAdapter::new(tcp, Arc::clone(&details.current_time));
        tcp.set_timeout(left(details));
        session.complete_io(&mut tcp)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { buffers, stream: StreamOwned::new(session, tcp) })))
    }
}

/// What is left of the time limit after the TCP connection was made.
fn left(details: &ConnectionDetails) -> NextTimeout {
    let mut left = details.timeout;
    if let (time::Instant::Exact(begun), time::Duration::Exact(limit)) = (details.now, left.after) {
        left.after = time::Duration::Exact(limit.saturating_sub(begun.elapsed()));
    }
    left
}

/// A connection under TLS.
pub struct TlsTransport<In: Transport> {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter<In>>,
}

impl<In: Transport> fmt::Debug for TlsTransport<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

impl<In: Transport> Transport for TlsTransport<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
