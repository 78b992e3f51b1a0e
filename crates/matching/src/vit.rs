//! A Vision Transformer as a [`Network`].

use unmask_model::{ModelError, Precision, Reach, Resident, Vit};

use crate::{
    Inputs, Network,
    border::{known_labels, slope_of_unit, unit},
};

/// A [`Vit`] at given weights, for pictures of given labels.
#[derive(Debug)]
pub struct VitNetwork {
    resident: Resident,
    labels: Vec<usize>,
}

impl VitNetwork {
    /// The model at `weights`, and the labels of the pictures in the batch, which the head's gradient tells.
    ///
    /// [`Reach::FirstBlock`] is what [`Objective::tokens`](crate::Objective::tokens) looks at;
    /// [`Objective::Cosine`](crate::Objective::Cosine) is meant for [`Reach::Everything`].
    ///
    /// # Errors
    /// The weights are of another model, the device has no such precision, there are no labels, or one is no class.
    pub fn new(
        vit: &Vit,
        weights: &[f32],
        labels: &[usize],
        reach: Reach,
        precision: Precision,
    ) -> Result<Self, ModelError> {
        let labels = known_labels(labels, vit.config().classes)?;
        Ok(Self { resident: vit.resident(weights, reach, precision)?, labels })
    }

    /// The model.
    pub fn vit(&self) -> &Vit {
        self.resident.vit()
    }
}

impl Network for VitNetwork {
    type Error = ModelError;

    fn inputs(&self) -> Inputs {
        Inputs { batch: self.labels.len(), side: self.resident.vit().config().image }
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
