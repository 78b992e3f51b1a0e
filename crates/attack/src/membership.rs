//! Whether a given picture was among the private ones.

use faer::{Mat, MatRef};
use unmask_core::{AttackMethod, MembershipVerdict, VitConfig};

use crate::{
    AttackError, Evidence, Tensors,
    model::{CLASS_TOKEN, NORM_BIAS, NORM_WEIGHT, PATCH_BIAS, PATCH_WEIGHT, POSITION, QKV},
    observed::Observed,
};

/// timm names of the gradients that [`membership`] reads; one of them is enough.
pub const MEMBERSHIP_GRADIENTS: &[&str] = &[PATCH_WEIGHT, QKV];

/// timm names of the weights that [`membership`] reads where it goes by the attention weights' gradient. A model with
/// the April block has no norm there.
pub const MEMBERSHIP_WEIGHTS: &[&str] = &[CLASS_TOKEN, POSITION, PATCH_WEIGHT, PATCH_BIAS, NORM_WEIGHT, NORM_BIAS];

/// Entries a row must keep beyond the free coefficients.
const SPARE: usize = 4;
/// Masked rows each need a decomposition of their own; this many are enough.
const MOST_ROWS: usize = 48;
const RESAMPLINGS: usize = 200;
/// Singular values below this share of the largest are left out of a span.
const CUTOFF: f64 = 1e-9;
/// LayerNorm's epsilon, as in timm.
const NORM_EPSILON: f64 = 1e-6;
/// A member's residual lies below this share of its distractors' median.
const MEMBER: f64 = 0.1;
/// A stranger's lies above this share.
const STRANGER: f64 = 0.5;
/// Below this residual rounding alone is left, which no stranger reaches however alike its distractors are.
const ROUNDING: f64 = 1e-5;

/// Residual of a candidate picture beside those of its distractors.
#[derive(Debug, Clone, PartialEq)]
pub struct Membership {
    /// Root mean square of what the candidate's span leaves unexplained of the kept entries, per degree of freedom and
    /// relative to that of the entries: 0 explains all, 1 nothing.
    pub residual: f64,
    /// Central 95 % of the residual under resampling of the rows.
    pub interval: (f64, f64),
    /// Residuals of mirrored, turned and recoloured copies of the candidate, ascending: what strangers like it reach.
    pub distractors: Vec<f64>,
    /// timm's name of the gradient whose rows were fitted.
    pub gradient: &'static str,
    pub verdict: MembershipVerdict,
}

/// Tells whether `candidate`, `[side, side, 3]` in [0, 1], is the picture behind an update of batch 1.
///
/// Each row of dl/d(weight) of a linear layer is a combination of the layer's inputs. The kept entries of the rows are
/// fitted with free coefficients on the inputs that the candidate would have caused, so that neither the gradient of the
/// position embedding nor the label is needed: the fixed-position defence and masks change nothing as long as a row keeps
/// more entries than there are coefficients.
///
/// The patch embedding's rows are tried first, S patches and a constant for L (1 - R) entries; where those are too few,
/// as where L <= S, the first attention block's qkv, S + 1 tokens for D (1 - R) entries, which needs the model's weights.
///
/// The verdict compares the residual with those of eleven copies that are mirrored, turned or have red and blue swapped,
/// which are as natural as the candidate and were not in the batch: a member's upper bound lies below a tenth of their
/// median, a stranger's lower bound above half of it.
///
/// # Errors
/// [`AttackError`]: the candidate has another size, no gradient is there or kept enough entries, or it is all zero.
pub fn membership(evidence: &Evidence, candidate: &[f32]) -> Result<Membership, AttackError> {
    let config = evidence.gradients.vit()?;
    let expected = config.image * config.image * VitConfig::CHANNELS;
    if candidate.len() != expected {
        return Err(AttackError::WrongPicture { found: candidate.len(), expected });
    }
    if let Some(index) = candidate.iter().position(|value| !value.is_finite()) {
        return Err(AttackError::NonFinitePicture { index, value: candidate[index] });
    }
    let layer = Layer::of(evidence)?;
    let residuals = layer.residuals(evidence, candidate)?;
    let residual = pooled(&residuals);
    let mut distractors = distractors(candidate, config.image)
        .iter()
        .map(|picture| layer.residuals(evidence, picture).map(|residuals| pooled(&residuals)))
        .collect::<Result<Vec<_>, _>>()?;
    distractors.sort_by(f64::total_cmp);
    let interval = interval(&residuals);
    let median = distractors[distractors.len() / 2];
    let verdict = if residual < ROUNDING || interval.1 < MEMBER * median {
        MembershipVerdict::Member
    } else if interval.0 > STRANGER * median {
        MembershipVerdict::Stranger
    } else {
        MembershipVerdict::Undecided
    };
    Ok(Membership { residual, interval, distractors, gradient: layer.name, verdict })
}

