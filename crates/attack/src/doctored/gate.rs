//! Fishing for a feature, where a class has several pictures in the batch.
//!
//! Wen et al. (section 4) silence all pictures of the class on one side of a cut of a feature by the class's own logit.
//! That needs a batch of one class: no head silences by class and by feature at once. Where a picture of class c is
//! silent, the expected row E_p[W] is W_c; for a picture of class e with the same feature to be silent too, it must also
//! be W_e. So the class is fished for by the head, and the feature by a gate before it: one hidden unit of the last
//! block's MLP.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{ParamLayout, VitConfig};

use super::fishing;
use crate::{AttackError, class_token_gradient};

/// Slope of the gate. GELU is 0 below -6 and its argument above 6, so that pictures need to lie 6 / SLOPE from the cut.
const SLOPE: f64 = 1e5;
/// How far an open gate pushes the class token. The final norm divides the gradient by as much.
const PUSH: f32 = 1e6;
/// The two dimensions that the gate pushes apart, so that the norm's mean stays. The head does not read them.
const PUSHED: [usize; 2] = [0, 1];

/// A feature of the class token that enters the last block's MLP, and where it is cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// `[D]`.
    direction: Vec<f64>,
    /// Pictures below it keep their gradient.
    pub at: f64,
}

impl Cut {
    /// A random feature, cut at 0.
    pub fn random(dim: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let direction: Vec<f64> = (0..dim).map(|_| rng.random_range(-1.0..1.0)).collect();
        let length = direction.iter().map(|value| value * value).sum::<f64>().sqrt();
        Self { direction: direction.iter().map(|value| value / length).collect(), at: 0.0 }
    }

    /// The feature of a class token `[D]`.
    pub fn feature(&self, token: &[f64]) -> f64 {
        self.direction.iter().zip(token).map(|(direction, value)| direction * value).sum()
    }

    /// The cut that leaves the picture of the smallest feature alone: halfway to the second smallest. A relay finds it by
    /// halving over rounds with the same pictures, or guesses it from public pictures.
    #[must_use]
    pub fn below_all_but_one(self, features: &[f64]) -> Self {
        let mut sorted = features.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = match sorted.as_slice() {
            [] => 0.0,
            [only] => only + 1.0,
            [first, second, ..] => f64::midpoint(*first, *second),
        };
        Self { at, ..self }
    }

    /// The cut below which a share of 1 / `pictures` of public pictures lies, as a relay guesses it that cannot try
    /// twice.
    #[must_use]
    pub fn at_share(self, public: &[f64], pictures: usize) -> Self {
        let mut sorted = public.to_vec();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() / pictures.max(1)).min(sorted.len().saturating_sub(1));
        Self { at: sorted.get(place).copied().unwrap_or_default(), ..self }
    }
}

/// Weights under which only pictures of `class` below the cut have a gradient.
///
/// The head is that of [`fishing`]. One hidden unit of the last block's MLP opens above the cut and pushes the class
/// token far out, where the final norm makes the gradient vanish.
///
/// # Errors
/// The weights or the cut do not fit the model, it has no such class, or no block.
pub fn feature_fishing(config: &VitConfig, weights: &[f32], class: usize, cut: &Cut) -> Result<Vec<f32>, AttackError> {
    let mut doctored = fishing(config, weights, class)?;
    let dim = config.dim;
    let cannot = |reason: String| AttackError::NotDoctored { reason };
    if config.depth == 0 || dim <= PUSHED.len() {
        return Err(cannot(format!("a gate needs a block of more than {} dimensions", PUSHED.len())));
    }
    if cut.direction.len() != dim {
        return Err(cannot(format!("the feature has {} dimensions, the model {dim}", cut.direction.len())));
    }
    let layout = ParamLayout::vit(config);
    let mlp = |name: &str| layout.get(&format!("blocks.{}.mlp.{name}", config.depth - 1));
    if let Some(param) = mlp("fc1.weight") {
        let row = &mut doctored[param.range.clone()][..dim];
        row.iter_mut().zip(&cut.direction).for_each(|(value, direction)| *value = (SLOPE * direction) as f32);
    }
    if let Some(param) = mlp("fc1.bias") {
        doctored[param.range.start] = (-SLOPE * cut.at) as f32;
    }
    if let Some(param) = mlp("fc2.weight") {
        let hidden = config.mlp_dim();
        let values = &mut doctored[param.range.clone()];
        (0..dim).for_each(|row| values[row * hidden] = 0.0);
        for (row, push) in PUSHED.into_iter().zip([PUSH, -PUSH]) {
            values[row * hidden] = push;
        }
    }
    if let Some(param) = layout.get("head.weight") {
        let row = &mut doctored[param.range.clone()][class * dim..][..dim];
        PUSHED.into_iter().for_each(|unread| row[unread] = 0.0);
    }
    Ok(doctored)
}

