//! Everything that can go wrong on the way to a key. None of it stops the daemon, leaks the token, or reaches `up`
//! without a good key.

use std::time::Duration;

use crate::support::answer::{Answer, Manner};
use crate::support::authority::Certificate;
use crate::support::cases::each;
use crate::support::program::Ended;
use crate::support::server::Server;
use crate::support::site::{KEY, Site, TOKEN, cloudbox_for, issue};

/// Not healed, with a reason and without a trace of the token; `up` was not reached.
fn failed(site: &Site, ended: &Ended) {
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(!ended.stderr.trim().is_empty() || !ended.stdout.trim().is_empty(), "no reason\n{ended}");
    assert!(!ended.said().contains(TOKEN), "the token leaked\n{ended}");
    assert_eq!(site.node.ups(), [""; 0], "{ended}");
}

/// The 200 whose key is the given piece of JSON.
fn with_key(key: &str) -> Answer {
    Answer::json(200, format!(r#"{{"overlay_login_server":"","overlay_auth_key":{key},"overlay_pod_cidr":""}}"#))
}

/// A good key that comes with more than anybody would read.
fn padded(length: usize) -> Answer {
    let padding = "x".repeat(length);
    let login_server = "https://control.example";
    Answer::json(
        200,
        format!(r#"{{"padding":"{padding}","overlay_login_server":"{login_server}","overlay_auth_key":"{KEY}"}}"#),
    )
}

/// Answers that hold no key, or none that is to be used, and what the reason must name.
fn keyless() -> Vec<(&'static str, Answer, &'static str)> {
    let long = format!("\"{}\"", "k".repeat(600));
    vec![
        ("200, key null", with_key("null"), ""),
        ("200, key missing", Answer::json(200, r#"{"overlay_login_server":"https://control.example"}"#), ""),
        ("200, key empty", with_key(r#""""#), ""),
        ("200, key blank", with_key(r#""   ""#), ""),
        ("200, key a b", with_key(r#""a b""#), ""),
        ("200, key -x", with_key(r#""-x""#), ""),
        ("200, key with newline", with_key(r#""ab\ncd""#), ""),
        ("200, key with NUL", with_key(r#""ab\u0000cd""#), ""),
        ("200, key not ASCII", with_key("\"k\u{e9}y\""), ""),
        ("200, key of 600 characters", with_key(&long), ""),
        ("200, key a number", with_key("42"), ""),
        ("200, half the JSON", Answer::json(200, r#"{"overlay_auth_key":"hskey"#), ""),
        ("200, an array", Answer::json(200, "[]"), ""),
        ("200, empty", Answer::json(200, ""), ""),
        ("200, a page", Answer::html(200), ""),
        ("204", Answer::json(204, ""), "204"),
        ("401", Answer::json(401, r#"{"error":"bad token"}"#), "401"),
        ("403", Answer::html(403), "403"),
        ("404", Answer::html(404), "404"),
        ("500 problem", Answer::new(500, "application/problem+json", r#"{"title":"boom"}"#), "500"),
        ("503 page", Answer::html(503), "503"),
        ("503 with Retry-After", Answer::html(503).with("Retry-After", "30"), "503"),
        ("503 JSON", Answer::json(503, r#"{"error":"overlay disabled"}"#), ""),
        ("5 MB", padded(5_000_000), ""),
        ("over 64 KiB", padded(66_000), ""),
        ("cut off", issue(&format!("{KEY}cut"), "", "").by(Manner::CutOff), ""),
        ("hangs up", Answer::none(Manner::HangUp), ""),
    ]
}

#[test]
fn an_answer_without_a_good_key_ends_a_heal() {
    each(
        &keyless(),
        |(name, ..)| (*name).to_owned(),
        |(_, answer, named)| {
            let site = Site::new();
            let answer = answer.clone();
            site.cloudbox.answers(move |_| answer.clone());
            let ended = site.run(&["heal"]);
            failed(&site, &ended);
            assert!(ended.said().contains(named), "the reason does not name {named}\n{ended}");
            assert_eq!(site.asked_for_keys(), 1, "{ended}");
            assert!(ended.peak < 64 * 1024, "{} KiB\n{ended}", ended.peak);
        },
    );
}

#[test]
fn a_throttled_heal_says_so_whatever_retry_after_holds() {
    let values = [
        Some("0"),
        Some("30"),
        Some("Wed, 21 Oct 2015 07:28:00 GMT"),
        Some("Wed, 21 Oct 2037 07:28:00 GMT"),
        Some("999999999"),
        Some("99999999999999999999999999"),
        Some("soon"),
        Some("-5"),
        Some(""),
        None,
    ];
    each(
        &values,
        |value| format!("{value:?}"),
        |&value| {
            let site = Site::new();
            let answer = Answer::json(429, r#"{"error":"slow down"}"#);
            let answer = if let Some(value) = value { answer.with("Retry-After", value) } else { answer };
            site.cloudbox.answers(move |_| answer.clone());
            let ended = site.run(&["heal"]);
            failed(&site, &ended);
            let said = ended.said();
            assert!(said.contains("429") || said.contains("throttled"), "{ended}");
            assert!(ended.took < Duration::from_secs(20), "one repair, now: no wait\n{ended}");
        },
    );
}

/// The token goes to cloudbox and to nobody whom cloudbox names.
#[test]
fn no_redirect_is_followed() {
    each(&[301, 302, 303, 307, 308], ToString::to_string, |&status| {
        let site = Site::new();
        let other = Server::https(Certificate::Good, cloudbox_for(""));
        let aim = format!("https://localhost:{}/api/v1/overlay/authkey", other.port());
        site.cloudbox.answers(move |_| Answer::html(status).with("Location", &aim));
        let ended = site.run(&["heal"]);
        failed(&site, &ended);
        assert!(ended.said().contains(&status.to_string()), "the reason does not name the status\n{ended}");
        assert_eq!((other.connections(), site.asked_for_keys()), (0, 1), "{ended}");
    });
}

#[test]
fn a_certificate_that_is_not_good_gets_no_token() {
    let kinds =
        [Certificate::UnknownAuthority, Certificate::Expired, Certificate::NotYetValid, Certificate::WrongName];
    each(
        &kinds,
        |kind| format!("{kind:?}"),
        |&kind| {
            let mut site = Site::new();
            let cloudbox = Server::https(kind, cloudbox_for(""));
            site.set("cloudbox-url", format!("https://localhost:{}", cloudbox.port()));
            let ended = site.run(&["heal"]);
            failed(&site, &ended);
            assert_eq!(cloudbox.requests().len(), 0, "{ended}");
            assert!(cloudbox.connections() > 0, "it never came to the certificate\n{ended}");
        },
    );
}

/// The same without `CA_FILE`: the tests' authority is nobody that the roots vouch for.
#[test]
fn an_authority_must_be_told_of() {
    let mut site = Site::new();
    site.unset("ca-file");
    let ended = site.run(&["heal"]);
    failed(&site, &ended);
    assert_eq!((site.cloudbox.connections() > 0, site.cloudbox.requests().len()), (true, 0), "{ended}");
}

#[test]
fn a_cloudbox_that_cannot_be_reached_ends_a_heal() {
    let resetting = Server::resetting();
    let plain = Server::http(cloudbox_for(""));
    let cases = [
        ("refused", "https://127.0.0.1:1".to_owned()),
        ("reset", format!("https://localhost:{}", resetting.port())),
        ("no TLS", format!("https://localhost:{}", plain.port())),
        ("no such name", "https://cloudbox.invalid".to_owned()),
    ];
    each(
        &cases,
        |(name, _)| (*name).to_owned(),
        |(_, url)| {
            let mut site = Site::new();
            site.set("cloudbox-url", url);
            failed(&site, &site.run(&["heal"]));
        },
    );
    assert_eq!(plain.requests().len(), 0);
    assert!(resetting.connections() > 0);
}

#[test]
fn on_loopback_cloudbox_needs_no_tls() {
    let mut site = Site::new();
    let plain = Server::http(cloudbox_for(""));
    site.set("cloudbox-url", format!("http://127.0.0.1:{}", plain.port()));
    let ended = site.run(&["heal"]);
    assert_eq!((ended.code, plain.requests().len()), (Some(0), 1), "{ended}");
}

/// The requests that last until the deadline of 30 s, in one test so that they last once.
#[test]
fn a_request_without_end_is_ended() {
    let cases = [
        ("a byte a second", issue(&format!("{KEY}drip"), "", "").by(Manner::Drip(Duration::from_secs(1)))),
        ("silence", Answer::none(Manner::Silence)),
    ];
    each(
        &cases,
        |(name, _)| (*name).to_owned(),
        |(_, answer)| {
            let site = Site::new();
            let answer = answer.clone();
            site.cloudbox.answers(move |_| answer.clone());
            let ended = site.run(&["heal"]);
            failed(&site, &ended);
            let seconds = ended.took.as_secs();
            assert!((25..40).contains(&seconds), "ended after {seconds} s, not 30\n{ended}");
        },
    );
}

#[test]
fn a_slow_answer_is_waited_for() {
    let site = Site::new();
    let login_server = site.login_server();
    let answer = issue(&format!("{KEY}late"), &login_server, "");
    let late = answer.clone().by(Manner::Late(Duration::from_secs(3)));
    site.cloudbox.answers(move |_| late.clone());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(site.node.keys().concat().trim_end(), format!("{KEY}late"), "{ended}");
}

/// What cloudbox repeats of the question is shown to nobody.
#[test]
fn a_token_that_cloudbox_repeats_is_masked() {
    let site = Site::new();
    site.cloudbox.answers(|request| {
        let token = request.header("authorization").unwrap_or_default();
        Answer::json(500, format!(r#"{{"error":"no such token: {token}"}}"#)).with("X-Token", token)
    });
    let ended = site.run(&["heal"]);
    failed(&site, &ended);
    assert!(ended.said().contains("500") && site.asked_for_keys() == 1, "{ended}");
}

/// How a cloudbox fails first, and how long the daemon waits before it asks again.
struct Patience {
    name: &'static str,
    first: Answer,
    at_least: Duration,
}

/// Backoff is 15 s with a quarter more or less; Retry-After is respected where it is longer.
#[test]
fn the_daemon_asks_again_and_gets_there() {
    let secs = Duration::from_secs;
    let cases = [
        Patience { name: "500", first: Answer::html(500), at_least: secs(10) },
        Patience { name: "503 page", first: Answer::html(503), at_least: secs(10) },
        Patience { name: "hangs up", first: Answer::none(Manner::HangUp), at_least: secs(10) },
        Patience { name: "401", first: Answer::html(401), at_least: secs(10) },
        Patience { name: "429, 0", first: Answer::html(429).with("Retry-After", "0"), at_least: secs(10) },
        Patience { name: "503, 21", first: Answer::html(503).with("Retry-After", "21"), at_least: secs(21) },
        Patience { name: "429, 21", first: Answer::html(429).with("Retry-After", "21"), at_least: secs(21) },
    ];
    each(
        &cases,
        |case| case.name.to_owned(),
        |case| {
            let site = Site::new();
            let (first, mut issuing, mut failures) = (case.first.clone(), cloudbox_for(&site.login_server()), 1);
            site.cloudbox.answers(move |request| {
                if failures == 0 {
                    return issuing(request);
                }
                failures -= 1;
                first.clone()
            });
            let mut daemon = site.daemon();
            daemon.wait_until("it asked", |_| site.asked_for_keys() == 1);
            daemon.never("it asks at once", secs(5), |_| site.asked_for_keys() > 1 || !site.node.ups().is_empty());
            daemon.wait_within(secs(40), "the node is healed", |_| site.node.ups().len() == 1);
            let ended = daemon.stops_on(rustix::process::Signal::TERM);
            let times: Vec<_> = site.cloudbox.requests().iter().map(|request| request.at).collect();
            assert_eq!(times.len(), 2, "{ended}");
            let waited = times[1] - times[0];
            assert!(waited >= case.at_least && waited < secs(35), "waited {waited:?}\n{ended}");
            assert!(!ended.said().contains(TOKEN), "{ended}");
        },
    );
}

/// A 401 means that somebody has to write a new token: it is read at each request.
#[test]
fn a_new_token_is_taken_without_a_reload() {
    let site = Site::new();
    let mut issuing = cloudbox_for(&site.login_server());
    site.cloudbox.answers(move |request| {
        if request.header("authorization") == Some("Bearer renewed") { issuing(request) } else { Answer::html(401) }
    });
    let mut daemon = site.daemon();
    daemon.wait_until("it asked", |_| site.asked_for_keys() == 1);
    site.dir.write("token", "renewed\n");
    daemon.wait_within(Duration::from_secs(40), "the node is healed", |_| site.node.ups().len() == 1);
    daemon.stops_on(rustix::process::Signal::TERM);
}
