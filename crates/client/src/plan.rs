//! The relay's plan of a round, parsed and checked.

use std::sync::Arc;

use unmask_core::{Architecture, Defence, MaskSeed, ModelDescription, ModelState, ParamLayout, Rule, TrainingPictures};
use unmask_defence::{Cipher, drawn_seed};
use unmask_model::{Device, Network};
use unmask_wire::{PlanHeader, SumPlan};

use crate::{Doubt, LocalTask, LocalUpdate, RoundPictures, Shard, TrainingError};

/// The pictures of one round.
#[derive(Debug, Clone, PartialEq)]
pub enum PictureSelection {
    Private,
    /// Pictures of its shard of the room's data set.
    Shared {
        shard: Arc<Shard>,
        /// Positions of this round's pictures in the shard: under FedSGD as many as one gradient takes, under FedAvg
        /// all.
        positions: Vec<usize>,
    },
}

/// A round's task.
#[derive(Debug, Clone)]
pub struct RoundPlan {
    pub round: u32,
    /// Number of the policy that the update must follow.
    pub policy: u32,
    pub architecture: Architecture,
    pub layout: ParamLayout,
    pub defence: Defence,
    /// One gradient, or local epochs.
    pub rule: Rule,
    pub batch: usize,
    pub pictures: PictureSelection,
    /// Global weights w in plaintext, and running statistics.
    pub state: ModelState,
    /// The room's cipher, if the relay holds the weights encrypted.
    pub cipher: Option<Arc<Cipher>>,
    /// The secure sum that the update is for, if the relay sees no update.
    pub sum: Option<SumPlan>,
    /// What the seed of this client's mask is drawn from.
    pub nonces: Nonces,
    /// A step of this round is made of at least this many updates.
    pub least: u32,
    /// What the weights show of doctoring, if the client looks at them.
    pub doubts: Vec<Doubt>,
}

/// The two nonces that [draw](drawn_seed) the seed of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Nonces {
    /// This client's, to which it had committed before the round.
    pub own: [u8; 32],
    /// The relay's, drawn when the round began.
    pub relay: [u8; 16],
}

impl Nonces {
    pub(crate) fn seed(&self) -> MaskSeed {
        drawn_seed(&self.own, &self.relay)
    }
}

/// The task of encrypting the room's model, once, before its first encrypted round.
#[derive(Debug, Clone)]
pub struct SealTask {
    /// Number of the policy it is for.
    pub policy: u32,
    pub architecture: Architecture,
    pub layout: ParamLayout,
    /// The relay's plaintext weights, `[P]`. `None` under a keyed start, where this client draws new weights that the
    /// relay never sees.
    pub weights: Option<Vec<f32>>,
    pub cipher: Arc<Cipher>,
}

impl RoundPlan {
    /// A plan with plaintext weights, or weights that are still to be decrypted.
    pub(crate) fn new(
        header: PlanHeader,
        own: [u8; 32],
        shard: Option<&Arc<Shard>>,
        mut weights: Vec<f32>,
    ) -> Result<Self, String> {
        let PlanHeader {
            round,
            policy,
            model,
            defence,
            rule,
            batch,
            pictures,
            encryption: _,
            sum,
            nonce,
            least,
            server: _,
        } = header;
        let nonces = Nonces { own, relay: nonce };
        let (architecture, batch) = (known_architecture(model)?, usize::from(batch));
        let layout = architecture.layout();
        let statistics = weights.split_off(layout.len().min(weights.len()));
        check_len(architecture, &layout, &weights)?;
        architecture.check_statistics(&statistics).map_err(|error| error.to_string())?;
        if batch == 0 {
            return Err("the plan asks for a batch of 0 samples".to_owned());
        }
        let pictures = match pictures {
            TrainingPictures::Private => PictureSelection::Private,
            TrainingPictures::Shared { shard: number } => {
                let shard = shard.filter(|shard| shard.number() == number);
                let shard = shard.ok_or("the room's shared pictures have not come to this client")?;
                check_classes(architecture, shard)?;
                let positions = match rule {
                    Rule::FedSgd => shard.batch(round, batch),
                    Rule::FedAvg { .. } => (0..shard.len()).collect(),
                };
                PictureSelection::Shared { shard: Arc::clone(shard), positions }
            }
        };
        let state = ModelState { weights, statistics };
        Ok(Self {
            round,
            policy,
            architecture,
            layout,
            defence,
            rule,
            batch,
            pictures,
            state,
            cipher: None,
            sum,
            nonces,
            least,
            doubts: Vec::new(),
        })
    }

    /// The work and the defence of the plan.
    pub fn task(&self) -> LocalTask<'_> {
        let Self { layout, state, rule, batch, defence, cipher, .. } = self;
        LocalTask { layout, state, rule: *rule, batch: *batch, defence: *defence, cipher: cipher.as_deref() }
    }

    /// Trains on the round's pictures.
    ///
    /// # Errors
    /// If the device cannot run the model, or a picture cannot be used.
    pub async fn train(&self, pictures: &RoundPictures, device: &Device) -> Result<LocalUpdate, TrainingError> {
        let network = Network::new(self.architecture, device)?;
        self.task().train(&network, pictures).await
    }

    /// Checks that the model has the class of a private picture.
    pub(crate) fn check_label(&self, label: usize) -> Result<(), String> {
        if label < self.architecture.classes() {
            return Ok(());
        }
        Err(format!(
            "the private picture has class number {label}, and the room's model has the classes 0 to {}; choose one of \
             them, or wait for rounds on shared pictures",
            self.architecture.classes().saturating_sub(1)
        ))
    }
}

/// # Errors
/// In words for people, if there is no such model.
pub(crate) fn known_architecture(model: ModelDescription) -> Result<Architecture, String> {
    // The relay has another release if it names something unknown.
    let outdated = |error| format!("{error}; reload the page or update this client");
    let architecture = Architecture::try_from(model).map_err(outdated)?;
    if architecture.classes() == 0 {
        return Err(format!("{architecture} with 0 classes is not a model"));
    }
    Ok(architecture)
}

/// # Errors
/// In words for people, if `weights` do not fit `architecture`.
pub(crate) fn check_len(architecture: Architecture, layout: &ParamLayout, weights: &[f32]) -> Result<(), String> {
    if weights.len() == layout.len() {
        Ok(())
    } else {
        Err(format!("the relay sent {} weights, {} has {}", weights.len(), architecture, layout.len()))
    }
}

fn check_classes(architecture: Architecture, shard: &Shard) -> Result<(), String> {
    let (classes, known) = (shard.classes().len(), architecture.classes());
    if classes <= known {
        Ok(())
    } else {
        Err(format!("the shared pictures have {classes} classes, and the room's model has {known}"))
    }
}
