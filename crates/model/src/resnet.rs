//! A residual network as its callers see it: flat slices in, flat vectors out.

mod forward;
mod resident;

use burn::tensor::{DType, Device, Element, Tensor, TensorData};
use unmask_core::{Architecture, ModelState, ParamLayout, ResnetSpec};

use crate::{
    Evaluation, ModelError, NetworkStep, Step,
    border::{Border, cross_entropy},
    leaves::Placement,
};
use forward::{BatchMoments, Moments, Parameters};

pub use resident::ResidentResnet;

/// By how much a batch moves the running statistics, as in PyTorch.
const MOMENTUM: f32 = 0.1;

/// What batch norm normalises by where a gradient is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// The batch's own moments: PyTorch's training mode.
    Batch,
    /// The running statistics: PyTorch's evaluation mode. Inverting Gradients (Geiping et al., NeurIPS 2020) attacks
    /// gradients of this kind.
    Running,
}

/// A residual network with batch norm on one device: torchvision's basic blocks.
///
/// It holds no weights; every call takes them. Images are `f32` in [0, 1], `[batch, 3, side, side]`, and are normalised
/// to (x - 0.5) / 0.5 here, as for every other network. Every function refuses sizes that do not fit, empty batches, labels
/// that are no class, and results that are not finite.
#[derive(Debug, Clone)]
pub struct Resnet {
    spec: ResnetSpec,
    statistics: ParamLayout,
    pub(crate) border: Border,
}

impl Resnet {
    /// A network of `spec` that computes on `device`.
    ///
    /// # Errors
    /// If the spec has no classes, or images without pixels.
    pub fn new(spec: ResnetSpec, device: &Device) -> Result<Self, ModelError> {
        let architecture = Architecture::Resnet(spec);
        let border = Border::new(architecture, device)?;
        Ok(Self { spec, statistics: architecture.statistics(), border })
    }

    /// What the network was built from.
    pub fn spec(&self) -> ResnetSpec {
        self.spec
    }

    /// The order of the flat weights and gradients.
    pub fn layout(&self) -> &ParamLayout {
        &self.border.layout
    }

    /// The order of the running statistics.
    pub fn statistics(&self) -> &ParamLayout {
        &self.statistics
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]` and its gradient in training mode:
    /// batch norm uses the batch's own moments, by which the running statistics move.
    ///
    /// # Errors
    /// Besides those of every function here: batch norm that would see a single value a channel.
    pub async fn loss_and_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<NetworkStep, ModelError> {
        self.check(state, images, labels.len())?;
        let targets = self.border.one_hot(labels, DType::F32)?;
        let device = self.border.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: true };
        let parameters = Parameters::new(&self.spec, self.layout(), &state.weights, placement);
        let images = self.images(images, labels.len(), Placement { tracked: false, ..placement });
        let (logits, seen) = parameters.logits(images, Moments::Batch);
        let counts: Vec<usize> = seen.iter().map(|moments| moments.count).collect();
        if counts.contains(&1) {
            return Err(ModelError::SingleValue { batch: labels.len(), side: self.border.side });
        }
        let moments = seen.into_iter().flat_map(|BatchMoments { mean, variance, .. }| [mean, variance]).collect();
        let loss = cross_entropy(logits, targets);
        let mut read = self.border.backward(loss, parameters.leaves.iter(), moments).await?;
        let moments = read.split_off(read.len().saturating_sub(2 * counts.len()));
        let Step { loss, gradient } = self.border.step(read)?;
        let statistics = self.moved(&state.statistics, &moments, &counts)?;
        Ok(NetworkStep { loss, gradient, statistics })
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]` and its gradient in evaluation
    /// mode: batch norm uses the running statistics, which stay as they are.
    pub async fn evaluation_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.check(state, images, labels.len())?;
        let targets = self.border.one_hot(labels, DType::F32)?;
        let device = self.border.device.clone().autodiff();
        let placement = Placement { device: &device, dtype: DType::F32, tracked: true };
        let parameters = Parameters::new(&self.spec, self.layout(), &state.weights, placement);
        let untracked = Placement { tracked: false, ..placement };
        let running = self.running(&state.statistics, untracked);
        let images = self.images(images, labels.len(), untracked);
        let (logits, _) = parameters.logits(images, Moments::Running(&running));
        let loss = cross_entropy(logits, targets);
        self.border.step(self.border.backward(loss, parameters.leaves.iter(), Vec::new()).await?)
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`, in evaluation mode.
    pub async fn evaluate(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        self.check(state, images, labels.len())?;
        let placement = Placement { device: &self.border.device, dtype: DType::F32, tracked: false };
        let parameters = Parameters::new(&self.spec, self.layout(), &state.weights, placement);
        let running = self.running(&state.statistics, placement);
        let images = self.images(images, labels.len(), placement);
        let (logits, _) = parameters.logits(images, Moments::Running(&running));
        self.border.evaluation(logits, labels).await
    }

    pub(crate) fn check(&self, state: &ModelState, images: &[f32], batch: usize) -> Result<(), ModelError> {
        self.check_statistics(&state.statistics)?;
        self.border.check(&state.weights, images, batch)
    }

    fn check_statistics(&self, statistics: &[f32]) -> Result<(), ModelError> {
        let (given, expected) = (statistics.len(), self.statistics.len());
        if given != expected {
            return Err(ModelError::StatisticsCount { given, expected });
        }
        for param in self.statistics.iter().filter(|param| param.name.ends_with("running_var")) {
            if let Some(&value) = statistics[param.range.clone()].iter().find(|value| **value < 0.0) {
                return Err(ModelError::NegativeVariance { name: param.name.clone(), value });
            }
        }
        Ok(())
    }

    /// The running statistics on the device, tensor by tensor.
    fn running(&self, statistics: &[f32], placement: Placement<'_>) -> Vec<Tensor<1>> {
        let tensor = |values: &[f32]| placement.leaf(values.to_vec(), [values.len()]);
        self.statistics.iter().map(|param| tensor(&statistics[param.range.clone()])).collect()
    }

    fn images<W>(&self, images: &[W], batch: usize, placement: Placement<'_>) -> Tensor<4>
    where
        W: Element + From<f32> + std::ops::Sub<Output = W> + std::ops::Div<Output = W>,
    {
        let half = W::from(0.5);
        let side = self.border.side;
        placement.leaf(images.iter().map(|&x| (x - half) / half).collect(), [batch, 3, side, side])
    }

    /// running <- 0.9 running + 0.1 batch, the variance of the batch being the unbiased one here, as in PyTorch.
    fn moved(&self, statistics: &[f32], moments: &[TensorData], counts: &[usize]) -> Result<Vec<f32>, ModelError> {
        let mut moved = statistics.to_vec();
        if moments.len() != self.statistics.iter().len() {
            let (given, expected) = (moments.len(), self.statistics.iter().len());
            return Err(self.border.device_error(format!("{given} moments came back of {expected}")));
        }
        for (index, (param, data)) in self.statistics.iter().zip(moments).enumerate() {
            let values = data.as_slice::<f32>().map_err(|error| self.border.device_error(error))?;
            let count = counts.get(index / 2).map_or(1.0, |&count| count as f32);
            let unbiased = if param.name.ends_with("running_var") { count / (count - 1.0) } else { 1.0 };
            for (running, value) in moved[param.range.clone()].iter_mut().zip(values) {
                *running = (1.0 - MOMENTUM) * *running + MOMENTUM * unbiased * value;
            }
        }
        match moved.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(ModelError::NonFinite { what: "running statistics".into(), value }),
            None => Ok(moved),
        }
    }
}
