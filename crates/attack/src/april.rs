//! APRIL (Lu et al., CVPR 2022), and its version for masked updates.

use faer::{Mat, MatRef, RowRef};
use unmask_core::AttackMethod;

use crate::{
    AttackError, Evidence, Reconstruction, Tensors,
    least_squares::least_squares,
    model::{PATCH_BIAS, PATCH_WEIGHT, POSITION, QKV},
    observed::Observed,
    patch_prior::covariance_root,
    wiener::NoisyEquations,
};

const METHOD: AttackMethod = AttackMethod::April;
const UNSOLVABLE: AttackError = AttackError::Unsolvable { method: METHOD };

/// Solves A^T z = b for the tokens z that entered the first attention block, and then for the patches.
///
/// Without LayerNorm and residual around attention, dl/dz = A reaches the position embedding only through q, k and v.
/// So b = W_q^T dW_q + W_k^T dW_k + W_v^T dW_v = A^T z, with A = dl/dE_pos `[S + 1, D]` including the class row. Biases
/// do not matter. A token is z_s = E x_s + E_b + p_s. With the known part moved to the right and the class token
/// eliminated, A^T X E^T = b - A^T (E_b + p) gives the patches X. (The papers print the last step as x' = E (z0 -
/// E_pos)^T but mean the inverse of the patch embedding.)
///
/// The smallest singular values of A drown in the rounding of its entries, and more of them do in a darker picture. D -
/// S - 1 combinations of the equations do not depend on the picture and so measure that noise. A Wiener filter then
/// damps each direction by its noise. If D < L, the embedding maps many patches to one token, and a prior of smooth
/// patches picks the likeliest.
///
/// On a standard pre-LN block the equations do not hold: the result is not the picture, and a note says so. Zeros from
/// a mask are taken for values. They contradict the equations more than noise could, and nothing is filtered then.
///
/// # Errors
/// [`AttackError`]: D < S + 1, a tensor is missing, or a gradient is all zero.
pub fn april(weights: &Tensors, gradients: &Tensors) -> Result<Reconstruction, AttackError> {
    let config = gradients.vit()?;
    let a = gradients.position_gradient(METHOD, config.tokens())?;
    let dw = gradients.matrix(QKV, 3 * config.dim)?;
    solve(weights, gradients, a.as_ref(), dw)
}

/// Solves for the picture from A `[S + 1, D]` and dW `[3 D, D]`.
fn solve(
    weights: &Tensors,
    gradients: &Tensors,
    a: MatRef<'_, f64>,
    dw: MatRef<'_, f64>,
) -> Result<Reconstruction, AttackError> {
    let config = gradients.vit()?;
    let (dim, patches) = (config.dim, config.patches());
    // W and dW stack the rows of q, k and v, so one product sums all three.
    let b = weights.matrix(QKV, 3 * dim)?.transpose() * dw;
    if dw.squared_norm_l2() == 0.0 {
        return Err(AttackError::ZeroGradient { name: QKV });
    }
    let position = weights.matrix(POSITION, config.tokens())?;
    let bias = weights.get(PATCH_BIAS)?;
    let known = Mat::from_fn(config.tokens(), dim, |s, d| position[(s, d)] + if s == 0 { 0.0 } else { bias[d] });
    let embedding = weights.matrix(PATCH_WEIGHT, dim)?;
    let root = (dim < config.patch_len()).then(|| covariance_root(config.patch));
    let whitened = root.as_ref().map(|root| embedding * root);

    let class = a.row(0);
    let m = without(class, a.subrows(1, patches).transpose().to_owned());
    let r = without(class, &b - a.transpose() * known);
    let scale = b.norm_l2() / dim as f64;
    let equations = NoisyEquations {
        m: m.as_ref(),
        e: whitened.as_ref().map_or(embedding, Mat::as_ref),
        r: r.as_ref(),
        spent: 1,
        rounding: gradients.rounding().cutoff() * scale,
        scale,
    };
    let found = equations.solve().ok_or(UNSOLVABLE)?;
    let x = root.as_ref().map_or_else(|| found.x.to_owned(), |root| &found.x * root.transpose());
    let mut reconstruction = Reconstruction::from_patches(x.as_ref(), &config, found.spectrum);
    if !config.april_block {
        reconstruction.note(
            "The first block of this model normalises before attention and has a residual: APRIL's equations do not hold \
             there, and it recovers nothing."
                .to_owned(),
        );
    }
    if root.is_some() {
        reconstruction.note(format!(
            "D = {dim} embedding dimensions cannot hold the {} values of a patch: the likeliest smooth patches are shown.",
            config.patch_len(),
        ));
    }
    reconstruction.note_noise(found.spectrum, found.noise);
    Ok(reconstruction)
}

/// Removes from each column of `matrix` its component along `direction`.
fn without(direction: RowRef<'_, f64>, matrix: Mat<f64>) -> Mat<f64> {
    let square = direction.squared_norm_l2();
    if square == 0.0 {
        return matrix;
    }
    let shares = direction * &matrix / square;
    &matrix - direction.transpose() * shares
}

