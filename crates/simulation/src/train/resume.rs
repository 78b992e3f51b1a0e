//! From a simulation to a checkpoint, and back.

use std::{path::Path, sync::Arc};

use toml::{Table, Value};
use unmask_federation::{Optimiser, OptimiserState, UpdateCounts};

use crate::{
    CheckpointError, Schedule, Simulation,
    checkpoint::{Checkpoint, Header},
};

/// Keys that may change within a run, since no weight depends on them.
const FREE: [&str; 5] = ["data-dir", "threads", "evaluate-every", "test-pictures", "checkpoint-every"];
/// Keys that may change as long as the rate does not depend on them.
const LENGTHS: [&str; 2] = ["rounds", "epochs"];

impl Simulation<'_> {
    /// The run as it stands.
    pub(crate) fn checkpoint(&self, pictures: &str) -> Checkpoint {
        let progress = &self.progress;
        let OptimiserState { steps, first, second } = progress.optimiser.state();
        let header = Header {
            config: self.config().to_toml(),
            pictures: pictures.to_owned(),
            key: self.key(),
            round: progress.round,
            steps,
            counted: progress.counts.rounds(),
            seconds: progress.seconds,
        };
        Checkpoint {
            header,
            weights: progress.weights.clone(),
            statistics: progress.statistics.clone(),
            moments: (first, second),
            counts: progress.counts.counts().to_vec(),
            metrics: progress.metrics.clone(),
        }
    }

    /// Goes on from the newest whole checkpoint of `folder`; tells what is wrong with newer ones.
    ///
    /// # Errors
    /// If there is none, or it is of another run.
    pub(crate) fn resume(&mut self, folder: &Path, pictures: &str) -> Result<Vec<String>, CheckpointError> {
        let (Checkpoint { header, weights, statistics, moments, counts, metrics }, problems) =
            Checkpoint::newest(folder)?;
        self.same_run(&header, pictures)?;
        let progress = &mut self.progress;
        // The same model has the same numbers of values.
        if (weights.len(), statistics.len()) != (progress.weights.len(), progress.statistics.len()) {
            return Err(CheckpointError::OtherPictures);
        }
        let state = OptimiserState { steps: header.steps, first: moments.0, second: moments.1 };
        progress.optimiser = Optimiser::resumed(progress.optimiser.kind(), state);
        let (config, layout) = (self.config(), Arc::clone(self.layout()));
        let counts = UpdateCounts::resumed(layout, config.defence, counts, header.counted, config.clients as u32);
        let progress = &mut self.progress;
        progress.counts = counts;
        (progress.weights, progress.statistics, progress.metrics) = (weights, statistics, metrics);
        (progress.round, progress.seconds) = (header.round, header.seconds);
        Ok(problems)
    }

    fn same_run(&self, header: &Header, pictures: &str) -> Result<(), CheckpointError> {
        let unread = |text: &str| text.parse::<Table>().unwrap_or_default();
        let (then, now) = (unread(&header.config), unread(&self.config().to_toml()));
        let is_free =
            |key: &str| FREE.contains(&key) || (LENGTHS.contains(&key) && self.config().schedule == Schedule::Constant);
        let written = |value: Option<&Value>| value.map_or("its default".to_owned(), Value::to_string);
        let differing = then.keys().chain(now.keys()).find(|key| then.get(*key) != now.get(*key) && !is_free(key));
        if let Some(key) = differing {
            let (then, now) = (written(then.get(key)), written(now.get(key)));
            return Err(CheckpointError::Differs { key: key.clone(), then, now });
        }
        if header.pictures != pictures {
            return Err(CheckpointError::OtherPictures);
        }
        if header.key != self.key() {
            return Err(CheckpointError::OtherPassphrase);
        }
        Ok(())
    }
}
