//! Two redb files, written alternately. If a write fails, the other file still holds a complete state.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use anyhow::{Context, bail, ensure};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageError, TableDefinition, TableError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unmask_room::{FORMAT, OLDEST_FORMAT};

use crate::{erasing::erase_set_aside, folder::Folder, refusal::Refusal, untouched::Untouched};

pub(crate) const FILES: [&str; 2] = ["journal-a.redb", "journal-b.redb"];
const TABLE: TableDefinition<'_, (&str, u32), &[u8]> = TableDefinition::new("lesson");
const HEADER: &str = "header";
/// Bytes per value, a little less than a power of two, because redb gives each value its own run of pages.
const CHUNK: usize = (256 << 10) - 1024;
/// Bytes of redb's page cache, small because a journal is written far more often than read.
const CACHE: usize = 4 << 20;
type Hash = [u8; 32];

/// The journal's files in one folder, open for writing.
#[derive(Debug)]
pub struct Store<F> {
    folder: F,
    /// When it was opened, in seconds since 1970; files that are set aside are named after it.
    opened: u64,
    slots: [Slot; 2],
    /// The one that holds the newest state.
    newest: usize,
    serial: u64,
}

#[derive(Debug)]
struct Slot {
    name: &'static str,
    database: Option<Database>,
    /// The parts in the file; empty after a failure.
    parts: Vec<Part>,
    is_whole: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// Counts the writes. The larger number marks the newer state.
    serial: u64,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    bytes: u64,
    /// SHA-256. redb's own checksums detect only accidental damage, and only when a file is opened.
    hash: Hash,
}

/// The content of a part.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// In little-endian.
    Floats(&'a [f32]),
    Bytes(&'a [u8]),
}

/// A state that was read.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// Where it is, for messages.
    path: String,
    /// How the header is encoded.
    format: u32,
    header: Vec<u8>,
    parts: Vec<(String, Vec<u8>)>,
}

/// What is in the journal's files, which stay as they are.
#[derive(Debug)]
pub struct Survey {
    /// The newest complete state; `None` if nothing was saved.
    pub contents: Option<Contents>,
    slots: [Surveyed; 2],
    newest: usize,
}

#[derive(Debug)]
enum Surveyed {
    Nothing,
    Whole(Manifest),
    Damaged(anyhow::Error),
}

impl Survey {
    /// Reads the journal in `folder`.
    ///
    /// # Errors
    /// A [`Refusal`] if this version cannot read the journal. Others if a relay has it open, see [`is_taken`], or if the
    /// disk cannot be read.
    pub fn of(folder: &impl Folder) -> anyhow::Result<Self> {
        let (mut slots, mut states) = ([Surveyed::Nothing, Surveyed::Nothing], Vec::new());
        for (index, name) in FILES.into_iter().enumerate() {
            match Opened::load(folder, name) {
                Ok(None) => {}
                Ok(Some(state)) => states.push((index, state)),
                Err(error) if is_taken(&error) || error.is::<Refusal>() => return Err(error),
                Err(error) if is_unwritable(&error) => return Err(cannot_be_opened(folder, name, error)),
                Err(error) => slots[index] = Surveyed::Damaged(error),
            }
        }
        states.sort_by_key(|(_, state)| std::cmp::Reverse(state.manifest.serial));
        let (mut contents, mut newest) = (None, 0);
        for (index, Opened { database, format, manifest, header }) in states {
            slots[index] = if contents.is_some() {
                Surveyed::Whole(manifest)
            } else {
                match read(&database, &manifest.parts) {
                    Ok(parts) => {
                        contents = Some(Contents { path: folder.path(FILES[index]), format, header, parts });
                        newest = index;
                        Surveyed::Whole(manifest)
                    }
                    Err(error) => Surveyed::Damaged(error),
                }
            };
        }
        let survey = Self { contents, slots, newest };
        let damages: Vec<String> = survey.damages(folder).collect();
        if survey.contents.is_none() && !damages.is_empty() {
            return Err(Refusal::Damaged(damages).into());
        }
        Ok(survey)
    }

