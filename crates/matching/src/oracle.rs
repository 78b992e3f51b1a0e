//! The queries that matching sends to a network.

use unmask_core::ModelState;
use unmask_model::{GradientAt, GradientOracle, ModelError, Network, OracleOptions, block_on};

/// The input of a network: `batch` pictures `[3, side, side]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    pub batch: usize,
    pub side: usize,
}

impl Inputs {
    pub fn len(self) -> usize {
        self.batch.saturating_mul(3 * self.side * self.side)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A network at known weights w, with the labels of the batch behind the update.
///
/// Pictures x are normalised, `[batch, 3, side, side]` in [-1, 1], row-major. All numbers are f64, regardless of the
/// network's precision.
#[derive(Debug)]
pub struct NetworkOracle {
    oracle: GradientOracle,
    labels: Vec<usize>,
}

impl NetworkOracle {
    /// Creates the oracle of a network at `state`. The head's gradient reveals the `labels` of the pictures.
    ///
    /// [`Objective::tokens`](crate::Objective::tokens) needs [`WeightScope::FirstBlock`](unmask_model::WeightScope).
    /// [`Objective::Cosine`](crate::Objective::Cosine) on all weights, with batch norm by the running statistics, is
    /// Inverting Gradients as its authors and FLRSP run it.
    ///
    /// # Errors
    /// The state belongs to another network, the network does not support these options, there are no labels, or a
    /// label is not a class.
    pub fn new(
        network: &Network,
        state: &ModelState,
        labels: &[usize],
        options: OracleOptions,
    ) -> Result<Self, ModelError> {
        if labels.is_empty() {
            return Err(ModelError::EmptyBatch);
        }
        let classes = network.architecture().classes();
        if let Some((image, &label)) = labels.iter().enumerate().find(|&(_, &label)| label >= classes) {
            return Err(ModelError::Label { image, label, classes });
        }
        Ok(Self { oracle: network.oracle(state, options)?, labels: labels.to_vec() })
    }

    pub fn inputs(&self) -> Inputs {
        Inputs { batch: self.labels.len(), side: self.oracle.network().architecture().side() }
    }

    /// Returns the weights w that the gradient is taken with respect to: all, or the first ones of the flat vector.
    pub fn weights(&self) -> &[f64] {
        self.oracle.weights()
    }

    /// Returns dl/dw at x, with as many values as [`weights`](Self::weights).
    ///
    /// # Errors
    /// The network rejects x, or a value is not finite.
    pub fn gradient(&self, x: &[f64]) -> Result<GradientAt, ModelError> {
        block_on(self.oracle.gradient(&to_unit(x), &self.labels))
    }

    /// Returns d<dl/dw, `direction`>/dx at the x of `at`, with as many values as x.
    ///
    /// # Errors
    /// The direction and the weights differ in length, or a value is not finite.
    pub fn input_gradient_along(&self, at: &GradientAt, direction: &[f64]) -> Result<Vec<f64>, ModelError> {
        let mut slope = block_on(self.oracle.input_gradient_along(at, direction))?;
        // A step of x moves images in [0, 1] half as far.
        slope.iter_mut().for_each(|slope| *slope *= 0.5);
        Ok(slope)
    }
}

/// Converts x in [-1, 1] to images in [0, 1].
fn to_unit(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| 0.5 * x + 0.5).collect()
}
