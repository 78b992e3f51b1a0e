//! Weight decay in an update: g + lambda w, as a penalty on the weights or as SGD's `weight_decay` adds it.
//!
//! Two identities of the embeddings do not hold for it. The patches' rows of dl/d(pos_embed) sum to dl/d(bias) of the
//! patch embedding, and the columns of dl/d(patch_embed.proj.weight) lie in the span of these rows. What is left over is
//! a multiple of the weights.

use unmask_attack::{AttackError, TensorSource, Tensors};
use unmask_core::VitConfig;

const POSITION: &str = "pos_embed";
const WEIGHT: &str = "patch_embed.proj.weight";
const BIAS: &str = "patch_embed.proj.bias";

/// Largest share that rounding leaves over in an update without decay.
const ROUNDING: f64 = 1e-4;
/// Largest share of what is left over that may be no multiple of the weights.
const OTHER: f64 = 0.02;

/// The decay of vectors and embeddings, and of matrices. Many trainings leave the former out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decay {
    vectors: f64,
    matrices: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The factor of `weights` in `rest`, 0 if `rest` is only rounding beside `size`; `None` if it is something else.
fn factor(rest: &[f64], weights: &[f64], size: f64) -> Option<f64> {
    let (left, square) = (dot(rest, rest).sqrt(), dot(weights, weights));
    if left <= ROUNDING * size {
        return Some(0.0);
    }
    let factor = dot(rest, weights) / square;
    let other: f64 = rest.iter().zip(weights).map(|(rest, weight)| (rest - factor * weight).powi(2)).sum();
    (square > 0.0 && other.sqrt() <= OTHER * left).then_some(factor)
}

impl Decay {
    /// The decay in an update of a ViT at these weights; `None` if there is none, or if it cannot be told.
    pub(crate) fn of(gradients: &Tensors, weights: &Tensors) -> Option<Self> {
        let config = gradients.vit().ok()?;
        let VitConfig { dim, .. } = config;
        if [POSITION, WEIGHT, BIAS].iter().any(|name| gradients.kept(name).is_some()) {
            return None;
        }
        let rows = |tensors: &Tensors| Some(tensors.values(POSITION)?.get(dim..)?.to_vec());
        let (mut positions, held) = (rows(gradients)?, rows(weights)?);
        let less_bias = |rows: &[f64], bias: &[f64]| -> Vec<f64> {
            (0..dim).map(|at| rows.iter().skip(at).step_by(dim).sum::<f64>() - bias[at]).collect()
        };
        let (bias, held_bias) = (gradients.values(BIAS)?, weights.values(BIAS)?);
        let size = dot(bias, bias).sqrt();
        let vectors = factor(&less_bias(&positions, bias), &less_bias(&held, held_bias), size)?;
        positions.iter_mut().zip(&held).for_each(|(position, held)| *position -= vectors * held);
        let basis = span(&positions, dim);
        let (matrix, held) = (gradients.values(WEIGHT)?, weights.values(WEIGHT)?);
        let outside = |matrix: &[f64]| outside(matrix, &basis, dim);
        let matrices = if basis.len() < dim {
            factor(&outside(matrix), &outside(held), dot(matrix, matrix).sqrt())?
        } else {
            vectors
        };
        (vectors != 0.0 || matrices != 0.0).then_some(Self { vectors, matrices })
    }

    /// The update without its decay. Tensors without weights stay as they are.
    pub(crate) fn subtract(self, gradients: &Tensors, weights: &Tensors) -> Result<Tensors, AttackError> {
        let layout = gradients.model().layout();
        let mut without = Tensors::new(TensorSource::Gradients, gradients.model(), gradients.rounding());
        for param in layout.iter() {
            let Some(values) = gradients.values(&param.name) else { continue };
            let is_matrix = param.shape.len() > 1 && param.name != POSITION && param.name != "cls_token";
            let factor = if is_matrix { self.matrices } else { self.vectors };
            let mut values = values.to_vec();
            let held = weights.values(&param.name).unwrap_or_default();
            values.iter_mut().zip(held).for_each(|(value, weight)| *value -= factor * weight);
            match gradients.kept(&param.name) {
                Some(kept) => without.insert_kept(&param.name, &param.shape, values, kept.to_vec())?,
                None => without.insert(&param.name, &param.shape, values)?,
            }
        }
        Ok(without)
    }

    pub(crate) fn note(self) -> String {
        let Self { vectors, matrices } = self;
        let how = if (vectors - matrices).abs() <= 0.05 * matrices.abs() {
            format!("{matrices:.2e} times the weights")
        } else {
            format!("{matrices:.2e} times the matrices and {vectors:.2e} times the vectors")
        };
        format!("The update has weight decay in it, {how}, which was subtracted.")
    }
}

