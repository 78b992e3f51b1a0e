//! Stopped processes.

use std::{fs, process::Command};

/// Processes stopped as by a laptop's lid; they continue when this is dropped.
pub struct Frozen(Vec<u32>);

impl Frozen {
    /// Stops these processes and their descendants, each before its children.
    pub fn with_children(roots: &[u32]) -> Self {
        let mut frozen = Self(Vec::new());
        let mut next = roots.to_vec();
        while let Some(process) = next.pop() {
            signal("-STOP", process);
            frozen.0.push(process);
            next.extend(children(process));
        }
        frozen
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
