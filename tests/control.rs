//! The control server's own word, and what the daemon makes of it.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::answer::{Answer, Manner};
use crate::support::authority::Certificate;
use crate::support::cases::each;
use crate::support::document;
use crate::support::program::Program;
use crate::support::server::{Request, Server};
use crate::support::site::{KEY, Site, control_that_says};

const FORGOTTEN: &str = r#"{"Allow":false}"#;
const KNOWN: &str = r#"{"Allow":true}"#;

/// A control server of a release before `/verify`.
fn without_verify(request: &Request) -> Answer {
    if request.path.starts_with("/key?v=") { Answer::json(200, "{}") } else { Answer::html(404) }
}

/// Lets the daemon look `count` more times, at once each, and holds that it cost no key and no `up`.
fn look_on(daemon: &mut Program, site: &Site, count: usize) {
    for _ in 0..count {
        let looks = site.node.looks();
        daemon.signal(Signal::USR1);
        daemon.wait_until("it looks", |_| site.node.looks() > looks);
    }
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (0, 0), "{}\n{}", daemon.log(), site.story());
}

/// A control server that has forgotten the node until an `up` brings it a key.
fn forgetful(site: &Site) {
    let key = site.node.folder().path("key.1");
    let (mut known, mut forgotten) = (control_that_says(KNOWN), control_that_says(FORGOTTEN));
    site.control.answers(move |request| if key.exists() { known(request) } else { forgotten(request) });
}

#[test]
fn forgotten_twice_is_healed() {
    let site = Site::showing(&document::out_of_touch());
    forgetful(&site);
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 2);
    let ended = daemon.stops_on(Signal::TERM);
    let requests = site.control.requests();
    let asked: Vec<_> = requests.iter().filter(|request| request.path == "/verify").collect();
    assert!(asked.len() >= 3, "twice before and once after the heal\n{ended}");
    let apart = asked[1].at - asked[0].at;
    assert!(apart >= Duration::from_millis(1500) && apart < Duration::from_secs(10), "{apart:?} apart\n{ended}");
    assert!(asked.iter().all(|request| request.body.contains(document::NODE_KEY)), "{ended}");
    let before = site.node.calls().iter().take_while(|call| !call.starts_with("up")).count();
    assert!(before >= 2, "no fresh look before the heal\n{ended}");
    assert_eq!(site.node.keys().concat().trim_end(), format!("{KEY}1"), "{ended}");
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (1, 1), "{ended}");
}

/// A control server in the middle of its start may say once that it knows nobody.
#[test]
fn forgotten_once_costs_no_key() {
    let site = Site::showing(&document::out_of_touch());
    let (mut first, mut known) = (true, control_that_says(KNOWN));
    let mut forgotten = control_that_says(FORGOTTEN);
    site.control.answers(move |request| {
        let once = request.path == "/verify" && std::mem::take(&mut first);
        if once { forgotten(request) } else { known(request) }
    });
    let mut daemon = site.daemon();
    daemon.wait_until("it asked twice", |_| site.control.asked("/verify") >= 2);
    look_on(&mut daemon, &site, 2);
    daemon.stops_on(Signal::TERM);
}