/// Orthonormal vectors that span the rows `[n, dim]`.
fn span(rows: &[f64], dim: usize) -> Vec<Vec<f64>> {
    let largest = rows.chunks(dim).map(|row| dot(row, row).sqrt()).fold(0.0, f64::max);
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for row in rows.chunks(dim) {
        let mut rest = row.to_vec();
        // Twice, because one pass leaves rounding behind.
        for _ in 0..2 {
            for vector in &basis {
                let along = dot(&rest, vector);
                rest.iter_mut().zip(vector).for_each(|(rest, value)| *rest -= along * value);
            }
        }
        let length = dot(&rest, &rest).sqrt();
        if length > 1e-6 * largest {
            basis.push(rest.into_iter().map(|value| value / length).collect());
        }
    }
    basis
}

/// What of the columns of a matrix `[dim, n]` lies outside a span.
fn outside(matrix: &[f64], basis: &[Vec<f64>], dim: usize) -> Vec<f64> {
    let columns = matrix.len() / dim.max(1);
    let mut rest = matrix.to_vec();
    for vector in basis {
        let mut along = vec![0.0; columns];
        for (row, weight) in rest.chunks(columns).zip(vector) {
            along.iter_mut().zip(row).for_each(|(along, value)| *along += weight * value);
        }
        for (row, weight) in rest.chunks_mut(columns).zip(vector) {
            row.iter_mut().zip(&along).for_each(|(value, along)| *value -= weight * along);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use unmask_attack::Rounding;
    use unmask_core::{Architecture, ParamLayout, VitPreset};

    use super::*;

    fn noise(seed: usize, count: usize) -> Vec<f64> {
        (0..count).map(|i| ((i * i % 9973 * (seed + 3) + 17 * i) as f64 * 0.618).sin()).collect()
    }

    /// Tensors of pico by name, rounded to f32.
    fn tensors(values: impl Fn(&str, usize) -> Vec<f64>) -> Tensors {
        let architecture = Architecture::from(VitPreset::Pico);
        let mut tensors = Tensors::new(TensorSource::Gradients, architecture, Rounding::F32);
        for name in [POSITION, WEIGHT, BIAS, "head.weight"] {
            let layout: ParamLayout = architecture.layout();
            let param = layout.get(name).unwrap();
            let values = values(name, param.range.len()).into_iter().map(|value| f64::from(value as f32)).collect();
            tensors.insert(name, &param.shape, values).unwrap();
        }
        tensors
    }

    fn weights() -> Tensors {
        tensors(|name, count| noise(name.len(), count))
    }

    /// The gradients of the embeddings for some patches, plus these multiples of the weights.
    fn update(vectors: f64, matrices: f64) -> Tensors {
        let VitConfig { dim, .. } = VitPreset::Pico.into();
        let weights = weights();
        tensors(|name, count| {
            let positions = noise(1, 17 * dim);
            let patches: Vec<&[f64]> = positions.chunks(dim).skip(1).collect();
            let pixels = count / dim;
            let plain: Vec<f64> = match name {
                POSITION => positions.clone(),
                BIAS => (0..dim).map(|at| patches.iter().map(|row| row[at]).sum()).collect(),
                WEIGHT => {
                    let images: Vec<Vec<f64>> = (0..patches.len()).map(|token| noise(50 + token, pixels)).collect();
                    let entry =
                        |i: usize| patches.iter().zip(&images).map(|(p, x)| p[i / pixels] * x[i % pixels]).sum();
                    (0..count).map(entry).collect()
                }
                _ => noise(9, count),
            };
            let factor = if matches!(name, POSITION | BIAS) { vectors } else { matrices };
            plain.iter().zip(weights.values(name).unwrap()).map(|(g, w)| g + factor * w).collect()
        })
    }

    #[test]
    fn decay_is_found_and_subtracted() {
        assert_eq!(Decay::of(&update(0.0, 0.0), &weights()), None);
        for (vectors, matrices) in [(0.05, 0.05), (0.0, 0.05), (1e-3, 1e-3), (0.0, -0.2)] {
            let update_with = update(vectors, matrices);
            let found = Decay::of(&update_with, &weights()).unwrap();
            assert!((found.vectors - vectors).abs() < 1e-5 && (found.matrices - matrices).abs() < 1e-5, "{found:?}");
            let without = found.subtract(&update_with, &weights()).unwrap();
            for name in [POSITION, WEIGHT, BIAS, "head.weight"] {
                let plain = update(0.0, 0.0);
                let pairs = without.values(name).unwrap().iter().zip(plain.values(name).unwrap());
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4), "{name}");
            }
        }
        let all = Decay { vectors: 0.01, matrices: 0.01 };
        assert_eq!(all.note(), "The update has weight decay in it, 1.00e-2 times the weights, which was subtracted.");
        let some = Decay { vectors: 0.0, matrices: 0.01 };
        assert!(some.note().contains("1.00e-2 times the matrices and 0.00e0 times the vectors"));
    }

    #[test]
    fn what_is_no_decay_is_left_alone() {
        let noisy = tensors(|name, count| {
            let plain = update(0.0, 0.0);
            let own = plain.values(name).unwrap().to_vec();
            own.iter().zip(noise(77, count)).map(|(g, noise)| g + 0.1 * noise).collect()
        });
        assert_eq!(Decay::of(&noisy, &weights()), None);
    }
}
