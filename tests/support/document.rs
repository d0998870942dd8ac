//! Status documents as `tailscale status --json` prints them, cut down to what matters.

/// The key of the node in these documents.
pub const NODE_KEY: &str = "nodekey:9b58437092d85c7d44851bce35777e17a435de003c8f878a30fe07ca004b0e7d";

/// What stands in its place while there is no netmap.
pub const NO_KEY: &str = "nodekey:0000000000000000000000000000000000000000000000000000000000000000";

/// The health text that makes the seed's rule say no.
pub const COORDINATION: &str =
    "Unable to connect to the Tailscale coordination server to synchronize the state of your tailnet.";

/// The health text of a key that the control server did not take, as current clients show it after `up` exited with 0.
pub const REFUSED: &str = "You are logged out. The last login error was: invalid pre auth key";

/// A document with the given state, node key, presence and health text.
fn document(state: &str, key: &str, online: bool, mapped: bool, health: &str) -> String {
    let health = if health.is_empty() { String::new() } else { super::json::quoted(health) };
    format!(
        r#"{{"Version":"1.102.3","BackendState":"{state}","Self":{{"PublicKey":"{key}","HostName":"router-1","Online":{online},"InNetworkMap":{mapped}}},"Health":[{health}]}}"#
    )
}

/// A node that is where it should be.
pub fn healthy() -> String {
    document("Running", NODE_KEY, true, true, "")
}

/// A node that lost its control server: forgotten by it or only cut off, the document does not tell.
pub fn out_of_touch() -> String {
    document("Running", NODE_KEY, false, true, "")
}

/// The same after 8 minutes.
pub fn out_of_touch_for_long() -> String {
    document("Running", NODE_KEY, false, true, COORDINATION)
}

/// A node that a control server's reset left without netmap and so without a key to ask about.
pub fn out_of_touch_without_key() -> String {
    document("Running", NO_KEY, false, true, "")
}

/// A node that is to log in.
pub fn logged_out() -> String {
    document("NeedsLogin", NO_KEY, false, false, "")
}

/// A good node that was given a bad key: current clients go on saying Running.
pub fn refused() -> String {
    document("Running", NODE_KEY, false, true, REFUSED)
}

/// A node that somebody stopped.
pub fn stopped() -> String {
    document("Stopped", NODE_KEY, false, true, "Tailscale is stopped.")
}

/// A logged-out node whose health text is the given one.
pub fn logged_out_saying(health: &str) -> String {
    document("NeedsLogin", NO_KEY, false, false, health)
}

/// A healthy node among `count` others: some 1.5 KB each, as real ones are.
pub fn among_peers(count: usize) -> String {
    let filler = "tag:router ".repeat(120);
    let peers: Vec<String> = (0..count)
        .map(|number| {
            format!(r#""nodekey:{number:064x}":{{"HostName":"peer-{number}","Online":true,"Notes":"{filler}"}}"#)
        })
        .collect();
    let document = healthy();
    format!(r#"{},"Peer":{{{}}}}}"#, document.trim_end_matches('}'), peers.join(","))
}
