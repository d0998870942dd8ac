//! Wires the real parts together, runs, and maps the result to an exit code.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use overlaykey::cli::{self, Command, CommandLine};
use overlaykey::cloudbox::Token;
use overlaykey::config::{Config, ConfigError};
use overlaykey::instance::Turn;
use overlaykey::net::Http;
use overlaykey::node::exec::SystemExec;
use overlaykey::node::status::State;
use overlaykey::node::tailscale::Tailscale;
use overlaykey::policy::Settings;
use overlaykey::refresher::{Ended, Options};
use overlaykey::report::Report;
use overlaykey::report::status::Status;
use overlaykey::signals::{Signals, Wake};
use overlaykey::{Client, Refresher, clock, instance, logger};

/// Not healthy, or not healed.
const FAILED: u8 = 1;
/// Wrong command line or configuration.
const USAGE: u8 = 2;
/// The node could not be asked.
const CANNOT_TELL: u8 = 3;

/// How often a broken configuration is read again.
const CONFIG_RETRY: Duration = Duration::from_mins(1);

/// How often a daemon that waits for its turn tries to take it.
const TURN_RETRY: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    logger::install();
    let line = match cli::parse(std::env::args_os().skip(1)) {
        Ok(line) => line,
        Err(why) => return usage(&why),
    };
    let (log, level) = Config::log_before(&environment, &line.settings);
    logger::configure(log, level);
    match line.command {
        Command::Help => out(cli::HELP),
        Command::Version => out(concat!(env!("OVERLAYKEY_VERSION"), "\n")),
        Command::Run => run(&line),
        Command::Check { json } => once(&line, CANNOT_TELL, |refresher, config| check(refresher, config, json)),
        Command::Status { json } => status(&line, json),
        Command::Heal => once(&line, FAILED, |refresher, _| heal(refresher)),
    }
}

fn out(text: &str) -> ExitCode {
    logger::print(&io::stdout().as_fd(), text);
    ExitCode::SUCCESS
}

fn usage(why: &str) -> ExitCode {
    logger::print(&io::stderr().as_fd(), &format!("overlaykey: {why}\n"));
    ExitCode::from(USAGE)
}

/// One command that needs the parts for a moment; a signal may end it with the code `interrupted`.
fn once(line: &CommandLine, interrupted: u8, command: impl FnOnce(&mut Refresher, &Config) -> ExitCode) -> ExitCode {
    let parts = Signals::install(interrupted.into())
        .map_err(|error| format!("signals cannot be set up: {error}"))
        .and_then(|signals| {
            let signals = Rc::new(signals);
            let config = load(line).map_err(|error| error.text)?;
            let http = http(&config, &signals).map_err(|error| error.text)?;
            Ok((config, http, signals))
        });
    let (config, http, signals) = match parts {
        Ok(parts) => parts,
        Err(why) => return usage(&why),
    };
    logger::configure(config.log, config.log_level);
    command(&mut build(&config, http, &signals), &config)
}

fn check(refresher: &mut Refresher, config: &Config, json: bool) -> ExitCode {
    let checked = match refresher.check(config.membership_interval.is_some()) {
        Ok(checked) => checked,
        Err(error) => {
            log::error!("{error}");
            return ExitCode::from(CANNOT_TELL);
        }
    };
    out(&format!("{}\n", if json { checked.json() } else { checked.text() }));
    match checked.verdict.state {
        State::Healthy => ExitCode::SUCCESS,
        State::CannotTell => ExitCode::from(CANNOT_TELL),
        _ => ExitCode::from(FAILED),
    }
}

fn heal(refresher: &mut Refresher) -> ExitCode {
    match refresher.heal() {
        Ok(()) => out("healed: the node is registered and in contact\n"),
        Err(error) => {
            out(&format!("not healed: {error}\n"));
            ExitCode::from(FAILED)
        }
    }
}

/// What the daemon saw last: of a file, for anybody who may read it.
fn status(line: &CommandLine, json: bool) -> ExitCode {
    let run_dir = match load(line) {
        Ok(config) => config.run_dir,
        Err(error) => return usage(&error.text),
    };
    if !instance::is_taken(&run_dir) {
        out(&format!("overlaykey does not run (or has no lock in {})\n", run_dir.display()));
        return ExitCode::from(CANNOT_TELL);
    }
    match Status::read(&run_dir) {
        Ok(status) => {
            out(&format!("{}\n", if json { status.json() } else { status.text(clock::now()) }));
            match status.verdict.as_str() {
                "healthy" => ExitCode::SUCCESS,
                "cannot-tell" => ExitCode::from(CANNOT_TELL),
                _ => ExitCode::from(FAILED),
            }
        }
        Err(error) => {
            out(&format!("overlaykey runs, but {}: {error}\n", Status::path(&run_dir).display()));
            ExitCode::from(CANNOT_TELL)
        }
    }
}

