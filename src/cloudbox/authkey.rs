//! The wire format of `POST {base}/api/v1/overlay/authkey`. Pure.

use miniserde::{Deserialize, Serialize, json};

use crate::secret::Secret;

/// Where a key is asked for, under cloudbox's base address.
pub const PATH: &str = "/api/v1/overlay/authkey";

/// The longest key that is believed, in bytes. Headscale's have 81, Tailscale's about 60.
const MAX_KEY: usize = 512;

#[derive(Serialize)]
struct Question<'a> {
    agent_name: &'a str,
}

/// A sliver of the answer. Each field may be missing or null.
#[derive(Deserialize)]
struct Answer {
    overlay_login_server: Option<String>,
    overlay_auth_key: Option<String>,
    overlay_pod_cidr: Option<String>,
    expires_in_seconds: Option<i64>,
}

/// One issuance from cloudbox.
#[derive(Debug)]
pub struct Credentials {
    /// The login server to register with; empty if cloudbox named none.
    pub login_server: String,
    /// The fresh single-use pre-auth key.
    pub auth_key: Secret,
    /// The CIDRs this node should advertise, with commas between; empty if cloudbox named none.
    pub pod_cidr: String,
    /// How long the key can be used, in seconds; 0 if cloudbox did not say.
    pub expires_in_seconds: i64,
}

/// The body that asks for a key of the host `agent_name`.
#[must_use]
pub fn question(agent_name: &str) -> String {
    json::to_string(&Question { agent_name })
}

/// Reads the body of a 200.
///
/// # Errors
/// Says why these are no credentials, without a word of the body: a key may be in there.
pub fn answer(body: &str) -> Result<Credentials, &'static str> {
    let answer: Answer = json::from_str(body).map_err(|_| "the answer is not the JSON of credentials")?;
    let key = Secret::new(answer.overlay_auth_key.unwrap_or_default());
    match key.expose() {
        "" => return Err("the answer holds no key"),
        text if text.len() > MAX_KEY => return Err("the key is longer than 512 characters"),
        // tailscale would take it for a flag, or for a file's name.
        text if text.starts_with('-') => return Err("the key begins with \"-\""),
        text if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            return Err("the key holds blanks or characters that no key has");
        }
        _ => {}
    }
    let trimmed = |text: Option<String>| text.unwrap_or_default().trim().to_owned();
    Ok(Credentials {
        login_server: trimmed(answer.overlay_login_server),
        auth_key: key,
        pod_cidr: trimmed(answer.overlay_pod_cidr),
        expires_in_seconds: answer.expires_in_seconds.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_json() {
        assert_eq!(question(r#"a"b"#), r#"{"agent_name":"a\"b"}"#);
    }

    #[test]
    fn all_fields() {
        let got = answer(
            r#"{"overlay_login_server":" https://hs ","overlay_auth_key":"k1","overlay_pod_cidr":" 10.0.0.0/24 ","expires_in_seconds":600,"more":[{}]}"#,
        )
        .unwrap();
        assert_eq!(got.login_server, "https://hs");
        assert_eq!(got.auth_key.expose(), "k1");
        assert_eq!(got.pod_cidr, "10.0.0.0/24");
        assert_eq!(got.expires_in_seconds, 600);
    }

    #[test]
    fn only_the_key_must_be_there() {
        let got = answer(r#"{"overlay_auth_key":"k","overlay_pod_cidr":null}"#).unwrap();
        assert_eq!((got.login_server.as_str(), got.pod_cidr.as_str(), got.expires_in_seconds), ("", "", 0));
    }

    #[test]
    fn what_is_no_key() {
        let long = format!(r#"{{"overlay_auth_key":"{}"}}"#, "k".repeat(600));
        for body in [
            "",
            "{}",
            "[]",
            "null",
            "<html>",
            r#"{"overlay_auth_key":null}"#,
            r#"{"overlay_auth_key":7}"#,
            r#"{"overlay_auth_key":""}"#,
            r#"{"overlay_auth_key":" "}"#,
            r#"{"overlay_auth_key":"a b"}"#,
            r#"{"overlay_auth_key":"-x"}"#,
            r#"{"overlay_auth_key":"a\n"}"#,
            r#"{"overlay_auth_key":"ä"}"#,
            r#"{"overlay_auth_key":"cut"#,
            &long,
        ] {
            assert!(answer(body).is_err(), "{body}");
        }
    }
}
