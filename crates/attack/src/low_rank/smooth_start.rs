//! The start of a search if rows or columns of the matrix are the pixels of a patch.

use std::{borrow::Cow, ops::ControlFlow};

use faer::Mat;
use rand_chacha::ChaCha8Rng;

use super::{Pixels, Point, Problem};
use crate::{patch_prior::PixelGrid, smooth_factors::SmoothFactors};

/// Stride between the pixels of a coarse start, in either direction.
const COARSE: usize = 2;
/// Equations for each unknown that a coarse start needs.
const COARSE_EQUATIONS: usize = 2;
/// Entries for each unknown of a column that a coarse start needs.
const COARSE_ENTRIES: usize = 2;
/// Importance of lines that are not pixels. If they count as much as pixels, the first search fails on three more
/// pictures in twenty. The search that follows gives them less importance still, as set by the caller.
const OTHERS: f64 = 0.05;

/// The likeliest V of a photograph given the known entries.
pub(super) struct SmoothStart<'a> {
    /// The matrix with pixels as its first rows, transposed if they are columns.
    lines: Cow<'a, Problem>,
    /// Original rows of the columns of a transposed matrix.
    rows: Option<Vec<usize>>,
    grid: PixelGrid,
    factors: SmoothFactors,
}

impl<'a> SmoothStart<'a> {
    /// Starts from a random V, with every second pixel if these are enough.
    pub(super) fn new(matrix: &'a Problem, pixels: Pixels, rng: &mut ChaCha8Rng) -> Self {
        let (lines, rows, side) = match pixels {
            Pixels::Rows { side } => (Cow::Borrowed(matrix), None, side),
            Pixels::Columns { side } => {
                let rows = matrix.enough_rows();
                (Cow::Owned(matrix.transposed(&rows)), Some(rows), side)
            }
        };
        let coarse = PixelGrid::new(side, COARSE);
        let is_enough = lines.is_determined_by(&lines.on(coarse), COARSE_EQUATIONS, COARSE_ENTRIES);
        let grid = if is_enough { coarse } else { PixelGrid::new(side, 1) };
        let factors = lines.smooth_factors(grid, rng);
        Self { lines, rows, grid, factors }
    }

    /// Restarts with every pixel. Returns whether the grid was coarse before.
    pub(super) fn refine(&mut self, rng: &mut ChaCha8Rng) -> bool {
        let whole = self.grid.whole();
        let is_coarse = self.grid != whole;
        if is_coarse {
            self.grid = whole;
            self.factors = self.lines.smooth_factors(whole, rng);
        }
        is_coarse
    }

    /// Continues from where a search with [`rows`](Self::rows) got stuck.
    pub(super) fn resume(&mut self, stuck: &Point) {
        match self.rows {
            Some(_) => self.factors.resume(&stuck.left.qr().compute_thin_Q()),
            None => self.factors.resume(&stuck.right),
        }
    }

    /// Rows of the original matrix for the search that follows.
    pub(super) fn rows(&self) -> Vec<usize> {
        self.rows.clone().unwrap_or_else(|| self.lines.on(self.grid))
    }

    /// Takes at most `steps` more steps and returns an orthonormal V `[D, r]`. `on_step` receives the error of an entry
    /// before each step and may end the work.
    pub(super) fn improve(
        &mut self,
        steps: usize,
        on_step: &mut dyn FnMut(usize, f64) -> ControlFlow<()>,
    ) -> Option<(Mat<f64>, ControlFlow<()>)> {
        let flow = self.factors.improve(steps, on_step)?;
        let basis = self.factors.basis();
        let right = if self.rows.is_some() { self.lines.at(basis)?.left.qr().compute_thin_Q() } else { basis };
        Some((right, flow))
    }
}

impl Problem {
    fn transposed(&self, rows: &[usize]) -> Self {
        let of = |matrix: &Mat<f64>| Mat::from_fn(self.columns.len(), rows.len(), |j, i| matrix[(rows[i], j)]);
        Self {
            rank: self.rank,
            values: of(&self.values),
            weights: of(&self.weights),
            rows: self.columns.clone(),
            columns: rows.iter().map(|&row| self.rows[row]).collect(),
        }
    }

    /// The pixels on a grid, and all rows that are not pixels.
    fn on(&self, grid: PixelGrid) -> Vec<usize> {
        grid.pixels().chain(grid.whole().len()..self.rows.len()).collect()
    }

