//! The journal's files in a relay's data folder.

use std::{
    fs::{self, OpenOptions},
    io,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use redb::backends::FileBackend;
use unmask_journal::{Folder, Found, is_taken};
use unmask_room::LastLesson;

use crate::{clock::unix_now, private_file};

/// Time for a relay that has just been stopped to close its files.
const PATIENCE: Duration = Duration::from_secs(3);

/// A folder on this machine.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(pub(crate) PathBuf);

impl DataFolder {
    /// Opens the journal in the folder, as [`unmask_journal::open`] does.
    ///
    /// # Errors
    /// As there, or if another relay has it open.
    pub(crate) fn open_journal(self) -> anyhow::Result<Found<Self>> {
        self.patiently(|folder| unmask_journal::open(folder.clone(), unix_now()))
    }

    /// Reads the lesson in the folder, and changes nothing there. Returns it, and sentences that say what is damaged.
    ///
    /// # Errors
    /// As [`unmask_journal::read`], or if a relay has it open.
    pub(crate) fn read_journal(&self) -> anyhow::Result<(Option<LastLesson>, Vec<String>)> {
        self.patiently(unmask_journal::read)
    }

    /// Sets the journal in the folder aside, whatever is in it.
    ///
    /// # Errors
    /// If another relay has it open, or if a file cannot be renamed.
    pub(crate) fn retire_journal(&self) -> anyhow::Result<()> {
        self.patiently(unmask_journal::retire)
    }

    /// Does what needs the journal for itself, and waits for a relay that is closing it.
    ///
    /// # Errors
    /// Those of the action, or if another relay has the journal open.
    pub(crate) fn patiently<T>(&self, action: impl Fn(&Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match action(self) {
                Err(error) if is_taken(&error) && Instant::now() < deadline => sleep(Duration::from_millis(50)),
                Err(error) if is_taken(&error) => {
                    return Err(error.context(format!(
                        "another relay keeps its journal in {}; stop it, or give this one a folder of its own with \
                         --data-dir, or no journal with --no-journal",
                        self.0.display()
                    )));
                }
                done => return done,
            }
        }
    }

    fn file(&self, name: &str, is_written: bool) -> io::Result<FileBackend> {
        let file = OpenOptions::new().read(true).write(is_written).open(self.0.join(name))?;
        FileBackend::new(file).map_err(io::Error::other)
    }
}

impl Folder for DataFolder {
    type File = FileBackend;

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn has(&self, file: &str) -> io::Result<bool> {
        self.0.join(file).try_exists()
    }

    fn size(&self, file: &str) -> io::Result<u64> {
        Ok(fs::metadata(self.0.join(file))?.len())
    }

    fn open_to_read(&self, file: &str) -> io::Result<FileBackend> {
        self.file(file, false)
    }

    fn open(&self, file: &str) -> io::Result<FileBackend> {
        self.file(file, true)
    }

    fn create(&self, file: &str) -> io::Result<FileBackend> {
        drop(private_file::make(&self.0.join(file))?);
        self.file(file, true)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.0)?.sync_all()
    }

    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unmask_journal::{Contents, Store, Survey, Values, retire};

    use super::*;

    fn open(folder: &tempfile::TempDir) -> anyhow::Result<(Store<DataFolder>, Option<Contents>)> {
        DataFolder(folder.path().to_owned()).patiently(|folder| {
            let mut survey = Survey::of(folder)?;
            let contents = survey.contents.take();
            Ok((Store::open(folder.clone(), survey, 1)?.0, contents))
        })
    }

    #[test]
    fn a_journal_on_this_machine_is_read_again_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(&folder).unwrap();
        let parts = [("weights", Values::Floats(&[0.5, -2.0]))];
        (0..3).for_each(|_| store.write(b"header", Some(&parts), false).unwrap());
        drop(store);
        let (store, contents) = open(&folder).unwrap();
        let contents = contents.unwrap();
        assert_eq!((contents.header(), contents.floats("weights").unwrap()), (&b"header"[..], vec![0.5, -2.0]));
        #[cfg(unix)]
        for entry in folder.path().read_dir().unwrap() {
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.unwrap().metadata().unwrap().permissions());
            assert_eq!(mode & 0o077, 0);
        }
        let path = DataFolder(folder.path().to_owned());
        assert!(is_taken(&retire(&path).unwrap_err()), "it is open");
        drop(store);
        retire(&path).unwrap();
        assert!(open(&folder).unwrap().1.is_none());
    }

    #[test]
    fn two_relays_do_not_share_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, _) = open(&folder).unwrap();
        store.write(b"header", Some(&[]), false).unwrap();
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.contains("another relay") && error.contains("--data-dir"), "{error}");
    }
}
