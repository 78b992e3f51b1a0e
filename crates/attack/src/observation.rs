//! What an attacker holds of one client.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use unmask_core::{Architecture, ModelState, ParamLayout, VitConfig};

use crate::{
    Accumulated, Attack, AttackKind, CannotAttack, Evidence, KnownStart, LabelReading, Method, Precision,
    Reconstruction, RecoveredKey, Source, Tensors, read_labels, solve,
};

/// All that an honest-but-curious relay holds of one client, and what else came its way. A clone shares everything.
#[derive(Debug, Clone)]
pub struct Observation {
    /// What the closed forms, labels and membership read of the update, or why it cannot be read.
    pub evidence: Result<Arc<Evidence>, CannotAttack>,
    /// Pictures in the update.
    pub batch: usize,
    /// Their labels, where they are known; otherwise they are read off the update.
    pub labels: Option<Vec<usize>>,
    /// The update with its whole model, which searches run.
    pub whole: Option<Arc<WholeUpdate>>,
    /// Several rounds over the same pictures, or why they cannot be gathered.
    pub rounds: Result<Arc<Accumulated>, CannotAttack>,
    /// Where weights and updates are cipher text.
    pub encryption: Option<Encryption>,
    /// What embedding inversion makes of the update, naive and mask-aware: searches start there.
    inverted: Arc<[OnceLock<Result<Reconstruction, CannotAttack>>; 2]>,
}

/// An update as one vector, with the model that it was made with.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeUpdate {
    /// The model.
    pub architecture: Architecture,
    /// Its state when the gradient was taken.
    pub state: ModelState,
    /// The gradient in the layout's order, 0 where hidden: all of it, or its front as far as the search looks.
    pub gradient: Vec<f32>,
    /// Which of its entries arrived; `None` where all did.
    pub kept: Option<Vec<bool>>,
}

/// Takes the encryption of a flat vector of [`embeddings_layout`] back, in place.
pub type Decrypt = Arc<dyn Fn(&mut [f32]) -> Result<(), String> + Send + Sync>;

/// What came the attacker's way of an encrypted room's key.
#[derive(Clone, Default)]
pub struct Encryption {
    /// The embeddings in both forms, where the relay made the model itself.
    pub known_start: Option<Arc<KnownStart>>,
    /// The key, where a client gave it away.
    pub key: Option<Decrypt>,
}

/// Shows what is there, and nothing of the key.
impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("known_start", &self.known_start)
            .field("has_key", &self.key.is_some())
            .finish()
    }
}

/// The layout of a model without its blocks: the embeddings stand in front, and keys change nothing else.
pub fn embeddings_layout(config: &VitConfig) -> ParamLayout {
    ParamLayout::vit(&VitConfig { depth: 0, ..*config })
}

impl Observation {
    /// One update of one picture, nothing of it encrypted.
    pub fn new(evidence: Result<Evidence, CannotAttack>) -> Self {
        Self {
            evidence: evidence.map(Arc::new),
            batch: 1,
            labels: None,
            whole: None,
            rounds: Err(CannotAttack::NoRounds),
            encryption: None,
            inverted: Arc::default(),
        }
    }

