//! What an attack needs from a model and an update.

use unmask_core::AttackMethod;

use crate::{
    AttackError, Evidence, KeySource, ModelShape, TensorSource, Tensors, class_token_gradient,
    method::{Definition, Required, Solver, WorksOn, definition},
    model::{HEAD_BIAS, PATCH_WEIGHT, POSITION, QKV, is_front},
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensorNames {
    pub required: Vec<String>,
    pub optional: Vec<String>,
}

impl TensorNames {
    fn new(required: &[&str], optional: &[&str]) -> Self {
        Self { required: owned(required), optional: owned(optional) }
    }

    pub fn all(&self) -> Vec<&str> {
        self.required.iter().chain(&self.optional).map(String::as_str).collect()
    }

    /// Combines both without duplicates. A name that either side requires is required.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.required.extend(other.required);
        self.optional.extend(other.optional);
        self.required.sort_unstable();
        self.required.dedup();
        self.optional.sort_unstable();
        self.optional.dedup();
        self.optional.retain(|name| !self.required.contains(name));
        self
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// What an attack needs from an update, a model and a room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    pub gradients: TensorNames,
    /// Tensors of the weights at which the update was made.
    pub weights: TensorNames,
    /// Whether the equations hold only on models with the April block.
    pub april_block: bool,
    /// Whether it gathers several rounds of one client.
    pub rounds: bool,
    /// Where the key of an encrypted room comes from.
    pub key: Option<KeySource>,
}

impl Needs {
    /// What `method` needs from a model.
    ///
    /// # Errors
    /// [`AttackError::NotVit`] if the method works only on Vision Transformers.
    pub fn of(method: AttackMethod, model: impl Into<ModelShape>) -> Result<Self, AttackError> {
        let model = model.into();
        let Definition { solver, works_on, gradients, optional, weights, .. } = definition(method);
        if works_on != WorksOn::Any {
            model.vit()?;
        }
        if matches!(solver, Solver::Batch) {
            return Self::of_batch(model);
        }
        let names = |is_read: &dyn Fn(&str) -> bool| -> Vec<String> {
            model.layout().iter().map(|param| param.name.clone()).filter(|name| is_read(name)).collect()
        };
        let required = match gradients {
            Required::Tensors(tensors) => owned(tensors),
            Required::Front => names(&|name| is_front(name) && !optional.contains(&name)),
            Required::All => names(&|_| true),
        };
        let mut needs = Self {
            gradients: TensorNames { required, optional: owned(optional) },
            weights: TensorNames::new(weights, &[]),
            april_block: works_on == WorksOn::AprilBlock,
            rounds: matches!(solver, Solver::Rounds),
            key: if let Solver::Decryption(key) = solver { Some(key) } else { None },
        };
        if method.is_search() {
            needs.weights.required = names(&|_| true);
            needs = needs.and(Self::of_labels(model).if_there());
        }
        Ok(needs)
    }

    pub fn of_labels(model: impl Into<ModelShape>) -> Self {
        let [weight, bias] = model.into().head();
        Self { gradients: TensorNames::new(&[weight], &[bias]), ..Self::default() }
    }

    /// What [`membership`](crate::membership) and [`batch_size`](crate::batch_size) read of an update. Membership also
    /// needs the whole model, to run it on the candidate.
    ///
    /// # Errors
    /// [`AttackError::NotVit`].
    pub fn of_membership(model: impl Into<ModelShape>) -> Result<Self, AttackError> {
        let name = class_token_gradient(model)?;
        Ok(Self { gradients: TensorNames::new(&[&name], &[]), ..Self::default() })
    }

    /// What [`batch`](crate::batch) reads of an update and of the weights that it was made with: the embeddings, block 0
    /// and, for the number of pictures, one gradient of the last block.
    ///
    /// # Errors
    /// [`AttackError::NotVit`].
    pub fn of_batch(model: impl Into<ModelShape>) -> Result<Self, AttackError> {
        let model = model.into();
        let counts = class_token_gradient(model)?;
        let weights = model.layout().iter().map(|param| param.name.clone()).filter(|name| is_front(name)).collect();
        let gradients = [
            POSITION,
            PATCH_WEIGHT,
            QKV,
            "blocks.0.attn.qkv.bias",
            "blocks.0.attn.proj.weight",
            "blocks.0.mlp.fc1.weight",
            "blocks.0.mlp.fc1.bias",
            "blocks.0.mlp.fc2.weight",
        ];
        let mut required = owned(&gradients);
        if !required.contains(&counts) {
            required.push(counts);
        }
        Ok(Self {
            gradients: TensorNames { required, optional: vec![HEAD_BIAS.to_owned()] },
            weights: TensorNames { required: weights, optional: Vec::new() },
            ..Self::default()
        })
    }

    /// Takes the needed tensors from flat f32 vectors in the layout's order. Only gradient entries marked in `kept`
    /// arrived, or all without a mask.
    ///
    /// # Errors
    /// A vector or the mask does not fit the model, or a needed tensor holds NaN or infinity.
    pub fn read_flat(
        &self,
        model: impl Into<ModelShape>,
        weights: &[f32],
        gradient: &[f32],
        kept: Option<&[bool]>,
    ) -> Result<Evidence, AttackError> {
        let model = model.into();
        Ok(Evidence {
            weights: Tensors::from_flat(TensorSource::Weights, model, weights, None, &self.weights.all())?,
            gradients: Tensors::from_flat(TensorSource::Gradients, model, gradient, kept, &self.gradients.all())?,
        })
    }

    /// Makes every tensor optional.
    #[must_use]
    pub fn if_there(mut self) -> Self {
        for TensorNames { required, optional } in [&mut self.gradients, &mut self.weights] {
            optional.append(required);
        }
        self
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            gradients: self.gradients.and(other.gradients),
            weights: self.weights.and(other.weights),
            april_block: self.april_block || other.april_block,
            rounds: self.rounds || other.rounds,
            key: self.key.or(other.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, ResnetPreset, VitPreset};

    use super::*;

    /// Every name belongs to the model, and methods that need a ViT say so.
    #[test]
    fn needs_are_parameters_of_the_model() {
        let vit = Architecture::from(VitPreset::Pico);
        for architecture in [vit, vit.with_april_block(true), ResnetPreset::Nano.into()] {
            let layout = architecture.layout();
            let needs: Vec<_> = AttackMethod::ALL.map(|method| Needs::of(method, architecture)).into();
            let others =
                [Ok(Needs::of_labels(architecture)), Needs::of_membership(architecture), Needs::of_batch(architecture)];
            let needs = needs.into_iter().chain(others);
            let mut usable = 0;
            for needs in needs {
                match needs {
                    Ok(Needs { gradients, weights, .. }) => {
                        usable += 1;
                        for name in [gradients.all(), weights.all()].concat() {
                            assert!(layout.get(name).is_some(), "{name}");
                        }
                    }
                    Err(error) => assert_eq!(error, AttackError::NotVit { architecture }),
                }
            }
            assert_eq!(usable, if architecture.vit().is_some() { 17 } else { 3 }, "{architecture}");
        }
    }

    #[test]
    fn matching_reads_up_to_the_first_block_and_the_head_if_it_is_there() {
        let architecture = Architecture::from(VitPreset::Pico);
        let needs = Needs::of(AttackMethod::Matching, architecture).unwrap();
        assert!(needs.gradients.required.iter().all(|name| is_front(name)));
        assert_eq!(needs.gradients.optional, ["head.bias", "head.weight"]);
        assert_eq!(needs.weights.required.len(), architecture.layout().iter().count());
        let jigsaw = Needs::of(AttackMethod::Jigsaw, architecture).unwrap();
        assert!(jigsaw.gradients.optional.contains(&POSITION.to_owned()));
    }
}
