//! The loop and the heal, with every outside part scripted.

use overlaykey::node::status::State;
use overlaykey::refresher::Options;

use super::*;

fn heal(world: &Shared) -> Result<(), Error> {
    refresher(world, Options::default(), settings()).heal()
}

#[test]
fn a_forgotten_node_is_healed_with_one_key() {
    let world = world(20);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(STRANDED)].into();
        world.after_up = Some(prints(HEALTHY));
        world.prefs = Some(prints(r#"{"ControlURL":"https://hs.example"}"#));
        world.membership = [Membership::Forgotten, Membership::Forgotten, Membership::Known].into();
    }
    refresher(&world, Options::default(), settings()).run();
    let world = world.borrow();
    assert_eq!(world.keys_given, ["key1"]);
    assert_eq!(world.questions, 3, "twice before, once after");
}

#[test]
fn without_an_answer_of_the_control_server_no_key_is_asked_for() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        world.prefs = Some(prints(r#"{"ControlURL":"https://hs.example"}"#));
        world.control_away = true;
    }
    assert!(matches!(heal(&world), Err(Error::ControlAway(_))));
    refresher(&world, Options::default(), settings()).run();
    assert_eq!((world.borrow().fetches, world.borrow().ups.len()), (0, 0));
}

#[test]
fn tailscales_own_server_in_fresh_preferences_is_not_asked() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        world.after_up = Some(prints(HEALTHY));
        world.prefs = Some(prints(r#"{"ControlURL":"https://controlplane.tailscale.com"}"#));
        world.control_away = true; // nor would it answer
    }
    assert!(matches!(heal(&world), Err(Error::ControlAway(why)) if why.contains("https://hs.example")));
    assert_eq!(world.borrow().fetches, 1, "it did not stand in the way of the question to cloudbox");
}

#[test]
fn a_loopback_address_inside_a_container_is_not_held_against_it() {
    let world = world(50);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().control_away = true;
    let options = || Options { control_url: Some(Url::parse("http://127.0.0.1:1/x").unwrap()), ..Options::default() };
    let fake = || Box::new(Fake(Rc::clone(&world)));
    let heal_by = |command: &[&str]| {
        let command = command.iter().map(|&word| word.into()).collect();
        Refresher::new(
            Tailscale::new(command, true, Vec::new(), fake()),
            fake(),
            fake(),
            Box::new(|_| Wake::Elapsed),
            options(),
            settings(),
            Report::new(fake()),
        )
        .heal()
    };
    assert!(matches!(heal_by(&["tailscale"]), Err(Error::ControlAway(_))));
    // The fake takes its second word for the command.
    assert!(!matches!(heal_by(&["podman", "status"]), Err(Error::ControlAway(_))));
}

#[test]
fn a_refused_key_is_followed_by_one_fresh_one() {
    let refused = fails(1, "backend error: authkey already used");
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        world.up = [refused.clone(), prints("")].into();
        world.after_up = Some(prints(HEALTHY));
    }
    heal(&world).unwrap();
    assert_eq!(world.borrow().keys_given, ["key1", "key2"]);

    let world = super::world(50);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    world.borrow_mut().up = [refused].into();
    let error = heal(&world).unwrap_err();
    assert!(error.to_string().contains("authkey already used"), "{error}");
    assert_eq!(world.borrow().keys_given.len(), 2, "but only one");
}

#[test]
fn a_refusal_that_only_the_status_shows_counts_as_well() {
    let refused = r#"{"BackendState":"Running","Self":{"Online":false,"InNetworkMap":true},"Health":["You are logged out. The last login error was: invalid pre auth key"]}"#;
    let world = world(50);
    world.borrow_mut().status = [prints(refused)].into();
    assert!(heal(&world).unwrap_err().to_string().contains("invalid pre auth key"));
    assert_eq!(world.borrow().keys_given.len(), 2);
    // … but not one that is left over from the key before.
    let world = super::world(50);
    world.borrow_mut().status = [prints(refused), prints(refused), prints(HEALTHY)].into();
    heal(&world).unwrap();
    assert_eq!(world.borrow().keys_given.len(), 1);
}

