//! What matching asks of a network.

use unmask_core::ModelState;
use unmask_model::{GradientAt, GradientOracle, ModelError, Network, OracleOptions, block_on};

/// The pictures a network takes: `batch` of them, `[3, side, side]` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    pub batch: usize,
    pub side: usize,
}

impl Inputs {
    /// Values of all pictures together.
    pub fn len(self) -> usize {
        self.batch.saturating_mul(3 * self.side * self.side)
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A network at known weights w, with the labels of the batch that is searched for.
///
/// Pictures x are normalised, `[batch, 3, side, side]` in [-1, 1], row-major. All numbers are f64, whatever the network
/// computes in.
#[derive(Debug)]
pub struct NetworkOracle {
    oracle: GradientOracle,
    labels: Vec<usize>,
}

impl NetworkOracle {
    /// The network at `state`, and the labels of the pictures in the batch, which the head's gradient tells.
    ///
    /// [`WeightScope::FirstBlock`](unmask_model::WeightScope) is what [`Objective::tokens`](crate::Objective::tokens) looks
    /// at. [`Objective::Cosine`](crate::Objective::Cosine) on all weights, with batch norm by the running statistics, is
    /// Inverting Gradients as its authors and FLRSP run it.
    ///
    /// # Errors
    /// The state is of another network, the network cannot answer so, there are no labels, or one is no class.
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

    /// How many pictures of what size x holds.
    pub fn inputs(&self) -> Inputs {
        Inputs { batch: self.labels.len(), side: self.oracle.network().architecture().side() }
    }

    /// The weights w that the gradient is taken with respect to: all of them, or the first ones of the flat vector.
    pub fn weights(&self) -> &[f64] {
        self.oracle.weights()
    }

    /// dl/dw at x, as many values as [`weights`](Self::weights) has.
    ///
    /// # Errors
    /// The network refuses x, or a value is not finite.
    pub fn gradient(&self, x: &[f64]) -> Result<GradientAt, ModelError> {
        block_on(self.oracle.gradient(&to_unit(x), &self.labels))
    }

    /// d<dl/dw, `direction`>/dx at the x of `at`, as many values as x has.
    ///
    /// # Errors
    /// The direction has another length than the weights, or a value is not finite.
    pub fn input_gradient_along(&self, at: &GradientAt, direction: &[f64]) -> Result<Vec<f64>, ModelError> {
        let mut slope = block_on(self.oracle.input_gradient_along(at, direction))?;
        // A step of x moves images in [0, 1] half as far.
        slope.iter_mut().for_each(|slope| *slope *= 0.5);
        Ok(slope)
    }
}

/// Images in [0, 1], as networks take them, of x in [-1, 1].
fn to_unit(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| x.mul_add(0.5, 0.5)).collect()
}
