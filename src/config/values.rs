//! What each kind of value may be. Pure.

use std::time::Duration;

use log::LevelFilter;

use crate::net::url::Url;

/// The longest time that a setting may have.
const MAX_TIME: Duration = Duration::from_hours(24);

/// Flags of `tailscale up` that UP_FLAGS may not hold: the program sets them itself, or they would put a
/// secret where everybody can read it.
const FORBIDDEN_UP_FLAGS: [&str; 11] = [
    "auth-key",
    "authkey",
    "client-secret",
    "id-token",
    "reset",
    "login-server",
    "advertise-routes",
    "accept-routes",
    "timeout",
    "json",
    "qr",
];

pub(super) fn cloudbox_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)?;
    if url.is_https() || url.is_loopback() {
        Ok(url)
    } else {
        Err("it must be https: the access token goes there".into())
    }
}

/// Seconds, or a number with s, m or h behind it.
pub(super) fn time(text: &str) -> Result<Duration, String> {
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

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    choice(text, &[("yes", true), ("no", false), ("true", true), ("false", false), ("1", true), ("0", false)])
}

pub(super) fn log_level(text: &str) -> Result<LevelFilter, String> {
    choice(
        text,
        &[
            ("error", LevelFilter::Error),
            ("warn", LevelFilter::Warn),
            ("info", LevelFilter::Info),
            ("debug", LevelFilter::Debug),
            ("trace", LevelFilter::Debug), // nothing finer is said
        ],
    )
}

pub(super) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("{text:?} is not allowed; allowed are {}", names.join(", "))
    })
}

/// Words with blanks between. There is no shell that would take quotes off.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    if text.contains(['"', '\'', '\\']) {
        return Err("quotes and backslashes inside the value are not understood; words end at blanks".into());
    }
    Ok(text.split_whitespace().map(Into::into).collect())
}

pub(super) fn up_flags(text: &str) -> Result<Vec<String>, String> {
    let flags = words(text)?;
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