/// APRIL with the dropped entries as unknowns.
///
/// - dW whole: all rows of A = [dQ | dK | dV] W lie in the span of the S + 1 rows of U^T W, where the columns of U span
///   those of dW = [dQ | dK | dV]^T z. At least S + 1 kept entries of a row of A determine its position in that span,
///   and so its missing entries.
/// - A whole: the m_j missing entries of column j of dW join the unknowns of A^T z_j = W^T dW_j, which has D equations.
///   S + 1 + m_j must not exceed D.
/// - Both masked: neither step can start.
///
/// # Errors
/// As [`april`]; [`AttackError::TooMuchHidden`] says which count fails.
pub fn april_aware(evidence: &Evidence) -> Result<Reconstruction, AttackError> {
    let Evidence { weights, gradients } = evidence;
    let config = gradients.vit()?;
    let (tokens, dim) = (config.tokens(), config.dim);
    // Run the naive attack's checks first: the counts below mean nothing without them.
    gradients.position_gradient(METHOD, tokens)?;
    let a = gradients.observed(POSITION, tokens)?;
    let dw = gradients.observed(QKV, 3 * dim)?;
    let too_much = |reason: String| AttackError::TooMuchHidden { method: AttackMethod::AprilAware, reason };
    let cutoff = gradients.rounding().cutoff();
    let w = weights.matrix(QKV, 3 * dim)?;
    if a.is_whole() && dw.is_whole() {
        return april(weights, gradients);
    }
    if dw.is_zero() {
        return Err(AttackError::ZeroGradient { name: QKV });
    }
    if !a.is_whole() && !dw.is_whole() {
        return Err(too_much(format!(
            "both its matrices have gaps, {} of {} entries of the position embedding's gradient and {} of {} of the \
             attention weights', and filling in either needs the other whole",
            a.len() - a.known(),
            a.len(),
            dw.len() - dw.known(),
            dw.len(),
        )));
    }
    let mut reconstruction = if dw.is_whole() {
        let fewest = (0..tokens).map(|row| known_in_row(&a, row)).min().unwrap_or(0);
        if fewest < tokens {
            return Err(too_much(format!(
                "a row of the position embedding's gradient kept {fewest} of its {dim} entries, and filling in the \
                 others takes {tokens}"
            )));
        }
        let filled = fill_rows(&a, dw.values.as_ref(), w, cutoff).ok_or(UNSOLVABLE)?;
        solve(weights, gradients, filled.as_ref(), dw.values.as_ref())?
    } else {
        let most = (0..dim).map(|column| 3 * dim - dw.known_in_column(column)).max().unwrap_or(0);
        if tokens + most > dim {
            return Err(too_much(format!(
                "a column of the attention weights' gradient lacks {most} entries, which with the {tokens} tokens are \
                 {} unknowns for {dim} equations",
                tokens + most,
            )));
        }
        let filled = fill_columns(&a, &dw, w, cutoff).ok_or(UNSOLVABLE)?;
        solve(weights, gradients, a.values.as_ref(), filled.as_ref())?
    };
    reconstruction.note("Dropped entries were solved for as unknowns.".to_owned());
    Ok(reconstruction)
}

fn known_in_row(observed: &Observed, row: usize) -> usize {
    observed.weights.row(row).iter().filter(|&&weight| weight > 0.0).count()
}

/// Fills the missing entries of A from the row space of U^T W.
fn fill_rows(a: &Observed, dw: MatRef<'_, f64>, w: MatRef<'_, f64>, cutoff: f64) -> Option<Mat<f64>> {
    let svd = dw.thin_svd().ok()?;
    let rank = a.nrows().min(svd.U().ncols());
    let span = svd.U().subcols(0, rank).transpose() * w;
    let mut filled = a.values.clone();
    for row in 0..a.nrows() {
        let known: Vec<usize> = (0..a.ncols()).filter(|&column| a.is_known(row, column)).collect();
        let basis = Mat::from_fn(known.len(), rank, |i, j| span[(j, known[i])]);
        let values = Mat::from_fn(known.len(), 1, |i, _| a.values[(row, known[i])]);
        let (place, _) = least_squares(basis.as_ref(), values.as_ref(), cutoff)?;
        for column in (0..a.ncols()).filter(|&column| !a.is_known(row, column)) {
            filled[(row, column)] = (0..rank).map(|j| place[(j, 0)] * span[(j, column)]).sum();
        }
    }
    Some(filled)
}

/// Fills the missing entries of dW, solving each column together with the tokens' entries in it.
fn fill_columns(a: &Observed, dw: &Observed, w: MatRef<'_, f64>, cutoff: f64) -> Option<Mat<f64>> {
    let (tokens, dim) = (a.nrows(), a.ncols());
    let mut filled = dw.values.clone();
    // The cutoff is only meaningful if all unknowns have the same scale.
    let scale = (a.mean_square() / (w.squared_norm_l2() / (w.nrows() * w.ncols()) as f64)).sqrt();
    for column in 0..dim {
        let missing: Vec<usize> = (0..dw.nrows()).filter(|&row| !dw.is_known(row, column)).collect();
        let system = Mat::from_fn(dim, tokens + missing.len(), |equation, unknown| match unknown.checked_sub(tokens) {
            None => a.values[(unknown, equation)],
            Some(i) => -scale * w[(missing[i], equation)],
        });
        let b = w.transpose() * dw.values.col(column).as_mat();
        let (solution, _) = least_squares(system.as_ref(), b.as_ref(), cutoff)?;
        for (i, &row) in missing.iter().enumerate() {
            filled[(row, column)] = scale * solution[(tokens + i, 0)];
        }
    }
    Some(filled)
}
