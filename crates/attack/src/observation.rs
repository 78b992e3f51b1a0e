//! What an attacker knows about one client.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unmask_core::{Architecture, AttackMethod, ModelState, VitConfig};

use crate::{
    AccumulatedRounds, AttackError, Evidence, KeySource, KnownStart, LabelReading, Levels, Membership, OnProgress,
    Reconstruction, RecoveredKey, Rounding, Searches, TensorSource, Tensors, class_token_gradient, embeddings_layout,
    membership::{Members, altered, membership},
    method::ClosedForm,
    model::HEAD_BIAS,
    most_pictures, read_labels,
    span::GoOn,
};

/// Everything that an honest-but-curious relay knows about one client, with any keys it got. Clones share it.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Tensors that the closed forms, labels and membership read, or why the update cannot be read.
    pub evidence: Result<Arc<Evidence>, AttackError>,
    /// Number of pictures in the update.
    pub batch: usize,
    /// Number of local steps, each at different weights and perhaps on different pictures; 1 for a gradient.
    pub local_steps: u64,
    /// Labels of the pictures, if known; otherwise they are read off the update.
    pub labels: Option<Vec<usize>>,
    /// Where the grey levels of 8-bit pictures lie among the model's inputs.
    pub levels: Levels,
    /// The update with its whole model, for searches and membership.
    pub whole: Option<Arc<WholeUpdate>>,
    /// Several rounds over the same pictures, or why they cannot be gathered.
    pub rounds: Result<Arc<AccumulatedRounds>, AttackError>,
    /// Present if weights and updates are encrypted.
    pub encryption: Option<Encryption>,
    /// Results of the closed forms, which are also where searches start.
    solved: Arc<[OnceLock<Result<Reconstruction, AttackError>>; AttackMethod::ALL.len()]>,
}

/// An update as one vector, with the model it was made with.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeUpdate {
    pub architecture: Architecture,
    /// The model's state when the gradient was taken.
    pub state: ModelState,
    /// The gradient in the layout's order, 0 where hidden. It may end after the last parameter that the search uses.
    pub gradient: Vec<f32>,
    /// Which entries of the gradient arrived; `None` if all did.
    pub kept: Option<Vec<bool>>,
    /// Whether batch norm used the batch's own moments, as in training, instead of the running statistics.
    pub is_training: bool,
}

/// Decrypts a flat vector of [`embeddings_layout`] in place.
pub type Decrypt = Arc<dyn Fn(&mut [f32]) -> Result<(), String> + Send + Sync>;

/// What the attacker knows about the key of an encrypted room.
#[derive(Clone, Default)]
pub struct Encryption {
    /// The embeddings in both forms, if the relay made the model.
    pub known_start: Option<Arc<KnownStart>>,
    /// The key, if a client gave it away.
    pub key: Option<Decrypt>,
}

/// Shows which parts are present, but nothing of the key.
impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("known_start", &self.known_start)
            .field("has_key", &self.key.is_some())
            .finish()
    }
}

impl Observation {
    /// An unencrypted gradient of one picture.
    pub fn new(evidence: Result<Evidence, AttackError>) -> Self {
        Self {
            evidence: evidence.map(Arc::new),
            batch: 1,
            local_steps: 1,
            labels: None,
            levels: Levels::default(),
            whole: None,
            rounds: Err(AttackError::NoRounds),
            encryption: None,
            solved: Arc::default(),
        }
    }

    /// The tensors read from the update.
    ///
    /// # Errors
    /// Why the update cannot be read.
    pub fn evidence(&self) -> Result<&Evidence, AttackError> {
        self.evidence.as_deref().map_err(Clone::clone)
    }

    /// Runs `solve`, the closed form of `method`, at most once. A concurrent caller waits for the result, and a later
    /// one gets it without any call to `progress`. An attack that was ended cannot be resumed.
    pub(crate) fn solve(
        &self,
        method: AttackMethod,
        solve: ClosedForm,
        progress: OnProgress<'_>,
    ) -> Result<Reconstruction, AttackError> {
        self.solved[method as usize].get_or_init(|| solve(self.evidence()?, progress)).clone()
    }

    /// Whether counting allows the attack `batch` on this many pictures.
    pub(crate) fn may_be_taken_apart(&self) -> bool {
        let config = self.evidence().and_then(|evidence| evidence.gradients.vit());
        config.is_ok_and(|config| self.batch <= most_pictures(&config))
    }

