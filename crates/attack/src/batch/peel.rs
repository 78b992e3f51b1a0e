//! Certain pictures taken out of the gradient itself.

use faer::{Mat, MatRef};

use super::{
    GradientOf,
    evidence::{Judged, on_grid, settled},
    levels::Levels,
};
use crate::{
    AttackError, Evidence, Tensors, class_token_gradient,
    model::HEAD_BIAS,
    small_matrices::product,
    span::{GoOn, token},
};

/// Largest part of a picture's trace outside the last block's gradient, relative to it, with the right label.
const OUTSIDE: f64 = 1e-2;
/// Most labels that are tried for a picture, each with a pass through the model.
const MOST_LABELS: usize = 20;
/// Values further than this from their whole grey level might belong to the next one.
const DOUBTFUL: f64 = 0.25;
/// Most such values of a picture that are tried.
const MOST_DOUBTFUL: usize = 60;
/// Largest part of a class token outside the last block's, in units of the gradient's [cutoff](crate::Rounding::cutoff).
const ROW_LIMIT: f64 = 32.0;
/// Distance at which the inverse of a picture's weight is a whole number.
const WHOLE: f64 = 1e-3;
/// Ratio of that part with another grey level to that with the one chosen, for every doubtful value.
const CLEAR: f64 = 3.0;

/// The singular values and vectors of the last block's dl/d(fc1.weight), which only class tokens reach.
struct ClassTokens {
    name: String,
    hidden: usize,
    columns: Mat<f64>,
    singular: Vec<f64>,
    rows: Mat<f64>,
    cutoff: f64,
}

impl ClassTokens {
    /// Those of so many pictures, fewer if some are too weak. `None` if the decomposition fails.
    fn read(gradients: &Tensors, pictures: usize) -> Result<Option<Self>, AttackError> {
        let (name, hidden) = (class_token_gradient(gradients.model())?, gradients.vit()?.mlp_dim());
        let Ok(svd) = gradients.matrix(&name, hidden)?.thin_svd() else { return Ok(None) };
        let cutoff = gradients.rounding().cutoff();
        let all = svd.S().column_vector();
        let rank = all.iter().take(pictures).take_while(|&&value| value > cutoff * all[0]).count();
        let (columns, rows) = (svd.U().subcols(0, rank).to_owned(), svd.V().subcols(0, rank).to_owned());
        Ok(Some(Self { columns, singular: all.iter().copied().take(rank).collect(), rows, name, hidden, cutoff }))
    }

    /// How far a picture's class token lies outside those of the batch, relative to it. Any label does.
    fn outside_rows(&self, own: &Tensors) -> Result<Option<f64>, AttackError> {
        let token = token(own.matrix(&self.name, self.hidden)?);
        Ok(token
            .map(|v| (&v - product(self.rows.as_ref(), product(self.rows.transpose(), v.as_ref()).as_ref())).norm_l2()))
    }
}

/// Chooses the whole grey levels of a picture that fits but for a few values between two levels: those with which its
/// class token in the last block, which all of the model saw, lies among those of the batch. `None` if that leaves a
/// doubt about any value.
///
/// # Errors
/// Those of `model`, or a tensor is missing.
pub(super) fn settle(
    (left, pictures): (&Evidence, usize),
    one: &Judged,
    levels: &Levels,
    model: &mut GradientOf<'_>,
    go_on: GoOn<'_>,
) -> Result<Option<Judged>, AttackError> {
    let config = left.gradients.vit()?;
    let Some(tokens) = ClassTokens::read(&left.gradients, pictures)? else { return Ok(None) };
    let (mut patches, mut doubtful) = on_grid(levels, &one.patches, DOUBTFUL);
    if doubtful.len() > MOST_DOUBTFUL {
        return Ok(None);
    }
    let mut outside = |patches: &Mat<f64>| -> Result<f64, AttackError> {
        // The label that the model is sure of leaves no gradient.
        for label in 0..config.classes.min(2) {
            let own = model(label, &settled(&config, one, patches).picture.image)?;
            if let Some(outside) = tokens.outside_rows(&own)? {
                return Ok(outside);
            }
        }
        Ok(f64::INFINITY)
    };
    let limit = ROW_LIMIT * tokens.cutoff;
    let mut least = outside(&patches)?;
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for value in &mut doubtful {
            if go_on().is_break() {
                return Ok(None);
            }
            let (l, s, other) = *value;
            let before = std::mem::replace(&mut patches[(l, s)], other);
            let there = outside(&patches)?;
            if there < least {
                (least, is_changed) = (there, true);
                value.2 = before;
            } else {
                patches[(l, s)] = before;
            }
        }
    }
    for &(l, s, other) in doubtful.iter().filter(|_| least < limit) {
        if go_on().is_break() {
            return Ok(None);
        }
        let before = std::mem::replace(&mut patches[(l, s)], other);
        let is_clear = outside(&patches)? > CLEAR * least.max(tokens.cutoff);
        patches[(l, s)] = before;
        if !is_clear {
            return Ok(None);
        }
    }
    Ok((least < limit).then(|| settled(&config, one, &patches)))
}

