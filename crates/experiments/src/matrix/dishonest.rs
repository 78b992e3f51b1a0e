//! What a dishonest relay sends to the clients of a round, and whose gradient then arrives.

use unmask_attack::{Cut, class_token, feature_fishing, fishing, zero_head};
use unmask_core::{ModelState, ThreatModel};
use unmask_model::{Network, block_on};

use super::{ExperimentError, MatrixSettings, plan::PictureBatch};

/// The weights of a round under one threat model.
pub(super) struct Sent {
    /// What the clients get whose gradient arrives. The relay attacks at these weights.
    pub(super) state: ModelState,
    /// What all others get, if it is something else.
    pub(super) others: Option<ModelState>,
    /// Whether each client's gradient arrives.
    pub(super) involved: Vec<bool>,
    /// The pictures that keep a gradient, by their number in the batch; `None` for all.
    pub(super) alive: Option<Vec<usize>>,
    /// The class that the relay named.
    pub(super) class: Option<usize>,
}

impl Sent {
    /// Doctors `held`. The relay fishes for the class with the fewest pictures, or by a feature for the class with the
    /// most; the first of equals. The cut of a feature is the one at which halving over rounds ends; the features are
    /// those at the `plain` weights.
    pub(super) fn new(
        threat: ThreatModel,
        (settings, network, seed): (&MatrixSettings, &Network, u64),
        batch: &PictureBatch,
        (held, plain): (&ModelState, &ModelState),
    ) -> Result<Self, ExperimentError> {
        let (clients, labels) = (settings.sum, &batch.batch.labels);
        let with = |weights: Vec<f32>| ModelState { weights, statistics: held.statistics.clone() };
        let everybody =
            || Self { state: held.clone(), others: None, involved: vec![true; clients], alive: None, class: None };
        let of_class = |class: usize| (0..labels.len()).filter(|&k| labels[k] == class).collect::<Vec<usize>>();
        let has = |alive: &[usize]| {
            (0..clients).map(|client| alive.iter().any(|&k| k / settings.batch == client)).collect::<Vec<bool>>()
        };
        Ok(match threat {
            ThreatModel::Honest => everybody(),
            ThreatModel::Fishing => {
                let class = labels.iter().copied().min_by_key(|&class| of_class(class).len()).unwrap_or_default();
                let (state, alive) = (with(fishing(settings.model, &held.weights, class)?), of_class(class));
                Self { state, involved: has(&alive), alive: Some(alive), class: Some(class), ..everybody() }
            }
            ThreatModel::FeatureFishing => {
                // `max_by_key` takes the last of equals.
                let class = labels.iter().rev().copied().max_by_key(|&class| of_class(class).len()).unwrap_or_default();
                let config = unmask_attack::ModelShape::from(settings.model).vit()?;
                let cut = Cut::random(config.dim, seed);
                let fished = of_class(class);
                let mut features = Vec::new();
                for &number in &fished {
                    let own = batch.of(number, 1);
                    let step = block_on(network.loss_and_gradient(plain, &own.images, &own.labels))?;
                    features.push(class_token(&config, &step.gradient).map_or(0.0, |token| cut.feature(&token)));
                }
                let lowest = (0..fished.len()).min_by(|&a, &b| features[a].total_cmp(&features[b]));
                let alive: Vec<usize> = lowest.map(|at| fished[at]).into_iter().collect();
                let cut = cut.below_all_but_one(&features);
                let state = with(feature_fishing(&config, &held.weights, class, &cut)?);
                Self { state, involved: has(&alive), alive: Some(alive), class: Some(class), ..everybody() }
            }
            ThreatModel::InconsistentModels => {
                let alive: Vec<usize> = (0..settings.batch).collect();
                let others = Some(with(zero_head(settings.model, &held.weights)?));
                Self { others, involved: has(&alive), alive: Some(alive), ..everybody() }
            }
        })
    }

    /// What a client gets.
    pub(super) fn to(&self, client: usize) -> &ModelState {
        match &self.others {
            Some(others) if !self.involved[client] => others,
            _ => &self.state,
        }
    }

    /// How many times the mean gradient of the pictures that keep one is the mean over the involved clients' batches.
    pub(super) fn diluted(&self, settings: &MatrixSettings) -> f64 {
        let involved = self.involved.iter().filter(|&&is| is).count();
        self.alive.as_ref().map_or(1.0, |alive| (settings.batch * involved) as f64 / alive.len().max(1) as f64)
    }
}