#[test]
fn another_login_server_is_forced_with_the_same_key() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(HEALTHY)].into();
        world.up = [fails(1, "can't change --login-server without --force-reauth"), prints("")].into();
    }
    heal(&world).unwrap();
    let world = world.borrow();
    assert_eq!(world.keys_given, ["key1", "key1"]);
    assert_eq!(world.fetches, 1);
    assert!(!world.ups[0].contains(&"--force-reauth".into()) && world.ups[1].contains(&"--force-reauth".into()));
}

#[test]
fn a_timeout_of_up_is_judged_by_the_looks_that_follow() {
    let timeout = fails(1, "timeout waiting for Tailscale service to enter a Running state");
    let world = world(50);
    world.borrow_mut().status = [prints(LOGGED_OUT), prints(HEALTHY)].into();
    world.borrow_mut().up = [timeout].into();
    heal(&world).unwrap();
}

#[test]
fn credentials_without_a_login_server_do_not_turn_the_node_to_another_one() {
    let world = world(50);
    world.borrow_mut().fetch = [Ok(Credentials { login_server: String::new(), ..credentials("key1", "") })].into();
    assert!(heal(&world).unwrap_err().to_string().contains("CONTROL_URL"));
    assert!(world.borrow().ups.is_empty());
}

#[test]
fn credentials_with_a_bad_cidr_never_reach_up() {
    for cidr in ["10.0.0.0/33", "nonsense", "0.0.0.0/0"] {
        let world = world(50);
        world.borrow_mut().fetch = [Ok(credentials("key1", cidr))].into();
        assert!(heal(&world).is_err(), "{cidr}");
        assert!(world.borrow().ups.is_empty(), "{cidr}");
    }
    let world = world(50);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().fetch = [Ok(credentials("key1", "192.0.2.1/24"))].into();
    heal(&world).unwrap();
    assert_eq!(flag(&world.borrow().ups[0], "--advertise-routes"), Some("192.0.2.0/24"));
}

#[test]
fn a_node_that_the_control_server_does_not_know_after_up_is_not_healed() {
    let world = world(50);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().membership = [Membership::Forgotten].into();
    assert!(heal(&world).unwrap_err().to_string().contains("does not know this node"));
}

#[test]
fn a_key_in_what_up_says_is_masked() {
    let world = world(50);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    world.borrow_mut().up = [fails(1, "no way with key1 and tskey-auth-other")].into();
    let error = heal(&world).unwrap_err().to_string();
    assert!(error.contains("no way with [secret] and [secret]"), "{error}");
}