    /// What the update holds.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn evidence(&self) -> Result<&Evidence, CannotAttack> {
        self.evidence.as_deref().map_err(Clone::clone)
    }

    /// What a closed form makes of the update. Embedding inversion is computed once: whoever asks meanwhile waits for it.
    ///
    /// # Errors
    /// Why it makes nothing.
    pub fn solve(&self, attack: Attack) -> Result<Reconstruction, CannotAttack> {
        let solve = || solve(attack, self.evidence()?);
        match attack.kind {
            AttackKind::Embedding => {
                let is_aware = attack != Attack::naive(AttackKind::Embedding);
                self.inverted[usize::from(is_aware)].get_or_init(solve).clone()
            }
            AttackKind::April => solve(),
        }
    }

    /// Reads the labels off the update.
    ///
    /// # Errors
    /// Why they cannot be told.
    pub fn read_labels(&self) -> Result<LabelReading, CannotAttack> {
        read_labels(&self.evidence()?.gradients, self.batch)
    }

    /// The gradients of both embeddings in the plain, by the way to the key that `method` takes.
    pub(crate) fn decrypted(&self, method: Method) -> Result<Tensors, CannotAttack> {
        let encryption = self.encryption.as_ref().ok_or(CannotAttack::NotEncrypted)?;
        let gradients = &self.evidence()?.gradients;
        if method == Method::KnownStart {
            return encryption.known_start.as_ref().ok_or(CannotAttack::NoPlainStart)?.decrypt(gradients);
        }
        let decrypt = encryption.key.as_ref().ok_or(CannotAttack::NoKey)?;
        let config = gradients.config();
        let layout = embeddings_layout(config);
        let mut flat = vec![0.0; layout.len()];
        let params: Vec<_> = RecoveredKey::WEIGHTS.into_iter().filter_map(|name| layout.get(name)).collect();
        for param in &params {
            let values = gradients.get(&param.name)?;
            flat[param.range.clone()].iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
        }
        decrypt(&mut flat).map_err(|reason| CannotAttack::Key { reason })?;
        let mut plain = Tensors::new(Source::Gradients, config, Precision::F32);
        for param in params {
            let values = flat[param.range.clone()].iter().map(|&value| f64::from(value)).collect();
            plain.insert(&param.name, &param.shape, values)?;
        }
        Ok(plain)
    }
}

impl WholeUpdate {
    /// From named tensors, among them all weights: what the gradients lack is 0, and they end where the last one does.
    pub fn from_tensors(architecture: Architecture, evidence: &Evidence) -> Self {
        let layout = architecture.layout();
        let Evidence { weights, gradients } = evidence;
        let end = layout.iter().filter(|param| gradients.values(&param.name).is_some()).map(|param| param.range.end);
        let mut gradient = vec![0.0; end.max().unwrap_or(0)];
        let mut kept: Option<Vec<bool>> = None;
        let mut flat = vec![0.0; layout.len()];
        let copy = |from: &[f64], to: &mut [f32]| to.iter_mut().zip(from).for_each(|(to, &from)| *to = from as f32);
        for param in &layout {
            let range = param.range.clone();
            weights.values(&param.name).into_iter().for_each(|values| copy(values, &mut flat[range.clone()]));
            gradients.values(&param.name).into_iter().for_each(|values| copy(values, &mut gradient[range.clone()]));
            if let Some(kept_here) = gradients.kept(&param.name) {
                kept.get_or_insert_with(|| vec![true; gradient.len()])[range].copy_from_slice(kept_here);
            }
        }
        Self { architecture, state: ModelState::from_weights(flat), gradient, kept }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    #[test]
    fn tensors_become_the_front_of_the_flat_vector() {
        let architecture = Architecture::from(VitPreset::Pico);
        let config = architecture.vit().unwrap();
        let layout = architecture.layout();
        let flat: Vec<f32> = (0..layout.len()).map(|i| i as f32).collect();
        let kept: Vec<bool> = (0..layout.len()).map(|i| i % 3 != 0).collect();
        let all: Vec<&str> = layout.iter().map(|param| param.name.as_str()).collect();
        let end = layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end;
        let front: Vec<&str> =
            layout.iter().filter(|param| param.range.end <= end).map(|param| param.name.as_str()).collect();
        let weights = Tensors::from_flat(Source::Weights, &config, &flat, &all).unwrap();
        let gradients = Tensors::from_flat_kept(Source::Gradients, &config, &flat, &kept, &front).unwrap();
        let whole = WholeUpdate::from_tensors(architecture, &Evidence { weights: weights.clone(), gradients });
        assert_eq!((whole.state.weights, whole.gradient.len()), (flat.clone(), end));
        assert_eq!(whole.kept.unwrap(), kept[..end]);
        assert!((0..end).all(|i| whole.gradient[i] == if kept[i] { flat[i] } else { 0.0 }));
        let gradients = Tensors::new(Source::Gradients, &config, Precision::F32);
        let nothing = WholeUpdate::from_tensors(architecture, &Evidence { weights, gradients });
        assert!(nothing.kept.is_none() && nothing.gradient.is_empty());
    }
}
