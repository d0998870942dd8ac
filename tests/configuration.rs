//! Configuration: where a value comes from, what is refused and how that is said, and what the daemon does about it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::cases::each;
use crate::support::document;
use crate::support::json::Object;
use crate::support::process::children;
use crate::support::program::Ended;
use crate::support::site::{Site, TOKEN};

/// The agent name that cloudbox was told last.
fn agent_name(site: &Site) -> String {
    let requests = site.cloudbox.requests();
    let last = requests.last().unwrap_or_else(|| panic!("cloudbox was not asked\n{}", site.story()));
    Object::parse(&last.body).text("agent_name").to_owned()
}

fn healed(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
fn flag_wins_over_environment_over_file() {
    let mut site = Site::new();
    site.unset("agent-name");
    site.configure("AGENT_NAME=from-file\n");
    healed(&site.run(&["heal"]));
    assert_eq!(agent_name(&site), "from-file");

    site.export("OVERLAYKEY_AGENT_NAME", "from-environment");
    site.node.shows(&document::logged_out());
    healed(&site.run(&["heal"]));
    assert_eq!(agent_name(&site), "from-environment");

    site.node.shows(&document::logged_out());
    healed(&site.run(&["heal", "--agent-name", "from-flag"]));
    assert_eq!(agent_name(&site), "from-flag");
}

#[test]
fn the_agent_name_defaults_to_the_host_name() {
    let mut site = Site::new();
    site.unset("agent-name");
    healed(&site.run(&["heal"]));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the host name");
    assert_eq!(agent_name(&site), host.trim());
}

/// Every key, with a good value (none: the one that the site has) and, where there is such a thing, a bad one.
const KEYS: &[(&str, Option<&str>, Option<&str>)] = &[
    ("CLOUDBOX_URL", Some("https://cloudbox.example/base/"), Some("ftp://cloudbox.example")),
    ("TOKEN_FILE", None, None),
    ("AGENT_NAME", Some("router-2"), None),
    ("CONTROL_URL", Some("https://control.example/overlay/headscale"), Some("control")),
    ("POD_CIDR", Some("10.1.2.0/24,fd00::/64"), Some("10.0.0.0/33")),
    ("IGNORE_CREDENTIAL_POD_CIDR", Some("yes"), Some("perhaps")),
    ("INTERVAL", Some("5m"), Some("0")),
    ("MEMBERSHIP_INTERVAL", Some("0"), Some("-1")),
    ("TAILSCALE", None, None),
    ("UP_FLAGS", Some("--hostname=router-2 --accept-dns=false"), None),
    ("ACCEPT_ROUTES", Some("no"), Some("perhaps")),
    ("STOPPED", Some("leave"), Some("right")),
    ("CA_FILE", None, None),
    ("RUN_DIR", None, None),
    ("ON_CHANGE", Some("/bin/true"), None),
    ("LOG", Some("syslog"), Some("paper")),
    ("LOG_LEVEL", Some("warn"), Some("loud")),
];

/// How a value can be given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    File,
    Environment,
    Flag,
}

const FORMS: [Form; 3] = [Form::File, Form::Environment, Form::Flag];

/// Looks at a healthy node with one value given in the form, and in no other.
fn check_with(form: Form, key: &str, value: Option<&str>) -> Ended {
    let mut site = Site::showing(&document::healthy());
    let flag = key.to_lowercase().replace('_', "-");
    let usual = site.unset(&flag);
    let value = value.map(str::to_owned).or(usual).expect("a value");
    match form {
        Form::File => {
            // Shell-readable: what holds blanks is quoted.
            let path = site.dir.write("overlaykey.conf", format!("# line 1\n{key}=\"{value}\"\n"));
            site.set("config", path.display().to_string());
        }
        Form::Environment => site.export(&format!("OVERLAYKEY_{key}"), value),
        Form::Flag => site.set(&flag, value),
    }
    let ended = site.run(&["check"]);
    assert_eq!(ended.code == Some(0), site.node.looks() == 1, "{ended}");
    ended
}

#[test]
fn every_key_is_taken_from_file_environment_and_flag() {
    let cases: Vec<_> = KEYS.iter().flat_map(|key| FORMS.map(|form| (key, form))).collect();
    let name = |((key, ..), form): &(&(&str, _, _), Form)| format!("{key} by {form:?}");
    each(&cases, name, |&(&(key, good, _), form)| {
        let ended = check_with(form, key, good);
        assert_eq!(ended.code, Some(0), "{ended}");
    });
}