struct Layer {
    name: &'static str,
    /// Rows of the gradient, thinned out where each needs its own decomposition.
    rows: Vec<usize>,
    gradient: Observed,
}

/// One row's unexplained and whole sum of squares, each over its degrees of freedom.
#[derive(Clone, Copy)]
struct RowFit {
    left: f64,
    all: f64,
}

impl Layer {
    fn of(evidence: &Evidence) -> Result<Self, AttackError> {
        let config = evidence.gradients.vit()?;
        let patch = Self::new(&evidence.gradients, PATCH_WEIGHT, config.dim, config.patches() + 1);
        if patch.is_ok() {
            return patch;
        }
        let qkv = Self::new(&evidence.gradients, QKV, 3 * config.dim, config.tokens());
        // The attention weights are the second choice: what is wrong with them is told only where they are there.
        match qkv {
            Err(AttackError::Missing { .. }) => patch,
            qkv => qkv,
        }
    }

    fn new(gradients: &Tensors, name: &'static str, rows: usize, coefficients: usize) -> Result<Self, AttackError> {
        let gradient = gradients.observed(name, rows)?;
        if gradient.known() == 0 {
            return Err(AttackError::NothingKept { name });
        }
        if gradient.is_zero() {
            return Err(AttackError::ZeroGradient { name });
        }
        let kept = |row: usize| gradient.weights.row(row).iter().filter(|&&weight| weight > 0.0).count();
        let mut usable: Vec<usize> = (0..rows).filter(|&row| kept(row) >= coefficients + SPARE).collect();
        if 2 * usable.len() < rows {
            let mut counts: Vec<usize> = (0..rows).map(kept).collect();
            counts.sort_unstable();
            return Err(AttackError::TooFewToJudge { name, kept: counts[rows / 2], coefficients });
        }
        if !gradient.is_whole() {
            let step = usable.len().div_ceil(MOST_ROWS);
            usable = usable.into_iter().step_by(step).collect();
        }
        Ok(Self { name, rows: usable, gradient })
    }

    /// How well each row is fitted by the inputs that `picture` causes.
    fn residuals(&self, evidence: &Evidence, picture: &[f32]) -> Result<Vec<RowFit>, AttackError> {
        let config = evidence.gradients.vit()?;
        let inputs = if self.name == QKV {
            tokens(&evidence.weights, picture)?
        } else {
            let patches = patches(picture, &config);
            Mat::from_fn(config.patches() + 1, config.patch_len(), |s, l| {
                if s == config.patches() { 1.0 } else { patches[(s, l)] }
            })
        };
        let unsolvable = AttackError::Unsolvable { method: AttackMethod::Embedding };
        if self.gradient.is_whole() {
            let basis = basis(inputs.transpose()).ok_or(unsolvable)?;
            return Ok(self.rows.iter().map(|&row| self.fit(row, None, basis.as_ref())).collect());
        }
        self.rows
            .iter()
            .map(|&row| {
                let kept: Vec<usize> =
                    (0..inputs.ncols()).filter(|&column| self.gradient.is_known(row, column)).collect();
                let inputs = Mat::from_fn(kept.len(), inputs.nrows(), |i, s| inputs[(s, kept[i])]);
                let basis = basis(inputs.as_ref()).ok_or(unsolvable.clone())?;
                Ok(self.fit(row, Some(&kept), basis.as_ref()))
            })
            .collect()
    }

    fn fit(&self, row: usize, kept: Option<&[usize]>, basis: MatRef<'_, f64>) -> RowFit {
        let values = Mat::from_fn(basis.nrows(), 1, |i, _| self.gradient.values[(row, kept.map_or(i, |kept| kept[i]))]);
        let left = &values - basis * (basis.transpose() * &values);
        let freedom = (basis.nrows() - basis.ncols()).max(1);
        RowFit { left: left.squared_norm_l2() / freedom as f64, all: values.squared_norm_l2() / values.nrows() as f64 }
    }
}

