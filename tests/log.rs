//! The log: one line a change, and silence while nothing changes.

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::cases::each;
use crate::support::document;
use crate::support::program::Program;
use crate::support::site::{KEY, Site};

/// A device that shows `status`, and a daemon that logs as it does by default.
fn quiet(status: &str) -> Site {
    let mut site = Site::showing(status);
    site.unset("log-level");
    site
}

/// Lets the daemon look `count` more times.
fn look_on(daemon: &mut Program, site: &Site, count: usize) {
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() >= looks + count);
}

#[test]
fn nothing_is_said_while_nothing_changes() {
    let cases = [
        ("healthy", document::healthy()),
        ("stopped", document::stopped()),
        ("stuck", r#"{"BackendState":"NeedsMachineAuth","Self":{}}"#.to_owned()),
        ("out of touch", document::out_of_touch()),
        ("unreadable", "failed\n".to_owned()),
    ];
    each(
        &cases,
        |(name, _)| (*name).to_owned(),
        |(name, status)| {
            let mut site = quiet(status);
            site.set("stopped", "leave");
            let mut daemon = site.daemon();
            look_on(&mut daemon, &site, 3);
            let said = daemon.log();
            look_on(&mut daemon, &site, 4);
            assert_eq!(daemon.log(), said);
            let lines = said.lines().count();
            assert!((1..=3).contains(&lines), "{lines} lines to begin with\n{said}");
            assert!(*name == "healthy" || lines >= 2 || !said.contains(" runs"), "nothing about {name}\n{said}");
            daemon.stops_on(Signal::TERM);
        },
    );
}

#[test]
fn a_heal_that_cannot_begin_is_said_once() {
    let mut site = quiet(&document::logged_out());
    site.set("control-url", "http://127.0.0.1:1");
    let mut daemon = site.daemon();
    look_on(&mut daemon, &site, 2);
    let said = daemon.log();
    look_on(&mut daemon, &site, 4);
    assert_eq!(daemon.log(), said);
    assert_eq!(said.matches("does not answer").count(), 1, "{said}");
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_change_is_one_line_and_so_is_its_end() {
    let mut site = quiet(&document::healthy());
    site.set("stopped", "leave");
    let mut daemon = site.daemon();
    look_on(&mut daemon, &site, 3);
    let before = daemon.log().lines().count();
    site.node.shows(&document::stopped());
    look_on(&mut daemon, &site, 4);
    let log = daemon.log();
    assert_eq!(log.lines().count(), before + 1, "{log}");
    assert!(log.lines().last().is_some_and(|line| line.contains("stopped")), "{log}");
    site.node.shows(&document::healthy());
    look_on(&mut daemon, &site, 4);
    let log = daemon.log();
    assert_eq!(log.lines().count(), before + 2, "{log}");
    assert!(log.lines().all(|line| line.len() <= 300), "too long for a serial console\n{log}");
    daemon.stops_on(Signal::TERM);
}

/// What a node or a server says may hold line ends and worse: a line of the log stays one line.
#[test]
fn what_others_say_makes_no_lines_of_its_own() {
    let site = quiet(&document::logged_out_saying("You are logged out.\nroot: all is well\u{1b}[2J\u{7}"));
    site.cloudbox.answers(|_| crate::support::answer::Answer::html(500));
    let mut daemon = site.daemon();
    daemon.wait_until("cloudbox was asked", |_| site.asked_for_keys() == 1);
    look_on(&mut daemon, &site, 2);
    let log = daemon.log();
    assert!(log.contains("You are logged out"), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("root:")), "{log}");
    assert!(!log.contains(|c: char| c.is_control() && c != '\n'), "{log:?}");
    daemon.stops_on(Signal::TERM);
}

/// The disk may be full and the reader gone: the work goes on.
#[test]
fn a_log_that_takes_nothing_is_no_reason_to_end() {
    let mut site = Site::new();
    site.log_to("/dev/full");
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    look_on(&mut daemon, &site, 3);
    assert_eq!(site.node.keys().concat().trim_end(), format!("{KEY}1"));
    daemon.stops_on(Signal::TERM);
}

/// No syslog on this machine, or none yet.
#[test]
fn a_syslog_that_is_not_there_is_no_reason_to_end() {
    let mut site = Site::new();
    site.set("log", "syslog");
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    look_on(&mut daemon, &site, 3);
    daemon.stops_on(Signal::TERM);
}

/// A container's terminal, a dead remote shell: the terminal takes what fits, and nobody reads it.
#[test]
fn a_terminal_that_nobody_reads_is_no_reason_to_hang() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("its mode");
    unlockpt(&terminal).expect("its lock");
    let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("UTF-8");
    let mut site = Site::showing(&document::healthy());
    site.log_to(name.leak());
    let path = site.configure("");
    let mut daemon = site.daemon();
    daemon.wait_until("it looks", |_| site.node.looks() > 0);
    for round in 0..150 {
        // Lines of many lengths into a buffer of 64 KiB, so that one of them finds room for its beginning only.
        std::fs::write(&path, "A".repeat(700 + round) + "=1").expect("a bad configuration");
        let looks = site.node.looks();
        daemon.signal(Signal::HUP);
        daemon.wait_until("it looks after a reload that it refused", |_| site.node.looks() > looks);
    }
    daemon.stops_on(Signal::TERM);
    drop(terminal);
}
