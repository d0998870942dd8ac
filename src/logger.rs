//! The log: lines on standard error, or datagrams to the system's log. A sink that is dead, full or slow
//! costs a line, never the program.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};

use env_logger::{Builder, Target, WriteStyle};
use log::{Level, LevelFilter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::write;

use crate::config::LogTarget;

/// Where the system's log listens.
const DEV_LOG: &str = "/dev/log";

/// RFC 3164's facility "daemon", already in its place.
const FACILITY: u8 = 3 << 3;

/// The longest text of a line, in bytes: a pipe takes 4096 at once or not at all.
const MAX_LINE: usize = 1000;

/// The system's log is wanted; it can change at a reload.
static TO_SYSLOG: AtomicBool = AtomicBool::new(false);

/// Says what only somebody in search of a fault wants to read. log's own `debug!` is compiled out by a feature in
/// Cargo.toml, for the HTTP client's use of it, which is never shown, weighs 3 % of the binary.
macro_rules! debug {
    ($($text:tt)+) => {
        if log::max_level() >= log::Level::Debug {
            let record = &mut log::Record::builder();
            let record = record.level(log::Level::Debug).target(module_path!());
            log::logger().log(&record.args(format_args!($($text)+)).build());
        }
    };
}
pub(crate) use debug;

/// Installs the logger. Only this program's own lines are let through: those of the HTTP client could hold
/// what must not be seen.
pub fn install() {
    let logger = Builder::new()
        .filter_module("overlaykey", LevelFilter::Debug)
        .write_style(WriteStyle::Never)
        .target(Target::Pipe(Box::new(Sink)))
        .format(|line, record| {
            // The sink takes the level off again.
            write!(line, "{}{}", record.level() as usize, record.args())
        })
        .try_init();
    // A library's user has a logger already; then it is that one's.
    drop(logger);
    log::set_max_level(LevelFilter::Info);
}

/// Sets where the log goes and how much.
pub fn configure(target: LogTarget, level: LevelFilter) {
    TO_SYSLOG.store(target == LogTarget::Syslog, Ordering::Relaxed);
    log::set_max_level(level);
}

/// Takes one whole record a write: the digit of its level, and its text.
struct Sink;

impl Write for Sink {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let (level, text) = match record.split_first() {
            Some((digit, text)) => (level(*digit), String::from_utf8_lossy(&text[..text.len().min(MAX_LINE)])),
            None => return Ok(0),
        };
        let to_syslog = TO_SYSLOG.load(Ordering::Relaxed) && send_to_syslog(level, &text).is_ok();
        if !to_syslog {
            print(&io::stderr().as_fd(), &stderr_line(level, &text));
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn level(digit: u8) -> Level {
    Level::iter().find(|level| *level as u8 == digit.wrapping_sub(b'0')).unwrap_or(Level::Error)
}

/// Supervisors add a time stamp; a console shows who speaks.
fn stderr_line(level: Level, text: &str) -> String {
    let mut line = String::from("overlaykey: ");
    let _ = match level {
        Level::Info => write!(line, "{text}"),
        Level::Warn => write!(line, "warning: {text}"),
        other => write!(line, "{}: {text}", other.as_str().to_ascii_lowercase()),
    };
    line.push('\n');
    line
}

/// RFC 3164, without the time, which the daemon that receives it knows as well.
fn send_to_syslog(level: Level, text: &str) -> io::Result<()> {
    let severity = match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 5, // a change is worth a notice
        Level::Debug | Level::Trace => 7,
    };
    let datagram = format!("<{}>overlaykey[{}]: {text}", FACILITY | severity, std::process::id());
    // A socket a line: syslogd may be started again at any time, and lines are rare.
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(datagram.as_bytes(), DEV_LOG).map(drop)
}

/// Writes to a standard stream if that does not block. A reader that is gone or stuck, or a full disk, is
/// no reason to stop.
pub fn print(stream: &(impl AsFd + Copy), text: &str) {
    let _ = write_at_once(stream.as_fd(), text.as_bytes());
}

fn write_at_once(fd: BorrowedFd, bytes: &[u8]) -> io::Result<()> {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    if poll(&mut fds, Some(&Timespec::default()))? == 0 {
        return Ok(());
    }
    // Where poll sees room for a byte, a terminal or a pipe may have none for the rest, and a write would
    // wait for it. A description of our own does not, and leaves others' as it is.
    let waits = matches!(FileType::from_raw_mode(fstat(fd)?.st_mode), FileType::CharacterDevice | FileType::Fifo);
    let own = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    match waits.then(|| open(path, own, Mode::empty())) {
        Some(Ok(own)) => write(&own, bytes)?,
        _ => write(fd, bytes)?,
    };
    Ok(())
}