/// The class token `[D]` that enters the last block's MLP, from the gradient of one picture. `None` if the gradient is
/// zero or does not fit.
///
/// dl/d(fc1.weight) = d hᵀ and dl/d(fc1.bias) = d, so h is their quotient.
pub fn class_token(config: &VitConfig, gradient: &[f32]) -> Option<Vec<f64>> {
    let layout = ParamLayout::vit(config);
    let name = class_token_gradient(config).ok()?;
    let rows = layout.slice(gradient, &name)?.chunks_exact(config.dim);
    let biases = layout.slice(gradient, &name.replace("weight", "bias"))?;
    let size: f64 = biases.iter().map(|&value| f64::from(value).powi(2)).sum();
    let mut token = vec![0.0; config.dim];
    for (row, &bias) in rows.zip(biases) {
        token.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(bias) * f64::from(value));
    }
    (size > 0.0).then(|| token.into_iter().map(|value| value / size).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use unmask_core::{InitOptions, VitPreset, initial_weights};
    use unmask_engine::{Engine, Normalisation, Wanted};

    use super::*;
    use crate::doctored::tests::apart;

    pub(crate) fn initial(config: &VitConfig, seed: u64) -> Vec<f32> {
        initial_weights(config, seed, InitOptions::default())
    }

    /// A picture `[3, side, side]` in [0, 1] of a few waves.
    pub(crate) fn picture(config: &VitConfig, seed: u64) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let waves: Vec<[f32; 3]> = (0..4).map(|_| [0.1, 0.7, 6.0].map(|most| rng.random_range(0.0..most))).collect();
        let value =
            |i: usize| waves.iter().map(|[slow, fast, phase]| (i as f32 * (slow + fast) + phase).sin()).sum::<f32>();
        (0..config.image * config.image * VitConfig::CHANNELS).map(|i| 0.5 + value(i) / 8.0).collect()
    }

    pub(crate) fn gradient(config: &VitConfig, weights: &[f32], images: &[f32], labels: &[usize]) -> Vec<f32> {
        let engine = Engine::<f32>::new(unmask_core::Architecture::Vit(*config));
        let wanted = Wanted { weights: weights.len(), images: false };
        engine.differentiate(weights, &[], images, labels, Normalisation::Batch, wanted).gradient
    }

    /// Four pictures of the class among eight: only the one below the cut comes back.
    #[test]
    fn a_cut_leaves_one_picture_of_its_class() {
        let config = VitConfig::from(VitPreset::Pico);
        for seed in 0..6 {
            let weights = initial(&config, seed);
            let images: Vec<Vec<f32>> = (0..8).map(|k| picture(&config, 100 * seed + k)).collect();
            let labels = [3, 1, 3, 2, 3, 5, 3, 9];
            let cut = Cut::random(config.dim, seed);
            let of = |k: usize| {
                let token = class_token(&config, &gradient(&config, &weights, &images[k], &[labels[k]])).unwrap();
                cut.feature(&token)
            };
            let fished: Vec<usize> = (0..8).filter(|&k| labels[k] == 3).collect();
            let features: Vec<f64> = fished.iter().map(|&k| of(k)).collect();
            let lowest = *fished.iter().min_by(|&&a, &&b| of(a).total_cmp(&of(b))).unwrap();
            let cut = cut.clone().below_all_but_one(&features);
            let doctored = feature_fishing(&config, &weights, 3, &cut).unwrap();
            let batch = gradient(&config, &doctored, &images.concat(), &labels);
            let victim = gradient(&config, &doctored, &images[lowest], &[3]);
            let victim: Vec<f32> = victim.into_iter().map(|value| value / 8.0).collect();
            let apart = apart(&config, &victim, &batch);
            assert!(apart < 1e-3, "seed {seed}: {apart}, features {features:?}");
        }
    }

    #[test]
    fn the_cut_of_one_picture_lies_above_it() {
        let cut = Cut::random(4, 1);
        assert!(cut.clone().below_all_but_one(&[2.0]).at > 2.0);
        assert_eq!(cut.clone().below_all_but_one(&[5.0, 1.0, 3.0]).at, 2.0);
        assert_eq!(cut.clone().at_share(&[4.0, 3.0, 2.0, 1.0], 2).at, 3.0);
        let config = VitConfig::from(VitPreset::Pico);
        let error = feature_fishing(&config, &initial(&config, 1), 0, &cut).unwrap_err().to_string();
        assert!(error.contains("4 dimensions, the model 48"), "{error}");
    }
}
