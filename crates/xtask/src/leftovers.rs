//! Ends the processes that a job leaves behind.
//!
//! A chromedriver that is killed leaves its browser running, and a failing test may kill its driver. Such a browser has
//! no parent that knows of it and may have its own session. So a job marks the environment of everything that it
//! starts; children inherit the mark, and on Linux marked processes can be found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

pub const VARIABLE: &str = "UNMASK_JOB";

/// Whether the marked processes and this one are being ended.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, PartialEq, Eq)]
pub struct Marked {
    id: i32,
    name: String,
}

/// A mark that no other process on this machine has.
pub fn new_mark() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

/// Number of lanes in which steps run beside another.
pub const LANES_ASIDE: usize = 2;

/// The mark of what runs in a lane beside a job.
pub fn aside(mark: &str, lane: usize) -> String {
    format!("{mark}-aside-{lane}")
}

/// Ends the marked processes and prints their names, because a job should leave none behind. Never returns if the job
/// was interrupted.
pub fn end_and_say(mark: &str) {
    say(end(mark));
    wait_if_interrupted();
}

/// Returns immediately; never, if the job was interrupted: its processes are being ended, and it must start no others.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

fn say(ended: Vec<Marked>) {
    let mut names: Vec<String> = ended.into_iter().map(|process| process.name).collect();
    names.sort_unstable();
    if !names.is_empty() {
        eprintln!("Ended leftover processes: {}", names.join(", "));
    }
}

/// Ends the marked processes, and those [`aside`], when this process is interrupted (Ctrl-C) or terminated.
///
/// # Errors
/// Signals already have a handler.
pub fn end_when_interrupted(mark: &str) -> Result<()> {
    let mark = mark.to_owned();
    let handler = move || {
        INTERRUPTED.store(true, Ordering::SeqCst);
        say(end(&mark));
        (0..LANES_ASIDE).for_each(|lane| say(end(&aside(&mark, lane))));
        // The exit code that a shell reports for an interrupted process.
        std::process::exit(130);
    };
    ctrlc::set_handler(handler).context("Ctrl-C cannot be handled")
}

#[cfg(not(target_os = "linux"))]
fn end(_: &str) -> Vec<Marked> {
    Vec::new()
}

#[cfg(target_os = "linux")]
use self::linux::end;
#[cfg(all(target_os = "linux", test))]
pub use self::linux::marked;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::{Marked, VARIABLE};

    /// Time for a process to end on its own and remove its temporary files; then it is killed.
    const POLITE: Duration = Duration::from_secs(3);
    /// Longest wait for processes to end.
    const PATIENCE: Duration = Duration::from_secs(8);

    /// All marked processes of this user, except this one.
    pub fn marked(mark: &str) -> Vec<Marked> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let wanted = format!("{VARIABLE}={mark}");
        entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let id: i32 = entry.file_name().to_str()?.parse().ok()?;
                bears(&entry.path(), &wanted).then(|| Marked { id, name: name(&entry.path()) })
            })
            .filter(|process| process.id.unsigned_abs() != std::process::id())
            .collect()
    }

    /// Ends the marked processes and returns them.
    pub fn end(mark: &str) -> Vec<Marked> {
        let begun = Instant::now();
        let mut ended: Vec<Marked> = Vec::new();
        loop {
            let left = marked(mark);
            if left.is_empty() || begun.elapsed() > PATIENCE {
                return ended;
            }
            let signal = if begun.elapsed() < POLITE { Signal::SIGTERM } else { Signal::SIGKILL };
            for process in left {
                // It may have ended in between.
                let _ = kill(Pid::from_raw(process.id), signal);
                if !ended.contains(&process) {
                    ended.push(process);
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// A zombie process no longer has an environment.
    fn bears(process: &Path, wanted: &str) -> bool {
        fs::read(process.join("environ"))
            .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes()))
    }

    fn name(process: &Path) -> String {
        fs::read_to_string(process.join("comm"))
            .map_or_else(|_| "a process".to_owned(), |name| name.trim_end().to_owned())
    }

    #[cfg(test)]
    mod tests {
        use std::process::Command;

        use super::super::new_mark;
        use super::*;

        /// Three processes: one with its own session, one that ignores SIGTERM, and one without a mark.
        #[test]
        fn only_what_bears_the_mark_is_ended() {
            let mark = new_mark();
            let mut other = Command::new("sleep").arg("600").env_remove(VARIABLE).spawn().unwrap();
            let script = "setsid sleep 600 & (trap '' TERM; sleep 600) & exit 0";
            Command::new("sh").args(["-c", script]).env(VARIABLE, &mark).status().unwrap();
            // A child is still a shell until it has executed its program.
            let begun = Instant::now();
            while !marked(&mark).iter().any(|process| process.name == "sleep") {
                assert!(begun.elapsed() < PATIENCE, "{:?}", marked(&mark));
                thread::sleep(Duration::from_millis(10));
            }
            let mut names: Vec<String> = end(&mark).into_iter().map(|process| process.name).collect();
            names.dedup();
            assert!(names.iter().any(|name| name == "sleep"), "{names:?}");
            assert_eq!(marked(&mark), []);
            assert!(other.try_wait().unwrap().is_none(), "it goes on");
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