#[test]
fn a_stopped_node_comes_up_without_a_flag_and_without_a_key() {
    let world = world(20);
    world.borrow_mut().status = [prints(r#"{"BackendState":"Stopped","Self":{"InNetworkMap":true}}"#)].into();
    world.borrow_mut().after_up = Some(prints(HEALTHY));
    refresher(&world, Options::default(), settings()).run();
    let world = world.borrow();
    assert_eq!(world.ups, [Vec::<String>::new()]);
    assert_eq!(world.fetches, 0);
}

#[test]
fn a_new_key_of_the_node_is_asked_about_before_it_is_called_unknown() {
    let world = world(50);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().membership = [Membership::Forgotten, Membership::Known].into();
    heal(&world).unwrap();
    assert_eq!(world.borrow().looks, 3, "before, after, and once more before the second question");
}

#[test]
fn what_up_said_outweighs_how_the_node_looks() {
    let world = world(50);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().up = [fails(1, "requested tags are invalid")].into();
    world.borrow_mut().membership = [Membership::Forgotten].into();
    assert!(heal(&world).unwrap_err().to_string().contains("requested tags are invalid"));
}

#[test]
fn a_node_that_waits_for_approval_is_not_waited_for() {
    let world = world(50);
    world.borrow_mut().status = [prints(r#"{"BackendState":"NeedsMachineAuth"}"#)].into();
    assert!(heal(&world).unwrap_err().to_string().contains("approval"));
    assert_eq!(world.borrow().looks, 2);
}

#[test]
fn with_a_control_url_cloudbox_need_not_know_the_login_server() {
    for named in ["", "headscale:8080", "https://other.example"] {
        let world = world(50);
        world.borrow_mut().status = [prints(HEALTHY)].into();
        world.borrow_mut().fetch = [Ok(Credentials { login_server: named.into(), ..credentials("key1", "") })].into();
        let options =
            Options { control_url: Some(Url::parse("https://hs.example/x/").unwrap()), ..Options::default() };
        refresher(&world, options, settings()).heal().unwrap();
        assert_eq!(flag(&world.borrow().ups[0], "--login-server"), Some("https://hs.example/x/"), "{named}");
    }
}

#[test]
fn every_command_has_its_limit() {
    let world = world(20);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(r#"{"BackendState":"Stopped"}"#), prints(LOGGED_OUT), prints(LOGGED_OUT)].into();
        world.up = [prints(""), prints("")].into();
    }
    refresher(&world, Options::default(), settings()).run();
    let limits = world.borrow().limits.clone();
    let of = |words: &str| {
        let found = limits.iter().find(|(command, _)| command.starts_with(words)).map(|(_, limit)| limit.as_secs());
        found.unwrap_or_else(|| panic!("no {words} in {limits:?}"))
    };
    assert_eq!(of("status --json --peers=false"), 15);
    assert_eq!(of("debug prefs"), 15);
    assert_eq!(of("up --login-server"), 120);
    assert_eq!(limits.iter().find(|(command, _)| command == "up").map(|(_, limit)| limit.as_secs()), Some(30));
}

/// A refresher whose waits end as `wakes` says, and then by themselves.
fn woken(world: &Shared, wakes: Vec<Wake>) -> Refresher {
    let fake = || Box::new(Fake(Rc::clone(world)));
    let mut wakes = wakes.into_iter();
    let waiter = Rc::clone(world);
    Refresher::new(
        Tailscale::new(vec!["tailscale".into()], true, Vec::new(), fake()),
        fake(),
        fake(),
        Box::new(move |time| {
            waiter.borrow_mut().waits.push(time);
            wakes.next().unwrap_or(Wake::Elapsed)
        }),
        Options::default(),
        settings(),
        Report::new(fake()),
    )
}

#[test]
fn a_signal_in_the_middle_of_a_heal_shortens_no_wait_and_is_not_lost() {
    let world = world(0);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    woken(&world, vec![Wake::Look, Wake::Look]).heal().unwrap_err();
    let waits = world.borrow().waits.clone();
    let second = Duration::from_millis(500)..=Duration::from_secs(1);
    assert!(waits[..3].iter().all(|wait| second.contains(wait)), "the same second is waited for: {waits:?}");

    world.borrow_mut().after_up = Some(prints(HEALTHY));
    let mut refresher = woken(&world, vec![Wake::Elapsed, Wake::Reload, Wake::Elapsed, Wake::Stop]);
    assert_eq!(refresher.run(), overlaykey::refresher::Ended::Reload);
    assert_eq!(world.borrow().status[0].stdout, HEALTHY, "the heal came to its end first");
    let mut refresher = woken(&world, vec![Wake::Elapsed, Wake::Stop]);
    assert_eq!(refresher.run(), overlaykey::refresher::Ended::Stop);
}

#[test]
fn a_check_asks_the_control_server() {
    let world = world(0);
    world.borrow_mut().status = [prints(HEALTHY)].into();
    world.borrow_mut().prefs = Some(prints(r#"{"ControlURL":"https://hs.example"}"#));
    world.borrow_mut().membership = [Membership::Forgotten].into();
    let checked = refresher(&world, Options::default(), settings()).check(true).unwrap();
    assert_eq!(checked.verdict.state, State::OutOfTouch { for_long: false });
    assert_eq!(checked.membership, Membership::Forgotten);
    let checked = refresher(&world, Options::default(), settings()).check(false).unwrap();
    assert_eq!((checked.verdict.state, checked.membership), (State::Healthy, Membership::NotAsked));
}

#[test]
fn an_address_that_did_not_prove_good_is_not_kept() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        world.up = [fails(1, "backend error: no such server"), prints("")].into();
        world.fetch = [
            Ok(Credentials { login_server: "https://wrong.example".into(), ..credentials("key1", "") }),
            Ok(credentials("key2", "")),
        ]
        .into();
        world.after_up = Some(prints(HEALTHY));
    }
    let mut refresher = refresher(&world, Options::default(), settings());
    refresher.heal().unwrap_err();
    // The wrong server is away by now, which must not stand in the way of the question to cloudbox.
    world.borrow_mut().away = vec!["https://wrong.example".into()];
    refresher.heal().unwrap();
    assert_eq!(flag(&world.borrow().ups[1], "--login-server"), Some("https://hs.example"));
}

#[test]
fn an_address_whose_server_does_not_know_the_node_is_not_kept_either() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(HEALTHY)].into();
        world.membership = [Membership::Forgotten, Membership::Forgotten, Membership::Known].into();
        let wrong = Credentials { login_server: "https://wrong.example".into(), ..credentials("key1", "") };
        world.fetch = [Ok(wrong), Ok(credentials("key2", ""))].into();
    }
    let mut refresher = refresher(&world, Options::default(), settings());
    refresher.heal().unwrap_err();
    world.borrow_mut().away = vec!["https://wrong.example".into()];
    refresher.heal().unwrap();
    assert_eq!(world.borrow().fetches, 2);
}

#[test]
fn a_server_that_cloudbox_names_must_answer_before_the_node_is_sent_there() {
    let world = world(50);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    world.borrow_mut().control_away = true;
    let error = heal(&world).unwrap_err();
    assert!(error.to_string().contains("https://hs.example"), "{error}");
    assert_eq!((world.borrow().fetches, world.borrow().ups.len()), (1, 0));
    // While it is silent no further key is asked for; once it answers the node is healed.
    let world = super::world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT)].into();
        world.control_away = true;
        world.after_up = Some(prints(HEALTHY));
    }
    let mut refresher = refresher(&world, Options::default(), settings());
    for _ in 0..20 {
        assert!(matches!(refresher.heal(), Err(Error::ControlAway(_))));
    }
    assert_eq!(world.borrow().fetches, 1);
    world.borrow_mut().control_away = false;
    refresher.heal().unwrap();
    assert_eq!(world.borrow().keys_given, ["key2"]);
}

#[test]
fn where_there_is_no_node_no_key_is_spent_by_hand() {
    let world = world(50);
    world.borrow_mut().status = [fails(1, "failed to connect to local tailscaled")].into();
    assert!(matches!(heal(&world), Err(Error::CannotTell(_))));
    assert_eq!(world.borrow().fetches, 0);
}

#[test]
fn both_spent_keys_are_masked_in_whatever_the_node_says_later() {
    let world = world(50);
    {
        let mut world = world.borrow_mut();
        world.status = [prints(LOGGED_OUT), fails(1, "weird key1 and key2")].into();
        world.up = [fails(1, "authkey expired"), prints("")].into();
    }
    let error = heal(&world).unwrap_err().to_string();
    assert!(error.contains("weird [secret] and [secret]"), "{error}");
}

#[test]
fn a_command_that_may_not_read_the_key_is_denied() {
    let world = world(50);
    world.borrow_mut().status = [prints(LOGGED_OUT)].into();
    world.borrow_mut().up = [fails(1, "open /proc/self/fd/0: permission denied")].into();
    assert!(matches!(heal(&world), Err(Error::Denied(_))));
}
