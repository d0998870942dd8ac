//! The library through its public face, with every outside part scripted.

mod config;
mod policy;
mod refresher;
mod report;
mod seed;
mod status;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use overlaykey::cloudbox::KeySource;
use overlaykey::control::{ControlServer, Membership};
use overlaykey::net::url::Url;
use overlaykey::node::exec::{End, Exec, Invocation, Output};
use overlaykey::node::tailscale::Tailscale;
use overlaykey::policy::Settings;
use overlaykey::refresher::Options;
use overlaykey::report::Report;
use overlaykey::secret::Secret;
use overlaykey::signals::Wake;
use overlaykey::{Credentials, Error, Refresher};

const HEALTHY: &str =
    r#"{"BackendState":"Running","Self":{"PublicKey":"nodekey:ab","Online":true,"InNetworkMap":true}}"#;
const STRANDED: &str =
    r#"{"BackendState":"Running","Self":{"PublicKey":"nodekey:ab","Online":false,"InNetworkMap":true}}"#;
const LOGGED_OUT: &str = r#"{"BackendState":"NeedsLogin","Self":{"PublicKey":"nodekey:00","InNetworkMap":false}}"#;

/// What a scripted command prints, and how it ends.
#[derive(Clone)]
struct Said {
    stdout: String,
    stderr: String,
    code: i32,
}

fn prints(stdout: &str) -> Said {
    Said { stdout: stdout.into(), stderr: String::new(), code: 0 }
}

fn fails(code: i32, stderr: &str) -> Said {
    Said { stdout: String::new(), stderr: stderr.into(), code }
}

/// Everything outside, scripted, and what was done to it. Each list but the last entry is used up.
#[derive(Default)]
struct World {
    status: VecDeque<Said>,
    up: VecDeque<Said>,
    prefs: Option<Said>,
    /// What `status` says once an `up` has ended well.
    after_up: Option<Said>,
    fetch: VecDeque<Result<Credentials, Error>>,
    membership: VecDeque<Membership>,
    control_away: bool,
    /// Control servers that are away by themselves.
    away: Vec<String>,
    // What happened:
    ups: Vec<Vec<String>>,
    keys_given: Vec<String>,
    looks: usize,
    fetches: usize,
    questions: usize,
    waits: Vec<Duration>,
    /// How long each command may take, by its words.
    limits: Vec<(String, Duration)>,
    /// After so many waits comes TERM.
    patience: usize,
}

type Shared = Rc<RefCell<World>>;

fn world(patience: usize) -> Shared {
    Rc::new(RefCell::new(World { patience, ..World::default() }))
}

fn next<T: Clone>(list: &mut VecDeque<T>) -> Option<T> {
    if list.len() > 1 { list.pop_front() } else { list.front().cloned() }
}

struct Fake(Shared);

impl Exec for Fake {
    fn run(&mut self, invocation: &Invocation) -> Result<Output, Error> {
        let mut world = self.0.borrow_mut();
        world.limits.push((invocation.argv[1..].join(" "), invocation.limit));
        let said = match invocation.argv[1].as_str() {
            "status" => {
                world.looks += 1;
                next(&mut world.status).unwrap_or_else(|| prints(LOGGED_OUT))
            }
            "up" => {
                world.ups.push(invocation.argv[2..].to_vec());
                world.keys_given.extend(invocation.stdin.map(|key| key.expose().to_owned()));
                let said = next(&mut world.up).unwrap_or_else(|| prints(""));
                if said.code == 0
                    && let Some(after) = world.after_up.clone()
                {
                    world.status = [after].into();
                }
                said
            }
            "debug" => world.prefs.clone().unwrap_or_else(|| prints("{}")),
            other => panic!("unexpected command {other}"),
        };
        Ok(Output { end: End::Exited(said.code), stdout: said.stdout.into(), stderr: said.stderr.into() })
    }
}

impl KeySource for Fake {
    fn fetch(&self) -> Result<Credentials, Error> {
        let mut world = self.0.borrow_mut();
        world.fetches += 1;
        let number = world.fetches;
        world.fetch.pop_front().unwrap_or_else(|| Ok(credentials(&format!("key{number}"), "")))
    }
}

impl ControlServer for Fake {
    fn knows(&self, _: &Url, node_key: &str) -> Result<Membership, Error> {
        let mut world = self.0.borrow_mut();
        assert_eq!(node_key, "nodekey:ab", "only a real key is asked about");
        world.questions += 1;
        Ok(next(&mut world.membership).unwrap_or(Membership::Known))
    }

    fn answers(&self, server: &Url) -> Result<(), Error> {
        let world = self.0.borrow();
        if world.control_away || world.away.iter().any(|away| away == server.as_str()) {
            Err(Error::ControlAway("connection refused".into()))
        } else {
            Ok(())
        }
    }
}

fn credentials(key: &str, pod_cidr: &str) -> Credentials {
    Credentials {
        login_server: "https://hs.example".into(),
        auth_key: Secret::new(key.into()),
        pod_cidr: pod_cidr.into(),
        expires_in_seconds: 600,
    }
}

fn settings() -> Settings {
    Settings { interval: Duration::from_mins(1), membership_interval: None, resume_stopped: true }
}

fn refresher(world: &Shared, options: Options, settings: Settings) -> Refresher {
    let fake = || Box::new(Fake(Rc::clone(world)));
    let waiter = Rc::clone(world);
    let wait = move |time| {
        let mut world = waiter.borrow_mut();
        world.waits.push(time);
        if world.waits.len() > world.patience { Wake::Stop } else { Wake::Elapsed }
    };
    Refresher::new(
        Tailscale::new(vec!["tailscale".into()], true, Vec::new(), fake()),
        fake(),
        fake(),
        Box::new(wait),
        options,
        settings,
        Report::new(fake()),
    )
}

/// The value of a flag of an `up`.
fn flag<'a>(up: &'a [String], name: &str) -> Option<&'a str> {
    up.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}