/// Reads the label of each picture and its weight in the update, where they can be told.
///
/// In the last block only the class tokens reach the MLP, so that dW1 = sum_b w_b u_b v_b^T, where u_b v_b^T is the
/// gradient of picture b alone, which has rank one, and w_b is 1 / B. With the right label u_b lies in the column space, and
/// w_b = 1 / (v_b^T dW1^+ u_b), which holds for a picture that is in the batch twice as well.
///
/// # Errors
/// Those of `model`, or a tensor is missing.
pub(super) fn identify(
    (left, pictures): (&Evidence, usize),
    found: &mut [Judged],
    model: &mut GradientOf<'_>,
    go_on: GoOn<'_>,
) -> Result<(), AttackError> {
    let labels = likely_labels(left)?;
    let Some(tokens) = ClassTokens::read(&left.gradients, pictures)? else { return Ok(()) };
    for one in found {
        let mut best: Option<(f64, f64, usize)> = None;
        for &label in &labels {
            if go_on().is_break() {
                return Ok(());
            }
            let own = model(label, &one.picture.image)?;
            if let Some((outside, weight)) = trace(own.matrix(&tokens.name, tokens.hidden)?, &tokens)
                && best.is_none_or(|(least, ..)| outside < least)
            {
                best = Some((outside, weight, label));
            }
        }
        if let Some((_, weight, label)) = best.filter(|(outside, ..)| *outside < OUTSIDE) {
            one.picture.label = Some(label);
            one.weight = weight;
        }
    }
    Ok(())
}

/// The labels to try: all of few, or those whose logits the update lowers least, which are those of the batch unless the
/// model is sure of them.
fn likely_labels(left: &Evidence) -> Result<Vec<usize>, AttackError> {
    let classes = left.gradients.vit()?.classes;
    let mut labels: Vec<usize> = (0..classes).collect();
    if let Some(bias) = left.gradients.values(HEAD_BIAS).filter(|bias| bias.len() == classes) {
        labels.sort_by(|&a, &b| bias[a].total_cmp(&bias[b]));
        labels.truncate(MOST_LABELS);
    }
    Ok(labels)
}

/// Subtracts the gradients of certain pictures. Returns whether all of them could be: the batch is smaller by their number.
///
/// # Errors
/// Those of `model`, or a tensor is missing.
pub(super) fn peel(left: &mut Evidence, certain: &[Judged], model: &mut GradientOf<'_>) -> Result<bool, AttackError> {
    let mut peeled = left.gradients.clone();
    for one in certain {
        let Some(label) = one.picture.label else { return Ok(false) };
        peeled.subtract(&model(label, &one.picture.image)?, one.weight);
    }
    left.gradients = peeled;
    Ok(true)
}

/// How far the column space of a picture's gradient lies outside that of the batch, and the picture's weight in it.
fn trace(own: MatRef<'_, f64>, tokens: &ClassTokens) -> Option<(f64, f64)> {
    let v = token(own)?;
    let u = product(own, v.as_ref());
    let inside = product(tokens.columns.transpose(), u.as_ref());
    let outside = (&u - product(tokens.columns.as_ref(), inside.as_ref())).norm_l2() / u.norm_l2();
    let scaled = Mat::from_fn(inside.nrows(), 1, |k, _| inside[(k, 0)] / tokens.singular[k]);
    let inverse = product(v.transpose(), product(tokens.rows.as_ref(), scaled.as_ref()).as_ref())[(0, 0)];
    // A mean has the weight 1 / B, which is exact, and this is not.
    let weight = 1.0 / if (inverse - inverse.round()).abs() < WHOLE { inverse.round() } else { inverse };
    (outside.is_finite() && weight.is_finite()).then_some((outside, weight))
}
