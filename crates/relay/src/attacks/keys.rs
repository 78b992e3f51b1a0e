//! Ways to the key of an encrypted room.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unmask_attack::{Precision, Reconstruction, RecoveredKey, Source, Tensors, embedding_inversion};
use unmask_core::{EncryptionStart, KeyCheck, ModelSpec, ParamLayout, VitConfig};
use unmask_defence::{Cipher, KeyError, RoomKey};
use unmask_federation::{GlobalModel, Seal};

/// The embeddings of one model as the relay sent them and as they came back.
pub(crate) struct KnownStart {
    check: KeyCheck,
    plain: Tensors,
    encrypted: Tensors,
    /// Worked out by the first attack that asks.
    key: OnceLock<Result<RecoveredKey, String>>,
}

impl fmt::Debug for KnownStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownStart").field("check", &self.check).finish_non_exhaustive()
    }
}

impl KnownStart {
    /// Both forms of the embeddings of the model that was encrypted with the key of `check`.
    pub(crate) fn new(check: KeyCheck, plain: Tensors, encrypted: Tensors) -> Self {
        Self { check, plain, encrypted, key: OnceLock::new() }
    }

    fn key(&self) -> Result<&RecoveredKey, String> {
        let recover =
            || RecoveredKey::from_known_start(&self.plain, &self.encrypted).map_err(|error| error.to_string());
        self.key.get_or_init(recover).as_ref().map_err(Clone::clone)
    }
}

/// The weights of the embeddings, all that a key changes, out of a model.
///
/// # Errors
/// A sentence, if the weights are not those of the model.
pub(crate) fn embeddings(model: &GlobalModel) -> Result<Tensors, String> {
    Tensors::from_flat(Source::Weights, &model.spec.config(), &model.weights, &RecoveredKey::WEIGHTS)
        .map_err(|error| error.to_string())
}

/// The key that a client gave away, made ready for the front of the model alone.
#[derive(Debug)]
pub(crate) struct GivenKey(Cipher);

impl GivenKey {
    /// The key of a passphrase, if it is the one with which the room's model was encrypted. Takes a while on purpose.
    ///
    /// # Errors
    /// A sentence: no passphrase, or another one.
    pub(crate) fn derive(passphrase: &str, seal: &Seal, spec: ModelSpec) -> Result<Self, String> {
        let sentence = |error: KeyError| format!("The key cannot be made: {error}.");
        let key = RoomKey::derive(passphrase, &seal.salt, seal.start).map_err(sentence)?;
        if key.check() != seal.check {
            return Err(
                "This is not the passphrase with which the room's model was encrypted; every client of the room \
                        has it."
                    .to_owned(),
            );
        }
        Cipher::new(&key, &front(&spec.config())).map(Self).map_err(sentence)
    }

    /// Tells which model's key it is.
    pub(crate) fn check(&self) -> KeyCheck {
        self.0.check()
    }

    fn decrypt(&self, gradients: &Tensors) -> Result<Tensors, String> {
        let config = gradients.config();
        let layout = front(config);
        let mut flat = vec![0.0; layout.len()];
        let params: Vec<_> = RecoveredKey::WEIGHTS.into_iter().filter_map(|name| layout.get(name)).collect();
        for param in &params {
            let values = gradients.values(&param.name).ok_or_else(|| format!("the update lacks \"{}\"", param.name))?;
            for (to, from) in flat[param.range.clone()].iter_mut().zip(values) {
                *to = *from as f32;
            }
        }
        self.0.decrypt(&mut flat).map_err(|error| error.to_string())?;
        let mut plain = Tensors::new(Source::Gradients, config, Precision::F32);
        for param in params {
            let values = flat[param.range.clone()].iter().map(|&value| f64::from(value)).collect();
            plain.insert(&param.name, &param.shape, values).map_err(|error| error.to_string())?;
        }
        Ok(plain)
    }
}

/// The layout of the model without its blocks: the embeddings stand in front, and a key changes nothing else.
fn front(config: &VitConfig) -> ParamLayout {
    ParamLayout::vit(&VitConfig { depth: 0, ..*config })
}

/// What the relay holds of the keys of the encryption in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    /// The model in both forms.
    pub(super) known: Option<Arc<KnownStart>>,
    /// What a client gave away.
    pub(super) given: Option<Arc<GivenKey>>,
}

impl Keys {
    /// Forgets what belongs to another encryption than this one.
    pub(super) fn keep(&mut self, check: Option<KeyCheck>) {
        self.known.take_if(|known| Some(known.check) != check);
        self.given.take_if(|given| Some(given.check()) != check);
    }

    /// Embedding inversion with the key that both forms of the model give away.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn by_known_start(
        &self,
        (start, check): (EncryptionStart, KeyCheck),
        gradients: &Tensors,
    ) -> Result<Reconstruction, String> {
        if start == EncryptionStart::Keyed {
            return Err(
                "under the keyed start a client makes the model and encrypts it, so that the relay never saw it in \
                        the plain"
                    .to_owned(),
            );
        }
        let known = self.known.as_ref().filter(|known| known.check == check);
        let key = known.ok_or("the relay does not hold the plain form of this model")?.key()?;
        let plain = key.decrypt(gradients).map_err(|error| error.to_string())?;
        embedding_inversion(&plain).map_err(|error| error.to_string())
    }

    /// Embedding inversion with the key that a client gave away.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn by_colluder(&self, check: KeyCheck, gradients: &Tensors) -> Result<Reconstruction, String> {
        let given = self.given.as_ref().filter(|given| given.check() == check);
        let plain = given.ok_or("no client has given the key away")?.decrypt(gradients)?;
        embedding_inversion(&plain).map_err(|error| error.to_string())
    }
}
