//! Files in memory. As on a real disk, what was written but not synced may be lost in a power cut, in part and in any
//! order.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redb::StorageBackend;

use crate::folder::Folder;

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A folder of files. Copies share them.
#[derive(Debug, Clone)]
pub struct Files(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    rng: ChaCha8Rng,
    /// The contents by number. A file without a name is emptied when the folder is synced.
    contents: Vec<Content>,
    names: BTreeMap<String, usize>,
    /// The names that survive a power cut.
    synced_names: BTreeMap<String, usize>,
    is_full: bool,
    /// How many more changes succeed before the host dies; `None` if it lives.
    changes_left: Option<u64>,
    /// Counts the hosts. Files opened by an earlier one can no longer be used.
    host: u32,
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// What was done since the last sync.
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    files: Files,
    number: usize,
    host: u32,
}

impl Files {
    /// An empty folder; `seed` decides what a power cut destroys.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: ChaCha8Rng::seed_from_u64(seed),
            contents: Vec::new(),
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            is_full: false,
            changes_left: None,
            host: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the disk, or makes room on it. Writes to a full disk fail.
    pub fn fill(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// What a file holds, if it exists.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        state.names.get(name).map(|number| state.contents[*number].bytes.clone())
    }

    /// Changes what a file holds, behind the back of those who have it open. A file that does not exist is created.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let number = match state.names.get(name) {
            Some(number) => *number,
            None => state.add(name),
        };
        change(&mut state.contents[number].bytes);
        state.contents[number].sync_all();
        state.synced_names = state.names.clone();
    }

    /// Lets the host die after some more changes, at most `most`.
    pub fn die_soon(&self, most: u64) {
        let mut state = self.lock();
        let left = state.rng.random_range(0..=most);
        state.changes_left = Some(left);
    }

    /// Starts another host. Files that the last one had open can no longer be used.
    pub fn start_host(&self) {
        let mut state = self.lock();
        (state.changes_left, state.host) = (None, state.host + 1);
    }

    /// Loses what was not synced, in part.
    pub fn cut_power(&self) {
        let mut state = self.lock();
        let State { rng, contents, names, synced_names, .. } = &mut *state;
        if rng.random() {
            names.clone_from(synced_names);
        }
        synced_names.clone_from(names);
        for Content { bytes, synced, changes } in contents {
            bytes.clone_from(synced);
            for change in changes.drain(..) {
                match change {
                    Change::Length(length) if rng.random() => bytes.resize(length, 0),
                    Change::Write(at, data) => {
                        for (index, sector) in data.chunks(SECTOR).enumerate() {
                            let from = at + index * SECTOR;
                            if from + sector.len() <= bytes.len() && rng.random() {
                                bytes[from..from + sector.len()].copy_from_slice(sector);
                            }
                        }
                    }
                    Change::Length(_) => {}
                }
            }
            synced.clone_from(bytes);
        }
    }
}

impl State {
    fn add(&mut self, name: &str) -> usize {
        self.contents.push(Content::default());
        self.names.insert(name.to_owned(), self.contents.len() - 1);
        self.contents.len() - 1
    }

    /// Allows a change, unless the host is dead.
    fn change(&mut self) -> io::Result<()> {
        match &mut self.changes_left {
            Some(0) => Err(io::Error::other("the host is dead")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
    }
}

impl Content {
    fn sync_all(&mut self) {
        self.synced.clone_from(&self.bytes);
        self.changes.clear();
    }

    fn sync(&mut self) {
        for change in self.changes.drain(..) {
            match change {
                Change::Length(length) => self.synced.resize(length, 0),
                Change::Write(at, data) => self.synced[at..at + data.len()].copy_from_slice(&data),
            }
        }
    }
}

impl Folder for Files {
    type File = OpenFile;

    fn path(&self, file: &str) -> String {
        file.to_owned()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn has(&self, file: &str) -> io::Result<bool> {
        Ok(self.lock().names.contains_key(file))
    }

    fn open(&self, file: &str) -> io::Result<OpenFile> {
        let state = self.lock();
        Ok(OpenFile { files: self.clone(), number: state.number(file)?, host: state.host })
    }

    fn size(&self, file: &str) -> io::Result<u64> {
        let state = self.lock();
        Ok(state.contents[state.number(file)?].bytes.len() as u64)
    }

    fn open_to_read(&self, file: &str) -> io::Result<OpenFile> {
        self.open(file)
    }

    fn create(&self, file: &str) -> io::Result<OpenFile> {
        let mut state = self.lock();
        state.change()?;
        if state.names.contains_key(file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(OpenFile { files: self.clone(), number: state.add(file), host: state.host })
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        let number = state.number(file)?;
        state.names.remove(file);
        // Its space goes with the last name.
        if !state.synced_names.values().any(|other| *other == number) {
            state.contents[number] = Content::default();
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        let number = state.number(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), number);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        state.synced_names = state.names.clone();
        let State { contents, names, .. } = &mut *state;
        for (number, content) in contents.iter_mut().enumerate() {
            if !names.values().any(|named| *named == number) {
                *content = Content::default();
            }
        }
        Ok(())
    }
}

impl OpenFile {
    fn with<T>(&self, act: impl FnOnce(&mut State, usize) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.files.lock();
        if state.host != self.host {
            return Err(io::Error::other("the host is dead"));
        }
        act(&mut state, self.number)
    }

    /// Changes the file, if the host lives and the disk is not full.
    fn change(&self, act: impl FnOnce(&mut Content) -> io::Result<()>) -> io::Result<()> {
        self.with(|state, number| {
            state.change()?;
            if state.is_full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            act(&mut state.contents[number])
        })
    }
}

impl StorageBackend for OpenFile {
    fn len(&self) -> io::Result<u64> {
        self.with(|state, number| Ok(state.contents[number].bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|state, number| {
            let from = offset as usize;
            let bytes = state.contents[number].bytes.get(from..from + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = length as usize;
        self.change(|content| {
            content.bytes.resize(length, 0);
            content.changes.push(Change::Length(length));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, number| {
            state.change()?;
            state.contents[number].sync();
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = offset as usize;
        self.change(|content| {
            let bytes = content.bytes.get_mut(at..at + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(data);
            content.changes.push(Change::Write(at, data.to_vec()));
            Ok(())
        })
    }
}
