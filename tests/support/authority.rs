//! A certificate authority of the tests' own, and the certificates that servers go wrong with.

use std::sync::{Arc, LazyLock};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;

/// What a server shows to those who connect.
#[derive(Clone, Copy, Debug)]
pub enum Certificate {
    /// For localhost and 127.0.0.1, of the tests' authority, in force.
    Good,
    /// Good in itself, of an authority that nobody was told of.
    UnknownAuthority,
    /// Over since 2021.
    Expired,
    /// In force from 2090.
    NotYetValid,
    /// For another host.
    WrongName,
}

/// An authority that signs.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2099, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a root certificate");
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }
}

static TRUSTED: LazyLock<Authority> = LazyLock::new(|| Authority::new("overlaykey tests"));
static UNKNOWN: LazyLock<Authority> = LazyLock::new(|| Authority::new("nobody's"));

/// The root that `CA_FILE` is to hold.
pub fn root_pem() -> &'static str {
    &TRUSTED.pem
}

/// A server's side of TLS with the given certificate.
pub fn server_config(kind: Certificate) -> Arc<ServerConfig> {
    let names: &[&str] = match kind {
        Certificate::WrongName => &["elsewhere.example"],
        _ => &["localhost", "127.0.0.1", "cloudbox.test"],
    };
    let (from, until) = match kind {
        Certificate::Expired => (2020, 2021),
        Certificate::NotYetValid => (2090, 2091),
        _ => (2020, 2091),
    };
    let authority = match kind {
        Certificate::UnknownAuthority => &UNKNOWN,
        _ => &TRUSTED,
    };
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority.issuer).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .expect("a certificate with its key");
    Arc::new(config)
}
