//! The recording on disk: new lines are appended; the whole file is rewritten after content was removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use tracing::warn;
use unmask_recording::{MAX_BYTES, NAME, Read, Recording};
use unmask_room::RecordingStore;

use crate::private_file;

/// Why the file is not as it should be, in a sentence for the class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("The recording is not on the disk: {} cannot be written ({source}).", .path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error(
        "What was withdrawn is still in {}, which can be neither written nor deleted ({source}): delete it.",
        .path.display()
    )]
    NotWithdrawn { path: PathBuf, source: io::Error },
}

/// The file of one lesson in the relay's data folder.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    folder: PathBuf,
    /// Open for appending while its content is correct.
    file: Option<File>,
    /// Number of the recording's lines in the file.
    written: usize,
    /// Whether a write error has been reported, so that it is reported once.
    is_failing: bool,
}

impl RecordingFile {
    /// Opens the file in `folder` and returns its recording if that belongs to the lesson that began at `began`. Moves
    /// an unreadable file, or one of another lesson, aside. The sentence says why a file was unreadable.
    pub(crate) fn open(folder: PathBuf, began: u64) -> (Self, Option<Recording>, Option<String>) {
        let (found, problem) = match read(&folder) {
            Ok(found) => (found.filter(|found| found.recording.began() == began), None),
            Err(reason) => (None, Some(format!("The recording of this lesson starts over: {reason}."))),
        };
        if found.is_none() {
            set_aside(&folder);
        }
        let recording = found.map(|Read { recording, torn }| {
            if let Some(torn) = torn {
                warn!("continuing the recording from its intact part: {torn}");
            }
            recording
        });
        (Self { folder, file: None, written: 0, is_failing: false }, recording, problem)
    }

    /// Deletes the file in `folder` if it belongs to the lesson that began at `began`: it would keep what students
    /// withdraw from now on.
    pub(crate) fn delete(folder: &Path, began: u64) {
        if let Ok(Some(found)) = read(folder)
            && found.recording.began() == began
            && let Err(error) = fs::remove_file(folder.join(NAME))
        {
            warn!("cannot delete the earlier recording: {error}");
        }
    }

    /// Appends new lines of the recording. Rewrites all of it if `is_less`, or if the last write failed.
    ///
    /// # Errors
    /// The file system's error, the first time in a row. If `is_less`, a file that cannot be rewritten is
    /// deleted; failure to delete it is always reported.
    fn update(&mut self, recording: &Recording, is_less: bool) -> Result<(), FileError> {
        if is_less {
            self.file = None;
        }
        match self.write(recording) {
            Ok(()) => {
                self.is_failing = false;
                Ok(())
            }
            Err(source) => {
                self.file = None;
                let path = self.folder.join(NAME);
                if is_less
                    && let Err(source) = fs::remove_file(&path)
                    && source.kind() != io::ErrorKind::NotFound
                {
                    return Err(FileError::NotWithdrawn { path, source });
                }
                if std::mem::replace(&mut self.is_failing, true) {
                    return Ok(());
                }
                Err(FileError::Unwritten { path, source })
            }
        }
    }

    fn write(&mut self, recording: &Recording) -> io::Result<()> {
        let text = |place| recording.text_from(place).map_err(io::Error::other);
        match &mut self.file {
            Some(file) => file.write_all(text(self.written)?.as_bytes())?,
            None => {
                private_file::write(&self.folder, NAME, text(0)?.as_bytes())?;
                self.file = Some(OpenOptions::new().append(true).open(self.folder.join(NAME))?);
            }
        }
        self.written = recording.len();
        Ok(())
    }
}

impl RecordingStore for RecordingFile {
    fn keep(&mut self, recording: &Recording, is_less: bool) -> Result<(), String> {
        self.update(recording, is_less).map_err(|problem| problem.to_string())
    }
}

fn read(folder: &Path) -> io::Result<Option<Read>> {
    let file = match File::open(folder.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Recording::read(&bytes).map(Some).map_err(io::Error::other)
}

/// Moves the file aside, replacing any file moved aside before.
fn set_aside(folder: &Path) {
    let path = folder.join(NAME);
    match fs::rename(&path, folder.join(format!("{NAME}.old"))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!("cannot move {} aside: {error}", path.display());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use unmask_wire::view::RoomView;

    use super::*;

    fn add(recording: &mut Recording, round: u32) {
        let room = RoomView { round, ..RoomView::default() };
        recording.add(u64::from(round), &room, |_| None).unwrap();
    }

    #[test]
    fn a_lesson_goes_on_where_its_file_ends() {
        let folder = tempfile::tempdir().unwrap();
        let open = |began| {
            let (file, found, problem) = RecordingFile::open(folder.path().to_path_buf(), began);
            assert_eq!(problem, None);
            (file, found)
        };
        let (mut file, found) = open(7);
        assert!(found.is_none());
        let mut recording = Recording::new("0.1.0", 7);
        for round in 1..4 {
            add(&mut recording, round);
            file.keep(&recording, false).unwrap();
        }
        let path = folder.path().join(NAME);
        let whole = fs::read_to_string(&path).unwrap();
        assert_eq!(whole, recording.text_from(0).unwrap());
        // Damage the last line.
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let (mut file, found) = open(7);
        let mut recording = found.unwrap();
        assert_eq!(recording.len(), 2);
        add(&mut recording, 9);
        file.keep(&recording, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), recording.text_from(0).unwrap());
        // Another lesson begins.
        assert!(open(8).1.is_none() && !path.exists() && folder.path().join(format!("{NAME}.old")).exists());
        fs::write(&path, "no recording").unwrap();
        let (_, found, problem) = RecordingFile::open(folder.path().to_path_buf(), 7);
        assert!(found.is_none() && problem.unwrap().contains("no recording of a lesson"));
    }

    #[test]
    fn a_lesson_that_is_not_recorded_leaves_no_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = Recording::new("0.1.0", 7);
        add(&mut recording, 1);
        RecordingFile::open(folder.path().to_path_buf(), 7).0.keep(&recording, false).unwrap();
        RecordingFile::delete(folder.path(), 8);
        assert!(folder.path().join(NAME).exists());
        RecordingFile::delete(folder.path(), 7);
        assert!(!folder.path().join(NAME).exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, ..) = RecordingFile::open(folder.path().join("gone"), 7);
        let recording = Recording::new("0.1.0", 7);
        assert!(file.keep(&recording, false).unwrap_err().contains("cannot be written"));
        file.keep(&recording, false).unwrap();
    }
}
