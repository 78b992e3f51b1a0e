//! The row spaces of block 0's gradients, with the noise in them.

use faer::{Mat, MatRef};

use super::{
    block::{Block, Norm, gelu},
    mlp::fc1_gradient,
};
use crate::{
    AttackError, Tensors,
    model::QKV,
    small_matrices::{gram, product},
};

/// The row space of a matrix G = sum_k d_k x_k^T of rank N, in which every x_k lies up to the noise of G.
#[derive(Debug, Clone)]
pub(super) struct RowSpan {
    /// Orthonormal, `[c, N]`.
    basis: Mat<f64>,
    /// `[N]`, descending.
    pub(super) singular: Vec<f64>,
    /// Standard deviation of the noise in an entry, from the singular values behind the N-th.
    pub(super) noise: f64,
}

/// How far a vector lies outside a row space.
pub(super) struct Outside {
    /// The part outside, `[c]`.
    pub(super) part: Mat<f64>,
    /// 1 / the standard deviation that noise gives each entry of this part: x = G^T y has the noise of G times |y|, with
    /// |y| = |S^-1 V^T x|.
    pub(super) weight: f64,
}

/// The matrix with rows of length 1, and the factors of its rows. Rounding errs by a share of each entry, so that rows
/// of one size have noise of one size. The row space stays.
pub(super) fn evened(matrix: MatRef<'_, f64>) -> (Mat<f64>, Vec<f64>) {
    let factor = |row: usize| {
        let length = matrix.row(row).norm_l2();
        if length > 0.0 { 1.0 / length } else { 0.0 }
    };
    let factors: Vec<f64> = (0..matrix.nrows()).map(factor).collect();
    (Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, c| factors[row] * matrix[(row, c)]), factors)
}

impl RowSpan {
    /// `None` if the decomposition fails or there are fewer than `count` directions.
    fn new(matrix: MatRef<'_, f64>, count: usize) -> Option<Self> {
        let svd = evened(matrix).0.thin_svd().ok()?;
        let all: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let (&last, rest) = (all.get(count.checked_sub(1)?)?, all.get(count..)?);
        let freedom = (matrix.nrows() - count) * (matrix.ncols() - count);
        let noise = (rest.iter().map(|value| value * value).sum::<f64>() / freedom.max(1) as f64).sqrt();
        // The decomposition is no more exact than f64.
        let noise = noise.max(all[0] * f64::EPSILON / (matrix.nrows() as f64).sqrt());
        (last > 0.0).then(|| Self {
            basis: svd.V().subcols(0, count).to_owned(),
            singular: all[..count].to_vec(),
            noise,
        })
    }

    pub(super) fn outside(&self, x: MatRef<'_, f64>) -> Outside {
        let inside = product(self.basis.transpose(), x);
        let part = x - product(self.basis.as_ref(), inside.as_ref());
        let squares = inside.col(0).iter().zip(&self.singular).map(|(value, singular)| (value / singular).powi(2));
        Outside { part, weight: 1.0 / (self.noise * squares.sum::<f64>().sqrt()) }
    }

    fn residual(&self, x: &Mat<f64>) -> Residual {
        let Outside { part, weight } = self.outside(x.as_ref());
        let length = part.norm_l2();
        let freedom = (self.basis.nrows() - self.basis.ncols()) as f64;
        Residual { relative: length / x.norm_l2(), by_noise: length * weight / freedom.sqrt() }
    }
}

/// The row space of [gamma zhat + beta, 1], the values behind a LayerNorm.
#[derive(Debug, Clone)]
pub(super) struct NormedSpan {
    span: RowSpan,
    gamma: Vec<f64>,
    beta: Vec<f64>,
    /// Half the second derivative, by zhat, of the squared part outside: `[D, D]`.
    metric: Mat<f64>,
}

impl NormedSpan {
    fn new(span: RowSpan, norm: &Norm) -> Self {
        let (gamma, beta) = (norm.weight.clone(), norm.bias.clone());
        let top = span.basis.as_ref().subrows(0, gamma.len());
        let inside = gram(top.transpose());
        let entry = |r: usize, c: usize| gamma[r] * gamma[c] * (f64::from(u8::from(r == c)) - inside[(r, c)]);
        let metric = Mat::from_fn(gamma.len(), gamma.len(), entry);
        Self { span, gamma, beta, metric }
    }

    /// [gamma zhat + beta, 1] `[D + 1, 1]`.
    fn point(&self, zhat: MatRef<'_, f64>) -> Mat<f64> {
        let dim = self.gamma.len();
        let entry = |row: usize| zhat[(row, 0)] * self.gamma[row] + self.beta[row];
        Mat::from_fn(dim + 1, 1, |row, _| if row < dim { entry(row) } else { 1.0 })
    }

    /// The pull on the normalised token zhat `[D, 1]`.
    pub(super) fn pull(&self, zhat: MatRef<'_, f64>, wants_slopes: bool) -> Pull {
        let Outside { part, weight } = self.span.outside(self.point(zhat).as_ref());
        let square = weight * weight;
        let error = square * part.squared_norm_l2();
        if !wants_slopes {
            return Pull { error, slope: Mat::zeros(0, 0), metric: Mat::zeros(0, 0) };
        }
        let slope = Mat::from_fn(self.gamma.len(), 1, |row, _| square * self.gamma[row] * part[(row, 0)]);
        Pull { error, slope, metric: &self.metric * faer::Scale(square) }
    }
}

