//! Multi-head attention, softmax(Q K^T / sqrt(d)) V. Each task handles one head of one image.

use faer::{MatMut, MatRef, reborrow::ReborrowMut as _};

use crate::{
    buffer::{Buffer, Pool},
    matrix::{rows, rows_mut, small_product, small_product_added},
    parallel::each,
    real::Real,
    vector::{dot, max, sum, vectorised},
};

/// Queries `[batch Q, D]` with `Q` tokens per image; keys and values `[batch T, D]` with `T` tokens per image.
#[derive(Clone, Copy)]
pub(crate) struct Attention<'a, R: Real> {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) query: MatRef<'a, R>,
    pub(crate) key: MatRef<'a, R>,
    pub(crate) value: MatRef<'a, R>,
}

/// Gradients of queries, keys and values, with their shapes.
pub(crate) struct Slopes<'a, R: Real> {
    pub(crate) query: MatMut<'a, R>,
    pub(crate) key: MatMut<'a, R>,
    pub(crate) value: MatMut<'a, R>,
}

/// Returns one head of one image. `index` runs over the heads of each image in turn.
fn head_of<R: Real>(x: MatRef<'_, R>, index: usize, batch: usize, heads: usize) -> MatRef<'_, R> {
    let (rows, columns) = (x.nrows() / batch, x.ncols() / heads);
    x.submatrix(index / heads * rows, index % heads * columns, rows, columns)
}

/// Splits `x` into the heads of all images, in the order of [`head_of`].
fn heads_mut<R: Real>(mut x: MatMut<'_, R>, batch: usize, heads: usize) -> Vec<MatMut<'_, R>> {
    let (rows, columns) = (x.nrows() / batch, x.ncols() / heads);
    let mut pieces = Vec::with_capacity(batch * heads);
    for _ in 0..batch {
        let (mut image, rest) = x.split_at_row_mut(rows);
        x = rest;
        for _ in 0..heads {
            let (head, rest) = image.split_at_col_mut(columns);
            image = rest;
            pieces.push(head);
        }
    }
    pieces
}

impl<R: Real> Attention<'_, R> {
    fn scale(&self) -> R {
        R::ONE / R::rounded((self.query.ncols() / self.heads) as f64).root()
    }

    fn head<'a>(&self, x: MatRef<'a, R>, index: usize) -> MatRef<'a, R> {
        head_of(x, index, self.batch, self.heads)
    }

    /// Sets `mixed` `[batch Q, D]` and returns the attention weights `[batch, heads, Q, T]`.
    pub(crate) fn apply(&self, pool: &Pool<R>, mixed: MatMut<'_, R>) -> Buffer<R> {
        let (queries, tokens) = (self.query.nrows() / self.batch, self.key.nrows() / self.batch);
        let mut weights = pool.take(self.batch * self.heads * queries * tokens);
        let outputs = heads_mut(mixed, self.batch, self.heads);
        let items = weights.chunks_exact_mut(queries * tokens).zip(outputs).enumerate();
        each(items, |(index, (weights, mixed))| {
            let [query, key, value] = [self.query, self.key, self.value].map(|x| self.head(x, index));
            small_product(rows_mut(weights, tokens), self.scale(), query, key.transpose());
            softmax(&mut *weights, tokens);
            small_product(mixed, R::ONE, rows(weights, tokens), value);
        });
        weights
    }

    /// Sets `slopes` from `slope`, dl/d(mixed) `[batch Q, D]`.
    pub(crate) fn back(&self, pool: &Pool<R>, weights: &[R], slope: MatRef<'_, R>, slopes: Slopes<'_, R>) {
        let (batch, heads, scale) = (self.batch, self.heads, self.scale());
        let (queries, tokens) = (self.query.nrows() / batch, self.key.nrows() / batch);
        let Slopes { query, key, value } = slopes;
        let pieces = [query, key, value].map(|x| heads_mut(x, batch, heads));
        let [by_query, by_key, by_value] = pieces;
        let items = weights.chunks_exact(queries * tokens).zip(by_query).zip(by_key).zip(by_value).enumerate();
        each(items, |(index, (((weights, by_query), by_key), by_value))| {
            let [query, key, value] = [self.query, self.key, self.value].map(|x| self.head(x, index));
            let slope = self.head(slope, index);
            small_product(by_value, R::ONE, rows(weights, tokens).transpose(), slope);
            let mut by_scores = pool.take(weights.len());
            small_product(rows_mut(&mut by_scores, tokens), R::ONE, slope, value.transpose());
            softmax_back(&mut by_scores[..], weights, tokens);
            small_product(by_query, scale, rows(&by_scores, tokens), key);
            small_product(by_key, scale, rows(&by_scores, tokens).transpose(), query);
        });
    }
}

