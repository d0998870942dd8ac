//! Decisions, driven by a scripted course of events on a clock of its own.

use std::time::{Duration, Instant};

use overlaykey::Error;
use overlaykey::control::Membership;
use overlaykey::node::status::{State, Verdict};
use overlaykey::policy::{Action, Policy, Seen, Settings};

const INTERVAL: Duration = Duration::from_mins(1);
const HEAL: Action = Action::Heal { second_key: true };
const HEAL_ONE_KEY: Action = Action::Heal { second_key: false };

/// A policy and its clock.
struct Course {
    policy: Policy,
    now: Instant,
    topics: Vec<String>,
}

impl Course {
    fn new(settings: Settings) -> Self {
        Self { policy: Policy::new(settings, 7), now: Instant::now(), topics: Vec::new() }
    }

    fn default() -> Self {
        Self::new(Settings { interval: INTERVAL, membership_interval: None, resume_stopped: true })
    }

    fn see(&mut self, seen: Seen) -> Action {
        let decision = self.policy.next(self.now, seen);
        if let Some(news) = decision.news {
            self.topics.push(news.topic);
        }
        decision.action
    }

    fn look(&mut self, state: State) -> Action {
        self.see(Seen::Look(Verdict { state, reason: format!("{state:?}") }))
    }

    fn hear(&mut self, membership: Membership) -> Action {
        self.see(Seen::Membership(membership))
    }

