//! Addresses as people write them, checked before anything is sent to them.

use std::net::IpAddr;

use ureq::http::Uri;

/// An http or https address without user, query or fragment. It is kept as it was written: to tailscale
/// a login server with a trailing slash is another one than without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    written: String,
    https: bool,
    loopback: bool,
    tailscales_own: bool,
}

impl Url {
    /// Checks `written`.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn parse(written: &str) -> Result<Self, String> {
        let written = written.trim();
        let uri: Uri = written.parse().map_err(|_| "not an address like https://host/".to_owned())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it must begin with https:// or http://".into()),
        };
        let authority = uri.authority().ok_or("it names no host")?.as_str();
        if authority.contains('@') {
            return Err("a user or password in an address is not allowed".into());
        }
        // http::Uri takes any port, and an empty one.
        let host = uri.host().unwrap_or_default();
        let port = &authority[host.len().min(authority.len())..];
        if host.is_empty() {
            return Err("it names no host".into());
        }
        if !port.is_empty() && !port[1..].parse::<u16>().is_ok_and(|port| port > 0) {
            return Err("the port must be a number from 1 to 65535".into());
        }
        if uri.query().is_some() || written.contains('#') {
            return Err("a query or fragment is not allowed".into());
        }
        let address = bare(host).parse::<IpAddr>();
        let loopback = address.map_or(host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback());
        let tailscales_own =
            host.eq_ignore_ascii_case("tailscale.com") || host.to_ascii_lowercase().ends_with(".tailscale.com");
        Ok(Self { written: written.to_owned(), https, loopback, tailscales_own })
    }

    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// The address of `path` (which begins with a slash) under this one.
    #[must_use]
    pub fn join(&self, path: &str) -> String {
        format!("{}{path}", self.written.trim_end_matches('/'))
    }

    /// What is sent there is encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The server is the one that Tailscale runs, where every client goes by default.
    #[must_use]
    pub fn is_tailscales_own(&self) -> bool {
        self.tailscales_own
    }

    /// The host is this machine (or this container).
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.loopback
    }
}

/// A URI's host without the brackets that an IPv6 address keeps there.
pub(super) fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed() {
        for (written, loopback) in [
            ("https://cloudbox.example", false),
            (" https://cloudbox.example:8443/base/ ", false),
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8080/overlay/headscale", true),
            ("https://[2001:db8::1]", false),
        ] {
            let url = Url::parse(written).unwrap_or_else(|why| panic!("{written}: {why}"));
            assert_eq!(url.is_loopback(), loopback, "{written}");
            assert_eq!(url.as_str(), written.trim());
        }
    }

    #[test]
    fn what_is_refused_says_why() {
        for (written, why) in [
            ("", "not an address"),
            ("cloudbox.example", "must begin with"),
            ("ftp://cloudbox.example", "must begin with"),
            ("https://u:p@host", "user or password"),
            ("https://host:70000", "port"),
            ("https://host:0", "port"),
            ("https://host:", "port"),
            ("https://:443", "no host"),
            ("https://host/?a=b", "query"),
            ("https://host/#a", "fragment"),
            ("https://ho st/", "not an address"),
        ] {
            let error = Url::parse(written).expect_err(written);
            assert!(error.contains(why), "{written}: {error}");
        }
    }

    #[test]
    fn the_scheme_may_be_written_in_capitals() {
        assert!(Url::parse("HTTPS://host").unwrap().is_https());
        assert!(!Url::parse("HTTP://host").unwrap().is_https());
    }

    #[test]
    fn paths_join_without_a_double_slash() {
        assert_eq!(Url::parse("https://h/b//").unwrap().join("/verify"), "https://h/b/verify");
        assert_eq!(Url::parse("https://h").unwrap().join("/verify"), "https://h/verify");
    }
}
