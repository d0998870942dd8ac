//! A stub resolver (RFC 1035) of the least kind: one question to one server over UDP, and the addresses in its answer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

/// The longest message over UDP without extensions (RFC 1035, 2.3.4).
const MAX_MESSAGE: usize = 512;

const HEADER: usize = 12;
const CLASS_IN: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// IPv4 addresses.
    A = 1,
    /// IPv6 addresses (RFC 3596).
    Aaaa = 28,
}

/// Asks `server` for the addresses of `host`, for at most `limit`.
///
/// # Errors
/// No answer in time, or none that names an address.
pub(super) fn ask(server: IpAddr, host: &str, kind: Kind, limit: Duration) -> io::Result<Vec<IpAddr>> {
    let mut id = [0; 2];
    getrandom(&mut id, GetRandomFlags::empty())?;
    let question = question(id, host, kind).ok_or(ErrorKind::InvalidInput)?;
    let unspecified: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0))?;
    // Connected: the kernel passes on only what comes from there, and says at once if nobody listens.
    socket.connect(SocketAddr::new(server, 53))?;
    socket.send(&question)?;
    let end = Instant::now() + limit;
    let mut message = [0; MAX_MESSAGE];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut message) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue, // by HUP or USR1
            received => received?,
        };
        // What answers something else may be late, or forged.
        if let Some(addresses) = addresses(&message[..length], &question) {
            return if addresses.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(addresses) };
        }
    }
}

/// The message that asks for `host`. `None`: it is no name that DNS could know.
fn question(id: [u8; 2], host: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut message = Vec::from(id);
    // Recursion is desired; one question, and nothing else.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in host.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?;
        message.push(length);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend((kind as u16).to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    (message.len() <= HEADER + 255 + 4).then_some(message)
}

/// The addresses in `message`. `None`: it is no answer to `question`.
fn addresses(message: &[u8], question: &[u8]) -> Option<Vec<IpAddr>> {
    let is_response = message.get(2)? & 0x80 != 0;
    let asked = message.get(HEADER..question.len())?;
    if message[..2] != question[..2] || !is_response || !asked.eq_ignore_ascii_case(&question[HEADER..]) {
        return None;
    }
    let mut found = Vec::new();
    let mut rest = &message[question.len()..];
    // A server that refuses, or an answer that was cut off, has no more than it has. The names of the records need not
    // be the one that was asked for: an alias comes before its addresses.
    while let Some((kind, data, after)) = record(rest) {
        match kind {
            1 => found.extend(<[u8; 4]>::try_from(data).map(IpAddr::from)),
            28 => found.extend(<[u8; 16]>::try_from(data).map(IpAddr::from)),
            _ => {}
        }
        rest = after;
    }
    Some(found)
}

/// The type and the data of the record that `bytes` begin with, and what comes after it.
fn record(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            0 => break at += 1,
            pointer @ 0xC0.. => break at += usize::from(pointer >= 0xC0) * 2,
            length => at += 1 + usize::from(length),
        }
    }
    let fixed = bytes.get(at..at + 10)?;
    let number = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let data = bytes.get(at + 10..)?.split_at_checked(number(8).into())?;
    Some((number(0), data.0, data.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "cloudbox.example";

    fn asked() -> Vec<u8> {
        question([7, 9], HOST, Kind::A).unwrap()
    }

    /// An answer to `asked` with these records, as (name, type, data).
    fn answer(records: &[(&[u8], u16, &[u8])]) -> Vec<u8> {
        let mut message = asked();
        message[2] |= 0x80;
        for (name, kind, data) in records {
            message.extend(*name);
            message.extend(kind.to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 60]);
            message.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            message.extend(*data);
        }
        message
    }

    #[test]
    fn a_question_is_as_rfc_1035_has_it() {
        let expected = b"\x07\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x08cloudbox\x07example\x00\x00\x01\x00\x01";
        assert_eq!(asked(), expected);
        assert_eq!(question([7, 9], "cloudbox.example.", Kind::A).unwrap(), expected);
        for host in ["", "a..b", &"a".repeat(64), &"abc.".repeat(70)] {
            assert!(question([0, 0], host, Kind::A).is_none(), "{host}");
        }
    }

    #[test]
    fn addresses_are_found_behind_aliases_and_pointers() {
        let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let records: [(&[u8], u16, &[u8]); 4] = [
            (b"\xc0\x0c", 5, b"\x02lb\xc0\x15"),
            (b"\x02lb\xc0\x15", 1, &[192, 0, 2, 7]),
            (b"\x02lb\x07example\x00", 28, &v6),
            (b"\xc0\x0c", 1, &[1, 2, 3]),
        ];
        let found = addresses(&answer(&records), &asked()).unwrap();
        assert_eq!(found, ["192.0.2.7".parse::<IpAddr>().unwrap(), "2001:db8::7".parse().unwrap()]);
        assert_eq!(addresses(&answer(&[]), &asked()), Some(Vec::new()));
    }

    #[test]
    fn what_answers_another_question_is_no_answer() {
        let good = answer(&[(b"\xc0\x0c", 1, &[192, 0, 2, 7])]);
        for at in [0, 1, 13] {
            let mut other = good.clone();
            other[at] ^= 0x41;
            assert_eq!(addresses(&other, &asked()), None, "byte {at}");
        }
        assert_eq!(addresses(&asked(), &asked()), None, "a question");
        // Servers may write a name as they like.
        let mut upper = good;
        upper[13] = b'C';
        assert_eq!(addresses(&upper, &asked()).unwrap().len(), 1);
    }

    #[test]
    fn whatever_comes_nothing_panics() {
        let good = answer(&[(b"\xc0\x0c", 1, &[192, 0, 2, 7]), (b"\x02lb\xc0\x15", 1, &[192, 0, 2, 8])]);
        for length in 0..good.len() {
            let _ = addresses(&good[..length], &asked());
        }
        for at in 0..good.len() {
            for byte in [0, 0x3f, 0x40, 0xbf, 0xc0, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = addresses(&bad, &asked());
            }
        }
    }
}
