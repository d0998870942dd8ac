//! The command line, syntax only: nothing is read or checked but the words.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::config::{KEYS, Origin, Setting};

/// What `--help` prints: one screen.
pub const HELP: &str = "\
overlaykey keeps this device registered on its Tailscale or Headscale overlay.

usage: overlaykey [--config FILE] [--KEY VALUE ...] COMMAND
  run             look and heal for ever; TERM ends it, HUP reads the
                  configuration again, USR1 looks now; --ready-fd N: a newline
                  to that descriptor once it runs
  check [--json]  look once and say why; exit 0 healthy, 1 not, 3 cannot tell
  status [--json] what the daemon saw last; exit 0 healthy, 1 not, 3 no daemon
  heal            register with a fresh key, now; exit 0 healed, 1 not
  --version, --help; -v says more
  exit 2: wrong command line or configuration

Settings, as --interval 30s, as OVERLAYKEY_INTERVAL=30s or as INTERVAL=30s in
/etc/overlaykey/overlaykey.conf, in this order; in brackets what else holds:
  CLOUDBOX_URL    where keys come from, https://...; required
  TOKEN_FILE      file of the access token (/etc/overlaykey/token)
  AGENT_NAME      this host's name on cloudbox (the host name)
  CONTROL_URL     login server, instead of the one that cloudbox names
  POD_CIDR        CIDRs to advertise if cloudbox names none, commas between
  IGNORE_CREDENTIAL_POD_CIDR  yes: advertise POD_CIDR only (no)
  INTERVAL        time between two looks: 30, 30s, 5m, 1h (60s)
  MEMBERSHIP_INTERVAL  ... two questions to the control server; 0: never (10m)
  TAILSCALE       command: podman exec -i runtime tailscale (tailscale)
  UP_FLAGS        more flags for tailscale up, which resets what is not named
  ACCEPT_ROUTES   yes or no (yes)
  STOPPED         what a stopped node is to be: up or leave (up)
  CA_FILE         PEM file of more authorities to trust
  RESOLVE         addresses of hosts: cloudbox.example=192.0.2.7
  RUN_DIR         where status.json and the lock go (/run/overlaykey)
  HEARTBEAT       yes: each look gives status.json a new time stamp (no)
  ON_CHANGE       command to run at each change (told by OVERLAYKEY_VERDICT
                  and OVERLAYKEY_REASON)
  LOG, LOG_LEVEL  stderr or syslog (stderr); error ... debug (info)
";

/// What the program is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The daemon.
    Run,
    /// One look.
    Check {
        /// As one line of JSON.
        json: bool,
    },
    /// What the daemon saw last.
    Status {
        /// As one line of JSON.
        json: bool,
    },
    /// One repair.
    Heal,
    /// Print the version line.
    Version,
    /// Print [`HELP`].
    Help,
}

/// The words of the command line.
#[derive(Debug)]
pub struct CommandLine {
    /// What to do.
    pub command: Command,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// The descriptor that is told when the daemon runs.
    pub ready_fd: Option<u32>,
    /// The settings, as written.
    pub settings: Vec<Setting>,
}

