//! What others see besides the log: the status file and the hook.

use std::fs;

use rustix::process::Signal;

use crate::support::document;
use crate::support::site::{KEY, Site, TOKEN};

/// A hook that writes down what it is told; FAKE_DIR, as every child's environment has it, is where.
fn hook(site: &mut Site) -> std::path::PathBuf {
    let told = site.dir.path("told");
    let text = format!(
        "#!/bin/sh\necho \"$OVERLAYKEY_VERDICT|$OVERLAYKEY_REASON\" >>{}\nenv >>{}.env\n",
        told.display(),
        told.display()
    );
    let path = site.dir.write("hook", text);
    // By sh, for a file that was just written may still be busy.
    site.set("on-change", format!("sh {}", path.display()));
    told
}

#[test]
fn each_change_of_the_verdict_runs_the_hook_once() {
    let mut site = Site::new();
    let told = hook(&mut site);
    let mut daemon = site.daemon();
    let lines = || fs::read_to_string(&told).unwrap_or_default();
    daemon.wait_until("the node is healed and the hook knows", |_| {
        lines().lines().any(|line| line.starts_with("healthy|"))
    });
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 3);
    let verdicts: Vec<String> =
        lines().lines().map(|line| line.split('|').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(verdicts, ["unregistered", "healthy"], "{}", lines());
    let env = fs::read_to_string(told.with_extension("env")).expect("the hook's environment");
    assert!(!env.contains(KEY) && !env.contains(TOKEN), "{env}");
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_hook_without_end_holds_up_neither_the_heal_for_long_nor_the_end() {
    let mut site = Site::new();
    let path = site.dir.write("hook", "sleep 600 & sleep 600\n");
    site.set("on-change", format!("sh {}", path.display()));
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed all the same", |_| !site.node.keys().is_empty());
    daemon.stops_on(Signal::TERM);
}

#[test]
fn a_hook_that_is_not_there_is_said_and_survived() {
    let mut site = Site::new();
    site.set("on-change", "/no/such/hook");
    let mut daemon = site.daemon();
    daemon.wait_until("the node is healed", |_| !site.node.keys().is_empty());
    assert!(daemon.stops_on(Signal::TERM).stderr.contains("/no/such/hook"));
}

#[test]
fn the_status_file_holds_the_last_change_and_is_written_for_a_change_only() {
    let site = Site::new();
    let mut daemon = site.daemon();
    let path = site.dir.path("run/status.json");
    let status = || fs::read_to_string(&path).unwrap_or_default();
    daemon.wait_until("the node is healed and the file says so", |_| status().contains("\"healthy\""));
    let text = status();
    assert!(
        text.starts_with("{\"verdict\":\"healthy\",") && text.contains("\"keys\":1") && text.ends_with("}\n"),
        "{text}"
    );
    let written = fs::metadata(&path).expect("the file").modified().expect("its time");
    let looks = site.node.looks();
    daemon.wait_until("it looked some more", |_| site.node.looks() > looks + 3);
    assert_eq!(fs::metadata(&path).expect("the file").modified().expect("its time"), written);
    site.node.shows(&document::out_of_touch());
    daemon.wait_until("the file says so", |_| status().starts_with("{\"verdict\":\"out-of-touch\","));
    daemon.stops_on(Signal::TERM);
}

#[test]
fn without_a_place_for_the_status_file_all_goes_on() {
    for run_dir in ["/dev/null/run", "/proc/overlaykey"] {
        let mut site = Site::new();
        site.set("run-dir", run_dir);
        let mut daemon = site.daemon();
        daemon.wait_until("the node is healed", |_| !site.node.keys().is_empty());
        daemon.stops_on(Signal::TERM);
    }
}
