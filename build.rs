//! The version line and the build-time clock floor. Never fails: an image builder's tree may have
//! neither git nor a clock worth the name.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

// A build script speaks to cargo by println!, and may use what the program has one place for.
#[allow(clippy::disallowed_macros)]
fn main() {
    for name in ["SOURCE_DATE_EPOCH", "OVERLAYKEY_REV"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // HEAD itself changes at a checkout, its log at each commit; in a worktree they are elsewhere. A path that
    // is missing would make every build run this again.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| std::path::Path::new(path).exists())
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rerun-if-changed=build.rs");

    let rev = env("OVERLAYKEY_REV")
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .unwrap_or_else(|| "unknown".into());
    let seconds = |text: String| text.parse::<u64>().ok();
    let built = env("SOURCE_DATE_EPOCH")
        .and_then(seconds)
        .or_else(|| git(&["log", "-1", "--format=%ct"]).and_then(seconds))
        .unwrap_or_else(now);
    let target = env("TARGET").unwrap_or_else(|| "unknown".into());
    let version = env("CARGO_PKG_VERSION").unwrap_or_default();

    println!("cargo:rustc-env=OVERLAYKEY_VERSION=overlaykey {version} ({target}, git {rev}, {})", date(built));
    println!("cargo:rustc-env=OVERLAYKEY_CLOCK_FLOOR={built}");
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[allow(clippy::disallowed_methods)]
fn git(args: &[&str]) -> Option<String> {
    // Only a repository of this very tree counts, not one that a tarball was unpacked into.
    if !std::path::Path::new(".git").exists() {
        return None;
    }
    let out = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let text = text.trim();
    (out.status.success() && !text.is_empty()).then(|| text.to_owned())
}

#[allow(clippy::disallowed_methods)]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// YYYY-MM-DD in UTC of `seconds` since 1970 (Howard Hinnant's `civil_from_days`).
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
