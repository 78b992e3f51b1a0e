//! Robbing the Fed (Fowl et al., ICLR 2022) on the first MLP of a ViT.
//!
//! The rows of `fc1` all measure the same direction m of a token u, with ascending biases, and all columns of `fc2` are
//! equal. With a steep GELU, row i then adds up s u over the tokens whose m u lies above cut i, and two neighbouring rows
//! differ by the tokens between their cuts. Where that is one token, the quotient by the difference of the biases is u.
//!
//! GELU does not forbid it: at this slope it is a ReLU but for one bin in a hundred. The width does: a row holds a token
//! of D values, not a picture, and B pictures with S + 1 tokens each share the 4 D bins.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use unmask_core::{ParamLayout, VitConfig};

use super::fitting;
use crate::{
    AttackError, TensorSource,
    least_squares::least_squares,
    model::{PATCH_BIAS, PATCH_WEIGHT, POSITION},
};

/// Slope of the rows: a token sits on the edge of a bin if it lies within 6 / SLOPE of a cut.
const SLOPE: f64 = 1e5;
/// Size of the columns of `fc2`, so small that the model computes as if the MLP were not there.
const SIZE: f32 = 1e-10;
const NORM_EPSILON: f64 = 1e-6;
/// How far the mean of a token may lie from 0 and its variance from 1, as LayerNorm makes them. A mixture of tokens has
/// another variance.
const NORMED: f64 = 1e-3;
/// How much better a token must fit its position than any other.
const CLEARLY: f64 = 0.05;

/// A patch that came back alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ImprintedPatch {
    /// Its place among the S patches, row by row.
    pub position: usize,
    /// `[3, P, P]` in [0, 1].
    pub values: Vec<f32>,
}

/// Weights whose first MLP sorts tokens into 4 D bins, each as likely as the others for `public` pictures
/// `[3, side, side]` in [0, 1]. `seed` draws the measured direction.
///
/// # Errors
/// The weights do not fit the model; block 0 has no residual; a token has too few values for its patch; or there is no
/// public picture.
pub fn imprint(config: &VitConfig, weights: &[f32], public: &[Vec<f32>], seed: u64) -> Result<Vec<f32>, AttackError> {
    let mut doctored = fitting(config.into(), weights)?.to_vec();
    let cannot = |reason: String| AttackError::NotDoctored { reason };
    countable(config)?;
    let layout = ParamLayout::vit(config);
    let (dim, hidden) = (config.dim, config.mlp_dim());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut direction = |size: f64| {
        let drawn: Vec<f64> = (0..dim).map(|_| rng.random_range(-1.0..1.0)).collect();
        let length = drawn.iter().map(|value| value * value).sum::<f64>().sqrt();
        drawn.into_iter().map(|value| size * value / length).collect::<Vec<f64>>()
    };
    let (measured, column) = (direction(1.0), direction(f64::from(SIZE)));
    let mut measures: Vec<f64> = public
        .iter()
        .flat_map(|picture| tokens(config, &layout, weights, picture))
        .map(|token| token.iter().zip(&measured).map(|(a, b)| a * b).sum())
        .collect();
    measures.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (measures.first(), measures.last()) else {
        return Err(cannot("the bins need at least one public picture".to_owned()));
    };
    // The first cut lies below all tokens, and neighbouring cuts are never the same.
    let cut = |bin: usize| match bin {
        0 => least - 1.0,
        _ => measures[bin * measures.len() / hidden] + (most - least) * 1e-6 * bin as f64 / hidden as f64,
    };
    let mut set = |name: &str, value: &dyn Fn(usize) -> f64| {
        if let Some(param) = layout.get(&format!("blocks.0.{name}")) {
            doctored[param.range.clone()].iter_mut().enumerate().for_each(|(at, weight)| *weight = value(at) as f32);
        }
    };
    set("attn.proj.weight", &|_| 0.0);
    set("attn.proj.bias", &|_| 0.0);
    set("norm2.weight", &|_| 1.0);
    set("norm2.bias", &|_| 0.0);
    set("mlp.fc1.weight", &|at| SLOPE * measured[at % dim]);
    set("mlp.fc1.bias", &|at| -SLOPE * cut(at));
    set("mlp.fc2.weight", &|at| column[at / hidden]);
    set("mlp.fc2.bias", &|_| 0.0);
    Ok(doctored)
}

