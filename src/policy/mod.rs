//! From what was seen to what is done next, and when. Pure: it is told the time, and does nothing.

mod backoff;
mod decision;

use std::time::{Duration, Instant};

use self::backoff::Backoff;
pub use self::decision::{Action, DEFAULT_INTERVAL, Decision, News, Seen, Settings};
use crate::control::Membership;
use crate::error::Error;
use crate::node::status::{State, Verdict};

/// How often a node that is starting is looked at.
const STARTING_LOOK: Duration = Duration::from_secs(5);

/// A start that takes longer than this is taken for lost contact; 90 s are normal on a small board.
const STARTING_LIMIT: Duration = Duration::from_secs(90);

/// A control server that has forgotten a node is asked again after this: one that is just starting may
/// not have read its database yet.
const CONFIRM: Duration = Duration::from_secs(2);

/// The first wait for contact to come back by itself; doubles up to the interval.
const CONTACT_LOOK: Duration = Duration::from_secs(10);

/// How long a node may be out of touch with a control server that answers but cannot be asked about it.
/// The client's own retry backs off to 30 s.
const PATIENCE: Duration = Duration::from_mins(1);

/// The longest delay where only a human can help.
const MAX_BACKOFF_HUMAN: Duration = Duration::from_hours(1);

/// Health of this duration makes the delays forgotten. Before, a node that loses its registration again
/// and again (a cloned identity, two tools at war) is healed ever more slowly.
const SOUND: Duration = Duration::from_mins(10);

/// cloudbox answering 503 for this long is no deploy.
const DISABLED_AFTER: Duration = Duration::from_mins(5);

/// How often an unset clock is looked at.
const CLOCK_LOOK: Duration = Duration::from_secs(10);

/// Every so many looks in a row without an answer there is a warning.
const UNREADABLE_WARNING: u32 = 30;

/// The state that decisions depend on.
pub struct Policy {
    settings: Settings,
    /// What the last look showed.
    look: Verdict,
    /// What the node is taken for: the same, unless the control server knows better.
    verdict: Verdict,
    healthy_since: Option<Instant>,
    starting_since: Option<Instant>,
    /// Since when the node has been out of touch while the control server answered.
    out_since: Option<Instant>,
    /// When the control server was last asked.
    asked: Option<Instant>,
    /// The control server has said that it does not know the node.
    forgotten: bool,
    /// This stopped node has been brought up once already.
    resumed: bool,
    /// What the node looked like when `up` was denied: no key is minted until that changes.
    denied: Option<Verdict>,
    /// Heals are under way that do not take: what was told of that is not told again with each attempt.
    troubled: bool,
    unreadable: u32,
    disabled_since: Option<Instant>,
    contact_wait: Duration,
    backoff: Backoff,
}

