//! Ways to the key of an encrypted room.

use std::{fmt, sync::Arc};

use unmask_attack::{
    AttackError, Decrypt, Encryption, KnownStart, ModelShape, RecoveredKey, TensorSource, Tensors, embeddings_layout,
};
use unmask_core::{Architecture, KeyCheck};
use unmask_defence::{Cipher, KeyError, RoomKey};
use unmask_federation::{GlobalModel, Seal};

/// The weights of the embeddings, all that a key changes, out of a model.
///
/// # Errors
/// The model has no embeddings, or the weights are not its own.
pub(crate) fn embeddings(model: &GlobalModel) -> Result<Tensors, AttackError> {
    let GlobalModel { architecture, state } = model;
    let config = ModelShape::from(*architecture).vit()?;
    Tensors::from_flat(TensorSource::Weights, &config, &state.weights, None, &RecoveredKey::WEIGHTS)
}

/// The key that a client gave away.
#[derive(Clone)]
pub(crate) struct GivenKey {
    check: KeyCheck,
    decrypt: Decrypt,
}

/// Shows which model's it is, and nothing of the key.
impl fmt::Debug for GivenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenKey").field("check", &self.check).finish_non_exhaustive()
    }
}

impl GivenKey {
    /// The key of a passphrase, if it is the one with which the room's model was encrypted. Takes a while on purpose.
    ///
    /// # Errors
    /// A sentence: no passphrase, or another one.
    pub(crate) fn derive(passphrase: &str, seal: &Seal, architecture: Architecture) -> Result<Self, String> {
        let sentence = |error: KeyError| format!("The key cannot be made: {error}.");
        let key = RoomKey::derive(passphrase, &seal.salt, seal.start).map_err(sentence)?;
        if key.check() != seal.check {
            return Err(
                "This is not the passphrase with which the room's model was encrypted; every client of the room \
                        has it."
                    .to_owned(),
            );
        }
        let config = ModelShape::from(architecture).vit().map_err(|error| format!("{error}."))?;
        let cipher = Cipher::new(&key, &embeddings_layout(&config)).map_err(sentence)?;
        let decrypt = move |values: &mut [f32]| cipher.decrypt(values).map_err(|error| error.to_string());
        Ok(Self { check: seal.check, decrypt: Arc::new(decrypt) })
    }

    /// Tells which model's key it is.
    pub(crate) fn check(&self) -> KeyCheck {
        self.check
    }
}

/// What the relay holds of the keys of the encryption in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    /// The model in both forms.
    pub(super) known: Option<(KeyCheck, Arc<KnownStart>)>,
    /// What a client gave away.
    pub(super) given: Option<GivenKey>,
}

impl Keys {
    /// Forgets what belongs to another encryption than this one.
    pub(super) fn keep(&mut self, check: Option<KeyCheck>) {
        self.known.take_if(|(known, _)| Some(*known) != check);
        self.given.take_if(|given| Some(given.check()) != check);
    }

    /// What belongs to the encryption of this check.
    pub(super) fn of(&self, check: KeyCheck) -> Encryption {
        let known = self.known.as_ref().filter(|(known, _)| *known == check);
        let given = self.given.as_ref().filter(|given| given.check == check);
        Encryption {
            known_start: known.map(|(_, known)| Arc::clone(known)),
            key: given.map(|given| Arc::clone(&given.decrypt)),
        }
    }
}
