//! `heal`: one repair, now.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::answer::Answer;
use crate::support::document;
use crate::support::json::Object;
use crate::support::program::Ended;
use crate::support::site::{ISSUE, KEY, Site, issue};

/// The words of an `up`.
fn words(call: &str) -> BTreeSet<&str> {
    call.split(' ').collect()
}

/// The one `up` of a heal that did its work.
fn only_up(site: &Site, ended: &Ended) -> String {
    assert_eq!(ended.code, Some(0), "{ended}");
    let ups = site.node.ups();
    assert_eq!(ups.len(), 1, "{ended}");
    ups[0].clone()
}

/// The routes that the only `up` of a heal advertised.
fn advertised(site: &Site) -> Option<String> {
    let ended = site.run(&["heal"]);
    let up = only_up(site, &ended);
    up.split(' ').find_map(|word| word.strip_prefix("--advertise-routes=")).map(str::to_owned)
}

#[test]
fn it_asks_for_a_key_and_brings_the_node_up_with_it() {
    let site = Site::new();
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    let login_server = format!("--login-server={}", site.login_server());
    let expected =
        ["up", &login_server, "--auth-key=file:/proc/self/fd/0", "--reset", "--accept-routes", "--timeout=60s"];
    assert_eq!(words(&up), BTreeSet::from(expected), "{ended}");
    assert!(up.starts_with("up "), "{ended}");
    assert_eq!(site.node.key(1).as_deref().map(str::trim_end), Some(format!("{KEY}1").as_str()), "{ended}");
    assert_eq!(site.asked_for_keys(), 1, "{ended}");
    assert!(!ended.stdout.trim().is_empty(), "it prints what it did\n{ended}");
}

