//! The configuration in three stages: as written (each value knows where it was written), merged (flag over
//! environment over file), validated.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use crate::cli::CommandLine;
use crate::net::url::Url;
use crate::node::routes;
use crate::refresher::DEFAULT_INTERVAL;

/// Where the configuration is unless `--config` says otherwise.
const DEFAULT_FILE: &str = "/etc/overlaykey/overlaykey.conf";

/// The longest time that a setting may have.
const MAX_TIME: Duration = Duration::from_hours(24);

/// The time between two questions to the control server about a healthy node.
const DEFAULT_MEMBERSHIP_INTERVAL: Duration = Duration::from_mins(10);

/// Every key there is.
pub const KEYS: [&str; 17] = [
    "CLOUDBOX_URL",
    "TOKEN_FILE",
    "AGENT_NAME",
    "CONTROL_URL",
    "POD_CIDR",
    "IGNORE_CREDENTIAL_POD_CIDR",
    "INTERVAL",
    "MEMBERSHIP_INTERVAL",
    "TAILSCALE",
    "UP_FLAGS",
    "ACCEPT_ROUTES",
    "STOPPED",
    "CA_FILE",
    "RUN_DIR",
    "ON_CHANGE",
    "LOG",
    "LOG_LEVEL",
];

/// Flags of `tailscale up` that UP_FLAGS may not hold: the program sets them itself, or they would put a
/// secret where everybody can read it.
const FORBIDDEN_UP_FLAGS: [&str; 9] = [
    "auth-key",
    "authkey",
    "client-secret",
    "login-server",
    "advertise-routes",
    "accept-routes",
    "timeout",
    "json",
    "qr",
];

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In the environment.
    Environment,
    /// In the file, in this line.
    File(PathBuf, usize),
}

impl Origin {
    /// The key as a flag: `--cloudbox-url`.
    #[must_use]
    pub fn flag(key: &str) -> String {
        format!("--{}", key.to_ascii_lowercase().replace('_', "-"))
    }

    /// The key as a variable: `OVERLAYKEY_CLOUDBOX_URL`.
    #[must_use]
    pub fn variable(key: &str) -> String {
        format!("OVERLAYKEY_{key}")
    }
}

/// A setting as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// One of [`KEYS`].
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
}

impl fmt::Display for Setting {
    /// Names the setting by the place where it can be changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Flag => f.write_str(&Origin::flag(self.key)),
            Origin::Environment => f.write_str(&Origin::variable(self.key)),
            Origin::File(path, line) => write!(f, "{}:{line}: {}", path.display(), self.key),
        }
    }
}

/// What is wrong with the configuration.
#[derive(Debug)]
pub struct ConfigError {
    /// Names the place and what is allowed there.
    pub text: String,
    /// It is the command line that is wrong, which no waiting can change.
    pub on_command_line: bool,
}

impl ConfigError {
    fn new(text: String) -> Self {
        Self { text, on_command_line: false }
    }

    fn at(setting: &Setting, why: &str) -> Self {
        Self { text: format!("{setting}: {why}"), on_command_line: setting.origin == Origin::Flag }
    }
}

/// Where the log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// The system's log, through /dev/log.
    Syslog,
}

/// The configuration, validated.
#[derive(Debug)]
pub struct Config {
    /// Where keys come from.
    pub cloudbox_url: Url,
    /// The file of the access token.
    pub token_file: PathBuf,
    /// This host's name on cloudbox.
    pub agent_name: String,
    /// The login server, instead of the one that cloudbox names.
    pub control_url: Option<Url>,
    /// The CIDRs to advertise if cloudbox names none, as tailscale takes them.
    pub pod_cidr: String,
    /// Advertise only `pod_cidr`.
    pub ignore_credential_pod_cidr: bool,
    /// The time between two looks.
    pub interval: Duration,
    /// The time between two questions to the control server about a healthy node; `None`: never.
    pub membership_interval: Option<Duration>,
    /// The command, and its first words.
    pub tailscale: Vec<String>,
    /// Flags added to `up`.
    pub up_flags: Vec<String>,
    /// `up` gets --accept-routes.
    pub accept_routes: bool,
    /// A stopped node is brought up again.
    pub resume_stopped: bool,
    /// More authorities to trust.
    pub ca_file: Option<PathBuf>,
    /// Where the status file goes.
    pub run_dir: PathBuf,
    /// The hook's command; empty: none.
    pub on_change: Vec<String>,
    /// Where the log goes.
    pub log: LogTarget,
    /// What goes there.
    pub log_level: LevelFilter,
}

