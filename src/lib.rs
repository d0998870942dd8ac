//! Keeps an appliance registered on its Tailscale or Headscale overlay.
//!
//! # Why this exists
//! A device's registration can vanish: most often a deploy of cloudbox, the web service, resets the
//! embedded Headscale. The device then stays off the network until a human restarts something, although
//! cloudbox would issue a fresh single-use pre-auth key at any time to whoever holds the device's access
//! token. That token has nothing to do with the overlay, so it works across exactly the failures that break
//! the registration. The device only has to notice, and to ask.
//!
//! # The parts
//! [`Client`] asks cloudbox for [`Credentials`]; [`Refresher`] looks at the node
//! ([`Tailscale`](node::tailscale::Tailscale)), asks the control server ([`control`]) where the node is out
//! of touch, and heals it. What a status document means is decided in [`node::status`], what is done about
//! it in [`policy`]; both are pure. The program around it is [`cli`], [`config`], [`logger`], [`signals`].
//!
//! Who knows the Go package of the same name finds `Client.Fetch` as [`Client::fetch`], `Refresher.Healthy`,
//! `Heal` and `Run` as [`Refresher::healthy`], [`Refresher::heal`] and [`Refresher::run`], `DefaultInterval`
//! as [`DEFAULT_INTERVAL`], and `ErrOverlayDisabled` and `ErrThrottled` as [`Error::OverlayDisabled`] and
//! [`Error::Throttled`].
//!
//! ```no_run
//! use std::rc::Rc;
//!
//! use overlaykey::cloudbox::Token;
//! use overlaykey::net::Http;
//! use overlaykey::node::{exec::SystemExec, tailscale::Tailscale};
//! use overlaykey::policy::Settings;
//! use overlaykey::refresher::Options;
//! use overlaykey::{Client, DEFAULT_INTERVAL, Refresher, report::Report, signals::Signals};
//!
//! let signals = Rc::new(Signals::install(0)?);
//! let exec = || Box::new(SystemExec::new(Rc::clone(&signals)));
//! let http = Http::new(None, Vec::new(), Some(Rc::clone(&signals)))?;
//! let token = Token::File("/etc/overlaykey/token".into());
//! let waiter = Rc::clone(&signals);
//! let mut refresher = Refresher::new(
//!     Tailscale::new(vec!["tailscale".into()], true, Vec::new(), exec()),
//!     Box::new(Client::new("https://cloudbox.example", token, "router-1", http.clone())),
//!     Box::new(http),
//!     Box::new(move |time| waiter.wait(time)),
//!     Options::default(),
//!     Settings { interval: DEFAULT_INTERVAL, membership_interval: None, resume_stopped: true },
//!     Report::new(exec()),
//! );
//! if !refresher.healthy()? {
//!     refresher.heal()?;
//! }
//! refresher.run();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cli;
pub mod clock;
pub mod cloudbox;
pub mod config;
pub mod control;
pub mod error;
pub mod file;
pub mod instance;
pub mod logger;
pub mod net;
pub mod node;
pub mod policy;
pub mod refresher;
pub mod report;
pub mod secret;
pub mod signals;

pub use cloudbox::{Client, Credentials};
pub use error::Error;
pub use policy::DEFAULT_INTERVAL;
pub use refresher::Refresher;
