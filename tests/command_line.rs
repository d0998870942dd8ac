//! The command line: what it prints about itself, and what it refuses.

use crate::support::cases::each;
use crate::support::program::Ended;
use crate::support::site::Site;

/// Exit code 2 and one line on stderr that holds all of `words`; nothing was done.
fn refused(site: &Site, ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(2), "{ended}");
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "not one line\n{ended}");
    for word in words {
        assert!(ended.stderr.contains(word), "stderr does not name {word:?}\n{ended}");
    }
    assert_eq!(ended.stdout, "", "{ended}");
    assert_eq!(site.node.calls(), [""; 0], "{ended}");
    assert_eq!(site.asked_for_keys(), 0, "{ended}");
}

#[test]
fn version_names_target_revision_and_date() {
    let ended = Site::new().run(&["--version"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended}");
    let line = ended.stdout.strip_suffix('\n').expect("a whole line");
    let start = concat!("overlaykey ", env!("CARGO_PKG_VERSION"), " (");
    let parts = line.strip_prefix(start).and_then(|rest| rest.strip_suffix(')'));
    let parts: Vec<&str> = parts.unwrap_or_else(|| panic!("{line:?}")).split(", ").collect();
    let [target, revision, date] = parts[..] else { panic!("not three parts: {line:?}") };
    assert!(target.split('-').count() >= 3, "{target:?} is no target triple");
    let revision = revision.strip_prefix("git ").unwrap_or_else(|| panic!("{revision:?} is no revision"));
    assert!(!revision.is_empty() && !revision.contains(' '), "{revision:?} is no revision");
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let date: Vec<&str> = date.split('-').collect();
    assert!(matches!(date[..], [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2)), "{line:?}");
}

#[test]
fn help_is_one_screen_and_names_every_command() {
    let ended = Site::new().run(&["--help"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended}");
    let lines = ended.stdout.lines().count();
    assert!((10..=50).contains(&lines), "{lines} lines are not one screen\n{ended}");
    for word in ["run", "check", "--json", "heal", "--version", "--help", "--config", "overlaykey.conf"] {
        assert!(ended.stdout.contains(word), "help does not name {word}\n{ended}");
    }
    let long = ended.stdout.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "a line that a console wraps");
}

#[test]
fn help_and_version_do_not_look_at_the_configuration() {
    for word in ["--help", "--version"] {
        let mut site = Site::new();
        site.configure("NONSENSE=1\n");
        let ended = site.run(&[word]);
        assert_eq!(ended.code, Some(0), "{ended}");
        assert_ne!(ended.stdout, "", "{ended}");
    }
}

/// A bad command line, and what the one line about it must hold. An address itself need not be repeated: it may hold a
/// password.
type Bad = (&'static [&'static str], &'static [&'static str]);

const BAD: &[Bad] = &[
    (&[], &["run", "check", "heal"]),
    (&["frobnicate"], &["frobnicate", "run", "check", "heal"]),
    (&["check", "twice"], &["twice"]),
    (&["check", "--frobnicate"], &["--frobnicate"]),
    (&["check", "-x"], &["-x"]),
    (&["check", "--json=maybe"], &["--json"]),
    (&["check", "--interval"], &["--interval"]),
    (&["check", "--interval", "0"], &["interval", "0", "1"]),
    (&["run", "--interval", "0"], &["interval", "0", "1"]),
    (&["check", "--interval", "-1"], &["interval", "-1"]),
    (&["check", "--interval", "1000000000000"], &["interval", "1000000000000"]),
    (&["check", "--interval", "soon"], &["interval", "soon", "30s"]),
    (&["check", "--interval", "5d"], &["interval", "5d", "30s"]),
    (&["check", "--membership-interval", "often"], &["membership-interval", "often"]),
    (&["check", "--stopped", "maybe"], &["stopped", "maybe", "up", "leave"]),
    (&["check", "--accept-routes", "perhaps"], &["accept-routes", "perhaps", "yes", "no"]),
    (&["check", "--ignore-credential-pod-cidr", "perhaps"], &["ignore-credential-pod-cidr", "perhaps"]),
    (&["check", "--log", "nowhere"], &["log", "nowhere", "stderr", "syslog"]),
    (&["check", "--log-level", "loud"], &["log-level", "loud", "debug"]),
    (&["check", "--cloudbox-url", "http://cloudbox.example"], &["cloudbox-url", "https"]),
    (&["check", "--cloudbox-url", "https://u:p@cloudbox.example"], &["cloudbox-url"]),
    (&["check", "--cloudbox-url", "https://cloudbox.example:70000"], &["cloudbox-url", "port"]),
    (&["check", "--cloudbox-url", "cloudbox.example"], &["cloudbox-url", "https://"]),
    (&["check", "--control-url", "ftp://control.example"], &["control-url", "https://", "http://"]),
    (&["check", "--pod-cidr", "10.0.0.0/33"], &["pod-cidr", "10.0.0.0/33"]),
    (&["check", "--pod-cidr", "10.0.0.0/24,pods"], &["pod-cidr", "pods"]),
];

#[test]
fn a_bad_command_line_is_refused_in_one_line() {
    each(
        BAD,
        |(words, _)| words.join(" "),
        |(words, named)| {
            let mut site = Site::new();
            // An option that is given twice is another fault.
            for word in *words {
                site.unset(word.trim_start_matches("--"));
            }
            refused(&site, &site.run(words), named);
        },
    );
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    let mut site = Site::new();
    site.unset("cloudbox-url");
    let ended = site.run(&["check", "--cloudbox-url", "https://u:hunter2@cloudbox.example"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("cloudbox-url") && !ended.said().contains("hunter2"), "{ended}");
}

#[test]
fn a_value_may_be_joined_with_an_equals_sign() {
    let mut site = Site::new();
    site.unset("agent-name");
    let ended = site.run(&["--agent-name=router-7", "heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(site.cloudbox.requests()[0].body.contains("router-7"), "{ended}");
}

#[test]
fn options_may_follow_the_command() {
    let mut site = Site::new();
    site.unset("agent-name");
    let ended = site.run(&["heal", "--agent-name", "router-8"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(site.cloudbox.requests()[0].body.contains("router-8"), "{ended}");
}

#[test]
fn durations_may_carry_a_unit() {
    each(&["1", "1s", "30s", "5m", "1h"], ToString::to_string, |text| {
        let mut site = Site::showing(&crate::support::document::healthy());
        site.set("interval", *text);
        site.set("membership-interval", *text);
        let ended = site.run(&["check"]);
        assert_eq!((ended.code, site.node.looks()), (Some(0), 1), "{ended}");
    });
}