impl Config {
    /// Reads, merges and validates everything.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(line: &CommandLine, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        // A wrong command line is said whatever else may be wrong: no waiting can change it.
        let mut flags = Merged::default();
        flags.add(line.settings.iter().cloned());
        if let Err(error @ ConfigError { on_command_line: true, .. }) = flags.validate(line.verbose) {
            return Err(error);
        }
        let file = match &line.config {
            Some(path) => read(path).map_err(|error| ConfigError::new(format!("{}: {error}", path.display())))?,
            // With everything in flags or the environment there need not be one.
            None => match read(Path::new(DEFAULT_FILE)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                file => file.map_err(|error| ConfigError::new(format!("{DEFAULT_FILE}: {error}")))?,
            },
        };
        let path = line.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let mut merged = Merged::default();
        merged.add(parse_file(path, &file).map_err(ConfigError::new)?);
        merged.add(KEYS.into_iter().filter_map(|key| {
            let value = variable(&Origin::variable(key))?;
            Some(Setting { key, value, origin: Origin::Environment })
        }));
        merged.add(line.settings.iter().cloned());
        merged.validate(line.verbose)
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8 text"))
}

/// Reads the lines of a file: KEY=VALUE as a POSIX shell reads it, as long as nothing is to be expanded.
fn parse_file(path: &Path, text: &str) -> Result<Vec<Setting>, String> {
    let mut settings: Vec<Setting> = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{}", path.display(), number + 1);
        let (name, value) = line.split_once('=').ok_or_else(|| format!("{place}: this line is not KEY=VALUE"))?;
        let key = KEYS
            .into_iter()
            .find(|key| *key == name)
            .ok_or_else(|| format!("{place}: unknown key {name:?}; allowed are {}", KEYS.join(", ")))?;
        let value = unquote(value).map_err(|why| format!("{place}: {key}: {why}"))?;
        if let Some(Setting { origin: Origin::File(_, first), .. }) = settings.iter().find(|other| other.key == key) {
            return Err(format!("{place}: {key} stands in line {first} already"));
        }
        settings.push(Setting { key, value, origin: Origin::File(path.into(), number + 1) });
    }
    Ok(settings)
}

/// One word of shell: bare, in single or in double quotes, and maybe a comment behind it.
fn unquote(text: &str) -> Result<String, &'static str> {
    let (value, rest) = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].split_once(quote).ok_or("the closing quote is missing")?,
        _ => match text.find(char::is_whitespace) {
            Some(blank) => text.split_at(blank),
            None => (text, ""),
        },
    };
    let bare = !text.starts_with(['"', '\'']);
    if !text.starts_with('\'') && value.contains(['$', '`', '\\']) {
        return Err("a shell would expand this; put it in single quotes");
    }
    if bare && value.contains(['"', '\'', ';', '&', '|', '<', '>', '(', ')']) {
        return Err("a shell would not take this as one word; put it in single quotes");
    }
    let comment = rest.starts_with(char::is_whitespace) && rest.trim_start().starts_with('#');
    if !comment && !rest.trim_start().is_empty() {
        return Err("a value with blanks must stand in quotes");
    }
    Ok(value.into())
}

