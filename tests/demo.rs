//! The main job, once, from beginning to end; `tests/demo` shows it as it happens.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::document;
use crate::support::json::Object;
use crate::support::site::{KEY, Site, TOKEN, cloudbox_for, control_that_says};
use crate::support::wait::within;

/// How long the viewer may look at a device that is well.
const CALM: Duration = Duration::from_secs(2);

/// Where the text of a line begins, and where it must end.
const INDENT: usize = 24;
const WIDTH: usize = 79;

#[test]
#[ignore = "tests/demo shows it"]
fn a_forgotten_device_comes_back() {
    let mut site = Site::showing(&document::healthy());
    site.unset("membership-interval");
    site.set("log-level", "info");
    site.node.script("up.sh", "sleep 1"); // a real one takes as long
    let show = Arc::new(Show::new(site.node.folder().root().to_owned()));
    let remembers = Arc::new(AtomicBool::new(true));
    let (known, forgotten) = (control_that_says(r#"{"Allow":true}"#), control_that_says(r#"{"Allow":false}"#));
    let key = site.node.folder().path("key.1");
    site.control.answers({
        let (show, remembers, mut known, mut forgotten) = (show.clone(), remembers.clone(), known, forgotten);
        move |request| {
            // A server that lost its nodes knows this one again when `up` has brought it a key.
            let member = remembers.load(Ordering::Relaxed) || key.exists();
            let text = match (request.path.as_str(), request.body.contains(document::NODE_KEY), member) {
                ("/verify", true, true) => "is asked for this node: knows it",
                ("/verify", true, false) => "is asked for this node: does not know it",
                ("/verify", false, _) => "is asked for another node",
                _ => "is asked whether it is there: it is",
            };
            show.says(Who::Control, text);
            if member { known(request) } else { forgotten(request) }
        }
    });
    site.cloudbox.answers({
        let (show, mut issue) = (show.clone(), cloudbox_for(&site.login_server()));
        move |request| {
            let agent = Object::parse(&request.body);
            show.says(Who::Cloudbox, &format!("is asked for a key for {}: issues one", agent.text("agent_name")));
            issue(request)
        }
    });

    show.tells("All on loopback, with stand-ins for tailscale, its control server and cloudbox.\n\n");
    show.catch_up();
    let mut daemon = site.daemon();
    show.follow(daemon.log_file().to_owned());
    daemon.wait_until("the device is seen to be well", |_| {
        show.catch_up();
        show.text().contains("overlaykey      healthy")
    });
    let well = Instant::now();
    within(CALM, || {
        show.catch_up();
        well.elapsed() > CALM
    });

    show.says(Who::Control, "is reset, and has lost all its nodes");
    let reset = Instant::now();
    remembers.store(false, Ordering::Relaxed);
    site.node.shows(&document::out_of_touch());
    daemon.wait_until("the device is back and told to be healthy", |_| {
        show.catch_up();
        let status = site.dir.read("run/status.json").filter(|_| site.node.ups().len() == 1);
        status.is_some_and(|status| Object::parse(&status).text("verdict") == "healthy")
    });
    let took = reset.elapsed();
    // And it stays so.
    let looks = site.node.looks();
    daemon.wait_until("it looked again", |_| {
        show.catch_up();
        site.node.looks() > looks + 1
    });
    let ended = daemon.stops_on(Signal::TERM);

    let answers = site.control.asked("/verify");
    assert!(answers >= 4, "well, twice forgotten, well again: {answers}\n{ended}");
    assert_eq!((site.asked_for_keys(), site.node.ups().len()), (1, 1), "{ended}");
    assert_eq!(site.node.keys().concat().trim_end(), format!("{KEY}1"), "{ended}");
    for secret in [KEY, TOKEN] {
        assert!(!site.node.calls().concat().contains(secret), "{secret} in a command line\n{ended}");
        assert!(!site.node.environments().concat().contains(secret), "{secret} in an environment\n{ended}");
        assert!(!ended.said().contains(secret) && !show.text().contains(secret), "{secret} in the log\n{ended}");
    }
    let took = took.as_secs_f64();
    show.tells(&format!("\nRepaired {took:.1} s after the reset, with 1 key; the key was in no command line.\n"));
}

/// One who speaks.
#[derive(Clone, Copy)]
enum Who {
    Device,
    Control,
    Cloudbox,
    Overlaykey,
}

impl Who {
    /// The name, and its colour on a terminal.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Device => ("device", "32"),
            Self::Control => ("control server", "35"),
            Self::Cloudbox => ("cloudbox", "36"),
            Self::Overlaykey => ("overlaykey", "1"),
        }
    }
}