    fn damages(&self, folder: &impl Folder) -> impl Iterator<Item = String> {
        FILES.into_iter().zip(&self.slots).filter_map(|(name, slot)| match slot {
            Surveyed::Damaged(error) => Some(format!("{} ({error:#})", folder.path(name))),
            Surveyed::Nothing | Surveyed::Whole(_) => None,
        })
    }

    /// Sentences that say which file is damaged.
    pub fn problems(&self, folder: &impl Folder) -> Vec<String> {
        self.damages(folder).map(|damage| format!("A file of the journal is damaged: {damage}.")).collect()
    }
}

impl<F: Folder> Store<F> {
    /// Opens the journal that was surveyed for writing, at a time of day in seconds since 1970. If one of the two files
    /// is damaged, renames it. Returns sentences that say so.
    ///
    /// # Errors
    /// Fails if another relay has it open, see [`is_taken`], or if the disk cannot be written: a file that was not closed
    /// is repaired first.
    pub fn open(folder: F, survey: Survey, opened: u64) -> anyhow::Result<(Self, Vec<String>)> {
        let mut store = Self { folder, opened, slots: FILES.map(Slot::new), newest: survey.newest, serial: 0 };
        let mut damaged = Vec::new();
        for (index, surveyed) in survey.slots.into_iter().enumerate() {
            let slot = &mut store.slots[index];
            match surveyed {
                Surveyed::Nothing => {}
                Surveyed::Whole(Manifest { serial, parts }) => {
                    let opened = store
                        .folder
                        .open(slot.name)
                        .map_err(anyhow::Error::from)
                        .and_then(|file| guarded(|| Ok(builder().create_with_backend(file)?)));
                    slot.database = Some(opened.map_err(|error| {
                        if is_taken(&error) { error } else { cannot_be_opened(&store.folder, slot.name, error) }
                    })?);
                    (slot.parts, slot.is_whole) = (parts, true);
                    store.serial = store.serial.max(serial);
                }
                Surveyed::Damaged(error) => damaged.push((index, error)),
            }
        }
        let problems = damaged.into_iter().map(|(index, error)| store.set_aside(index, &error)).collect();
        Ok((store, problems))
    }

    /// Renames a file. Returns a sentence that says why, and its new name.
    fn set_aside(&self, index: usize, error: &anyhow::Error) -> String {
        let slot = &self.slots[index];
        let aside = format!("{}.broken-{}", slot.name, self.opened);
        let what = format!("The journal's file {} cannot be read ({error:#})", self.folder.path(slot.name));
        match self.folder.rename(slot.name, &aside) {
            Ok(()) => format!("{what}; it was set aside as {}.", self.folder.path(&aside)),
            Err(error) => format!("{what} and cannot be set aside ({error}); move it away."),
        }
    }

    /// Deletes what earlier lessons left in the folder, and files that could not be read.
    ///
    /// # Errors
    /// Fails if the file system does.
    pub fn delete_set_aside(&self) -> anyhow::Result<()> {
        erase_set_aside(&self.folder)?.whole()
    }

