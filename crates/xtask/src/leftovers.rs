//! Processes that a job leaves behind, ended with it.
//!
//! A chromedriver that is killed leaves its browser running, and a test that fails may kill its driver. Such a browser has
//! no parent that knows of it, and may have a session of its own. So everything that a job starts has a mark in its
//! environment, and so has whatever that starts in turn; on Linux, who bears it can be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// The variable that holds the mark.
pub const VARIABLE: &str = "UNMASK_JOB";

/// Whether what bears the mark is being ended, and this process with it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A process that bears a mark.
#[derive(Debug, PartialEq, Eq)]
pub struct Marked {
    id: i32,
    name: String,
}

/// A mark that nothing else on this machine bears.
pub fn new_mark() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_nanos())
}

/// Ends what bears the mark, and names it: a job that leaves processes behind should be mended. Never returns where the
/// job was interrupted.
pub fn end_and_say(mark: &str) {
    say(end(mark));
    wait_if_interrupted();
}

/// Returns at once, or never where the job was interrupted: what it started is being ended, and it is to start no more.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

fn say(ended: Vec<Marked>) {
    let mut names: Vec<String> = ended.into_iter().map(|process| process.name).collect();
    names.sort_unstable();
    if !names.is_empty() {
        eprintln!("Ended what was left running: {}", names.join(", "));
    }
}

/// Has whatever bears the mark end with this process when that is interrupted (Ctrl-C) or told to end.
///
/// # Errors
/// If signals are handled elsewhere already.
pub fn end_when_interrupted(mark: &str) -> Result<()> {
    let mark = mark.to_owned();
    let handler = move || {
        INTERRUPTED.store(true, Ordering::SeqCst);
        say(end(&mark));
        // What a shell gives for a process that was interrupted.
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

    /// Time to end by itself and leave no temporary files; then it is killed.
    const POLITE: Duration = Duration::from_secs(3);
    /// What is still there then is beyond help.
    const PATIENCE: Duration = Duration::from_secs(8);

    /// All processes of this user that bear the mark, but for this one.
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

    /// Ends them, and says which they were.
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

    /// A process that has ended and waits to be noticed has no environment any more.
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

        /// One that has a session of its own, one that ignores being told, and one without a mark.
        #[test]
        fn only_what_bears_the_mark_is_ended() {
            let mark = new_mark();
            let mut other = Command::new("sleep").arg("600").env_remove(VARIABLE).spawn().unwrap();
            let script = "setsid sleep 600 & (trap '' TERM; sleep 600) & exit 0";
            Command::new("sh").args(["-c", script]).env(VARIABLE, &mark).status().unwrap();
            // A shell is one until it has become what it is to run.
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