impl Policy {
    /// A policy that has seen nothing. `seed` is for the jitter of delays.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let contact_wait = CONTACT_LOOK.min(settings.interval);
        let unseen = Verdict { state: State::CannotTell, reason: String::new() };
        Self {
            settings,
            look: unseen.clone(),
            verdict: unseen,
            healthy_since: None,
            starting_since: None,
            out_since: None,
            asked: None,
            forgotten: false,
            resumed: false,
            denied: None,
            troubled: false,
            unreadable: 0,
            disabled_since: None,
            contact_wait,
            backoff: Backoff::new(seed),
        }
    }

    /// Decides.
    pub fn next(&mut self, now: Instant, seen: Seen) -> Decision {
        match seen {
            Seen::Look(verdict) => self.after_look(now, verdict),
            Seen::Membership(membership) => self.after_question(now, membership),
            Seen::Heal(Ok(())) => self.after_heal(now),
            Seen::Heal(Err(error)) => self.after_failed_heal(now, &error),
        }
    }

    fn after_look(&mut self, now: Instant, verdict: Verdict) -> Decision {
        self.remember(now, &verdict);
        // What was told of a heal that does not take is out of date once the node has been something else.
        self.troubled &= verdict.state == self.look.state;
        self.look = verdict.clone();
        self.verdict = verdict;
        let interval = self.settings.interval;
        match self.verdict.state {
            State::Healthy if self.forgotten || self.question_due(now) => Decision::silent(Action::Ask),
            State::Healthy => self.healthy(now),
            State::Starting if !passed(self.starting_since, now, STARTING_LIMIT) => {
                self.tell(Action::Wait(STARTING_LOOK.min(interval)), "starting", "waiting")
            }
            State::Starting | State::OutOfTouch { .. } => Decision::silent(Action::Ask),
            State::Unregistered => self.heal(now, "unregistered", "registering it again"),
            State::Stopped if !self.settings.resume_stopped => {
                self.tell(Action::Wait(interval), "stopped", "left so (STOPPED=leave)")
            }
            State::Stopped if self.resumed => {
                self.heal(now, "still-stopped", "tailscale up did not help, registering it again")
            }
            State::Stopped if self.denied.is_some() => self.denied(),
            State::Stopped => {
                self.resumed = true;
                self.tell(Action::Resume, "stopped", "bringing it up again")
            }
            State::Stuck => self.tell(Action::Wait(interval), "stuck", "no key helps, waiting for somebody"),
            State::CannotTell => {
                // The first one, and then every 30th, is a topic of its own.
                let topic = format!("cannot-tell {}", self.unreadable / UNREADABLE_WARNING);
                self.unreadable += 1;
                self.tell(Action::Wait(interval), &topic, "nothing is done")
            }
        }
    }

    /// Keeps what depends on how long something has lasted.
    fn remember(&mut self, now: Instant, verdict: &Verdict) {
        let state = verdict.state;
        if state == State::CannotTell {
            // No evidence, neither of health nor of illness; but contact was not seen to be lost all the while.
            self.out_since = None;
            return;
        }
        self.unreadable = 0;
        self.starting_since = (state == State::Starting).then(|| self.starting_since.unwrap_or(now));
        if state == State::Healthy {
            self.contact_wait = CONTACT_LOOK.min(self.settings.interval);
        } else {
            self.healthy_since = None;
        }
        if !matches!(state, State::OutOfTouch { .. } | State::Starting) {
            self.out_since = None;
        }
        if matches!(state, State::Unregistered | State::Stopped | State::Stuck) {
            self.forgotten = false;
        }
        if state != State::Stopped {
            self.resumed = false;
        }
        if self.denied.as_ref().is_some_and(|denied| denied != verdict) {
            self.denied = None;
        }
    }

    fn question_due(&self, now: Instant) -> bool {
        self.settings.membership_interval.is_some_and(|every| self.asked.is_none_or(|asked| now >= asked + every))
    }

    /// The node is healthy, and the control server has not said otherwise.
    fn healthy(&mut self, now: Instant) -> Decision {
        self.troubled = false;
        let since = *self.healthy_since.get_or_insert(now);
        if now >= since + SOUND {
            self.backoff.forget();
        }
        let until_question = self
            .settings
            .membership_interval
            .zip(self.asked)
            .map(|(every, asked)| (asked + every).saturating_duration_since(now));
        let wait = self.settings.interval.min(until_question.unwrap_or(Duration::MAX));
        Decision { action: Action::Wait(wait), news: Some(self.news("healthy", "")) }
    }

    fn after_question(&mut self, now: Instant, membership: Membership) -> Decision {
        self.asked = Some(now);
        if membership == Membership::Forgotten {
            self.healthy_since = None;
            if self.forgotten {
                self.verdict = Verdict::forgotten();
                return self.heal(now, "forgotten", "registering it again");
            }
            self.forgotten = true;
            return Decision::silent(Action::Wait(CONFIRM));
        }
        if self.forgotten && matches!(membership, Membership::NoAnswer(_)) {
            // Silence does not take back what was said.
            self.verdict = Verdict::forgotten();
        } else {
            self.forgotten = false;
            if self.verdict.state == State::Healthy {
                return self.healthy(now);
            }
        }
        match membership {
            Membership::Unsupported | Membership::NotAsked => {
                let since = *self.out_since.get_or_insert(now);
                let left = (since + PATIENCE).saturating_duration_since(now);
                if left.is_zero() || self.verdict.state == (State::OutOfTouch { for_long: true }) {
                    return self.heal(now, "out-of-patience", "registering it again");
                }
                let wait = self.contact_wait().min(left);
                self.tell(Action::Wait(wait), "unsupported", "the control server cannot be asked about it, waiting")
            }
            Membership::NoAnswer(why) => {
                self.out_since = None;
                let wait = Action::Wait(self.contact_wait());
                self.tell(wait, "no-answer", &format!("the control server does not answer ({why}), waiting"))
            }
            Membership::Known | Membership::Forgotten => {
                self.out_since = None;
                let wait = Action::Wait(self.contact_wait());
                self.tell(wait, "known", "the control server knows it, waiting")
            }
        }
    }

    /// The next wait for contact to come back by itself.
    fn contact_wait(&mut self) -> Duration {
        let wait = self.contact_wait;
        self.contact_wait = (wait * 2).min(self.settings.interval);
        wait
    }

    /// Heals, if it may be now.
    fn heal(&mut self, now: Instant, topic: &str, plan: &str) -> Decision {
        if self.denied.is_some() {
            return self.denied();
        }
        let left = self.backoff.left(now);
        let wait = Action::Wait(left.min(self.settings.interval));
        let (action, plan) = match (left.is_zero(), self.backoff.is_failing()) {
            (true, failing) => (Action::Heal { second_key: !failing }, plan),
            (false, true) => (wait, "the last attempt to register it failed, waiting before the next"),
            (false, false) => (wait, "it was registered a short while ago, waiting before that is done again"),
        };
        if self.troubled { Decision::silent(action) } else { self.tell(action, topic, plan) }
    }

    /// No key is spent until something changes.
    fn denied(&self) -> Decision {
        let wait = Action::Wait(self.settings.interval);
        if self.troubled {
            Decision::silent(wait)
        } else {
            self.tell(wait, "denied", "tailscale up was denied, waiting until something changes")
        }
    }

    fn after_heal(&mut self, now: Instant) -> Decision {
        self.backoff.succeeded(now);
        self.disabled_since = None;
        self.forgotten = false;
        self.asked = Some(now);
        let verdict = Verdict { state: State::Healthy, reason: "registered again".into() };
        self.remember(now, &verdict);
        self.verdict = verdict;
        self.healthy_since = None;
        self.healthy(now)
    }

    fn after_failed_heal(&mut self, now: Instant, error: &Error) -> Decision {
        self.troubled = true;
        match error {
            Error::ControlAway(_) => {
                self.out_since = None;
                let wait = Action::Wait(self.contact_wait());
                return self.tell(wait, "no-answer", &format!("{error}, waiting"));
            }
            Error::ClockNotSet => {
                return self.tell(Action::Wait(CLOCK_LOOK), "clock", "the clock is not set, waiting for that");
            }
            _ => {}
        }
        if matches!(error, Error::OverlayDisabled { .. }) {
            self.disabled_since.get_or_insert(now);
        } else {
            self.disabled_since = None;
        }
        let (longest, asked_for) = match error {
            Error::Throttled { retry_after } => (backoff::MAX, *retry_after),
            Error::OverlayDisabled { retry_after, .. } => (MAX_BACKOFF_HUMAN, *retry_after),
            Error::Refused { .. } => (MAX_BACKOFF_HUMAN, None),
            Error::Denied(_) => {
                self.denied = Some(self.look.clone());
                (MAX_BACKOFF_HUMAN, None)
            }
            _ => (backoff::MAX, None),
        };
        // What was in the way of these may be gone, or put right by somebody, at any time.
        let may_hurry =
            matches!(error, Error::Invalid(_) | Error::Unavailable(_) | Error::Refused { .. } | Error::Denied(_));
        self.backoff.failed(now, longest, asked_for.unwrap_or_default(), may_hurry);
        let left = self.backoff.left(now);
        let what = match error {
            // One 503 is what any proxy says during a deploy; after a while it means what it says.
            Error::OverlayDisabled { retry_after, .. } if passed(self.disabled_since, now, DISABLED_AFTER) => {
                Error::OverlayDisabled { from_cloudbox: true, retry_after: *retry_after }.to_string()
            }
            other => other.to_string(),
        };
        let mut decision = self.tell(Action::Wait(left.min(self.settings.interval)), &what, &what);
        if let (Some(news), None) = (&mut decision.news, &self.denied) {
            news.next_attempt = Some(left);
        }
        decision
    }

    /// Somebody wants a look now: what was waited for may be there.
    pub fn hurry(&mut self, now: Instant) {
        self.backoff.hurry(now);
    }

    /// Goes on where `before` left off, by its own settings. If the configuration has `changed`, the next
    /// heal need not wait.
    pub fn take_over(&mut self, before: Self, now: Instant, changed: bool) {
        let settings = self.settings.clone();
        let contact_wait = self.contact_wait;
        // Whatever `up` was denied for, whoever reloads may have put it right.
        let resumed = before.resumed && before.denied.is_none();
        *self = Self { settings, contact_wait, resumed, denied: None, ..before };
        if changed {
            self.backoff.wait_no_more();
        } else {
            self.backoff.hurry(now);
        }
    }

    fn tell(&self, action: Action, topic: &str, plan: &str) -> Decision {
        Decision { action, news: Some(self.news(topic, plan)) }
    }

    fn news(&self, topic: &str, plan: &str) -> News {
        let reason = &self.verdict.reason;
        let text = if plan.is_empty() { reason.clone() } else { format!("{reason}: {plan}") };
        News { state: self.verdict.state, topic: topic.into(), text, next_attempt: None }
    }
}

fn passed(since: Option<Instant>, now: Instant, limit: Duration) -> bool {
    since.is_some_and(|since| now >= since + limit)
}