/// An orthonormal basis of the columns of `inputs`.
fn basis(inputs: MatRef<'_, f64>) -> Option<Mat<f64>> {
    let svd = inputs.thin_svd().ok()?;
    let singular = svd.S().column_vector();
    let largest = *singular.iter().next()?;
    let rank = singular.iter().take_while(|&&value| value > CUTOFF * largest).count();
    Some(svd.U().subcols(0, rank).to_owned())
}

fn pooled(rows: &[RowFit]) -> f64 {
    let (left, all) = rows.iter().fold((0.0, 0.0), |(left, all), row| (left + row.left, all + row.all));
    (left / all).sqrt()
}

/// Central 95 % of the pooled residual of rows drawn with replacement, by a fixed sequence of numbers so that the same
/// evidence gives the same verdict.
fn interval(rows: &[RowFit]) -> (f64, f64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        // Knuth's linear congruential generator; its upper bits are good enough for a bootstrap.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rows[((state >> 33) as usize) % rows.len()]
    };
    let mut pooled: Vec<f64> =
        (0..RESAMPLINGS).map(|_| pooled(&(0..rows.len()).map(|_| draw()).collect::<Vec<_>>())).collect();
    pooled.sort_by(f64::total_cmp);
    let tail = RESAMPLINGS / 40;
    (pooled[tail], pooled[RESAMPLINGS - 1 - tail])
}

/// Patches `[S, L]` of a picture in the model's input space [-1, 1].
fn patches(picture: &[f32], config: &VitConfig) -> Mat<f64> {
    let (size, grid, side) = (config.patch, config.grid(), config.image);
    Mat::from_fn(config.patches(), config.patch_len(), |s, l| {
        let (c, y, x) = (l / (size * size), l / size % size, l % size);
        let (row, column) = (s / grid * size + y, s % grid * size + x);
        f64::from(picture[(row * side + column) * VitConfig::CHANNELS + c]).mul_add(2.0, -1.0)
    })
}

/// What enters the first attention block `[S + 1, D]`.
fn tokens(weights: &Tensors, picture: &[f32]) -> Result<Mat<f64>, AttackError> {
    let config = weights.vit()?;
    let position = weights.matrix(POSITION, config.tokens())?;
    let (class, bias) = (weights.get(CLASS_TOKEN)?, weights.get(PATCH_BIAS)?);
    let embedded = patches(picture, &config) * weights.matrix(PATCH_WEIGHT, config.dim)?.transpose();
    let mut tokens = Mat::from_fn(config.tokens(), config.dim, |t, d| {
        position[(t, d)] + if t == 0 { class[d] } else { embedded[(t - 1, d)] + bias[d] }
    });
    if config.has_norm1(0) {
        let (scale, shift) = (weights.get(NORM_WEIGHT)?, weights.get(NORM_BIAS)?);
        let dim = config.dim as f64;
        for t in 0..tokens.nrows() {
            let mean = tokens.row(t).sum() / dim;
            let variance = tokens.row(t).iter().map(|value| (value - mean).powi(2)).sum::<f64>() / dim;
            for d in 0..config.dim {
                tokens[(t, d)] = (tokens[(t, d)] - mean) / (variance + NORM_EPSILON).sqrt() * scale[d] + shift[d];
            }
        }
    }
    Ok(tokens)
}

/// The seven other orientations of the picture, and four of all eight with red and blue swapped.
fn distractors(picture: &[f32], side: usize) -> Vec<Vec<f32>> {
    const ORIENTATIONS: usize = 8;
    let copy = |orientation: usize, swapped: bool| -> Vec<f32> {
        let pixel = |y: usize, x: usize| {
            let (y, x) = if orientation & 1 == 0 { (y, x) } else { (x, y) };
            let y = if orientation & 2 == 0 { y } else { side - 1 - y };
            let x = if orientation & 4 == 0 { x } else { side - 1 - x };
            let at = |c: usize| picture[(y * side + x) * VitConfig::CHANNELS + c];
            if swapped { [at(2), at(1), at(0)] } else { [at(0), at(1), at(2)] }
        };
        (0..side * side).flat_map(|i| pixel(i / side, i % side)).collect()
    };
    let turned = (1..ORIENTATIONS).map(|orientation| copy(orientation, false));
    turned.chain((0..ORIENTATIONS).step_by(2).map(|orientation| copy(orientation, true))).collect()
}
