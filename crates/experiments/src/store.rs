//! The folder of finished cases, from which an interrupted run continues.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};
use unmask_simulation::files::write_whole;

use crate::error::ExperimentError;

/// Finished cases on disk, with one writer at a time.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Folders that this store created, innermost first.
    created: Vec<PathBuf>,
    /// Locked while this value lives.
    _lock: File,
}

/// Lock file of the process that writes to the folder.
pub(crate) const LOCK: &str = "lock";
/// File in the parent folder that describes the run.
pub(crate) const RUN: &str = "run.json";
/// Folder of the cases of a matrix or a sweep.
pub(crate) const ROWS: &str = "rows";

pub(crate) fn file(name: &str) -> String {
    format!("{name}.json")
}

#[derive(Serialize, Deserialize)]
struct Kept<S, T> {
    /// The settings that determine the result. If they differ, the result is for something else.
    settings: S,
    result: T,
}

impl Store {
    /// Opens the folder and creates it if needed. If no case is saved in it, a new folder is removed on drop.
    ///
    /// # Errors
    /// The folder cannot be written, or another process is writing to it.
    pub(crate) fn open(folder: &Path) -> Result<Self, ExperimentError> {
        let created = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let created = created.map(Path::to_owned).collect();
        fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), created, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ExperimentError::Busy { folder: folder.to_owned() }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    /// Opens the folder `rows` in `folder`. All its cases belong to the run in `run.json`, or to `run` if there are no
    /// cases.
    ///
    /// # Errors
    /// As [`open`](Self::open), or the cases belong to another run.
    pub(crate) fn of_run(folder: &Path, run: &impl Serialize) -> Result<Self, ExperimentError> {
        let store = Self::open(&folder.join(ROWS))?;
        let path = folder.join(RUN);
        let wanted = as_read(run).map_err(damaged(&path))?;
        if !store.has_cases()? {
            write(&path, &serde_json::to_vec_pretty(run).map_err(damaged(&path))?)?;
            return Ok(store);
        }
        let bytes = read(&path)?.ok_or_else(|| ExperimentError::Damaged {
            path: store.folder.clone(),
            problem: format!("nothing says which run the rows are of, {RUN} is missing"),
        })?;
        let held = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
        match difference("", &held, &wanted) {
            Some(difference) => {
                Err(ExperimentError::OtherRun { folder: folder.to_owned(), difference: difference.to_string() })
            }
            None => Ok(store),
        }
    }

    fn has_cases(&self) -> Result<bool, ExperimentError> {
        let names = fs::read_dir(&self.folder).map_err(at(&self.folder))?;
        Ok(names.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "json")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// A subfolder for a case that has several files.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the result of case `name` if it exists and was computed with these `settings`.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by [`put`](Self::put).
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        name: &str,
        settings: &impl Serialize,
    ) -> Result<Option<T>, ExperimentError> {
        let path = self.file(name);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let kept: Kept<Value, Value> = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
        if kept.settings != as_read(settings).map_err(damaged(&path))? {
            return Ok(None);
        }
        serde_json::from_value(kept.result).map(Some).map_err(damaged(&path))
    }

    /// Saves the result of case `name`, completely or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn put<T: Serialize>(
        &self,
        name: &str,
        settings: &impl Serialize,
        result: &T,
    ) -> Result<(), ExperimentError> {
        let path = self.file(name);
        write(&path, &serde_json::to_vec(&Kept { settings, result }).map_err(damaged(&path))?)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(file(name))
    }
}

impl Drop for Store {
    /// Removes new folders that have nothing but the lock file.
    fn drop(&mut self) {
        let only_lock = fs::read_dir(&self.folder).is_ok_and(|entries| entries.count() == 1);
        if only_lock && !self.created.is_empty() && fs::remove_file(self.folder.join(LOCK)).is_ok() {
            for folder in &self.created {
                // A folder that has other files stays.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, ExperimentError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    write_whole(path, bytes).map_err(at(path))
}

/// Converts a value to JSON text and back. An f32 has fewer digits as text than as a `Value`.
pub(crate) fn as_read(value: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// A place where two values differ, with both contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) place: String,
    pub(crate) held: String,
    pub(crate) wanted: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, held, wanted } = self;
        write!(f, "{place} was {held} and is now {wanted}")
    }
}

/// The first place where two values differ; `place` is their path.
pub(crate) fn difference(place: &str, held: &Value, wanted: &Value) -> Option<Difference> {
    let inner = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    let differ = |held: String, wanted: String| Some(Difference { place: place.to_owned(), held, wanted });
    match (held, wanted) {
        (held, wanted) if held == wanted => None,
        (Value::Object(held), Value::Object(wanted)) => {
            let of = |values: &serde_json::Map<String, Value>, key: &str| values.get(key).cloned().unwrap_or_default();
            let keys = wanted.keys().chain(held.keys());
            keys.map(|key| difference(&inner(key), &of(held, key), &of(wanted, key))).find_map(|found| found)
        }
        (Value::Array(held), Value::Array(wanted)) if held.len() == wanted.len() => {
            let pairs = held.iter().zip(wanted).enumerate();
            pairs
                .map(|(at, (held, wanted))| difference(&format!("{place}[{at}]"), held, wanted))
                .find_map(|found| found)
        }
        (Value::Array(held), Value::Array(wanted)) => {
            differ(format!("a list of {}", held.len()), format!("a list of {}", wanted.len()))
        }
        _ => differ(held.to_string(), wanted.to_string()),
    }
}

pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ExperimentError {
    move |source| ExperimentError::Io { path: path.to_owned(), source }
}

pub(crate) fn damaged(path: &Path) -> impl Fn(serde_json::Error) -> ExperimentError {
    move |error| ExperimentError::Damaged { path: path.to_owned(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_found_again_with_its_settings_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.get::<f64>("none-1", &"a").unwrap(), None);
        store.put("none-1", &("a", 0.1_f32), &0.25).unwrap();
        assert_eq!(store.get("none-1", &("a", 0.1_f32)).unwrap(), Some(0.25));
        assert_eq!(store.get::<f64>("none-1", &("b", 0.1_f32)).unwrap(), None);
    }

    #[test]
    fn folders_in_which_nothing_is_kept_go_again() {
        let folder = tempfile::tempdir().unwrap();
        let (out, cases) = (folder.path().join("out"), folder.path().join("out/experiment/cases"));
        drop(Store::open(&cases).unwrap());
        assert!(!out.exists());
        fs::create_dir(&out).unwrap();
        drop(Store::open(&cases).unwrap());
        assert!(out.exists() && !out.join("experiment").exists(), "what was there before stays");
        Store::open(&cases).unwrap().put("none-1", &1, &2).unwrap();
        assert!(cases.join("none-1.json").exists());
    }

    #[test]
    fn one_writer_at_a_time_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another unmask is writing to"), "{error}");
        fs::write(folder.path().join("none-1.json"), "{\"settings\": 1").unwrap();
        let error = store.get::<f64>("none-1", &1).unwrap_err().to_string();
        assert!(error.contains("none-1.json") && error.contains("delete that file"), "{error}");
    }
}
