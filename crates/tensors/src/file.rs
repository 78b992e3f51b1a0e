//! Tensor files on disk or in memory.

use std::{
    collections::BTreeSet,
    fmt,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::{Role, TensorReader, WeightsError, container::Container, index::Stored};

/// A tensor file on disk or in memory, in any format that [`TensorReader`] reads, or an index of several.
#[derive(Debug, Clone)]
pub struct TensorFile {
    source: Source,
    role: Role,
}

#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes { what: String, bytes: Arc<[u8]> },
}

/// Most files of one model.
const MOST_SHARDS: usize = 1000;
/// The largest index of several files, in bytes.
const LARGEST_INDEX: u64 = 16 << 20;

#[derive(Debug)]
pub enum TensorBytes {
    File(File),
    Memory(Cursor<Arc<[u8]>>),
}

impl TensorFile {
    /// Opens the file and lists its tensors.
    ///
    /// # Errors
    /// If it cannot be read or holds no tensors.
    pub fn open(&self) -> Result<TensorReader<TensorBytes>, WeightsError> {
        let bytes = match &self.source {
            Source::Path(path) if path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) => {
                return self.shards(path);
            }
            Source::Path(path) => open(path)?,
            Source::Bytes { bytes, .. } => TensorBytes::Memory(Cursor::new(bytes.clone())),
        };
        TensorReader::for_role(&self.to_string(), bytes, self.role)
    }

    /// Bytes in memory; `what` names them in errors.
    pub fn bytes(what: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { source: Source::Bytes { what: what.to_owned(), bytes: bytes.into() }, role: Role::Any }
    }

    /// The same file, read for this role.
    #[must_use]
    pub fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Opens the files that an index of Hugging Face's names; they lie beside it.
    fn shards(&self, index: &Path) -> Result<TensorReader<TensorBytes>, WeightsError> {
        let what = self.to_string();
        let format = |reason: String| WeightsError::Format { what: what.clone(), reason };
        let io = |source| WeightsError::Io { what: what.clone(), source };
        let mut text = Vec::new();
        File::open(index).map_err(io)?.take(LARGEST_INDEX).read_to_end(&mut text).map_err(io)?;
        let read: Value = serde_json::from_slice(&text).map_err(|error| format(format!("it is no JSON: {error}")))?;
        let files = read["weight_map"].as_object().map(|map| map.values().filter_map(Value::as_str));
        let no_index =
            || format("it is JSON, but no index of a model in several files: it has no \"weight_map\"".to_owned());
        let files: BTreeSet<&str> = files.ok_or_else(no_index)?.collect();
        if files.len() > MOST_SHARDS {
            return Err(format(format!("it names {} files; no model has more than {MOST_SHARDS}", files.len())));
        }
        let (mut shards, mut stored, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for (shard, name) in files.into_iter().enumerate() {
            // A name with a folder could lead anywhere.
            if Path::new(name).file_name() != Some(name.as_ref()) {
                return Err(format(format!("it names {name:?}, which is not a file beside it")));
            }
            let path = index.with_file_name(name);
            let (container, tensors, said) = Container::open(&path.display().to_string(), open(&path)?, self.role)?;
            shards.push(container);
            stored.extend(tensors.into_iter().map(|tensor| Stored { shard, ..tensor }));
            notes.extend(said);
        }
        TensorReader::of(&what, Container::Shards(shards), stored, notes)
    }
}

fn open(path: &Path) -> Result<TensorBytes, WeightsError> {
    let what = || path.display().to_string();
    File::open(path).map(TensorBytes::File).map_err(|source| WeightsError::Io { what: what(), source })
}

impl fmt::Display for TensorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Path(path) => path.display().fmt(f),
            Source::Bytes { what, .. } => f.write_str(what),
        }
    }
}

impl From<PathBuf> for TensorFile {
    fn from(path: PathBuf) -> Self {
        Self { source: Source::Path(path), role: Role::Any }
    }
}

impl From<&Path> for TensorFile {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl Read for TensorBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for TensorBytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Memory(bytes) => bytes.seek(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    #[test]
    fn bytes_are_read_as_a_file_is_and_named_in_errors() {
        let shape = [2];
        let bytes = encode([("head.bias", &shape[..], &[1.0, 2.0][..])]).unwrap();
        let file = |bytes: &[u8]| TensorFile::bytes("the gradients", bytes);
        assert_eq!(file(&bytes).open().unwrap().read::<f32>("head.bias").unwrap().values, [1.0, 2.0]);
        let refused = file(&bytes[..9]).open().unwrap_err().to_string();
        assert!(refused.starts_with("the gradients holds no tensors"), "{refused}");
        let nowhere = TensorFile::from(Path::new("nowhere.npz")).open().unwrap_err().to_string();
        assert!(nowhere.starts_with("nowhere.npz: "), "{nowhere}");
    }
}
