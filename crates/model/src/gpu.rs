//! The networks on a graphics adapter, through Burn: the same passes as in the engine, with the same terms and types.

#[cfg(all(test, feature = "flex"))]
mod agreement;
mod backward;
mod forward;
mod lenet;
mod resnet;
mod tensors;
mod vit;

use burn::tensor::{Device, Tensor, TensorData};
use unmask_core::{Architecture, ParamLayout};
use unmask_engine::{Differentiated, Normalisation, Statistics, Wanted};

use crate::ModelError;

use self::{
    forward::{Output, Parameters, image_gradient},
    resnet::{BatchMoments, Moments},
    tensors::TensorOptions,
};

#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    architecture: Architecture,
    layout: ParamLayout,
    statistics: ParamLayout,
    /// Without autodiff.
    device: Device,
}

impl Gpu {
    pub(crate) fn new(architecture: Architecture, device: &Device) -> Self {
        let (layout, statistics) = (architecture.layout(), architecture.statistics());
        Self { architecture, layout, statistics, device: device.clone().without_autodiff() }
    }

    /// Like [`unmask_engine::Engine::differentiate`], with the same slices.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) async fn differentiate(
        &self,
        weights: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[usize],
        normalisation: Normalisation,
        wanted: Wanted,
    ) -> Result<Differentiated<f32>, ModelError> {
        let device = self.device.clone().autodiff();
        let untracked = TensorOptions { device: &device, tracked: 0 };
        let parameters =
            Parameters::new(self.architecture, &self.layout, weights, untracked.with_tracked(wanted.weights));
        let running = self.running(statistics, untracked);
        let moments = match normalisation {
            Normalisation::Batch => Moments::Batch,
            Normalisation::Running => Moments::Running(&running),
        };
        let input = untracked.with_tracked(if wanted.images { usize::MAX } else { 0 });
        let Output { logits, input, moments } = parameters.forward(images, labels.len(), input, moments);
        let counts: Vec<usize> = moments.iter().map(|moments| moments.count).collect();
        let besides = moments.into_iter().flat_map(|BatchMoments { mean, variance, .. }| [mean, variance]).collect();
        let loss = self.cross_entropy(logits, labels);
        let mut leaves = parameters.leaves();
        leaves.extend(wanted.images.then_some(&input));
        let read = self.backward(loss, &leaves, besides).await?;
        let values: Vec<&[f32]> = read.iter().map(|data| self.values(data)).collect::<Result<_, _>>()?;
        let expected = 1 + leaves.len() + 2 * counts.len();
        let (&[first, ..], true) = (values.as_slice(), values.len() == expected) else {
            return Err(self.failed(format!("{} tensors came back of {expected}", values.len())));
        };
        let loss = first.first().copied().ok_or_else(|| self.failed("no loss came back"))?;
        let (gradients, moments) = values[1..].split_at(leaves.len());
        let (gradients, images) = gradients.split_at(leaves.len() - usize::from(wanted.images));
        let statistics = moments.chunks_exact(2).zip(counts).map(|(moments, count)| Statistics {
            mean: moments[0].to_vec(),
            variance: moments[1].to_vec(),
            count,
        });
        Ok(Differentiated {
            loss,
            gradient: gradients.concat(),
            images: images.first().map_or_else(Vec::new, |input| image_gradient(self.architecture, input)),
            statistics: statistics.collect(),
        })
    }

    /// Like [`unmask_engine::Engine::logits`].
    ///
    /// # Errors
    /// The device fails.
    pub(crate) async fn logits(
        &self,
        weights: &[f32],
        statistics: &[f32],
        images: &[f32],
        batch: usize,
    ) -> Result<Vec<f32>, ModelError> {
        let options = TensorOptions { device: &self.device, tracked: 0 };
        let parameters = Parameters::new(self.architecture, &self.layout, weights, options);
        let running = self.running(statistics, options);
        let logits = parameters.forward(images, batch, options, Moments::Running(&running)).logits;
        let read = logits.into_data_async().await.map_err(|error| self.failed(error))?;
        Ok(self.values(&read)?.to_vec())
    }

    fn running(&self, statistics: &[f32], options: TensorOptions<'_>) -> Vec<Tensor<1>> {
        let tensor = |values: &[f32]| options.tensor(values.to_vec(), [values.len()]);
        self.statistics.iter().map(|param| tensor(&statistics[param.range.clone()])).collect()
    }

    fn values<'a>(&self, data: &'a TensorData) -> Result<&'a [f32], ModelError> {
        data.as_slice::<f32>().map_err(|error| self.failed(format!("{error:?}")))
    }

    fn failed(&self, reason: impl ToString) -> ModelError {
        ModelError::Device { device: format!("{:?}", self.device), reason: reason.to_string() }
    }
}
