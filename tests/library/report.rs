//! When what is told is told.

use std::cell::RefCell;
use std::sync::Once;
use std::time::{Duration, Instant};

use log::{LevelFilter, Log, Metadata, Record};
use overlaykey::node::status::State;
use overlaykey::policy::News;
use overlaykey::report::Report;

use super::{Fake, world};

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps each thread's lines apart, as each test has a thread of its own.
struct Capture;

impl Log for Capture {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        LINES.with_borrow_mut(|lines| lines.push(format!("{} {}", record.level(), record.args())));
    }

    fn flush(&self) {}
}

fn lines() -> Vec<String> {
    LINES.with_borrow_mut(std::mem::take)
}

fn news(state: State, topic: &str) -> News {
    let next_attempt = Some(Duration::from_secs(15));
    News { state, topic: topic.into(), text: format!("about {topic}"), next_attempt }
}

#[test]
fn what_is_wrong_is_told_once_and_then_hourly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Capture).expect("the only logger");
        log::set_max_level(LevelFilter::Info);
    });
    let mut report = Report::new(Box::new(Fake(world(0))));
    let mut now = Instant::now();
    report.tell(now, Some(news(State::Unregistered, "a")), None);
    assert_eq!(lines(), ["WARN unregistered: about a, next attempt in 15 s"]);
    for _ in 0..59 {
        now += Duration::from_mins(1);
        report.tell(now, Some(news(State::Unregistered, "a")), None);
        report.tell(now, None, None);
    }
    assert_eq!(lines(), [""; 0]);
    for _ in 0..120 {
        now += Duration::from_mins(1);
        report.tell(now, None, None);
    }
    assert_eq!(lines(), ["WARN still unregistered: about a"; 2]);
    report.tell(now, Some(news(State::Unregistered, "b")), None);
    report.tell(now, Some(news(State::Healthy, "b")), None);
    assert_eq!(lines(), ["WARN unregistered: about b, next attempt in 15 s", "INFO healthy: about b"]);
    for _ in 0..600 {
        now += Duration::from_mins(1);
        report.tell(now, Some(news(State::Healthy, "b")), None);
    }
    assert_eq!(lines(), [""; 0], "silence while all is well");
}
