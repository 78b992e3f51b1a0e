//! Embedding inversion behind masks, by the rank of what they hide.

use faer::{Mat, MatRef};
use unmask_core::AttackMethod;

use crate::{
    AccumulatedRounds, AttackError, AttackProgress, Evidence, OnProgress, Reconstruction, embedding_inversion,
    least_squares::least_squares,
    low_rank::{Completion, Effort, LowRankError, Start, complete, known_per_unknown},
    observed::Observed,
    patch_prior::likeliest_mixtures,
};

const METHOD: AttackMethod = AttackMethod::Completion;
/// How much a row of G_pos counts while the row space is searched for. A row of G_E^T resembles its neighbours, one of G_pos no other: where it
/// counts like them, a direction of the row space serves it alone, and the search is stuck in one case of three.
const POSITION_IMPORTANCE: f64 = 1e-4;
/// Sizes of the rows of G_pos, zeros where they are hidden, beside the rows of G_E^T, filled in smoothly, in the guesses to start from.
const POSITIONS_IN_GUESS: [f64; 4] = [0.1, 0.0, 0.2, 0.03];
/// Pixels along one side of a patch from which the guess is made: more take time with the cube of their number.
const GUESSED_SIDE: usize = 8;
/// Held-out entries missed by more than this share mean that nothing was found.
const NOT_FOUND: f64 = 1e-2;
/// Below this expected PSNR, in dB, a picture is not to be relied on.
const RELIABLE: f64 = 30.0;

/// Completes Z = [G_E^T; G_pos; b_E] `[L + S + 1, D]` and solves G_pos^T X = G_E with what it then knows.
///
/// For one picture G_E = G_pos^T X and b_E = G_pos^T 1, so that Z = [X^T; I; 1^T] G_pos: a matrix of rank S. It is determined by
/// as many known entries as a matrix of rank S has degrees of freedom, S (L + 1 + D), and in practice by some more, wherever a mask left them. It needs
/// D > S, and nothing else of the model. Differences of weights do as well: several local steps over one picture add gradients
/// with different G_pos and the same X, and the sum is such a product again.
///
/// With nothing hidden it is [`embedding_inversion`].
///
/// `progress` hears of each step, with the share of the kept entries that is unexplained as the objective and no picture, for there
/// is none before the end. It may end the search, which takes minutes where it is stuck on a large model.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, all zero or all hidden; D <= S; counting says that too much is hidden
/// ([`AttackError::TooMuchHidden`]), nothing found predicts what was held out ([`AttackError::NotCompleted`]), or `progress`
/// ended it before that ([`AttackError::CompletionEnded`]). A picture that comes out and may be wrong says so in its notes.
pub fn completion(evidence: &Evidence, progress: OnProgress<'_>) -> Result<Reconstruction, AttackError> {
    let round = AccumulatedRounds::of(evidence)?;
    let config = round.config();
    let (s, l) = (config.patches(), config.patch_len());
    if config.dim <= s {
        return Err(AttackError::TooFewDimensions { method: METHOD, dim: config.dim, unknowns: s + 1 });
    }
    if round.position().is_whole() && round.patch().is_whole() {
        return embedding_inversion(&evidence.gradients);
    }
    let unsolvable = || AttackError::Unsolvable { method: METHOD };
    let hidden = |reason: String| AttackError::TooMuchHidden { method: METHOD, reason };
    let z = stacked(&round);
    let ratio = known_per_unknown(&z, s);
    let few = |ratio: f64| hidden(format!("it needs fewer hidden entries: kept / unknowns is {ratio:.2}"));
    if ratio < 1.0 {
        return Err(few(ratio));
    }
    check_rows(&z, s, l).map_err(hidden)?;
    let guesses = guesses(&round).ok_or_else(unsolvable)?;
    let importance: Vec<f64> =
        (0..z.nrows()).map(|row| if (l..l + s).contains(&row) { POSITION_IMPORTANCE } else { 1.0 }).collect();
    let start = Start { guesses: &guesses, importance: Some(&importance) };
    let effort = Effort::default();
    let iterations = effort.most_steps();
    let mut on_step =
        |iteration, objective| progress(AttackProgress { iteration, iterations, objective, pictures: &[] });
    let completed = complete(&z, s, start, effort, &mut on_step).map_err(|error| match error {
        LowRankError::TooFewKnown { ratio } => few(ratio),
        LowRankError::FullRank { .. } => {
            AttackError::TooFewDimensions { method: METHOD, dim: config.dim, unknowns: s + 1 }
        }
        LowRankError::Unsolvable => unsolvable(),
    })?;
    if completed.held_out.is_nan() || completed.held_out > NOT_FOUND {
        return Err(match completed.is_cut {
            true => AttackError::CompletionEnded { rank: s },
            false => AttackError::NotCompleted { rank: s, held_out: completed.held_out },
        });
    }
    // In the coordinates of V: G_pos^T X = G_E is A_pos^T X = A_E^T.
    let position = completed.left.subrows(l, s);
    let patch = completed.left.subrows(0, l);
    let rounding = evidence.gradients.rounding();
    let (x, spectrum) =
        least_squares(position.transpose(), patch.transpose(), rounding.cutoff()).ok_or_else(unsolvable)?;
    let mut picture = Reconstruction::from_patches(x.as_ref(), config, spectrum);
    let expected = expected_psnr(&round, &completed, x.as_ref()).ok_or_else(unsolvable)?;
    picture.note(format!(
        "{:.1} % of the entries were hidden, and rank {s} gave them away: {ratio:.1} entries were kept for each unknown. Entries held \
         out from the search were predicted to within {:.0e} of their size.",
        100.0 * round.hidden_share(),
        completed.held_out,
    ));
    if completed.is_cut {
        picture.note("The search was ended before it settled: the picture may be wrong.".to_owned());
    } else if !completed.is_settled {
        picture.note("The search did not settle: the picture may be wrong.".to_owned());
    }
    if expected < RELIABLE {
        picture.note(format!(
            "What is left unexplained may reach the picture: it is expected to be right to about {expected:.0} dB only."
        ));
    }
    picture.note_cutoff(spectrum, rounding);
    Ok(picture)
}