/// The patches that lie alone in a bin, from the gradient `[P]` of a batch at weights from [`imprint`].
///
/// With u = (x − μ) / σ and x = E p + b + pos, a bin's token u gives D equations E p − μ − σ u = −(b + pos) for the L
/// values of the patch p, μ and σ. Its position is the one at which they fit.
///
/// # Errors
/// The weights or the gradient do not fit the model, or a token has too few values for its patch.
pub fn imprinted(config: &VitConfig, weights: &[f32], gradient: &[f32]) -> Result<Vec<ImprintedPatch>, AttackError> {
    countable(config)?;
    fitting(config.into(), weights)?;
    let layout = ParamLayout::vit(config);
    let (found, expected) = (gradient.len(), layout.len());
    if found != expected {
        return Err(AttackError::WrongLength { from: TensorSource::Gradients, found, expected });
    }
    let (dim, hidden, len) = (config.dim, config.mlp_dim(), config.patch_len());
    let of = |flat: &[f32], name: &str| -> Vec<f64> {
        layout.slice(flat, name).unwrap_or_default().iter().map(|&value| f64::from(value)).collect()
    };
    let (rows, biases) = (of(gradient, "blocks.0.mlp.fc1.weight"), of(gradient, "blocks.0.mlp.fc1.bias"));
    let (embedding, bias, position) = (of(weights, PATCH_WEIGHT), of(weights, PATCH_BIAS), of(weights, POSITION));
    let places = Mat::from_fn(dim, config.patches(), |d, s| -(bias[d] + position[(s + 1) * dim + d]));
    let mut patches = Vec::new();
    for bin in 0..hidden {
        let next = |values: &[f64], width: usize, d: usize| {
            let above = if bin + 1 < hidden { values[(bin + 1) * width + d] } else { 0.0 };
            values[bin * width + d] - above
        };
        let size = next(&biases, 1, 0);
        if size == 0.0 {
            continue;
        }
        let token: Vec<f64> = (0..dim).map(|d| next(&rows, dim, d) / size).collect();
        if !is_normed(&token) {
            continue;
        }
        let equations = Mat::from_fn(dim, len + 2, |d, column| match column {
            column if column < len => embedding[d * len + column],
            column if column == len => -1.0,
            _ => -token[d],
        });
        let Some((solved, _)) = least_squares(equations.as_ref(), places.as_ref(), 1e-12) else { continue };
        let left = &equations * &solved - &places;
        let residual = |s: usize| left.col(s).norm_l2();
        let mut order: Vec<usize> = (0..config.patches()).collect();
        order.sort_by(|&a, &b| residual(a).total_cmp(&residual(b)));
        let is_clear = order.get(1).is_none_or(|&second| residual(order[0]) < CLEARLY * residual(second));
        if is_clear {
            let values = (0..len).map(|at| (solved[(at, order[0])] * 0.5 + 0.5) as f32).collect();
            patches.push(ImprintedPatch { position: order[0], values });
        }
    }
    Ok(patches)
}

/// Whether a token determines its patch.
fn countable(config: &VitConfig) -> Result<(), AttackError> {
    let (dim, len) = (config.dim, config.patch_len());
    let reason = if config.april_block {
        "the April block has no residual, so that the first MLP sees only what attention mixed".to_owned()
    } else if config.depth == 0 {
        "the model has no block".to_owned()
    } else if dim < len + 3 {
        format!("a token of {dim} values does not determine the {len} values of a patch and what LayerNorm took")
    } else {
        return Ok(());
    };
    Err(AttackError::NotDoctored { reason })
}

fn is_normed(token: &[f64]) -> bool {
    let mean = token.iter().sum::<f64>() / token.len() as f64;
    let variance = token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / token.len() as f64;
    mean.abs() < NORMED && (variance - 1.0).abs() < NORMED
}

