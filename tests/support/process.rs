//! Processes that tests stop, or wait for.

use std::{fs, process::Command};

/// Processes stopped as by a laptop's lid; they continue when this is dropped.
pub struct Frozen(Vec<u32>);

impl Frozen {
    /// Stops these processes and their descendants, each before its children.
    pub fn with_children(roots: &[u32]) -> Self {
        let mut frozen = Vec::new();
        visit(roots, |process| {
            signal("-STOP", process);
            frozen.push(process);
        });
        Self(frozen)
    }
}

/// These processes and their descendants.
pub fn with_descendants(roots: &[u32]) -> Vec<u32> {
    let mut all = Vec::new();
    visit(roots, |process| all.push(process));
    all
}

/// Whether all of these processes have ended; one that waits for its parent to notice has.
pub fn are_gone(processes: &[u32]) -> bool {
    // The state follows the name, which is in parentheses and may contain some.
    let state = |process| fs::read_to_string(format!("/proc/{process}/stat")).ok();
    let has_ended = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    processes.iter().all(|process| state(process).is_none_or(has_ended))
}

/// Calls `at` with each of these processes and their descendants, each before its children are looked for.
fn visit(roots: &[u32], mut at: impl FnMut(u32)) {
    let mut next = roots.to_vec();
    while let Some(process) = next.pop() {
        at(process);
        next.extend(children(process));
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.iter().rev().for_each(|process| signal("-CONT", *process));
    }
}

/// A process that has ended needs no signal.
pub fn signal(signal: &str, process: u32) {
    let _ = Command::new("kill").args([signal, &process.to_string()]).status().expect("kill starts");
}

/// The children of all its threads, as Linux lists them.
fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}
