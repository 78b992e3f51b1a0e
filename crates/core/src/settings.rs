//! The teacher's settings for the next rounds.

use serde::{Deserialize, Serialize};

use crate::{Aggregation, Defence, EncryptionStart, NoiseUnit, OptimiserKind, Rule, SecureSumError, TrainingPictures};

/// The settings of a round, checked so that a room never holds contradictory ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedSettings")]
pub struct RoundSettings {
    defence: Defence,
    rule: Rule,
    batch: u16,
    optimiser: OptimiserKind,
    pictures: TrainingPictures,
    aggregation: Aggregation,
}

/// [`RoundSettings`] before the check.
#[derive(Deserialize)]
struct UncheckedSettings {
    defence: Defence,
    rule: Rule,
    batch: u16,
    optimiser: OptimiserKind,
    pictures: TrainingPictures,
    aggregation: Aggregation,
}

impl TryFrom<UncheckedSettings> for RoundSettings {
    type Error = SettingsError;

    fn try_from(
        UncheckedSettings { defence, rule, batch, optimiser, pictures, aggregation }: UncheckedSettings,
    ) -> Result<Self, SettingsError> {
        Self { defence, rule, batch, optimiser, pictures, aggregation }.checked()
    }
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    #[error("a batch of 0 samples trains nothing; give at least 1")]
    Batch,
    #[error("{0} takes no local step; give at least 1 epoch and a rate above 0, such as fedavg:epochs=1,rate=0.1")]
    Rule(Rule),
    #[error("{0} takes no step; give a rate above 0, such as sgd:0.1")]
    Rate(OptimiserKind),
    #[error(
        "{0} cannot run on encrypted updates: it is not linear, so its step on encrypted gradients is not the \
         encryption of its step; choose sgd:RATE, such as sgd:0.1"
    )]
    AdamOnEncrypted(OptimiserKind),
    #[error(
        "per=picture clips the gradient of each picture, and {0} sends weights; choose fedsgd, or leave per=picture out"
    )]
    NoiseOfPictures(Rule),
    #[error(transparent)]
    SecureSum(#[from] SecureSumError),
}

impl RoundSettings {
    /// Settings for rounds on private pictures with clipped averaging; `batch` is the number of samples in one local
    /// gradient.
    ///
    /// # Errors
    /// A number is out of range, Adam would step on encrypted gradients, noise is of pictures' gradients under FedAvg, or
    /// a secure sum cannot add up what the defence sends. FedAvg accepts any optimiser, since its server takes no step.
    pub fn new(defence: Defence, rule: Rule, batch: u16, optimiser: OptimiserKind) -> Result<Self, SettingsError> {
        Self {
            defence,
            rule,
            batch,
            optimiser,
            pictures: TrainingPictures::Private,
            aggregation: Aggregation::default(),
        }
        .checked()
    }

    fn checked(self) -> Result<Self, SettingsError> {
        let Self { defence, rule, batch, optimiser, aggregation, pictures: _ } = self;
        if batch == 0 {
            return Err(SettingsError::Batch);
        }
        if let Rule::FedAvg { epochs, rate } = rule
            && !(epochs > 0 && rate > 0.0 && rate.is_finite())
        {
            return Err(SettingsError::Rule(rule));
        }
        if !(optimiser.rate() > 0.0 && optimiser.rate().is_finite()) {
            return Err(SettingsError::Rate(optimiser));
        }
        if defence.is_encrypted() && !rule.is_fedavg() && optimiser.is_adam() {
            return Err(SettingsError::AdamOnEncrypted(optimiser));
        }
        if rule.is_fedavg() && defence.noise().is_some_and(|noise| noise.unit() == NoiseUnit::Picture) {
            return Err(SettingsError::NoiseOfPictures(rule));
        }
        if let Some(settings) = aggregation.secure_sum() {
            settings.check_defence(defence)?;
        }
        Ok(self)
    }

    /// The same with another defence; errors as in [`new`](Self::new).
    pub fn with_defence(self, defence: Defence) -> Result<Self, SettingsError> {
        Self { defence, ..self }.checked()
    }