/// Splits the command line (without the program's name) into its parts.
///
/// # Errors
/// Names the word that is wrong, and what is allowed.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<CommandLine, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut command = None;
    let mut json = false;
    let mut verbose = false;
    let mut line = CommandLine { command: Command::Help, config: None, ready_fd: None, settings: Vec::new() };
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            // Whoever asks for help does not want a key to be spent, wherever the word stands.
            Long("version") => return Ok(CommandLine { command: Command::Version, ..line }),
            Long("help") | Short('h') => return Ok(CommandLine { command: Command::Help, ..line }),
            Long("json") => json = true,
            Short('v') => verbose = true,
            Long("config") if line.config.is_some() => return Err("--config is given twice".into()),
            Long("config") => line.config = Some(parser.value().map_err(|error| error.to_string())?.into()),
            Long("ready-fd") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                let number = value.to_str().and_then(|text| text.parse().ok());
                line.ready_fd = Some(number.ok_or_else(|| format!("--ready-fd {}: not a number", value.display()))?);
            }
            Long(name) => {
                let flag = format!("--{name}");
                let key = KEYS.into_iter().find(|key| Origin::flag(key) == flag).ok_or_else(|| unknown(&flag))?;
                let value = parser.value().map_err(|error| error.to_string())?;
                let value = value.into_string().map_err(|_| format!("{flag}: the value is not UTF-8"))?;
                if line.settings.iter().any(|setting| setting.key == key) {
                    return Err(format!("{flag} is given twice"));
                }
                line.settings.push(Setting { key, value, origin: Origin::Flag });
            }
            Short(letter) => return Err(unknown(&format!("-{letter}"))),
            Value(word) => {
                let named = match word.to_str() {
                    Some("run") => Command::Run,
                    Some("check") => Command::Check { json: false },
                    Some("status") => Command::Status { json: false },
                    Some("heal") => Command::Heal,
                    _ => {
                        return Err(format!(
                            "unknown command {}; allowed are run, check, status, heal",
                            word.display()
                        ));
                    }
                };
                if command.replace(named).is_some() {
                    return Err(format!("one command is enough: {}", word.display()));
                }
            }
        }
    }
    if verbose {
        line.settings.retain(|setting| setting.key != "LOG_LEVEL");
        line.settings.push(Setting { key: "LOG_LEVEL", value: "debug".into(), origin: Origin::Flag });
    }
    if line.ready_fd.is_some() && command.is_some_and(|command| command != Command::Run) {
        return Err("--ready-fd goes with run only".into());
    }
    line.command = match command {
        None => return Err("no command; allowed are run, check, status, heal (see overlaykey --help)".into()),
        Some(Command::Check { .. }) => Command::Check { json },
        Some(Command::Status { .. }) => Command::Status { json },
        Some(_) if json => return Err("--json goes with check and status only".into()),
        Some(command) => command,
    };
    Ok(line)
}

fn unknown(flag: &str) -> String {
    let keys: Vec<String> = KEYS.into_iter().map(Origin::flag).collect();
    format!("unknown option {flag}; allowed are --config, --json, --version, --help, -v, {}", keys.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<CommandLine, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_may_stand_on_either_side_of_the_command() {
        for line in ["--interval 5 --config f -v run", "run --interval=5 --config=f -v -v"] {
            let got = words(line).unwrap();
            assert_eq!(got.command, Command::Run);
            assert_eq!((got.settings[0].key, got.settings[0].value.as_str()), ("INTERVAL", "5"));
            assert_eq!((got.settings[1].key, got.settings[1].value.as_str()), ("LOG_LEVEL", "debug"));
            assert_eq!(got.config, Some("f".into()));
        }
        assert_eq!(words("--json check").unwrap().command, Command::Check { json: true });
        assert_eq!(words("--version").unwrap().command, Command::Version);
        for line in ["--help", "-h", "heal --help", "--help heal", "run -h --no-such"] {
            assert_eq!(words(line).unwrap().command, Command::Help, "{line}");
        }
        assert_eq!(words("heal --version").unwrap().command, Command::Version);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, words_in_error) in [
            ("", "no command"),
            ("runn", "runn; allowed are run, check, status, heal"),
            ("run heal", "one command"),
            ("run --intervall 5", "--intervall; allowed are"),
            ("run -x", "-x; allowed are"),
            ("run --json", "--json"),
            ("run --interval", "interval"),
            ("run --interval 5 --interval 6", "--interval is given twice"),
            ("run --config a --config b", "--config is given twice"),
        ] {
            let error = words(line).unwrap_err();
            assert!(error.contains(words_in_error), "{line}: {error}");
        }
    }

    #[test]
    fn help_names_every_key_and_is_one_screen() {
        for key in KEYS {
            assert!(HELP.contains(key), "{key}");
        }
        assert!(HELP.lines().count() <= 36 && HELP.lines().all(|line| line.len() < 80));
    }
}