    /// Writes a state. With `parts` it replaces the older file. Without them it updates the header of the newer file,
    /// whose parts are still valid. The previous state stays until all of it is on the disk. If `is_fresh`, no byte of
    /// the older file stays; otherwise the file system may keep what it replaces.
    ///
    /// # Errors
    /// Fails if the file system does, for example on a full disk. The previous state is unchanged.
    pub fn write(&mut self, header: &[u8], parts: Option<&[(&str, Values<'_>)]>, is_fresh: bool) -> anyhow::Result<()> {
        let target = if parts.is_some() { 1 - self.newest } else { self.newest };
        let serial = self.serial + 1;
        let slot = &mut self.slots[target];
        ensure!(parts.is_some() || slot.is_whole, "{} holds nothing to add to", self.folder.path(slot.name));
        match slot.write(&self.folder, serial, header, parts, is_fresh && parts.is_some()) {
            Ok(written) => {
                (slot.parts, slot.is_whole) = (written, true);
                (self.newest, self.serial) = (target, serial);
                Ok(())
            }
            Err(error) => {
                // redb requires the file to be reopened after a failed write.
                slot.database = None;
                Err(error.context(format!("{} cannot be written", self.folder.path(slot.name))))
            }
        }
    }
}

/// Renames the journal's files, whatever they hold, replacing those that were renamed before.
///
/// # Errors
/// Fails if a relay has the journal open, see [`is_taken`], or if a file cannot be renamed.
pub fn retire(folder: &impl Folder) -> anyhow::Result<()> {
    check_free(folder)?;
    for name in FILES {
        match folder.rename(name, &format!("{name}.old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot move {} out of the way", folder.path(name)));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Contents {
    /// The file that holds the state, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The format of the header, one that this version reads.
    pub fn format(&self) -> u32 {
        self.format
    }

    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// A part.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn bytes(&self, name: &str) -> anyhow::Result<&[u8]> {
        let part = self.parts.iter().find(|(own, _)| own == name);
        part.map(|(_, bytes)| bytes.as_slice()).with_context(|| format!("the journal holds no {name}"))
    }

    /// A part of numbers, written in little-endian.
    ///
    /// # Errors
    /// If there is none of this name, or if it is no whole number of numbers long.
    pub fn floats(&self, name: &str) -> anyhow::Result<Vec<f32>> {
        let (floats, rest) = self.bytes(name)?.as_chunks();
        ensure!(rest.is_empty(), "the journal's {name} are cut off");
        Ok(floats.iter().copied().map(f32::from_le_bytes).collect())
    }
}

/// A file of the journal that is open for reading.
struct Opened {
    database: Database,
    format: u32,
    manifest: Manifest,
    header: Vec<u8>,
}

impl Opened {
    /// Opens a file, if it exists, and reads its header.
    ///
    /// # Errors
    /// A [`Refusal`] if this version does not read its format.
    fn load(folder: &impl Folder, name: &str) -> anyhow::Result<Option<Self>> {
        if !folder.has(name)? {
            return Ok(None);
        }
        let file = Untouched::new(folder.open_to_read(name)?)?;
        // Check every page, so that a damaged file fails here and not later.
        let database = guarded(|| Ok(builder().set_check_integrity_on_open(true).create_with_backend(file)?))?;
        let header = guarded(|| get(&database, HEADER, 0))?;
        let (hash, rest) = header.split_first_chunk::<32>().context("its header is cut off")?;
        ensure!(*hash == sha256(rest), "the checksum of its header is wrong");
        let (format, rest) = rest.split_first_chunk().context("its header is cut off")?;
        let format = u32::from_le_bytes(*format);
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(Refusal::Version { path: folder.path(name), format }.into());
        }
        let (manifest, header) = postcard::take_from_bytes(rest).context("its header cannot be understood")?;
        Ok(Some(Self { database, format, manifest, header: header.to_vec() }))
    }
}

fn read(database: &Database, parts: &[Part]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let read = |part: &Part| {
        let length = usize::try_from(part.bytes).with_context(|| format!("its {} are too long", part.name))?;
        let mut bytes = Vec::with_capacity(length);
        for index in 0..chunks(length) {
            bytes.extend_from_slice(&get(database, &part.name, index)?);
        }
        ensure!(bytes.len() == length && sha256(&bytes) == part.hash, "the checksum of its {} is wrong", part.name);
        Ok((part.name.clone(), bytes))
    };
    guarded(|| parts.iter().map(read).collect())
}

impl Slot {
    fn new(name: &'static str) -> Self {
        Self { name, database: None, parts: Vec::new(), is_whole: false }
    }

    /// Returns the temporary name that a new file has until it holds a complete state.
    fn unfinished(&self) -> String {
        self.name.replace("redb", "unfinished")
    }

    fn write(
        &mut self,
        folder: &impl Folder,
        serial: u64,
        header: &[u8],
        parts: Option<&[(&str, Values<'_>)]>,
        is_fresh: bool,
    ) -> anyhow::Result<Vec<Part>> {
        if is_fresh {
            // redb never writes over a page in place, so the old ones stay in the file for a while.
            self.database = None;
        }
        let is_new = is_fresh || (self.database.is_none() && !folder.has(self.name)?);
        let database = match self.database.take() {
            Some(database) => database,
            None if is_new => {
                // A relay may have been killed while it created the file.
                let _ = folder.remove(&self.unfinished());
                let file = folder.create(&self.unfinished())?;
                guarded(|| Ok(builder().create_with_backend(file)?))?
            }
            None => {
                let file = folder.open(self.name)?;
                guarded(|| Ok(builder().create_with_backend(file)?))?
            }
        };
        let known = std::mem::take(&mut self.parts);
        let replaced: &[Part] = if is_new { &[] } else { &known };
        let written = guarded(|| {
            let transaction = database.begin_write()?;
            let written = {
                let mut table = transaction.open_table(TABLE)?;
                let written = match parts {
                    None => known.clone(),
                    Some(parts) => {
                        let mut written = Vec::new();
                        for &(name, values) in parts {
                            let before = replaced.iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
                            written.push(insert(&mut table, name, values)?);
                            for surplus in chunks(values.bytes())..chunks(before as usize) {
                                table.remove((name, surplus))?;
                            }
                        }
                        written
                    }
                };
                let manifest = Manifest { serial, parts: written };
                let mut body = FORMAT.to_le_bytes().to_vec();
                body.extend(postcard::to_stdvec(&manifest)?);
                body.extend_from_slice(header);
                let whole = [sha256(&body).as_slice(), &body].concat();
                table.insert((HEADER, 0), whole.as_slice())?;
                manifest.parts
            };
            transaction.commit()?;
            Ok(written)
        });
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // The file's content is unchanged.
                self.parts = known;
                return Err(error);
            }
        };
        self.database = Some(database);
        if is_new {
            folder.rename(&self.unfinished(), self.name)?;
            folder.sync()?;
        }
        Ok(written)
    }
}

impl Values<'_> {
    fn bytes(self) -> usize {
        match self {
            Self::Floats(values) => 4 * values.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Fills `room` with the bytes from `start` on, a multiple of four.
    fn copy(self, start: usize, room: &mut [u8]) {
        match self {
            Self::Floats(values) => {
                for (room, value) in room.as_chunks_mut().0.iter_mut().zip(&values[start / 4..]) {
                    *room = value.to_le_bytes();
                }
            }
            Self::Bytes(bytes) => room.copy_from_slice(&bytes[start..start + room.len()]),
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Catches panics, since redb may panic on a damaged file.
fn guarded<T>(action: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|_| bail!("it is damaged"))
}

fn cannot_be_opened(folder: &impl Folder, name: &str, error: anyhow::Error) -> anyhow::Error {
    let path = folder.path(name);
    error.context(format!("{path} cannot be opened; free some space or make it writable, and start again"))
}

/// Whether an error is the disk's and says nothing of the file.
fn is_unwritable(error: &anyhow::Error) -> bool {
    let io = match error.downcast_ref() {
        Some(DatabaseError::Storage(StorageError::Io(io))) => Some(io),
        _ => error.downcast_ref::<io::Error>(),
    };
    io.is_some_and(|io| {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        [StorageFull, QuotaExceeded, ReadOnlyFilesystem, PermissionDenied].contains(&io.kind())
    })
}

/// Checks that no relay has the journal open, whatever is in it.
///
/// # Errors
/// Fails if a relay has, see [`is_taken`].
pub(crate) fn check_free(folder: &impl Folder) -> anyhow::Result<()> {
    match Survey::of(folder) {
        Err(error) if is_taken(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a journal could not be opened because another relay has it open.
pub fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(DatabaseError::DatabaseAlreadyOpen))
}

fn chunks(bytes: usize) -> u32 {
    bytes.div_ceil(CHUNK) as u32
}

fn get(database: &Database, name: &str, index: u32) -> anyhow::Result<Vec<u8>> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(TableError::TableDoesNotExist(_)) => bail!("it holds no lesson"),
        table => table?,
    };
    let value = table.get((name, index))?.with_context(|| format!("it lacks a part of {name}"))?;
    Ok(value.value().to_vec())
}

/// Writes a part chunk by chunk, directly into redb's pages.
fn insert(
    table: &mut redb::Table<'_, (&'static str, u32), &'static [u8]>,
    name: &str,
    values: Values<'_>,
) -> anyhow::Result<Part> {
    let mut hash = Sha256::new();
    let bytes = values.bytes();
    for index in 0..chunks(bytes) {
        let start = index as usize * CHUNK;
        let mut guard = table.insert_reserve((name, index), CHUNK.min(bytes - start))?;
        values.copy(start, guard.as_mut());
        hash.update(&*guard.as_mut());
    }
    Ok(Part { name: name.to_owned(), bytes: bytes as u64, hash: hash.finalize().into() })
}

fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Files;

    /// Returns values unique to this state, over several chunks.
    fn floats(state: u32, length: usize) -> Vec<f32> {
        (0..length).map(|i| (i as u32 ^ state << 20) as f32 * 0.1).collect()
    }

    const LENGTH: usize = 200_000;

    #[derive(Debug)]
    struct Found {
        store: Store<Files>,
        contents: Option<Contents>,
        problems: Vec<String>,
    }

    fn try_open(files: &Files) -> anyhow::Result<Found> {
        let mut survey = Survey::of(files)?;
        let contents = survey.contents.take();
        let (store, problems) = Store::open(files.clone(), survey, 1)?;
        Ok(Found { store, contents, problems })
    }

    fn open(files: &Files) -> Found {
        try_open(files).unwrap()
    }

    /// The names and bytes of all files.
    fn everything(files: &Files) -> Vec<(String, Option<Vec<u8>>)> {
        files.names().into_iter().map(|name| (name.clone(), files.read(&name))).collect()
    }

    fn write(store: &mut Store<Files>, state: u32) -> anyhow::Result<()> {
        let values = floats(state, LENGTH - state as usize);
        let parts = [("weights", Values::Floats(&values)), ("records", Values::Bytes(&[state as u8; 5]))];
        store.write(format!("state {state}").as_bytes(), Some(&parts), false)
    }

    fn holds(contents: &Contents, state: u32) {
        assert_eq!(contents.header, format!("state {state}").as_bytes());
        let values = contents.floats("weights").unwrap();
        assert_eq!(values, floats(state, LENGTH - state as usize));
        assert_eq!(contents.bytes("records").unwrap(), [state as u8; 5]);
        assert!(contents.bytes("nothing").is_err());
    }

    /// Asserts that the contents are complete: the last of three states if it is undamaged, or the one before.
    fn newest(contents: &Contents) -> u32 {
        let state = if contents.header == b"state 3" { 3 } else { 2 };
        holds(contents, state);
        state
    }

    /// Returns a folder with a journal of so many states, and the names of its older and newer file.
    fn journal(states: u32) -> (Files, [&'static str; 2]) {
        let files = Files::new(1);
        let mut store = open(&files).store;
        (1..=states).for_each(|state| write(&mut store, state).unwrap());
        let names = [1 - store.newest, store.newest].map(|slot| FILES[slot]);
        drop(store);
        (files, names)
    }

    #[test]
    fn what_was_written_last_is_read() {
        assert!(open(&journal(0).0).contents.is_none());
        for states in 1..5 {
            let (files, _) = journal(states);
            let Found { mut store, contents, problems } = open(&files);
            holds(&contents.unwrap(), states);
            assert_eq!(problems, [""; 0]);
            store.write(b"later", None, false).unwrap();
            drop(store);
            let contents = open(&files).contents.unwrap();
            assert_eq!(contents.header, b"later");
            assert_eq!(contents.floats("weights").unwrap(), floats(states, LENGTH - states as usize));
        }
    }

    #[test]
    fn a_header_alone_needs_parts() {
        let mut store = open(&Files::new(1)).store;
        assert!(store.write(b"header", None, false).unwrap_err().to_string().contains("nothing to add to"));
        write(&mut store, 1).unwrap();
    }

    /// If the newest file is truncated at any point, the previous state is read.
    #[test]
    fn a_torn_file_gives_the_state_before() {
        let (files, [_, newer]) = journal(3);
        let whole = files.read(newer).unwrap().len();
        for kept in [0, 1, 100, 4096, whole / 3, whole / 2, whole - 4096, whole - 1] {
            let (files, [_, newer]) = journal(3);
            files.edit(newer, |bytes| bytes.truncate(kept));
            let Found { mut store, contents, problems } = open(&files);
            newest(&contents.unwrap());
            for problem in problems {
                assert!(problem.contains("set aside as") && files.read(newer).is_none(), "{problem}");
            }
            write(&mut store, 7).unwrap();
            drop(store);
            holds(&open(&files).contents.unwrap(), 7);
        }
    }

    /// A damaged byte is detected if its page is in use.
    #[test]
    fn flipped_bytes_are_never_read() {
        let mut noticed = 0;
        for place in 0..32 {
            let (files, [_, newer]) = journal(3);
            files.edit(newer, |bytes| {
                let place = place * bytes.len() / 32 + 17 * place;
                bytes[place..place + 16].iter_mut().for_each(|byte| *byte = !*byte);
            });
            noticed += u32::from(newest(&open(&files).contents.unwrap()) == 2);
        }
        // 14 of the 32 places are in pages that hold data.
        assert!(noticed >= 10, "{noticed} of 32");
    }

    /// Without a state to go on from, everything stays as it is until the user asks for another lesson.
    #[test]
    fn rubbish_in_both_files_is_refused_and_stays() {
        for rubbish in [&b"rubbish"[..], b""] {
            let (files, names) = journal(2);
            names.iter().for_each(|name| files.edit(name, |bytes| *bytes = rubbish.to_vec()));
            let before = everything(&files);
            let error = format!("{:#}", try_open(&files).unwrap_err());
            assert!(error.contains(FILES[0]) && error.contains(FILES[1]) && error.contains("--new"), "{error}");
            assert!(everything(&files) == before);
            retire(&files).unwrap();
            let Found { mut store, contents, .. } = open(&files);
            assert!(contents.is_none());
            write(&mut store, 5).unwrap();
            drop(store);
            holds(&open(&files).contents.unwrap(), 5);
            assert_eq!(files.read("journal-a.redb.old").unwrap(), rubbish);
        }
    }

    /// Gives a file's header another format.
    fn rewrite(files: &Files, name: &str, format: u32) {
        let database = Database::builder().create_with_backend(files.open(name).unwrap()).unwrap();
        let header = get(&database, HEADER, 0).unwrap();
        let body = [&format.to_le_bytes(), &header[36..]].concat();
        let transaction = database.begin_write().unwrap();
        let whole = [sha256(&body).as_slice(), &body].concat();
        transaction.open_table(TABLE).unwrap().insert((HEADER, 0), whole.as_slice()).unwrap();
        transaction.commit().unwrap();
    }

    #[test]
    fn another_format_is_refused_by_number_and_stays() {
        for format in [OLDEST_FORMAT - 1, FORMAT + 1] {
            for both in [true, false] {
                let (files, [older, newer]) = journal(2);
                rewrite(&files, newer, format);
                if both {
                    rewrite(&files, older, format);
                }
                let before = everything(&files);
                let error = format!("{:#}", try_open(&files).unwrap_err());
                for word in [newer, &format!("in format {format}"), &format!("formats 8 to {FORMAT}"), "--new"] {
                    assert!(error.contains(word) || both && error.contains(older), "no {word} in {error}");
                }
                assert!(everything(&files) == before);
            }
        }
        let (files, [_, newer]) = journal(2);
        rewrite(&files, newer, OLDEST_FORMAT);
        assert_eq!(open(&files).contents.unwrap().format(), OLDEST_FORMAT);
    }

    /// Looking at a journal that was not closed repairs nothing.
    #[test]
    fn reading_changes_no_byte() {
        let files = Files::new(1);
        let mut store = open(&files).store;
        (1..=3).for_each(|state| write(&mut store, state).unwrap());
        files.start_host();
        drop(store);
        let before = everything(&files);
        files.fill(true);
        assert_eq!(newest(&Survey::of(&files).unwrap().contents.unwrap()), 3);
        assert!(everything(&files) == before);
        files.fill(false);
        drop(open(&files));
        assert!(everything(&files) != before, "it was not closed");
        files.edit(FILES[0], |bytes| bytes.truncate(4096));
        let before = everything(&files);
        let survey = Survey::of(&files).unwrap();
        newest(survey.contents.as_ref().unwrap());
        let problems = survey.problems(&files);
        assert!(problems.len() == 1 && problems[0].contains(FILES[0]), "{problems:?}");
        assert!(everything(&files) == before);
    }

    /// A failed write leaves the previous state, and writing resumes once the cause is gone.
    #[test]
    fn what_cannot_be_written_costs_nothing() {
        let (files, _) = journal(2);
        let mut store = open(&files).store;
        files.fill(true);
        for _ in 0..2 {
            let error = format!("{:#}", write(&mut store, 3).unwrap_err());
            assert!(error.contains("cannot be written"), "{error}");
            assert!(store.write(b"header", None, false).is_err());
        }
        files.fill(false);
        store.write(b"header", None, false).unwrap();
        assert_eq!(open(&files).contents.unwrap().header, b"header");
        write(&mut store, 4).unwrap();
        drop(store);
        holds(&open(&files).contents.unwrap(), 4);
    }

    /// A relay that starts on a full disk says so, and loses nothing.
    #[test]
    fn a_full_disk_is_no_damage() {
        let files = Files::new(1);
        let mut store = open(&files).store;
        (1..=3).for_each(|state| write(&mut store, state).unwrap());
        files.start_host();
        drop(store);
        files.fill(true);
        let error = format!("{:#}", try_open(&files).unwrap_err());
        assert!(error.contains("free some space"), "{error}");
        files.fill(false);
        let Found { contents, problems, .. } = open(&files);
        assert_eq!((newest(&contents.unwrap()), problems), (3, Vec::new()));
    }

    /// A host may die between any two changes of a file, and the power may go with it.
    #[test]
    fn the_state_before_survives_a_death_at_any_point() {
        let mut outcomes = [0; 2];
        for seed in 0..60 {
            let files = Files::new(seed);
            let mut store = open(&files).store;
            (1..=2).for_each(|state| write(&mut store, state).unwrap());
            files.die_soon(40);
            let is_written = write(&mut store, 3).is_ok();
            files.start_host();
            drop(store);
            if seed % 2 == 0 {
                files.cut_power();
            }
            let Found { mut store, contents, problems } = open(&files);
            assert_eq!(problems, [""; 0], "seed {seed}");
            let state = newest(&contents.unwrap());
            assert!(state == 3 || !is_written, "seed {seed}");
            outcomes[state as usize - 2] += 1;
            write(&mut store, 5).unwrap();
            drop(store);
            holds(&open(&files).contents.unwrap(), 5);
        }
        assert!(outcomes.iter().all(|count| *count > 5), "{outcomes:?}");
    }

    #[test]
    fn a_new_lesson_keeps_the_last_one_aside() {
        let (files, _) = journal(2);
        retire(&files).unwrap();
        let Found { mut store, contents, .. } = open(&files);
        assert!(contents.is_none());
        write(&mut store, 1).unwrap();
        drop(store);
        retire(&files).unwrap();
        retire(&Files::new(1)).unwrap();
        assert!(files.read("journal-b.redb.old").is_some() && files.read(FILES[1]).is_none());
    }

    /// redb leaves replaced pages in its file; a fresh file has none of them.
    #[test]
    fn a_fresh_file_holds_no_byte_of_the_one_before() {
        let files = Files::new(1);
        let mut store = open(&files).store;
        let parts = [("weights", Values::Floats(&[1.0; 9]))];
        let holds = |canary: &str| {
            FILES.map(|name| {
                let bytes = files.read(name).unwrap_or_default();
                bytes.windows(canary.len()).any(|part| part == canary.as_bytes())
            })
        };
        for _ in 0..2 {
            store.write(b"a canary", Some(&parts), false).unwrap();
        }
        assert_eq!(holds("a canary"), [true, true]);
        for name in ["journal-a.redb.old", "journal-b.redb.broken-7", "lesson.unmask.old"] {
            files.edit(name, |bytes| *bytes = b"a canary".to_vec());
        }
        for name in ["lesson.unmask", "notes.old"] {
            files.edit(name, |bytes| *bytes = b"another file".to_vec());
        }
        store.delete_set_aside().unwrap();
        for left in [1, 0] {
            store.write(b"nobody", Some(&parts), true).unwrap();
            assert_eq!(holds("a canary").into_iter().filter(|holds| *holds).count(), left);
        }
        assert_eq!(files.names(), [FILES[0], FILES[1], "lesson.unmask", "notes.old"]);
        drop(store);
        assert_eq!(open(&files).contents.unwrap().header, b"nobody");
    }
}
