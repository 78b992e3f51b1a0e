//! The equations that block 0's MLP gives for its tokens.

use faer::{Mat, MatRef};

use super::{
    block::{Block, gelu},
    spans::evened,
};
use crate::{AttackError, Tensors, small_matrices::product};

/// Two sets that hold every token of a batch, read off the gradient of block 0's MLP.
///
/// With h the input of fc1 and a = GELU(W1 h + b1), the gradients are sums over N tokens,
///
/// ```text
/// A = [dW1 | db1] = sum_k delta_k [h_k, 1]^T = U S V^T        dW2 = sum_k g_k a_k^T
/// ```
///
/// If N is below every width and the vectors are independent, the row space of A is the span of the [h_k, 1], and that of
/// dW2 the span of the a_k. So [h, 1] = V m for an unknown m `[N]`, and GELU(W1 h + b1) has no part outside the second
/// span. The column spaces hold delta_k and g_k in the same way.
#[derive(Debug, Clone)]
pub(super) struct MlpSpans {
    /// U `[4 D, N]`.
    pub(super) left: Mat<f64>,
    /// The diagonal of S, descending.
    pub(super) singular: Vec<f64>,
    /// Orthonormal basis of dW2's row space, `[4 D, N]`.
    pub(super) activations: Mat<f64>,
    /// Orthonormal basis of dW2's column space, `[D, N]`.
    pub(super) slopes: Mat<f64>,
    /// [W1 | b1] V: the hidden layer's input is this times m, `[4 D, N]`.
    pub(super) hidden: Mat<f64>,
    /// W2^T times the basis of the g, `[4 D, N]`.
    pub(super) back: Mat<f64>,
    /// norm2's output without scale and shift is `normal` m - `shift`, `[D, N]` and `[D]`.
    pub(super) normal: Mat<f64>,
    pub(super) shift: Vec<f64>,
    /// The factors of A's rows that even out their noise, `[4 D]`. U, S and V are those of the product.
    factors: Vec<f64>,
    /// The last row of V `[N]`: m times it is 1.
    pub(super) one: Vec<f64>,
}

impl MlpSpans {
    /// Reads the spans of `count` tokens. `None` if a decomposition fails or fewer tokens can be told apart.
    ///
    /// # Errors
    /// A gradient is missing, or norm2 scales a dimension by 0, so that the tokens cannot be normalised.
    pub(super) fn read(block: &Block, gradients: &Tensors, count: usize) -> Result<Option<Self>, AttackError> {
        let hidden = block.fc1.bias.len();
        let dim = block.fc2.bias.len();
        let by_fc1 = fc1_gradient(gradients, hidden)?;
        let by_fc2 = gradients.matrix("blocks.0.mlp.fc2.weight", dim)?;
        if let Some(index) = block.norm2.weight.iter().position(|&weight| weight == 0.0) {
            return Err(AttackError::BatchUnsolved {
                reason: format!("norm2.weight of block 0 is 0 at index {index}, so that no token passes it whole"),
            });
        }
        let (by_fc1, factors) = evened(by_fc1.as_ref());
        let (by_fc2, factors_of_fc2) = evened(by_fc2);
        let (Ok(one), Ok(two)) = (by_fc1.thin_svd(), by_fc2.thin_svd()) else { return Ok(None) };
        let first = |from: MatRef<'_, f64>| from.subcols(0, count).to_owned();
        let singular: Vec<f64> = one.S().column_vector().iter().copied().take(count).collect();
        if singular.len() < count || singular.last().is_none_or(|&last| last <= 0.0) || two.U().ncols() < count {
            return Ok(None);
        }
        let right = first(one.V());
        let unevened = |row: usize, k: usize| match factors_of_fc2[row] {
            0.0 => 0.0,
            factor => two.U()[(row, k)] / factor,
        };
        let slopes = Mat::from_fn(dim, count, unevened).qr().compute_thin_Q();
        let scale = |row: usize| 1.0 / block.norm2.weight[row];
        let shift = block.norm2.bias.iter().enumerate().map(|(row, bias)| bias * scale(row)).collect();
        Ok(Some(Self {
            left: first(one.U()),
            singular,
            hidden: product(block.fc1.with_bias().as_ref(), right.as_ref()),
            back: product(block.fc2.weight.transpose(), slopes.as_ref()),
            factors,
            normal: Mat::from_fn(dim, count, |row, k| right[(row, k)] * scale(row)),
            shift,
            one: right.row(dim).iter().copied().collect(),
            activations: first(two.V()),
            slopes,
        }))
    }

    /// N.
    pub(super) fn count(&self) -> usize {
        self.singular.len()
    }

    /// Looks for the other half of a token at `m`: the slope g that reached its output. delta = GELU'(u) W2^T g must
    /// lie in the column space of A. `None` if the decomposition fails.
    pub(super) fn dual(&self, m: MatRef<'_, f64>) -> Option<Dual> {
        let u = product(self.hidden.as_ref(), m);
        let slopes: Vec<f64> = u.col(0).iter().zip(&self.factors).map(|(&u, factor)| factor * gelu(u).1).collect();
        let deltas = Mat::from_fn(slopes.len(), self.count(), |row, k| slopes[row] * self.back[(row, k)]);
        let inside = product(self.left.transpose(), deltas.as_ref());
        let outside = &deltas - product(self.left.as_ref(), inside.as_ref());
        let svd = outside.thin_svd().ok()?;
        let mix = svd.V().subcols(self.count() - 1, 1);
        let length = product(deltas.as_ref(), mix).norm_l2();
        let residual = svd.S().column_vector().iter().last()? / length;
        let mut dual = product(inside.as_ref(), mix);
        for (value, singular) in dual.col_mut(0).iter_mut().zip(&self.singular) {
            *value /= singular;
        }
        let scale = 1.0 / product(m.transpose(), dual.as_ref())[(0, 0)];
        let slope = product(self.slopes.as_ref(), mix) * faer::Scale(scale);
        (scale.is_finite() && residual.is_finite()).then(|| Dual {
            direction: dual * faer::Scale(scale),
            slope,
            residual,
        })
    }
}

/// What belongs to one token on the other side of the MLP.
#[derive(Debug, Clone)]
pub(super) struct Dual {
    /// d `[N, 1]`: m . d is 1 for this token and 0 for every other one, because S^-1 U^T delta_k is dual to the m.
    pub(super) direction: Mat<f64>,
    /// g `[D, 1]`, the loss's slope along the block's output at this token.
    pub(super) slope: Mat<f64>,
    /// Length of delta outside the column space of A, relative to delta: 0 for a token.
    pub(super) residual: f64,
}

/// A = [dW1 | db1] `[4 D, D + 1]`.
pub(super) fn fc1_gradient(gradients: &Tensors, hidden: usize) -> Result<Mat<f64>, AttackError> {
    let weight = gradients.matrix("blocks.0.mlp.fc1.weight", hidden)?;
    let bias = gradients.get("blocks.0.mlp.fc1.bias")?;
    let dim = weight.ncols();
    Ok(Mat::from_fn(hidden, dim + 1, |row, c| if c < dim { weight[(row, c)] } else { bias[row] }))
}
