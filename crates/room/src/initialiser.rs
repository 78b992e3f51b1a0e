//! A model's initial weights.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use unmask_core::{Architecture, InitialWeights, ModelState};
use unmask_federation::GlobalModel;

/// Pretrained weights.
#[derive(Clone)]
pub struct Pretrained {
    /// Their description in words for people, such as "trained on CIFAR-10".
    pub title: String,
    pub architecture: Architecture,
    pub state: Arc<ModelState>,
}

/// Shows the number of weights instead of the weights.
impl fmt::Debug for Pretrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, architecture, state } = self;
        f.debug_struct("Pretrained")
            .field("title", title)
            .field("architecture", architecture)
            .field("weights", &state.weights.len())
            .finish()
    }
}

/// Why a model cannot begin with pretrained weights, as a clause.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum NoPretrained {
    #[error("there are no pretrained weights for {} here; begin from scratch", describe(*.wanted))]
    Missing { wanted: Architecture },
    #[error(
        "the pretrained weights are of {}, and the room's model is {}; begin from scratch, or with the model they are of",
        describe(*.pretrained), describe(*.wanted)
    )]
    OtherModel { pretrained: Architecture, wanted: Architecture },
}

/// Decides how the room's models begin.
#[derive(Debug, Clone)]
pub(crate) struct Initialiser {
    chosen: InitialWeights,
    /// How the current model began, which may differ from `chosen`.
    in_force: InitialWeights,
    /// The model chosen for the next round.
    next: Option<Architecture>,
    pretrained: Option<Pretrained>,
}

/// The choices as the journal stores them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InitialiserRecord {
    chosen: InitialWeights,
    in_force: InitialWeights,
    next: Option<Architecture>,
}

impl Initialiser {
    pub(crate) fn new(chosen: InitialWeights, pretrained: Option<Pretrained>) -> Self {
        Self { chosen, in_force: chosen, next: None, pretrained }
    }

    pub(crate) fn record(&self) -> InitialiserRecord {
        InitialiserRecord { chosen: self.chosen, in_force: self.in_force, next: self.next }
    }

    /// Restores the choices. `next` is the model that the restored room was to begin with, whose weights are not saved.
    pub(crate) fn restore(&mut self, record: InitialiserRecord, next: Option<Architecture>) {
        let InitialiserRecord { chosen, in_force, next: chosen_next } = record;
        (self.chosen, self.in_force, self.next) = (chosen, in_force, chosen_next.or(next));
    }

    /// Chooses how models begin from now on.
    pub(crate) fn choose(&mut self, chosen: InitialWeights) {
        self.chosen = chosen;
    }

    pub(crate) fn chosen(&self) -> InitialWeights {
        self.chosen
    }

    /// How the current model began.
    pub(crate) fn in_force(&self) -> InitialWeights {
        self.in_force
    }

    /// Chooses a model for the next round; `None` keeps the current one.
    pub(crate) fn set_next(&mut self, next: Option<Architecture>) {
        self.next = next;
    }

    /// The model chosen for the next round, as long as it has no weights.
    pub(crate) fn next(&self) -> Option<Architecture> {
        self.next
    }

    /// Makes the model that the room begins with now; also returns how it begins.
    pub(crate) fn begin(&mut self, architecture: Architecture, seed: u64) -> (GlobalModel, InitialWeights) {
        let (model, initial_weights) = self.model(architecture, seed);
        (self.in_force, self.next) = (initial_weights, None);
        (model, initial_weights)
    }

    /// Notes that a client made the current model from scratch, under a keyed start.
    pub(crate) fn client_began(&mut self) {
        self.in_force = InitialWeights::Scratch;
    }

    pub(crate) fn title(&self, architecture: Architecture) -> Option<&str> {
        self.fitting(architecture).map(|pretrained| pretrained.title.as_str())
    }

