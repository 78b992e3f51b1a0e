//! A matrix with known and unknown entries.

use faer::Mat;

/// Values with a weight for each entry. An unknown entry has weight 0 and value 0. The weight of a known one is the
/// number of rounds that its value averages.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observed {
    pub(crate) values: Mat<f64>,
    pub(crate) weights: Mat<f64>,
}

impl Observed {
    /// Takes row-major values and a mask of the known ones. Without a mask all are known.
    pub(crate) fn new(rows: usize, values: &[f64], kept: Option<&[bool]>) -> Self {
        let columns = values.len().checked_div(rows).unwrap_or(0);
        let is_kept = |i: usize| kept.is_none_or(|kept| kept[i]);
        let entry = |row: usize, column: usize| row * columns + column;
        Self {
            values: Mat::from_fn(rows, columns, |r, c| if is_kept(entry(r, c)) { values[entry(r, c)] } else { 0.0 }),
            weights: Mat::from_fn(rows, columns, |r, c| f64::from(u8::from(is_kept(entry(r, c))))),
        }
    }

    pub(crate) fn unknown(rows: usize, columns: usize) -> Self {
        Self { values: Mat::zeros(rows, columns), weights: Mat::zeros(rows, columns) }
    }

    pub(crate) fn nrows(&self) -> usize {
        self.values.nrows()
    }

    pub(crate) fn ncols(&self) -> usize {
        self.values.ncols()
    }

    pub(crate) fn len(&self) -> usize {
        self.nrows() * self.ncols()
    }

    pub(crate) fn is_known(&self, row: usize, column: usize) -> bool {
        self.weights[(row, column)] > 0.0
    }

    pub(crate) fn known(&self) -> usize {
        self.weights.col_iter().map(|column| column.iter().filter(|&&weight| weight > 0.0).count()).sum()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.known() == self.len()
    }

    /// Whether no known entry differs from zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.values.col_iter().all(|column| column.iter().all(|&value| value == 0.0))
    }

    pub(crate) fn known_in_column(&self, column: usize) -> usize {
        self.weights.col(column).iter().filter(|&&weight| weight > 0.0).count()
    }

    /// Mean square of the known entries; 0 if there are none.
    pub(crate) fn mean_square(&self) -> f64 {
        let known = self.known();
        if known == 0 { 0.0 } else { self.values.squared_norm_l2() / known as f64 }
    }
}
