//! What `tailscale up` can say, and what follows from it.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::cases::each;
use crate::support::document;
use crate::support::site::{KEY, Site};

/// The keys that arrived, without line ends.
fn keys(site: &Site) -> Vec<String> {
    site.node.keys().iter().map(|key| key.trim_end().to_owned()).collect()
}

fn key(number: usize) -> String {
    format!("{KEY}{number}")
}

/// How a refused key shows.
const REFUSED: &[&str] = &[
    "backend error: authkey already used",
    "backend error: authkey expired",
    "backend error: invalid pre auth key",
    "backend error: AuthKey not found",
    "backend error: auth-key not found",
    "backend error: authkey revoked",
];

#[test]
fn a_refused_key_is_replaced_at_once() {
    each(REFUSED, ToString::to_string, |text| {
        let site = Site::new();
        site.node.fails("up.1", text);
        site.node.becomes("up.1", &document::logged_out());
        let ended = site.run(&["heal"]);
        assert_eq!(ended.code, Some(0), "{ended}");
        assert_eq!(keys(&site), [key(1), key(2)], "{ended}");
        assert!(ended.took < Duration::from_secs(10), "not at once\n{ended}");
    });
}

#[test]
fn a_second_refused_key_is_the_last_for_now() {
    each(REFUSED, ToString::to_string, |text| {
        let site = Site::new();
        site.node.fails("up", text);
        site.node.becomes("up", &document::logged_out());
        let ended = site.run(&["heal"]);
        assert_eq!(ended.code, Some(1), "{ended}");
        assert_eq!(keys(&site), [key(1), key(2)], "{ended}");
        let reason = text.trim_start_matches("backend error: ");
        assert!(ended.said().contains(reason), "the reason is not given\n{ended}");
    });
}

/// Current clients exit with 0 and go on saying Running: only the health text tells.
#[test]
fn a_key_refused_behind_exit_0_is_replaced_at_once() {
    let site = Site::showing(&document::logged_out());
    site.node.becomes("up.1", &document::refused());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(keys(&site), [key(1), key(2)], "{ended}");
    assert!(ended.took < Duration::from_secs(40), "not at once\n{ended}");
}

#[test]
fn the_daemon_replaces_a_refused_key_once_and_then_backs_off() {
    let site = Site::new();
    site.node.fails("up", "backend error: authkey already used");
    site.node.becomes("up", &document::logged_out());
    let mut daemon = site.daemon();
    daemon.wait_until("two keys were tried", |_| site.node.ups().len() == 2);
    daemon.never("a third is tried", Duration::from_secs(6), |_| {
        site.node.ups().len() > 2 || site.asked_for_keys() > 2
    });
    daemon.stops_on(Signal::TERM);
}

#[test]
fn another_login_server_takes_force_reauth_and_the_same_key() {
    let site = Site::new();
    site.node.fails("up.1", "can't change --login-server without --force-reauth");
    site.node.becomes("up.1", &document::logged_out());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(keys(&site), [key(1), key(1)], "{ended}");
    assert_eq!(site.asked_for_keys(), 1, "{ended}");
    let ups = site.node.ups();
    let forced: Vec<bool> = ups.iter().map(|up| up.split(' ').any(|word| word == "--force-reauth")).collect();
    assert_eq!(forced, [false, true], "{ended}");
}

#[test]
fn force_reauth_is_tried_once() {
    let site = Site::new();
    site.node.fails("up", "can't change --login-server without --force-reauth");
    site.node.becomes("up", &document::logged_out());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_eq!(site.node.ups().len(), 2, "{ended}");
    assert_eq!(site.asked_for_keys(), 1, "{ended}");
}

/// What `up` says when no key will ever help.
const HOPELESS: &[(&str, &str)] =
    &[("Access denied: checkprefs access denied", "1"), ("flag provided but not defined: -auth-key", "2")];

