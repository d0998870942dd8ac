//! From documents to verdicts: the captured ones in tests/data, and the rules that they do not show.

use overlaykey::node::status::{State, Status};

const OUT: State = State::OutOfTouch { for_long: false };
const OUT_FOR_LONG: State = State::OutOfTouch { for_long: true };

fn state(document: &str) -> State {
    let status = Status::parse(document).unwrap_or_else(|| panic!("no document: {document}"));
    let verdict = status.verdict();
    assert!(!verdict.reason.is_empty(), "{document}");
    assert!(verdict.state != State::Healthy || status.healthy(), "the necessary rule refuses this: {document}");
    verdict.state
}

#[test]
fn captured_documents() {
    for (name, expected) in [
        ("bad-key-in-needslogin-1.102.3", State::Unregistered),
        ("bad-key-on-good-node-1.102.3", State::Unregistered),
        ("bad-key-on-good-node-1.80.3", State::Unregistered),
        ("boot-control-down-1.102.3", OUT),
        ("logged-out-1.102.3", State::Unregistered),
        ("restarted-after-reset-1.102.3", State::Unregistered),
        ("running-1.102.3", State::Healthy),
        ("running-1.80.3", State::Healthy),
        ("running-with-peer-1.102.3", State::Healthy),
        ("starting-1.102.3", State::Starting),
        ("stopped-1.102.3", State::Stopped),
        ("stranded-1.102.3", OUT),
        ("stranded-1.80.3", OUT),
    ] {
        let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(path).unwrap();
        assert_eq!(state(&document), expected, "{name}");
        let asked_about = Status::parse(&document).unwrap().node_key().is_some();
        assert_eq!(asked_about, document.contains("\"InNetworkMap\": true"), "{name}: no map, no key to ask about");
    }
}

#[test]
fn rules_in_order() {
    let lost = "Unable to connect to the Tailscale coordination server to synchronize";
    let logged_out = "You are logged out";
    let not_reached = "You are logged out. The last login error was: fetch control key: Get \\\"https://hs\\\": EOF";
    for (document, expected) in [
        (r#"{"Self":{}}"#.to_owned(), State::CannotTell),
        (r#"{"BackendState":"Dreaming"}"#.to_owned(), State::CannotTell),
        (r#"{"BackendState":"InUseOtherUser"}"#.to_owned(), State::CannotTell),
        (format!(r#"{{"BackendState":"Stopped","Health":["{logged_out}"]}}"#), State::Stopped),
        (format!(r#"{{"BackendState":"NoState","Health":["{logged_out}"]}}"#), State::Unregistered),
        (format!(r#"{{"BackendState":"Running","Self":{{"InNetworkMap":true,"Online":false}},"Health":["{not_reached}"]}}"#), OUT),
        (format!(r#"{{"BackendState":"NeedsLogin","Health":["{not_reached}"]}}"#), OUT),
        (r#"{"BackendState":"NeedsLogin","Health":["not logged in, last login error=dial tcp: connection refused"]}"#.to_owned(), OUT),
        (r#"{"BackendState":"NeedsLogin","Health":["not logged in, last login error=authkey expired"]}"#.to_owned(), State::Unregistered),
        (r#"{"BackendState":"Starting","Self":{}}"#.to_owned(), State::Starting),
        (r#"{"BackendState":"running"}"#.to_owned(), OUT),
        (r#"{"BackendState":"Running","Self":{"Online":true}}"#.to_owned(), OUT),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":false}}"#.to_owned(), State::Unregistered),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":false,"Online":true}}"#.to_owned(), OUT),
        (format!(r#"{{"BackendState":"Running","Self":{{"InNetworkMap":true,"Online":true}},"Health":["{lost}"]}}"#), OUT_FOR_LONG),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":true,"Online":true},"Health":["not in map poll"]}"#.to_owned(), OUT),
        (r#"{"BackendState":"RUNNING","Self":{"InNetworkMap":true}}"#.to_owned(), State::Healthy),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":true},"Health":["Coordination server reports an issue: x"]}"#.to_owned(), State::Healthy),
        (r#"{"BackendState":"NeedsMachineAuth"}"#.to_owned(), State::Stuck),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":true},"Health":["State store failed to initialize, x"]}"#.to_owned(), State::Stuck),
    ] {
        assert_eq!(state(&document), expected, "{document}");
    }
}

#[test]
fn what_is_no_document() {
    for text in [
        "",
        "{",
        "[]",
        "null",
        "7",
        r#"{"BackendState":7}"#,
        r#"{"BackendState":"Running","Self":{"Online":"yes"}}"#,
        r#"{"BackendState":"Running"} trailing"#,
    ] {
        assert!(Status::parse(text).is_none(), "{text}");
    }
    assert!(Status::parse(&"[".repeat(100_000)).is_none(), "deep nesting is no crash");
}

#[test]
fn login_errors_that_only_mean_not_reached() {
    for error in [
        "fetch control key: 404 Not Found",
        "failed to resolve hs.example",
        "no DNS fallback candidates remain",
        "lookup hs.example: no such host",
        "lookup hs.example on 127.0.0.53:53: server misbehaving",
        "context deadline exceeded",
        "context canceled",
        "dial tcp 192.0.2.1:443: connect: connection refused",
        "read tcp: connection reset by peer",
        "connect: network is unreachable",
        "connect: no route to host",
        "read udp: i/o timeout",
        "net/http: TLS handshake timeout",
        "x509: certificate has expired or is not yet valid",
        "unexpected HTTP response: 502 Bad Gateway",
        "unexpected EOF",
    ] {
        let document = format!(
            r#"{{"BackendState":"NeedsLogin","Health":["You are logged out. The last login error was: {error}"]}}"#
        );
        assert_eq!(state(&document), OUT, "{error}");
    }
    for error in [
        "node is banned",
        "requested tags [tag:x] are invalid or not permitted",
        "node key already in use by another machine",
    ] {
        let document = format!(
            r#"{{"BackendState":"NeedsLogin","Health":["You are logged out. The last login error was: {error}"]}}"#
        );
        assert_eq!(state(&document), State::Unregistered, "{error}");
    }
}

#[test]
fn a_refused_key_is_told_by_the_login_error() {
    let refusal = |health: &str| {
        let document = format!(r#"{{"BackendState":"NeedsLogin","Health":["{health}"]}}"#);
        Status::parse(&document).unwrap().key_refusal().map(str::to_owned)
    };
    assert_eq!(
        refusal("You are logged out. The last login error was: authkey expired").as_deref(),
        Some("authkey expired")
    );
    assert_eq!(refusal("You are logged out. The last login error was: node is banned"), None);
    assert_eq!(refusal("You are logged out."), None);
    assert_eq!(refusal("authkey expired"), None);
}
