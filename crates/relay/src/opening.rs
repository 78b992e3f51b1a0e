//! Finds the lesson that a relay opens: the last one in its data folder, or a new one.

use std::{path::Path, time::SystemTime};

use anyhow::Context;
use tracing::info;
use unmask_core::TrainOn;
use unmask_data::datasets::Source;
use unmask_journal::{Found, Store};
use unmask_room::{Opening, Resumed, SharedDataSet};

use crate::{
    clock::unix_now,
    config::{self, RelayConfig},
    erasing,
    journal::DataFolder,
    random,
};

/// A lesson, and where it is saved.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) opening: Opening,
    /// `None` if the lesson is not saved.
    pub(crate) store: Option<Store<DataFolder>>,
}

/// Looks for the last lesson, with its data set, and adapts the settings to it.
///
/// # Errors
/// If another relay keeps its journal in that folder, if what must go cannot be erased, if this version cannot read it, if the flags contradict the lesson
/// there, if the data set cannot be read, or if the operating system has no random numbers.
pub(crate) async fn find(mut config: RelayConfig) -> anyhow::Result<(RelayConfig, Opened)> {
    let (mut config, mut opened) = tokio::task::spawn_blocking(move || {
        let opened = find_lesson(&mut config)?;
        anyhow::Ok((config, opened))
    })
    .await??;
    opened.opening.data_set = load_data_set(&mut config).await?;
    Ok((config, opened))
}

/// Opens a lesson that keeps nothing on the disk, without a look at the folder.
///
/// # Errors
/// If the data set cannot be read, or if the operating system has no random numbers.
pub(crate) async fn without_a_disk(mut config: RelayConfig) -> anyhow::Result<(RelayConfig, Opened)> {
    let mut opening = Opening::new(&config.room, random::bytes()?, unix_now());
    opening.data_set = load_data_set(&mut config).await?;
    Ok((config, Opened { opening, store: None }))
}

/// Loads the data set, unless it can be generated on demand. Widens the model if the data set has more classes.
async fn load_data_set(config: &mut RelayConfig) -> anyhow::Result<Option<SharedDataSet>> {
    let room = &mut config.room;
    if room.data.source == Source::Generated && room.data.train_on == TrainOn::Private {
        return Ok(None);
    }
    let (data, seed) = (room.data.clone(), room.data_seed());
    let load = move || SharedDataSet::load(config::load_data_set, &data, seed);
    let data_set = tokio::task::spawn_blocking(load).await??;
    let classes = room.architecture.classes().max(data_set.classes.len());
    room.architecture = room.architecture.with_classes(classes);
    Ok(Some(data_set))
}

/// Reads and writes files, so it takes a while.
fn find_lesson(config: &mut RelayConfig) -> anyhow::Result<Opened> {
    let mut opening = Opening::new(&config.room, random::bytes()?, unix_now());
    if config.data_dir.is_dir() {
        erasing::finish(&config.data_dir)?;
        if let Some(days) = config.keep_days {
            erasing::erase_old(&config.data_dir, days, SystemTime::now())?;
        }
    }
    let Some(journal) = &config.room.journal else { return Ok(Opened { opening, store: None }) };
    std::fs::create_dir_all(&config.data_dir).with_context(|| {
        format!("cannot create the data folder {}; choose another with --data-dir", config.data_dir.display())
    })?;
    let folder = DataFolder(config.data_dir.clone());
    if journal.begins_anew {
        folder.retire_journal()?;
    }
    let Found { store, last, problems } = folder.open_journal()?;
    opening.problems = problems;
    if let Some(last) = last {
        last.adapt(&mut config.room)?;
        let Resumed { round, weights, .. } = last.resumed();
        info!(round, weights, "goes on with the last lesson");
        opening.head = last.head().clone();
        opening.last = Some(Box::new(last));
    }
    Ok(Opened { opening, store: Some(store) })
}

/// Returns the state saved in a data folder, `None` if there is none, and sentences that say which file is damaged.
/// Changes nothing in the folder.
///
/// # Errors
/// If a relay has the journal open, if all of it is damaged, or if this version cannot read it.
pub fn last_lesson(data_dir: &Path) -> anyhow::Result<(Option<Resumed>, Vec<String>)> {
    let (last, problems) = DataFolder(data_dir.to_owned()).read_journal()?;
    Ok((last.map(|last| last.resumed()), problems))
}
