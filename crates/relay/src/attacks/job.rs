//! One update of the client under attack.

use std::sync::{Mutex, PoisonError};

use unmask_attack::{Attack, AttackKind, Evidence, Method, Reconstruction, run_attack};
use unmask_core::{ClientId, Defence, EncryptionStart, KeyCheck, ModelSpec, Rule, VitConfig};
use unmask_defence::ProtectedUpdate;
use unmask_federation::GlobalModel;

use super::{
    labels::{self, Labels},
    reading::{self, Scale},
};

/// Which update a result is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct About {
    /// Tells the models of one room apart; results for an earlier one are not shown.
    pub(crate) epoch: u64,
    /// Counts the updates under attack: a result of a newer one is never replaced by that of an older.
    pub(crate) serial: u64,
    /// Counts how often the teacher had rounds gathered anew.
    pub(crate) gathering: u64,
    /// Who sent it.
    pub(crate) client: ClientId,
    /// The round.
    pub(crate) round: u32,
    /// The defence it was made under.
    pub(crate) defence: Defence,
    /// The rule it was made under.
    pub(crate) rule: Rule,
    /// Pictures in it, by what the client said.
    pub(crate) samples: u32,
}

/// An update that came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    /// Which.
    pub(crate) about: About,
    /// Samples per step.
    pub(crate) batch: u16,
    /// How the room is encrypted, if it is.
    pub(crate) encryption: Option<EncryptionStart>,
    /// The model it was made with.
    pub(crate) model: &'a GlobalModel,
    /// What was sent.
    pub(crate) update: &'a ProtectedUpdate,
}

impl Sent<'_> {
    fn scale(&self) -> Scale {
        Scale::of(self.about.rule, self.about.samples, self.batch)
    }
}

/// What covers an update, as far as attacks care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All entries arrived.
    Open,
    /// All entries arrived, those of the position embedding as zeros.
    FixedPosition,
    /// A mask dropped entries.
    Masked,
    /// The embeddings are ciphertext.
    Encrypted {
        /// How the room began.
        start: EncryptionStart,
        /// Tells keys apart.
        check: KeyCheck,
    },
}

impl Cover {
    /// The methods that say something about an update so covered.
    pub(crate) fn methods(self) -> Vec<Method> {
        let mut methods: Vec<Method> = Attack::ALL.map(Method::from).into();
        match self {
            Self::Masked => methods.push(Method::Rounds),
            Self::Encrypted { .. } => methods.extend([Method::KnownStart, Method::Colluder]),
            Self::Open | Self::FixedPosition => {}
        }
        methods.extend(self.searches());
        methods
    }

    /// The searches among them.
    pub(crate) fn searches(self) -> &'static [Method] {
        match self {
            Self::Masked => &[Method::MatchingAware, Method::Matching],
            Self::FixedPosition => &[Method::Jigsaw],
            Self::Open | Self::Encrypted { .. } => &[Method::MatchingAware],
        }
    }
}

/// What the attacks need to know of an update; the update itself is not kept.
#[derive(Debug)]
pub(crate) struct Job {
    /// Which update.
    pub(crate) about: About,
    /// What covers it.
    pub(crate) cover: Cover,
    /// The model's shape.
    pub(super) config: VitConfig,
    /// What the attacks read, or why they cannot.
    pub(super) evidence: Result<Evidence, String>,
    /// What [`AttackKind::Embedding`] made of it, naive and aware: searches begin there.
    pictures: [Mutex<Option<Result<Reconstruction, String>>>; 2],
}

impl Job {
    /// Reads off an update what the attacks need.
    pub(crate) fn new(sent: &Sent<'_>) -> Self {
        let evidence = reading::evidence(sent.model, sent.scale(), sent.update);
        let is_position_zero = || {
            let values = evidence.as_ref().ok().and_then(|evidence| evidence.gradients.values("pos_embed"));
            values.is_some_and(|values| values.iter().all(|&value| value == 0.0))
        };
        let cover = match (sent.update, sent.encryption) {
            (ProtectedUpdate::Encrypted { check, .. }, Some(start)) => Cover::Encrypted { start, check: *check },
            _ if is_position_zero() => Cover::FixedPosition,
            (ProtectedUpdate::Masked { .. }, _) => Cover::Masked,
            _ => Cover::Open,
        };
        let config = sent.model.spec.config();
        Self { about: sent.about, cover, config, evidence, pictures: Default::default() }
    }

    /// What a closed form makes of the update.
    ///
    /// # Errors
    /// Why it can make nothing.
    pub(super) fn reconstruct(&self, attack: Attack) -> Result<Reconstruction, String> {
        let solve = || {
            let evidence = self.evidence.as_ref().map_err(Clone::clone)?;
            run_attack(attack, evidence).map_err(|error| error.to_string())
        };
        if attack.kind != AttackKind::Embedding {
            return solve();
        }
        // Whoever comes while it is worked out waits for it, instead of working it out once more.
        let place = &self.pictures[usize::from(attack != Attack::naive(AttackKind::Embedding))];
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert_with(solve).clone()
    }

    /// The labels behind the update.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub(super) fn labels(&self) -> Result<Labels, String> {
        let evidence = self.evidence.as_ref().map_err(Clone::clone)?;
        labels::read(&self.about, &evidence.gradients)
    }
}

/// What a search through the model needs besides: the whole weights, and so a model's memory.
#[derive(Debug)]
pub(crate) struct Material {
    pub(super) spec: ModelSpec,
    pub(super) weights: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    pub(super) kept: Option<Vec<bool>>,
}

impl Material {
    /// Copies what a search needs.
    pub(crate) fn new(sent: &Sent<'_>) -> Self {
        let reading::Part { values, kept } = reading::front(sent.model, sent.scale(), sent.update);
        Self { spec: sent.model.spec, weights: sent.model.weights.clone(), gradient: values, kept }
    }
}
