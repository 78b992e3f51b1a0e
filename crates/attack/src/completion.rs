//! Embedding inversion of masked updates by low-rank completion.

use std::{ops::Range, sync::Arc};

use faer::{Mat, MatRef};
use unmask_core::{AttackMethod, VitConfig};
use web_time::Instant;

use crate::{
    AccumulatedRounds, AttackError, AttackProgress, Ending, Evidence, OnProgress, Reconstruction, Rounding,
    accumulate::Round,
    embedding_inversion,
    least_squares::least_squares,
    low_rank::{Completion, Effort, LowRankError, Pixels, Start, complete, known_per_unknown},
    observed::Observed,
    patch_prior::PixelGrid,
};

const METHOD: AttackMethod = AttackMethod::Completion;
/// Importance of a row of G_pos in the search for the row space. A row of G_E^T resembles its neighbours, but a row of
/// G_pos resembles no other. With full weight it would claim a direction of the row space for itself, and the search
/// would get stuck more often and for longer.
const POSITION_IMPORTANCE: f64 = 1e-4;
/// Relative error of held-out entries above which nothing was found.
const NOT_FOUND: f64 = 1e-2;
/// Largest drift at which the rounds' means are tried as one update. It corresponds to an error of 1 % per entry, at
/// which completion finds nothing.
const NEARLY_STILL: f64 = NOT_FOUND * NOT_FOUND;
/// Searches over several rounds of a model that moved. Each takes seconds, and other methods follow if these fail.
const SEARCHES_BESIDE: usize = 3;
/// At most one in this many pixels of a patch may be filled from its neighbours.
const FEW_LACKING: usize = 20;
/// Passes over the pixels to fill.
const FILLINGS: usize = 3;
/// Smallest singular value of a filled pixel's equations, relative to the largest. Smaller ones would add more rounding
/// error than the neighbours' estimate has.
const FILLING_CUTOFF: f64 = 1e-4;
/// Expected PSNR, in dB, below which a picture is not reliable.
const RELIABLE: f64 = 30.0;

/// Completes Z = [G_E^T; G_pos; b_E] `[L + S + 1, D]`, then solves G_pos^T X = G_E.
///
/// For one picture G_E = G_pos^T X and b_E = G_pos^T 1, so Z = [X^T; I; 1^T] G_pos has rank S. As many known entries as
/// a matrix of rank S has degrees of freedom, S (L + 1 + D), determine it. In practice it takes somewhat more, at any
/// positions. The attack needs D > S and nothing else of the model. It also works on differences of weights: several
/// local steps over one picture add gradients with different G_pos and the same X, and their sum has the same form.
///
/// With nothing hidden it is [`embedding_inversion`].
///
/// `progress` is called at each step, with the unexplained share of the kept entries as the objective and no picture,
/// because there is none until the end. It may end the search, which can be stuck for minutes on a large model.
///
/// # Errors
/// [`AttackError`]: a tensor is missing, all zero or all hidden; D <= S; too few entries are known
/// ([`AttackError::TooMuchHidden`]); no solution predicts the held-out entries ([`AttackError::NotCompleted`]); or
/// `progress` ended the search before that ([`AttackError::Ended`]). The notes say if the returned picture may be
/// wrong.
pub fn completion(evidence: &Evidence, progress: OnProgress<'_>) -> Result<Reconstruction, AttackError> {
    let round = AccumulatedRounds::of(evidence)?;
    let config = round.config();
    if config.dim <= config.patches() {
        return Err(AttackError::TooFewDimensions { method: METHOD, dim: config.dim, unknowns: config.patches() + 1 });
    }
    if round.position().is_whole() && round.patch().is_whole() {
        return embedding_inversion(&evidence.gradients);
    }
    let rounding = evidence.gradients.rounding();
    complete_one(&round, rounding, Effort::default(), progress)
}

