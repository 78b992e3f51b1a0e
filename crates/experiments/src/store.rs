//! The folder in which finished parts are kept, so that a run that was cut off goes on where it stopped.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use unmask_simulation::files::write_whole;

use crate::error::ExperimentError;

/// Finished parts on disk, one writer at a time.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Folders that were not there before, innermost first.
    created: Vec<PathBuf>,
    /// Locked as long as this lives.
    _lock: File,
}

const LOCK: &str = "lock";

/// A part as its file has it.
#[derive(Serialize, Deserialize)]
struct Part<S, T> {
    /// What decides the result: where this differs, the result is of something else.
    settings: S,
    result: T,
}

impl Store {
    /// Opens the folder, which is made if it is not there, and goes again if no part is kept in it.
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

    /// A folder of the part's own, for what keeps its own files.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The result of part `name`, if it is there and was computed with these `settings`.
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
        let part: Part<Value, Value> = serde_json::from_slice(&bytes).map_err(damaged(&path))?;
        if part.settings != as_read(settings).map_err(damaged(&path))? {
            return Ok(None);
        }
        serde_json::from_value(part.result).map(Some).map_err(damaged(&path))
    }

    /// Keeps the result of part `name`, whole or not at all.
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
        write(&path, &serde_json::to_vec(&Part { settings, result }).map_err(damaged(&path))?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
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
    fn a_part_is_found_again_with_its_settings_alone() {
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
        let (out, parts) = (folder.path().join("out"), folder.path().join("out/experiment/parts"));
        drop(Store::open(&parts).unwrap());
        assert!(!out.exists());
        fs::create_dir(&out).unwrap();
        drop(Store::open(&parts).unwrap());
        assert!(out.exists() && !out.join("experiment").exists(), "what was there before stays");
        Store::open(&parts).unwrap().put("none-1", &1, &2).unwrap();
        assert!(parts.join("none-1.json").exists());
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