    /// Checks that a model of `architecture` can begin with these weights.
    pub(crate) fn check(&self, initial_weights: InitialWeights, wanted: Architecture) -> Result<(), NoPretrained> {
        match (initial_weights, &self.pretrained) {
            (InitialWeights::Scratch, _) => Ok(()),
            (InitialWeights::Pretrained, _) if self.fitting(wanted).is_some() => Ok(()),
            (InitialWeights::Pretrained, None) => Err(NoPretrained::Missing { wanted }),
            (InitialWeights::Pretrained, Some(pretrained)) => {
                Err(NoPretrained::OtherModel { pretrained: pretrained.architecture, wanted })
            }
        }
    }

    /// Makes a model with the chosen weights, or from scratch if no pretrained weights fit; also returns which.
    fn model(&self, architecture: Architecture, seed: u64) -> (GlobalModel, InitialWeights) {
        match self.fitting(architecture).filter(|_| self.chosen == InitialWeights::Pretrained) {
            Some(pretrained) => {
                (GlobalModel { architecture, state: ModelState::clone(&pretrained.state) }, InitialWeights::Pretrained)
            }
            None => (GlobalModel { architecture, state: architecture.initial(seed) }, InitialWeights::Scratch),
        }
    }

    fn fitting(&self, architecture: Architecture) -> Option<&Pretrained> {
        self.pretrained.as_ref().filter(|pretrained| pretrained.architecture == architecture)
    }
}

fn describe(architecture: Architecture) -> String {
    let block = if architecture.april_block() { " with the April block" } else { "" };
    format!("{architecture}{block} and {} classes", architecture.classes())
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    #[test]
    fn only_the_model_they_are_of_begins_with_them() {
        let architecture = Architecture::from(VitPreset::Pico);
        let state = Arc::new(ModelState::from_weights(vec![0.5; architecture.layout().len()]));
        let pretrained = Pretrained { title: "halves".into(), architecture, state };
        let some = Initialiser::new(InitialWeights::Pretrained, Some(pretrained.clone()));
        assert_eq!(some.title(architecture), Some("halves"));
        let (model, initial_weights) = some.model(architecture, 1);
        assert_eq!((&model.state, initial_weights), (&*pretrained.state, InitialWeights::Pretrained));
        let other = architecture.with_april_block(true);
        assert_eq!(some.model(other, 1).1, InitialWeights::Scratch);
        let error = some.check(InitialWeights::Pretrained, other).unwrap_err().to_string();
        assert!(
            error.contains("are of vit_pico_patch4_16 and 10 classes, and the room's model is vit_pico_patch4_16 with"),
            "{error}"
        );
        assert!(
            some.check(InitialWeights::Scratch, other).is_ok()
                && some.check(InitialWeights::Pretrained, architecture).is_ok()
        );
        let none = Initialiser::new(InitialWeights::Scratch, None);
        assert!(
            none.check(InitialWeights::Pretrained, architecture)
                .unwrap_err()
                .to_string()
                .contains("no pretrained weights for vit_pico")
        );
        let scratch = Initialiser::new(InitialWeights::Scratch, Some(pretrained));
        assert_eq!(scratch.model(architecture, 1), none.model(architecture, 1));
    }

    #[test]
    fn what_is_chosen_is_in_force_once_a_model_begins() {
        let architecture = Architecture::from(VitPreset::Pico);
        let state = Arc::new(ModelState::from_weights(vec![0.5; architecture.layout().len()]));
        let pretrained = Pretrained { title: "halves".into(), architecture, state };
        let mut initialiser = Initialiser::new(InitialWeights::Scratch, Some(pretrained));
        let other = architecture.with_april_block(true);
        initialiser.choose(InitialWeights::Pretrained);
        initialiser.set_next(Some(other));
        let both = |of: &Initialiser| (of.chosen(), of.in_force(), of.next());
        assert_eq!(both(&initialiser), (InitialWeights::Pretrained, InitialWeights::Scratch, Some(other)));
        initialiser.begin(architecture, 1);
        assert_eq!(both(&initialiser), (InitialWeights::Pretrained, InitialWeights::Pretrained, None));
        let mut again = Initialiser::new(InitialWeights::Scratch, None);
        again.restore(initialiser.record(), Some(other));
        assert_eq!(both(&again), (InitialWeights::Pretrained, InitialWeights::Pretrained, Some(other)));
        initialiser.client_began();
        assert_eq!(initialiser.in_force(), InitialWeights::Scratch);
    }
}
