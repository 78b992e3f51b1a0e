//! Finds the lesson that a relay opens: the last one in its data folder, or a new one.

use std::path::Path;

use anyhow::{Context, bail};
use tracing::info;
use unmask_journal::{Found, Store, read_lesson};
use unmask_room::{Opening, Resumed};

use crate::{clock::unix_now, config::RelayConfig, journal::DataFolder, random};

/// A lesson, and where it is saved.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) opening: Opening,
    /// `None` if the lesson is not saved.
    pub(crate) store: Option<Store<DataFolder>>,
}

/// Looks for the last lesson and adapts `config` to it. Reads and writes files, so it takes a while.
///
/// # Errors
/// If another relay keeps its journal in that folder, if the flags contradict the lesson there, or if the operating
/// system has no random numbers.
pub(crate) fn find(config: &mut RelayConfig) -> anyhow::Result<Opened> {
    let mut opening = Opening::new(&config.room, random::bytes()?, unix_now());
    let Some(journal) = &config.room.journal else { return Ok(Opened { opening, store: None }) };
    std::fs::create_dir_all(&config.data_dir).with_context(|| {
        format!("cannot create the data folder {}; choose another with --data-dir", config.data_dir.display())
    })?;
    let mut folder = DataFolder(config.data_dir.clone());
    if journal.begins_anew {
        // Opening the store fails if another relay is using it.
        folder = folder.open_journal()?.store.retire()?;
    }
    let Found { mut store, contents, problems } = folder.open_journal()?;
    opening.problems = problems;
    match contents.map(|contents| read_lesson(&contents)) {
        None => {}
        Some(Ok(last)) => {
            last.adapt(&mut config.room)?;
            let Resumed { round, weights, .. } = last.resumed();
            info!(round, weights, "goes on with the last lesson");
            opening.head = last.head().clone();
            opening.last = Some(Box::new(last));
        }
        Some(Err(error)) => opening.problems.extend(store.reject(&error)),
    }
    Ok(Opened { opening, store: Some(store) })
}

/// Returns the state saved in a data folder; `None` if there is none.
///
/// # Errors
/// If a relay has the journal open, or all of it is damaged. Damaged files are set aside.
pub fn last_lesson(data_dir: &Path) -> anyhow::Result<Option<Resumed>> {
    let Found { contents, problems, .. } = DataFolder(data_dir.to_owned()).open_journal()?;
    match contents {
        Some(contents) => Ok(Some(read_lesson(&contents)?.resumed())),
        None if problems.is_empty() => Ok(None),
        None => bail!("{}", problems.join(" ")),
    }
}
