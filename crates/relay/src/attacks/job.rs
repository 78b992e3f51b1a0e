//! One update of the client under attack.

use unmask_attack::{AttackError, Concealment, Encryption, Observation, WholeUpdate};
use unmask_core::{Architecture, EncryptionStart, KeyCheck, UpdateForm};
use unmask_defence::ProtectedUpdate;
use unmask_federation::GlobalModel;

use super::{
    about::About,
    labels::{self, Labels},
    reading::{self, Scale},
};

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

/// What the attacks need to know of an update; the update itself is not kept.
#[derive(Debug)]
pub(crate) struct Job {
    /// Which update.
    pub(crate) about: About,
    /// What it hides.
    pub(crate) concealment: Concealment,
    /// How it is encrypted, if it is.
    pub(crate) encryption: Option<(EncryptionStart, KeyCheck)>,
    /// The model.
    pub(crate) architecture: Architecture,
    /// What the attacks hold of it, but for what comes later: keys, rounds, and the model for a search.
    pub(super) observation: Observation,
}

impl Job {
    /// Reads off an update what the attacks need.
    pub(crate) fn new(sent: &Sent<'_>) -> Self {
        let evidence = reading::evidence(sent.model, sent.scale(), sent.update);
        let encryption = match (sent.update.form, sent.encryption) {
            (UpdateForm::Encrypted { check }, Some(start)) => Some((start, check)),
            _ => None,
        };
        let concealment = Concealment::of(&sent.update.form, evidence.as_ref().ok());
        let mut observation = Observation::new(evidence);
        observation.batch = usize::try_from(sent.about.samples).unwrap_or(usize::MAX);
        observation.encryption = encryption.map(|_| Encryption::default());
        Self { about: sent.about, concealment, encryption, architecture: sent.model.architecture, observation }
    }

    /// Copies what a search needs of the update: the whole weights, and so a model's memory.
    pub(crate) fn whole(&self, sent: &Sent<'_>) -> WholeUpdate {
        let searches = self.concealment.searches(self.architecture);
        let reading::Part { values, kept } = reading::front(&searches, sent.model, sent.scale(), sent.update);
        let GlobalModel { architecture, state } = sent.model;
        WholeUpdate { architecture: *architecture, state: state.clone(), gradient: values, kept, is_training: true }
    }

    /// Copies the weights at which it was taken, and nothing of the update; `None` where no attack runs them on a picture.
    pub(crate) fn model(&self, sent: &Sent<'_>) -> Option<WholeUpdate> {
        let GlobalModel { architecture, state } = sent.model;
        let is_of_use = architecture.vit().is_some() && self.encryption.is_none();
        is_of_use.then(|| WholeUpdate {
            architecture: *architecture,
            state: state.clone(),
            gradient: Vec::new(),
            kept: None,
            is_training: true,
        })
    }

    /// The labels behind the update.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub(super) fn labels(&self) -> Result<Labels, AttackError> {
        Ok(labels::with_remarks(self.observation.read_labels()?, &self.about))
    }
}
