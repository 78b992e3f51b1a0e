//! Tensor files on disk or in memory.

use std::{
    fmt,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{TensorReader, WeightsError};

/// A tensor file on disk or in memory, in any format that [`TensorReader`] reads.
#[derive(Debug, Clone)]
pub enum TensorFile {
    Path(PathBuf),
    /// `what` names the bytes in errors.
    Bytes {
        what: String,
        bytes: Arc<[u8]>,
    },
}

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
        let what = self.to_string();
        let bytes = match self {
            Self::Path(path) => match File::open(path) {
                Ok(file) => TensorBytes::File(file),
                Err(source) => return Err(WeightsError::Io { what, source }),
            },
            Self::Bytes { bytes, .. } => TensorBytes::Memory(Cursor::new(bytes.clone())),
        };
        TensorReader::new(&what, bytes)
    }
}

impl fmt::Display for TensorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Bytes { what, .. } => f.write_str(what),
        }
    }
}

impl From<PathBuf> for TensorFile {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
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
        let file = |bytes: &[u8]| TensorFile::Bytes { what: "the gradients".to_owned(), bytes: bytes.into() };
        assert_eq!(file(&bytes).open().unwrap().read::<f32>("head.bias").unwrap().values, [1.0, 2.0]);
        let refused = file(&bytes[..9]).open().unwrap_err().to_string();
        assert!(refused.starts_with("the gradients holds no tensors"), "{refused}");
        let nowhere = TensorFile::from(Path::new("nowhere.npz")).open().unwrap_err().to_string();
        assert!(nowhere.starts_with("nowhere.npz: "), "{nowhere}");
    }
}
