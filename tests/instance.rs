//! One daemon at a time, not too often, and what it says of itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::document;
use crate::support::json::Object;
use crate::support::site::Site;

const WAITS: &str = "another overlaykey has the lock";
const TOO_SOON: &str = "started again too soon";

/// The status file says so; it is written after the line in the log.
fn is_told(site: &Site, verdict: &str) -> bool {
    site.dir.read("run/status.json").is_some_and(|text| text.contains(&format!("\"{verdict}\"")))
}

#[test]
fn a_second_daemon_says_so_once_and_takes_its_turn_when_the_first_is_killed() {
    let site = Site::showing(&document::healthy());
    let mut first = site.daemon();
    first.wait_until("the first looks", |_| site.node.looks() > 0);
    let mut second = site.daemon();
    second.wait_until("the second waits", |second| second.log().contains(WAITS));
    first.signal(Signal::KILL);
    first.ends();
    // It comes soon after the start of the first, and so makes a pause.
    second.wait_until("the second runs", |second| second.log().contains(" runs"));
    let looks = site.node.looks();
    second.wait_until("the second looks", |_| site.node.looks() > looks);
    let ended = second.stops_on(Signal::TERM);
    assert_eq!(ended.stderr.matches(WAITS).count(), 1, "{ended}");
}

#[test]
fn a_daemon_that_waits_for_its_turn_asks_nobody_and_ends_by_a_signal() {
    let site = Site::new();
    let mut first = site.daemon();
    first.wait_until("the first has healed", |_| site.node.ups().len() == 1);
    let mut second = site.daemon();
    second.wait_until("the second waits", |second| second.log().contains(WAITS));
    second.never("it says that it runs", Duration::from_secs(3), |second| second.log().contains(" runs"));
    let ended = second.stops_on(Signal::TERM);
    assert!(!ended.stderr.contains("tailscale status"), "{ended}");
    first.stops_on(Signal::TERM);
    assert_eq!(site.asked_for_keys(), 1);
}

#[test]
fn other_commands_need_no_turn() {
    let site = Site::showing(&document::healthy());
    let mut daemon = site.daemon();
    daemon.wait_until("it looks", |_| site.node.looks() > 0);
    assert_eq!(site.run(&["check"]).code, Some(0));
    assert_eq!(site.run(&["heal"]).code, Some(0));
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_daemon_that_is_started_again_and_again_makes_ever_longer_pauses() {
    let site = Site::showing(&document::healthy());
    let mut pauses = Vec::new();
    for round in 0..3 {
        let began = Instant::now();
        let mut daemon = site.daemon();
        daemon.wait_until("it says what it does", |daemon| {
            daemon.log().contains("healthy: ") || daemon.log().contains(TOO_SOON)
        });
        let log = daemon.log();
        let pause = log.split(TOO_SOON).nth(1).and_then(|rest| rest.split_whitespace().nth(2)).map(str::to_owned);
        if round == 1 {
            // Once it waits it has looked at nothing, and then it does.
            let looks = site.node.looks();
            daemon.wait_until("it looks", |_| site.node.looks() > looks);
            assert!(began.elapsed() > Duration::from_secs(4), "after {:?}", began.elapsed());
        }
        pauses.push(pause);
        daemon.signal(Signal::KILL);
        daemon.ends();
    }
    assert_eq!(pauses, [None, Some("5".to_owned()), Some("10".to_owned())]);
}

#[test]
fn a_pause_ends_at_a_signal() {
    let site = Site::showing(&document::healthy());
    for _ in 0..3 {
        let mut daemon = site.daemon();
        daemon.wait_until("it runs", |daemon| daemon.log().contains(" runs"));
        daemon.signal(Signal::KILL);
        daemon.ends();
    }
    let looks = site.node.looks();
    let mut daemon = site.daemon();
    daemon.wait_until("it makes a pause", |daemon| daemon.log().contains(TOO_SOON));
    daemon.signal(Signal::USR1);
    daemon.wait_within(Duration::from_secs(10), "it looks", |_| site.node.looks() > looks);
    daemon.stops_on(Signal::TERM);
    let mut daemon = site.daemon();
    daemon.wait_until("it makes a pause", |daemon| daemon.log().contains(TOO_SOON));
    daemon.stops_on(Signal::TERM);
}

#[test]
fn damaged_files_of_its_own_are_no_reason_to_wait() {
    let site = Site::showing(&document::healthy());
    for (name, text) in [("starts", "\0\0\0"), ("starts", "9 99999999999"), ("starts", "-1 x"), ("lock", "junk")] {
        fs::create_dir_all(site.dir.path("run")).expect("RUN_DIR");
        fs::write(site.dir.path("run").join(name), text).expect("a file there");
        let mut daemon = site.daemon();
        daemon.wait_until("it says what is", |daemon| daemon.log().contains("healthy: "));
        let ended = daemon.stops_on(Signal::TERM);
        assert!(!ended.stderr.contains(TOO_SOON), "{name} {text:?}\n{ended}");
        fs::remove_file(site.dir.path("run/starts")).expect("the count of starts");
    }
}

#[test]
fn readiness_is_one_newline_before_the_first_look() {
    let mut site = Site::showing(&document::healthy());
    let (ready, told) = (site.dir.path("ready"), site.dir.path("told"));
    // Whoever looks first keeps what had been told by then.
    site.node.script("status.1.sh", format!("cp {} {}; cat \"$(script json)\"", ready.display(), told.display()));
    let program = site.program().to_owned();
    let text = format!("#!/bin/sh\nexec 9>>{}\nexec {program} \"$@\"\n", ready.display());
    let starter = site.dir.write("starter", text);
    fs::set_permissions(&starter, Permissions::from_mode(0o755)).expect("the starter's mode");
    site.use_program(&starter.display().to_string());
    let mut daemon = site.start(&["run", "--ready-fd", "9"]);
    daemon.wait_until("it looks some times", |_| site.node.looks() > 2);
    daemon.stops_on(Signal::TERM);
    assert_eq!(site.dir.read("told").as_deref(), Some("\n"));
    assert_eq!(site.dir.read("ready").as_deref(), Some("\n"));
}

#[test]
fn a_descriptor_that_is_not_there_is_said_and_nothing_else() {
    let site = Site::showing(&document::healthy());
    let mut daemon = site.start(&["run", "--ready-fd", "77"]);
    daemon.wait_until("it looks", |daemon| daemon.log().contains("healthy: "));
    let ended = daemon.stops_on(Signal::TERM);
    assert!(ended.stderr.contains("--ready-fd 77"), "{ended}");
    for words in [&["run", "--ready-fd", "x"][..], &["check", "--ready-fd", "3"]] {
        let ended = site.run(words);
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains("--ready-fd"), "{ended}");
    }
}

