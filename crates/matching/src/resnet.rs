//! A residual network as a [`Network`].

use unmask_core::ModelState;
use unmask_model::{ModelError, Normalisation, Precision, ResidentResnet, Resnet};

use crate::{
    Inputs, Network,
    border::{known_labels, slope_of_unit, unit},
};

/// A [`Resnet`] at a given state, for pictures of given labels.
///
/// With [`Objective::Cosine`](crate::Objective::Cosine) this is Inverting Gradients as its authors and FLRSP run it: all
/// parameters, one picture, and batch norm by the running statistics ([`Normalisation::Running`]).
#[derive(Debug)]
pub struct ResnetNetwork {
    resident: ResidentResnet,
    labels: Vec<usize>,
}

impl ResnetNetwork {
    /// The network at `state`, and the labels of the pictures in the batch, which the head's gradient tells.
    ///
    /// # Errors
    /// The state is of another network, the device has no such precision, there are no labels, or one is no class.
    pub fn new(
        resnet: &Resnet,
        state: &ModelState,
        labels: &[usize],
        normalisation: Normalisation,
        precision: Precision,
    ) -> Result<Self, ModelError> {
        let labels = known_labels(labels, resnet.spec().classes)?;
        Ok(Self { resident: resnet.resident(state, normalisation, precision)?, labels })
    }

    /// The network.
    pub fn resnet(&self) -> &Resnet {
        self.resident.resnet()
    }
}

impl Network for ResnetNetwork {
    type Error = ModelError;

    fn inputs(&self) -> Inputs {
        Inputs { batch: self.labels.len(), side: self.resident.resnet().spec().side }
    }

    fn weights(&self) -> &[f64] {
        self.resident.weights()
    }

    async fn gradient(&self, x: &[f64]) -> Result<Vec<f64>, ModelError> {
        self.resident.gradient(&unit(x), &self.labels).await
    }

    async fn input_gradient_along(&self, x: &[f64], shift: &[f64]) -> Result<Vec<f64>, ModelError> {
        Ok(slope_of_unit(self.resident.input_gradient_along(&unit(x), &self.labels, shift).await?))
    }
}