/// The second question goes with a fresh look: a node that somebody stopped meanwhile is none to heal.
#[test]
fn a_node_that_is_stopped_in_between_is_left_alone() {
    let mut site = Site::showing(&document::stopped());
    site.set("stopped", "leave");
    site.control.answers(control_that_says(FORGOTTEN));
    site.node.script("status.1.json", document::out_of_touch());
    let mut daemon = site.daemon();
    daemon.wait_until("it asked and looked again", |_| site.control.asked("/verify") == 1 && site.node.looks() >= 2);
    look_on(&mut daemon, &site, 2);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_node_that_is_known_waits() {
    let site = Site::showing(&document::out_of_touch());
    let mut daemon = site.daemon();
    daemon.wait_until("it asked", |_| site.control.asked("/verify") == 1);
    look_on(&mut daemon, &site, 3);
    assert!(site.control.asked("/verify") >= 2, "{}", site.story());
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_control_server_that_does_not_answer_costs_no_key() {
    let cases = [
        ("hangs up", Answer::none(Manner::HangUp)),
        ("502", Answer::html(502)),
        ("503", Answer::html(503)),
        ("504", Answer::html(504)),
    ];
    for status in [document::out_of_touch(), document::out_of_touch_for_long(), document::logged_out()] {
        each(
            &cases,
            |(name, _)| format!("{name}, {status}"),
            |(_, answer)| {
                let site = Site::showing(&status);
                let answer = answer.clone();
                site.control.answers(move |_| answer.clone());
                let mut daemon = site.daemon();
                daemon.wait_until("it asked", |_| !site.control.requests().is_empty());
                look_on(&mut daemon, &site, 2);
                daemon.stops_on(Signal::TERM);
            },
        );
    }
}

/// It is no failed heal either: once the server is back there is no backoff to sit out.
#[test]
fn a_control_server_that_comes_back_is_noticed() {
    let site = Site::new();
    site.control.answers(|_| Answer::html(502));
    let mut daemon = site.daemon();
    daemon.wait_until("it asked", |_| !site.control.requests().is_empty());
    site.control.answers(control_that_says(KNOWN));
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn without_verify_the_clients_own_word_is_enough() {
    let site = Site::showing(&document::out_of_touch_for_long());
    site.control.answers(without_verify);
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    assert_eq!(site.asked_for_keys(), 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn without_verify_the_daemon_is_patient() {
    let site = Site::showing(&document::out_of_touch());
    site.control.answers(without_verify);
    let mut daemon = site.daemon();
    daemon.wait_until("it asked", |_| site.control.asked("/verify") >= 1);
    look_on(&mut daemon, &site, 4);
    daemon.never("it loses patience", Duration::from_secs(5), |_| site.asked_for_keys() > 0);
    daemon.stops_on(Signal::TERM);
}

#[test]
#[ignore = "waits a minute for patience to end"]
fn without_verify_patience_ends_after_a_minute() {
    let site = Site::showing(&document::out_of_touch());
    site.control.answers(without_verify);
    let mut daemon = site.daemon();
    let start = std::time::Instant::now();
    daemon.wait_within(Duration::from_secs(100), "the node is healed", |_| site.node.ups().len() == 1);
    assert!(start.elapsed() > Duration::from_secs(55), "after {:?}", start.elapsed());
    daemon.stops_on(Signal::TERM);
}

/// There is nothing to ask about: the question is only whether the server is there.
#[test]
fn an_all_zero_key_is_never_asked_about() {
    let site = Site::showing(&document::out_of_touch_without_key());
    site.control.answers(control_that_says(FORGOTTEN));
    let mut daemon = site.daemon();
    daemon.wait_until("it asked whether the server is there", |_| site.control.asked("/key?v=") >= 1);
    look_on(&mut daemon, &site, 3);
    assert_eq!(site.control.asked("/verify"), 0, "{}", site.story());
    daemon.stops_on(Signal::TERM);
}

/// Boot while the control server is away, as captured: it heals by itself, a key would be wasted.
#[test]
fn a_boot_without_control_server_costs_no_key() {
    let path = format!("{}/tests/data/boot-control-down-1.102.3.json", env!("CARGO_MANIFEST_DIR"));
    let mut site = Site::showing(&std::fs::read_to_string(path).expect("the captured document"));
    site.set("control-url", "http://127.0.0.1:1");
    let mut daemon = site.daemon();
    daemon.wait_until("it looked", |_| site.node.looks() >= 1);
    look_on(&mut daemon, &site, 3);
    daemon.stops_on(Signal::TERM);
}

/// A node deleted behind a live connection says Online for ever: only the control server tells.
#[test]
fn a_node_deleted_behind_a_live_connection_is_found() {
    let mut site = Site::showing(&document::healthy());
    site.set("membership-interval", "1");
    forgetful(&site);
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    let asked = site.control.asked("/verify");
    assert!(asked >= 2, "{}", site.story());
    daemon.wait_until("it goes on asking", |_| site.control.asked("/verify") > asked + 2);
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (1, 1));
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_healthy_node_is_asked_about_as_often_as_configured() {
    let mut site = Site::showing(&document::healthy());
    site.set("membership-interval", "1");
    let mut daemon = site.daemon();
    daemon.wait_until("it asked some times", |_| site.control.asked("/verify") >= 3);
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (0, 0));
    daemon.stops_on(Signal::TERM);

    let site = Site::showing(&document::healthy());
    let mut daemon = site.daemon();
    daemon.wait_until("it looked some times", |_| site.node.looks() > 3);
    assert_eq!(site.control.requests().len(), 0, "0 means never");
    daemon.stops_on(Signal::TERM);
}

/// A base with a path, as where the control server is reached through a tunnel.
#[test]
fn a_control_server_below_a_path_is_asked_there() {
    let mut site = Site::showing(&document::out_of_touch());
    site.set("control-url", format!("{}/overlay/headscale/", site.login_server()));
    site.control.answers(|_| Answer::json(200, KNOWN));
    let ended = site.run(&["check", "--json"]);
    let requests = site.control.requests();
    assert_eq!(requests.len(), 1, "{ended}");
    assert_eq!(requests[0].path, "/overlay/headscale/verify", "{ended}");
}

/// The control server is told the node's public key and nothing that is secret.
#[test]
fn the_question_holds_no_secret() {
    let site = Site::showing(&document::out_of_touch());
    site.run(&["check"]);
    let requests = site.control.requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.header("authorization"), None, "{}", site.story());
        assert!(!request.body.contains(crate::support::site::TOKEN), "{}", site.story());
    }
}

/// Over TLS the control server's word counts only if it is its own.
#[test]
fn a_control_server_is_believed_only_with_a_good_certificate() {
    for (certificate, code, control, why) in [
        (Certificate::Good, 1, "\"control\":\"forgotten\"", "forgotten"),
        (Certificate::UnknownAuthority, 0, "\"control\":\"no-answer\"", "unknown authority"),
        (Certificate::Expired, 0, "\"control\":\"no-answer\"", "expired"),
        (Certificate::NotYetValid, 0, "\"control\":\"no-answer\"", "not valid yet"),
        (Certificate::WrongName, 0, "\"control\":\"no-answer\"", "another name"),
    ] {
        let mut site = Site::showing(&document::healthy());
        site.control = Server::https(certificate, control_that_says(FORGOTTEN));
        site.set("control-url", format!("https://localhost:{}", site.control.port()));
        site.set("membership-interval", "10m");
        let ended = site.run(&["check", "--json"]);
        assert!(ended.stdout.contains(control), "{ended}");
        assert_eq!(ended.code, Some(code), "{ended}");
        assert!(site.run(&["check"]).stdout.contains(why), "{why}: {ended}");
    }
}

/// 10 s, where cloudbox has 30.
#[test]
fn a_control_server_that_says_nothing_is_not_waited_for_long() {
    let mut site = Site::showing(&document::out_of_touch());
    let silent = Server::mute();
    site.set("control-url", format!("http://127.0.0.1:{}", silent.port()));
    let ended = site.run(&["check", "--json"]);
    assert!(ended.stdout.contains("\"control\":\"no-answer\""), "{ended}");
    assert!(ended.took > Duration::from_secs(8) && ended.took < Duration::from_secs(25), "{:?}\n{ended}", ended.took);
}

/// Nothing but the configuration says where the token and the questions go.
#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let mut site = Site::new();
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        site.export(name, "http://127.0.0.1:1");
    }
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
}