/// Recovers one picture from several masked updates of it.
///
/// At equal weights, any round that kept an entry makes it known, and the rounds form one update with fewer holes. At
/// different weights each round has its own G_pos,k, and only the picture is common to all: see `complete_beside`.
/// There the mask may even be the same in every round.
///
/// # Errors
/// As [`completion`].
pub fn completion_of_rounds(
    rounds: &AccumulatedRounds,
    rounding: Rounding,
    progress: OnProgress<'_>,
) -> Result<Reconstruction, AttackError> {
    let config = rounds.config();
    let is_still = rounds.drift() == 0.0 && !rounds.has_drifted();
    if rounds.kept_apart() < 2 || is_still {
        if config.dim <= config.patches() {
            let (dim, unknowns) = (config.dim, config.patches() + 1);
            return Err(AttackError::TooFewDimensions { method: METHOD, dim, unknowns });
        }
        return complete_one(rounds, rounding, Effort::default(), progress);
    }
    match complete_beside(config, rounds.apart(), progress) {
        Err(AttackError::TooMuchHidden { .. } | AttackError::NotCompleted { .. })
            if config.dim > config.patches() && rounds.drift() < NEARLY_STILL =>
        {
            complete_one(rounds, rounding, effort_beside(), progress)
        }
        found => found,
    }
}

/// Completes one update, or several at the same weights.
fn complete_one(
    round: &AccumulatedRounds,
    rounding: Rounding,
    effort: Effort,
    progress: OnProgress<'_>,
) -> Result<Reconstruction, AttackError> {
    let config = round.config();
    let (s, l) = (config.patches(), config.patch_len());
    let z = stacked(round);
    let known = Known { ratio: known_per_unknown(&z, s), hidden: round.hidden_share(), rank: s };
    known.check_count()?;
    check_rows(&z, s, l).map_err(too_much_hidden)?;
    let importance: Vec<f64> =
        (0..z.nrows()).map(|row| if (l..l + s).contains(&row) { POSITION_IMPORTANCE } else { 1.0 }).collect();
    // A known G_pos already has the row space. The search finds the same without it, but more slowly.
    let guess = round.position().is_whole().then_some(&round.position().values);
    let pixels = has_neighbours(config).then_some(Pixels::Rows { side: config.patch });
    let start = Start { importance: Some(&importance), guess, pixels, ..Start::default() };
    let completed = known.complete(&z, start, effort, progress)?;
    let is_lacking = |row: usize| completed.left[(row, 0)].is_nan();
    let (lacking, told): (Vec<usize>, Vec<usize>) = (0..l).partition(|&row| is_lacking(row));
    // In the coordinates of V, G_pos^T X = G_E is A_pos^T X = A_E^T.
    let position = completed.left.subrows(l, s);
    let patch = Mat::from_fn(s, told.len(), |k, i| completed.left[(told[i], k)]);
    let (of_told, spectrum) =
        least_squares(position.transpose(), patch.as_ref(), rounding.cutoff()).ok_or_else(unsolvable)?;
    let mut x = Mat::zeros(s, l);
    told.iter().zip(of_told.col_iter()).for_each(|(&pixel, values)| x.col_mut(pixel).copy_from(values));
    let coefficients = position * completed.right.transpose();
    fill_from_neighbours(&mut x, &lacking, &coefficients, &z, config);
    let mut picture = Reconstruction::from_patches(x.as_ref(), config, spectrum);
    let mean_square = |row: usize| completed.left.row(row).squared_norm_l2() / config.dim as f64;
    let of_patch = told.iter().map(|&row| mean_square(row)).sum::<f64>() / told.len() as f64;
    let of_position = (0..s).map(|i| mean_square(l + i) * x.row(i).squared_norm_l2() / l as f64).sum::<f64>();
    let expected = known.expected_psnr(&completed, position, of_patch + of_position).ok_or_else(unsolvable)?;
    known.tell(&mut picture, &completed, expected);
    if !lacking.is_empty() {
        picture.note(format!(
            "{} of the {l} colour values of a patch have fewer kept gradients than there are patches and \
             were filled from their neighbours.",
            lacking.len()
        ));
    }
    picture.note_cutoff(spectrum, rounding);
    Ok(picture)
}

