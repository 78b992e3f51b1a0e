//! What matching needs from a model.

/// The pictures a model takes: `batch` of them, `[3, side, side]` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    /// Pictures in the batch.
    pub batch: usize,
    /// Image side in pixels.
    pub side: usize,
}

impl Inputs {
    /// Values of all pictures together.
    pub fn len(self) -> usize {
        self.batch.saturating_mul(3 * self.side * self.side)
    }

    /// Whether there are no pictures, or none with pixels.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A model at known weights w, with the labels of the batch that is searched for.
///
/// Pictures x are normalised, `[batch, 3, side, side]` in [-1, 1], row-major. All numbers are f64, whatever the model
/// computes in.
pub trait Network {
    /// What can go wrong in the model.
    type Error: std::error::Error + Send + Sync + 'static;

    /// How many pictures of what size x holds.
    fn inputs(&self) -> Inputs;

    /// The weights w that the gradient is taken with respect to: all of them, or the first ones of the flat vector.
    fn weights(&self) -> &[f64];

    /// dl/dw at x, as many values as [`Network::weights`] has.
    fn gradient(&self, x: &[f64]) -> impl Future<Output = Result<Vec<f64>, Self::Error>>;

    /// [dl/dx at w + `shift` - dl/dx at w - `shift`] / 2, as many values as x has.
    fn input_gradient_along(&self, x: &[f64], shift: &[f64]) -> impl Future<Output = Result<Vec<f64>, Self::Error>>;
}
