//! Ways to obtain the key of an encrypted room.

use std::{fmt, sync::Arc};

use unmask_attack::{
    AttackError, Decrypt, Encryption, KnownStart, ModelShape, RecoveredKey, TensorSource, Tensors, embeddings_layout,
};
use unmask_core::{Architecture, KeyCheck};
use unmask_defence::{Cipher, KeyError, RoomKey};
use unmask_federation::{GlobalModel, Seal};

/// Returns a model's embedding weights, the only ones that a key changes.
///
/// # Errors
/// If the model has no embeddings, or the weights do not match its architecture.
pub(crate) fn embeddings(model: &GlobalModel) -> Result<Tensors, AttackError> {
    let GlobalModel { architecture, state } = model;
    let config = ModelShape::from(*architecture).vit()?;
    Tensors::from_flat(TensorSource::Weights, &config, &state.weights, None, &RecoveredKey::WEIGHTS)
}

/// Why no key is given away, in a sentence for the teacher.
#[derive(Debug, thiserror::Error)]
pub enum GivenKeyError {
    #[error("The room's model is not encrypted, so there is no key to give away.")]
    NotEncrypted,
    #[error("The key cannot be made: {0}.")]
    Key(#[from] KeyError),
    #[error("This is not the passphrase with which the room's model was encrypted; every client of the room has it.")]
    OtherPassphrase,
    #[error("{0}.")]
    Model(#[from] AttackError),
    #[error("The encryption that this key belonged to has ended.")]
    Outdated,
}

/// The key that a client gave away.
#[derive(Clone)]
pub struct GivenKey {
    check: KeyCheck,
    decrypt: Decrypt,
}

/// Shows which model the key belongs to, without the key.
impl fmt::Debug for GivenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenKey").field("check", &self.check).finish_non_exhaustive()
    }
}

impl GivenKey {
    /// Derives the key from a passphrase and checks that it encrypted the room's model. Slow on purpose.
    pub(crate) fn derive(passphrase: &str, seal: &Seal, architecture: Architecture) -> Result<Self, GivenKeyError> {
        let key = RoomKey::derive(passphrase, &seal.salt, seal.start)?;
        if key.check() != seal.check {
            return Err(GivenKeyError::OtherPassphrase);
        }
        let config = ModelShape::from(architecture).vit()?;
        let cipher = Cipher::new(&key, &embeddings_layout(&config))?;
        let decrypt = move |values: &mut [f32]| cipher.decrypt(values).map_err(|error| error.to_string());
        Ok(Self { check: seal.check, decrypt: Arc::new(decrypt) })
    }

    /// Identifies the model that the key belongs to.
    pub(crate) fn check(&self) -> KeyCheck {
        self.check
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    /// The encrypted model in both forms.
    pub(super) known: Option<(KeyCheck, Arc<KnownStart>)>,
    pub(super) given: Option<GivenKey>,
}

impl Keys {
    pub(super) fn keep(&mut self, check: Option<KeyCheck>) {
        self.known.take_if(|(known, _)| Some(*known) != check);
        self.given.take_if(|given| Some(given.check()) != check);
    }

    /// Returns the keys of the encryption with this check.
    pub(super) fn of(&self, check: KeyCheck) -> Encryption {
        let known = self.known.as_ref().filter(|(known, _)| *known == check);
        let given = self.given.as_ref().filter(|given| given.check == check);
        Encryption {
            known_start: known.map(|(_, known)| Arc::clone(known)),
            key: given.map(|given| Arc::clone(&given.decrypt)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_only_the_model_it_belongs_to() {
        let [own, other] = [1, 2].map(|byte| KeyCheck([byte; 16]));
        let mut keys = Keys { known: None, given: Some(GivenKey { check: own, decrypt: Arc::new(|_| Ok(())) }) };
        assert!(keys.of(own).key.is_some() && keys.of(other).key.is_none());
        keys.keep(Some(own));
        assert!(keys.of(own).key.is_some());
        keys.keep(Some(other));
        assert!(keys.of(own).key.is_none());
    }
}
