//! Names, where the system's own resolver is of no use. Each test has an /etc of its own, in a mount namespace, and name
//! servers on addresses of 127.0.0.0/8 of its own.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::program::Ended;
use crate::support::site::Site;

/// Where cloudbox is, by name.
const HOST: &str = "cloudbox.test";

/// Tailscale's own name server: it answers nobody while the node is logged out.
const NODES_OWN: &str = "100.100.100.100";

/// How a name server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Knows an IPv4 address, and that there is no IPv6 one.
    Good,
    /// Knows an IPv4 address, and fails when asked for IPv6 ones.
    FailsAaaa,
    /// Says something else first: to another question, and rubbish.
    Confused,
    /// Says nothing.
    Silent,
    /// Says that it does not answer such as us.
    Refuses,
}

struct NameServer {
    address: Ipv4Addr,
    asked: Arc<AtomicUsize>,
    closing: Arc<AtomicBool>,
}

impl NameServer {
    fn start(manner: Manner) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let process = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, process[2], process[3], NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = UdpSocket::bind((address, 53)).expect("port 53, which takes root");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
        let (asked, closing) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        thread::spawn({
            let (asked, closing) = (asked.clone(), closing.clone());
            move || {
                let mut message = [0; 512];
                while !closing.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut message) else { continue };
                    asked.fetch_add(1, Ordering::Relaxed);
                    for answer in answers(&message[..length], manner) {
                        let _ = socket.send_to(&answer, from);
                    }
                }
            }
        });
        Self { address, asked, closing }
    }

    fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) > 0
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

fn answers(question: &[u8], manner: Manner) -> Vec<Vec<u8>> {
    // The name ends at a zero, and the type is after it; options that the C library adds at the end are left out.
    let name = question[12..].iter().position(|&byte| byte == 0).expect("the end of the name");
    let end = 12 + name + 5;
    let is_a = question[end - 3] == 1;
    let plain = |flags: [u8; 2]| {
        let mut answer = question[..end].to_vec();
        answer[2..4].copy_from_slice(&flags);
        answer[10..12].copy_from_slice(&[0, 0]);
        answer
    };
    let mut good = plain([0x81, 0x80]);
    if is_a {
        good[7] = 1;
        good.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    let mut other = good.clone();
    other[0] ^= 0xFF;
    if let (true, Some(last)) = (is_a, other.last_mut()) {
        *last = 99; // nobody is there
    }
    match manner {
        Manner::Good => vec![good],
        Manner::FailsAaaa if is_a => vec![good],
        Manner::FailsAaaa => vec![plain([0x81, 0x82])],
        Manner::Confused => vec![other, vec![0; 3], good],
        Manner::Silent => Vec::new(),
        Manner::Refuses => vec![plain([0x81, 0x85])],
    }
}

/// A heal whose cloudbox has a name, where /etc is as given.
fn heal(resolv_conf: &str, former: &str, resolve: Option<&str>) -> Ended {
    let mut site = Site::new();
    site.set("cloudbox-url", format!("https://{HOST}:{}", site.cloudbox.port()));
    if let Some(pins) = resolve {
        site.set("resolve", pins);
    }
    for (name, text) in [
        ("resolv.conf", resolv_conf),
        ("resolv.pre-tailscale-backup.conf", former),
        ("nsswitch.conf", "hosts: files dns\n"),
        ("hosts", "127.0.0.1 localhost\n"),
    ] {
        fs::create_dir_all(site.dir.path("etc")).expect("a folder for /etc");
        fs::write(site.dir.path("etc").join(name), text).expect("a file in /etc");
    }
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {} /etc && exec \"$@\"' sh {} \"$@\"\n",
        site.dir.path("etc").display(),
        site.program()
    );
    let starter = site.dir.write("starter", text);
    fs::set_permissions(&starter, Permissions::from_mode(0o755)).expect("the starter's mode");
    site.use_program(&starter.display().to_string());
    site.run(&["heal"])
}

fn servers(addresses: &[&NameServer]) -> String {
    let lines: Vec<String> = addresses.iter().map(|server| format!("nameserver {}", server.address)).collect();
    lines.join("\n") + "\n"
}

#[test]
#[ignore = "needs root"]
fn a_node_that_left_its_own_name_server_behind_is_healed() {
    let former = NameServer::start(Manner::Good);
    let ended = heal(&format!("nameserver {NODES_OWN}\nsearch tail1.ts.net\n"), &servers(&[&former]), None);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(former.was_asked());
    assert!(ended.took < Duration::from_secs(20), "{ended}");
}

#[test]
#[ignore = "needs root"]
fn a_silent_server_and_one_that_refuses_are_passed_over() {
    let (silent, refuses, good) =
        (NameServer::start(Manner::Silent), NameServer::start(Manner::Refuses), NameServer::start(Manner::Good));
    let ended = heal(&format!("nameserver {NODES_OWN}\n"), &servers(&[&silent, &refuses, &good]), None);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(silent.was_asked() && refuses.was_asked() && good.was_asked());
}

#[test]
#[ignore = "needs root"]
fn answers_to_other_questions_are_not_believed() {
    let confused = NameServer::start(Manner::Confused);
    let ended = heal(&format!("nameserver {NODES_OWN}\n"), &servers(&[&confused]), None);
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
#[ignore = "needs root"]
fn a_failure_for_ipv6_does_not_lose_the_ipv4_address() {
    let server = NameServer::start(Manner::FailsAaaa);
    let ended = heal(&servers(&[&server]), "", None);
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
#[ignore = "needs root"]
fn a_pinned_host_needs_no_server() {
    let server = NameServer::start(Manner::Good);
    let ended = heal(&servers(&[&server]), "", Some("other.test=192.0.2.9 cloudbox.test=127.0.0.1"));
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(!server.was_asked());
}

#[test]
#[ignore = "needs root"]
fn where_nobody_knows_the_name_it_is_said() {
    let silent = NameServer::start(Manner::Silent);
    let ended = heal(&servers(&[&silent]), "", Some("other.test=192.0.2.9"));
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.said().contains("the name does not resolve"), "{ended}");
}
