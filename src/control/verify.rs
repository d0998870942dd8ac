//! The wire format of the control server's `POST /verify` (headscale ≥ 0.24; in Tailscale's sources
//! `DERPAdmitClientRequest` and `DERPAdmitClientResponse`). Pure.

use miniserde::{Deserialize, Serialize, json};

use super::Membership;

#[derive(Serialize)]
struct Question<'a> {
    #[serde(rename = "NodePublic")]
    node_public: &'a str,
    /// The address that a relay saw the node come from. There is no relay here; it must parse.
    #[serde(rename = "Source")]
    source: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Allow")]
    allow: Option<bool>,
}

/// The body that asks about the node whose public key is `node_key` (`nodekey:…`).
pub fn question(node_key: &str) -> String {
    json::to_string(&Question { node_public: node_key, source: "0.0.0.0" })
}

/// What the answer says. Only a 200 whose JSON says so is a "no"; its content type is often text/plain.
pub fn answer(status: u16, body: &str) -> Membership {
    match (status, json::from_str::<Answer>(body)) {
        (200, Ok(Answer { allow: Some(true) })) => Membership::Known,
        (200, Ok(Answer { allow: Some(false) })) => Membership::Forgotten,
        (429 | 500.., _) => Membership::NoAnswer(format!("status {status}")),
        _ => Membership::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_names_the_key() {
        assert_eq!(question("nodekey:ab"), r#"{"NodePublic":"nodekey:ab","Source":"0.0.0.0"}"#);
    }

    #[test]
    fn only_a_clear_no_is_a_no() {
        use Membership::{Forgotten, Known, Unsupported};
        assert_eq!(answer(200, r#"{"Allow":true}"#), Known);
        assert_eq!(answer(200, r#" {"Allow":false} "#), Forgotten);
        for (status, body) in [
            (404, r#"{"Allow":false}"#),
            (200, "{}"),
            (200, "<html>"),
            (200, ""),
            (200, r#"{"Allow":null}"#),
            (200, r#"{"Allow":"false"}"#),
            (301, ""),
            (401, "{}"),
            (204, ""),
        ] {
            assert_eq!(answer(status, body), Unsupported, "{status} {body}");
        }
        for status in [429, 500, 502, 503, 504] {
            assert!(matches!(answer(status, r#"{"Allow":false}"#), Membership::NoAnswer(_)), "{status}");
        }
    }
}