#[test]
fn status_says_what_the_daemon_saw() {
    let site = Site::new();
    let ended = site.run(&["status"]);
    assert_eq!(ended.code, Some(3), "{ended}");
    assert!(ended.stdout.contains("does not run"), "{ended}");
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| is_told(&site, "healthy"));
    let ended = site.run(&["status"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stdout.starts_with("healthy for "), "{ended}");
    assert!(ended.stdout.contains("\nkeys spent: 1\n"), "{ended}");
    let ended = site.run(&["status", "--json"]);
    let json = Object::parse(ended.stdout.trim());
    assert_eq!((json.text("verdict"), json.number("keys")), ("healthy", 1), "{ended}");
    assert!(json.number("last_heal") <= json.number("since"), "{ended}");
    assert!(json.number("next_look") >= json.number("since"), "{ended}");
    site.node.shows(&document::stopped());
    site.node.becomes("up", &document::stopped());
    daemon.wait_until("the node is stopped", |_| is_told(&site, "stopped"));
    assert_eq!(site.run(&["status"]).code, Some(1));
    daemon.stops_on(Signal::TERM);
    // What was written last is there, but nobody stands by it.
    assert_eq!(site.run(&["status", "--json"]).code, Some(3));
}

#[test]
fn status_without_a_file_says_so() {
    let site = Site::showing(&document::healthy());
    let mut daemon = site.daemon();
    daemon.wait_until("it has told", |_| is_told(&site, "healthy"));
    for text in ["", "{}", "\0\0\0"] {
        fs::write(site.dir.path("run/status.json"), text).expect("a damaged file");
        let ended = site.run(&["status"]);
        assert_eq!(ended.code, Some(3), "{ended}");
        assert!(ended.stdout.contains("status.json"), "{ended}");
    }
    daemon.stops_on(Signal::TERM);
}

#[test]
fn the_heart_beats_where_it_is_asked_for_only() {
    for (beats, value) in [(true, "yes"), (false, "no")] {
        let mut site = Site::showing(&document::healthy());
        site.set("heartbeat", value);
        let mut daemon = site.daemon();
        daemon.wait_until("it has told", |_| is_told(&site, "healthy"));
        let path = site.dir.path("run/status.json");
        let stamp = || fs::metadata(&path).and_then(|file| file.modified()).expect("the status file");
        let (before, text, looks) = (stamp(), fs::read(&path).expect("its text"), site.node.looks());
        daemon.wait_until("it looks some more", |_| site.node.looks() > looks + 2);
        assert_eq!(stamp() > before, beats, "HEARTBEAT={value}");
        assert_eq!(fs::read(&path).expect("its text"), text);
        daemon.stops_on(Signal::TERM);
    }
}
