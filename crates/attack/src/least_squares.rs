//! Least squares by singular value decomposition.

use faer::{Mat, MatRef};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spectrum {
    /// Smallest over largest singular value, the inverse of the condition number.
    pub(crate) ratio: f64,
    /// Number of singular values above the cutoff.
    pub(crate) kept: usize,
    pub(crate) total: usize,
}

/// The minimum-norm X that minimises ||A X - B||, without singular values of A up to `cutoff` times the largest.
///
/// Returns `None` if the decomposition does not converge or the solution overflows.
pub(crate) fn least_squares(a: MatRef<'_, f64>, b: MatRef<'_, f64>, cutoff: f64) -> Option<(Mat<f64>, Spectrum)> {
    let svd = a.thin_svd().ok()?;
    let singular: Vec<f64> = svd.S().column_vector().iter().copied().collect();
    let (&largest, &smallest) = (singular.first()?, singular.last()?);
    let kept = singular.iter().take_while(|&&value| value > cutoff * largest).count();
    if kept == 0 {
        return None;
    }
    let mut coefficients = svd.U().subcols(0, kept).transpose() * b;
    for column in coefficients.col_iter_mut() {
        for (coefficient, value) in column.iter_mut().zip(&singular) {
            *coefficient /= value;
        }
    }
    let x = svd.V().subcols(0, kept) * coefficients;
    let finite = x.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
    finite.then_some((x, Spectrum { ratio: smallest / largest, kept, total: singular.len() }))
}

/// The smallest singular value of A, which has at least as many rows as columns. `None` if it is 0 or the decomposition
/// does not converge.
pub(crate) fn smallest_singular_value(a: MatRef<'_, f64>) -> Option<f64> {
    let svd = a.thin_svd().ok()?;
    svd.S().column_vector().iter().copied().last().filter(|&value| value > 0.0)
}

#[cfg(test)]
mod tests {
    use faer::mat;

    use super::*;

    #[test]
    fn rank_deficient_system_gets_the_shortest_solution() {
        let a = mat![[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]];
        let b = mat![[2.0], [4.0], [6.0]];
        let (x, spectrum) = least_squares(a.as_ref(), b.as_ref(), 1e-12).unwrap();
        assert!((x[(0, 0)] - 1.0).abs() < 1e-14 && (x[(1, 0)] - 1.0).abs() < 1e-14, "{x:?}");
        assert_eq!((spectrum.kept, spectrum.total), (1, 2));
        assert!(spectrum.ratio < 1e-14);
    }

    #[test]
    fn zero_system_has_no_solution() {
        let zero = Mat::<f64>::zeros(3, 2);
        assert!(least_squares(zero.as_ref(), Mat::zeros(3, 1).as_ref(), 1e-12).is_none());
    }
}
