//! The two secrets of the program: the access token and the pre-auth key.

use std::fmt;

use zeroize::Zeroizing;

/// What stands where a secret stood.
const MASK: &str = "[secret]";

/// What pre-auth keys of Tailscale and Headscale begin with. A key that is not ours (one that somebody
/// typed into the node's preferences) is masked by this alone.
const KEY_PREFIXES: [&str; 2] = ["tskey-", "hskey-"];

/// The longest text of a child or a server that is shown, in bytes: a serial console has 80 columns.
const SHOWN: usize = 240;

/// A text that must not be seen: never printed, not `Clone`, wiped when dropped.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes `text` over; no copy stays behind.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Makes a text of a child process or a server fit to be shown: one line of printable characters, no
/// longer than a log line should be, with `secrets` and whatever looks like a pre-auth key masked.
#[must_use]
pub fn show(text: &str, secrets: &[&Secret]) -> String {
    // Masked before anything is cut or replaced, so that no half of a secret can stay.
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.expose().is_empty()) {
        text = text.replace(secret.expose(), MASK);
    }
    for prefix in KEY_PREFIXES {
        text = mask_words(&text, prefix);
    }
    let mut shown = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
    }
    if shown.len() > SHOWN {
        shown.truncate(shown.floor_char_boundary(SHOWN));
        shown.push('…');
    }
    shown
}

/// Replaces each run of key characters that begins with `prefix`.
fn mask_words(text: &str, prefix: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some((before, found)) = rest.split_once(prefix) {
        masked.push_str(before);
        masked.push_str(MASK);
        rest = found.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(format!("{:?}", Secret::new("k".into())), "[secret]");
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let key = Secret::new("abc123".into());
        assert_eq!(show("--auth-key=abc123 --x\nabc123abc123", &[&key]), "--auth-key=[secret] --x [secret][secret]");
        assert_eq!(show("bad tskey-auth-kX_1-Z: no", &[]), "bad [secret]: no");
        assert_eq!(show("hskey-auth-a/hskey-", &[]), "[secret]/[secret]");
    }

    #[test]
    fn a_secret_across_the_cut_leaves_no_half() {
        let key = Secret::new("s".repeat(60));
        let text = format!("{}{}", "x".repeat(SHOWN - 10), key.expose());
        assert!(!show(&text, &[&key]).contains("ss"), "{}", show(&text, &[&key]));
    }

    #[test]
    fn an_empty_secret_masks_nothing() {
        assert_eq!(show("abc", &[&Secret::new(String::new())]), "abc");
    }

    #[test]
    fn control_characters_and_length_are_tamed() {
        assert_eq!(show("a\r\n\tb\u{1b}[31m c", &[]), "a b [31m c");
        assert!(show(&"ä".repeat(1000), &[]).len() <= SHOWN + '…'.len_utf8());
    }
}
