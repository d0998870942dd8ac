//! The Go package's own tests, case by case.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Instant;

use overlaykey::cloudbox::Token;
use overlaykey::net::Http;
use overlaykey::net::url::Url;
use overlaykey::refresher::{Ended, Options};
use overlaykey::secret::Secret;
use overlaykey::{Client, Error};

use super::*;

const CALL_LIMIT: usize = 200;

/// A cloudbox that answers one request with `status` and `body`; gives back the request.
fn cloudbox(status: &'static str, body: &'static str) -> (Client, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!(" http://{}// ", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            reader.read_line(&mut request).unwrap();
        }
        let lower = request.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        let mut content = vec![0; length];
        reader.read_exact(&mut content).unwrap();
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        request + std::str::from_utf8(&content).unwrap()
    });
    let token = Token::Value(Secret::new(" token-1\n".into()));
    (Client::new(&base, token, "host-1", Http::new(None, Vec::new(), None).unwrap()), server)
}

#[test]
fn fetch_happy_path() {
    let (client, server) = cloudbox(
        "200 OK",
        r#"{"overlay_login_server":"https://hs.example","overlay_auth_key":"key-1","overlay_pod_cidr":"10.42.7.0/24","expires_in_seconds":600}"#,
    );
    let got = client.fetch().unwrap();
    assert_eq!(got.login_server, "https://hs.example");
    assert_eq!(got.auth_key.expose(), "key-1");
    assert_eq!(got.pod_cidr, "10.42.7.0/24");
    assert_eq!(got.expires_in_seconds, 600);
    let request = server.join().unwrap();
    assert!(request.starts_with("POST /api/v1/overlay/authkey HTTP/1.1\r\n"), "{request}");
    let lower = request.to_ascii_lowercase();
    assert!(lower.contains("\r\nauthorization: bearer token-1\r\n"), "{request}");
    assert!(lower.contains("\r\ncontent-type: application/json\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"agent_name\":\"host-1\"}"), "{request}");
}

