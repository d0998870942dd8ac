//! Numbers that do not fit 32 bits, for the sake of machines that have no more.

use std::env;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::support::answer::{Answer, Manner};
use crate::support::cases::each;
use crate::support::json::Object;
use crate::support::site::{KEY, Site};

const FIVE_GIGABYTES: u64 = 5_000_000_000;

/// A file of that length with nothing in it.
fn sparse(path: &Path) {
    let file = File::create(path).expect("a file");
    file.set_permissions(Permissions::from_mode(0o600)).expect("its mode");
    file.set_len(FIVE_GIGABYTES).expect("a file system that knows sparse files");
}

#[test]
fn a_file_of_five_gigabytes_is_refused_by_its_name() {
    each(
        &["token-file", "ca-file", "config"],
        |option| (*option).to_owned(),
        |option| {
            let mut site = Site::new();
            let path = site.dir.path("long");
            sparse(&path);
            site.set(option, path.display().to_string());
            let ended = site.run(&["heal"]);
            assert_ne!(ended.code, Some(0), "{ended}");
            assert!(ended.said().contains(&path.display().to_string()), "{ended}");
            assert!(ended.said().contains("longer than"), "{ended}");
            assert_eq!(site.asked_for_keys(), 0, "{ended}");
        },
    );
}

#[test]
fn an_answer_of_five_gigabytes_is_refused() {
    let site = Site::new();
    let answer = Answer::json(200, "{}").by(Manner::Announced(FIVE_GIGABYTES));
    site.cloudbox.answers(move |_| answer.clone());
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(site.node.ups().is_empty(), "{ended}");
}

#[test]
fn a_key_that_lives_for_thousands_of_years_is_used() {
    let site = Site::new();
    let login_server = site.login_server();
    site.cloudbox.answers(move |_| {
        let lifetime = 1_000_000_000_000_u64;
        Answer::json(
            200,
            format!(
                r#"{{"overlay_login_server":"{login_server}","overlay_auth_key":"{KEY}1","expires_in_seconds":{lifetime}}}"#
            ),
        )
    });
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
fn a_daemon_told_to_come_back_in_a_hundred_years_still_looks() {
    let site = Site::new();
    site.cloudbox.answers(|_| Answer::json(429, "{}").with("Retry-After", "5000000000"));
    let mut daemon = site.daemon();
    daemon.wait_until("it was told", |_| site.asked_for_keys() == 1);
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 2);
    daemon.stops_on(Signal::TERM);
}

/// In whatever year: `OVERLAYKEY_AHEAD` says by how many seconds an emulator's clock is ahead.
#[test]
fn the_status_file_has_the_time_of_the_clock() {
    let ahead = env::var("OVERLAYKEY_AHEAD").map_or(0, |text| text.parse().expect("a number of seconds"));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs() + ahead;
    let began = now();
    let site = Site::new();
    let mut daemon = site.daemon();
    let status = || site.dir.read("run/status.json").unwrap_or_default();
    daemon.wait_until("the node is healed", |_| status().contains("\"healthy\""));
    let since = Object::parse(&status()).number("since");
    let slack = Duration::from_secs(5).as_secs();
    assert!((began - slack..=now() + slack).contains(&since), "{since} is not between {began} and {}", now());
    daemon.stops_on(Signal::TERM);
}
