//! Embedding inversion behind masks, by the rank of what they hide.

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
/// How much a row of G_pos counts while the row space is searched for. A row of G_E^T resembles its neighbours, one of G_pos no other: where it
/// counts like them, a direction of the row space serves it alone, and the search is stuck more often and longer.
const POSITION_IMPORTANCE: f64 = 1e-4;
/// Held-out entries missed by more than this share mean that nothing was found.
const NOT_FOUND: f64 = 1e-2;
/// Variance of an entry over rounds, relative to their mean square, up to which their means are tried as one update's: an
/// error of 1 % of each, at which nothing is found.
const NEARLY_STILL: f64 = NOT_FOUND * NOT_FOUND;
/// Searches for the picture behind several rounds of a model that moved: each takes seconds, and what is not found by then is
/// left to other means.
const SEARCHES_BESIDE: usize = 3;
/// One in so many pixels of a patch may be left to its neighbours.
const FEW_LACKING: usize = 20;
/// So often each of them is filled.
const FILLINGS: usize = 3;
/// Singular values of their equations up to this share of the largest are left out: they would bring in more rounding than the neighbours
/// are wrong by.
const FILLING_CUTOFF: f64 = 1e-4;
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
/// ended it before that ([`AttackError::Ended`]). A picture that comes out and may be wrong says so in its notes.
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

/// The picture behind several masked updates of it.
///
/// Where all were made at the same weights, an entry that any of them kept is known, and they are one update with fewer
/// holes. Otherwise each is a gradient of its own, G_pos,k differs, and the picture is what they have in common: see
/// `complete_beside`. A mask that is the same in every round does no harm there.
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

/// Of one update, or of several at the same weights.
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
    // G_pos that is known has the row space that is searched for. The same is found without it, more slowly.
    let guess = round.position().is_whole().then_some(&round.position().values);
    let pixels = has_neighbours(config).then_some(Pixels::Rows { side: config.patch });
    let start = Start { importance: Some(&importance), guess, pixels, ..Start::default() };
    let completed = known.complete(&z, start, effort, progress)?;
    let is_lacking = |row: usize| completed.left[(row, 0)].is_nan();
    let (lacking, told): (Vec<usize>, Vec<usize>) = (0..l).partition(|&row| is_lacking(row));
    // In the coordinates of V: G_pos^T X = G_E is A_pos^T X = A_E^T.
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
            "Of {} of the {l} colour values of a patch fewer gradients were kept than there are patches; their neighbours tell the rest.",
            lacking.len()
        ));
    }
    picture.note_cutoff(spectrum, rounding);
    Ok(picture)
}

/// Of several updates of one picture at whatever weights. Of each round k, Z_k^T = G_pos,k^T [X | I | 1] with one right factor for
/// all of them: one below the other they have rank S too, and each is a further equation for X. `[K D, L + S + 1]`.
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
    // V = [X^T; I; 1] M: X^T is what V has for the pixels, in units of what it has for the positions.
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

/// Of updates between which the model moved.
fn effort_beside() -> Effort {
    Effort { searches: SEARCHES_BESIDE, ..Effort::default() }
}

/// Whether a patch has pixels that resemble one another.
fn has_neighbours(config: &VitConfig) -> bool {
    config.patch > 1
}

fn unsolvable() -> AttackError {
    AttackError::Unsolvable { method: METHOD }
}

fn too_much_hidden(reason: String) -> AttackError {
    AttackError::TooMuchHidden { method: METHOD, reason }
}