    /// Factors for the rows of [`on`](Self::on). All pixels share one scale, so that neighbours stay similar.
    fn smooth_factors(&self, grid: PixelGrid, rng: &mut ChaCha8Rng) -> SmoothFactors {
        let (rows, pixels) = (self.on(grid), grid.whole().len());
        let square = self.rows[..pixels].iter().map(|scale| scale * scale).sum::<f64>();
        let mean = (square / pixels as f64).sqrt();
        let scale = |row: usize| if row < pixels { self.rows[row] / mean } else { 1.0 };
        let importance = |row: usize| if row < pixels { 1.0 } else { OTHERS };
        let of = |value: &dyn Fn(usize, usize) -> f64| {
            Mat::from_fn(rows.len(), self.columns.len(), |i, j| value(rows[i], j))
        };
        let values = of(&|row, column| scale(row) * self.values[(row, column)]);
        let weights = of(&|row, column| importance(row) * self.weights[(row, column)]);
        SmoothFactors::new(&values, weights, grid, self.rank, rng)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::{
        low_rank::{Completion, Effort, Start, complete},
        observed::Observed,
    };

    const SIDE: usize = 6;
    const RANK: usize = 8;
    const COLUMNS: usize = 60;
    /// Rows that are not pixels.
    const OTHER_ROWS: usize = 20;

    /// A masked matrix whose first rows are pixels: waves over a patch, with each direction `fainter` times fainter
    /// than the last.
    fn planted(seed: u64, share: f64, fainter: f64) -> Observed {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut draw = |rows, columns| Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0));
        let (right, waves, others) = (draw(COLUMNS, RANK), draw(4, RANK), draw(OTHER_ROWS, RANK));
        let places: Vec<usize> = PixelGrid::new(SIDE, 1).pixels().collect();
        let left = Mat::from_fn(places.len() + OTHER_ROWS, RANK, |row, k| {
            let value = match places.get(row) {
                Some(place) => {
                    let (channel, y, x) = (place / (SIDE * SIDE), place / SIDE % SIDE, place % SIDE);
                    let phase = waves[(0, k)] * y as f64 + waves[(1, k)] * x as f64 + 3.0 * waves[(2, k)];
                    (phase + 0.2 * waves[(3, k)] * channel as f64).cos()
                }
                None => others[(row - places.len(), k)],
            };
            value * fainter.powi(-(k as i32))
        });
        let z = &left * right.transpose();
        let weights = Mat::from_fn(z.nrows(), COLUMNS, |_, _| f64::from(u8::from(rng.random_bool(share))));
        let values = Mat::from_fn(z.nrows(), COLUMNS, |i, j| z[(i, j)] * weights[(i, j)]);
        Observed { values, weights }
    }

    fn completed(known: &Observed, pixels: Option<Pixels>) -> Completion {
        let effort = Effort { searches: 2, ..Effort::default() };
        let start = Start { pixels, ..Start::default() };
        complete(known, RANK, start, effort, &mut |_, _| ControlFlow::Continue(())).unwrap()
    }

    /// A search that knows about the pixels succeeds in both orientations. A search that does not gets stuck.
    #[test]
    fn pixels_are_found_either_way() {
        let mut stuck = 0;
        for seed in 0..6 {
            let known = planted(seed, 0.3, 2.0);
            let down = completed(&known, Some(Pixels::Rows { side: SIDE }));
            assert!(down.is_settled && down.held_out < 1e-8, "seed {seed}: {:e}", down.held_out);
            let turn = |matrix: &Mat<f64>| matrix.transpose().to_owned();
            let turned = Observed { values: turn(&known.values), weights: turn(&known.weights) };
            let across = completed(&turned, Some(Pixels::Columns { side: SIDE }));
            assert!(across.is_settled && across.held_out < 1e-8, "seed {seed}: {:e}", across.held_out);
            stuck += usize::from(completed(&known, None).held_out > 1e-2);
        }
        assert!(stuck > 3, "{stuck} of 6");
    }

    /// The same error twice is not noise if a faint direction is missing: the fitted entries have a far smaller error.
    /// Seeds 21 and 27 miss one.
    #[test]
    fn what_misses_a_faint_direction_is_not_settled() {
        for seed in 20..30 {
            let found = completed(&planted(seed, 0.26, 4.0), Some(Pixels::Rows { side: SIDE }));
            assert!(!found.is_settled || found.held_out < 1e-8, "seed {seed}: {:e}", found.held_out);
        }
    }

    /// With this hard mask, searches from likelier starts return to the same error, 5e-4. They would count as settled
    /// without the reweighted search.
    #[test]
    fn likelier_starts_that_end_alike_are_not_settled() {
        let start = Start { pixels: Some(Pixels::Rows { side: SIDE }), ..Start::default() };
        let known = planted(21, 0.22, 3.0);
        let found = complete(&known, RANK, start, Effort::default(), &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(!found.is_settled && found.held_out > 1e-5, "{:e}", found.held_out);
    }
}
