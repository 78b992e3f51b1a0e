//! Conjugate gradients with a preconditioner, for unknowns that are a matrix.

use std::ops::ControlFlow;

use faer::Mat;

use crate::small_matrices::inner;

/// A symmetric positive definite matrix, or an approximate inverse of one, applied to a matrix of unknowns.
pub(crate) type Operator<'a> = &'a dyn Fn(&Mat<f64>) -> Mat<f64>;

/// An approximate solution of H X = R.
pub(crate) struct Solution {
    pub(crate) x: Mat<f64>,
    /// R - H X.
    pub(crate) residual: Mat<f64>,
}

impl Solution {
    /// Takes at most `steps` steps, or fewer if the squared residual in the preconditioner's norm falls to `share` of
    /// its initial value. `go_on` is asked before each step and may end the iteration.
    pub(crate) fn improve(
        mut self,
        steps: usize,
        share: f64,
        hessian: Operator<'_>,
        precondition: Operator<'_>,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<(), Self> {
        let mut z = precondition(&self.residual);
        let mut direction = z.clone();
        let mut rho = inner(&self.residual, &z);
        let goal = share * rho;
        for _ in 0..steps {
            go_on()?;
            if rho <= goal {
                break;
            }
            let image = hessian(&direction);
            let curvature = inner(&direction, &image);
            if curvature <= 0.0 {
                break;
            }
            let length = rho / curvature;
            self.x += &direction * faer::Scale(length);
            self.residual -= image * faer::Scale(length);
            z = precondition(&self.residual);
            let next = inner(&self.residual, &z);
            direction = &z + &direction * faer::Scale(next / rho);
            rho = next;
        }
        ControlFlow::Continue(self)
    }
}
