//! The folder in which finished cases are kept, so that a run that was cut off goes on where it stopped.

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

/// Finished cases on disk, one writer at a time.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Folders that were not there before, innermost first.
    created: Vec<PathBuf>,
    /// Locked as long as this lives.
    _lock: File,
}

/// Locked by who writes to the folder.
pub(crate) const LOCK: &str = "lock";
/// What the cases of a folder are of, in the folder above.
pub(crate) const RUN: &str = "run.json";
/// Where the cases of a matrix or a sweep are.
pub(crate) const ROWS: &str = "rows";

/// The file that keeps the case `name`.
pub(crate) fn file(name: &str) -> String {
    format!("{name}.json")
}

/// A case as its file has it.
#[derive(Serialize, Deserialize)]
struct Kept<S, T> {
    /// What decides the result: where this differs, the result is of something else.
    settings: S,
    result: T,
}

impl Store {
    /// Opens the folder, which is made if it is not there, and goes again if no case is kept in it.
    ///
    /// # Errors
    /// It cannot be written, or another process is writing to it.
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

    /// Opens the folder `rows` of `folder`, whose cases are all of one `run`: that of its `run.json`, or this one where there
    /// are no cases yet.
    ///
    /// # Errors
    /// As [`open`](Self::open), or the cases are of another run.
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

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// A folder of the case's own, for what keeps its own files.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The result of case `name`, if it is there and was computed with these `settings`.
    ///
    /// # Errors
    /// The file cannot be read, or is not one that [`put`](Self::put) wrote.
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

    /// Keeps the result of case `name`, whole or not at all.
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
    /// Leaves no folder behind that this made and that holds nothing but the lock.
    fn drop(&mut self) {
        let only_lock = fs::read_dir(&self.folder).is_ok_and(|entries| entries.count() == 1);
        if only_lock && !self.created.is_empty() && fs::remove_file(self.folder.join(LOCK)).is_ok() {
            for folder in &self.created {
                // One that holds something else stays.
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

/// Writes a file that is there whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    write_whole(path, bytes).map_err(at(path))
}

/// A value as it is read back from a file: in text an f32 has fewer digits than as a value.
pub(crate) fn as_read(value: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}

/// A place at which two values differ, with what stands there.
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

/// The first place where two values differ; `place` is where they stand.
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

/// A digest in words.
pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file system's refusal, with the path.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ExperimentError {
    move |source| ExperimentError::Io { path: path.to_owned(), source }
}

/// What is no JSON of ours, with the path.
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
