//! Where the files of a journal are.

use std::{fmt::Debug, io};

use redb::StorageBackend;

/// A folder of files, by name.
pub trait Folder: Debug {
    type File: StorageBackend;

    /// How messages call a file.
    fn path(&self, file: &str) -> String;

    /// The names of all files.
    ///
    /// # Errors
    /// The file system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// # Errors
    /// The file system's.
    fn has(&self, file: &str) -> io::Result<bool>;

    /// A file's length in bytes.
    ///
    /// # Errors
    /// The file system's, or if the file does not exist.
    fn size(&self, file: &str) -> io::Result<u64>;

    /// Opens a file that may not be written to.
    ///
    /// # Errors
    /// The file system's, or if the file does not exist.
    fn open_to_read(&self, file: &str) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// The file system's, or if the file does not exist.
    fn open(&self, file: &str) -> io::Result<Self::File>;

    /// Creates an empty file that only its owner may read, because a journal holds names.
    ///
    /// # Errors
    /// The file system's, or if the file exists.
    fn create(&self, file: &str) -> io::Result<Self::File>;

    /// # Errors
    /// The file system's, or if the file does not exist.
    fn remove(&self, file: &str) -> io::Result<()>;

    /// Renames a file, replacing one that has the new name.
    ///
    /// # Errors
    /// The file system's, or if the file does not exist.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Waits until names and renames survive a power cut.
    ///
    /// # Errors
    /// The file system's.
    fn sync(&self) -> io::Result<()>;
}
