//! Certain pictures taken out of the gradient itself.

use faer::{Mat, MatRef};

use super::{GradientOf, evidence::Judged};
use crate::{AttackError, Evidence, Tensors, class_token_gradient, small_matrices::product, span::token};

/// Largest part of a picture's trace outside the last block's gradient, relative to it, with the right label.
const OUTSIDE: f64 = 1e-2;

/// Subtracts the gradients of certain pictures. Returns whether all of them could be: the batch is smaller by their number.
///
/// In the last block only the class tokens reach the MLP, so that dW1 = sum_b w_b u_b v_b^T, where u_b v_b^T is the
/// gradient of picture b alone, which has rank one, and w_b is 1 / B. With the right label u_b lies in the column space, and
/// w_b = 1 / (v_b^T dW1^+ u_b), which holds for a picture that is in the batch twice as well.
///
/// # Errors
/// Those of `model`, or a tensor is missing.
pub(super) fn peel(left: &mut Evidence, certain: &[Judged], model: &mut GradientOf<'_>) -> Result<bool, AttackError> {
    let config = left.gradients.vit()?;
    let name = class_token_gradient(left.gradients.model())?;
    let mut peeled = left.gradients.clone();
    let whole = left.gradients.matrix(&name, config.mlp_dim())?.to_owned();
    let Ok(svd) = whole.thin_svd() else { return Ok(false) };
    let cutoff = left.gradients.rounding().cutoff() * svd.S().column_vector()[0];
    let rank = svd.S().column_vector().iter().take_while(|&&value| value > cutoff).count();
    let (columns, rows) = (svd.U().subcols(0, rank), svd.V().subcols(0, rank));
    let singular: Vec<f64> = svd.S().column_vector().iter().copied().take(rank).collect();
    for one in certain {
        let mut best: Option<(f64, f64, Tensors)> = None;
        for label in 0..config.classes {
            let own = model(label, &one.picture.image)?;
            let Some((outside, weight)) = trace(own.matrix(&name, config.mlp_dim())?, (columns, &singular, rows))
            else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, ..)| outside < *least) {
                best = Some((outside, weight, own));
            }
        }
        let Some((_, weight, own)) = best.filter(|(outside, ..)| *outside < OUTSIDE) else { return Ok(false) };
        peeled.subtract(&own, weight)?;
    }
    left.gradients = peeled;
    Ok(true)
}

/// How far the column space of a picture's gradient lies outside that of the batch, and the picture's weight in it.
fn trace(
    own: MatRef<'_, f64>,
    (columns, singular, rows): (MatRef<'_, f64>, &[f64], MatRef<'_, f64>),
) -> Option<(f64, f64)> {
    let v = token(own)?;
    let u = product(own, v.as_ref());
    let inside = product(columns.transpose(), u.as_ref());
    let outside = (&u - product(columns, inside.as_ref())).norm_l2() / u.norm_l2();
    let scaled = Mat::from_fn(inside.nrows(), 1, |k, _| inside[(k, 0)] / singular[k]);
    let weight = 1.0 / product(v.transpose(), product(rows, scaled.as_ref()).as_ref())[(0, 0)];
    (outside.is_finite() && weight.is_finite()).then_some((outside, weight))
}