    /// The same with another rule; errors as in [`new`](Self::new).
    pub fn with_rule(self, rule: Rule) -> Result<Self, SettingsError> {
        Self { rule, ..self }.checked()
    }

    /// The same with another batch size; errors as in [`new`](Self::new).
    pub fn with_batch(self, batch: u16) -> Result<Self, SettingsError> {
        Self { batch, ..self }.checked()
    }

    /// The same with another optimiser; errors as in [`new`](Self::new).
    pub fn with_optimiser(self, optimiser: OptimiserKind) -> Result<Self, SettingsError> {
        Self { optimiser, ..self }.checked()
    }

    #[must_use]
    pub fn with_pictures(self, pictures: TrainingPictures) -> Self {
        Self { pictures, ..self }
    }

    /// The same with another aggregation; errors as in [`new`](Self::new).
    pub fn with_aggregation(self, aggregation: Aggregation) -> Result<Self, SettingsError> {
        Self { aggregation, ..self }.checked()
    }

    pub fn defence(&self) -> Defence {
        self.defence
    }

    pub fn rule(&self) -> Rule {
        self.rule
    }

    pub fn batch(&self) -> u16 {
        self.batch
    }

    /// The server's step under FedSGD.
    pub fn optimiser(&self) -> OptimiserKind {
        self.optimiser
    }

    pub fn pictures(&self) -> TrainingPictures {
        self.pictures
    }

    pub fn aggregation(&self) -> Aggregation {
        self.aggregation
    }

    /// The start of the encrypted model, if updates are encrypted.
    pub fn encryption(&self) -> Option<EncryptionStart> {
        self.defence.encryption()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(defence: &str, rule: &str, batch: u16, optimiser: &str) -> Result<RoundSettings, SettingsError> {
        RoundSettings::new(defence.parse().unwrap(), rule.parse().unwrap(), batch, optimiser.parse().unwrap())
    }

    #[test]
    fn adam_on_encrypted_gradients_is_refused_from_every_side() {
        let refused = |outcome: Result<RoundSettings, SettingsError>| {
            assert!(outcome.unwrap_err().to_string().contains("adam:0.001 cannot run on encrypted updates"));
        };
        refused(settings("encrypted", "fedsgd", 1, "adam:0.001"));
        let adam = settings("none", "fedsgd", 1, "adam:0.001").unwrap();
        refused(adam.with_defence("encrypted:keyed".parse().unwrap()));
        let sgd = settings("encrypted", "fedsgd", 1, "sgd:0.1").unwrap();
        refused(sgd.with_optimiser("adam:0.001".parse().unwrap()));
        let averaged = settings("encrypted", "fedavg", 1, "adam:0.001").unwrap();
        refused(averaged.with_rule(Rule::FedSgd));
    }

    #[test]
    fn bad_numbers_are_named() {
        assert_eq!(settings("none", "fedsgd", 0, "sgd:1").unwrap_err(), SettingsError::Batch);
        let settings = settings("none", "fedsgd", 1, "sgd:1").unwrap();
        let rule = Rule::FedAvg { epochs: 0, rate: 0.1 };
        assert!(settings.with_rule(rule).unwrap_err().to_string().contains("fedavg:epochs=0,rate=0.1"));
        assert!(settings.with_rule(Rule::FedAvg { epochs: 1, rate: f32::NAN }).is_err());
        assert!(settings.with_optimiser(OptimiserKind::Sgd { rate: -1.0 }).is_err());
        assert_eq!(settings.with_batch(7).unwrap().batch(), 7);
    }

    #[test]
    fn pictures_stay_whatever_else_is_chosen() {
        let pictures = TrainingPictures::Shared { shard: 3 };
        let settings = settings("none", "fedsgd", 1, "sgd:1").unwrap().with_pictures(pictures);
        for changed in [
            settings.with_batch(7),
            settings.with_rule(Rule::FedAvg { epochs: 1, rate: 0.1 }),
            settings.with_defence(Defence::FixedPosition),
            settings.with_optimiser(OptimiserKind::Adam { rate: 0.1 }),
        ] {
            assert_eq!(changed.unwrap().pictures(), pictures);
        }
    }
}
