//! Name resolution on the one thread there is, also where the system's name server is the one that the node took away.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::dns::{self, Kind};
use super::url::bare;
use crate::file;
use crate::logger::debug;

/// How many of a server's addresses are tried: more would only divide the time further.
const MAX_TRIED: usize = 4;

/// Tailscale's own name server, which answers nobody while the node is logged out. The node may leave it behind as the
/// only one.
const NODES_OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(100, 100, 100, 100));

/// Where name servers are named: the system's, those that were it before the node, and those that OpenWrt's dnsmasq
/// asks.
const RESOLV_CONF: [&str; 4] = [
    "/etc/resolv.conf",
    "/etc/resolv.pre-tailscale-backup.conf",
    "/tmp/resolv.conf.d/resolv.conf.auto",
    "/tmp/resolv.conf.auto",
];

/// The longest of these files that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// How long one name server is waited for, and how long all of them.
const SERVER_LIMIT: Duration = Duration::from_secs(2);
const WHOLE_LIMIT: Duration = Duration::from_secs(6);

/// The address of a host, of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    host: String,
    address: IpAddr,
}

impl Pin {
    /// Reads HOST=ADDRESS.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let pin = text.split_once('=').and_then(|(host, address)| {
            let address = bare(address).parse().ok()?;
            (!host.is_empty()).then(|| Self { host: host.to_owned(), address })
        });
        pin.ok_or_else(|| format!("{text:?} is not like cloudbox.example=192.0.2.7"))
    }
}

/// Finds addresses: those that are pinned, else by the system's resolver, else, or if that would ask nobody but the
/// node, by asking name servers itself.
///
/// ureq's own resolver starts a thread as soon as a time limit is set; here the limit is left to the C library (musl: 5 s
/// for a full name; glibc: as /etc/resolv.conf says).
#[derive(Debug)]
pub(super) struct Names {
    pub(super) pinned: Vec<Pin>,
}

impl Names {
    fn addresses(&self, host: &str, port: u16) -> Vec<IpAddr> {
        let pinned: Vec<_> =
            self.pinned.iter().filter(|pin| pin.host.eq_ignore_ascii_case(host)).map(|pin| pin.address).collect();
        if !pinned.is_empty() {
            return pinned;
        }
        let dead = name_servers(RESOLV_CONF[0]).contains(&NODES_OWN);
        if dead && host.parse::<IpAddr>().is_err() && host != "localhost" {
            let found = ask_servers(host);
            if !found.is_empty() {
                return found;
            }
        }
        match (host, port).to_socket_addrs() {
            Ok(found) => found.map(|address| address.ip()).collect(),
            // musl gives up all if AAAA alone fails.
            Err(error) if !dead => {
                debug!("{host}: {error}: asking name servers");
                ask_servers(host)
            }
            Err(_) => Vec::new(),
        }
    }
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or_else(|| Error::BadUri(uri.to_string()))?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        // ureq gives most of the time to the first. The usual fault is an IPv6 that leads nowhere; an IPv4 that
        // is not there fails at once.
        let (first, last): (Vec<_>, Vec<_>) = self.addresses(bare(host), port).into_iter().partition(IpAddr::is_ipv4);
        let mut addresses = self.empty();
        for address in first.into_iter().chain(last).take(MAX_TRIED) {
            addresses.push(SocketAddr::new(address, port));
        }
        if addresses.is_empty() { Err(Error::HostNotFound) } else { Ok(addresses) }
    }
}

/// Asks all name servers but the node's own, one after another. The first that knows an address has the last word. One
/// that fails when asked for IPv6 addresses may well have an IPv4 one.
fn ask_servers(host: &str) -> Vec<IpAddr> {
    let end = Instant::now() + WHOLE_LIMIT;
    let mut asked = vec![NODES_OWN];
    for server in RESOLV_CONF.into_iter().flat_map(name_servers) {
        if asked.contains(&server) {
            continue;
        }
        asked.push(server);
        for kind in [Kind::A, Kind::Aaaa] {
            let left = end.saturating_duration_since(Instant::now()).min(SERVER_LIMIT);
            match dns::ask(server, host, kind, left) {
                Ok(found) => return found,
                Err(error) => debug!("{host}: name server {server}: {error}"),
            }
        }
    }
    Vec::new()
}

/// The name servers of a file in the form of resolv.conf(5); none if there is no such file.
fn name_servers(path: &str) -> Vec<IpAddr> {
    let text = file::read_text(Path::new(path), MAX_FILE).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok())?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(uri: &str) -> Result<Vec<SocketAddr>, Error> {
        let pins = ["cloudbox.example=192.0.2.7", "six.example=[2001:db8::1]", "SIX.example=192.0.2.6"];
        let names = Names { pinned: pins.map(|pin| Pin::parse(pin).unwrap()).into() };
        let uri: Uri = uri.parse().unwrap();
        let found = names.resolve(&uri, &Config::default(), NextTimeout::default())?;
        Ok(found.iter().copied().collect())
    }

    #[test]
    fn addresses_and_ports_come_from_the_uri() {
        assert_eq!(resolve("https://192.0.2.1/x").unwrap(), ["192.0.2.1:443".parse().unwrap()]);
        assert_eq!(resolve("http://192.0.2.1").unwrap(), ["192.0.2.1:80".parse().unwrap()]);
        assert_eq!(resolve("http://[::1]:8080/").unwrap(), ["[::1]:8080".parse().unwrap()]);
    }

    #[test]
    fn pinned_hosts_need_no_name_server() {
        assert_eq!(resolve("https://Cloudbox.example/x").unwrap(), ["192.0.2.7:443".parse().unwrap()]);
        let both = ["192.0.2.6:443".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()];
        assert_eq!(resolve("https://six.example/").unwrap(), both, "IPv4 first");
        for bad in ["", "=192.0.2.7", "cloudbox.example", "cloudbox.example=", "cloudbox.example=192.0.2"] {
            assert!(Pin::parse(bad).unwrap_err().contains("is not like"), "{bad}");
        }
    }

    #[test]
    fn a_name_that_does_not_resolve_is_said_so() {
        assert!(matches!(resolve("http://no-such-name.invalid/"), Err(Error::HostNotFound)));
    }
}
