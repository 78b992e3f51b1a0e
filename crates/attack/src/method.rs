//! How the attacks differ: what they read, where they are tried, and how they are solved.

use std::cmp::Reverse;

use unmask_core::{Architecture, AttackMethod, UpdateForm, VitConfig};

use crate::{
    AttackError, Evidence, OnProgress, Reconstruction, RecoveredKey, april, april_aware, completion,
    embedding_inversion, embedding_inversion_aware,
    model::{PATCH_BIAS, PATCH_WEIGHT, POSITION, QKV},
    most_pictures, refinement_bytes,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concealment {
    /// All entries arrived.
    Nothing,
    /// All entries arrived, with zeros for the position embedding.
    Positions,
    /// A mask dropped entries.
    Entries,
    /// The embeddings are encrypted.
    Embeddings,
}

impl Concealment {
    /// The methods that a room tries on an update of `architecture`, made from so many pictures, with this concealment.
    pub fn methods(self, architecture: Architecture, pictures: usize) -> Vec<AttackMethod> {
        let setting = Setting { hidden: self, architecture, pictures };
        AttackMethod::ALL.into_iter().filter(|&method| (definition(method).is_tried)(&setting)).collect()
    }

    /// What an update of this form conceals, judging by the tensors read from it.
    pub fn of(form: &UpdateForm, evidence: Option<&Evidence>) -> Self {
        let is_position_zero = || {
            let values = evidence.and_then(|evidence| evidence.gradients.values(POSITION));
            values.is_some_and(|values| values.iter().all(|&value| value == 0.0))
        };
        match form {
            UpdateForm::Encrypted { .. } => Self::Embeddings,
            _ if is_position_zero() => Self::Positions,
            UpdateForm::Masked { .. } => Self::Entries,
            UpdateForm::Dense => Self::Nothing,
        }
    }

    /// The closed forms among the [`methods`](Self::methods). They need only one update.
    pub fn closed_forms(self, architecture: Architecture) -> Vec<AttackMethod> {
        let mut methods = self.methods(architecture, 1);
        methods
            .retain(|&method| matches!(definition(method).solver, Solver::ClosedForm(_)) && self != Self::Embeddings);
        methods
    }

    /// The searches among the [`methods`](Self::methods), best informed first.
    pub fn searches(self, architecture: Architecture) -> Vec<AttackMethod> {
        let mut searches = self.methods(architecture, 1);
        searches.retain(|method| method.is_search());
        searches.sort_by_key(|method| Reverse(method.knowledge()));
        searches
    }
}

/// Solves the equations in one update for the picture. Iterative ones report their progress.
pub(crate) type ClosedForm = for<'a> fn(&Evidence, OnProgress<'a>) -> Result<Reconstruction, AttackError>;

/// How a method finds its pictures.
#[derive(Clone, Copy)]
pub(crate) enum Solver {
    ClosedForm(ClosedForm),
    /// Embedding inversion of all gathered rounds.
    Rounds,
    /// All pictures of a batch, by the tokens of the first block.
    Batch,
    /// Embedding inversion of the decrypted update.
    Decryption(KeySource),
    /// A search through the model that starts from this closed form's picture, if any.
    Search(Option<AttackMethod>),
}

/// How an attacker gets the key of an encrypted room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySource {
    /// From the embeddings' weights, known both plain and encrypted.
    KnownStart,
    /// From a client that gives it away.
    Colluder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorksOn {
    Any,
    Vit,
    AprilBlock,
}

#[derive(Clone, Copy)]
pub(crate) enum Required {
    Tensors(&'static [&'static str]),
    /// Those up to the end of the first block.
    Front,
    All,
}

#[derive(Clone, Copy)]
pub(crate) struct Definition {
    pub(crate) solver: Solver,
    pub(crate) works_on: WorksOn,
    pub(crate) gradients: Required,
    /// Gradients that are used if they are present.
    pub(crate) optional: &'static [&'static str],
    /// Weights that are read. A search reads all of them regardless.
    pub(crate) weights: &'static [&'static str],
    /// Whether a room tries the method.
    pub(crate) is_tried: fn(&Setting) -> bool,
}

/// Most memory for the refinement of one picture in a room.
const MOST_BYTES: usize = 256 << 20;

/// The update that a room might attack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    hidden: Concealment,
    architecture: Architecture,
    pictures: usize,
}

impl Setting {
    fn is_vit(&self) -> bool {
        self.architecture.vit().is_some()
    }

    /// Whether there are several pictures, on a model of which some batch can be taken apart, and in little memory.
    fn has_batch(&self) -> bool {
        let fits = |config: &VitConfig| {
            most_pictures(config) > 1
                && refinement_bytes(config, self.pictures.min(most_pictures(config))) <= MOST_BYTES
        };
        self.pictures > 1 && self.architecture.vit().is_some_and(|config| fits(&config))
    }
}

const EMBEDDINGS: &[&str] = &[POSITION, PATCH_WEIGHT];

fn closed_form(solve: ClosedForm, gradients: &'static [&'static str]) -> Definition {
    Definition {
        solver: Solver::ClosedForm(solve),
        works_on: WorksOn::Vit,
        gradients: Required::Tensors(gradients),
        optional: &[],
        weights: &[],
        is_tried: |_| true,
    }
}

fn april_block(solve: ClosedForm) -> Definition {
    let weights = &[POSITION, PATCH_WEIGHT, PATCH_BIAS, QKV];
    Definition { works_on: WorksOn::AprilBlock, weights, ..closed_form(solve, &[POSITION, QKV]) }
}

