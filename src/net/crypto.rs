//! What TLS is made of here: the parts of rustls' *ring* provider that are in use, named one by one. All of its default
//! provider would be linked, and is 50 KB more on x86-64.

use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};
use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};
use webpki::ring as by;

/// rustls' own choice without ChaCha20-Poly1305: every TLS 1.3 server has AES-GCM (RFC 8446, 9.1), and ring's takes
/// constant time also where the processor has no instructions for it.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        signature_verification_algorithms: SIGNATURES,
        secure_random: &Kernel,
        key_provider: &NoKeys,
    }
}

/// What certificates and handshakes may be signed with, as rustls has it.
static SIGNATURES: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        by::ECDSA_P256_SHA256,
        by::ECDSA_P256_SHA384,
        by::ECDSA_P384_SHA256,
        by::ECDSA_P384_SHA384,
        by::ED25519,
        by::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        by::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        by::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        by::RSA_PKCS1_2048_8192_SHA256,
        by::RSA_PKCS1_2048_8192_SHA384,
        by::RSA_PKCS1_2048_8192_SHA512,
        by::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
        by::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
        by::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    ],
    mapping: &[
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[by::ECDSA_P384_SHA384, by::ECDSA_P256_SHA384]),
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[by::ECDSA_P256_SHA256, by::ECDSA_P384_SHA256]),
        (SignatureScheme::ED25519, &[by::ED25519]),
        (SignatureScheme::RSA_PSS_SHA512, &[by::RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA384, &[by::RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA256, &[by::RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
        (SignatureScheme::RSA_PKCS1_SHA512, &[by::RSA_PKCS1_2048_8192_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[by::RSA_PKCS1_2048_8192_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[by::RSA_PKCS1_2048_8192_SHA256]),
    ],
};

/// Random numbers of the kernel.
#[derive(Debug)]
struct Kernel;

impl SecureRandom for Kernel {
    fn fill(&self, mut buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        while !buffer.is_empty() {
            let filled = getrandom(&mut *buffer, GetRandomFlags::empty()).map_err(|_| GetRandomFailed)?;
            buffer = &mut buffer[filled..];
        }
        Ok(())
    }
}

/// This program has no certificate of its own, and so no use for the code that reads and uses private keys.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::General("no client certificates".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update of rustls may know more than is named here.
    #[test]
    fn nothing_but_chacha_is_missing_of_what_rustls_has() {
        let (ours, whole) = (provider(), rustls::crypto::ring::default_provider());
        let is_aes = |suite: &rustls::SupportedCipherSuite| !format!("{suite:?}").contains("CHACHA20");
        let expected: Vec<_> = whole.cipher_suites.into_iter().filter(is_aes).collect();
        assert_eq!(ours.cipher_suites, expected);
        let groups = |provider: &[&dyn rustls::crypto::SupportedKxGroup]| -> Vec<_> {
            provider.iter().map(|group| group.name()).collect()
        };
        assert_eq!(groups(&ours.kx_groups), groups(&whole.kx_groups));
        let (ours, whole) = (ours.signature_verification_algorithms, whole.signature_verification_algorithms);
        assert_eq!(format!("{ours:?}"), format!("{whole:?}"));
    }

    #[test]
    fn the_kernel_fills_the_whole_buffer() {
        let (mut one, mut other) = ([0; 600], [0; 600]);
        Kernel.fill(&mut one).unwrap();
        Kernel.fill(&mut other).unwrap();
        assert_ne!(one, other);
        assert_ne!(one[300..], [0; 300]);
    }
}
