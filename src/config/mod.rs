//! The configuration in three stages: as written (each value knows where it was written), merged (flag over
//! environment over file), validated.

mod file;
mod merged;
mod values;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use log::LevelFilter;

use self::merged::Merged;
use crate::file::read_text;
use crate::net::resolver::Pin;
use crate::net::url::Url;

/// Where the configuration is unless `--config` says otherwise.
const DEFAULT_FILE: &str = "/etc/overlaykey/overlaykey.conf";

/// The longest file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Every key there is.
pub const KEYS: [&str; 19] = [
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
    "RESOLVE",
    "RUN_DIR",
    "HEARTBEAT",
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
#[allow(clippy::struct_excessive_bools)] // each of them is a setting
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
    /// Addresses of hosts that need no name server.
    pub resolve: Vec<Pin>,
    /// Where the status file and the lock go.
    pub run_dir: PathBuf,
    /// Each look gives the status file a new time stamp.
    pub heartbeat: bool,
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
        let environment = from_environment(environment);
        let merged = Merged::of(&[&environment, flags]);
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
