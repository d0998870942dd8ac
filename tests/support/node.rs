//! The device: a scripted `tailscale` (tests/fake/tailscale) and what it saw.

use std::path::PathBuf;

use super::dir::Dir;
use super::process;

/// A node whose state is files in a folder.
pub struct Node {
    folder: Dir,
}

impl Node {
    /// A node that shows `status`.
    pub fn showing(status: &str) -> Self {
        let node = Self { folder: Dir::new() };
        node.shows(status);
        node
    }

    /// The scripted program.
    pub fn program() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fake/tailscale")
    }

    /// The folder that `FAKE_DIR` names.
    pub fn folder(&self) -> &Dir {
        &self.folder
    }

    /// From now on `status` prints this.
    pub fn shows(&self, status: &str) {
        self.folder.write("status.json", status);
    }

    /// Scripts a verb: see the head of tests/fake/tailscale.
    pub fn script(&self, name: &str, text: impl AsRef<[u8]>) {
        self.folder.write(name, text);
    }

    /// The given `up` (`up.1` the first, `up` every other) says `text` on stderr and exits with 1.
    pub fn fails(&self, up: &str, text: &str) {
        self.script(&format!("{up}.stderr"), format!("{text}\n"));
        self.script(&format!("{up}.exit"), "1");
    }

    /// What `status` prints once the given `up` is over.
    pub fn becomes(&self, up: &str, status: &str) {
        self.script(&format!("{up}.after"), status);
    }

    /// The argv of every call so far, without the program.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.folder.read("calls").unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// The argv of every `up` so far.
    pub fn ups(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| call == "up" || call.starts_with("up "));
        calls
    }

    /// How often `status` was called.
    pub fn looks(&self) -> usize {
        self.calls().iter().filter(|call| call.starts_with("status")).count()
    }

    /// The key that the `number`-th `up` read.
    pub fn key(&self, number: usize) -> Option<String> {
        self.folder.read(&format!("key.{number}"))
    }

    /// The keys of all calls of `up` so far.
    pub fn keys(&self) -> Vec<String> {
        (1..=self.ups().len()).filter_map(|number| self.key(number)).collect()
    }

    /// The environment of every call so far.
    pub fn environments(&self) -> Vec<String> {
        let calls = self.calls().len();
        (1..=calls).filter_map(|call| self.folder.read(&format!("environ.{call}"))).collect()
    }

    /// Every call so far as it saw itself.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.folder.read("seen").unwrap_or_default();
        seen.lines().map(Seen::parse).collect()
    }

    /// The processes that a hanging call left, once they are there.
    pub fn hanging(&self) -> Vec<u32> {
        let pids = self.folder.read("pids").unwrap_or_default();
        pids.lines().map(|pid| pid.parse().expect("a pid")).collect()
    }
}

/// What a failed test left running ends with its node, and not before: that nothing is left is for the tests to see.
impl Drop for Node {
    fn drop(&mut self) {
        for pid in self.hanging() {
            for words in ["sleep", "yes"] {
                process::end(pid, words);
            }
        }
    }
}

/// One call as it saw itself.
pub struct Seen {
    /// status, up, prefs, other.
    pub verb: String,
    /// Its process.
    pub pid: u32,
    /// Its process group.
    pub group: u32,
    /// What its stdin was.
    pub stdin: String,
}

impl Seen {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        let [verb, pid, group, stdin] = fields[..] else { panic!("not four fields: {line:?}") };
        Self {
            verb: verb.to_owned(),
            pid: pid.parse().expect("a pid"),
            group: group.parse().expect("a process group"),
            stdin: stdin.to_owned(),
        }
    }
}
