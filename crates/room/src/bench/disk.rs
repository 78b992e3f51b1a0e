//! A disk in memory, which can be full or lose a write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use unmask_recording::{Recording, RecordingError};

use crate::{Arrays, Journal, LastLesson, NotSaved, RecordingStore, Save, Saved};

/// Two states of a lesson, as the relay's journal keeps them in two files, and the text of its recording.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    states: [Option<State>; 2],
    /// The state written last.
    newest: usize,
    is_full: bool,
    /// Outcomes that the room has not heard yet.
    outcomes: Vec<Saved>,
    /// What the last write replaced, until the room has heard of it.
    replaced: Option<Replaced>,
    recording: String,
}

#[derive(Debug)]
struct Replaced {
    state: usize,
    before: Option<State>,
    newest: usize,
}

#[derive(Debug, Clone)]
struct State {
    header: Vec<u8>,
    arrays: Arrays,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the disk, or makes room on it. Writes to a full disk fail.
    pub fn fill(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// Whether a room would go on with a lesson.
    pub fn has_lesson(&self) -> bool {
        let platter = self.lock();
        platter.states[platter.newest].is_some()
    }

    pub fn is_full(&self) -> bool {
        self.lock().is_full
    }

    /// Everything on the disk that is not weights.
    pub fn text(&self) -> Vec<u8> {
        let platter = self.lock();
        let mut all = platter.recording.clone().into_bytes();
        platter.states.iter().flatten().for_each(|state| all.extend(&state.header));
        all
    }

    pub(super) fn outcomes(&self) -> Vec<Saved> {
        let mut platter = self.lock();
        platter.replaced = None;
        std::mem::take(&mut platter.outcomes)
    }

    /// Undoes the write that the room has not heard of, as a power cut does.
    pub(super) fn tear(&self) {
        let mut platter = self.lock();
        if let Some(Replaced { state, before, newest }) = platter.replaced.take() {
            platter.states[state] = before;
            platter.newest = newest;
        }
    }

    /// The newest lesson on it, if there is one.
    pub(super) fn last(&self) -> anyhow::Result<Option<LastLesson>> {
        let platter = self.lock();
        let Some(State { header, arrays }) = &platter.states[platter.newest] else { return Ok(None) };
        LastLesson::read(header, |_| Ok(arrays.clone())).map(Some)
    }

    /// The recording of the lesson that began then; deletes that of another.
    pub(super) fn recording(&self, began: u64) -> Result<Option<Recording>, RecordingError> {
        let mut platter = self.lock();
        let found = match platter.recording.as_str() {
            "" => None,
            text => Some(Recording::read(text.as_bytes())?.recording).filter(|found| found.began() == began),
        };
        if found.is_none() {
            platter.recording.clear();
        }
        Ok(found)
    }

    pub(super) fn tape(&self) -> Tape {
        Tape { disk: self.clone(), written: 0 }
    }
}

/// Writes as the relay's store does: a header alone goes into the newer file, new arrays go into the older one.
impl Journal for Disk {
    fn write(&mut self, Save { round, header, arrays, .. }: Save) -> bool {
        let mut platter = self.lock();
        let (newest, older) = (platter.newest, 1 - platter.newest);
        let outcome = match (platter.is_full, arrays) {
            (true, _) => Err(NotSaved(anyhow!("no space left on the disk"))),
            (false, Some(arrays)) => {
                let before = platter.states[older].replace(State { header, arrays });
                platter.newest = older;
                platter.replaced = Some(Replaced { state: older, before, newest });
                Ok(())
            }
            (false, None) => match &mut platter.states[newest] {
                Some(state) => {
                    let before = Some(state.clone());
                    state.header = header;
                    platter.replaced = Some(Replaced { state: newest, before, newest });
                    Ok(())
                }
                None => Err(NotSaved(anyhow!("there are no weights that this belongs to"))),
            },
        };
        platter.outcomes.push(Saved { round, outcome });
        true
    }
}

/// The file of the recording.
pub(super) struct Tape {
    disk: Disk,
    /// Lines of the recording in the file.
    written: usize,
}

impl RecordingStore for Tape {
    fn keep(&mut self, recording: &Recording, is_less: bool) -> Result<(), String> {
        let from = if is_less { 0 } else { self.written };
        let text = recording.text_from(from).map_err(|error| error.to_string())?;
        let mut platter = self.disk.lock();
        if from == 0 {
            platter.recording = text;
        } else {
            platter.recording += &text;
        }
        drop(platter);
        self.written = recording.len();
        Ok(())
    }
}