fn decryption(key: KeySource, weights: &'static [&'static str]) -> Definition {
    Definition {
        solver: Solver::Decryption(key),
        works_on: WorksOn::Vit,
        gradients: Required::Tensors(EMBEDDINGS),
        optional: &[],
        weights,
        is_tried: |it| it.hidden == Concealment::Embeddings,
    }
}

fn search(works_on: WorksOn, gradients: Required, is_tried: fn(&Setting) -> bool) -> Definition {
    Definition { solver: Solver::Search(None), works_on, gradients, optional: &[], weights: &[], is_tried }
}

/// A search of the first block. It starts from a closed form with the same knowledge of the mask, so that a naive
/// attacker does not profit from what an aware one sees.
fn token_matching(start: AttackMethod, is_tried: fn(&Setting) -> bool) -> Definition {
    let solver = Solver::Search(Some(start));
    Definition { solver, ..search(WorksOn::Vit, Required::Front, is_tried) }
}

/// The only place that tells methods apart.
pub(crate) fn definition(method: AttackMethod) -> Definition {
    use Concealment::{Entries, Nothing, Positions};
    match method {
        AttackMethod::Embedding => closed_form(|evidence, _| embedding_inversion(&evidence.gradients), EMBEDDINGS),
        AttackMethod::EmbeddingAware => {
            Definition { optional: &[PATCH_BIAS], ..closed_form(embedding_inversion_aware, EMBEDDINGS) }
        }
        AttackMethod::April => april_block(|evidence, _| april(&evidence.weights, &evidence.gradients)),
        AttackMethod::AprilAware => april_block(|evidence, _| april_aware(evidence)),
        AttackMethod::Completion => Definition {
            optional: &[PATCH_BIAS],
            is_tried: |it| it.is_vit() && it.hidden == Entries,
            ..closed_form(completion, EMBEDDINGS)
        },
        AttackMethod::Rounds => Definition {
            solver: Solver::Rounds,
            is_tried: |it| it.hidden == Entries,
            ..definition(AttackMethod::EmbeddingAware)
        },
        AttackMethod::Batch => Definition {
            solver: Solver::Batch,
            gradients: Required::Front,
            is_tried: |it| matches!(it.hidden, Nothing | Entries) && it.has_batch(),
            ..definition(AttackMethod::Embedding)
        },
        AttackMethod::Matching => token_matching(AttackMethod::Embedding, |it| it.is_vit() && it.hidden == Entries),
        AttackMethod::MatchingAware => {
            token_matching(AttackMethod::EmbeddingAware, |it| it.is_vit() && it.hidden != Positions)
        }
        // Token matching sees more on a Vision Transformer.
        AttackMethod::Gradients => search(WorksOn::Any, Required::All, |it| !it.is_vit() && it.hidden == Entries),
        AttackMethod::GradientsAware => search(WorksOn::Any, Required::All, |it| !it.is_vit()),
        AttackMethod::Jigsaw => {
            Definition { optional: &[POSITION], ..search(WorksOn::Vit, Required::Front, |it| it.hidden == Positions) }
        }
        AttackMethod::KnownStart => decryption(KeySource::KnownStart, &RecoveredKey::WEIGHTS),
        AttackMethod::Colluder => decryption(KeySource::Colluder, &[]),
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{ResnetPreset, VitPreset};

    use super::*;

    #[test]
    fn a_room_searches_by_what_works_on_its_network() {
        use AttackMethod::{Gradients, GradientsAware, Jigsaw, Matching, MatchingAware};
        let (vit, resnet) = (VitPreset::Pico.into(), ResnetPreset::Nano.into());
        assert_eq!(Concealment::Nothing.searches(vit), [MatchingAware]);
        assert_eq!(Concealment::Entries.searches(vit), [MatchingAware, Matching]);
        assert_eq!(Concealment::Positions.searches(vit), [Jigsaw]);
        assert_eq!(Concealment::Nothing.searches(resnet), [GradientsAware]);
        assert_eq!(Concealment::Entries.searches(resnet), [GradientsAware, Gradients]);
    }

    #[test]
    fn a_batch_is_taken_apart_where_some_batch_can_be() {
        let tries = |hidden: Concealment, preset: VitPreset, pictures| {
            hidden.methods(preset.into(), pictures).contains(&AttackMethod::Batch)
        };
        assert!(tries(Concealment::Nothing, VitPreset::NanoPatch8, 2));
        assert!(tries(Concealment::Nothing, VitPreset::NanoPatch8, 9), "the card says that counting rules it out");
        assert!(!tries(Concealment::Nothing, VitPreset::NanoPatch8, 1), "embedding inversion sees one picture");
        assert!(!tries(Concealment::Nothing, VitPreset::Nano, 2), "no batch at all");
        assert!(!tries(Concealment::Nothing, VitPreset::SmallPatch32, 4), "gigabytes");
        assert!(tries(Concealment::Entries, VitPreset::NanoPatch8, 2));
        assert!(!tries(Concealment::Positions, VitPreset::NanoPatch8, 2));
    }

    #[test]
    fn closed_forms_need_one_update_alone() {
        use AttackMethod::{April, AprilAware, Completion, Embedding, EmbeddingAware};
        let vit = VitPreset::Pico.into();
        assert_eq!(Concealment::Nothing.closed_forms(vit), [Embedding, EmbeddingAware, April, AprilAware]);
        assert_eq!(Concealment::Entries.closed_forms(vit), [Embedding, EmbeddingAware, April, AprilAware, Completion]);
        assert!(Concealment::Embeddings.closed_forms(vit).is_empty());
    }
}
