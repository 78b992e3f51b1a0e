//! The folder in which finished parts of an experiment are kept, so that one that was cut off goes on where it was.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::PapersError;

/// Finished parts on disk, one writer at a time.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    /// Folders that were not there before, innermost first.
    made: Vec<PathBuf>,
    /// Locked as long as this lives.
    _lock: File,
}

/// What the lock is called.
const LOCK: &str = "lock";

/// A part as its file has it.
#[derive(Serialize, Deserialize)]
struct Part<S, T> {
    /// What decides the result: where this differs, the result is of something else.
    settings: S,
    result: T,
}

impl Kept {
    /// Opens the folder, which is made if it is not there, and goes again if nothing comes to be kept in it.
    ///
    /// # Errors
    /// It cannot be written, or another process is writing to it.
    pub fn open(folder: &Path) -> Result<Self, PapersError> {
        let made = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let made = made.map(Path::to_owned).collect();
        fs::create_dir_all(folder).map_err(at(folder))?;
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder: folder.to_owned(), made, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(PapersError::Busy { folder: folder.to_owned() }),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    /// A folder of the part's own, for those who keep their own files.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The result of part `name`, if it is there and was made with these `settings`.
    ///
    /// # Errors
    /// The file cannot be read, or is not one that [`put`](Self::put) wrote.
    pub fn get<T: DeserializeOwned>(&self, name: &str, settings: &impl Serialize) -> Result<Option<T>, PapersError> {
        let path = self.file(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let damaged =
            |error: serde_json::Error| PapersError::Damaged { path: path.clone(), problem: error.to_string() };
        let held: Part<serde_json::Value, serde_json::Value> = serde_json::from_slice(&bytes).map_err(damaged)?;
        // Through text, in which an f32 has fewer digits than as a value.
        let wanted: serde_json::Value =
            serde_json::to_vec(settings).and_then(|text| serde_json::from_slice(&text)).map_err(damaged)?;
        if held.settings != wanted {
            return Ok(None);
        }
        serde_json::from_value(held.result).map(Some).map_err(damaged)
    }

    /// Keeps the result of part `name`, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put<T: Serialize>(&self, name: &str, settings: &impl Serialize, result: &T) -> Result<(), PapersError> {
        let path = self.file(name);
        let text = serde_json::to_vec(&Part { settings, result })
            .map_err(|error| PapersError::Damaged { path: path.clone(), problem: error.to_string() })?;
        write(&path, &text)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

impl Drop for Kept {
    /// Leaves no folder behind that this made and that holds nothing but the lock.
    fn drop(&mut self) {
        let only_lock = fs::read_dir(&self.folder).is_ok_and(|entries| entries.count() == 1);
        if only_lock && !self.made.is_empty() && fs::remove_file(self.folder.join(LOCK)).is_ok() {
            for folder in &self.made {
                // One that holds something else stays.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Writes a file that is there whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), PapersError> {
    let part = path.with_added_extension("part");
    fs::write(&part, bytes).and_then(|()| fs::rename(&part, path)).map_err(at(path))
}

/// The file system's refusal, with the path.
pub fn at(path: &Path) -> impl Fn(io::Error) -> PapersError {
    move |source| PapersError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_again_with_its_settings_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path()).unwrap();
        assert_eq!(kept.get::<f64>("none-1", &"a").unwrap(), None);
        kept.put("none-1", &("a", 0.1_f32), &0.25).unwrap();
        assert_eq!(kept.get("none-1", &("a", 0.1_f32)).unwrap(), Some(0.25));
        assert_eq!(kept.get::<f64>("none-1", &("b", 0.1_f32)).unwrap(), None);
    }

    #[test]
    fn folders_in_which_nothing_is_kept_go_again() {
        let folder = tempfile::tempdir().unwrap();
        let (out, parts) = (folder.path().join("out"), folder.path().join("out/experiment/parts"));
        drop(Kept::open(&parts).unwrap());
        assert!(!out.exists());
        fs::create_dir(&out).unwrap();
        drop(Kept::open(&parts).unwrap());
        assert!(out.exists() && !out.join("experiment").exists(), "what was there before stays");
        Kept::open(&parts).unwrap().put("none-1", &1, &2).unwrap();
        assert!(parts.join("none-1.json").exists());
    }

    #[test]
    fn one_writer_at_a_time_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::open(folder.path()).unwrap();
        let error = Kept::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another unmask reproduce"), "{error}");
        fs::write(folder.path().join("none-1.json"), "{\"settings\": 1").unwrap();
        let error = kept.get::<f64>("none-1", &1).unwrap_err().to_string();
        assert!(error.contains("none-1.json") && error.contains("delete that file"), "{error}");
    }
}
