//! The configuration: defaults, layers, what is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use overlaykey::cli;
use overlaykey::config::{Config, ConfigError, LogTarget};

use crate::support::dir::Dir;

fn load(file: &str, variables: &[(&str, &str)], flags: &str) -> Result<Config, ConfigError> {
    let dir = Dir::new();
    let path = dir.write("conf", file);
    let line = cli::parse(format!("{flags} run").split_whitespace().map(Into::into)).expect("a command line");
    let variables: Vec<(String, String)> =
        variables.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let environment =
        move |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    Config::load(Some(&path), &environment, &line.settings)
}

const URL: &str = "CLOUDBOX_URL=https://cloudbox.example\n";

#[test]
fn defaults() {
    let config = load(URL, &[], "").unwrap();
    assert_eq!(config.cloudbox_url.as_str(), "https://cloudbox.example");
    assert_eq!(config.token_file, Path::new("/etc/overlaykey/token"));
    assert_eq!(config.interval, Duration::from_mins(1));
    assert_eq!(config.membership_interval, Some(Duration::from_mins(10)));
    assert_eq!(config.tailscale, ["tailscale"]);
    assert_eq!(config.run_dir, Path::new("/run/overlaykey"));
    assert!(config.accept_routes && config.resume_stopped && !config.ignore_credential_pod_cidr);
    assert!(config.control_url.is_none() && config.ca_file.is_none() && config.pod_cidr.is_empty());
    assert!(config.up_flags.is_empty() && config.on_change.is_empty());
    assert_eq!((config.log, config.log_level), (LogTarget::Stderr, log::LevelFilter::Info));
}

#[test]
fn what_a_shell_reads() {
    let file = "\u{feff}# a comment\r\n\r\n  CLOUDBOX_URL='https://cloudbox.example'  # where\r\nTAILSCALE=\"podman exec -i runtime tailscale\"\nINTERVAL=5m\nPOD_CIDR=10.0.0.1/8,fd00::1/64\nCA_FILE=\n";
    let config = load(file, &[], "").unwrap();
    assert_eq!(config.tailscale, ["podman", "exec", "-i", "runtime", "tailscale"]);
    assert_eq!(config.interval, Duration::from_mins(5));
    assert_eq!(config.pod_cidr, "10.0.0.0/8,fd00::/64");
    assert_eq!(config.ca_file, None, "an empty value is the default");
}

#[test]
fn flag_over_environment_over_file() {
    let file = format!("{URL}INTERVAL=1\nAGENT_NAME=a\nRUN_DIR=/a\n");
    let variables = [("OVERLAYKEY_INTERVAL", "2"), ("OVERLAYKEY_AGENT_NAME", "b")];
    let config = load(&file, &variables, "--interval 3").unwrap();
    assert_eq!(config.interval, Duration::from_secs(3));
    assert_eq!((config.agent_name.as_str(), config.run_dir), ("b", PathBuf::from("/a")));
}

#[test]
fn what_is_refused_names_its_place() {
    for (file, words) in [
        ("CLOUDBOX_UR", ":1: this line is not KEY=VALUE"),
        ("\nCLOUDBOX=x", ":2: unknown key \"CLOUDBOX\"; allowed are CLOUDBOX_URL,"),
        ("INTERVAL=5\nINTERVAL=6", ":2: INTERVAL stands in line 1 already"),
        ("TAILSCALE=podman exec", ":1: TAILSCALE: a value with blanks must stand in quotes"),
        ("TAILSCALE=\"podman", ":1: TAILSCALE: the closing quote is missing"),
        ("TAILSCALE=$HOME/tailscale", "a shell would expand this"),
        ("TAILSCALE=a;b", "a shell would not take this as one word"),
        ("TAILSCALE='a \"b c\"'", "quotes and backslashes inside"),
        ("INTERVAL=0", "INTERVAL: \"0\" is not allowed; allowed are 1s to 24h"),
        ("INTERVAL=-1", "allowed are 1s to 24h"),
        ("INTERVAL=1000000000000", "allowed are 1s to 24h"),
        ("INTERVAL=25h", "allowed are 1s to 24h"),
        ("INTERVAL=99999999999999999999h", "allowed are 1s to 24h"),
        ("MEMBERSHIP_INTERVAL=x", "0 for never"),
        ("ACCEPT_ROUTES=maybe", "allowed are yes, no"),
        ("HEARTBEAT=maybe", "allowed are yes, no"),
        ("RESOLVE=cloudbox.example", "is not like cloudbox.example=192.0.2.7"),
        ("RESOLVE='a=192.0.2.7 b=c'", "\"b=c\" is not like"),
        ("STOPPED=down", "allowed are up, leave"),
        ("LOG=file", "allowed are stderr, syslog"),
        ("LOG_LEVEL=loud", "allowed are error, warn, info, debug, trace"),
        ("POD_CIDR=10.0.0.0/33", "is no CIDR"),
        ("CLOUDBOX_URL=http://cloudbox.example", "it must be https"),
        ("CLOUDBOX_URL=https://u:p@host", "a user or password"),
        ("CONTROL_URL=https://host:70000", "the port must be"),
        ("INTERVAL=5", "CLOUDBOX_URL is not set"),
        ("", "CLOUDBOX_URL is not set"),
    ] {
        let error = load(file, &[], "").expect_err(file);
        assert!(error.text.contains(words), "{file}: {}", error.text);
        assert!(!error.on_command_line, "{file}");
    }
}

#[test]
fn a_wrong_flag_is_said_whatever_else_is_wrong() {
    let error = load("nonsense", &[], "--interval 0").unwrap_err();
    assert!(error.on_command_line && error.text.starts_with("--interval: "), "{}", error.text);
    let error = load(URL, &[("OVERLAYKEY_INTERVAL", "0")], "").unwrap_err();
    assert!(!error.on_command_line && error.text.starts_with("OVERLAYKEY_INTERVAL: "), "{}", error.text);
}

#[test]
fn up_gets_no_flag_that_the_program_sets_or_that_would_show_a_secret() {
    for flag in [
        "--auth-key=k",
        "--authkey=k",
        "--client-secret=s",
        "--id-token=t",
        "--reset=false",
        "--login-server=x",
        "--advertise-routes=x",
        "--accept-routes=false",
        "--timeout=1s",
        "--json",
        "--qr",
        "-auth-key=k",
    ] {
        let error = load(&format!("{URL}UP_FLAGS='--ssh {flag}'"), &[], "").expect_err(flag);
        assert!(error.text.contains("is not allowed here"), "{flag}: {}", error.text);
        assert!(!error.text.contains("=k") && !error.text.contains("=s"), "{}", error.text);
    }
    assert!(load(&format!("{URL}UP_FLAGS=ssh"), &[], "").unwrap_err().text.contains("is no flag"));
    let config = load(&format!("{URL}UP_FLAGS='--accept-dns=false --ssh'"), &[], "").unwrap();
    assert_eq!(config.up_flags, ["--accept-dns=false", "--ssh"]);
}

#[test]
fn the_log_is_set_up_before_the_file_is_read() {
    let line = cli::parse(["--log=syslog", "-v", "run"].map(Into::into)).unwrap();
    assert_eq!(Config::log_before(&|_| None, &line.settings), (LogTarget::Syslog, log::LevelFilter::Debug));
    assert_eq!(Config::log_before(&|_| None, &[]), (LogTarget::Stderr, log::LevelFilter::Info));
}
