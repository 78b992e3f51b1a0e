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

/// Number of steps that may run at once beside another, each with a mark of its own.
pub const GUESTS: usize = 2;

/// The mark of guest number `guest`, below [`GUESTS`].
pub fn of_guest(mark: &str, guest: usize) -> String {
    debug_assert!(guest < GUESTS, "an interruption would not end guest {guest}");
    format!("{mark}-guest-{guest}")
}

/// Ends the marked processes and prints their names, because a job should leave none behind. Never returns if the job
/// was interrupted.
pub fn end_and_say(mark: &str) {
    say(end(&[mark.to_owned()]));
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

/// Ends the marked processes, and those of its guests, when this process is interrupted (Ctrl-C) or terminated.
///
/// # Errors
/// Signals already have a handler.
pub fn end_when_interrupted(mark: &str) -> Result<()> {
    let guests = (0..GUESTS).map(|guest| of_guest(mark, guest));
    let marks: Vec<String> = guests.chain([mark.to_owned()]).collect();
    let handler = move || {
        INTERRUPTED.store(true, Ordering::SeqCst);
        say(end(&marks));
        // The exit code that a shell reports for an interrupted process.
        std::process::exit(130);
    };
    ctrlc::set_handler(handler).context("Ctrl-C cannot be handled")
}

#[cfg(not(target_os = "linux"))]
fn end(_: &[String]) -> Vec<Marked> {
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

    /// All processes of this user with one of these marks, except this one.
    pub fn marked(marks: &[String]) -> Vec<Marked> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let wanted: Vec<String> = marks.iter().map(|mark| format!("{VARIABLE}={mark}")).collect();
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
    pub fn end(marks: &[String]) -> Vec<Marked> {
        let begun = Instant::now();
        let mut ended: Vec<Marked> = Vec::new();
        loop {
            let left = marked(marks);
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
    fn bears(process: &Path, wanted: &[String]) -> bool {
        let is_wanted = |entry: &[u8]| wanted.iter().any(|wanted| entry == wanted.as_bytes());
        fs::read(process.join("environ")).is_ok_and(|environment| environment.split(|&byte| byte == 0).any(is_wanted))
    }

    fn name(process: &Path) -> String {
        fs::read_to_string(process.join("comm"))
            .map_or_else(|_| "a process".to_owned(), |name| name.trim_end().to_owned())
    }

    #[cfg(test)]
    mod tests {
        use std::process::Command;

        use super::super::{new_mark, of_guest};
        use super::*;

        /// Four processes: one with its own session, one that ignores SIGTERM, one of a guest, and one without a mark.
        #[test]
        fn only_what_bears_the_mark_is_ended() {
            let mark = new_mark();
            let mut other = Command::new("sleep").arg("600").env_remove(VARIABLE).spawn().unwrap();
            let script = "setsid sleep 600 & (trap '' TERM; sleep 600) & exit 0";
            Command::new("sh").args(["-c", script]).env(VARIABLE, &mark).status().unwrap();
            let of_guest = of_guest(&mark, 1);
            let mut guest = Command::new("sleep").arg("600").env(VARIABLE, &of_guest).spawn().unwrap();
            let marks = [mark];
            // A child is still a shell until it has executed its program.
            let begun = Instant::now();
            while !marked(&marks).iter().any(|process| process.name == "sleep") {
                assert!(begun.elapsed() < PATIENCE, "{:?}", marked(&marks));
                thread::sleep(Duration::from_millis(10));
            }
            let mut names: Vec<String> = end(&marks).into_iter().map(|process| process.name).collect();
            names.dedup();
            assert!(names.iter().any(|name| name == "sleep"), "{names:?}");
            assert_eq!(marked(&marks), []);
            assert!(guest.try_wait().unwrap().is_none(), "the guest goes on");
            // The guest is a child of this process, so it stays until it is waited for.
            thread::spawn(move || guest.wait());
            assert_eq!(end(&[of_guest]).len(), 1);
            assert!(other.try_wait().unwrap().is_none(), "it goes on");
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
