//! `check`: one look, its verdict, the control server's word, the exit code.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::answer::{Answer, Manner};
use crate::support::cases::each;
use crate::support::document::{self, among_peers};
use crate::support::json::Object;
use crate::support::process::alive;
use crate::support::program::Ended;
use crate::support::site::{Site, control_that_says};
use crate::support::wait::within;

/// The one line of `check --json`, whose exit code must be that of its verdict.
fn verdict(ended: &Ended) -> Object {
    assert_eq!(ended.stdout.lines().count(), 1, "not one line\n{ended}");
    let report = Object::parse(ended.stdout.trim_end());
    let code = match report.text("verdict") {
        "healthy" => 0,
        "cannot-tell" => 3,
        "starting" | "out-of-touch" | "unregistered" | "stopped" | "stuck" => 1,
        other => panic!("unknown verdict {other}\n{ended}"),
    };
    assert_eq!(ended.code, Some(code), "{ended}");
    let control = report.text("control");
    assert!(["known", "forgotten", "no-answer", "unsupported", "not-asked"].contains(&control), "{ended}");
    assert!(code == 0 || !report.text("reason").is_empty(), "no reason\n{ended}");
    report
}

/// A look changes nothing, whatever it finds.
fn only_looked(site: &Site, ended: &Ended) {
    assert_eq!(site.node.ups(), [""; 0], "{ended}");
    assert_eq!(site.cloudbox.connections(), 0, "{ended}");
    assert!(site.node.looks() >= 1, "{ended}");
}

const HEALTHY: &str = r#"{"BackendState":"Running","Self":{"Online":true,"InNetworkMap":true},"Health":[]}"#;
const CONTACT_LOST: &str = r#"{"BackendState":"Running","Self":{"Online":false,"InNetworkMap":true},"Health":[]}"#;

/// What the CLI prints and says, how it exits, and what that means.
struct Case {
    name: &'static str,
    stdout: &'static str,
    stderr: &'static str,
    exit: &'static str,
    verdicts: &'static [&'static str],
}

impl Case {
    const fn new(name: &'static str, stdout: &'static str, verdicts: &'static [&'static str]) -> Self {
        Self { name, stdout, stderr: "", exit: "0", verdicts }
    }
}

