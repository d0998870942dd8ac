//! The `Retry-After` header (RFC 9110 10.2.3). Pure.

use std::time::Duration;

/// The longest pause that is believed: a server that says more is mistaken, or the clock is.
const MAX: Duration = Duration::from_hours(1);

/// How long to wait, at most an hour, given seconds or an HTTP date and the wall clock `now` since 1970.
/// `None` for anything else.
pub fn parse(value: &str, now: Duration) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time all the same.
        return Some(value.parse().map_or(MAX, Duration::from_secs).min(MAX));
    }
    Some(http_date(value)?.saturating_sub(now).min(MAX))
}

/// An IMF-fixdate, the only form that servers may send (RFC 9110 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Duration> {
    let mut words = text.split_once(", ")?.1.split(' ');
    let mut number = || words.next();
    let day: u64 = number()?.parse().ok()?;
    let month = number()?;
    let year: u64 = number()?.parse().ok()?;
    let mut clock = number()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if number() != Some("GMT") {
        return None;
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? as u64;
    if !(1970..=9999).contains(&year) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 by the civil calendar, with March as the first month so that a leap day comes last.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT

    fn seconds(value: &str) -> Option<u64> {
        parse(value, NOW).map(|time| time.as_secs())
    }

    #[test]
    fn seconds_are_clamped_to_an_hour() {
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds(" 30 "), Some(30));
        assert_eq!(seconds("999999999"), Some(3600));
        assert_eq!(seconds("99999999999999999999999"), Some(3600));
    }

    #[test]
    fn dates_are_counted_from_now() {
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(seconds("Wed, 21 Oct 2037 07:28:00 GMT"), Some(3600));
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        // 2024-02-29 12:00:00 is 1709208000 (date -d).
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(Duration::from_hours(474_780)));
    }

    #[test]
    fn anything_else_is_no_time() {
        for value in [
            "",
            "soon",
            "-1",
            "1.5",
            "Sun, 06 Nov 1994",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "a, b c d e f",
        ] {
            assert_eq!(seconds(value), None, "{value}");
        }
    }
}