    fn fail(&mut self, error: Error) -> Action {
        self.see(Seen::Heal(Err(error)))
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Looks at what has not changed until a heal is due; says how long that took.
    fn until_heal(&mut self, state: State) -> Duration {
        let begun = self.now;
        loop {
            match self.look(state) {
                Action::Wait(time) => {
                    assert!(time <= INTERVAL, "looks go on meanwhile");
                    assert!(self.now - begun < Duration::from_hours(3), "a heal is due at some time");
                    self.pass(time.max(Duration::from_millis(1)));
                }
                Action::Heal { .. } => return self.now - begun,
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

const OUT: State = State::OutOfTouch { for_long: false };

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn unavailable() -> Error {
    Error::Unavailable("connection refused".into())
}

#[test]
fn a_healthy_node_is_looked_at_every_interval_and_told_of_once() {
    let mut course = Course::default();
    for _ in 0..3 {
        assert_eq!(course.look(State::Healthy), Action::Wait(INTERVAL));
    }
    assert!(course.topics.iter().all(|topic| topic == "healthy"), "{:?}", course.topics);
}

#[test]
fn the_membership_question_has_an_interval_of_its_own() {
    let mut course =
        Course::new(Settings { interval: INTERVAL, membership_interval: Some(secs(90)), resume_stopped: true });
    assert_eq!(course.look(State::Healthy), Action::Ask, "at first");
    assert_eq!(course.hear(Membership::Known), Action::Wait(INTERVAL));
    course.pass(INTERVAL);
    assert_eq!(course.look(State::Healthy), Action::Wait(secs(30)), "a look is due when the question is");
    course.pass(secs(30));
    assert_eq!(course.look(State::Healthy), Action::Ask);
    assert_eq!(
        course.hear(Membership::NoAnswer("x".into())),
        Action::Wait(INTERVAL),
        "a healthy node needs no answer"
    );
}

#[test]
fn a_forgotten_node_is_healed_after_a_second_answer_on_a_fresh_look() {
    for state in [OUT, State::Healthy] {
        let mut course =
            Course::new(Settings { interval: INTERVAL, membership_interval: Some(INTERVAL), resume_stopped: true });
        assert_eq!(course.look(state), Action::Ask);
        assert_eq!(course.hear(Membership::Forgotten), Action::Wait(secs(2)));
        course.pass(secs(2));
        assert_eq!(course.look(state), Action::Ask);
        assert_eq!(course.hear(Membership::Forgotten), HEAL);
    }
}

#[test]
fn one_forgetful_answer_is_not_enough() {
    let mut course = Course::default();
    course.look(OUT);
    course.hear(Membership::Forgotten);
    assert_eq!(course.look(OUT), Action::Ask);
    assert_eq!(course.hear(Membership::Known), Action::Wait(secs(10)));
    // … and a node that is about something else meanwhile is not healed on the old answer.
    course.look(OUT);
    course.hear(Membership::Forgotten);
    course.look(State::Stuck);
    course.look(OUT);
    assert_eq!(course.hear(Membership::Forgotten), Action::Wait(secs(2)));
}

#[test]
fn contact_is_waited_for_ever_more_slowly_and_without_a_key() {
    for answer in [Membership::Known, Membership::NoAnswer("refused".into())] {
        let mut course = Course::default();
        let mut waits = Vec::new();
        for _ in 0..30 {
            assert_eq!(course.look(OUT), Action::Ask);
            let Action::Wait(wait) = course.hear(answer.clone()) else { panic!("a key for nothing") };
            waits.push(wait.as_secs());
            course.pass(wait);
        }
        assert_eq!(waits[..5], [10, 20, 40, 60, 60]);
        assert_eq!(waits[29], 60);
    }
}

#[test]
fn where_it_cannot_be_asked_patience_lasts_for_a_minute_of_answers() {
    let mut course = Course::default();
    let begun = course.now;
    loop {
        assert_eq!(course.look(OUT), Action::Ask);
        match course.hear(Membership::Unsupported) {
            Action::Wait(wait) => course.pass(wait),
            action => break assert_eq!(action, HEAL),
        }
    }
    assert_eq!(course.now - begun, secs(60));
}

#[test]
fn a_server_that_comes_back_is_given_the_whole_minute() {
    let mut course = Course::default();
    for _ in 0..3 {
        course.look(OUT);
        course.hear(Membership::Unsupported);
        course.pass(secs(25));
    }
    course.look(OUT);
    course.hear(Membership::NoAnswer("refused".into()));
    course.pass(secs(60));
    course.look(OUT);
    assert!(matches!(course.hear(Membership::Unsupported), Action::Wait(_)));
}

#[test]
fn the_nodes_own_complaint_ends_patience_at_once() {
    let mut course = Course::default();
    assert_eq!(course.look(State::OutOfTouch { for_long: true }), Action::Ask);
    assert_eq!(course.hear(Membership::Unsupported), HEAL);
}

#[test]
fn a_start_has_90_seconds() {
    let mut course = Course::default();
    let begun = course.now;
    while let Action::Wait(wait) = course.look(State::Starting) {
        assert_eq!(wait, secs(5));
        course.pass(wait);
    }
    assert_eq!(course.now - begun, secs(90), "then it is out of touch, and the control server is asked");
}

#[test]
fn a_stopped_node_is_brought_up_once_and_then_healed() {
    let mut course = Course::default();
    assert_eq!(course.look(State::Stopped), Action::Resume);
    assert_eq!(course.look(State::Stopped), HEAL);
    let mut course = Course::default();
    assert_eq!(course.look(State::Stopped), Action::Resume);
    course.look(State::Healthy);
    assert_eq!(course.look(State::Stopped), Action::Resume, "each time anew");
    let mut course = Course::default();
    course.look(State::Stopped);
    assert!(matches!(course.fail(Error::Denied("Access denied".into())), Action::Wait(_)));
    for _ in 0..100 {
        course.pass(INTERVAL);
        assert_eq!(course.look(State::Stopped), Action::Wait(INTERVAL), "no key helps");
    }
}

#[test]
fn a_stopped_node_can_be_left() {
    let mut course = Course::new(Settings { interval: INTERVAL, membership_interval: None, resume_stopped: false });
    for _ in 0..3 {
        assert_eq!(course.look(State::Stopped), Action::Wait(INTERVAL));
    }
}

#[test]
fn no_evidence_no_deed() {
    let mut course = Course::default();
    for _ in 0..90 {
        assert_eq!(course.look(State::CannotTell), Action::Wait(INTERVAL));
    }
    course.topics.dedup();
    assert_eq!(course.topics.len(), 3, "told the first time and then every 30th: {:?}", course.topics);
    assert_eq!(course.look(State::Stuck), Action::Wait(INTERVAL));
}

#[test]
fn delays_between_failed_heals_double_to_a_quarter_of_an_hour() {
    let mut course = Course::default();
    assert_eq!(course.look(State::Unregistered), HEAL, "at once at first");
    for expected in [15, 30, 60, 120, 240, 480, 900, 900] {
        course.fail(unavailable());
        let delay = course.until_heal(State::Unregistered).as_secs_f64() / f64::from(expected);
        assert!((0.74..=1.26).contains(&delay), "{delay} of {expected} s");
    }
    assert_eq!(course.look(State::Unregistered), HEAL_ONE_KEY, "the second key at once is for the first heal");
}

#[test]
fn cloudbox_can_ask_for_more_time() {
    let mut course = Course::default();
    course.look(State::Unregistered);
    course.fail(Error::Throttled { retry_after: Some(secs(600)) });
    assert!(course.until_heal(State::Unregistered) >= secs(600));
    course.fail(Error::Throttled { retry_after: Some(secs(0)) });
    let delay = course.until_heal(State::Unregistered);
    assert!((secs(20)..secs(60)).contains(&delay), "never less than the delay: {delay:?}");
}

#[test]
fn where_a_human_must_act_delays_grow_to_an_hour() {
    for error in
        [|| Error::Refused { status: 401 }, || Error::OverlayDisabled { from_cloudbox: true, retry_after: None }]
    {
        let mut course = Course::default();
        course.look(State::Unregistered);
        let mut delay = Duration::ZERO;
        for _ in 0..12 {
            course.fail(error());
            delay = course.until_heal(State::Unregistered);
        }
        assert!((secs(2700)..=secs(4560)).contains(&delay), "{delay:?}");
    }
}

#[test]
fn a_503_is_called_disabled_only_when_it_lasts_or_cloudbox_says_so() {
    let told = |from_cloudbox, minutes: u64| {
        let mut course = Course::default();
        course.look(State::Unregistered);
        course.fail(Error::OverlayDisabled { from_cloudbox, retry_after: None });
        course.pass(secs(60 * minutes));
        course.fail(Error::OverlayDisabled { from_cloudbox, retry_after: None });
        course.topics.last().unwrap().contains("not enabled")
    };
    assert!(!told(false, 1));
    assert!(told(false, 5));
    assert!(told(true, 0));
}

#[test]
fn a_control_server_that_is_away_is_no_failed_heal() {
    let mut course = Course::default();
    assert_eq!(course.look(State::Unregistered), HEAL);
    for wait in [10, 20, 40, 60, 60] {
        assert_eq!(course.fail(Error::ControlAway("refused".into())), Action::Wait(secs(wait)));
        course.pass(secs(wait));
        assert_eq!(course.look(State::Unregistered), HEAL, "and the second key is still allowed");
    }
}

#[test]
fn an_unset_clock_is_looked_at_every_10_seconds() {
    let mut course = Course::default();
    for _ in 0..20 {
        assert_eq!(course.look(State::Unregistered), HEAL);
        assert_eq!(course.fail(Error::ClockNotSet), Action::Wait(secs(10)));
        course.pass(secs(10));
    }
}

#[test]
fn what_was_denied_is_not_tried_again_until_something_changes() {
    let mut course = Course::default();
    course.look(State::Unregistered);
    course.fail(Error::Denied("Access denied: checkprefs access denied".into()));
    for _ in 0..300 {
        course.pass(INTERVAL);
        assert_eq!(course.look(State::Unregistered), Action::Wait(INTERVAL));
        assert_eq!(course.look(State::CannotTell), Action::Wait(INTERVAL), "which is no change of the node");
    }
    course.look(State::Healthy);
    assert_eq!(course.look(State::Unregistered), HEAL_ONE_KEY, "the last heal failed");
    // The same where only the control server's word is against the node.
    let mut course = Course::default();
    for _ in 0..2 {
        course.look(OUT);
        course.hear(Membership::Forgotten);
    }
    course.fail(Error::Denied("Access denied".into()));
    for _ in 0..300 {
        course.pass(INTERVAL);
        course.look(OUT);
        assert!(matches!(course.hear(Membership::Forgotten), Action::Wait(_)));
    }
}

#[test]
fn a_flapping_node_is_healed_ever_more_slowly_and_a_sound_one_at_once() {
    let mut course = Course::default();
    let mut delays = Vec::new();
    for _ in 0..12 {
        delays.push(course.until_heal(State::Unregistered));
        course.see(Seen::Heal(Ok(())));
        course.pass(secs(1));
    }
    assert!(delays[0].is_zero() && delays[1] < secs(5), "{delays:?}");
    assert!(delays[11] > secs(600), "{delays:?}");
    assert!(course.until_heal(State::Unregistered) > Duration::ZERO);
    assert_eq!(
        course.look(State::Unregistered),
        HEAL,
        "where the last heal took, a refused key may be followed by another"
    );
    for _ in 0..11 {
        course.look(State::Healthy);
        course.pass(INTERVAL);
    }
    course.look(State::Healthy);
    assert_eq!(course.look(State::Unregistered), HEAL, "forgotten after 10 minutes of health");
}

#[test]
fn a_fleet_does_not_come_at_once() {
    let delays: Vec<Duration> = (1..20)
        .map(|seed| {
            let settings = Settings { interval: INTERVAL, membership_interval: None, resume_stopped: true };
            let mut course = Course::new(settings.clone());
            course.policy = Policy::new(settings, seed);
            course.look(State::Unregistered);
            course.fail(unavailable());
            course.until_heal(State::Unregistered)
        })
        .collect();
    let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(*most > *least + secs(2), "{delays:?}");
}

#[test]
fn what_goes_on_failing_is_told_once() {
    let errors: [fn() -> Error; 4] = [
        || Error::ControlAway("connection refused".into()),
        || Error::ClockNotSet,
        || Error::Refused { status: 401 },
        unavailable,
    ];
    for state in [State::Unregistered, OUT, State::Healthy] {
        for error in errors {
            let mut course = Course::new(Settings {
                interval: INTERVAL,
                membership_interval: Some(INTERVAL),
                resume_stopped: true,
            });
            for _ in 0..20 {
                let mut action = course.look(state);
                while action == Action::Ask {
                    action = course.hear(Membership::Forgotten);
                }
                if let Action::Heal { .. } = action {
                    action = course.fail(error());
                }
                let Action::Wait(wait) = action else { panic!("unexpected {action:?}") };
                course.pass(wait);
            }
            course.topics.dedup();
            assert_eq!(course.topics.len(), 2, "{state:?}, {}: {:?}", error(), course.topics);
        }
    }
}

#[test]
fn a_node_that_is_forgotten_behind_a_live_connection_is_healed_ever_more_slowly_too() {
    let settings = Settings { interval: INTERVAL, membership_interval: Some(INTERVAL), resume_stopped: true };
    // An hour of health, and then cloudbox asks for an hour of peace.
    let mut course = Course::new(settings.clone());
    for _ in 0..60 {
        assert_eq!(course.look(State::Healthy), Action::Ask);
        course.hear(Membership::Known);
        course.pass(INTERVAL);
    }
    let mut heals = 0;
    for _ in 0..55 {
        let mut action = course.look(State::Healthy);
        while action == Action::Ask {
            action = course.hear(Membership::Forgotten);
        }
        if let Action::Heal { .. } = action {
            heals += 1;
            course.fail(Error::Throttled { retry_after: Some(Duration::from_hours(1)) });
        }
        course.pass(INTERVAL);
    }
    assert_eq!(heals, 1);
    // Healed each time, and forgotten again each time.
    let mut course = Course::new(settings);
    let (begun, mut heals) = (course.now, 0);
    while course.now < begun + Duration::from_hours(1) {
        let mut action = course.look(State::Healthy);
        while action == Action::Ask {
            action = course.hear(Membership::Forgotten);
        }
        if let Action::Heal { .. } = action {
            heals += 1;
            action = course.see(Seen::Heal(Ok(())));
        }
        let Action::Wait(wait) = action else { panic!("unexpected {action:?}") };
        course.pass(wait);
    }
    assert!(heals < 15, "{heals} keys in an hour");
}

#[test]
fn a_node_that_waits_for_its_turn_is_told_of() {
    let mut course = Course::default();
    for _ in 0..4 {
        course.until_heal(State::Unregistered);
        course.see(Seen::Heal(Ok(())));
    }
    assert!(matches!(course.look(State::Unregistered), Action::Wait(_)));
    assert_eq!(course.topics.last().map(String::as_str), Some("unregistered"));
}

#[test]
fn somebody_who_wants_a_look_now_need_not_wait_for_what_cost_nothing() {
    let mut course = Course::default();
    course.look(State::Unregistered);
    course.fail(unavailable());
    assert!(matches!(course.look(State::Unregistered), Action::Wait(_)));
    course.policy.hurry(course.now);
    assert!(matches!(course.look(State::Unregistered), Action::Wait(_)), "signals come in bursts");
    course.pass(secs(5));
    assert_eq!(course.look(State::Unregistered), HEAL_ONE_KEY);
    for error in
        [Error::NotRegistered("x".into()), Error::Unusable("x".into()), Error::Throttled { retry_after: None }]
    {
        course.fail(error);
        course.policy.hurry(course.now);
        course.pass(secs(5));
        assert!(matches!(course.look(State::Unregistered), Action::Wait(_)));
        course.until_heal(State::Unregistered);
    }
}

#[test]
fn a_503_can_ask_for_more_time() {
    let mut course = Course::default();
    course.look(State::Unregistered);
    course.fail(Error::OverlayDisabled { from_cloudbox: false, retry_after: Some(secs(600)) });
    assert!(course.until_heal(State::Unregistered) >= secs(600));
}

#[test]
fn patience_starts_anew_after_a_look_that_showed_nothing() {
    let mut course = Course::default();
    for _ in 0..3 {
        course.look(OUT);
        course.hear(Membership::Unsupported);
        course.pass(secs(25));
    }
    course.look(State::CannotTell);
    course.look(OUT);
    assert!(matches!(course.hear(Membership::Unsupported), Action::Wait(_)));
}

#[test]
fn a_reload_keeps_delays_unless_the_configuration_changed() {
    for changed in [false, true] {
        let settings = Settings { interval: INTERVAL, membership_interval: None, resume_stopped: true };
        let mut course = Course::new(settings.clone());
        course.look(State::Unregistered);
        course.fail(Error::NotRegistered("x".into()));
        let before = std::mem::replace(&mut course.policy, Policy::new(settings.clone(), 9));
        course.policy.take_over(before, course.now, changed);
        assert_eq!(matches!(course.look(State::Unregistered), Action::Heal { .. }), changed);
        course.fail(Error::Denied("x".into()));
        let before = std::mem::replace(&mut course.policy, Policy::new(settings.clone(), 9));
        course.policy.take_over(before, course.now, false);
        let delay = course.until_heal(State::Unregistered);
        assert_eq!(delay, secs(5), "whoever reloads may have put it right");
    }
}

#[test]
fn a_denied_up_of_a_stopped_node_is_tried_again_as_it_was_after_a_reload() {
    let mut course = Course::default();
    assert_eq!(course.look(State::Stopped), Action::Resume);
    course.fail(Error::Denied("Access denied".into()));
    let settings = Settings { interval: INTERVAL, membership_interval: None, resume_stopped: true };
    let before = std::mem::replace(&mut course.policy, Policy::new(settings, 9));
    course.policy.take_over(before, course.now, false);
    course.pass(secs(5));
    assert_eq!(course.look(State::Stopped), Action::Resume, "and not with a key and --reset");
}

#[test]
fn what_is_told_follows_the_node_while_heals_wait() {
    for error in [|| Error::Denied("Access denied".into()), || Error::Refused { status: 401 }] {
        for between in [State::CannotTell, State::Starting, OUT] {
            let mut course = Course::default();
            course.look(State::Unregistered);
            course.fail(error());
            course.look(between);
            let told = course.topics.len();
            course.look(State::Unregistered);
            assert_eq!(course.topics.len(), told + 1, "after {between:?}: {:?}", course.topics);
            course.look(State::Unregistered);
            course.topics.dedup();
            assert_eq!(course.topics.len(), told + 1, "but once: {:?}", course.topics);
        }
    }
}

#[test]
fn silence_does_not_take_back_that_a_node_is_forgotten() {
    let settings = Settings { interval: INTERVAL, membership_interval: Some(secs(600)), resume_stopped: true };
    let mut course = Course::new(settings);
    assert_eq!(course.look(State::Healthy), Action::Ask);
    course.hear(Membership::Forgotten);
    course.look(State::Healthy);
    assert_eq!(course.hear(Membership::NoAnswer("status 500".into())), Action::Wait(secs(10)));
    assert!(!course.topics.contains(&"healthy".into()), "{:?}", course.topics);
    course.pass(secs(10));
    assert_eq!(course.look(State::Healthy), Action::Ask);
    assert_eq!(course.hear(Membership::Forgotten), HEAL);
}

#[test]
fn health_is_counted_anew_after_the_control_server_said_no() {
    let settings = Settings { interval: INTERVAL, membership_interval: Some(INTERVAL), resume_stopped: true };
    let mut course = Course::new(settings);
    for _ in 0..9 {
        course.look(State::Healthy);
        course.hear(Membership::Known);
        course.pass(INTERVAL);
    }
    for _ in 0..2 {
        course.look(State::Healthy);
        course.hear(Membership::Forgotten);
    }
    course.fail(Error::Throttled { retry_after: Some(secs(1800)) });
    for _ in 0..3 {
        course.pass(INTERVAL);
        course.look(State::Healthy);
        course.hear(Membership::Known);
    }
    assert!(course.until_heal(State::Unregistered) > secs(1000), "12 minutes of health, but not in a row");
}
