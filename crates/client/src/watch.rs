//! Compares each plan with the one before, and decides whether to train on it.

use unmask_core::{Architecture, Defence, ModelState, OptimiserKind, Rule};
use unmask_model::{Device, Network};
use unmask_wire::{EncryptionPlan, ServerPlan};

use crate::{
    Batch, PictureSelection, PictureSource, RoundPictures, RoundPlan, TrainingError,
    careful::{Announced, Doubt, PlanCheck, flat_pictures, picture_losses},
};

/// Pictures of a client that a round of FedAvg may have trained on, if this client has fewer. Clients with more take more
/// steps than the check supposes, which stay far below its other bounds.
const USUAL_PICTURES: u32 = 1000;
/// Pictures of a round whose loss is looked at.
const LOOKED_AT: usize = 64;

/// The most weights that a client keeps to compare the next plan with: a phone has no memory for a large model twice.
const KEPT: Option<usize> = if cfg!(target_family = "wasm") { Some(8_000_000) } else { None };

/// What a client does about plans that look doctored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caution {
    /// It does not look at them.
    #[default]
    Off,
    /// It looks at the weights, and trains.
    Weights,
    /// It looks at the weights and at what they let its pictures teach, which takes a third of a step, and trains.
    Pictures,
    /// It looks at both, and does not train on what raises a doubt.
    Refuse,
}

impl Caution {
    /// Whether a client with this caution leaves a round out that raised a doubt.
    pub fn refuses(self) -> bool {
        self == Self::Refuse
    }
}

/// The last plan that raised no doubt.
#[derive(Debug)]
struct Seen {
    round: u32,
    policy: u32,
    start: u64,
    /// Salt of the encryption: another key is another start.
    salt: Option<[u8; 16]>,
    architecture: Architecture,
    rule: Rule,
    optimiser: OptimiserKind,
    defence: Defence,
    steps: u64,
    /// `[P]`, in plaintext.
    weights: Vec<f32>,
}

/// Remembers the last plan, as long as the client looks at plans at all.
#[derive(Debug, Default)]
pub(crate) struct PlanWatch {
    caution: Caution,
    seen: Option<Seen>,
}

impl PlanWatch {
    pub(crate) fn caution(&self) -> Caution {
        self.caution
    }

    pub(crate) fn set_caution(&mut self, caution: Caution) {
        self.caution = caution;
        if caution == Caution::Off {
            self.seen = None;
        }
    }

    /// The doubts that the weights of a plan raise, by themselves and beside those of the last plan without a doubt. A plan
    /// whose weights do not follow from those is looked at by itself: after a new start, and where settings that this client
    /// has not seen were in force in between.
    pub(crate) fn look(
        &mut self,
        plan: &RoundPlan,
        server: ServerPlan,
        encryption: Option<EncryptionPlan>,
    ) -> Vec<Doubt> {
        if self.caution == Caution::Off {
            return Vec::new();
        }
        let salt = encryption.map(|plan| plan.salt);
        let before = self.seen.as_ref().filter(|seen| {
            let is_same_policy = seen.policy == plan.policy;
            (seen.start, seen.salt, seen.architecture) == (server.start, salt, plan.architecture)
                && plan.round >= seen.round
                && (is_same_policy || plan.round == seen.round + 1)
        });
        let settings = before.map_or((plan.rule, server.optimiser, plan.defence), |seen| {
            // The settings of the rounds in between, not those of the round to come.
            (seen.rule, seen.optimiser, seen.defence)
        });
        let (rule, optimiser, defence) = settings;
        let announced = Announced {
            rule,
            optimiser,
            rounds: before.map_or(1, |seen| plan.round - seen.round),
            steps: before.map_or_else(|| steps(plan), |seen| seen.steps),
            noise: defence.noise().map_or(0.0, |noise| noise.deviation()),
        };
        let check = PlanCheck {
            architecture: plan.architecture,
            before: before.map(|seen| seen.weights.as_slice()),
            now: &plan.state.weights,
            announced,
        };
        let doubts = check.doubts();
        if KEPT.is_some_and(|most| plan.state.weights.len() > most) {
            self.seen = None;
        } else if doubts.is_empty() {
            // The memory of the last plan serves this one.
            let mut weights = self.seen.take().map(|seen| seen.weights).unwrap_or_default();
            weights.clone_from(&plan.state.weights);
            self.seen = Some(Seen {
                round: plan.round,
                policy: plan.policy,
                start: server.start,
                salt,
                architecture: plan.architecture,
                rule: plan.rule,
                optimiser: server.optimiser,
                defence: plan.defence,
                steps: steps(plan),
                weights,
            });
        }
        doubts
    }
}

/// The most local steps that a client takes in this round.
fn steps(plan: &RoundPlan) -> u64 {
    let own = match &plan.pictures {
        PictureSelection::Private => 0,
        PictureSelection::Shared { shard, .. } => u32::try_from(shard.len()).unwrap_or(u32::MAX),
    };
    plan.rule.local_steps(own.max(USUAL_PICTURES), u16::try_from(plan.batch).unwrap_or(u16::MAX))
}

impl RoundPlan {
    /// Every doubt about the plan, with that about its pictures if `caution` asks for them.
    ///
    /// # Errors
    /// If the device cannot run the model, or a picture cannot be used.
    pub async fn examine(
        &self,
        pictures: &RoundPictures,
        device: &Device,
        caution: Caution,
    ) -> Result<Vec<Doubt>, TrainingError> {
        let mut doubts = self.doubts.clone();
        if matches!(caution, Caution::Pictures | Caution::Refuse) {
            let network = Network::new(self.architecture, device)?;
            doubts.extend(flat(&network, &self.state, pictures).await?);
        }
        Ok(doubts)
    }
}

/// The doubt that these pictures raise, if they teach the model nothing.
async fn flat(network: &Network, state: &ModelState, pictures: &RoundPictures) -> Result<Option<Doubt>, TrainingError> {
    let architecture = network.architecture();
    let layout = architecture.layout();
    let Some(head) = ["head.weight", "fc.weight"].into_iter().find_map(|name| layout.slice(&state.weights, name))
    else {
        return Ok(None);
    };
    let Batch { images, labels } = pictures.batch(0, LOOKED_AT)?;
    let logits = network.logits(state, &images, labels.len()).await?;
    Ok(flat_pictures(&picture_losses(&logits, &labels, head)))
}

/// What is wrong with a plan, as one clause for the relay.
pub(crate) fn reason(doubts: &[Doubt]) -> String {
    let doubts: Vec<String> = doubts.iter().map(Doubt::to_string).collect();
    format!("the plan looks doctored: {}", doubts.join("; "))
}