const CASES: &[Case] = &[
    Case::new("healthy_min", HEALTHY, &["healthy"]),
    Case { exit: "1", ..Case::new("valid_json_exit1", HEALTHY, &["healthy"]) },
    Case::new(
        "fresh",
        r#"{"BackendState":"NeedsLogin","AuthURL":"","TailscaleIPs":null,"Self":{"Online":false,"InNetworkMap":false},"Health":["Tailscale is stopped."],"CurrentTailnet":null,"Peer":null,"User":null}"#,
        &["unregistered"],
    ),
    Case::new(
        "down_by_hand",
        r#"{"BackendState":"Stopped","HaveNodeKey":true,"Self":{"InNetworkMap":true},"Health":["Tailscale is stopped."]}"#,
        &["stopped"],
    ),
    Case::new(
        "boot_nostate",
        r#"{"BackendState":"NoState","Self":{"InNetworkMap":false},"Health":[]}"#,
        &["starting"],
    ),
    Case::new("approval", r#"{"BackendState":"NeedsMachineAuth","Self":{}}"#, &["stuck"]),
    Case::new(
        "store_broken",
        r#"{"BackendState":"NoState","Self":{"InNetworkMap":false},"Health":["State store failed to initialize, Tailscale will not work until this is resolved. Error: read-only file system"]}"#,
        &["stuck"],
    ),
    Case::new("empty_state", r#"{"BackendState":"","Self":{"InNetworkMap":false}}"#, &["cannot-tell"]),
    Case::new("no_state", r#"{"Self":{"InNetworkMap":true}}"#, &["cannot-tell"]),
    Case::new("unknown_state", r#"{"BackendState":"Dreaming","Self":{"InNetworkMap":true}}"#, &["cannot-tell"]),
    Case::new("another_user", r#"{"BackendState":"InUseOtherUser","Self":null}"#, &["cannot-tell"]),
    Case::new("running_self_null", r#"{"BackendState":"Running","Self":null}"#, &["out-of-touch"]),
    Case::new("contact_lost", CONTACT_LOST, &["out-of-touch"]),
    Case::new(
        "contact_lost_old",
        r#"{"BackendState":"Running","Self":{"Online":false,"InNetworkMap":true},"Health":["not in map poll"]}"#,
        &["out-of-touch"],
    ),
    Case::new(
        "net_down",
        r#"{"BackendState":"Running","Self":{"InNetworkMap":true},"Health":["Tailscale cannot connect because the network is down. Check your Internet connection."]}"#,
        &["healthy", "out-of-touch"],
    ),
    Case::new(
        "login_refused",
        r#"{"BackendState":"NeedsLogin","HaveNodeKey":true,"Health":["You are logged out. The last login error was: authkey already used"],"Self":{"InNetworkMap":false}}"#,
        &["unregistered"],
    ),
    Case::new(
        "wordy_health",
        r#"{"BackendState":"Running","Self":{"Online":true,"InNetworkMap":true},"Health":["multiple errors:\n\tadding [...] in nat/ts-postrouting: exit status 2"]}"#,
        &["healthy"],
    ),
    Case::new(
        "health_null",
        r#"{"BackendState":"Running","Self":{"Online":true,"InNetworkMap":true},"Health":null}"#,
        &["healthy"],
    ),
    Case::new(
        "health_absent",
        r#"{"BackendState":"Running","Self":{"Online":true,"InNetworkMap":true}}"#,
        &["healthy"],
    ),
    Case::new(
        "removed_from_map",
        r#"{"BackendState":"Running","Self":{"Online":false,"InNetworkMap":false}}"#,
        &["unregistered"],
    ),
    Case::new(
        "before_1_34",
        r#"{"BackendState":"Running","Self":{"Online":true,"InNetworkMap":false}}"#,
        &["out-of-touch"],
    ),
    Case {
        stderr: "failed to connect to local tailscaled; it doesn't appear to be running",
        exit: "1",
        ..Case::new("not_running", "", &["cannot-tell"])
    },
    Case {
        stderr: "Warning: client version \"1.36.0\" != tailscaled server version \"1.34.2\"",
        ..Case::new("version_warning", HEALTHY, &["healthy"])
    },
    Case::new("truncated", CONTACT_LOST.split_at(60).0, &["cannot-tell"]),
    Case::new("no_json", "unknown subcommand\n", &["cannot-tell"]),
    Case::new("array", "[]", &["cannot-tell"]),
    Case::new("nothing", "", &["cannot-tell"]),
];

#[test]
fn every_document_gets_its_verdict() {
    each(
        CASES,
        |case| case.name.to_owned(),
        |case| {
            let site = Site::showing(case.stdout);
            site.node.script("status.stderr", case.stderr);
            site.node.script("status.exit", case.exit);
            let ended = site.run(&["check", "--json"]);
            let report = verdict(&ended);
            assert!(case.verdicts.contains(&report.text("verdict")), "not {:?}\n{ended}", case.verdicts);
            only_looked(&site, &ended);
        },
    );
}

/// What the real programs printed (tests/data): the verdict, the state, the name, and whether there is a node key that the
/// control server can be asked about.
const CAPTURED: &[(&str, &str, &str, &str, bool)] = &[
    ("bad-key-in-needslogin-1.102.3", "unregistered", "NeedsLogin", "router-1", false),
    ("bad-key-on-good-node-1.102.3", "unregistered", "Running", "n2", true),
    ("bad-key-on-good-node-1.80.3", "unregistered", "NoState", "router-1", false),
    ("boot-control-down-1.102.3", "out-of-touch", "NoState", "router-1", false),
    ("logged-out-1.102.3", "unregistered", "NeedsLogin", "router-1", false),
    ("restarted-after-reset-1.102.3", "unregistered", "NeedsLogin", "router-1", false),
    ("running-1.102.3", "healthy", "Running", "n1", true),
    ("running-1.80.3", "healthy", "Running", "n2", true),
    ("running-with-peer-1.102.3", "healthy", "Running", "n1", true),
    ("starting-1.102.3", "starting", "NoState", "router-1", false),
    ("stopped-1.102.3", "stopped", "Stopped", "n2", true),
    ("stranded-1.102.3", "out-of-touch", "Running", "n1", true),
    ("stranded-1.80.3", "out-of-touch", "Running", "n2", true),
];

fn captured(name: &str) -> String {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_captured_document_gets_its_verdict() {
    each(
        CAPTURED,
        |(name, ..)| (*name).to_owned(),
        |&(name, expected, state, node, askable)| {
            let site = Site::showing(&captured(name));
            site.control.answers(control_that_says(r#"{"Allow":false}"#));
            let ended = site.run(&["check", "--json"]);
            let report = verdict(&ended);
            assert_eq!(report.text("verdict"), expected, "{ended}");
            assert_eq!(report.text("backend_state"), state, "{ended}");
            assert_eq!(report.text("node"), node, "{ended}");
            if askable && expected == "out-of-touch" {
                assert_eq!(report.text("control"), "forgotten", "{ended}");
            }
            if !askable {
                assert!(["not-asked", "unsupported"].contains(&report.text("control")), "{ended}");
                assert_eq!(site.control.asked("/verify"), 0, "asked about no key at all\n{ended}");
            }
            only_looked(&site, &ended);
        },
    );
}

#[test]
fn every_captured_document_is_in_the_table() {
    let folder = format!("{}/tests/data", env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(folder).expect("the captured documents") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(CAPTURED.iter().any(|(known, ..)| *known == name), "{name} is not in the table");
        }
    }
}

/// What the control server answers to `/verify`, and what `check` makes of it for a node that is out of touch.
fn words_of_control() -> Vec<(&'static str, Answer, &'static str)> {
    let json = |body: &str| Answer::json(200, body);
    vec![
        ("known", json(r#"{"Allow":true}"#), "known"),
        ("forgotten", json(r#"{"Allow":false}"#), "forgotten"),
        ("as plain text", Answer::new(200, "text/plain", r#"{"Allow":false}"#), "forgotten"),
        ("not there", Answer::html(404), "unsupported"),
        ("page", Answer::html(200), "unsupported"),
        ("other JSON", json(r#"{"status":"pass"}"#), "unsupported"),
        ("bad gateway", Answer::html(502), "no-answer"),
        ("unavailable", Answer::html(503), "no-answer"),
        ("gateway timeout", Answer::html(504), "no-answer"),
        ("hangs up", Answer::none(Manner::HangUp), "no-answer"),
    ]
}

#[test]
fn the_control_server_is_asked_about_a_node_out_of_touch() {
    each(
        &words_of_control(),
        |(name, ..)| (*name).to_owned(),
        |(_, answer, expected)| {
            let site = Site::showing(&document::out_of_touch());
            let answer = answer.clone();
            site.control.answers(move |_| answer.clone());
            let ended = site.run(&["check", "--json"]);
            let report = verdict(&ended);
            assert_eq!((report.text("verdict"), report.text("control")), ("out-of-touch", *expected), "{ended}");
            let requests = site.control.requests();
            let question = requests.iter().find(|request| request.path == "/verify").expect("it asked");
            assert_eq!(question.method, "POST");
            assert_eq!(Object::parse(&question.body).text("NodePublic"), document::NODE_KEY, "{ended}");
            only_looked(&site, &ended);
        },
    );
}

#[test]
fn a_control_server_that_is_away_gives_no_answer() {
    let mut site = Site::showing(&document::out_of_touch());
    site.set("control-url", "http://127.0.0.1:1");
    let ended = site.run(&["check", "--json"]);
    let report = verdict(&ended);
    assert_eq!((report.text("verdict"), report.text("control")), ("out-of-touch", "no-answer"), "{ended}");
}

#[test]
fn the_login_server_is_found_in_the_preferences() {
    let mut site = Site::showing(&document::out_of_touch());
    site.unset("control-url");
    let ended = site.run(&["check", "--json"]);
    assert_eq!(verdict(&ended).text("control"), "known", "{ended}");
    assert_eq!(site.control.asked("/verify"), 1, "{ended}");
}

#[test]
fn tailscales_own_server_is_not_asked() {
    let mut site = Site::showing(&document::out_of_touch());
    site.unset("control-url");
    site.node.script("prefs.json", r#"{"ControlURL":"https://controlplane.tailscale.com"}"#);
    let ended = site.run(&["check", "--json"]);
    assert_eq!(verdict(&ended).text("control"), "not-asked", "{ended}");
}

#[test]
fn without_json_it_is_said_in_words() {
    let cases = [
        ("healthy", document::healthy(), 0),
        ("out of touch", document::out_of_touch(), 1),
        ("unregistered", document::logged_out(), 1),
        ("nonsense", "nonsense".to_owned(), 3),
    ];
    each(
        &cases,
        |(name, ..)| (*name).to_owned(),
        |(name, status, code)| {
            let site = Site::showing(status);
            let ended = site.run(&["check"]);
            assert_eq!(ended.code, Some(*code), "{ended}");
            assert!(!ended.stdout.trim().is_empty(), "{ended}");
            assert!(!ended.stdout.contains('{'), "JSON without being asked for\n{ended}");
            assert!(*code == 3 || ended.stdout.replace('-', " ").contains(name), "{ended}");
        },
    );
}

#[test]
fn a_tailscale_that_is_not_there_cannot_tell() {
    let mut site = Site::new();
    site.set("tailscale", "/nonexistent/tailscale");
    let ended = site.run(&["check", "--json"]);
    let report = verdict(&ended);
    assert_eq!(report.text("verdict"), "cannot-tell", "{ended}");
    assert!(report.text("reason").contains("/nonexistent/tailscale"), "{ended}");
}

/// More than the program needs for itself in a debug build, far less than the documents that it is to survive.
const MODEST: u64 = 64 * 1024;

#[test]
fn six_hundred_peers_are_no_trouble() {
    let status = among_peers(600);
    assert!(status.len() > 800_000, "{} bytes are too few to prove anything", status.len());
    let site = Site::showing(&status);
    let ended = site.run(&["check", "--json"]);
    assert_eq!(verdict(&ended).text("verdict"), "healthy", "{ended}");
    assert!(ended.peak < MODEST, "{} KiB\n{ended}", ended.peak);
    assert!(site.node.calls()[0].contains("--peers=false"), "{ended}");
}

/// The cases that last until the deadline of 15 s, in one test so that they last once.
#[test]
fn a_call_without_end_is_ended() {
    const HANG: &str = "hang";
    const HANG_WITH_DOCUMENT: &str = "cat \"$FAKE_DIR/status.json\"; hang";
    const FLOOD: &str = "echo $$ >>\"$FAKE_DIR/pids\"; exec yes 'this text has no end'";
    const FLOOD_STDERR: &str = "echo $$ >>\"$FAKE_DIR/pids\"; exec yes 'this text has no end' >&2";
    const DEAF: &str = "trap '' TERM INT HUP; hang";
    let cases = [HANG, HANG_WITH_DOCUMENT, FLOOD, FLOOD_STDERR, DEAF];
    each(&cases, ToString::to_string, |play| {
        let site = Site::showing(HEALTHY);
        site.node.script("status.sh", play);
        let ended = site.run(&["check", "--json"]);
        let report = verdict(&ended);
        // A whole document is one, be there a grandchild that keeps the pipe open or not.
        if *play != HANG_WITH_DOCUMENT {
            assert_eq!(report.text("verdict"), "cannot-tell", "{ended}");
        }
        assert!(ended.took < Duration::from_secs(25), "it took {:?}\n{ended}", ended.took);
        assert!(ended.peak < MODEST, "{} KiB\n{ended}", ended.peak);
        let pids = site.node.hanging();
        assert!(!pids.is_empty(), "{ended}");
        let gone = within(Duration::from_secs(2), || !pids.iter().any(|&pid| alive(pid)));
        assert!(gone, "left running\n{ended}");
    });
}

/// A CLI that is done but left a grandchild with its stdout: the look is not to wait for that.
#[test]
fn a_grandchild_that_keeps_stdout_does_not_hold_up_the_look() {
    let site = Site::showing(HEALTHY);
    site.node.script("status.sh", "cat \"$FAKE_DIR/status.json\"; sleep 300 & echo $! >>\"$FAKE_DIR/pids\"");
    let ended = site.run(&["check", "--json"]);
    assert!(ended.took < Duration::from_secs(25), "{ended}");
    verdict(&ended);
    let pids = site.node.hanging();
    let gone = within(Duration::from_secs(2), || !pids.iter().any(|&pid| alive(pid)));
    assert!(!pids.is_empty() && gone, "left running\n{ended}");
}

#[test]
fn an_interrupted_check_leaves_nothing_running() {
    let site = Site::new();
    site.node.script("status.sh", "hang");
    let mut check = site.start(&["check"]);
    check.wait_until("the call hangs", |_| site.node.hanging().len() == 2);
    check.signal(Signal::TERM);
    let ended = check.ends();
    assert!(ended.took < Duration::from_secs(10), "{ended}");
    let pids = site.node.hanging();
    let gone = within(Duration::from_secs(2), || !pids.iter().any(|&pid| alive(pid)));
    assert!(gone, "left running\n{ended}");
}