/// What is known of a matrix before it is completed.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Known entries per unknown.
    ratio: f64,
    /// Share of the entries that are not.
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

    /// PSNR, in dB, to which errors of the size of the held-out ones leave X `[S, L]` certain.
    ///
    /// With e their size, q the share of entries kept, and r the root mean square of a row: each coefficient of a row of A errs by
    /// about e r / sqrt(q), and the inverse of `position`, which is G_pos or has its singular values, carries that of G_E^T, and that of
    /// G_pos times X, into X. `mean_squares` is the sum of both r^2.
    fn expected_psnr(self, completed: &Completion, position: MatRef<'_, f64>, mean_squares: f64) -> Option<f64> {
        let singular = position.singular_values().ok()?;
        let amplification = singular.iter().map(|value| value.powi(-2)).sum::<f64>() / self.rank as f64;
        let square = completed.held_out.powi(2) / (1.0 - self.hidden) * amplification * mean_squares;
        // X lies in [-1, 1].
        Some(-10.0 * (square / 4.0).log10())
    }

    /// Says what was done, how it ended, and what to expect.
    fn tell(self, picture: &mut Reconstruction, completed: &Completion, expected: f64) {
        picture.note(format!(
            "{:.1} % of the entries were hidden, and rank {} gave them away: {:.1} entries were kept for each unknown. Entries \
             held out from the search were predicted to within {:.0e} of their size.",
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
                "What is left unexplained may reach the picture: it is expected to be right to about {expected:.0} dB only."
            ));
        }
    }
}

fn too_few(ratio: f64) -> AttackError {
    too_much_hidden(format!("it needs fewer hidden entries: kept / unknowns is {ratio:.2}"))
}

/// Z_k^T `[D, L + S + 1]` of each round, one below the other.
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

/// Whether each row can be had from a row space of S dimensions, but for those of one in [`FEW_LACKING`] pixels. That of b_E need not.
fn check_rows(z: &Observed, s: usize, l: usize) -> Result<(), String> {
    let known = |row: usize| (0..z.ncols()).filter(|&column| z.is_known(row, column)).count();
    let least = |rows: Range<usize>| rows.map(|row| (known(row), row)).min().unwrap_or_default();
    let lacking = (0..l).filter(|&row| known(row) < s).count();
    let (least, whose) = match (least(l..l + s), least(0..l)) {
        ((least, row), _) if least < s => (least, format!("patch {}", row - l)),
        (_, (least, row)) if lacking * FEW_LACKING > l => {
            (least, format!("colour value {row} of the patches, one of {lacking} of {l} that lack some,"))
        }
        _ => return Ok(()),
    };
    Err(format!("of the {} gradients of {whose} it needs {s}, and {least} were kept", z.ncols()))
}

/// X `[S, L]` at pixels of which fewer than S entries were kept: among all that agree with these, what is nearest to what the
/// neighbours make likely. `coefficients` is G_pos `[S, D]`, completed.
fn fill_from_neighbours(
    x: &mut Mat<f64>,
    lacking: &[usize],
    coefficients: &Mat<f64>,
    z: &Observed,
    config: &VitConfig,
) {
    let grid = PixelGrid::new(config.patch, 1);
    // Where neighbours lack as well, they are filled in turn.
    for &pixel in lacking.iter().cycle().take(lacking.len() * FILLINGS) {
        let likely = grid.likeliest_at(&x.transpose().to_owned(), pixel).transpose().to_owned();
        let kept: Vec<usize> = (0..z.ncols()).filter(|&column| z.is_known(pixel, column)).collect();
        x.col_mut(pixel).copy_from(&likely);
        if kept.is_empty() {
            continue;
        }
        // G_pos[:, d].x = G_E[d, pixel] for each that was kept.
        let equations = Mat::from_fn(kept.len(), x.nrows(), |i, s| coefficients[(s, kept[i])]);
        let missed = Mat::from_fn(kept.len(), 1, |i, _| z.values[(pixel, kept[i])] - (equations.row(i) * &likely));
        // Equations that say nothing leave what is likely.
        if let Some((step, _)) = least_squares(equations.as_ref(), missed.as_ref(), FILLING_CUTOFF) {
            x.col_mut(pixel).copy_from(&likely + step.col(0));
        }
    }
}
