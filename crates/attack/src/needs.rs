//! Which tensors an attack reads.

use unmask_core::ParamLayout;

use crate::{
    Attack, AttackKind, LABEL_GRADIENTS, MEMBERSHIP_GRADIENTS, MEMBERSHIP_WEIGHTS, Method, RecoveredKey,
    kind::{CLASS_TOKEN, POSITION},
};

/// Tensors by timm's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Without these nothing works.
    pub required: Vec<String>,
    /// Used where they are there.
    pub optional: Vec<String>,
}

impl Wanted {
    fn new(required: &[&str], optional: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { required: owned(required), optional: owned(optional) }
    }

    /// All of them.
    pub fn names(&self) -> Vec<&str> {
        self.required.iter().chain(&self.optional).map(String::as_str).collect()
    }

    /// Both together, each name once; what one of them requires is required.
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

/// What an attack reads of a model and an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Of the update.
    pub gradients: Wanted,
    /// Of the weights at which it was taken.
    pub weights: Wanted,
}

impl Needs {
    /// What `method` reads of a model of `layout`.
    pub fn of(method: Method, layout: &ParamLayout) -> Self {
        let names = |keep: &dyn Fn(&str) -> bool| -> Vec<String> {
            layout.iter().map(|param| param.name.clone()).filter(|name| keep(name)).collect()
        };
        let search = |required: Vec<String>, optional: &[&str]| Self {
            gradients: Wanted { required, optional: Vec::new() }
                .and(Wanted::new(&[], optional))
                .and(Wanted::new(&[], LABEL_GRADIENTS)),
            weights: Wanted { required: names(&|_| true), optional: Vec::new() },
        };
        let embeddings = Wanted::new(AttackKind::Embedding.gradients(), &[]);
        match method {
            Method::Gradients | Method::GradientsAware => search(names(&|_| true), &[]),
            Method::Matching | Method::MatchingAware => search(names(&is_front), &[]),
            Method::Jigsaw => search(names(&|name| is_front(name) && name != POSITION), &[POSITION]),
            Method::KnownStart => Self { gradients: embeddings, weights: Wanted::new(&RecoveredKey::WEIGHTS, &[]) },
            Method::Colluder => Self { gradients: embeddings, weights: Wanted::default() },
            Method::Embedding | Method::EmbeddingAware | Method::April | Method::AprilAware | Method::Rounds => {
                let attack = Attack::of(method).unwrap_or(Attack::aware(AttackKind::Embedding));
                // What a closed form reads beyond its naive twin only sharpens the result.
                Self {
                    gradients: Wanted::new(attack.kind.gradients(), &[]).and(Wanted::new(&[], attack.gradients())),
                    weights: Wanted::new(attack.weights(), &[]),
                }
            }
        }
    }

    /// What reading labels takes.
    pub fn of_labels() -> Self {
        Self { gradients: Wanted::new(&LABEL_GRADIENTS[..1], LABEL_GRADIENTS), weights: Wanted::default() }
    }

    /// What telling membership takes.
    pub fn of_membership(layout: &ParamLayout) -> Self {
        let weights: Vec<&str> = MEMBERSHIP_WEIGHTS.iter().copied().filter(|name| layout.get(name).is_some()).collect();
        Self { gradients: Wanted::new(&[], MEMBERSHIP_GRADIENTS), weights: Wanted::new(&[], &weights) }
    }

    /// The same where nothing of it is asked for that is not there.
    #[must_use]
    pub fn if_there(self) -> Self {
        let optional = |Wanted { mut required, optional }: Wanted| {
            required.extend(optional);
            Wanted { required: Vec::new(), optional: required }
        };
        Self { gradients: optional(self.gradients), weights: optional(self.weights) }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { gradients: self.gradients.and(other.gradients), weights: self.weights.and(other.weights) }
    }
}

/// Whether a parameter lies in front of the second block, where token matching looks.
pub fn is_front(name: &str) -> bool {
    name == POSITION || name == CLASS_TOKEN || name.starts_with("patch_embed.") || name.starts_with("blocks.0.")
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    /// Every name is one of the model's, with the April block and without.
    #[test]
    fn needs_are_parameters_of_the_model() {
        for april_block in [false, true] {
            let layout = Architecture::from(VitPreset::Pico).with_april_block(april_block).layout();
            let methods = Method::ALL.map(|method| Needs::of(method, &layout));
            for Needs { gradients, weights } in
                methods.into_iter().chain([Needs::of_labels(), Needs::of_membership(&layout)])
            {
                for name in [gradients.names(), weights.names()].concat() {
                    assert!(layout.get(name).is_some(), "{name}");
                }
            }
        }
    }

    #[test]
    fn matching_reads_up_to_the_first_block_and_the_head_if_it_is_there() {
        let layout = Architecture::from(VitPreset::Pico).layout();
        let needs = Needs::of(Method::Matching, &layout);
        assert!(needs.gradients.required.iter().all(|name| is_front(name)));
        assert_eq!(needs.gradients.optional, ["head.bias", "head.weight"]);
        assert_eq!(needs.weights.required.len(), layout.iter().count());
        let jigsaw = Needs::of(Method::Jigsaw, &layout);
        assert!(jigsaw.gradients.optional.contains(&POSITION.to_owned()));
    }
}