/// What the viewer sees, as it happens if OVERLAYKEY_DEMO is set.
struct Show {
    since: Instant,
    live: bool,
    coloured: bool,
    /// The device's folder, see tests/fake/tailscale.
    device: PathBuf,
    log: OnceLock<PathBuf>,
    shown: Mutex<Shown>,
}

/// What was shown so far.
#[derive(Default)]
struct Shown {
    text: String,
    /// How much of the log.
    log: usize,
    /// How many of the device's calls.
    calls: usize,
    online: Option<bool>,
}

impl Show {
    fn new(device: PathBuf) -> Self {
        // Not through the harness, which keeps what a test prints to itself.
        let live = std::env::var_os("OVERLAYKEY_DEMO").is_some();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let coloured = live && !plain && io::stderr().is_terminal();
        Self { since: Instant::now(), live, coloured, device, log: OnceLock::new(), shown: Mutex::default() }
    }

    /// The log that is shown too.
    fn follow(&self, log: PathBuf) {
        self.log.set(log).expect("one log");
    }

    /// Shows what one of them has to say, after all that was before.
    fn says(&self, who: Who, text: &str) {
        let mut shown = self.shown.lock().unwrap();
        self.show_new(&mut shown);
        self.show(&mut shown, who, text);
    }

    /// Shows what the daemon has logged and what became of the device.
    fn catch_up(&self) {
        self.show_new(&mut self.shown.lock().unwrap());
    }

    /// All that was shown.
    fn text(&self) -> String {
        self.shown.lock().unwrap().text.clone()
    }

    fn show_new(&self, shown: &mut Shown) {
        let log = self.log.get().map(|path| read(path.clone())).unwrap_or_default();
        let whole = log.rfind('\n').map_or(0, |end| end + 1);
        for line in log[shown.log..whole].lines() {
            self.show(shown, Who::Overlaykey, line.strip_prefix("overlaykey: ").unwrap_or(line));
        }
        shown.log = whole;
        let calls = read(self.device.join("calls"));
        for call in calls.lines().skip(shown.calls) {
            shown.calls += 1;
            if call.starts_with("up") {
                self.show(shown, Who::Device, &format!("runs tailscale {call}"));
            }
        }
        let online = read(self.device.join("status.json")).contains(r#""Online":true"#);
        if shown.online.replace(online) != Some(online) {
            self.show(shown, Who::Device, if online { "is online" } else { "is offline" });
        }
    }

    fn show(&self, shown: &mut Shown, who: Who, text: &str) {
        let (name, colour) = who.name();
        let mut lines = wrapped(text).into_iter();
        let first = lines.next().unwrap_or_default();
        let seconds = self.since.elapsed().as_secs_f64();
        let mut line = format!("{seconds:6.1}  {name:14}  {first}\n");
        for more in lines {
            let _ = writeln!(line, "{:INDENT$}{more}", "");
        }
        shown.text += &line;
        if self.coloured {
            line = line.replacen(name, &format!("\x1b[{colour}m{name}\x1b[0m"), 1);
        }
        self.tells(&line);
    }

    /// Tells the viewer. One who went away is no reason to fail.
    fn tells(&self, text: &str) {
        if self.live {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Broken between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if INDENT + line.len() + 1 + word.len() <= WIDTH => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn read(path: PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