/// Completes several updates of one picture at any weights. Round k has Z_k^T = G_pos,k^T [X | I | 1], and the right
/// factor is the same for all rounds. Stacked as `[K D, L + S + 1]` they still have rank S, and each round adds
/// equations for X.
fn complete_beside(
    config: &VitConfig,
    rounds: &[Arc<Round>],
    progress: OnProgress<'_>,
) -> Result<Reconstruction, AttackError> {
    let (s, l) = (config.patches(), config.patch_len());
    let z = beside(config, rounds);
    let hidden = 1.0 - z.known() as f64 / z.len() as f64;
    let known = Known { ratio: known_per_unknown(&z, s), hidden, rank: s };
    known.check_count()?;
    let importance: Vec<f64> =
        (0..z.ncols()).map(|column| if (l..l + s).contains(&column) { POSITION_IMPORTANCE } else { 1.0 }).collect();
    let pixels = has_neighbours(config).then_some(Pixels::Columns { side: config.patch });
    let start = Start { column_importance: Some(&importance), pixels, ..Start::default() };
    let completed = known.complete(&z, start, effort_beside(), progress)?;
    // V = [X^T; I; 1^T] M, so the rows of V for the positions are M and those for the pixels are X^T M.
    let (pixels, units) = (completed.right.subrows(0, l), completed.right.subrows(l, s));
    let (x, spectrum) =
        least_squares(units.transpose(), pixels.transpose(), Rounding::F64.cutoff()).ok_or_else(unsolvable)?;
    let mut picture = Reconstruction::from_patches(x.as_ref(), config, spectrum);
    let rows: Vec<usize> = (0..z.nrows()).filter(|&row| completed.left[(row, 0)].is_finite()).collect();
    let left = Mat::from_fn(rows.len(), s, |i, k| completed.left[(rows[i], k)]);
    let mean_square = |column: usize| {
        let made = &left * completed.right.row(column).transpose();
        made.squared_norm_l2() / rows.len() as f64
    };
    let of_patch = (0..l).map(mean_square).sum::<f64>() / l as f64;
    let of_position = (0..s).map(|i| mean_square(l + i) * x.row(i).squared_norm_l2() / l as f64).sum::<f64>();
    let position = units * left.transpose();
    let expected = known.expected_psnr(&completed, position.as_ref(), of_patch + of_position).ok_or_else(unsolvable)?;
    known.tell(&mut picture, &completed, expected);
    Ok(picture)
}

/// Effort for updates between which the model moved.
fn effort_beside() -> Effort {
    Effort { searches: SEARCHES_BESIDE, ..Effort::default() }
}

/// Whether a patch has neighbouring pixels that resemble one another.
fn has_neighbours(config: &VitConfig) -> bool {
    config.patch > 1
}

fn unsolvable() -> AttackError {
    AttackError::Unsolvable { method: METHOD }
}

fn too_much_hidden(reason: String) -> AttackError {
    AttackError::TooMuchHidden { method: METHOD, reason }
}

/// How much of a matrix is known before it is completed.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Known entries per unknown.
    ratio: f64,
    /// Share of entries that are hidden.
    hidden: f64,
    rank: usize,
}

impl Known {
    fn check_count(self) -> Result<(), AttackError> {
        match self.ratio < 1.0 {
            true => Err(too_few(self.ratio)),
            false => Ok(()),
        }
    }

    fn complete(
        self,
        z: &Observed,
        start: Start<'_>,
        effort: Effort,
        progress: OnProgress<'_>,
    ) -> Result<Completion, AttackError> {
        let clock = Instant::now();
        let iterations = effort.most_steps();
        let mut on_step =
            |iteration, objective| progress(AttackProgress { iteration, iterations, objective, pictures: &[] });
        let completed = complete(z, self.rank, start, effort, &mut on_step).map_err(|error| match error {
            LowRankError::TooFewKnown { ratio } => too_few(ratio),
            LowRankError::FullRank { rank, columns, .. } => {
                AttackError::TooFewDimensions { method: METHOD, dim: columns, unknowns: rank + 1 }
            }
            LowRankError::Unsolvable => unsolvable(),
        })?;
        if completed.held_out.is_nan() || completed.held_out > NOT_FOUND {
            return Err(match completed.is_cut {
                true => AttackError::Ended { seconds: clock.elapsed().as_secs_f64() },
                false => AttackError::NotCompleted { rank: self.rank, held_out: completed.held_out },
            });
        }
        Ok(completed)
    }

    /// Expected PSNR of X `[S, L]`, in dB, if all errors are as large as those of the held-out entries.
    ///
    /// With e their relative size, q the share of entries kept and r the root mean square of a row, each coefficient in
    /// a row of A errs by about e r / sqrt(q). The inverse of `position`, which is G_pos or has the same singular
    /// values, carries the errors of G_E^T and of G_pos times X into X. `mean_squares` is the sum of both r^2.
    fn expected_psnr(self, completed: &Completion, position: MatRef<'_, f64>, mean_squares: f64) -> Option<f64> {
        let singular = position.singular_values().ok()?;
        let amplification = singular.iter().map(|value| value.powi(-2)).sum::<f64>() / self.rank as f64;
        let square = completed.held_out.powi(2) / (1.0 - self.hidden) * amplification * mean_squares;
        // X lies in [-1, 1].
        Some(-10.0 * (square / 4.0).log10())
    }

