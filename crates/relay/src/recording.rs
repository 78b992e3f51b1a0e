//! The recording of the lesson in memory and, if there is a journal, in a file.

mod file;
mod thread;

use std::sync::{Arc, atomic::AtomicUsize};

use unmask_recording::Recording;
use unmask_room::{Archived, Keeper, RecordingStore};

use self::{file::RecordingFile, thread::RecordingThread};
use crate::{clock::Clock, config::RelayConfig};

/// Continues the recording of the lesson that began at `began`, or starts one, with a line about any problem with the
/// existing one. `None` if lessons are not recorded. `report` says a line to the class.
pub(crate) fn open(
    config: &RelayConfig,
    began: u64,
    report: impl Fn(String) + Send + 'static,
    clock: Clock,
) -> anyhow::Result<(Option<Archived>, Option<String>)> {
    let (folder, has_journal) = (&config.data_dir, config.room.journal.is_some());
    if !config.recording {
        if has_journal {
            RecordingFile::delete(folder, began);
        }
        return Ok((None, None));
    }
    let (file, found, problem) = if has_journal {
        let (file, found, problem) = RecordingFile::open(folder.clone(), began);
        (Some(Box::new(file) as Box<dyn RecordingStore>), found, problem)
    } else {
        (None, None, None)
    };
    let (size, last_at) = (Arc::<AtomicUsize>::default(), found.as_ref().map(Recording::last_at));
    let recording = found.unwrap_or_else(|| Recording::new(env!("CARGO_PKG_VERSION"), began));
    let keeper = Keeper::new(report, recording, file, Arc::clone(&size));
    let archive = Box::new(RecordingThread::start(keeper, clock)?);
    Ok((Some(Archived { archive, size, last_at }), problem))
}
