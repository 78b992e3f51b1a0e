//! What was chosen for the next round, and how it takes effect.

use unmask_core::{Architecture, EncryptionStart, ModelState, RoundSettings};

use super::{Effect, GlobalModel, Phase, Room};

#[derive(Debug, Clone, Default)]
pub(super) struct Choices {
    pub(super) settings: Option<RoundSettings>,
    pub(super) model: Option<GlobalModel>,
    /// Weights for the current model from the next round on.
    pub(super) weights: Option<ModelState>,
}

impl Room {
    /// The settings from the next round on.
    pub fn coming(&self) -> RoundSettings {
        self.choices.settings.unwrap_or(self.settings)
    }

    /// The model from the next round on, if it will change.
    pub fn next_model(&self) -> Option<Architecture> {
        self.choices.model.as_ref().map(|model| model.architecture)
    }

    /// Whether the next round starts with weights from [`Event::SetWeights`](super::Event::SetWeights).
    pub fn awaits_weights(&self) -> bool {
        self.choices.weights.is_some()
    }

    /// Whether `settings` need fresh weights ([`Event::SetModel`](super::Event::SetModel)) to take effect: nobody here
    /// can decrypt encrypted weights, and a keyed start makes its own.
    pub fn needs_new_model(&self, settings: &RoundSettings) -> bool {
        if self.choices.model.is_some() {
            return false;
        }
        match (self.seal().map(|seal| seal.start), settings.encryption()) {
            (Some(start), coming) => coming != Some(start),
            (None, Some(EncryptionStart::Keyed)) => self.settings.encryption() != settings.encryption(),
            (None, _) => false,
        }
    }

    /// Applies the choices made since the last round. Called only between rounds, so that no average mixes two
    /// policies.
    pub(super) fn apply_choices(&mut self) {
        // Encrypted weights must never be trained as plain ones: without fresh weights, the old settings remain.
        let settings = match self.choices.settings {
            Some(settings) if !self.needs_new_model(&settings) => {
                self.choices.settings = None;
                settings
            }
            _ => self.settings,
        };
        let model = self.choices.model.take();
        if settings == self.settings && model.is_none() {
            return;
        }
        self.policy += 1;
        if model.is_some() {
            self.choices.weights = None;
            self.doctored = None;
            self.number = 0;
            self.encryption.forget_seal();
        }
        self.learner.change(&self.settings, &settings, model);
        self.settings = settings;
    }

    /// Starts the round from the chosen weights, if they are for this model.
    pub(super) fn apply_weights(&mut self) {
        if let Some(state) = self.choices.weights.take()
            && self.seal().is_none()
        {
            self.learner.restart_from(state, &self.settings);
        }
    }

    /// Drops a running encryption, which was for other settings or another model. No round runs yet, so the choice
    /// takes effect immediately.
    pub(super) fn drop_sealing(&mut self) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Sealing(_)) {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        self.members.drop_work();
        self.apply_choices();
        self.begin()
    }
}
