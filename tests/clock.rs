//! A board without a battery: the clock stands before the day the program was built.

use std::env;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::site::Site;

/// A program for which the clock is not set: what OVERLAYKEY_IN_1970 names (an emulator can have a clock of its own),
/// else one that was built in the year 2100.
fn without_a_clock() -> String {
    env::var("OVERLAYKEY_IN_1970").unwrap_or_else(|_| built_in_2100())
}

fn built_in_2100() -> String {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/built-in-2100");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--target-dir", target])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("SOURCE_DATE_EPOCH", "4102444800")
        .output()
        .expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    format!("{target}/debug/overlaykey")
}

#[test]
#[ignore = "builds the program a second time"]
fn nothing_is_asked_and_no_key_is_spent_before_the_clock_is_set() {
    let program = without_a_clock();
    let mut site = Site::new();
    site.use_program(&program);
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stdout.contains("the clock is not set"), "{ended}");
    let mut daemon = site.daemon();
    daemon.wait_until("it says so", |daemon| daemon.log().contains("the clock is not set"));
    // Looks go on, every 10 s at the most, whatever the interval.
    let looks = site.node.looks();
    daemon.wait_within(Duration::from_secs(40), "it looked again", |_| site.node.looks() >= looks + 2);
    let ended = daemon.stops_on(Signal::TERM);
    assert_eq!(ended.stderr.matches("the clock is not set").count(), 1, "{ended}");
    assert_eq!(site.cloudbox.connections(), 0, "{ended}");
}
