//! The configuration in three stages: as written (each value knows where it was written), merged (flag over
//! environment over file), validated.

mod file;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use self::values::{choice, cloudbox_url, log_level, time, up_flags, words, yes_or_no};
use crate::file::read_text;
use crate::net::url::Url;
use crate::node::routes;
use crate::policy::DEFAULT_INTERVAL;

/// Where the configuration is unless `--config` says otherwise.
const DEFAULT_FILE: &str = "/etc/overlaykey/overlaykey.conf";

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

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
#[derive(Debug, PartialEq, Eq)]
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
    /// Reads the file (`None`: the default one, which need not be there), merges it with the environment and
    /// the `flags`, and validates everything.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(file: Option<&Path>, environment: &Environment, flags: &[Setting]) -> Result<Self, ConfigError> {
        // A wrong command line is said whatever else may be wrong: no waiting can change it.
        if let Err(error @ ConfigError { on_command_line: true, .. }) = Merged::of(&[flags]).validate() {
            return Err(error);
        }
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let text = match read_text(path, MAX_FILE) {
            // With everything in flags or the environment there need not be one.
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(|error| ConfigError::new(format!("{}: {error}", path.display())))?,
        };
        let written = file::parse(path, &text).map_err(ConfigError::new)?;
        Merged::of(&[&written, &from_environment(environment), flags]).validate()
    }

    /// Where the log goes and how much, as far as that is known without the file: what is wrong with the
    /// file must be said there too.
    #[must_use]
    pub fn log_before(environment: &Environment, flags: &[Setting]) -> (LogTarget, LevelFilter) {
        let merged = Merged::of(&[&from_environment(environment), flags]);
        (merged.log().unwrap_or(LogTarget::Stderr), merged.log_level().unwrap_or(LevelFilter::Info))
    }
}

/// Gives the value of a variable.
pub type Environment = dyn Fn(&str) -> Option<String>;

fn from_environment(environment: &Environment) -> Vec<Setting> {
    KEYS.into_iter()
        .filter_map(|key| {
            let value = environment(&Origin::variable(key))?;
            Some(Setting { key, value, origin: Origin::Environment })
        })
        .collect()
}

/// The settings that hold, by key.
struct Merged(BTreeMap<&'static str, Setting>);

impl Merged {
    /// Merges layers of settings, each of which outweighs those before.
    fn of(layers: &[&[Setting]]) -> Self {
        Self(layers.iter().copied().flatten().map(|setting| (setting.key, setting.clone())).collect())
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

    fn words(&self, key: &str, default: &str) -> Result<Vec<String>, ConfigError> {
        Ok(self.value(key, words)?.unwrap_or_else(|| default.split_whitespace().map(Into::into).collect()))
    }

    fn validate(&self) -> Result<Config, ConfigError> {
        // A file that was torn by a loss of power holds zeros.
        if let Some(setting) = self.0.values().find(|setting| setting.value.contains(char::is_control)) {
            return Err(ConfigError::at(setting, "control characters are not allowed"));
        }
        let membership_interval = self.value("MEMBERSHIP_INTERVAL", |text| match text {
            "0" | "0s" => Ok(None),
            text => time(text).map(Some).map_err(|why| format!("{why}; 0 for never")),
        })?;
        let ca_file = self.value("CA_FILE", |text| Ok(PathBuf::from(text)))?;
        Ok(Config {
            token_file: self.path("TOKEN_FILE", "/etc/overlaykey/token"),
            control_url: self.value("CONTROL_URL", Url::parse)?,
            pod_cidr: self.value("POD_CIDR", routes::normalise)?.unwrap_or_default(),
            ignore_credential_pod_cidr: self.value("IGNORE_CREDENTIAL_POD_CIDR", yes_or_no)?.unwrap_or(false),
            interval: self.value("INTERVAL", time)?.unwrap_or(DEFAULT_INTERVAL),
            membership_interval: membership_interval.unwrap_or(Some(DEFAULT_MEMBERSHIP_INTERVAL)),
            tailscale: self.words("TAILSCALE", "tailscale")?,
            up_flags: self.value("UP_FLAGS", up_flags)?.unwrap_or_default(),
            accept_routes: self.value("ACCEPT_ROUTES", yes_or_no)?.unwrap_or(true),
            resume_stopped: self
                .value("STOPPED", |text| choice(text, &[("up", true), ("leave", false)]))?
                .unwrap_or(true),
            ca_file,
            run_dir: self.path("RUN_DIR", "/run/overlaykey"),
            on_change: self.words("ON_CHANGE", "")?,
            log: self.log()?,
            log_level: self.log_level()?,
            // What may be missing comes last, so that what is wrong is said first.
            cloudbox_url: self.value("CLOUDBOX_URL", cloudbox_url)?.ok_or_else(|| {
                ConfigError::new("CLOUDBOX_URL is not set; keys come from there: https://cloudbox.example".into())
            })?,
            agent_name: self.agent_name()?,
        })
    }

    fn log(&self) -> Result<LogTarget, ConfigError> {
        let target = |text: &str| choice(text, &[("stderr", LogTarget::Stderr), ("syslog", LogTarget::Syslog)]);
        Ok(self.value("LOG", target)?.unwrap_or(LogTarget::Stderr))
    }

    fn log_level(&self) -> Result<LevelFilter, ConfigError> {
        Ok(self.value("LOG_LEVEL", log_level)?.unwrap_or(LevelFilter::Info))
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