/// Z `[L + S + 1, D]`.
fn stacked(round: &AccumulatedRounds) -> Observed {
    let (position, patch, bias) = (round.position(), round.patch(), round.bias());
    let (s, l) = (position.nrows(), patch.ncols());
    let stack = |patch: &Mat<f64>, position: &Mat<f64>, bias: &Mat<f64>| {
        Mat::from_fn(l + s + 1, position.ncols(), |row, column| match row {
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

/// Whether each row can be had from a row space of S dimensions. That of b_E need not.
fn check_rows(z: &Observed, s: usize, l: usize) -> Result<(), String> {
    let known = |row: usize| (0..z.ncols()).filter(|&column| z.is_known(row, column)).count();
    let (least, row) = (0..l + s).map(|row| (known(row), row)).min().unwrap_or_default();
    if least >= s {
        return Ok(());
    }
    let whose = if row < l { format!("pixel {row} of the patches") } else { format!("patch {}", row - l) };
    Err(format!("of the {} gradients of {whose} it needs {s}, and {least} were kept", z.ncols()))
}

/// Matrices `[any, D]` with nearly the row space of Z. G_E^T has its columns filled in smoothly; where G_pos arrived whole it is the
/// row space.
fn guesses(round: &AccumulatedRounds) -> Option<Vec<Mat<f64>>> {
    let (position, patch) = (round.position(), round.patch());
    if position.is_whole() {
        return Some(vec![position.values.clone()]);
    }
    let side = round.config().patch;
    let stride = side.div_ceil(GUESSED_SIDE);
    let mut blocks = Vec::new();
    for offset in 0..stride.min(2) {
        let pixels: Vec<usize> = (0..round.config().patch_len())
            .filter(|l| l % side % stride == offset && l / side % side % stride == offset)
            .collect();
        blocks.push(unit_rows(&likeliest_mixtures(patch, &pixels, side)?));
    }
    let positions = unit_rows(&position.values);
    let made = |weight: &f64| {
        let rows = blocks.iter().map(Mat::nrows).sum::<usize>() + positions.nrows();
        let mut guess = Mat::zeros(rows, positions.ncols());
        let mut at = 0;
        for block in &blocks {
            guess.submatrix_mut(at, 0, block.nrows(), block.ncols()).copy_from(block);
            at += block.nrows();
        }
        guess.submatrix_mut(at, 0, positions.nrows(), positions.ncols()).copy_from(&positions * faer::Scale(*weight));
        guess
    };
    Some(POSITIONS_IN_GUESS.iter().map(made).collect())
}

/// Each row over its norm.
fn unit_rows(matrix: &Mat<f64>) -> Mat<f64> {
    let norms: Vec<f64> = (0..matrix.nrows()).map(|row| matrix.row(row).norm_l2()).collect();
    let scale = |row: usize| if norms[row] > 0.0 { norms[row] } else { 1.0 };
    Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, column| matrix[(row, column)] / scale(row))
}

/// PSNR, in dB, to which errors of the size of the held-out ones leave X `[S, L]` certain.
///
/// With e their size, q the share of entries kept, and r the root mean square of a row: each coefficient of a row of A errs by about e r / sqrt(q),
/// and A_pos^-T carries that of G_E^T, and that of G_pos times X, into X.
fn expected_psnr(round: &AccumulatedRounds, completed: &Completion, x: MatRef<'_, f64>) -> Option<f64> {
    let (s, l, d) = (x.nrows(), x.ncols(), completed.right.nrows() as f64);
    let position = completed.left.subrows(l, s);
    let singular = position.singular_values().ok()?;
    let amplification = singular.iter().map(|value| value.powi(-2)).sum::<f64>() / s as f64;
    let kept = 1.0 - round.hidden_share();
    let size = |row: usize| completed.left.row(row).squared_norm_l2() / d;
    let of_patch = (0..l).map(size).sum::<f64>() / l as f64;
    let of_position = (0..s).map(|i| size(l + i) * x.row(i).squared_norm_l2() / l as f64).sum::<f64>();
    let square = completed.held_out.powi(2) / kept * amplification * (of_patch + of_position);
    // X lies in [-1, 1].
    Some(-10.0 * (square / 4.0).log10())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of zeros stays one.
    #[test]
    fn rows_become_units() {
        let rows = unit_rows(&faer::mat![[3.0, 4.0], [0.0, 0.0]]);
        assert_eq!(rows, faer::mat![[0.6, 0.8], [0.0, 0.0]]);
    }
}