/// The daemon. Ends by a signal only, or at once if the command line is wrong.
fn run(line: &CommandLine) -> ExitCode {
    let signals = match Signals::install(0) {
        Ok(signals) => Rc::new(signals),
        Err(error) => return usage(&format!("signals cannot be set up: {error}")),
    };
    let mut running: Option<(Refresher, Config)> = None;
    let mut told = String::new();
    let mut turn = None;
    let mut pause = Duration::ZERO;
    let mut ready_fd = line.ready_fd;
    loop {
        match load(line).and_then(|config| Ok((http(&config, &signals)?, config))) {
            Ok((http, config)) => {
                logger::configure(config.log, config.log_level);
                if turn.is_none() {
                    turn = wait_for_turn(&config, &signals);
                    if turn.is_none() {
                        return stopped();
                    }
                    pause = instance::pause_before_start(&config.run_dir);
                }
                let mut refresher = build(&config, http, &signals);
                if let Some((before, old)) = running.take() {
                    log::info!("the configuration was read again");
                    refresher.take_over(before, config != old);
                } else {
                    log::info!("{} runs", env!("OVERLAYKEY_VERSION"));
                }
                running = Some((refresher, config));
                told.clear();
            }
            Err(ConfigError { text, on_command_line: true }) => return usage(&text),
            Err(ConfigError { text, .. }) if running.is_some() => {
                log::error!("{text}: the configuration stays as it was");
            }
            Err(ConfigError { text, .. }) => {
                if text != told {
                    log::error!("{text}: waiting for a good configuration");
                    told = text;
                }
            }
        }
        if let Some(fd) = ready_fd.take() {
            instance::tell_ready(fd);
        }
        let pause = std::mem::take(&mut pause);
        if !pause.is_zero() {
            log::warn!("started again too soon: waiting {} s", pause.as_secs());
            match signals.wait(pause) {
                Wake::Stop => return stopped(),
                Wake::Reload => continue,
                Wake::Elapsed | Wake::Look => {}
            }
        }
        let ended = match &mut running {
            Some((refresher, _)) => refresher.run(),
            None => match signals.wait(CONFIG_RETRY) {
                Wake::Stop => Ended::Stop,
                Wake::Elapsed | Wake::Look | Wake::Reload => Ended::Reload,
            },
        };
        if ended == Ended::Stop {
            return stopped();
        }
    }
}

fn stopped() -> ExitCode {
    log::info!("stopped");
    ExitCode::SUCCESS
}

/// Waits until no other daemon has the turn. `None`: a signal says to end.
fn wait_for_turn(config: &Config, signals: &Signals) -> Option<Turn> {
    let mut told = false;
    loop {
        if let Some(turn) = instance::take_turn(&config.run_dir) {
            return Some(turn);
        }
        if !told {
            log::warn!("another overlaykey has the lock in {}: waiting for its end", config.run_dir.display());
            told = true;
        }
        if signals.wait(TURN_RETRY) == Wake::Stop {
            return None;
        }
    }
}

fn load(line: &CommandLine) -> Result<Config, ConfigError> {
    Config::load(line.config.as_deref(), &environment, &line.settings)
}

/// What is not UTF-8 fails its check, which names it.
fn environment(name: &str) -> Option<String> {
    Some(std::env::var_os(name)?.to_string_lossy().into_owned())
}

fn http(config: &Config, signals: &Rc<Signals>) -> Result<Http, ConfigError> {
    Http::new(config.ca_file.as_deref(), config.resolve.clone(), Some(Rc::clone(signals)))
        .map_err(|why| ConfigError { text: format!("CA_FILE: {why}"), on_command_line: false })
}

/// The real parts, as configured.
fn build(config: &Config, http: Http, signals: &Rc<Signals>) -> Refresher {
    warn_of_open_token(config);
    let exec = || Box::new(SystemExec::new(Rc::clone(signals)));
    let mut report = Report::new(exec());
    report.configure(config.run_dir.clone(), config.heartbeat, config.on_change.clone());
    let node = Tailscale::new(config.tailscale.clone(), config.accept_routes, config.up_flags.clone(), exec());
    let token = Token::File(config.token_file.clone());
    let keys = Client::new(config.cloudbox_url.as_str(), token, &config.agent_name, http.clone());
    let waiter = Rc::clone(signals);
    Refresher::new(
        node,
        Box::new(keys),
        Box::new(http),
        Box::new(move |time| waiter.wait(time)),
        Options {
            control_url: config.control_url.clone(),
            pod_cidr: config.pod_cidr.clone(),
            ignore_credential_pod_cidr: config.ignore_credential_pod_cidr,
        },
        Settings {
            interval: config.interval,
            membership_interval: config.membership_interval,
            resume_stopped: config.resume_stopped,
        },
        report,
    )
}

fn warn_of_open_token(config: &Config) {
    let path = &config.token_file;
    if std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0) {
        log::warn!("{} can be read by others: chmod 600 it", path.display());
    }
}