/// How far a token lies outside a row space.
#[derive(Debug, Clone, Copy)]
pub(super) struct Residual {
    /// Relative to its length.
    pub(super) relative: f64,
    /// Relative to what the noise of the row space explains.
    pub(super) by_noise: f64,
}

/// The row spaces that hold a token at three places of block 0.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    /// [norm1's output, 1], from the gradient of q, k and v.
    pub(super) attention: NormedSpan,
    /// [norm2's output, 1], from that of fc1.
    pub(super) mlp: NormedSpan,
    /// GELU's output, from that of fc2.
    pub(super) activation: RowSpan,
}

impl Spans {
    /// Reads the spans of `batch` pictures of `patches` patches. All class tokens enter block 0 alike, so that they count
    /// once before attention.
    ///
    /// # Errors
    /// A gradient is missing, or has fewer directions.
    pub(super) fn read(
        block: &Block,
        gradients: &Tensors,
        (batch, patches): (usize, usize),
    ) -> Result<Self, AttackError> {
        let dim = block.fc2.bias.len();
        let qkv = gradients.matrix(QKV, 3 * dim)?;
        let bias = gradients.get("blocks.0.attn.qkv.bias")?;
        let qkv = Mat::from_fn(3 * dim, dim + 1, |row, c| if c < dim { qkv[(row, c)] } else { bias[row] });
        let span = |name: &str, matrix: MatRef<'_, f64>, count: usize| {
            RowSpan::new(matrix, count).ok_or_else(|| AttackError::BatchUnsolved {
                reason: format!(
                    "cannot tell, because the gradient of block 0's {name} has fewer than {count} directions; no batch of \
                     {batch} different pictures leaves that"
                ),
            })
        };
        let (before, after) = (batch * patches + 1, batch * (patches + 1));
        Ok(Self {
            attention: NormedSpan::new(span("q, k and v", qkv.as_ref(), before)?, &block.norm1),
            mlp: NormedSpan::new(
                span("fc1", fc1_gradient(gradients, block.fc1.bias.len())?.as_ref(), after)?,
                &block.norm2,
            ),
            activation: span("fc2", gradients.matrix("blocks.0.mlp.fc2.weight", dim)?, after)?,
        })
    }

    /// How far a token lies outside its row spaces, from its normalised values before attention and before the MLP.
    pub(super) fn residual(&self, block: &Block, before: MatRef<'_, f64>, after: MatRef<'_, f64>) -> Residual {
        let h = self.mlp.point(after);
        let mut values = block.fc1.apply(h.as_ref().subrows(0, h.nrows() - 1));
        values.col_mut(0).iter_mut().for_each(|value| *value = gelu(*value).0);
        let parts = [
            self.attention.span.residual(&self.attention.point(before)),
            self.mlp.span.residual(&h),
            self.activation.residual(&values),
        ];
        let most = |of: fn(&Residual) -> f64| parts.iter().map(of).fold(0.0, f64::max);
        Residual { relative: most(|part| part.relative), by_noise: most(|part| part.by_noise) }
    }
}

/// What a row space says of one token: the squared part outside, in units of noise, and, if wanted, its derivatives
/// by the normalised token.
pub(super) struct Pull {
    pub(super) error: f64,
    /// Half the error's gradient, `[D, 1]`.
    pub(super) slope: Mat<f64>,
    /// Half the error's second derivative without curvature, `[D, D]`.
    pub(super) metric: Mat<f64>,
}

/// The pull of the activations' span on zhat, through fc1 and GELU.
pub(super) fn pull_activation(span: &RowSpan, block: &Block, zhat: MatRef<'_, f64>, wants_slopes: bool) -> Pull {
    let gamma = &block.norm2.weight;
    let dim = gamma.len();
    let h = Mat::from_fn(dim, 1, |row, _| zhat[(row, 0)] * gamma[row] + block.norm2.bias[row]);
    let mut values = block.fc1.apply(h.as_ref());
    let mut slopes = Vec::with_capacity(values.nrows());
    for value in values.col_mut(0).iter_mut() {
        let (y, slope) = gelu(*value);
        *value = y;
        slopes.push(slope);
    }
    let Outside { part, weight } = span.outside(values.as_ref());
    let error = weight * weight * part.squared_norm_l2();
    if !wants_slopes {
        return Pull { error, slope: Mat::zeros(0, 0), metric: Mat::zeros(0, 0) };
    }
    let moved = Mat::from_fn(slopes.len(), dim, |row, c| weight * slopes[row] * block.fc1.weight[(row, c)] * gamma[c]);
    let inside = product(span.basis.transpose(), moved.as_ref());
    let metric = gram(moved.as_ref()) - gram(inside.as_ref());
    Pull { error, slope: product(moved.transpose(), part.as_ref()) * faer::Scale(weight), metric }
}
