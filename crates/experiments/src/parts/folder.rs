//! The folder of a part during its computation.

use std::{ops::ControlFlow, path::Path, thread, time::Duration};

use serde::Serialize;

use super::{
    Machine, Part, RunKind,
    record::{PART, PartRecord},
};
use crate::{
    error::ExperimentError,
    store::{Store, as_read, damaged, read, write},
};

/// Interval between checks whether another process has finished.
const PAUSE: Duration = Duration::from_millis(200);

/// The folder of one part, locked for this process while this value lives.
#[derive(Debug)]
pub struct PartFolder {
    store: Store,
    part: Part,
    command: Vec<String>,
}

impl PartFolder {
    /// Creates the folder of `part` in `out`, or opens it to continue. If another process computes the same part, waits
    /// for it and calls `is_wanted` from time to time; returns `None` if that stopped the wait. A new folder is removed
    /// again if no case is saved in it.
    ///
    /// `command` has the arguments after the program's name that compute the whole run, without `--part` and without
    /// secrets.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn open(
        out: &Path,
        part: Part,
        command: Vec<String>,
        is_wanted: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Self>, ExperimentError> {
        loop {
            match Store::open(&part.folder(out)) {
                Ok(store) => return Ok(Some(Self { store, part, command })),
                Err(ExperimentError::Busy { .. }) if is_wanted().is_break() => return Ok(None),
                Err(ExperimentError::Busy { .. }) => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.store.path()
    }

    pub fn part(&self) -> Part {
        self.part
    }

    /// Writes `part.json`, which describes the run, to the subfolder `inner`.
    ///
    /// # Errors
    /// The folder has a part of another run, or cannot be written.
    pub(crate) fn record(
        &self,
        inner: &str,
        kind: RunKind,
        machine: Machine,
        run: &impl Serialize,
        cases: Vec<String>,
    ) -> Result<(), ExperimentError> {
        let folder = self.path().join(inner);
        let path = folder.join(PART);
        let run = as_read(run).map_err(damaged(&path))?;
        let record = PartRecord { part: self.part, command: self.command.clone(), machine, kind, run, cases };
        if let Some(bytes) = read(&path)? {
            let held: PartRecord = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
            if let Some(difference) = held.difference(&record) {
                return Err(ExperimentError::OtherRun { folder, difference: difference.to_string() });
            }
        }
        write(&path, &serde_json::to_vec_pretty(&record).map_err(damaged(&path))?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn open(out: &Path, command: &str) -> PartFolder {
        let command = command.split(' ').map(str::to_owned).collect();
        PartFolder::open(out, "2/3".parse().unwrap(), command, &mut || ControlFlow::Break(())).unwrap().unwrap()
    }

    fn record(folder: &PartFolder, seed: u64) -> Result<(), ExperimentError> {
        let machine = Machine { processor: None, threads: 1 };
        folder.record("", RunKind::Sweep, machine, &json!({ "seed": seed }), vec!["rows/a.json".to_owned()])
    }

    /// Two processes with the same part: the second waits for the first and continues where it ended.
    #[test]
    fn one_process_at_a_time_computes_a_part() {
        let out = tempfile::tempdir().unwrap();
        let first = open(out.path(), "sweep");
        let (part, mut asked) = ("2/3".parse().unwrap(), 0);
        let mut twice = || {
            asked += 1;
            if asked == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        assert!(PartFolder::open(out.path(), part, Vec::new(), &mut twice).unwrap().is_none());
        assert_eq!(asked, 2);
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                PartFolder::open(out.path(), part, Vec::new(), &mut || ControlFlow::Continue(())).unwrap().is_some()
            });
            drop(first);
            waiting.join().unwrap()
        });
        assert!(waiting);
    }

    #[test]
    fn a_folder_is_of_one_run() {
        let out = tempfile::tempdir().unwrap();
        record(&open(out.path(), "sweep --out here"), 1).unwrap();
        record(&open(out.path(), "sweep --out there"), 1).unwrap();
        let error = record(&open(out.path(), "sweep"), 2).unwrap_err().to_string();
        assert!(error.contains("part-2-of-3") && error.contains("seed was 1 and is now 2"), "{error}");
    }
}
