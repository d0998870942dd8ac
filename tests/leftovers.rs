//! One thread, no child and no descriptor too many, however long it runs.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::support::answer::{Answer, Manner};
use crate::support::document;
use crate::support::process::{children, descriptors, threads};
use crate::support::program::Program;
use crate::support::site::Site;

#[test]
fn a_request_to_cloudbox_takes_no_thread() {
    let site = Site::new();
    site.cloudbox.answers(|_| Answer::none(Manner::Silence));
    let mut daemon = site.daemon();
    daemon.wait_until("cloudbox was asked", |_| site.asked_for_keys() == 1);
    assert_eq!(threads(daemon.pid()), 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_request_to_the_control_server_takes_no_thread() {
    let mut site = Site::showing(&document::out_of_touch());
    site.set("control-url", site.login_server().replace("127.0.0.1", "localhost"));
    site.control.answers(|_| Answer::none(Manner::Silence));
    let mut daemon = site.daemon();
    daemon.wait_until("the control server was asked", |_| !site.control.requests().is_empty());
    assert_eq!(threads(daemon.pid()), 1);
    daemon.stops_on(Signal::TERM);
}

/// A thread that only resolves a name is gone within a millisecond: here somebody watches all the while.
#[test]
fn a_name_is_resolved_without_a_thread() {
    let mut site = Site::showing(&document::out_of_touch());
    site.set("control-url", site.login_server().replace("127.0.0.1", "localhost"));
    let mut daemon = site.daemon();
    // Before its first look it may not listen to signals yet.
    daemon.wait_until("it asked", |_| !site.control.requests().is_empty());
    let (pid, done) = (daemon.pid(), AtomicBool::new(false));
    let most = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(threads(pid));
            }
            most
        });
        // Ends the watch also where the looks fail.
        let looks = catch_unwind(AssertUnwindSafe(|| look_and_ask(&mut daemon, &site, 15)));
        done.store(true, Ordering::Relaxed);
        looks.unwrap_or_else(|panic| resume_unwind(panic));
        watch.join().expect("the watch")
    });
    assert_eq!(most, 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_hanging_child_takes_no_thread() {
    let site = Site::new();
    site.node.script("up.sh", "hang");
    let mut daemon = site.daemon();
    daemon.wait_until("up hangs", |_| site.node.hanging().len() == 2);
    assert_eq!((threads(daemon.pid()), children(daemon.pid()).len()), (1, 1));
    daemon.stops_on(Signal::TERM);
}

/// Lets the daemon look and ask the control server `count` more times.
fn look_and_ask(daemon: &mut Program, site: &Site, count: usize) {
    for _ in 0..count {
        let (looks, asked) = (site.node.looks(), site.control.requests().len());
        daemon.signal(Signal::USR1);
        daemon.wait_until("it looked and asked", |_| {
            site.node.looks() > looks && site.control.requests().len() > asked
        });
    }
    daemon.wait_until("it rests", |daemon| children(daemon.pid()).is_empty());
}

#[test]
fn twenty_looks_and_questions_leave_nothing_open() {
    let mut site = Site::showing(&document::out_of_touch());
    site.set("interval", "1h");
    let mut daemon = site.daemon();
    daemon.wait_until("it looked and asked", |_| site.control.asked("/verify") == 1);
    look_and_ask(&mut daemon, &site, 2);
    let few = resting(&mut daemon);
    look_and_ask(&mut daemon, &site, 20);
    let many = resting(&mut daemon);
    assert_eq!(few, many, "descriptors grew");
    assert_eq!(children(daemon.pid()), [0; 0]);
    daemon.stops_on(Signal::TERM);
}

/// A heal that never takes, as often as one asks for it by another configuration: child, pipe, TLS and all.
#[test]
fn heals_leave_nothing_open() {
    let mut site = Site::new();
    let path = site.configure("");
    let configuration = std::fs::read_to_string(&path).expect("the configuration");
    site.node.fails("up", "Access denied: checkprefs access denied");
    site.node.becomes("up", &document::logged_out());
    let mut daemon = site.daemon();
    let mut few = 0;
    for heals in 1..=20 {
        daemon.wait_until("it tried to heal", |_| site.node.ups().len() == heals);
        daemon.wait_until("it rests", |daemon| children(daemon.pid()).is_empty());
        if heals == 3 {
            few = resting(&mut daemon);
        }
        std::fs::write(&path, format!("{configuration}UP_FLAGS=--hostname=h{heals}\n")).expect("another one");
        daemon.signal(Signal::HUP);
    }
    daemon.wait_until("it tried to heal", |_| site.node.ups().len() == 21);
    let many = resting(&mut daemon);
    assert_eq!(few, many, "descriptors grew");
    assert_eq!((threads(daemon.pid()), children(daemon.pid()).len()), (1, 0));
    daemon.stops_on(Signal::TERM);
}

/// The number of descriptors once it does not change any more for some looks at it.
fn resting(daemon: &mut Program) -> usize {
    let (mut last, mut same) = (0, 0);
    daemon.wait_until("it rests", |daemon| {
        let count = descriptors(daemon.pid()).len();
        same = if count == last && children(daemon.pid()).is_empty() { same + 1 } else { 0 };
        last = count;
        same >= 10
    });
    last
}

/// What a child inherits it may keep for ever: three streams, no socket, no file of ours.
#[test]
fn a_child_inherits_only_its_streams() {
    let site = Site::new();
    site.node.script("up.sh", "ls -l /proc/$$/fd >\"$FAKE_DIR/inherited\"");
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let inherited = site.node.folder().read("inherited").expect("the list");
    let targets: Vec<&str> = inherited.lines().filter_map(|line| line.split_once(" -> ")).map(|(_, to)| to).collect();
    assert!(targets.len() >= 3, "{inherited}");
    // What the tests themselves were started with goes down to everybody; the shell has its scripts open.
    let ours = descriptors(std::process::id());
    let known = ["/dev/null", "/inherited", "/fake/tailscale", "/up.sh"];
    let strange = |to: &&&str| !ours.iter().any(|our| our == **to) && !known.iter().any(|end| to.ends_with(end));
    let (pipes, others): (Vec<&str>, Vec<&str>) =
        targets.iter().filter(strange).partition(|to| to.starts_with("pipe:"));
    assert_eq!(others, [""; 0], "{inherited}");
    let pipes: BTreeSet<&str> = pipes.into_iter().collect();
    assert_eq!(pipes.len(), 3, "stdin, stdout, stderr\n{inherited}");
}
