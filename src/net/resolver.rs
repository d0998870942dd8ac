//! Name resolution on the one thread there is.

use std::net::{SocketAddr, ToSocketAddrs};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::url::bare;

/// How many of a server's addresses are tried: more would only divide the time further.
const MAX_TRIED: usize = 4;

/// Asks the system's resolver. ureq's own starts a thread as soon as a time limit is set; this one does
/// not, and leaves the limit to the C library (musl: 5 s for a full name; glibc: as /etc/resolv.conf says).
#[derive(Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let found = (bare(host), port).to_socket_addrs().map_err(|_| Error::HostNotFound)?;
        // ureq gives most of the time to the first. The usual fault is an IPv6 that leads nowhere; an IPv4 that
        // is not there fails at once.
        let (first, last): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv4);
        let mut addresses = self.empty();
        for address in first.into_iter().chain(last).take(MAX_TRIED) {
            addresses.push(address);
        }
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(uri: &str) -> Result<Vec<SocketAddr>, Error> {
        let uri: Uri = uri.parse().unwrap();
        let found = SystemResolver.resolve(&uri, &Config::default(), NextTimeout::default())?;
        Ok(found.iter().copied().collect())
    }

    #[test]
    fn addresses_and_ports_come_from_the_uri() {
        assert_eq!(resolve("https://192.0.2.1/x").unwrap(), ["192.0.2.1:443".parse().unwrap()]);
        assert_eq!(resolve("http://192.0.2.1").unwrap(), ["192.0.2.1:80".parse().unwrap()]);
        assert_eq!(resolve("http://[::1]:8080/").unwrap(), ["[::1]:8080".parse().unwrap()]);
    }

    #[test]
    fn a_name_that_does_not_resolve_is_said_so() {
        assert!(matches!(resolve("http://no-such-name.invalid/"), Err(Error::HostNotFound)));
    }
}
