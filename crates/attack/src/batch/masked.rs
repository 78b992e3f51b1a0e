//! Gradients behind a mask, completed by their ranks before the batch is taken apart.

use faer::Mat;
use web_time::Instant;

use crate::{
    AttackError, Tensors, class_token_gradient,
    low_rank::{Effort, LowRankError, Pixels, Start, complete},
    model::{PATCH_WEIGHT, POSITION, QKV},
    observed::Observed,
    span::GoOn,
};

/// Error of held-out entries, relative to their size, above which a completion is wrong. A right one is as exact as f32.
pub(super) const WRONG: f64 = 1e-4;

/// Completes the gradients that the attack reads, each as a matrix of the rank that `batch` pictures of S patches leave:
///
/// - [G_E^T; G_pos] `[L + S, D]` has rank B S: it is [X_1^T .. X_B^T; I .. I] [G_1; ..; G_B].
/// - [dW_qkv | db_qkv] `[3 D, D + 1]` has rank B S + 1: all class tokens enter block 0 alike.
/// - [dW1 | db1] `[4 D, D + 1]` and dW2^T `[4 D, D]` have rank B (S + 1).
/// - dW1 of the last block `[4 D, D]` has rank B.
///
/// dW_proj stays as it arrived until its tokens are known, see [`projection`](super::projection).
/// The class row of G_pos stays as it arrived: it lies in none of these spaces, and the attack does not read it. `go_on`
/// may end the work.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, or the mask kept too few of its entries for that rank.
pub(super) fn completed(gradients: &Tensors, batch: usize, go_on: GoOn<'_>) -> Result<Tensors, AttackError> {
    let config = gradients.vit()?;
    let (dim, len, patches, hidden) = (config.dim, config.patch_len(), config.patches(), config.mlp_dim());
    let (of_patches, of_tokens) = (batch * patches, batch * config.tokens());
    let mut done = gradients.clone();
    let mut solve =
        |names: &[&str], known: Observed, rank: usize, start: Start<'_>| by_rank(names, known, rank, start, go_on);

    let patch = transposed(&gradients.observed(PATCH_WEIGHT, dim)?);
    let position = gradients.observed(POSITION, config.tokens())?;
    let embeddings = stacked(&patch, &rows(&position, 1, patches));
    let start = Start { pixels: Some(Pixels::Rows { side: config.patch }), ..Start::default() };
    let embeddings = solve(&[POSITION, PATCH_WEIGHT], embeddings, of_patches, start)?;
    let of_patch = Mat::from_fn(dim, len, |row, column| embeddings[(column, row)]);
    let of_position = Mat::from_fn(config.tokens(), dim, |row, column| match row.checked_sub(1) {
        None => position.values[(0, column)],
        Some(row) => embeddings[(len + row, column)],
    });
    done.replace(PATCH_WEIGHT, &of_patch)?;
    done.replace(POSITION, &of_position)?;

    let last = class_token_gradient(gradients.model())?;
    let with_bias = [
        (QKV, "blocks.0.attn.qkv.bias", 3 * dim, of_patches + 1),
        ("blocks.0.mlp.fc1.weight", "blocks.0.mlp.fc1.bias", hidden, of_tokens),
    ];
    for (weight, bias, outputs, rank) in with_bias {
        let known = beside(&gradients.observed(weight, outputs)?, &gradients.observed(bias, outputs)?);
        let found = solve(&[weight, bias], known, rank, Start::default())?;
        done.replace(weight, &found.subcols(0, dim).to_owned())?;
        done.replace(bias, &found.subcols(dim, 1).to_owned())?;
    }
    let found = solve(&[&last], gradients.observed(&last, hidden)?, batch, Start::default())?;
    done.replace(&last, &found)?;
    let fc2 = "blocks.0.mlp.fc2.weight";
    let found = solve(&[fc2], transposed(&gradients.observed(fc2, dim)?), of_tokens, Start::default())?;
    done.replace(fc2, &found.transpose().to_owned())?;
    Ok(done)
}

/// The entries of a matrix of this rank, where a mask took some.
///
/// # Errors
/// As [`completed`].
pub(super) fn by_rank(
    names: &[&str],
    known: Observed,
    rank: usize,
    start: Start<'_>,
    go_on: GoOn<'_>,
) -> Result<Mat<f64>, AttackError> {
    if known.is_whole() {
        return Ok(known.values);
    }
    let clock = Instant::now();
    let share = 100.0 * known.known() as f64 / known.len() as f64;
    let cannot = |why: String| AttackError::BatchUnsolved {
        reason: format!("cannot tell, because the mask kept {share:.0} % of {}, and {why}", names.join(" and ")),
    };
    let completion = complete(&known, rank, start, Effort::default(), &mut |_, _| go_on());
    let found = completion.map_err(|error| {
        cannot(match error {
            LowRankError::TooFewKnown { ratio } => {
                format!("a matrix of rank {rank} has more unknowns: {ratio:.2} entries for each")
            }
            LowRankError::FullRank { .. } => format!("at rank {rank} its entries say nothing of one another"),
            LowRankError::Unsolvable => "its values are too large or too small to compute with".to_owned(),
        })
    })?;
    if found.is_cut {
        return Err(AttackError::Ended { seconds: clock.elapsed().as_secs_f64() });
    }
    if found.left.col(0).iter().any(|value| value.is_nan()) {
        return Err(cannot(format!("some of its rows keep fewer than {rank} entries")));
    }
    if found.held_out.is_nan() || found.held_out > WRONG {
        return Err(cannot(format!(
            "no matrix of rank {rank} predicts the held-out entries: the error is {:.1e} of their size",
            found.held_out
        )));
    }
    let made = &found.left * found.right.transpose();
    Ok(Mat::from_fn(known.nrows(), known.ncols(), |row, column| {
        if known.is_known(row, column) { known.values[(row, column)] } else { made[(row, column)] }
    }))
}

fn transposed(known: &Observed) -> Observed {
    Observed { values: known.values.transpose().to_owned(), weights: known.weights.transpose().to_owned() }
}

fn rows(known: &Observed, start: usize, count: usize) -> Observed {
    let cut = |from: &Mat<f64>| from.subrows(start, count).to_owned();
    Observed { values: cut(&known.values), weights: cut(&known.weights) }
}

/// Both, one above the other.
fn stacked(above: &Observed, below: &Observed) -> Observed {
    let join = |a: &Mat<f64>, b: &Mat<f64>| {
        Mat::from_fn(a.nrows() + b.nrows(), a.ncols(), |row, column| match row.checked_sub(a.nrows()) {
            None => a[(row, column)],
            Some(row) => b[(row, column)],
        })
    };
    Observed { values: join(&above.values, &below.values), weights: join(&above.weights, &below.weights) }
}

/// Both, side by side.
fn beside(left: &Observed, right: &Observed) -> Observed {
    transposed(&stacked(&transposed(left), &transposed(right)))
}