#[test]
fn what_no_key_cures_costs_no_further_key() {
    each(
        HOPELESS,
        |(text, _)| (*text).to_owned(),
        |(text, exit)| {
            let site = Site::new();
            site.node.fails("up", text);
            site.node.script("up.exit", exit);
            site.node.becomes("up", &document::logged_out());
            let mut daemon = site.daemon();
            daemon.wait_until("up said no", |daemon| daemon.log().contains(text));
            // Longer than the first backoff would be.
            daemon.never("another key is asked for", Duration::from_secs(21), |_| site.asked_for_keys() > 1);
            assert_eq!(site.node.ups().len(), 1);
            daemon.stops_on(Signal::TERM);
        },
    );
}

#[test]
fn a_reload_is_a_change_worth_another_key() {
    let mut site = Site::new();
    site.configure("");
    site.node.fails("up.1", "Access denied: checkprefs access denied");
    site.node.becomes("up.1", &document::logged_out());
    let mut daemon = site.daemon();
    daemon.wait_until("up said no", |daemon| daemon.log().contains("Access denied"));
    daemon.signal(Signal::HUP);
    daemon.wait_until("it tried again", |_| site.node.ups().len() == 2);
    daemon.stops_on(Signal::TERM);
}

/// HUPs come from package managers and link scripts, too.
#[test]
fn a_reload_of_the_same_configuration_costs_no_key_and_unmasks_none() {
    let mut site = Site::new();
    site.configure("");
    site.node.fails("up", "no way");
    site.node.becomes("up", &document::logged_out());
    let mut daemon = site.daemon();
    daemon.wait_within(Duration::from_secs(30), "it failed", |daemon| daemon.log().contains("next attempt in"));
    daemon.signal(Signal::HUP);
    daemon.wait_until("it read it again", |daemon| daemon.log().contains("the configuration was read again"));
    daemon.never("it asks for another key", Duration::from_secs(4), |_| site.asked_for_keys() > 1);
    site.node.shows(&format!("weird {KEY}1\n"));
    site.node.script("status.exit", "1");
    site.node.script("status.stderr", format!("weird {KEY}1"));
    daemon.signal(Signal::USR1);
    daemon.wait_until("it cannot tell", |daemon| daemon.log().contains("weird"));
    let ended = daemon.stops_on(Signal::TERM);
    assert!(!ended.said().contains(&format!("{KEY}1")), "{ended}");
}

#[test]
fn heal_gives_the_reason_of_up() {
    each(
        HOPELESS,
        |(text, _)| (*text).to_owned(),
        |(text, exit)| {
            let site = Site::new();
            site.node.fails("up", text);
            site.node.script("up.exit", exit);
            site.node.becomes("up", &document::logged_out());
            let ended = site.run(&["heal"]);
            assert_eq!(ended.code, Some(1), "{ended}");
            assert!(ended.said().contains(text), "{ended}");
            assert_eq!(site.node.ups().len(), 1, "{ended}");
        },
    );
}

/// `up` that gave up waiting may have done its work all the same.
#[test]
fn a_timeout_of_up_is_judged_by_the_looks_that_follow() {
    let site = Site::new();
    site.node.fails(
        "up",
        r#"timeout waiting for Tailscale service to enter a Running state; check health with "tailscale status""#,
    );
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(keys(&site), [key(1)], "{ended}");
}

#[test]
fn an_up_that_the_kernel_killed_is_a_failed_heal() {
    let site = Site::new();
    site.node.script("up.sh", "kill -KILL $$");
    let mut daemon = site.daemon();
    daemon.wait_until("up was killed", |_| site.node.ups().len() == 1);
    daemon.never("it tries again at once", Duration::from_secs(5), |_| site.node.ups().len() > 1);
    daemon.stops_on(Signal::TERM);
}