#[test]
fn a_bad_value_is_refused_with_its_origin() {
    let keys = KEYS.iter().filter_map(|&(key, _, bad)| Some((key, bad?)));
    let cases: Vec<_> = keys.flat_map(|case| FORMS.map(|form| (case, form))).collect();
    each(
        &cases,
        |((key, _), form)| format!("{key} by {form:?}"),
        |&((key, bad), form)| {
            let ended = check_with(form, key, Some(bad));
            assert_eq!(ended.code, Some(2), "{ended}");
            assert_eq!(ended.stderr.trim_end().lines().count(), 1, "not one line\n{ended}");
            let origin = match form {
                Form::File => "overlaykey.conf".to_owned(),
                Form::Environment => format!("OVERLAYKEY_{key}"),
                Form::Flag => format!("--{}", key.to_lowercase().replace('_', "-")),
            };
            assert!(ended.stderr.contains(&origin), "stderr does not name {origin}\n{ended}");
            assert!(form != Form::File || names_line(&ended.stderr, 2), "stderr does not name line 2\n{ended}");
        },
    );
}

/// Whether a message about a configuration file names the line: `FILE:2`, `line 2`.
fn names_line(message: &str, line: usize) -> bool {
    let rest = message.split_once("overlaykey.conf").map_or("", |(_, rest)| rest);
    let number = rest.trim_start_matches([':', ',', ' ']).trim_start_matches("line ");
    number.strip_prefix(&line.to_string()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A file that is refused, and the line that is at fault.
const MALFORMED: &[(&str, &str, usize)] = &[
    ("half a line", "# the first\nAGENT_NA", 2),
    ("unknown key", "INTERVAL=5\n\nINTERVALL=5\n", 3),
    ("lower case", "interval=5\n", 1),
    ("section", "[overlaykey]\nINTERVAL=5\n", 1),
    ("no key", "=5\n", 1),
    ("open quote", "AGENT_NAME=\"router\n", 1),
    ("words after a quote", "AGENT_NAME=\"router\" one\n", 1),
    ("interval 0", "INTERVAL=0\n", 1),
    ("interval below 0", "INTERVAL=-1\n", 1),
    ("interval beyond all", "INTERVAL=1000000000000\n", 1),
    ("password in the address", "CLOUDBOX_URL=https://u:p@cloudbox.example\n", 1),
    ("port beyond all", "CLOUDBOX_URL=https://cloudbox.example:70000\n", 1),
    ("token in the clear", "CLOUDBOX_URL=http://cloudbox.example\n", 1),
    ("network too narrow", "POD_CIDR=10.0.0.0/33\n", 1),
    ("CRLF does not shift lines", "INTERVAL=5\r\n\r\nNONSENSE=1\r\n", 3),
];

#[test]
fn a_malformed_file_is_refused_with_file_and_line() {
    each(
        MALFORMED,
        |(name, ..)| (*name).to_owned(),
        |&(_, text, line)| {
            let mut site = Site::new();
            let path = site.dir.write("overlaykey.conf", text);
            if text.contains("CLOUDBOX_URL") {
                site.unset("cloudbox-url");
            }
            site.unset("interval");
            site.set("config", path.display().to_string());
            let ended = site.run(&["heal"]);
            assert_eq!(ended.code, Some(2), "{ended}");
            assert!(names_line(&ended.stderr, line), "stderr does not name line {line}\n{ended}");
            assert!(ended.stderr.contains(&path.display().to_string()), "stderr does not name the file\n{ended}");
            assert_eq!(ended.stderr.trim_end().lines().count(), 1, "not one line\n{ended}");
            assert_eq!((site.node.calls().len(), site.asked_for_keys()), (0, 0), "{ended}");
        },
    );
}

/// A file that is odd but clear, and the agent name that it gives.
const ODD: &[(&str, &str, &str)] = &[
    ("CRLF", "AGENT_NAME=router-3\r\n", "router-3"),
    ("BOM", "\u{feff}AGENT_NAME=router-3\n", "router-3"),
    ("no line end", "AGENT_NAME=router-3", "router-3"),
    ("comments and blank lines", "\n  \n# a comment\nAGENT_NAME=router-3\n\n", "router-3"),
    ("quotes", "AGENT_NAME=\"router 3\"\n", "router 3"),
    ("single quotes", "AGENT_NAME='router 3'\n", "router 3"),
    ("blanks after the value", "AGENT_NAME=router-3  \n", "router-3"),
];

#[test]
fn an_odd_but_clear_file_is_read() {
    each(
        ODD,
        |(name, ..)| (*name).to_owned(),
        |&(_, text, agent)| {
            let mut site = Site::new();
            site.unset("agent-name");
            let path = site.dir.write("overlaykey.conf", text);
            site.set("config", path.display().to_string());
            healed(&site.run(&["heal"]));
            assert_eq!(agent_name(&site), agent);
        },
    );
}

/// Whoever writes a key twice means the second, or nothing; never silently the first.
#[test]
fn a_key_given_twice_is_refused_or_the_last_one_counts() {
    let mut site = Site::new();
    site.unset("agent-name");
    let path = site.dir.write("overlaykey.conf", "AGENT_NAME=first\nAGENT_NAME=second\n");
    site.set("config", path.display().to_string());
    let ended = site.run(&["heal"]);
    match ended.code {
        Some(0) => assert_eq!(agent_name(&site), "second", "{ended}"),
        code => {
            assert_eq!(code, Some(2), "{ended}");
            assert!(names_line(&ended.stderr, 2), "{ended}");
        }
    }
}

#[test]
fn an_empty_file_says_what_is_missing() {
    let mut site = Site::new();
    site.unset("cloudbox-url");
    let path = site.dir.write("overlaykey.conf", "");
    site.set("config", path.display().to_string());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("CLOUDBOX_URL"), "{ended}");
    assert_eq!(site.node.calls(), [""; 0], "{ended}");
}

#[test]
fn a_missing_file_that_was_asked_for_is_refused() {
    let mut site = Site::new();
    site.set("config", "/nonexistent/overlaykey.conf");
    let ended = site.run(&["check"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("/nonexistent/overlaykey.conf"), "{ended}");
}

/// Token files that work: what stands around the token is not part of it.
const TOKENS: &[(&str, &[u8])] =
    &[("bare", b"T"), ("newline", b"T\n"), ("CRLF", b"T\r\n"), ("blanks", b"  T \n\n"), ("BOM", b"\xef\xbb\xbfT\n")];

#[test]
fn the_token_is_read_without_what_stands_around_it() {
    each(
        TOKENS,
        |(name, _)| (*name).to_owned(),
        |(_, text)| {
            let site = Site::new();
            let text = String::from_utf8_lossy(text).replace('T', TOKEN);
            site.dir.write("token", text);
            let ended = site.run(&["heal"]);
            healed(&ended);
            let request = &site.cloudbox.requests()[0];
            assert_eq!(request.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()), "{ended}");
        },
    );
}

/// Token files that hold no token.
const NO_TOKENS: &[(&str, Option<&[u8]>)] = &[
    ("empty", Some(b"")),
    ("blank", Some(b" \r\n")),
    ("not ASCII", Some(b"tok\xc3\xa9n\n")),
    ("not UTF-8", Some(b"tok\xffn\n")),
    ("two lines", Some(b"token\nanother\n")),
    ("missing", None),
];

#[test]
fn without_a_token_nobody_is_asked() {
    each(
        NO_TOKENS,
        |(name, _)| (*name).to_owned(),
        |(_, text)| {
            let mut site = Site::new();
            let path = match text {
                Some(text) => site.dir.write("token", text),
                None => site.dir.path("missing"),
            };
            site.set("token-file", path.display().to_string());
            no_token(&site, &path.display().to_string());
        },
    );
}

#[test]
fn a_folder_is_no_token() {
    let mut site = Site::new();
    let path = site.dir.path("tmp").display().to_string();
    site.set("token-file", &path);
    no_token(&site, &path);
}

fn no_token(site: &Site, path: &str) {
    let ended = site.run(&["heal"]);
    assert!(matches!(ended.code, Some(1 | 2)), "{ended}");
    assert!(ended.said().contains(path), "the file is not named\n{ended}");
    assert_eq!(site.cloudbox.requests().len(), 0, "{ended}");
    assert_eq!(site.node.ups(), [""; 0], "{ended}");
}

#[test]
fn a_token_that_everybody_can_read_works_and_is_warned_of() {
    let mut site = Site::new();
    site.set("log-level", "warn");
    fs::set_permissions(site.dir.path("token"), Permissions::from_mode(0o644)).expect("the token's mode");
    let ended = site.run(&["heal"]);
    healed(&ended);
    let path = site.dir.path("token").display().to_string();
    assert!(ended.stderr.contains(&path), "no warning\n{ended}");

    fs::set_permissions(site.dir.path("token"), Permissions::from_mode(0o600)).expect("the token's mode");
    site.node.shows(&document::logged_out());
    let ended = site.run(&["heal"]);
    healed(&ended);
    assert!(!ended.stderr.contains(&path), "a warning without a reason\n{ended}");
}

#[test]
fn run_waits_for_a_configuration_and_takes_it_on_hup() {
    let mut site = Site::new();
    let path = site.configure("");
    let good = fs::read_to_string(&path).expect("the configuration");
    fs::remove_file(&path).expect("remove the configuration");
    let mut daemon = site.daemon();
    daemon.wait_until("it says that the configuration is missing", |daemon| daemon.log().contains(&path));
    daemon.never("it says more", Duration::from_millis(1500), |daemon| daemon.log().lines().count() > 1);
    assert_eq!(site.node.calls(), [""; 0]);
    site.dir.write("overlaykey.conf", good);
    daemon.signal(Signal::HUP);
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn run_waits_for_a_good_configuration_and_takes_it_on_hup() {
    let mut site = Site::new();
    let path = site.configure("");
    let good = fs::read_to_string(&path).expect("the configuration");
    site.dir.write("overlaykey.conf", format!("NONSENSE=1\n{good}"));
    let mut daemon = site.daemon();
    daemon.wait_until("it names file and line", |daemon| names_line(&daemon.log(), 1));
    daemon.never("it says more", Duration::from_millis(1500), |daemon| daemon.log().lines().count() > 1);
    site.dir.write("overlaykey.conf", good);
    daemon.signal(Signal::HUP);
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    daemon.stops_on(Signal::TERM);
}

/// A healthy node that is looked at once an hour, and a daemon that did so once.
fn hourly() -> (Site, String) {
    let mut site = Site::showing(&document::healthy());
    site.set("interval", "1h");
    let path = site.configure("");
    (site, fs::read_to_string(path).expect("the configuration"))
}

#[test]
fn hup_takes_a_new_configuration() {
    let (site, old) = hourly();
    let mut daemon = site.daemon();
    // And is done with it: a call is told of before it has read what it prints.
    daemon.wait_until("it looked", |daemon| site.node.looks() == 1 && children(daemon.pid()).is_empty());
    site.dir.write("overlaykey.conf", old.replace("AGENT_NAME=router-1", "AGENT_NAME=router-4"));
    site.node.shows(&document::logged_out());
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::USR1);
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    assert_eq!(agent_name(&site), "router-4");
    daemon.stops_on(Signal::TERM);
}

#[test]
fn hup_refuses_a_bad_configuration_and_keeps_the_old_one() {
    let (site, old) = hourly();
    let mut daemon = site.daemon();
    // And is done with it: a call is told of before it has read what it prints.
    daemon.wait_until("it looked", |daemon| site.node.looks() == 1 && children(daemon.pid()).is_empty());
    let bad = old.replace("AGENT_NAME=router-1", "AGENT_NAME=router-4") + "NONSENSE=1\n";
    let line = bad.lines().count();
    site.dir.write("overlaykey.conf", bad);
    daemon.signal(Signal::HUP);
    daemon.wait_until("it names file and line", |daemon| names_line(&daemon.log(), line));
    site.node.shows(&document::logged_out());
    daemon.signal(Signal::USR1);
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    assert_eq!(agent_name(&site), "router-1");
    daemon.stops_on(Signal::TERM);
}

/// Without any signal: whoever provisions a device late has nothing to tell it with.
#[test]
#[ignore = "waits a minute for the file to be read again"]
fn a_configuration_that_comes_late_is_found() {
    let mut site = Site::new();
    let path = site.configure("");
    let hidden = format!("{path}.later");
    std::fs::rename(&path, &hidden).expect("hide the file");
    let mut daemon = site.daemon();
    daemon.wait_until("it says what is missing", |daemon| daemon.log().contains("overlaykey.conf"));
    std::fs::rename(&hidden, &path).expect("show the file");
    daemon.wait_within(Duration::from_secs(90), "the node is healed", |_| !site.node.keys().is_empty());
    daemon.stops_on(Signal::TERM);
}
