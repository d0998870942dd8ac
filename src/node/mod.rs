//! This device's tailscale: what it says of itself, and how it is told to register.

pub mod exec;
pub mod routes;
pub mod status;
pub mod tailscale;
