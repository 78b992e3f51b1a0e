//! The disk of a simulated host: its journal in two redb files, and the text of its recording.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::anyhow;
use unmask_recording::{Recording, RecordingError};
use unmask_room::{
    Journal, LastLesson, NotSaved, RecordingStore, Save, Saved,
    bench::{self, End},
    digest,
};

use super::files::Files;
use crate::{
    lesson::{self, Found, save},
    store::Store,
};

/// Changes of a file in the longest save, about.
const CHANGES: u64 = 60;

/// A disk. Copies share it.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Mutex<Inside>>);

#[derive(Debug)]
struct Inside {
    files: Files,
    store: Option<Store<Files>>,
    /// Saves that the host's thread has not begun.
    waiting: VecDeque<Save>,
    has_stopped: bool,
    /// Digests of all weights that a room has handed over.
    given: BTreeSet<String>,
    recording: String,
}

impl Disk {
    /// An empty disk; `seed` decides when a host dies, and what a power cut destroys.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Inside {
            files: Files::new(seed),
            store: None,
            waiting: VecDeque::new(),
            has_stopped: false,
            given: BTreeSet::new(),
            recording: String::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the disk, or makes room on it.
    pub fn fill(&self, is_full: bool) {
        self.lock().files.fill(is_full);
    }

    pub fn is_full(&self) -> bool {
        self.lock().files.is_full()
    }

    /// Puts a file there, such as one that an earlier version wrote.
    pub fn put(&self, name: &str, content: Vec<u8>) {
        self.lock().files.edit(name, |bytes| *bytes = content);
    }

    /// Ends the thread that writes the journal, until the host starts again.
    pub fn stop_writing(&self) {
        self.lock().has_stopped = true;
    }

    pub fn has_stopped(&self) -> bool {
        self.lock().has_stopped
    }

    /// Whether a room has ever handed over weights with this digest.
    pub fn was_given(&self, digest: &str) -> bool {
        self.lock().given.contains(digest)
    }

    /// Whether a host would go on with a lesson.
    pub fn has_lesson(&self) -> bool {
        self.lock().files.names().iter().any(|name| name.ends_with(".redb"))
    }

    /// Each file's name and bytes, and the recording.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let inside = self.lock();
        let names = inside.files.names().into_iter();
        let files = names.filter_map(|name| inside.files.read(&name).map(|bytes| (name, bytes)));
        files.chain([("recording".to_owned(), inside.recording.clone().into_bytes())]).collect()
    }
}

impl Inside {
    /// Writes the state that waits longest; returns what became of it, and `None` if there was none.
    fn write_next(&mut self) -> Option<Saved> {
        let next = self.waiting.pop_front()?;
        let outcome = match &mut self.store {
            Some(store) => save(store, &next),
            None => Err(anyhow!("no host has opened the journal")),
        };
        Some(Saved { round: next.round, outcome: outcome.map_err(NotSaved) })
    }
}

impl bench::Disk for Disk {
    fn start(&self, unix: u64) -> anyhow::Result<(Option<LastLesson>, Vec<String>)> {
        let mut inside = self.lock();
        inside.files.start_host();
        (inside.store, inside.has_stopped) = (None, false);
        inside.waiting.clear();
        let Found { store, last, problems } = lesson::open(inside.files.clone(), unix)?;
        inside.store = Some(store);
        Ok((last, problems))
    }

    fn journal(&self) -> Box<dyn Journal> {
        Box::new(self.clone())
    }

    fn work(&self) -> Vec<Saved> {
        let mut inside = self.lock();
        std::iter::from_fn(|| inside.write_next()).collect()
    }

    fn end(&self, end: End) {
        let mut inside = self.lock();
        if end != End::Orderly {
            inside.files.die_soon(CHANGES);
        }
        while inside.write_next().is_some() {}
        if end != End::Orderly {
            // Not even the file's end is written.
            inside.files.start_host();
        }
        inside.store = None;
        if end == End::PowerCut {
            inside.files.cut_power();
        }
    }

    fn recording(&self, began: u64) -> Result<Option<Recording>, RecordingError> {
        let mut inside = self.lock();
        let found = match inside.recording.as_str() {
            "" => None,
            text => Some(Recording::read(text.as_bytes())?.recording).filter(|found| found.began() == began),
        };
        if found.is_none() {
            inside.recording.clear();
        }
        Ok(found)
    }

    fn tape(&self) -> Box<dyn RecordingStore> {
        Box::new(Tape { disk: self.clone(), written: 0 })
    }
}

/// Writes as the relay's thread does, when the host's turn comes.
impl Journal for Disk {
    fn write(&mut self, save: Save) -> bool {
        let mut inside = self.lock();
        if let Some(arrays) = &save.arrays {
            inside.given.insert(digest(&arrays.model.state.weights));
        }
        if !inside.has_stopped {
            inside.waiting.push_back(save);
        }
        !inside.has_stopped
    }
}

/// The file of the recording.
struct Tape {
    disk: Disk,
    /// Lines of the recording in the file.
    written: usize,
}

impl RecordingStore for Tape {
    fn keep(&mut self, recording: &Recording, is_less: bool) -> Result<(), String> {
        let from = if is_less { 0 } else { self.written };
        let text = recording.text_from(from).map_err(|error| error.to_string())?;
        let mut inside = self.disk.lock();
        if from == 0 {
            inside.recording = text;
        } else {
            inside.recording += &text;
        }
        drop(inside);
        self.written = recording.len();
        Ok(())
    }
}
