//! The journal's files in a relay's data folder.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use redb::backends::FileBackend;
use unmask_journal::{Folder, Found, Store, is_taken};

use crate::{clock::unix_now, private_file};

/// Time for a relay that has just been stopped to close its files.
const PATIENCE: Duration = Duration::from_secs(3);

/// A folder on this machine.
#[derive(Debug, Clone)]
pub(crate) struct DataFolder(pub(crate) PathBuf);

impl DataFolder {
    /// Opens the journal in the folder. Renames a file that is damaged or has another format.
    ///
    /// # Errors
    /// If another relay has it open.
    pub(crate) fn open_journal(self) -> anyhow::Result<Found<Self>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Store::open(self.clone(), unix_now()) {
                Err(error) if is_taken(&error) && Instant::now() < deadline => sleep(Duration::from_millis(50)),
                Err(error) if is_taken(&error) => {
                    return Err(error.context(format!(
                        "another relay keeps its journal in {}; stop it, or give this one a folder of its own with \
                         --data-dir, or no journal with --no-journal",
                        self.0.display()
                    )));
                }
                opened => return opened,
            }
        }
    }

    fn file(&self, name: &str) -> io::Result<FileBackend> {
        let file = OpenOptions::new().read(true).write(true).open(self.0.join(name))?;
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

    fn open(&self, file: &str) -> io::Result<FileBackend> {
        self.file(file)
    }

    fn create(&self, file: &str) -> io::Result<FileBackend> {
        drop(private_file::make(&self.0.join(file))?);
        self.file(file)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unmask_journal::Values;

    use super::*;

    fn open(folder: &tempfile::TempDir) -> anyhow::Result<Found<DataFolder>> {
        DataFolder(folder.path().to_owned()).open_journal()
    }

    #[test]
    fn a_journal_on_this_machine_is_read_again_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder).unwrap().store;
        let parts = [("weights", Values::Floats(&[0.5, -2.0]))];
        (0..3).for_each(|_| store.write(b"header", Some(&parts), false).unwrap());
        drop(store);
        let Found { store, contents, problems } = open(&folder).unwrap();
        let contents = contents.unwrap();
        assert_eq!((contents.header(), contents.floats("weights").unwrap()), (&b"header"[..], vec![0.5, -2.0]));
        assert_eq!(problems, [""; 0]);
        #[cfg(unix)]
        for entry in folder.path().read_dir().unwrap() {
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.unwrap().metadata().unwrap().permissions());
            assert_eq!(mode & 0o077, 0);
        }
        store.retire().unwrap();
        assert!(open(&folder).unwrap().contents.is_none());
    }

    #[test]
    fn two_relays_do_not_share_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(&folder).unwrap().store;
        store.write(b"header", Some(&[]), false).unwrap();
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.contains("another relay") && error.contains("--data-dir"), "{error}");
    }
}