/// The normed tokens of a picture's patches before any attention.
fn tokens(config: &VitConfig, layout: &ParamLayout, weights: &[f32], picture: &[f32]) -> Vec<Vec<f64>> {
    let (dim, len, patch, side, grid) = (config.dim, config.patch_len(), config.patch, config.image, config.grid());
    let get = |name: &str| layout.slice(weights, name).unwrap_or_default();
    let (embedding, bias, position) = (get(PATCH_WEIGHT), get(PATCH_BIAS), get(POSITION));
    let pixel = |place: usize, at: usize| {
        let (channel, row, column) = (at / (patch * patch), at / patch % patch, at % patch);
        let (y, x) = (place / grid * patch + row, place % grid * patch + column);
        (f64::from(picture.get(channel * side * side + y * side + x).copied().unwrap_or_default()) - 0.5) / 0.5
    };
    let token = |place: usize| {
        let values: Vec<f64> = (0..len).map(|at| pixel(place, at)).collect();
        let embedded = |d: usize| {
            let row = &embedding[d * len..(d + 1) * len];
            let sum: f64 = row.iter().zip(&values).map(|(&weight, value)| f64::from(weight) * value).sum();
            sum + f64::from(bias[d]) + f64::from(position[(place + 1) * dim + d])
        };
        let x: Vec<f64> = (0..dim).map(embedded).collect();
        let mean = x.iter().sum::<f64>() / dim as f64;
        let variance = x.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / dim as f64;
        let sd = (variance + NORM_EPSILON).sqrt();
        x.into_iter().map(|value| (value - mean) / sd).collect()
    };
    (0..config.patches()).map(token).collect()
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;

    use super::*;
    use crate::doctored::gate::tests::{gradient, initial, picture};

    /// Patches that came back to a grey level.
    fn right(config: &VitConfig, found: &[ImprintedPatch], images: &[Vec<f32>]) -> usize {
        let (patch, side, grid) = (config.patch, config.image, config.grid());
        let is_of = |it: &ImprintedPatch, image: &Vec<f32>| {
            it.values.iter().enumerate().all(|(at, value)| {
                let (channel, row, column) = (at / (patch * patch), at / patch % patch, at % patch);
                let (y, x) = (it.position / grid * patch + row, it.position % grid * patch + column);
                (image[channel * side * side + y * side + x] - value).abs() < 0.5 / 255.0
            })
        };
        found.iter().filter(|it| images.iter().any(|image| is_of(it, image))).count()
    }

    /// Of one picture most patches lie alone, of sixteen few: bins are shared by tokens, not by pictures.
    #[test]
    fn bins_hold_tokens_and_not_pictures() {
        let config = VitConfig::from(VitPreset::Nano);
        let weights = initial(&config, 1);
        let public: Vec<Vec<f32>> = (0..40).map(|k| picture(&config, 1000 + k)).collect();
        let sent = imprint(&config, &weights, &public, 1).unwrap();
        let share = |pictures: usize| {
            let images: Vec<Vec<f32>> = (0..pictures as u64).map(|k| picture(&config, k)).collect();
            let labels: Vec<usize> = (0..pictures).map(|k| k % 10).collect();
            let found = imprinted(&config, &sent, &gradient(&config, &sent, &images.concat(), &labels)).unwrap();
            right(&config, &found, &images) as f64 / (pictures * config.patches()) as f64
        };
        let [one, sixteen] = [1, 16].map(share);
        assert!(one > 0.5, "{one}");
        assert!(sixteen < 0.2, "{sixteen}");
    }

    #[test]
    fn counting_says_where_it_cannot_work() {
        let refusal = |config: VitConfig| imprint(&config, &initial(&config, 1), &[], 1).unwrap_err().to_string();
        assert!(refusal(VitPreset::Pico.into()).contains("48 values does not determine the 48"));
        assert!(refusal(VitConfig::from(VitPreset::Nano).with_april_block(true)).contains("April block"));
        assert!(refusal(VitPreset::Nano.into()).contains("public picture"));
    }
}