/// The settings that hold, by key.
#[derive(Default)]
struct Merged(BTreeMap<&'static str, Setting>);

impl Merged {
    /// Adds settings that outweigh those before.
    fn add(&mut self, settings: impl IntoIterator<Item = Setting>) {
        self.0.extend(settings.into_iter().map(|setting| (setting.key, setting)));
    }

    /// The value of `key`, if it is set to anything.
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|setting| setting.value.trim()).filter(|value| !value.is_empty())
    }

    /// The value of `key` as `parse` reads it, if it is set to anything.
    fn value<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let value = parse(text).map_err(|why| ConfigError::at(&self.0[key], &why))?;
        Ok(Some(value))
    }

    fn path(&self, key: &str, default: &str) -> PathBuf {
        self.text(key).unwrap_or(default).into()
    }

    fn words(&self, key: &str, default: &str) -> Vec<String> {
        self.text(key).unwrap_or(default).split_whitespace().map(Into::into).collect()
    }

    fn validate(&self, verbose: u8) -> Result<Config, ConfigError> {
        let membership_interval = self.value("MEMBERSHIP_INTERVAL", |text| match text {
            "0" => Ok(None),
            text => time(text).map(Some),
        })?;
        let ca_file = self.value("CA_FILE", |text| Ok(PathBuf::from(text)))?;
        let log_level = self.value("LOG_LEVEL", log_level)?.unwrap_or(LevelFilter::Info);
        Ok(Config {
            token_file: self.path("TOKEN_FILE", "/etc/overlaykey/token"),
            control_url: self.value("CONTROL_URL", Url::parse)?,
            pod_cidr: self.value("POD_CIDR", routes::normalise)?.unwrap_or_default(),
            ignore_credential_pod_cidr: self.value("IGNORE_CREDENTIAL_POD_CIDR", yes_or_no)?.unwrap_or(false),
            interval: self.value("INTERVAL", time)?.unwrap_or(DEFAULT_INTERVAL),
            membership_interval: membership_interval.unwrap_or(Some(DEFAULT_MEMBERSHIP_INTERVAL)),
            tailscale: self.words("TAILSCALE", "tailscale"),
            up_flags: self.value("UP_FLAGS", up_flags)?.unwrap_or_default(),
            accept_routes: self.value("ACCEPT_ROUTES", yes_or_no)?.unwrap_or(true),
            resume_stopped: self
                .value("STOPPED", |text| choice(text, &[("up", true), ("leave", false)]))?
                .unwrap_or(true),
            ca_file,
            run_dir: self.path("RUN_DIR", "/run/overlaykey"),
            on_change: self.words("ON_CHANGE", ""),
            log: self
                .value("LOG", |text| choice(text, &[("stderr", LogTarget::Stderr), ("syslog", LogTarget::Syslog)]))?
                .unwrap_or(LogTarget::Stderr),
            log_level: match verbose {
                0 => log_level,
                1 => log_level.max(LevelFilter::Debug),
                _ => LevelFilter::Trace,
            },
            // What may be missing comes last, so that what is wrong is said first.
            cloudbox_url: self.value("CLOUDBOX_URL", cloudbox_url)?.ok_or_else(|| {
                ConfigError::new("CLOUDBOX_URL is not set; keys come from there: https://cloudbox.example".into())
            })?,
            agent_name: self.agent_name()?,
        })
    }

    fn agent_name(&self) -> Result<String, ConfigError> {
        if let Some(name) = self.text("AGENT_NAME") {
            return Ok(name.into());
        }
        let uname = rustix::system::uname();
        match uname.nodename().to_str() {
            // The kernel's own word for "not set yet".
            Ok(name) if !name.is_empty() && name != "(none)" => Ok(name.into()),
            _ => Err(ConfigError::new("AGENT_NAME is not set, and this host has no name either".into())),
        }
    }
}

fn cloudbox_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)?;
    if url.is_https() || url.is_loopback() {
        Ok(url)
    } else {
        Err("it must be https: the access token goes there".into())
    }
}

/// Seconds, or a number with s, m or h behind it.
fn time(text: &str) -> Result<Duration, String> {
    let allowed = || format!("{text:?} is not allowed; allowed are 1s to 24h, as 30, 30s, 5m or 1h");
    let (number, unit) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(allowed()); // parse would take +5
    }
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(allowed)?;
    let time = Duration::from_secs(seconds);
    if time.is_zero() || time > MAX_TIME { Err(allowed()) } else { Ok(time) }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    choice(text, &[("yes", true), ("no", false), ("true", true), ("false", false), ("1", true), ("0", false)])
}

fn log_level(text: &str) -> Result<LevelFilter, String> {
    choice(
        text,
        &[
            ("error", LevelFilter::Error),
            ("warn", LevelFilter::Warn),
            ("info", LevelFilter::Info),
            ("debug", LevelFilter::Debug),
            ("trace", LevelFilter::Trace),
        ],
    )
}

fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("{text:?} is not allowed; allowed are {}", names.join(", "))
    })
}

fn up_flags(text: &str) -> Result<Vec<String>, String> {
    let flags: Vec<String> = text.split_whitespace().map(Into::into).collect();
    for flag in &flags {
        let name = flag.trim_start_matches('-').split('=').next().unwrap_or_default();
        if !flag.starts_with('-') || name.is_empty() {
            return Err(format!("{flag:?} is no flag; write --name=value"));
        }
        if FORBIDDEN_UP_FLAGS.contains(&name) {
            return Err(format!("--{name} is not allowed here: the program sets it, or it would show a secret"));
        }
    }
    Ok(flags)
}
