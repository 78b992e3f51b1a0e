//! Block 0 of a ViT, forward, in f64.

use faer::{Mat, MatRef};
use libm::{erfc, exp, sqrt};

use crate::{AttackError, Tensors, model::QKV, small_matrices::product};

/// The epsilon of timm's LayerNorm.
const EPSILON: f64 = 1e-6;

/// GELU, x Phi(x) with the exact Phi, and its derivative Phi(x) + x phi(x).
pub(super) fn gelu(x: f64) -> (f64, f64) {
    /// 1 / sqrt(2 pi)
    const PEAK: f64 = 0.398_942_280_401_432_7;
    let below = 0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    (x * below, x * PEAK * exp(-0.5 * x * x) + below)
}

/// A layer y = W x + b, with W `[out, in]`.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) weight: Mat<f64>,
    pub(super) bias: Vec<f64>,
}

impl Layer {
    pub(super) fn read(tensors: &Tensors, name: &str) -> Result<Self, AttackError> {
        let bias = tensors.get(&format!("{name}.bias"))?.to_vec();
        let weight = tensors.matrix(&format!("{name}.weight"), bias.len())?.to_owned();
        Ok(Self { weight, bias })
    }

    /// Maps columns `[in, n]` to columns `[out, n]`.
    pub(super) fn apply(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let mut out = product(self.weight.as_ref(), x);
        for column in out.col_iter_mut() {
            column.iter_mut().zip(&self.bias).for_each(|(out, bias)| *out += bias);
        }
        out
    }

    /// [W | b] `[out, in + 1]`.
    pub(super) fn with_bias(&self) -> Mat<f64> {
        let (rows, columns) = (self.weight.nrows(), self.weight.ncols());
        Mat::from_fn(rows, columns + 1, |r, c| if c < columns { self.weight[(r, c)] } else { self.bias[r] })
    }
}

/// The scale gamma and the shift beta of a LayerNorm, `[D]` each.
#[derive(Debug, Clone)]
pub(super) struct Norm {
    pub(super) weight: Vec<f64>,
    pub(super) bias: Vec<f64>,
}

impl Norm {
    fn read(tensors: &Tensors, name: &str) -> Result<Self, AttackError> {
        let read = |part| tensors.get(&format!("{name}.{part}")).map(<[f64]>::to_vec);
        Ok(Self { weight: read("weight")?, bias: read("bias")? })
    }
}

/// Normalises each column of `x` `[D, n]` to mean 0 and variance 1, without scale and shift. Also returns
/// 1 / sqrt(variance + epsilon) of each column.
pub(super) fn normalised(x: MatRef<'_, f64>) -> (Mat<f64>, Vec<f64>) {
    let mut out = x.to_owned();
    let mut scales = Vec::with_capacity(x.ncols());
    let len = x.nrows() as f64;
    for (from, column) in x.col_iter().zip(out.col_iter_mut()) {
        let mean = from.iter().sum::<f64>() / len;
        let variance = from.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / len;
        let scale = 1.0 / sqrt(variance + EPSILON);
        column.iter_mut().for_each(|value| *value = (*value - mean) * scale);
        scales.push(scale);
    }
    (out, scales)
}

/// The weights of block 0.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) heads: usize,
    pub(super) norm1: Norm,
    /// Rows of q, then k, then v.
    pub(super) qkv: Layer,
    pub(super) proj: Layer,
    pub(super) norm2: Norm,
    pub(super) fc1: Layer,
    pub(super) fc2: Layer,
}

impl Block {
    pub(super) fn read(weights: &Tensors) -> Result<Self, AttackError> {
        Ok(Self {
            heads: weights.vit()?.heads,
            norm1: Norm::read(weights, "blocks.0.norm1")?,
            qkv: Layer::read(weights, QKV.trim_end_matches(".weight"))?,
            proj: Layer::read(weights, "blocks.0.attn.proj")?,
            norm2: Norm::read(weights, "blocks.0.norm2")?,
            fc1: Layer::read(weights, "blocks.0.mlp.fc1")?,
            fc2: Layer::read(weights, "blocks.0.mlp.fc2")?,
        })
    }

    /// Queries, keys and values `[3 D, n]` of tokens z `[D, n]`, which may lack their mean: norm1 removes it.
    pub(super) fn heads_of(&self, z: MatRef<'_, f64>) -> Mat<f64> {
        let (mut normed, _) = normalised(z);
        for column in normed.col_iter_mut() {
            let parts = column.iter_mut().zip(self.norm1.weight.iter().zip(&self.norm1.bias));
            parts.for_each(|(value, (weight, bias))| *value = *value * weight + bias);
        }
        self.qkv.apply(normed.as_ref())
    }

    /// Attention of the tokens `picture` among the columns of `heads` `[3 D, n]`: the mixed values o `[D, T]` and the
    /// attention weights `[T, T]` of each head, one row for each query.
    pub(super) fn attention(&self, heads: MatRef<'_, f64>, picture: &[usize]) -> (Mat<f64>, Vec<Mat<f64>>) {
        let (dim, tokens) = (heads.nrows() / 3, picture.len());
        let size = dim / self.heads;
        let mut mixed = Mat::zeros(dim, tokens);
        let mut weights = Vec::with_capacity(self.heads);
        let part = |which: usize, head: usize| {
            let top = which * dim + head * size;
            Mat::from_fn(size, tokens, |row, token| heads[(top + row, picture[token])])
        };
        for head in 0..self.heads {
            let (query, key, value) = (part(0, head), part(1, head), part(2, head));
            let mut weight = product(query.transpose(), key.as_ref());
            for row in 0..tokens {
                let scores: Vec<f64> = (0..tokens).map(|token| weight[(row, token)] / sqrt(size as f64)).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = scores.iter().map(|score| exp(score - most)).collect();
                let sum: f64 = powers.iter().sum();
                (0..tokens).for_each(|token| weight[(row, token)] = powers[token] / sum);
            }
            let out = product(value.as_ref(), weight.transpose());
            mixed.as_mut().subrows_mut(head * size, size).copy_from(out);
            weights.push(weight);
        }
        (mixed, weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_is_the_exact_one_and_its_slope_is_its_difference() {
        // x Phi(x), with Phi from tables.
        for (x, phi) in
            [(-1.0, 0.158_655_253_931_457_05), (0.5, 0.691_462_461_274_013_1), (2.0, 0.977_249_868_051_820_8)]
        {
            assert!((gelu(x).0 - x * phi).abs() < 1e-15, "{x}: {}", gelu(x).0);
        }
        for x in [-6.0, -2.5, -0.3, 0.0, 1e-3, 1.7, 8.0] {
            let slope = (gelu(x + 1e-6).0 - gelu(x - 1e-6).0) / 2e-6;
            assert!((gelu(x).1 - slope).abs() < 1e-9, "{x}");
        }
    }
}
