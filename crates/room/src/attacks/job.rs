//! One update of the client under attack.

use unmask_attack::{AttackError, Concealment, Encryption, Observation, Received, UpdateScale, WholeUpdate};
use unmask_core::{Architecture, AttackMethod, EncryptionStart, KeyCheck, ParamGroup, UpdateForm};
use unmask_defence::CheckedUpdate;
use unmask_federation::GlobalModel;

use super::{
    about::About,
    elsewhere::Copied,
    labels::{self, Labels},
    reading,
};

/// An update that the room accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) about: About,
    /// Samples per step.
    pub(crate) batch: u16,
    /// How the room's model is encrypted, if it is.
    pub(crate) encryption: Option<EncryptionStart>,
    /// The model from which the client computed the update.
    pub(crate) model: &'a GlobalModel,
    pub(crate) update: &'a CheckedUpdate<'static>,
    /// Whether the lesson shows the numbers themselves.
    pub(crate) draws_tables: bool,
    /// Whether all attacks run on it, and not only the wall's.
    pub(crate) is_target: bool,
}

impl Sent<'_> {
    fn received(&self) -> Received<'_, impl Iterator<Item = (u64, usize)> + Clone> {
        Received {
            model: self.model.architecture.into(),
            weights: &self.model.state.weights,
            values: self.update.values(),
            words: self.update.words(),
            scale: UpdateScale::of(self.about.rule, self.about.samples, self.batch),
        }
    }
}

/// The attacks' view of an update; the update itself is not kept.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) about: About,
    /// How the defence conceals the update.
    pub(crate) concealment: Concealment,
    /// How the update is encrypted, if it is.
    pub(crate) encryption: Option<(EncryptionStart, KeyCheck)>,
    pub(crate) architecture: Architecture,
    /// Whether the lesson shows the numbers themselves.
    pub(crate) draws_tables: bool,
    /// Number of pictures that are taken apart; 1 for none.
    apart: usize,
    /// The update itself, if the workers are elsewhere.
    pub(super) copied: Option<Box<Copied>>,
    /// The attacks' input, without the parts added later: keys, rounds, and the model for a search.
    pub(super) observation: Observation,
}

impl Job {
    /// Extracts what the attacks need from an update.
    pub(crate) fn new(sent: &Sent<'_>) -> Self {
        let (architecture, form) = (sent.model.architecture, sent.update.form());
        let pictures = usize::try_from(sent.about.samples).unwrap_or(usize::MAX);
        // Only the attacked client's plain or masked updates are taken apart, and no client claims more than one step has.
        let is_apart = sent.is_target && sent.encryption.is_none() && !sent.about.defence.fixes(ParamGroup::Position);
        let apart = if is_apart { pictures.min(sent.batch.into()) } else { 1 };
        let evidence = reading::evidence(architecture, apart, &sent.received());
        let encryption = match (form, sent.encryption) {
            (UpdateForm::Encrypted { check }, Some(start)) => Some((start, check)),
            _ => None,
        };
        let concealment = Concealment::of(&form, evidence.as_ref().ok());
        let mut observation = Observation::new(evidence);
        observation.batch = pictures;
        observation.local_steps = sent.about.rule.local_steps(sent.about.samples, sent.batch);
        observation.encryption = encryption.map(|_| Encryption::default());
        let (about, draws_tables) = (sent.about, sent.draws_tables);
        Self { about, concealment, encryption, architecture, draws_tables, apart, copied: None, observation }
    }

    /// Copies what a search needs of the update, including all weights: this takes a model's memory.
    pub(crate) fn whole(&self, sent: &Sent<'_>) -> WholeUpdate {
        let searches = self.concealment.searches(self.architecture);
        let (gradient, kept) = sent.received().gradient(reading::front(&searches, self.architecture));
        let GlobalModel { architecture, state } = sent.model;
        WholeUpdate { architecture: *architecture, state: state.clone(), gradient, kept, is_training: true }
    }

    /// Copies only the weights, to run the model on a picture; `None` if no attack can use them.
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

    /// The methods to try.
    pub(crate) fn methods(&self) -> Vec<AttackMethod> {
        self.concealment.methods(self.architecture, self.apart)
    }

    /// Reads the labels from the update.
    ///
    /// # Errors
    /// If the labels cannot be told.
    pub(super) fn labels(&self) -> Result<Labels, AttackError> {
        Ok(labels::with_remarks(self.observation.read_labels()?, &self.about))
    }
}
