//! Where a model's first weights come from.

use std::{fmt, sync::Arc};

use unmask_core::{InitOptions, InitialWeights, ModelSpec, initial_weights};
use unmask_federation::GlobalModel;

/// Weights that were trained before.
#[derive(Clone)]
pub struct Pretrained {
    /// What they are, in words for people, such as "trained on CIFAR-10".
    pub title: String,
    /// The model they are of.
    pub spec: ModelSpec,
    /// The weights, `[P]` in layout order.
    pub weights: Arc<[f32]>,
}

/// Shows the number of weights, and not all of them.
impl fmt::Debug for Pretrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, spec, weights } = self;
        f.debug_struct("Pretrained").field("title", title).field("spec", spec).field("weights", &weights.len()).finish()
    }
}

/// The weights a room can begin with.
#[derive(Debug, Clone)]
pub(crate) struct Beginnings {
    /// How models are to begin.
    pub(crate) chosen: InitialWeights,
    pretrained: Option<Pretrained>,
}

impl Beginnings {
    /// A room that begins as `chosen`, with these pretrained weights at hand.
    pub(crate) fn new(chosen: InitialWeights, pretrained: Option<Pretrained>) -> Self {
        Self { chosen, pretrained }
    }

    /// What the pretrained weights are, where there are some of this model.
    pub(crate) fn title(&self, spec: ModelSpec) -> Option<&str> {
        self.fitting(spec).map(|pretrained| pretrained.title.as_str())
    }

    /// Whether a model of `spec` can begin so.
    ///
    /// # Errors
    /// In words: what the pretrained weights are of, if they are not of this model.
    pub(crate) fn check(&self, beginning: InitialWeights, spec: ModelSpec) -> Result<(), String> {
        let wanted = describe(spec);
        match (beginning, &self.pretrained) {
            (InitialWeights::Scratch, _) => Ok(()),
            (InitialWeights::Pretrained, _) if self.fitting(spec).is_some() => Ok(()),
            (InitialWeights::Pretrained, None) => {
                Err(format!("there are no pretrained weights for {wanted} here; begin from scratch"))
            }
            (InitialWeights::Pretrained, Some(pretrained)) => Err(format!(
                "the pretrained weights are of {}, and the room's model is {wanted}; begin from scratch, or with the model \
                 they are of",
                describe(pretrained.spec)
            )),
        }
    }

    /// A model as chosen, and how it really begins: from scratch where no pretrained weights fit it.
    pub(crate) fn model(&self, spec: ModelSpec, seed: u64) -> (GlobalModel, InitialWeights) {
        match self.fitting(spec).filter(|_| self.chosen == InitialWeights::Pretrained) {
            Some(pretrained) => {
                (GlobalModel { spec, weights: pretrained.weights.to_vec() }, InitialWeights::Pretrained)
            }
            None => {
                let weights = initial_weights(&spec.config(), seed, InitOptions::default());
                (GlobalModel { spec, weights }, InitialWeights::Scratch)
            }
        }
    }

    fn fitting(&self, spec: ModelSpec) -> Option<&Pretrained> {
        self.pretrained.as_ref().filter(|pretrained| pretrained.spec == spec)
    }
}

fn describe(ModelSpec { preset, april_block, classes }: ModelSpec) -> String {
    let block = if april_block { " with the April block" } else { "" };
    format!("{preset}{block} and {classes} classes")
}

#[cfg(test)]
mod tests {
    use unmask_core::{ParamLayout, Preset};

    use super::*;

    #[test]
    fn only_the_model_they_are_of_begins_with_them() {
        let spec = ModelSpec::new(Preset::VitPicoPatch4_16);
        let weights: Arc<[f32]> = vec![0.5; ParamLayout::vit(&spec.config()).len()].into();
        let pretrained = Pretrained { title: "halves".into(), spec, weights };
        let some = Beginnings::new(InitialWeights::Pretrained, Some(pretrained.clone()));
        assert_eq!(some.title(spec), Some("halves"));
        let (model, beginning) = some.model(spec, 1);
        assert_eq!((&*model.weights, beginning), (&*pretrained.weights, InitialWeights::Pretrained));
        let other = spec.with_april_block(true);
        assert_eq!(some.model(other, 1).1, InitialWeights::Scratch);
        let error = some.check(InitialWeights::Pretrained, other).unwrap_err();
        assert!(
            error.contains("are of vit_pico_patch4_16 and 10 classes, and the room's model is vit_pico_patch4_16 with"),
            "{error}"
        );
        assert!(
            some.check(InitialWeights::Scratch, other).is_ok() && some.check(InitialWeights::Pretrained, spec).is_ok()
        );
        let none = Beginnings::new(InitialWeights::Scratch, None);
        assert!(
            none.check(InitialWeights::Pretrained, spec).unwrap_err().contains("no pretrained weights for vit_pico")
        );
        let scratch = Beginnings::new(InitialWeights::Scratch, Some(pretrained));
        assert_eq!(scratch.model(spec, 1), none.model(spec, 1));
    }
}