    /// Labels of the pictures, read off the update.
    ///
    /// # Errors
    /// Why the labels cannot be read.
    pub fn read_labels(&self) -> Result<LabelReading, AttackError> {
        read_labels(&self.evidence()?.gradients, self.batch)
    }

    /// Tells whether `picture`, `[side, side, 3]` in [0, 1], was in the update. `searches` runs the model of
    /// [`whole`](Self::whole) on it and on altered copies, and [`membership`] compares. `pictures` is the number of
    /// pictures in the update, if known. `go_on` may end the work.
    ///
    /// # Errors
    /// The update cannot be read, the model is not a ViT, missing or encrypted, the picture has another size or is not
    /// finite, or as [`Members::of`] and [`membership`].
    pub fn membership(
        &self,
        searches: &dyn Searches,
        picture: &[f32],
        pictures: Option<usize>,
        go_on: GoOn<'_>,
    ) -> Result<Membership, AttackError> {
        let gradients = &self.evidence()?.gradients;
        let side = gradients.vit()?.image;
        if self.encryption.is_some() {
            return Err(AttackError::CipherText);
        }
        let (found, expected) = (picture.len(), side * side * VitConfig::CHANNELS);
        if found != expected {
            return Err(AttackError::WrongPicture { found, expected });
        }
        if let Some(index) = picture.iter().position(|value| !value.is_finite()) {
            return Err(AttackError::NonFinitePicture { index, value: picture[index] });
        }
        let whole = self.whole.as_deref().ok_or(AttackError::NoModel)?;
        let name = class_token_gradient(whole.architecture)?;
        let range = whole.architecture.layout().get(&name).map(|param| param.range.clone()).unwrap_or_default();
        let of = |label: usize, picture: &[f32]| searches.gradient(whole, &[label], picture);
        let slice = |flat: &[f64]| flat.get(range.clone()).unwrap_or_default().to_vec();
        let own = |picture: &[f32]| -> Result<Vec<f64>, AttackError> {
            let mut own = Vec::new();
            // The gradient vanishes for a label that the model is sure of, which can only be one of the two. At doctored
            // weights it vanishes for all but the class that the relay knows.
            let known = self.labels.iter().flatten().copied().take(1);
            for label in (0..whole.architecture.classes().min(2)).chain(known) {
                own = slice(&of(label, picture)?);
                if own.iter().any(|&value| value != 0.0) {
                    break;
                }
            }
            Ok(own)
        };
        let first = of(0, picture)?;
        let likely = likeliest_label(whole.architecture, &first);
        let second =
            of(if likely == 0 { whole.architecture.classes().saturating_sub(1).min(1) } else { likely }, picture)?;
        let (sure, unsure) = if likely == 0 { (first, second) } else { (second, first) };
        let norm = |flat: &[f64]| slice(flat).iter().map(|value| value * value).sum::<f64>().sqrt();
        let strength = norm(&sure) / norm(&unsure).max(f64::MIN_POSITIVE);
        let is_zero = slice(&unsure).iter().all(|&value| value == 0.0);
        let mut all = vec![if is_zero { own(picture)? } else { slice(&unsure) }];
        for copy in altered(picture, side) {
            all.push(own(&copy)?);
        }
        membership(&Members::of(gradients, pictures, go_on)?.over_steps(self.local_steps), &all, strength)
    }

    /// One label for each picture: the known ones, or those that the update reveals.
    ///
    /// # Errors
    /// There are too few or too many, or they cannot be read off the update.
    pub fn known_labels(&self) -> Result<Vec<usize>, AttackError> {
        let batch = self.batch;
        match &self.labels {
            Some(labels) if labels.len() == batch => Ok(labels.clone()),
            Some(labels) => Err(AttackError::LabelCount { labels: labels.len(), batch }),
            None => Ok(self.read_labels().map_err(|why| AttackError::NoLabels(Box::new(why)))?.labels()),
        }
    }

