//! Black-box tests: the real binary against a scripted `tailscale` (tests/fake) and, over real TLS, a cloudbox and a
//! control server on loopback.
//!
//! What they hold on to is what others can see: calls and their argv, the key on stdin, requests, exit codes, processes.
//! Words of the log only where the documentation promises them. `OVERLAYKEY_TEST_KEEP=1` keeps the folders of a run.

#![allow(
    clippy::disallowed_methods,
    reason = "the rules on spawning, threads and sleeping are the program's; what tests it needs all three"
)]

mod build_script;
mod check;
mod clock;
mod cloudbox;
mod command_line;
mod configuration;
mod control;
mod demo;
mod heal;
mod instance;
mod leftovers;
mod library;
mod log;
mod names;
mod report;
mod secrets;
mod signals;
mod support;
mod up;
mod wide;
