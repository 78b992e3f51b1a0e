//! Erases lessons from the data folder, and keeps a receipt of what went.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context, bail};
use tracing::info;
use unmask_journal::{Erased, Kind, kind};
use unmask_wire::view::{ErasedFile, Receipt};

use crate::{clock::unix_now, journal::DataFolder, private_file};

/// Holds a line of JSON for each erasure.
const RECEIPTS: &str = "erased.jsonl";

/// Keeps a receipt of what went in the folder, unless nothing did.
///
/// # Errors
/// Fails if something is still there, or if the receipt cannot be written. What went stays erased.
fn keep(folder: &Path, erased: &Erased) -> anyhow::Result<Receipt> {
    let receipt = Receipt { unix: unix_now(), files: erased.files.clone() };
    let written = if receipt.files.is_empty() { Ok(()) } else { write(folder, &receipt) };
    match (erased.whole(), written) {
        (Ok(()), written) => written.map(|()| receipt),
        (left, Ok(())) => left.map(|()| receipt),
        (Err(left), Err(unwritten)) => bail!("{left}. Besides, {unwritten:#}"),
    }
}

fn write(folder: &Path, receipt: &Receipt) -> anyhow::Result<()> {
    for ErasedFile { name, bytes } in &receipt.files {
        info!("erased {name}, {bytes} bytes");
    }
    let path = folder.join(RECEIPTS);
    let line = serde_json::to_string(receipt)? + "\n";
    let write = || {
        match private_file::make(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        OpenOptions::new().append(true).open(&path)?.write_all(line.as_bytes())
    };
    write().with_context(|| {
        format!("{} files are erased, and the receipt {} cannot be written", receipt.files.len(), path.display())
    })
}

/// Erases everything that lessons left in the folder: journals, recordings, keys.
///
/// # Errors
/// Fails if a relay has the journal there open, or if something cannot be erased. What can be goes, and has a receipt.
pub(crate) fn erase_everything(folder: &Path) -> anyhow::Result<Receipt> {
    let erased = DataFolder(folder.to_owned()).patiently(unmask_journal::erase_everything)?;
    keep(folder, &erased)
}

/// Finishes erasures that were interrupted.
///
/// # Errors
/// As [`erase_everything`].
pub(crate) fn finish(folder: &Path) -> anyhow::Result<Receipt> {
    let erased = DataFolder(folder.to_owned()).patiently(unmask_journal::finish)?;
    keep(folder, &erased)
}

/// Erases the lessons in the folder that were last written more than `days` days before `now`. The files of the last
/// lesson go together; each file that was set aside is as old as its own last write.
///
/// # Errors
/// As [`erase_everything`].
pub(crate) fn erase_old(folder: &Path, days: u32, now: SystemTime) -> anyhow::Result<Receipt> {
    let longest = Duration::from_secs(24 * 60 * 60) * days;
    let (mut lesson, mut old) = (Vec::new(), Vec::new());
    let mut is_lesson_old = true;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(kind) = kind(&name) else { continue };
        let written = entry.metadata()?.modified()?;
        // A file from the future is new: the clock was wrong.
        let is_old = now.duration_since(written).is_ok_and(|age| age > longest);
        match kind {
            Kind::Lesson => {
                is_lesson_old &= is_old;
                lesson.push(name);
            }
            Kind::SetAside if is_old => old.push(name),
            Kind::SetAside => {}
        }
    }
    if is_lesson_old {
        old.append(&mut lesson);
    }
    if old.is_empty() {
        return keep(folder, &Erased::default());
    }
    let is_meant = |name: &str| old.iter().any(|old| old == name);
    let erased = DataFolder(folder.to_owned()).patiently(|folder| unmask_journal::erase(folder, is_meant))?;
    keep(folder, &erased)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A folder of files that were last written so many days ago.
    fn folder(files: &[(&str, u32)], now: SystemTime) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, days) in files {
            fs::write(folder.path().join(name), name).unwrap();
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_modified(now - DAY * *days).unwrap();
        }
        folder
    }

    fn left(folder: &tempfile::TempDir) -> Vec<String> {
        let entries = folder.path().read_dir().unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_went_has_a_receipt_although_something_is_left() {
        let folder = folder(&[("journal-b.redb.old", 2), ("lesson.unmask.old", 2), ("room.key", 2)], SystemTime::now());
        // A folder cannot be deleted as a file.
        for obstacle in ["journal-a.redb.old", "journal-b.redb.broken-7"] {
            fs::create_dir(folder.path().join(obstacle)).unwrap();
        }
        let error = format!("{:#}", erase_everything(folder.path()).unwrap_err());
        assert!(error.contains("journal-a.redb.old cannot be deleted ("), "{error}");
        assert!(error.contains("journal-b.redb.broken-7 cannot be deleted (") && error.contains("again"), "{error}");
        let receipt = fs::read_to_string(folder.path().join(RECEIPTS)).unwrap();
        let receipt: Receipt = serde_json::from_str(&receipt).unwrap();
        let went: Vec<&str> = receipt.files.iter().map(|erased| erased.name.as_str()).collect();
        assert_eq!(went, ["journal-b.redb.old", "lesson.unmask.old", "room.key"]);
        assert!(finish(folder.path()).is_err(), "the next start tries again");
    }

    #[test]
    fn lessons_are_kept_as_long_as_was_said() {
        let now = SystemTime::now();
        let files = [
            ("certificate.pem", 400),
            ("journal-a.redb", 40),
            ("journal-a.redb.old", 50),
            ("journal-b.redb", 20),
            ("journal-b.redb.broken-1", 29),
            ("lesson.unmask", 35),
            ("lesson.unmask.old", 31),
            ("room.key", 300),
        ];
        let folder = folder(&files, now);
        let receipt = erase_old(folder.path(), 30, now).unwrap();
        let names: Vec<&str> = receipt.files.iter().map(|erased| erased.name.as_str()).collect();
        assert_eq!(names.len(), 2, "the lesson was written 20 days ago");
        assert!(names.contains(&"journal-a.redb.old") && names.contains(&"lesson.unmask.old"), "{names:?}");
        erase_old(folder.path(), 30, now).unwrap();
        erase_old(folder.path(), 19, now).unwrap();
        assert_eq!(left(&folder), ["certificate.pem", RECEIPTS]);
        let receipts = fs::read_to_string(folder.path().join(RECEIPTS)).unwrap();
        let lines: Vec<serde_json::Value> = receipts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "nothing was erased in between");
        assert!(lines[0]["unix"].as_u64().unwrap() > 1_700_000_000);
        let of = |line: &serde_json::Value| line["files"].as_array().unwrap().len();
        assert_eq!((of(&lines[0]), of(&lines[1])), (2, 5));
        let file = &lines[0]["files"][0];
        assert_eq!(file["bytes"].as_u64().unwrap() as usize, file["name"].as_str().unwrap().len());
    }
}
