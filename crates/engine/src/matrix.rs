//! Matrix products on all threads.

use faer::{Accum, MatMut, MatRef, Par, linalg::matmul::matmul};

use crate::{parallel, real::Real};

/// Multiplications per task. Smaller tasks run at the same speed.
const TOGETHER: usize = 1 << 21;
/// A side shorter than twice this is not split.
const SHORTEST: usize = 32;

/// Views `values` as rows of `columns`.
pub(crate) fn rows<R: Real>(values: &[R], columns: usize) -> MatRef<'_, R> {
    MatRef::from_row_major_slice(values, values.len() / columns.max(1), columns)
}

pub(crate) fn rows_mut<R: Real>(values: &mut [R], columns: usize) -> MatMut<'_, R> {
    let rows = values.len() / columns.max(1);
    MatMut::from_row_major_slice_mut(values, rows, columns)
}

/// Views every `stride`-th row of `values`, `count` rows of `columns` in total.
pub(crate) fn every<R: Real>(values: &[R], count: usize, columns: usize, stride: usize) -> MatRef<'_, R> {
    MatRef::from_row_major_slice_with_stride(values, count, columns, stride * columns)
}

pub(crate) fn every_mut<R: Real>(values: &mut [R], count: usize, columns: usize, stride: usize) -> MatMut<'_, R> {
    // In faer 0.24, `from_row_major_slice_with_stride_mut` mistakes the row stride for the column stride.
    MatMut::from_column_major_slice_with_stride_mut(values, columns, count, stride * columns).transpose_mut()
}

/// `c` = `a` `b`, with `c` `[m, n]`, `a` `[m, k]`, `b` `[k, n]`.
pub(crate) fn product<R: Real>(c: MatMut<'_, R>, a: MatRef<'_, R>, b: MatRef<'_, R>) {
    tiles(c, [0, 0], a, b, &Begin::<R, fn(usize, usize, &mut [R])>::Nothing);
}

/// `c` += `a` `b`
pub(crate) fn product_added<R: Real>(c: MatMut<'_, R>, a: MatRef<'_, R>, b: MatRef<'_, R>) {
    tiles(c, [0, 0], a, b, &Begin::<R, fn(usize, usize, &mut [R])>::Kept);
}

/// Initialises `c` with `begin`, then adds `a` `b`. `begin` gets a row, a column, and the values of that row to set,
/// from that column on. The rows of `c` must be contiguous.
pub(crate) fn product_onto<R: Real>(
    c: MatMut<'_, R>,
    begin: impl Fn(usize, usize, &mut [R]) + Sync,
    a: MatRef<'_, R>,
    b: MatRef<'_, R>,
) {
    tiles(c, [0, 0], a, b, &Begin::By(begin, std::marker::PhantomData));
}

/// `c` = `scale` `a` `b`, on this thread.
pub(crate) fn small_product<R: Real>(c: MatMut<'_, R>, scale: R, a: MatRef<'_, R>, b: MatRef<'_, R>) {
    matmul(c, Accum::Replace, a, b, scale, Par::Seq);
}

/// `c` += `scale` `a` `b`, on this thread.
pub(crate) fn small_product_added<R: Real>(c: MatMut<'_, R>, scale: R, a: MatRef<'_, R>, b: MatRef<'_, R>) {
    matmul(c, Accum::Add, a, b, scale, Par::Seq);
}

enum Begin<R, F> {
    Nothing,
    Kept,
    By(F, std::marker::PhantomData<fn(R)>),
}

fn tiles<R: Real, F: Fn(usize, usize, &mut [R]) + Sync>(
    mut c: MatMut<'_, R>,
    [row, column]: [usize; 2],
    a: MatRef<'_, R>,
    b: MatRef<'_, R>,
    begin: &Begin<R, F>,
) {
    let (high, wide, deep) = (c.nrows(), c.ncols(), a.ncols());
    let longest = high.max(wide);
    if high * wide * deep > TOGETHER && longest >= 2 * SHORTEST {
        let half = (longest / 2).next_multiple_of(SHORTEST / 2);
        if high >= wide {
            let (top, bottom) = c.split_at_row_mut(half);
            let (a_top, a_bottom) = a.split_at_row(half);
            parallel::both(
                || tiles(top, [row, column], a_top, b, begin),
                || tiles(bottom, [row + half, column], a_bottom, b, begin),
            );
        } else {
            let (left, right) = c.split_at_col_mut(half);
            let (b_left, b_right) = b.split_at_col(half);
            parallel::both(
                || tiles(left, [row, column], a, b_left, begin),
                || tiles(right, [row, column + half], a, b_right, begin),
            );
        }
        return;
    }
    let accumulate = match begin {
        Begin::Nothing => Accum::Replace,
        Begin::Kept => Accum::Add,
        Begin::By(begin, _) => {
            for index in 0..high {
                if let Some(values) = c.rb_mut().row_mut(index).try_as_row_major_mut() {
                    begin(row + index, column, values.as_slice_mut());
                }
            }
            Accum::Add
        }
    };
    matmul(c, accumulate, a, b, R::ONE, Par::Seq);
}

use faer::reborrow::ReborrowMut as _;
