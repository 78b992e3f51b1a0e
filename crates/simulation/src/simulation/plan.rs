//! The number of rounds and the learning rate.

use std::ops::Range;

use unmask_core::{RoundSettings, Rule};
use unmask_data::datasets::DataSet;

use crate::{Config, Schedule, SimulationError, secure::SecureRound};

/// A config, resolved for its pictures.
#[derive(Debug)]
pub(super) struct RunPlan {
    pub(super) config: Config,
    pub(super) settings: RoundSettings,
    /// How the updates are added up, if the server learns only their sum.
    pub(super) secure: Option<SecureRound>,
    pub(super) train: Range<usize>,
    pub(super) rounds: u32,
    /// Passes over all training pictures per round.
    epochs_per_round: f64,
}

impl RunPlan {
    pub(super) fn new(config: &Config, data: &DataSet) -> Result<Self, SimulationError> {
        let settings = config.validate()?;
        let pictures = data.train.len();
        let train = config.train_slice.map_or(0..pictures, |slice| slice.range());
        if let Some(slice) = config.train_slice.filter(|slice| slice.end > pictures) {
            return Err(SimulationError::Slice { slice, pictures });
        }
        if data.test.is_empty() {
            return Err(SimulationError::NoTest { name: data.name.clone() });
        }
        let (seen, pictures) = match settings.rule() {
            Rule::FedSgd => (config.clients as u64 * u64::from(settings.batch()), train.len() as u64),
            Rule::FedAvg { epochs, .. } => (epochs.into(), 1),
        };
        let rounds = match (config.rounds, config.epochs) {
            (Some(rounds), _) => rounds,
            (None, Some(epochs)) => {
                let rounds = (u64::from(epochs) * pictures).div_ceil(seen);
                u32::try_from(rounds).map_err(|_| SimulationError::TooLong { epochs, rounds })?
            }
            // Validation made sure that one of them is given.
            (None, None) => 0,
        };
        if let Schedule::Cosine { warmup } = config.schedule
            && warmup >= rounds
        {
            return Err(SimulationError::Warmup { warmup, rounds });
        }
        let epochs_per_round = seen as f64 / pictures.max(1) as f64;
        let of = |sum| SecureRound::new(sum, config.defence, config.clients);
        let no_sum = |source| SimulationError::SecureSum { round: 1, source };
        let secure = config.secure_sum.map(of).transpose().map_err(no_sum)?;
        Ok(Self { config: config.clone(), settings, secure, train, rounds, epochs_per_round })
    }

    /// The learning rate in round `round`, counted from 0: the server's, or the clients' under FedAvg.
    pub(super) fn rate(&self, round: u32) -> f32 {
        let rate = match self.settings.rule() {
            Rule::FedAvg { rate, .. } => rate,
            Rule::FedSgd => self.config.optimiser.rate(),
        };
        rate * self.config.schedule.factor(round, self.rounds)
    }

    /// Passes over all training pictures after round `round`, counted from 1.
    pub(super) fn epoch(&self, round: u32) -> f64 {
        f64::from(round) * self.epochs_per_round
    }

    /// Whether a test is due after round `round`, counted from 1.
    pub(super) fn is_test_due(&self, round: u32) -> bool {
        let every = self.config.evaluate_every;
        round == self.rounds || (every > 0 && round.is_multiple_of(every))
    }
}
