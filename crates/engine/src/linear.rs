//! Linear layers: y = x W^T + b.

use faer::{MatMut, MatRef, reborrow::ReborrowMut as _};

use crate::{
    matrix::{product, product_added, product_onto, rows, rows_mut},
    parallel,
    parameters::{Change, Linear, Slot, add_all},
    real::Real,
    vector::{add, vectorised},
};

/// Rows per task when summing the gradient of the bias.
const ROWS: usize = 256;

/// Where the gradient of the input goes.
pub(crate) enum Into<'a, R: Real> {
    Nowhere,
    /// Overwrites the target.
    Place(MatMut<'a, R>),
    /// Is added to the target.
    Sum(MatMut<'a, R>),
}

impl<R: Real> Linear<&[R]> {
    fn weight(&self) -> MatRef<'_, R> {
        rows(self.weight, self.weight.len() / self.bias.len().max(1))
    }

    /// Sets `y` `[rows, out]` from `x` `[rows, in]`.
    pub(crate) fn apply(&self, y: MatMut<'_, R>, x: MatRef<'_, R>) {
        let begin = |_, column: usize, y: &mut [R]| y.copy_from_slice(&self.bias[column..column + y.len()]);
        product_onto(y, begin, x, self.weight().transpose());
    }

    /// Sets `y` `[rows, out]` from `x` `[rows, in]`, plus `beside(row)` `[out]`.
    pub(crate) fn apply_beside<'a>(&self, y: MatMut<'_, R>, beside: impl Fn(usize) -> &'a [R] + Sync, x: MatRef<'_, R>)
    where
        R: 'a,
    {
        let begin = |row, column: usize, y: &mut [R]| {
            let beside = &beside(row)[column..column + y.len()];
            sum_of_two(y, &self.bias[column..], beside);
        };
        product_onto(y, begin, x, self.weight().transpose());
    }

    /// Sets `change` to the derivative of y `[rows, out]`, where `of_x` `[rows, in]` is that of `x` and `along` that of
    /// the layer.
    pub(crate) fn apply_change(
        &self,
        along: &Linear<Change<'_, R>>,
        mut change: MatMut<'_, R>,
        x: MatRef<'_, R>,
        of_x: MatRef<'_, R>,
    ) {
        match along.bias {
            Some(bias) => {
                let begin = |_, column: usize, y: &mut [R]| y.copy_from_slice(&bias[column..column + y.len()]);
                product_onto(change.rb_mut(), begin, of_x, self.weight().transpose());
            }
            None => product(change.rb_mut(), of_x, self.weight().transpose()),
        }
        if let Some(weight) = along.weight {
            product_added(change, x, rows(weight, x.ncols()).transpose());
        }
    }

    /// Adds the derivative of dl/dx `[rows, in]` to `change`. `slope` is dl/dy `[rows, out]`, `of_slope` its
    /// derivative, and `along` the derivative of the layer.
    pub(crate) fn back_change(
        &self,
        along: &Linear<Change<'_, R>>,
        mut change: MatMut<'_, R>,
        slope: MatRef<'_, R>,
        of_slope: MatRef<'_, R>,
    ) {
        product_added(change.rb_mut(), of_slope, self.weight());
        if let Some(weight) = along.weight {
            let columns = change.ncols();
            product_added(change, slope, rows(weight, columns));
        }
    }

    /// Computes the gradients of weight and bias, and dl/dx `[rows, in]`, from `slope`, dl/dy `[rows, out]`.
    pub(crate) fn back(
        &self,
        gradient: Linear<Slot<'_, R>>,
        slope: MatRef<'_, R>,
        x: MatRef<'_, R>,
        by_x: Into<'_, R>,
    ) {
        let columns = x.ncols();
        let weights = || {
            if let Some(weight) = gradient.weight {
                product(rows_mut(weight, columns), slope.transpose(), x);
            }
            if let Some(bias) = gradient.bias {
                column_sums(bias, slope);
            }
        };
        let inputs = || match by_x {
            Into::Nowhere => {}
            Into::Place(by_x) => product(by_x, slope, self.weight()),
            Into::Sum(by_x) => product_added(by_x, slope, self.weight()),
        };
        parallel::both(weights, inputs);
    }
}

vectorised! {
    fn sum_of_two(y: &mut [R], a: &[R], b: &[R]) {
        for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
            *y = a + b;
        }
    }
}

/// Sets `sums` `[columns]` to the column sums of `x` `[rows, columns]`.
fn column_sums<R: Real>(sums: &mut [R], x: MatRef<'_, R>) {
    let bands = (0..x.nrows()).step_by(ROWS);
    let parts = parallel::map(bands, |first| {
        let mut part = vec![R::ZERO; x.ncols()];
        for row in first..x.nrows().min(first + ROWS) {
            if let Some(row) = x.row(row).try_as_row_major() {
                add(&mut part[..], row.as_slice());
            }
        }
        part
    });
    sums.fill(R::ZERO);
    add_all(sums, parts.iter().map(Vec::as_slice));
}
