//! TERM and INT end the daemon at once from anywhere; USR1 makes it look. (HUP: configuration.rs.)

use std::time::Duration;

use rustix::process::Signal;

use crate::support::answer::{Answer, Manner};
use crate::support::cases::each;
use crate::support::document;
use crate::support::process::children;
use crate::support::program::Program;
use crate::support::server::Server;
use crate::support::site::{KEY, Site, issue};

const ENDS: [Signal; 2] = [Signal::TERM, Signal::INT];

/// Brings a daemon to a place by `arrive` and ends it there, once by each signal.
fn ends_from(prepare: impl Fn(&mut Site) + Sync, arrive: impl Fn(&mut Program, &Site) + Sync) {
    each(
        &ENDS,
        |signal| format!("{signal:?}"),
        |&signal| {
            let mut site = Site::new();
            prepare(&mut site);
            let mut daemon = site.daemon();
            arrive(&mut daemon, &site);
            daemon.stops_on(signal);
        },
    );
}

#[test]
fn ends_while_waiting() {
    let hourly = |site: &mut Site| {
        site.set("interval", "1h");
        site.node.shows(&document::healthy());
    };
    ends_from(hourly, |daemon, site| {
        daemon.wait_until("it waits", |daemon| site.node.looks() == 1 && children(daemon.pid()).is_empty());
    });
}

#[test]
fn ends_while_status_hangs() {
    ends_from(
        |site| site.node.script("status.sh", "hang"),
        |daemon, site| {
            daemon.wait_until("status hangs", |_| site.node.hanging().len() == 2);
        },
    );
}

#[test]
fn ends_while_up_hangs() {
    ends_from(
        |site| site.node.script("up.sh", "hang"),
        |daemon, site| {
            daemon.wait_until("up hangs", |_| site.node.hanging().len() == 2);
        },
    );
}

/// A child that cares for no signal is killed, not asked.
#[test]
fn ends_while_a_deaf_up_hangs() {
    ends_from(
        |site| site.node.script("up.sh", "trap '' TERM INT HUP; hang"),
        |daemon, site| {
            daemon.wait_until("up hangs", |_| site.node.hanging().len() == 2);
        },
    );
}

#[test]
fn ends_while_status_floods() {
    let flood = "echo $$ >>\"$FAKE_DIR/pids\"; exec yes";
    ends_from(
        |site| site.node.script("status.sh", flood),
        |daemon, site| {
            daemon.wait_until("status floods", |_| site.node.hanging().len() == 1);
        },
    );
}

#[test]
fn ends_while_cloudbox_is_silent() {
    ends_from(
        |site| site.cloudbox.answers(|_| Answer::none(Manner::Silence)),
        |daemon, site| {
            daemon.wait_until("cloudbox was asked", |_| site.asked_for_keys() == 1);
        },
    );
}

#[test]
fn ends_while_cloudbox_drips() {
    let drip = || issue(&format!("{KEY}drip"), "", "").by(Manner::Drip(Duration::from_secs(1)));
    ends_from(
        move |site| site.cloudbox.answers(move |_| drip()),
        |daemon, site| {
            daemon.wait_until("cloudbox was asked", |_| site.asked_for_keys() == 1);
        },
    );
}

/// Before a word of TLS was spoken.
#[test]
fn ends_in_the_handshake() {
    each(
        &ENDS,
        |signal| format!("{signal:?}"),
        |&signal| {
            let mut site = Site::new();
            let mute = Server::mute();
            site.set("cloudbox-url", format!("https://localhost:{}", mute.port()));
            let mut daemon = site.daemon();
            daemon.wait_until("it connected", |_| mute.connections() == 1);
            daemon.stops_on(signal);
        },
    );
}

#[test]
fn ends_while_the_control_server_is_silent() {
    let silent = |site: &mut Site| {
        site.node.shows(&document::out_of_touch());
        site.control.answers(|_| Answer::none(Manner::Silence));
    };
    ends_from(silent, |daemon, site| {
        daemon.wait_until("the control server was asked", |_| !site.control.requests().is_empty());
    });
}

#[test]
fn ends_while_it_backs_off() {
    ends_from(
        |site| site.cloudbox.answers(|_| Answer::html(500)),
        |daemon, site| {
            daemon.wait_until("it waits", |daemon| site.asked_for_keys() == 1 && children(daemon.pid()).is_empty());
        },
    );
}

#[test]
fn ends_while_it_looks_whether_the_heal_took() {
    ends_from(
        |site| site.node.becomes("up", &document::logged_out()),
        |daemon, site| {
            daemon.wait_until("up is over", |_| site.node.ups().len() == 1);
            let looks = site.node.looks();
            daemon.wait_until("it looks", |_| site.node.looks() > looks);
        },
    );
}

#[test]
fn ends_without_a_configuration() {
    each(
        &ENDS,
        |signal| format!("{signal:?}"),
        |&signal| {
            let mut site = Site::new();
            site.set("config", "/nonexistent/overlaykey.conf");
            let mut daemon = site.daemon();
            daemon.wait_until("it says so", |daemon| daemon.log().contains("/nonexistent/overlaykey.conf"));
            daemon.stops_on(signal);
        },
    );
}

#[test]
fn usr1_looks_now() {
    let mut site = Site::showing(&document::healthy());
    site.set("interval", "1h");
    let mut daemon = site.daemon();
    for looks in 1..=5 {
        daemon.wait_until("it looked", |_| site.node.looks() == looks);
        daemon.signal(Signal::USR1);
    }
    daemon.wait_until("it looked", |_| site.node.looks() == 6);
    daemon.never("it looks by itself", Duration::from_secs(2), |_| site.node.looks() > 6);
    daemon.stops_on(Signal::TERM);
}

/// A look that is asked for while one is under way is not lost with it.
#[test]
fn usr1_during_a_request_is_not_lost() {
    let mut site = Site::new();
    site.set("interval", "1h");
    site.cloudbox.answers(|_| Answer::html(500).by(Manner::Late(Duration::from_secs(2))));
    let mut daemon = site.daemon();
    daemon.wait_until("cloudbox was asked", |_| site.asked_for_keys() == 1);
    let looks = site.node.looks();
    daemon.signal(Signal::USR1);
    // Without the signal: the backoff, 11 s at least.
    daemon.wait_within(Duration::from_secs(9), "it looks", |_| site.node.looks() > looks);
    daemon.stops_on(Signal::TERM);
}

/// The reader of our log may go away; that is no reason to go as well.
#[test]
fn pipe_and_others_are_ignored() {
    let mut site = Site::showing(&document::healthy());
    site.set("interval", "1h");
    let mut daemon = site.daemon();
    daemon.wait_until("it looked", |_| site.node.looks() == 1);
    daemon.signal(Signal::PIPE);
    daemon.signal(Signal::CHILD);
    daemon.signal(Signal::USR1);
    daemon.wait_until("it looked again", |_| site.node.looks() == 2);
    daemon.stops_on(Signal::TERM);
}
