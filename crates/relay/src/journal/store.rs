//! Two redb files, written alternately. If a write fails, the other file still holds a complete state.

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, TableDefinition, TableError};
use ring::digest::{self, SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{clock::unix_now, private_file};

const FILES: [&str; 2] = ["journal-a.redb", "journal-b.redb"];
const TABLE: TableDefinition<'_, (&str, u32), &[u8]> = TableDefinition::new("lesson");
const HEADER: &str = "header";
/// Changes whenever the encoding changes.
const FORMAT: u32 = 8;
/// Bytes per value, a little less than a power of two, because redb gives each value its own run of pages.
const CHUNK: usize = (256 << 10) - 1024;
/// Bytes of redb's page cache, small because a journal is written far more often than read.
const CACHE: usize = 4 << 20;
/// Time for a relay that has just been stopped to close its files.
const PATIENCE: Duration = Duration::from_secs(3);

type Hash = [u8; 32];

/// The journal's files in one folder, open for writing.
#[derive(Debug)]
pub(crate) struct Store {
    slots: [Slot; 2],
    /// The one that holds the newest state.
    newest: usize,
    serial: u64,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
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

#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a> {
    /// In little-endian.
    Floats(&'a [f32]),
    Bytes(&'a [u8]),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    pub(crate) header: Vec<u8>,
    parts: Vec<(String, Vec<u8>)>,
}

#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) store: Store,
    pub(crate) contents: Option<Contents>,
    /// Sentences that say what is wrong with files that were set aside.
    pub(crate) problems: Vec<String>,
}

impl Store {
    /// Opens the journal in `folder`. Renames a file that is damaged or has another format.
    ///
    /// # Errors
    /// Fails if another relay has it open.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Found> {
        let mut slots = FILES.map(|name| Slot::new(folder.join(name)));
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for (index, slot) in slots.iter_mut().enumerate() {
            match slot.load() {
                Ok(None) => {}
                Ok(Some((manifest, header))) => found.push((manifest.serial, index, header, manifest.parts)),
                Err(error) if is_taken(&error) => {
                    return Err(error.context(format!(
                        "another relay keeps its journal in {}; stop it, or give this one a folder of its own with \
                         --data-dir, or no journal with --no-journal",
                        folder.display()
                    )));
                }
                Err(error) => problems.push(slot.set_aside(&error)),
            }
        }
        found.sort_by_key(|(serial, ..)| std::cmp::Reverse(*serial));
        let mut store = Self { slots, newest: 0, serial: 0 };
        let mut contents = None;
        for (serial, index, header, parts) in found {
            store.serial = store.serial.max(serial);
            let slot = &mut store.slots[index];
            if contents.is_some() {
                (slot.parts, slot.is_whole) = (parts, true);
                continue;
            }
            match slot.read(&parts) {
                Ok(values) => {
                    contents = Some(Contents { header, parts: values });
                    (slot.parts, slot.is_whole) = (parts, true);
                    store.newest = index;
                }
                Err(error) => problems.push(slot.set_aside(&error)),
            }
        }
        Ok(Found { store, contents, problems })
    }

    /// Sets both files aside because their newest state cannot be used. Returns sentences that say where they went.
    pub(crate) fn reject(&mut self, error: &anyhow::Error) -> Vec<String> {
        let kept = self.slots.iter_mut().filter(|slot| slot.is_whole);
        kept.map(|slot| slot.set_aside(error)).collect()
    }

    /// Renames the journal in `folder`, replacing one that was renamed before.
    ///
    /// # Errors
    /// Fails if a file cannot be renamed.
    pub(crate) fn set_aside(folder: &Path) -> anyhow::Result<()> {
        for name in FILES {
            let (path, aside) = (folder.join(name), folder.join(format!("{name}.old")));
            match fs::rename(&path, &aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot move {} out of the way", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a state. With `parts` it replaces the older file. Without them it updates the header of the newer file,
    /// whose parts are still valid. The previous state stays until all of it is on the disk. If `is_fresh`, no byte of
    /// the older file stays; otherwise the file system may keep what it replaces.
    ///
    /// # Errors
    /// Fails if the file system does, for example on a full disk. The previous state is unchanged.
    pub(crate) fn write(
        &mut self,
        header: &[u8],
        parts: Option<&[(&str, Values<'_>)]>,
        is_fresh: bool,
    ) -> anyhow::Result<()> {
        let target = if parts.is_some() { 1 - self.newest } else { self.newest };
        let serial = self.serial + 1;
        let slot = &mut self.slots[target];
        ensure!(parts.is_some() || slot.is_whole, "{} holds nothing to add to", slot.path.display());
        match slot.write(serial, header, parts, is_fresh && parts.is_some()) {
            Ok(written) => {
                (slot.parts, slot.is_whole) = (written, true);
                (self.newest, self.serial) = (target, serial);
                Ok(())
            }
            Err(error) => {
                // redb requires the file to be reopened after a failed write.
                slot.database = None;
                Err(error.context(format!("{} cannot be written", slot.path.display())))
            }
        }
    }
}

impl Contents {
    pub(crate) fn bytes(&self, name: &str) -> anyhow::Result<&[u8]> {
        let part = self.parts.iter().find(|(own, _)| own == name);
        part.map(|(_, bytes)| bytes.as_slice()).with_context(|| format!("the journal holds no {name}"))
    }

    pub(crate) fn floats(&self, name: &str) -> anyhow::Result<Vec<f32>> {
        let (floats, rest) = self.bytes(name)?.as_chunks();
        ensure!(rest.is_empty(), "the journal's {name} are cut off");
        Ok(floats.iter().copied().map(f32::from_le_bytes).collect())
    }
}

impl Slot {
    fn new(path: PathBuf) -> Self {
        Self { path, database: None, parts: Vec::new(), is_whole: false }
    }

    /// Returns the temporary name that a new file has until it holds a complete state.
    fn unfinished(&self) -> PathBuf {
        self.path.with_extension("unfinished")
    }

    /// Opens the file, if it exists, and reads its header.
    fn load(&mut self) -> anyhow::Result<Option<(Manifest, Vec<u8>)>> {
        if !self.path.try_exists()? {
            return Ok(None);
        }
        let deadline = Instant::now() + PATIENCE;
        let database = loop {
            // Check every page, so that a damaged file fails here and not later.
            let opened = guarded(|| Ok(builder().set_check_integrity_on_open(true).open(&self.path)?));
            match opened {
                Err(error) if is_taken(&error) && Instant::now() < deadline => sleep(Duration::from_millis(50)),
                opened => break opened?,
            }
        };
        let database = self.database.insert(database);
        let header = guarded(|| get(database, HEADER, 0))?;
        let (hash, rest) = header.split_first_chunk::<32>().context("its header is cut off")?;
        ensure!(*hash == sha256(rest), "the checksum of its header is wrong");
        let (format, rest) = rest.split_first_chunk().context("its header is cut off")?;
        let format = u32::from_le_bytes(*format);
        ensure!(format == FORMAT, "another version of this program wrote it: format {format}, not {FORMAT}");
        let (manifest, header) = postcard::take_from_bytes(rest).context("its header cannot be understood")?;
        Ok(Some((manifest, header.to_vec())))
    }

    fn read(&self, parts: &[Part]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let database = self.database.as_ref().context("it is not open")?;
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

    fn write(
        &mut self,
        serial: u64,
        header: &[u8],
        parts: Option<&[(&str, Values<'_>)]>,
        is_fresh: bool,
    ) -> anyhow::Result<Vec<Part>> {
        if is_fresh {
            // redb never writes over a page in place, so the old ones stay in the file for a while.
            self.database = None;
        }
        let is_new = is_fresh || (self.database.is_none() && !self.path.try_exists()?);
        let database = match self.database.take() {
            Some(database) => database,
            None if is_new => {
                // A relay may have been killed while it created the file.
                let _ = fs::remove_file(self.unfinished());
                // The file holds names and addresses, so it must be private.
                drop(private_file::make(&self.unfinished())?);
                guarded(|| Ok(builder().create(self.unfinished())?))?
            }
            None => guarded(|| Ok(builder().open(&self.path)?))?,
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
            fs::rename(self.unfinished(), &self.path)?;
            sync_folder(&self.path)?;
        }
        Ok(written)
    }

    /// Renames the file. Returns a sentence that says why, and its new name.
    fn set_aside(&mut self, error: &anyhow::Error) -> String {
        self.database = None;
        (self.parts, self.is_whole) = (Vec::new(), false);
        let mut aside = self.path.clone().into_os_string();
        aside.push(format!(".broken-{}", unix_now()));
        let aside = PathBuf::from(aside);
        let what = format!("The journal's file {} cannot be read ({error:#})", self.path.display());
        match fs::rename(&self.path, &aside) {
            Ok(()) => format!("{what}; it was set aside as {}.", aside.display()),
            Err(error) => format!("{what} and cannot be set aside ({error}); move it away."),
        }
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

fn is_taken(error: &anyhow::Error) -> bool {
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
    let mut hash = digest::Context::new(&SHA256);
    let bytes = values.bytes();
    for index in 0..chunks(bytes) {
        let start = index as usize * CHUNK;
        let mut guard = table.insert_reserve((name, index), CHUNK.min(bytes - start))?;
        values.copy(start, guard.as_mut());
        hash.update(guard.as_mut());
    }
    Ok(Part { name: name.to_owned(), bytes: bytes as u64, hash: to_hash(&hash.finish()) })
}

fn sha256(bytes: &[u8]) -> Hash {
    to_hash(&digest(&SHA256, bytes))
}

fn to_hash(digest: &digest::Digest) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// Syncs the folder, without which a new name may not be on the disk.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::OpenOptions,
        io::{Read, Seek, SeekFrom, Write},
    };

    use super::*;

    /// Returns values unique to this state, over several chunks.
    fn floats(state: u32, length: usize) -> Vec<f32> {
        (0..length).map(|i| (i as u32 ^ state << 20) as f32 * 0.1).collect()
    }

    const LENGTH: usize = 200_000;

    fn write(store: &mut Store, state: u32) -> anyhow::Result<()> {
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

    /// Returns a folder with a journal of so many states, and the paths of its older and newer file.
    fn journal(states: u32) -> (tempfile::TempDir, [PathBuf; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap().store;
        (1..=states).for_each(|state| write(&mut store, state).unwrap());
        let [older, newer] = [1 - store.newest, store.newest].map(|slot| folder.path().join(FILES[slot]));
        (folder, [older, newer])
    }

    #[test]
    fn what_was_written_last_is_read() {
        let (folder, _) = journal(0);
        assert!(Store::open(folder.path()).unwrap().contents.is_none());
        for states in 1..5 {
            let (folder, _) = journal(states);
            let Found { mut store, contents, problems } = Store::open(folder.path()).unwrap();
            holds(&contents.unwrap(), states);
            assert_eq!(problems, [""; 0]);
            store.write(b"later", None, false).unwrap();
            drop(store);
            let contents = Store::open(folder.path()).unwrap().contents.unwrap();
            assert_eq!(contents.header, b"later");
            assert_eq!(contents.floats("weights").unwrap(), floats(states, LENGTH - states as usize));
        }
    }

    #[test]
    fn a_header_alone_needs_parts() {
        let (folder, _) = journal(0);
        let mut store = Store::open(folder.path()).unwrap().store;
        assert!(store.write(b"header", None, false).unwrap_err().to_string().contains("nothing to add to"));
        write(&mut store, 1).unwrap();
    }

    #[test]
    fn two_relays_do_not_share_a_journal() {
        let (folder, _) = journal(2);
        let _open = Store::open(folder.path()).unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("another relay") && error.contains("--data-dir"), "{error}");
    }

    /// If the newest file is truncated at any point, the previous state is read.
    #[test]
    fn a_torn_file_gives_the_state_before() {
        let whole = {
            let (_folder, [_, newer]) = journal(3);
            fs::metadata(newer).unwrap().len()
        };
        for kept in [0, 1, 100, 4096, whole / 3, whole / 2, whole - 4096, whole - 1] {
            let (folder, [_, newer]) = journal(3);
            OpenOptions::new().write(true).open(&newer).unwrap().set_len(kept).unwrap();
            let Found { mut store, contents, problems } = Store::open(folder.path()).unwrap();
            newest(&contents.unwrap());
            for problem in problems {
                assert!(problem.contains("set aside as") && !newer.exists(), "{problem}");
            }
            write(&mut store, 7).unwrap();
            drop(store);
            holds(&Store::open(folder.path()).unwrap().contents.unwrap(), 7);
        }
    }

    /// A damaged byte is detected if its page is in use.
    #[test]
    fn flipped_bytes_are_never_read() {
        let (_folder, [_, newer]) = journal(3);
        let whole = fs::metadata(newer).unwrap().len();
        let mut noticed = 0;
        for place in (0..32).map(|i| i * whole / 32 + 17 * i) {
            let (folder, [_, newer]) = journal(3);
            let mut file = OpenOptions::new().read(true).write(true).open(&newer).unwrap();
            let mut bytes = [0; 16];
            file.seek(SeekFrom::Start(place)).unwrap();
            file.read_exact(&mut bytes).unwrap();
            file.seek(SeekFrom::Start(place)).unwrap();
            file.write_all(&bytes.map(|byte| !byte)).unwrap();
            drop(file);
            let contents = Store::open(folder.path()).unwrap().contents.unwrap();
            noticed += u32::from(newest(&contents) == 2);
        }
        // 14 of the 32 places are in pages that hold data.
        assert!(noticed >= 10, "{noticed} of 32");
    }

    #[test]
    fn rubbish_in_both_files_is_set_aside() {
        let (folder, files) = journal(2);
        files.iter().for_each(|file| fs::write(file, b"rubbish").unwrap());
        let Found { mut store, contents, problems } = Store::open(folder.path()).unwrap();
        assert!(contents.is_none() && problems.len() == 2);
        write(&mut store, 5).unwrap();
        drop(store);
        holds(&Store::open(folder.path()).unwrap().contents.unwrap(), 5);
    }

    /// A failed write leaves the previous state, and writing resumes once the cause is gone.
    #[test]
    fn what_cannot_be_written_costs_nothing() {
        let (folder, [older, _]) = journal(2);
        let mut store = Store::open(folder.path()).unwrap().store;
        // Simulates a lost device: the path is not a file and cannot be replaced by one.
        store.slots[1 - store.newest].database = None;
        fs::remove_file(&older).unwrap();
        fs::create_dir(&older).unwrap();
        for _ in 0..2 {
            let error = format!("{:#}", write(&mut store, 3).unwrap_err());
            assert!(error.contains("cannot be written"), "{error}");
        }
        store.write(b"header", None, false).unwrap();
        fs::remove_dir(&older).unwrap();
        write(&mut store, 4).unwrap();
        drop(store);
        holds(&Store::open(folder.path()).unwrap().contents.unwrap(), 4);
    }

    #[test]
    fn a_new_lesson_keeps_the_last_one_aside() {
        let (folder, _) = journal(2);
        Store::set_aside(folder.path()).unwrap();
        let Found { mut store, contents, .. } = Store::open(folder.path()).unwrap();
        assert!(contents.is_none());
        write(&mut store, 1).unwrap();
        drop(store);
        Store::set_aside(folder.path()).unwrap();
        Store::set_aside(&folder.path().join("not there")).unwrap();
        assert!(folder.path().join("journal-b.redb.old").exists() && !folder.path().join(FILES[1]).exists());
    }

    /// redb leaves replaced pages in its file; a fresh file has none of them.
    #[test]
    fn a_fresh_file_holds_no_byte_of_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap().store;
        let parts = [("weights", Values::Floats(&[1.0; 9]))];
        let holds = |canary: &str| {
            FILES.map(|name| {
                let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
                bytes.windows(canary.len()).any(|part| part == canary.as_bytes())
            })
        };
        for _ in 0..2 {
            store.write(b"a canary", Some(&parts), false).unwrap();
        }
        assert_eq!(holds("a canary"), [true, true]);
        for left in [1, 0] {
            store.write(b"nobody", Some(&parts), true).unwrap();
            assert_eq!(holds("a canary").into_iter().filter(|holds| *holds).count(), left);
        }
        drop(store);
        assert_eq!(Store::open(folder.path()).unwrap().contents.unwrap().header, b"nobody");
    }
}
