//! Embedding inversion behind masks, by the rank of what they hide.

use faer::Mat;
use unmask_core::{AttackMethod, VitConfig};

use crate::{
    AccumulatedRounds, AttackError, Evidence, Reconstruction,
    least_squares::least_squares,
    low_rank::{Completion, Effort, LowRankError, complete},
    observed::Observed,
    patch_prior::likeliest_columns,
};

/// Completes Z = [G_E^T; G_pos; b_E].
pub fn completion(evidence: &Evidence) -> Result<Reconstruction, AttackError> {
    let round = AccumulatedRounds::of(evidence)?;
    let config = round.config();
    let s = config.patches();
    let z = stacked(&round);
    let mut z = z;
    let pw: f64 = std::env::var("PW").ok().and_then(|v| v.parse().ok()).unwrap_or(1.0);
    for row in config.patch_len()..config.patch_len() + s {
        for column in 0..config.dim {
            z.weights[(row, column)] *= pw;
        }
    }
    let guess = guess(&round, config);
    let mode = std::env::var("GUESS").unwrap_or_default();
    let guess = match mode.as_str() {
        "none" => None,
        "e" => Some(guess.submatrix(0, 0, config.patch_len(), config.dim).to_owned()),
        _ => Some(guess),
    };
    let done = complete(&z, s, guess.as_ref().map(|g| g.as_ref()), Effort::default())
        .map_err(|e| AttackError::Key { reason: format!("{e:?}") })?;
    let l = config.patch_len();
    let position = done.left.subrows(l, s).transpose().to_owned();
    let patch = done.left.subrows(0, l).transpose().to_owned();
    let rounding = evidence.gradients.rounding();
    let (x, spectrum) = least_squares(position.as_ref(), patch.as_ref(), rounding.cutoff())
        .ok_or(AttackError::Unsolvable { method: AttackMethod::Embedding })?;
    let mut picture = Reconstruction::from_patches(x.as_ref(), config, spectrum);
    picture.note(format!("held out {:.2e} misfit {:.2e} steps {}", done.held_out, done.misfit, done.steps));
    Ok(picture)
}

/// Z `[L + S + 1, D]`.
fn stacked(round: &AccumulatedRounds) -> Observed {
    let (position, patch, bias) = (round.position(), round.patch(), round.bias());
    let (s, l, d) = (position.nrows(), patch.ncols(), position.ncols());
    let stack = |patch: &Mat<f64>, position: &Mat<f64>, bias: &Mat<f64>| {
        Mat::from_fn(l + s + 1, d, |row, column| match row {
            row if row < l => patch[(column, row)],
            row if row < l + s => position[(row - l, column)],
            _ => bias[(column, 0)],
        })
    };
    Observed {
        values: stack(&patch.values, &position.values, &bias.values),
        weights: stack(&patch.weights, &position.weights, &bias.weights),
    }
}

fn guess(round: &AccumulatedRounds, config: &VitConfig) -> Mat<f64> {
    let (position, patch) = (round.position(), round.patch());
    let filled = likeliest_columns(patch, config.patch);
    let share = position.known() as f64 / position.len() as f64;
    let l = config.patch_len();
    let norm = |row: usize| {
        let m = if row < l {
            filled.row(row).squared_norm_l2()
        } else {
            position.values.row(row - l).squared_norm_l2() / share
        };
        if m > 0.0 { m.sqrt() } else { 1.0 }
    };
    let norms: Vec<f64> = (0..l + position.nrows()).map(norm).collect();
    let w: f64 = std::env::var("POSW").ok().and_then(|v| v.parse().ok()).unwrap_or(0.3);
    Mat::from_fn(l + position.nrows(), config.dim, |row, column| {
        let value = if row < l { filled[(row, column)] } else { w * position.values[(row - l, column)] / share };
        value / norms[row]
    })
}