#[test]
fn fetch_refuses_a_200_without_a_key() {
    let (client, server) = cloudbox("200 OK", r#"{"overlay_login_server":"https://hs.example"}"#);
    assert!(matches!(client.fetch(), Err(Error::Unusable(_))));
    server.join().unwrap();
}

#[test]
fn fetch_tells_disabled_and_throttled_apart() {
    for (status, disabled, throttled) in [
        ("503 Service Unavailable", true, false),
        ("429 Too Many Requests", false, true),
        ("500 Internal Server Error", false, false),
    ] {
        let (client, server) = cloudbox(status, "{}");
        let error = client.fetch().unwrap_err();
        assert_eq!(matches!(error, Error::OverlayDisabled { .. }), disabled, "{error}");
        assert_eq!(matches!(error, Error::Throttled { .. }), throttled, "{error}");
        server.join().unwrap();
    }
}

#[test]
fn fetch_needs_a_base_a_token_and_a_name() {
    let http = Http::new(None, Vec::new(), None).unwrap();
    for (base, token, name) in
        [("", "t", "n"), ("https://cloudbox.invalid", " ", "n"), ("https://cloudbox.invalid", "t", "")]
    {
        let client = Client::new(base, Token::Value(Secret::new(token.into())), name, http.clone());
        assert!(matches!(client.fetch(), Err(Error::Invalid(_))), "{base} {token} {name}");
    }
}

#[test]
fn healthy_table() {
    let lost = "Unable to connect to the Tailscale coordination server to synchronize the state";
    for (document, healthy) in [
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":true}}"#.to_owned(), true),
        (
            format!(
                r#"{{"BackendState":"Running","Self":{{"InNetworkMap":true,"Online":false}},"Health":["{lost}"]}}"#
            ),
            false,
        ),
        (
            r#"{"BackendState":"Running","Self":{"InNetworkMap":true,"Online":false},"Health":["another"]}"#
                .to_owned(),
            true,
        ),
        (r#"{"BackendState":"Running","Self":{"InNetworkMap":false}}"#.to_owned(), false),
        (r#"{"BackendState":"Running"}"#.to_owned(), false),
        (r#"{"BackendState":"NeedsLogin","Self":{"InNetworkMap":true}}"#.to_owned(), false),
        (r#"{"BackendState":"Stopped","Self":{"InNetworkMap":true}}"#.to_owned(), false),
        (r#"{"BackendState":"NoState","Self":{"InNetworkMap":true}}"#.to_owned(), false),
    ] {
        let world = world(0);
        world.borrow_mut().status = [prints(&document)].into();
        let got = refresher(&world, Options::default(), settings()).healthy().unwrap();
        assert_eq!(got, healthy, "{document}");
    }
}

#[test]
fn a_failing_command_is_an_error_and_not_unhealthy() {
    for said in [fails(1, "failed to connect to local tailscaled"), prints("no JSON")] {
        let world = world(0);
        world.borrow_mut().status = [said].into();
        let got = refresher(&world, Options::default(), settings()).healthy();
        assert!(matches!(got, Err(Error::CannotTell(_))), "{got:?}");
    }
}

#[test]
fn run_heals_again_with_a_fresh_key_until_the_control_listener_is_back() {
    let world = world(CALL_LIMIT);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        // The way in to the control server is not there yet when the first key is spent.
        world.up = [fails(1, "backend error: connection refused"), prints("")].into();
        world.after_up = Some(prints(HEALTHY));
    }
    let url = "http://127.0.0.1:18080/overlay/headscale";
    let fake = || Box::new(Fake(Rc::clone(&world)));
    let (waiter, begun) = (Rc::clone(&world), Instant::now());
    let mut refresher = Refresher::new(
        Tailscale::new(vec!["tailscale".into()], true, Vec::new(), fake()),
        fake(),
        fake(),
        // The delay after a failed heal (11 to 19 s) is real time.
        Box::new(move |time| {
            thread::sleep(time.min(Duration::from_millis(200)));
            let healed = waiter.borrow().ups.len() > 1;
            assert!(begun.elapsed() < Duration::from_mins(1), "no second heal");
            if healed && time == Duration::from_mins(1) { Wake::Stop } else { Wake::Elapsed }
        }),
        Options { control_url: Some(Url::parse(url).unwrap()), ..Options::default() },
        settings(),
        Report::new(fake()),
    );
    assert_eq!(refresher.run(), Ended::Stop);
    let world = world.borrow();
    assert_eq!(world.keys_given, ["key1", "key2"], "each heal has a fresh key");
    assert!(world.ups.iter().all(|up| flag(up, "--login-server") == Some(url)), "{:?}", world.ups);
}

fn refresher_heal(world: &Shared, options: Options) -> Result<(), Error> {
    refresher(world, options, settings()).heal()
}

#[test]
fn run_with_an_unreadable_status_never_mints() {
    let world = world(100);
    world.borrow_mut().status = [fails(1, "failed to connect to local tailscaled")].into();
    assert_eq!(refresher(&world, Options::default(), settings()).run(), Ended::Stop);
    let world = world.borrow();
    assert_eq!((world.fetches, world.ups.len()), (0, 0));
    assert_eq!(world.looks, 100);
    assert!(world.waits[1..].iter().all(|wait| *wait == Duration::from_mins(1)), "{:?}", world.waits);
}

/// Heals once with what cloudbox and the configuration say about CIDRs; gives back what is advertised.
fn advertised(fetched: &str, configured: &str, ignore: bool) -> Option<String> {
    let world = world(CALL_LIMIT);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(HEALTHY)].into();
        world.fetch = [Ok(credentials("key1", fetched))].into();
    }
    let options = Options { pod_cidr: configured.into(), ignore_credential_pod_cidr: ignore, control_url: None };
    refresher_heal(&world, options).unwrap();
    let world = world.borrow();
    let up = &world.ups[0];
    assert_eq!(flag(up, "--login-server"), Some("https://hs.example"));
    assert!(up.iter().any(|word| word == "--reset") && up.iter().any(|word| word == "--accept-routes"), "{up:?}");
    assert!(!up.iter().any(|word| word.contains("key1")), "{up:?}");
    assert_eq!(world.keys_given, ["key1"]);
    flag(up, "--advertise-routes").map(Into::into)
}

#[test]
fn heal_advertises_the_cidr() {
    assert_eq!(advertised(" 10.42.7.0/24 ", "", false).as_deref(), Some("10.42.7.0/24"));
    assert_eq!(advertised("", "", false), None);
}

#[test]
fn heal_falls_back_to_the_configured_cidr() {
    assert_eq!(advertised("", "10.9.0.0/24", false).as_deref(), Some("10.9.0.0/24"));
}

#[test]
fn heal_with_the_ignore_option_drops_the_fetched_cidr() {
    assert_eq!(advertised("10.42.7.0/24", "", true), None);
}

#[test]
fn heal_with_the_ignore_option_still_honours_the_configured_cidr() {
    assert_eq!(advertised("10.42.7.0/24", "10.9.0.0/24", true).as_deref(), Some("10.9.0.0/24"));
}

#[test]
fn heal_without_the_ignore_option_prefers_the_fetched_cidr() {
    assert_eq!(advertised("10.42.7.0/24", "10.9.0.0/24", false).as_deref(), Some("10.42.7.0/24"));
}

#[test]
fn heal_that_exits_0_without_registration_is_still_not_registered() {
    let world = world(CALL_LIMIT);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    let error = refresher_heal(&world, Options::default()).unwrap_err();
    assert!(error.to_string().contains("still not registered"), "{error}");
    assert_eq!(world.borrow().fetches, 1, "and no further key is spent on it");
}
