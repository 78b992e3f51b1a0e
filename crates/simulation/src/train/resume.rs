//! Conversion between a simulation and its checkpoint.

use std::{path::Path, sync::Arc};

use toml::{Table, Value};
use unmask_federation::{Moments, Optimiser, OptimiserState, UpdateCounts};

use crate::{
    CheckpointError, Schedule, Simulation,
    checkpoint::{Checkpoint, Header},
};

/// Keys that may change when a run is resumed, because no weight depends on them.
const FREE: [&str; 5] = ["data-dir", "threads", "evaluate-every", "test-pictures", "checkpoint-every"];
/// Keys that may change if the learning rate does not depend on them.
const LENGTHS: [&str; 2] = ["rounds", "epochs"];

impl Simulation<'_> {
    pub(crate) fn checkpoint(&self, pictures: &str) -> Checkpoint {
        let current = &self.current;
        let OptimiserState { steps, moments: Moments { first, second } } = current.optimiser.state();
        let header = Header {
            config: self.config().to_toml(),
            pictures: pictures.to_owned(),
            key: self.key(),
            round: current.round,
            steps,
            counted: current.counts.rounds(),
            seconds: current.seconds,
        };
        Checkpoint {
            header,
            weights: current.weights.clone(),
            statistics: current.statistics.clone(),
            moments: (first, second),
            counts: current.counts.counts().to_vec(),
            metrics: current.metrics.clone(),
        }
    }

    /// Resumes from the newest complete checkpoint in `folder`. Returns the problems with newer ones.
    pub(crate) fn resume(&mut self, folder: &Path, pictures: &str) -> Result<Vec<String>, CheckpointError> {
        let (Checkpoint { header, weights, statistics, moments, counts, metrics }, problems) =
            Checkpoint::newest(folder)?;
        self.same_run(&header, pictures)?;
        let current = &mut self.current;
        // The same model on the same pictures has the same numbers of values.
        if (weights.len(), statistics.len()) != (current.weights.len(), current.statistics.len()) {
            return Err(CheckpointError::OtherPictures);
        }
        let moments = Moments { first: moments.0, second: moments.1 };
        let state = OptimiserState { steps: header.steps, moments };
        current.optimiser = Optimiser::resumed(current.optimiser.kind(), state);
        let (config, layout) = (self.config(), Arc::clone(self.layout()));
        let (clients, min_kept) = (config.clients as u32, config.min_kept);
        let counts = UpdateCounts::new(layout, config.defence).resumed(counts, header.counted, clients, min_kept);
        let current = &mut self.current;
        current.counts = counts;
        (current.weights, current.statistics, current.metrics) = (weights, statistics, metrics);
        (current.round, current.seconds) = (header.round, header.seconds);
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