    /// The decrypted gradients of both embeddings.
    pub(crate) fn decrypted(&self, key: KeySource) -> Result<Tensors, AttackError> {
        let encryption = self.encryption.as_ref().ok_or(AttackError::NotEncrypted)?;
        let gradients = &self.evidence()?.gradients;
        let decrypt = match key {
            KeySource::KnownStart => {
                return encryption.known_start.as_ref().ok_or(AttackError::NoPlainStart)?.decrypt(gradients);
            }
            KeySource::Colluder => encryption.key.as_ref().ok_or(AttackError::NoKey)?,
        };
        let config = gradients.vit()?;
        let layout = embeddings_layout(&config);
        let mut flat = vec![0.0; layout.len()];
        let params: Vec<_> = RecoveredKey::WEIGHTS.into_iter().filter_map(|name| layout.get(name)).collect();
        for param in &params {
            let values = gradients.get(&param.name)?;
            flat[param.range.clone()].iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
        }
        decrypt(&mut flat).map_err(|reason| AttackError::Key { reason })?;
        let mut plain = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
        for param in params {
            let values = flat[param.range.clone()].iter().map(|&value| f64::from(value)).collect();
            plain.insert(&param.name, &param.shape, values)?;
        }
        Ok(plain)
    }
}

/// The label that the model predicts, from its gradient with label 0: dl/d(head.bias) is the probabilities, less 1 at
/// that label.
fn likeliest_label(architecture: Architecture, gradient: &[f64]) -> usize {
    let range = architecture.layout().get(HEAD_BIAS).map(|param| param.range.clone()).unwrap_or_default();
    let bias = gradient.get(range).unwrap_or_default();
    let probability = |label: usize| bias[label] + if label == 0 { 1.0 } else { 0.0 };
    (0..bias.len()).max_by(|&a, &b| probability(a).total_cmp(&probability(b)).then(b.cmp(&a))).unwrap_or_default()
}

impl WholeUpdate {
    /// Builds a flat update from named gradients. It ends with the last one present, and missing entries are 0 and
    /// marked as not arrived.
    pub fn from_tensors(architecture: Architecture, state: ModelState, gradients: &Tensors, is_training: bool) -> Self {
        let layout = architecture.layout();
        let there = || layout.iter().filter_map(|param| Some((param, gradients.values(&param.name)?)));
        let mut gradient = vec![0.0; there().map(|(param, _)| param.range.end).max().unwrap_or(0)];
        let mut kept = vec![false; gradient.len()];
        for (param, values) in there() {
            let range = param.range.clone();
            gradient[range.clone()].iter_mut().zip(values).for_each(|(to, &from)| *to = from as f32);
            match gradients.kept(&param.name) {
                Some(kept_here) => kept[range].copy_from_slice(kept_here),
                None => kept[range].fill(true),
            }
        }
        let kept = kept.contains(&false).then_some(kept);
        Self { architecture, state, gradient, kept, is_training }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;

    #[test]
    fn tensors_become_the_front_of_the_flat_vector() {
        let architecture = Architecture::from(VitPreset::Pico);
        let layout = architecture.layout();
        let flat: Vec<f32> = (0..layout.len()).map(|i| i as f32).collect();
        let kept: Vec<bool> = (0..layout.len()).map(|i| i % 3 != 0).collect();
        let end = layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end;
        let front: Vec<&str> =
            layout.iter().filter(|param| param.range.end <= end).map(|param| param.name.as_str()).collect();
        let state = ModelState::from_weights(flat.clone());
        let gradients = TensorSource::Gradients;
        let read = Tensors::from_flat(gradients, architecture, &flat, Some(&kept), &front).unwrap();
        let whole = WholeUpdate::from_tensors(architecture, state.clone(), &read, true);
        assert_eq!(whole.gradient.len(), end);
        assert_eq!(whole.kept.unwrap(), kept[..end]);
        assert!((0..end).all(|i| whole.gradient[i] == if kept[i] { flat[i] } else { 0.0 }));
        let some = Tensors::from_flat(gradients, architecture, &flat, None, &["pos_embed", "head.bias"]).unwrap();
        let some = WholeUpdate::from_tensors(architecture, state.clone(), &some, true);
        let there = layout.get("pos_embed").unwrap().range.len() + 10;
        assert_eq!(some.kept.unwrap().iter().filter(|&&kept| kept).count(), there, "what is not there did not arrive");
        let nothing = Tensors::new(gradients, architecture, Rounding::F32);
        let nothing = WholeUpdate::from_tensors(architecture, state, &nothing, true);
        assert!(nothing.kept.is_none() && nothing.gradient.is_empty());
    }
}
