//! The configuration file's syntax. Pure.

use std::path::Path;

use super::{KEYS, Origin, Setting};

/// Reads the lines of a file: KEY=VALUE as a POSIX shell reads it, as long as nothing is to be expanded.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Setting>, String> {
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
