//! What the black-box tests stand on: a folder, a scripted `tailscale`, servers on loopback, and the real binary.

pub mod answer;
pub mod authority;
pub mod cases;
pub mod dir;
pub mod document;
pub mod json;
pub mod node;
pub mod process;
pub mod program;
pub mod server;
pub mod site;
pub mod transport;
pub mod wait;
