//! Why the room does not do what the teacher asks.

use unmask_attack::AttackError;
use unmask_core::{Architecture, NoEmbeddings, SecureSumError, SettingsError, UnknownArchitecture};

use super::{
    initialiser::NoPretrained, measuring::BudgetError, memory::TooMuchMemory, moderation::ModerationError,
    sharing::SharingError, stage::AskError,
};
use crate::attacks::AttacksError;

/// A sentence for the teacher.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("{0}.")]
    Settings(#[from] SettingsError),
    #[error("{0}.")]
    Defence(#[from] NoEmbeddings),
    #[error("{0}.")]
    SecureSum(#[from] SecureSumError),
    #[error("{0}.")]
    Weights(#[from] NoPretrained),
    #[error(transparent)]
    Begin(#[from] BeginError),
    #[error(transparent)]
    Moderation(#[from] ModerationError),
    #[error(transparent)]
    Attacks(#[from] AttacksError),
    #[error(transparent)]
    Measuring(#[from] BudgetError),
    #[error(transparent)]
    Sharing(#[from] SharingError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Doctor(#[from] DoctorError),
    #[error("A list of controls cannot have {what}; send it alone.")]
    Alone { what: &'static str },
    #[error("A list of controls cannot have another list; send one list of all.")]
    Nested,
}

/// Why the relay cannot doctor weights, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    #[error("The relay cannot doctor weights that it cannot read; choose another defence than encryption.")]
    Encrypted,
    #[error("The relay cannot fish: {0}.")]
    Attack(AttackError),
}

/// Why the room does not begin with another model, in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    #[error("There is no model {name:?} to choose; choose {}.", Architecture::names().collect::<Vec<_>>().join(", "))]
    Unknown { name: String },
    #[error("The room cannot begin with {name:?}: {source}.")]
    Unfit { name: String, source: Box<UnfitModel> },
    #[error("{architecture} has no transformer block that could be April's; start a room on a ViT.")]
    NoBlock { architecture: Architecture },
}

/// Why a model does not fit the room, as a clause.
#[derive(Debug, thiserror::Error)]
pub enum UnfitModel {
    #[error(transparent)]
    Size(#[from] UnknownArchitecture),
    #[error("it has no transformer block that could be April's; choose a ViT, or leave the block")]
    NoBlock,
    #[error(transparent)]
    Defence(#[from] NoEmbeddings),
    #[error(transparent)]
    SecureSum(#[from] SecureSumError),
    #[error(transparent)]
    Weights(#[from] NoPretrained),
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
}
