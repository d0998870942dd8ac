//! One device with its cloudbox and its control server, and the program that looks after it.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::answer::Answer;
use super::authority::{self, Certificate};
use super::dir::Dir;
use super::document;
use super::node::Node;
use super::program::{Ended, Program};
use super::server::{Request, Server};

/// What the device shows to cloudbox.
pub const TOKEN: &str = "cloudbox-token-5b1e7c2a";

/// The beginning of every key that the scripted cloudbox issues: digits as headscale's were for long, so that nothing but
/// knowing the key tells that it is one.
pub const KEY: &str = "9f3d6e5b0c41a7d2";

/// Where cloudbox issues keys.
pub const ISSUE: &str = "/api/v1/overlay/authkey";

/// A device and all that it talks to. As made, the node is logged out, an `up` cures it, cloudbox issues good keys, and
/// the control server knows every node.
pub struct Site {
    /// Configuration, token, roots, what the program says, `RUN_DIR` and TMPDIR.
    pub dir: Dir,
    /// The device's tailscale.
    pub node: Node,
    /// Where keys come from.
    pub cloudbox: Server,
    /// The tailnet's control server.
    pub control: Server,
    options: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    log_device: Option<&'static str>,
    program: String,
}

impl Site {
    /// A device that is logged out.
    pub fn new() -> Self {
        Self::showing(&document::logged_out())
    }

    /// A device that shows `status`.
    pub fn showing(status: &str) -> Self {
        let (dir, node) = (Dir::new(), Node::showing(status));
        node.becomes("up", &document::healthy());
        let control = Server::http(control_that_says(r#"{"Allow":true}"#));
        let login_server = format!("http://127.0.0.1:{}", control.port());
        let cloudbox = Server::https(Certificate::Good, cloudbox_for(&login_server));
        node.script("prefs.json", format!(r#"{{"ControlURL":"{login_server}"}}"#));
        fs::create_dir(dir.path("tmp")).expect("a folder for TMPDIR");
        let token = dir.write("token", format!("{TOKEN}\n"));
        fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("the token's mode");
        let roots = dir.write("ca.pem", authority::root_pem());
        let mut site = Self {
            dir,
            node,
            cloudbox,
            control,
            options: BTreeMap::new(),
            environment: BTreeMap::new(),
            log_device: None,
            // Named where the build of another machine is to be tested, under an emulator.
            program: env::var("OVERLAYKEY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_overlaykey").to_owned()),
        };
        let cloudbox_url = format!("https://localhost:{}", site.cloudbox.port());
        site.set("cloudbox-url", cloudbox_url);
        site.set("token-file", token.display().to_string());
        site.set("agent-name", "router-1");
        site.set("control-url", login_server);
        site.set("ca-file", roots.display().to_string());
        site.set("tailscale", Node::program().display().to_string());
        let run_dir = site.dir.path("run").display().to_string();
        site.set("run-dir", run_dir);
        site.set("interval", "1");
        site.set("membership-interval", "0");
        site.set("log-level", "debug");
        site
    }

    /// The login server that the device belongs to.
    pub fn login_server(&self) -> String {
        format!("http://127.0.0.1:{}", self.control.port())
    }

    /// Gives an option, in place of what it was.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.options.insert(name.to_owned(), value.into());
    }

    /// Leaves an option out, and says what it was.
    pub fn unset(&mut self, name: &str) -> Option<String> {
        self.options.remove(name)
    }

    /// Sets a variable of the program's environment.
    pub fn export(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Lets stderr be a device instead of a file.
    pub fn log_to(&mut self, device: &'static str) {
        self.log_device = Some(device);
    }

    /// What stderr is to be, if not a file.
    pub fn log_device(&self) -> Option<&'static str> {
        self.log_device
    }

    /// Runs another build of the program.
    pub fn use_program(&mut self, path: &str) {
        path.clone_into(&mut self.program);
    }

    /// The program that is run.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Moves all options into a configuration file with further lines, and gives only --config; returns the file's path.
    pub fn configure(&mut self, lines: &str) -> String {
        let mut text = String::new();
        for (name, value) in std::mem::take(&mut self.options) {
            let key = name.to_uppercase().replace('-', "_");
            let _ = writeln!(text, "{key}={value}");
        }
        let path = self.dir.write("overlaykey.conf", text + lines).display().to_string();
        self.set("config", &path);
        path
    }

    /// Starts the program with the site's options and the given words.
    pub fn start(&self, words: &[&str]) -> Program<'_> {
        let mut arguments = Vec::new();
        for (name, value) in &self.options {
            arguments.extend([format!("--{name}"), value.clone()]);
        }
        arguments.extend(words.iter().map(ToString::to_string));
        Program::start(self, &arguments, &self.environment)
    }

    /// Runs the program to its end, which must come within half a minute.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.start(words).ends()
    }

    /// Starts the daemon.
    pub fn daemon(&self) -> Program<'_> {
        self.start(&["run"])
    }

    /// How many keys cloudbox was asked for.
    pub fn asked_for_keys(&self) -> usize {
        self.cloudbox.asked(ISSUE)
    }

    /// All that happened at the site, for the report of a failure.
    pub fn story(&self) -> String {
        let mut story = String::new();
        for call in self.node.calls() {
            let _ = writeln!(story, "tailscale {call}");
        }
        for (name, server) in [("cloudbox", &self.cloudbox), ("control", &self.control)] {
            let _ = writeln!(story, "{name}: {} connections", server.connections());
            for Request { method, path, body, .. } in server.requests() {
                let _ = writeln!(story, "{name}: {method} {path} {body}");
            }
        }
        story
    }
}

/// A control server that is there, and whose word on any node is `verdict`.
pub fn control_that_says(verdict: &'static str) -> impl FnMut(&Request) -> Answer + Send + 'static {
    move |request| match request.path.as_str() {
        // As headscale does: JSON, but sent as plain text.
        "/verify" => Answer::new(200, "text/plain; charset=utf-8", verdict),
        path if path.starts_with("/key?v=") => Answer::json(200, r#"{"publicKey":"mkey:00"}"#),
        _ => Answer::html(404),
    }
}

/// A cloudbox that issues a fresh key at each request, for the given login server.
pub fn cloudbox_for(login_server: &str) -> impl FnMut(&Request) -> Answer + Send + 'static {
    let login_server = login_server.to_owned();
    let mut issued = 0;
    move |request| {
        assert_eq!(request.path, ISSUE, "cloudbox knows one path");
        issued += 1;
        issue(&format!("{KEY}{issued}"), &login_server, "")
    }
}

/// The answer that holds a key.
pub fn issue(key: &str, login_server: &str, cidr: &str) -> Answer {
    Answer::json(
        200,
        format!(
            r#"{{"overlay_login_server":"{login_server}","overlay_auth_key":"{key}","overlay_pod_cidr":"{cidr}","expires_in_seconds":600}}"#
        ),
    )
}