    /// Notes what was done, how it ended, and what to expect.
    fn tell(self, picture: &mut Reconstruction, completed: &Completion, expected: f64) {
        picture.note(format!(
            "{:.1} % of the entries were hidden, and rank {} revealed them: {:.1} entries were kept for each unknown. \
             Entries held out from the search were predicted to within {:.0e} of their size.",
            100.0 * self.hidden,
            self.rank,
            self.ratio,
            completed.held_out,
        ));
        picture.ending = match (completed.is_cut, completed.is_settled) {
            (true, _) => Ending::Ended,
            (false, false) => Ending::Unsettled,
            (false, true) => Ending::Settled,
        };
        if expected < RELIABLE {
            picture.note(format!(
                "The remaining error may reach the picture, whose expected accuracy is only {expected:.0} dB."
            ));
        }
    }
}

fn too_few(ratio: f64) -> AttackError {
    too_much_hidden(format!("it needs fewer hidden entries: kept / unknowns is {ratio:.2}"))
}

/// Stacks Z_k^T `[D, L + S + 1]` of all rounds.
fn beside(config: &VitConfig, rounds: &[Arc<Round>]) -> Observed {
    let (d, s, l) = (config.dim, config.patches(), config.patch_len());
    let stack = |of: fn(&Observed) -> &Mat<f64>| {
        Mat::from_fn(rounds.len() * d, l + s + 1, |row, column| {
            let (round, row) = (&rounds[row / d], row % d);
            match column {
                column if column < l => of(&round.patch)[(row, column)],
                column if column < l + s => of(&round.position)[(column - l, row)],
                _ => of(&round.bias)[(row, 0)],
            }
        })
    };
    Observed { values: stack(|observed| &observed.values), weights: stack(|observed| &observed.weights) }
}

/// Builds Z `[L + S + 1, D]`.
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

/// Checks that every row has the S entries that its coefficients need. The row of b_E is exempt, and so are pixels up
/// to one in [`FEW_LACKING`].
fn check_rows(z: &Observed, s: usize, l: usize) -> Result<(), String> {
    let known = |row: usize| (0..z.ncols()).filter(|&column| z.is_known(row, column)).count();
    let least = |rows: Range<usize>| rows.map(|row| (known(row), row)).min().unwrap_or_default();
    let lacking = (0..l).filter(|&row| known(row) < s).count();
    let (least, whose) = match (least(l..l + s), least(0..l)) {
        ((least, row), _) if least < s => (least, format!("patch {}", row - l)),
        (_, (least, row)) if lacking * FEW_LACKING > l => {
            (least, format!("colour value {row} of the patches (one of {lacking} in {l} with too few)"))
        }
        _ => return Ok(()),
    };
    Err(format!("it needs {s} of the {} gradients of {whose}, but {least} were kept", z.ncols()))
}

/// Fills X `[S, L]` at the pixels with fewer than S kept entries: of all values that agree with the kept entries, those
/// nearest to the neighbours' estimate. `coefficients` is the completed G_pos `[S, D]`.
fn fill_from_neighbours(
    x: &mut Mat<f64>,
    lacking: &[usize],
    coefficients: &Mat<f64>,
    z: &Observed,
    config: &VitConfig,
) {
    let grid = PixelGrid::new(config.patch, 1);
    // Neighbours may be missing too, so several passes fill them by turns.
    for &pixel in lacking.iter().cycle().take(lacking.len() * FILLINGS) {
        let likely = grid.likeliest_at(&x.transpose().to_owned(), pixel).transpose().to_owned();
        let kept: Vec<usize> = (0..z.ncols()).filter(|&column| z.is_known(pixel, column)).collect();
        x.col_mut(pixel).copy_from(&likely);
        if kept.is_empty() {
            continue;
        }
        // G_pos[:, d].x = G_E[d, pixel] for each kept entry.
        let equations = Mat::from_fn(kept.len(), x.nrows(), |i, s| coefficients[(s, kept[i])]);
        let missed = Mat::from_fn(kept.len(), 1, |i, _| z.values[(pixel, kept[i])] - (equations.row(i) * &likely));
        // Equations without information keep the estimate.
        if let Some((step, _)) = least_squares(equations.as_ref(), missed.as_ref(), FILLING_CUTOFF) {
            x.col_mut(pixel).copy_from(&likely + step.col(0));
        }
    }
}
