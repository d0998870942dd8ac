//! The settings that hold, and what they make together.

use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;

use super::values::{choice, cloudbox_url, log_level, time, up_flags, words, yes_or_no};
use super::{Config, ConfigError, LogTarget, Setting};
use crate::net::resolver::Pin;
use crate::net::url::Url;
use crate::node::routes;
use crate::policy::DEFAULT_INTERVAL;

/// The time between two questions to the control server about a healthy node.
const DEFAULT_MEMBERSHIP_INTERVAL: Duration = Duration::from_mins(10);

/// All settings, of which the last of a key holds.
pub(super) struct Merged<'s>(Vec<&'s Setting>);

impl<'s> Merged<'s> {
    /// Merges layers of settings, each of which outweighs those before.
    pub(super) fn of(layers: &[&'s [Setting]]) -> Self {
        Self(layers.iter().copied().flatten().collect())
    }

    /// The setting of `key` that holds, if it is set to anything.
    fn setting(&self, key: &str) -> Option<&'s Setting> {
        self.0.iter().rfind(|setting| setting.key == key).copied().filter(|setting| !setting.value.trim().is_empty())
    }

    /// The value of `key`, if it is set to anything.
    fn text(&self, key: &str) -> Option<&'s str> {
        self.setting(key).map(|setting| setting.value.trim())
    }

    /// The value of `key` as `parse` reads it, if it is set to anything.
    fn value<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let Some(setting) = self.setting(key) else { return Ok(None) };
        let value = parse(setting.value.trim()).map_err(|why| ConfigError::at(setting, &why))?;
        Ok(Some(value))
    }

    fn path(&self, key: &str, default: &str) -> PathBuf {
        self.text(key).unwrap_or(default).into()
    }

    fn words(&self, key: &str, default: &str) -> Result<Vec<String>, ConfigError> {
        Ok(self.value(key, words)?.unwrap_or_else(|| default.split_whitespace().map(Into::into).collect()))
    }

    pub(super) fn validate(&self) -> Result<Config, ConfigError> {
        // A file that was torn by a loss of power holds zeros.
        if let Some(setting) = self.0.iter().find(|setting| setting.value.contains(char::is_control)) {
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
            resolve: self
                .value("RESOLVE", |text| text.split_whitespace().map(Pin::parse).collect())?
                .unwrap_or_default(),
            run_dir: self.path("RUN_DIR", "/run/overlaykey"),
            heartbeat: self.value("HEARTBEAT", yes_or_no)?.unwrap_or(false),
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

    pub(super) fn log(&self) -> Result<LogTarget, ConfigError> {
        let target = |text: &str| choice(text, &[("stderr", LogTarget::Stderr), ("syslog", LogTarget::Syslog)]);
        Ok(self.value("LOG", target)?.unwrap_or(LogTarget::Stderr))
    }

    pub(super) fn log_level(&self) -> Result<LevelFilter, ConfigError> {
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