/// The real CLI repeats its whole command line in some refusals.
#[test]
fn a_key_that_up_repeats_is_masked() {
    let site = Site::new();
    site.node.script(
        "up.sh",
        r#"echo "tailscale up --auth-key=$(cat "$FAKE_DIR/key.1") failed"
        echo "changing settings requires mentioning all non-default flags: --auth-key=$(cat "$FAKE_DIR/key.1")" >&2
        exit 1"#,
    );
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_eq!(keys(&site), [key(1)], "{ended}");
    assert!(ended.said().contains("requires mentioning"), "the reason is not given\n{ended}");
    assert!(!ended.said().contains(KEY), "{ended}");
}

#[test]
fn an_up_that_floods_is_survived() {
    let site = Site::new();
    site.node.script("up.sh", "yes 'this text is long' | head -c 20000000; yes 'and this' | head -c 20000000 >&2");
    let ended = site.run(&["heal"]);
    assert_eq!(keys(&site), [key(1)], "{ended}");
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.peak < 64 * 1024, "{} KiB\n{ended}", ended.peak);
}

/// The whole loop by the daemon: once, and then no more.
#[test]
fn the_daemon_brings_a_logged_out_node_back_with_one_key() {
    let site = Site::new();
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| site.node.ups().len() == 1);
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 3);
    assert_eq!(keys(&site), [key(1)]);
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (1, 1));
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_stopped_node_is_brought_up_without_a_flag_or_a_key() {
    let site = Site::showing(&document::stopped());
    let mut daemon = site.daemon();
    daemon.wait_until("the node is up", |_| site.node.ups().len() == 1);
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 2);
    assert_eq!(site.node.ups(), ["up"]);
    assert_eq!(site.asked_for_keys(), 0);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_stopped_node_that_does_not_come_up_is_healed() {
    let site = Site::showing(&document::stopped());
    site.node.becomes("up.1", &document::logged_out());
    let mut daemon = site.daemon();
    daemon.wait_within(Duration::from_secs(100), "a key was used", |_| site.node.ups().len() == 2);
    assert_eq!(site.node.ups()[0], "up");
    assert_eq!(site.asked_for_keys(), 1);
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_stopped_node_can_be_left_alone() {
    let mut site = Site::showing(&document::stopped());
    site.set("stopped", "leave");
    let mut daemon = site.daemon();
    daemon.wait_until("it looked some times", |_| site.node.looks() > 3);
    assert_eq!((site.node.ups().len(), site.asked_for_keys()), (0, 0));
    daemon.stops_on(Signal::TERM);
}

/// What no key helps against is looked at and reported.
#[test]
fn a_stuck_or_unreadable_node_is_left_alone() {
    let cases = [
        ("approval", r#"{"BackendState":"NeedsMachineAuth","Self":{}}"#),
        (
            "disk",
            r#"{"BackendState":"NoState","Health":["State store failed to initialize, Tailscale will not work"]}"#,
        ),
        ("no JSON", "failed\n"),
    ];
    each(
        &cases,
        |(name, _)| (*name).to_owned(),
        |(_, status)| {
            let site = Site::showing(status);
            let mut daemon = site.daemon();
            daemon.wait_until("it looked some times", |_| site.node.looks() > 3);
            assert_eq!((site.node.ups().len(), site.asked_for_keys()), (0, 0));
            let ended = daemon.stops_on(Signal::TERM);
            assert!(!ended.stderr.trim().is_empty(), "it said nothing\n{ended}");
        },
    );
}

#[test]
#[ignore = "waits two minutes for the limit of `up`"]
fn an_up_without_end_is_ended() {
    let site = Site::new();
    site.node.script("up.sh", "hang");
    let ended = site.start(&["heal"]).ends_within(Duration::from_mins(4));
    assert_eq!(ended.code, Some(1), "{ended}");
    let left: Vec<u32> = site.node.hanging().into_iter().filter(|&pid| crate::support::process::alive(pid)).collect();
    assert!(left.is_empty() && site.node.hanging().len() == 2, "{ended}");
    assert!(ended.took > Duration::from_secs(115), "{ended}");
}
