//! What the kernel says about processes.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// One process as /proc/PID/stat has it.
struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may hold anything, blanks and parentheses included.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}

/// Whether it runs. A zombie that waits for an idle reaper does not.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Ends a process, if it is still the one whose command line holds `words`: its number may have gone to somebody else.
pub fn end(pid: u32, words: &str) {
    if file(pid, "cmdline").contains(words) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The children of a process, zombies included: those are what a careless parent leaves behind.
pub fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}

/// How many threads it has.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// What its descriptors point to.
pub fn descriptors(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("the descriptors of a running process");
    entries.filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.display().to_string())).collect()
}

/// A file of /proc/PID, as text.
pub fn file(pid: u32, name: &str) -> String {
    let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Its memory right now, in KiB.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