#[test]
fn cloudbox_is_asked_as_the_contract_says() {
    let mut site = Site::new();
    // Blanks and slashes at the end are not part of the address.
    let url = format!("https://127.0.0.1:{}// ", site.cloudbox.port());
    site.set("cloudbox-url", url);
    let ended = site.run(&["heal"]);
    only_up(&site, &ended);
    let request = &site.cloudbox.requests()[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", ISSUE));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("authorization"), Some("Bearer cloudbox-token-5b1e7c2a"));
    assert_eq!(Object::parse(&request.body).text("agent_name"), "router-1");
}

#[test]
fn a_base_with_a_path_keeps_it() {
    let mut site = Site::new();
    let control = site.login_server();
    site.cloudbox.answers(move |_| issue("hskey-auth-with-path", &control, ""));
    site.set("cloudbox-url", format!("https://localhost:{}/gateway/", site.cloudbox.port()));
    only_up(&site, &site.run(&["heal"]));
    assert_eq!(site.cloudbox.requests()[0].path, format!("/gateway{ISSUE}"));
}

#[test]
fn the_child_gets_its_own_group_a_pipe_and_no_ssh_variables() {
    let mut site = Site::new();
    site.export("SSH_CLIENT", "192.0.2.9 1 22");
    site.export("SSH_CONNECTION", "192.0.2.9 1 192.0.2.1 22");
    site.export("SSH_TTY", "/dev/pts/0");
    site.export("TS_MARK", "kept");
    let ended = site.run(&["heal"]);
    only_up(&site, &ended);
    for seen in site.node.seen() {
        assert_eq!(seen.group, seen.pid, "{} shares a process group\n{ended}", seen.verb);
        let piped = seen.stdin.starts_with("pipe:");
        assert_eq!(piped, seen.verb == "up", "stdin of {} is {}\n{ended}", seen.verb, seen.stdin);
        assert!(piped || seen.stdin == "/dev/null", "stdin of {} is {}\n{ended}", seen.verb, seen.stdin);
    }
    let environments = site.node.environments();
    assert!(environments.len() >= 2, "{ended}");
    for environment in environments {
        let variables: BTreeSet<&str> = environment.split_terminator('\0').collect();
        assert!(variables.contains("TS_MARK=kept"), "{variables:?}");
        assert!(!variables.iter().any(|variable| variable.starts_with("SSH_")), "{variables:?}");
        let path = variables.iter().find_map(|variable| variable.strip_prefix("PATH=")).expect("a PATH");
        let path: BTreeSet<&str> = path.split(':').collect();
        for folder in ["/usr/bin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin"] {
            assert!(path.contains(folder), "{folder} is not in {path:?}");
        }
    }
}

#[test]
fn the_command_may_hold_words() {
    let mut site = Site::new();
    let program = site.unset("tailscale").expect("the command");
    site.set("tailscale", format!("env WRAPPED=yes {program}"));
    only_up(&site, &site.run(&["heal"]));
    assert!(site.node.environments().iter().all(|environment| environment.contains("WRAPPED=yes")));
}

#[test]
fn the_credentials_routes_are_advertised() {
    let site = Site::new();
    give_cidr(&site, "10.244.1.0/24");
    assert_eq!(advertised(&site).as_deref(), Some("10.244.1.0/24"));
}

#[test]
fn the_configured_routes_stand_in() {
    let mut site = Site::new();
    site.set("pod-cidr", "10.244.2.0/24,10.244.3.0/24");
    assert_eq!(advertised(&site).as_deref(), Some("10.244.2.0/24,10.244.3.0/24"));
}

#[test]
fn the_credentials_routes_win() {
    let mut site = Site::new();
    site.set("pod-cidr", "10.244.2.0/24");
    give_cidr(&site, " 10.244.1.0/24 ");
    assert_eq!(advertised(&site).as_deref(), Some("10.244.1.0/24"));
}

#[test]
fn the_credentials_routes_can_be_ignored() {
    let mut site = Site::new();
    site.set("ignore-credential-pod-cidr", "yes");
    give_cidr(&site, "10.244.1.0/24");
    assert_eq!(advertised(&site), None);
}

#[test]
fn the_configured_routes_hold_where_the_credentials_are_ignored() {
    let mut site = Site::new();
    site.set("ignore-credential-pod-cidr", "yes");
    site.set("pod-cidr", "10.244.2.0/24");
    give_cidr(&site, "10.244.1.0/24");
    assert_eq!(advertised(&site).as_deref(), Some("10.244.2.0/24"));
}

/// tailscale would refuse them, after the key is spent.
#[test]
fn host_bits_never_reach_up() {
    let site = Site::new();
    give_cidr(&site, "192.0.2.1/24");
    let ended = site.run(&["heal"]);
    assert_eq!(site.asked_for_keys(), 1, "{ended}");
    for up in site.node.ups() {
        assert!(up.contains("--advertise-routes=192.0.2.0/24"), "{up}");
    }
}

/// Whatever cloudbox was made to say, it becomes no flag of its own.
#[test]
fn nonsense_for_routes_never_reaches_up() {
    for cidr in ["--shields-up", "10.0.0.0/33", "10.0.0.0/24 --ssh", "pods"] {
        let site = Site::new();
        give_cidr(&site, cidr);
        let ended = site.run(&["heal"]);
        for up in site.node.ups() {
            assert!(!up.contains(cidr) && !up.contains("--ssh"), "{up}\n{ended}");
        }
        assert!(matches!(ended.code, Some(0 | 1)) && site.asked_for_keys() == 1, "{ended}");
    }
}

fn give_cidr(site: &Site, cidr: &'static str) {
    let login_server = site.login_server();
    site.cloudbox.answers(move |_| issue("hskey-auth-with-cidr", &login_server, cidr));
}

#[test]
fn routes_of_others_can_be_declined() {
    let mut site = Site::new();
    site.set("accept-routes", "no");
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    let words = words(&up);
    assert!(!words.contains("--accept-routes") && !words.contains("--accept-routes=true"), "{ended}");
}

#[test]
fn further_flags_are_added() {
    let mut site = Site::new();
    site.set("up-flags", "--hostname=router-1 --accept-dns=false");
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    assert!(
        words(&up).is_superset(&BTreeSet::from(["--hostname=router-1", "--accept-dns=false", "--reset"])),
        "{ended}"
    );
}

#[test]
fn the_credentials_login_server_is_used_where_none_is_configured() {
    let mut site = Site::new();
    site.unset("control-url");
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    assert!(words(&up).contains(format!("--login-server={}", site.login_server()).as_str()), "{ended}");
}

#[test]
fn the_configured_login_server_wins() {
    let site = Site::new();
    site.cloudbox.answers(|_| issue("hskey-auth-elsewhere", "https://elsewhere.example", ""));
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    assert!(words(&up).contains(format!("--login-server={}", site.login_server()).as_str()), "{ended}");
    assert!(!up.contains("elsewhere"), "{ended}");
}

/// With an empty --login-server, `up` would turn to Tailscale's own server.
#[test]
fn without_any_login_server_nothing_is_brought_up() {
    let mut site = Site::new();
    site.unset("control-url");
    site.node.script("prefs.json", r#"{"ControlURL":""}"#);
    site.cloudbox.answers(|_| Answer::json(200, r#"{"overlay_auth_key":"hskey-auth-nowhere"}"#));
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (1, 0), "{ended}");
}

#[test]
fn a_nodes_own_login_server_will_do() {
    let mut site = Site::new();
    site.unset("control-url");
    site.cloudbox.answers(|_| Answer::json(200, r#"{"overlay_auth_key":"hskey-auth-there"}"#));
    let ended = site.run(&["heal"]);
    let up = only_up(&site, &ended);
    assert!(words(&up).contains(format!("--login-server={}", site.login_server()).as_str()), "{ended}");
}

/// A login server that is no address becomes no flag.
#[test]
fn a_login_server_that_is_no_address_never_reaches_up() {
    for login_server in ["--ssh", "control", "https://u:p@control.example", "javascript:alert(1)"] {
        let mut site = Site::new();
        site.unset("control-url");
        site.cloudbox.answers(move |_| issue("hskey-auth-elsewhere", login_server, ""));
        let ended = site.run(&["heal"]);
        assert_eq!(site.asked_for_keys(), 1, "{ended}");
        assert!(!site.node.ups().iter().any(|up| up.contains(login_server)), "{ended}");
    }
}

/// A key is minted only if the control server answers: else it would be wasted.
#[test]
fn no_key_is_asked_for_while_the_control_server_is_away() {
    let mut site = Site::new();
    site.set("control-url", "http://127.0.0.1:1");
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (0, 0), "{ended}");
    assert!(ended.said().contains("control server"), "the reason is not given\n{ended}");
}

/// Online takes a second or two after `up`: one look at once is not the last word.
#[test]
fn it_waits_until_the_node_is_online() {
    let site = Site::new();
    site.node.becomes("up", &document::out_of_touch());
    site.node.script(
        "status.sh",
        r#"[ -f "$FAKE_DIR/up.count" ] && late=$(count "$FAKE_DIR/late") || late=0
        if [ "$late" -ge 3 ]; then cat "$FAKE_DIR/healthy"; else cat "$FAKE_DIR/status.json"; fi"#,
    );
    site.node.script("healthy", document::healthy());
    let ended = site.run(&["heal"]);
    only_up(&site, &ended);
}

#[test]
fn the_control_server_has_the_last_word() {
    let site = Site::new();
    let ended = site.run(&["heal"]);
    only_up(&site, &ended);
    assert_eq!(site.control.asked("/verify"), 1, "{ended}");
    let requests = site.control.requests();
    let last = requests.last().expect("a request");
    assert!(last.path == "/verify" && last.body.contains(document::NODE_KEY), "{ended}");
}

#[test]
fn a_configuration_that_cannot_be_is_exit_code_2() {
    let mut site = Site::new();
    site.configure("NONSENSE=1\n");
    let ended = site.run(&["heal"]);
    assert_eq!(ended.code, Some(2), "{ended}");
    assert!(ended.stderr.contains("overlaykey.conf"), "{ended}");
    assert_eq!((site.asked_for_keys(), site.node.calls().len()), (0, 0), "{ended}");
}

/// The seed's rule: exit 0 of `up` is no evidence.
#[test]
#[ignore = "looks for a whole minute"]
fn up_without_registration_is_still_not_registered() {
    let site = Site::new();
    site.node.becomes("up", &document::logged_out());
    let mut heal = site.start(&["heal"]);
    heal.wait_until("up is over", |_| site.node.ups().len() == 1);
    let mut looks = 0;
    for _ in 0..4 {
        heal.wait_until("it looks again", |_| site.node.looks() > looks);
        looks = site.node.looks();
    }
    let ended = heal.ends_within(Duration::from_secs(90));
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.said().contains("still not registered"), "{ended}");
    assert_eq!(site.node.ups().len(), 1, "{ended}");
}