impl<R: Real> Attention<'_, R> {
    /// Sets `change` `[batch Q, D]` to the derivative of `mixed`, for the derivatives of queries, keys and values in
    /// `along`. Returns the derivative of the attention weights `[batch, heads, Q, T]`.
    pub(crate) fn apply_change(&self, along: &Self, pool: &Pool<R>, weights: &[R], change: MatMut<'_, R>) -> Buffer<R> {
        let (queries, tokens) = (self.query.nrows() / self.batch, self.key.nrows() / self.batch);
        let mut of_weights = pool.take(weights.len());
        let outputs = heads_mut(change, self.batch, self.heads);
        let len = queries * tokens;
        let items = of_weights.chunks_exact_mut(len).zip(weights.chunks_exact(len)).zip(outputs).enumerate();
        each(items, |(index, ((of_weights, weights), mut change))| {
            let [query, key, value] = [self.query, self.key, self.value].map(|x| self.head(x, index));
            let [of_query, of_key, of_value] = [along.query, along.key, along.value].map(|x| self.head(x, index));
            small_product(rows_mut(of_weights, tokens), self.scale(), of_query, key.transpose());
            small_product_added(rows_mut(of_weights, tokens), self.scale(), query, of_key.transpose());
            // The Jacobian of softmax is symmetric, so its backward function also computes its forward derivative.
            softmax_back(&mut *of_weights, weights, tokens);
            small_product(change.rb_mut(), R::ONE, rows(of_weights, tokens), value);
            small_product_added(change, R::ONE, rows(weights, tokens), of_value);
        });
        of_weights
    }

    /// Sets `changes` to the derivative of the result of [`back`](Self::back). `along` holds the derivatives of
    /// queries, keys and values; `weights` and `slope` are pairs of value and derivative.
    pub(crate) fn back_change(
        &self,
        along: &Self,
        pool: &Pool<R>,
        weights: [&[R]; 2],
        slope: [MatRef<'_, R>; 2],
        changes: Slopes<'_, R>,
    ) {
        let (batch, heads, scale) = (self.batch, self.heads, self.scale());
        let (queries, tokens) = (self.query.nrows() / batch, self.key.nrows() / batch);
        let Slopes { query, key, value } = changes;
        let [by_query, by_key, by_value] = [query, key, value].map(|x| heads_mut(x, batch, heads));
        let [weights, of_weights] = weights.map(|weights| weights.chunks_exact(queries * tokens));
        let items = weights.zip(of_weights).zip(by_query).zip(by_key).zip(by_value).enumerate();
        each(items, |(index, ((((weights, of_weights), mut by_query), mut by_key), mut by_value))| {
            let [query, key, value] = [self.query, self.key, self.value].map(|x| self.head(x, index));
            let [of_query, of_key, of_value] = [along.query, along.key, along.value].map(|x| self.head(x, index));
            let [slope, of_slope] = slope.map(|x| self.head(x, index));
            small_product(by_value.rb_mut(), R::ONE, rows(weights, tokens).transpose(), of_slope);
            small_product_added(by_value, R::ONE, rows(of_weights, tokens).transpose(), slope);
            let (mut by_scores, mut of_by_scores) = (pool.take(weights.len()), pool.take(weights.len()));
            small_product(rows_mut(&mut by_scores, tokens), R::ONE, slope, value.transpose());
            small_product(rows_mut(&mut of_by_scores, tokens), R::ONE, of_slope, value.transpose());
            small_product_added(rows_mut(&mut of_by_scores, tokens), R::ONE, slope, of_value.transpose());
            softmax_back_change(&mut of_by_scores[..], &mut by_scores[..], weights, of_weights, tokens);
            let (by_scores, of_by_scores) = (rows(&by_scores, tokens), rows(&of_by_scores, tokens));
            small_product(by_query.rb_mut(), scale, of_by_scores, key);
            small_product_added(by_query, scale, by_scores, of_key);
            small_product(by_key.rb_mut(), scale, of_by_scores.transpose(), query);
            small_product_added(by_key, scale, by_scores.transpose(), of_query);
        });
    }
}

vectorised! {
    /// Applies [`softmax_back`] to `slopes`, and turns `changes`, the derivative of `slopes`, into that of the result.
    fn softmax_back_change(changes: &mut [R], slopes: &mut [R], y: &[R], of_y: &[R], len: usize) {
        let ys = y.chunks_exact(len).zip(of_y.chunks_exact(len));
        for ((changes, slopes), (y, of_y)) in changes.chunks_exact_mut(len).zip(slopes.chunks_exact_mut(len)).zip(ys) {
            let common = dot(slopes, y);
            let of_common = dot(changes, y) + dot(slopes, of_y);
            let ys = y.iter().zip(of_y);
            for ((change, slope), (&y, &of_y)) in changes.iter_mut().zip(slopes).zip(ys) {
                *change = y * (*change - of_common) + of_y * (*slope - common);
                *slope = y * (*slope - common);
            }
        }
    }
}

vectorised! {
    /// Softmax over rows of `len`.
    fn softmax(x: &mut [R], len: usize) {
        for row in x.chunks_exact_mut(len) {
            let largest = max(row);
            for x in &mut *row {
                *x = (*x - largest).exp();
            }
            let scale = R::ONE / sum(row, |x| x);
            for x in row {
                *x *= scale;
            }
        }
    }
}

vectorised! {
    /// Replaces dl/dy, g, with y (g - sum(g y)), over rows of `len`.
    fn softmax_back(slopes: &mut [R], y: &[R], len: usize) {
        for (slopes, y) in slopes.chunks_exact_mut(len).zip(y.chunks_exact(len)) {
            let common = dot(slopes, y);
            for (slope, &y) in slopes.iter_mut().zip(y) {
                *slope = y * (*slope - common);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masked scores give zero attention. Very low scores give no subnormal numbers, which are slow.
    #[test]
    fn far_below_the_largest_is_nothing() {
        let mut x = [0.0_f32, -95.0, f32::NEG_INFINITY, 0.0];
        softmax(&mut x, 4);
        assert_eq!(x, [0.5, 0.0, 0.0, 0.5]);
        let mut x = [0.0_f32, f32::NAN, 1.0, 2.0];
        softmax(&mut x, 2);
        assert!(x[..2].iter().all(|x| x.is_nan()) && x[2..].iter().all(|x| x.is_finite()));
    }
}
