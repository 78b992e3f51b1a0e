//! What a federation trains, as its callers see it: flat slices in, flat vectors out.

use burn::tensor::{DType, Device, Tensor, TensorData, Transaction};
use unmask_core::{Architecture, ModelState, ParamLayout, VitConfig};

use crate::{
    ModelError,
    error::check_finite,
    forward::{Output, Parameters},
    resnet::{BatchMoments, Moments},
    tensors::TensorOptions,
};

/// By how much a batch moves the running statistics, as in PyTorch.
const MOMENTUM: f32 = 0.1;

/// Loss and gradient of one batch, and what the batch did to batch norm.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub loss: f32,
    /// dl/dw, theta of the papers, `[P]`.
    pub gradient: Vec<f32>,
    /// The running statistics after this batch, `[Q]`; empty without batch norm.
    pub statistics: Vec<f32>,
}

/// Loss of one batch, and which way its pixels raise it.
#[derive(Debug, Clone, PartialEq)]
pub struct InputGradient {
    pub loss: f32,
    /// dl/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1].
    pub images: Vec<f32>,
}

/// What the network says about a batch, without a gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub loss: f32,
    /// How many images have their largest logit at their label.
    pub correct: usize,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

/// What batch norm normalises by where a gradient is asked for. Without batch norm the two are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// The batch's own moments: PyTorch's training mode.
    Batch,
    /// The running statistics: PyTorch's evaluation mode. Inverting Gradients (Geiping et al., NeurIPS 2020) attacks
    /// gradients of this kind.
    Running,
}

/// A ViT, a ResNet or a LeNet on one device. It holds no weights; every call takes them.
///
/// Images are `f32` in [0, 1], `[batch, 3, side, side]`, and are normalised to (x - 0.5) / 0.5 inside. Every function
/// refuses states and images of another size, empty batches, labels that are no class, and results that are not finite.
#[derive(Debug, Clone)]
pub struct Network {
    architecture: Architecture,
    layout: ParamLayout,
    statistics: ParamLayout,
    /// Without autodiff.
    device: Device,
}

impl Network {
    /// The network of `architecture` that computes on `device`.
    ///
    /// # Errors
    /// If it has no classes, or images without pixels.
    pub fn new(architecture: Architecture, device: &Device) -> Result<Self, ModelError> {
        if architecture.classes() == 0 {
            return Err(ModelError::NoClasses { architecture });
        }
        if architecture.side() == 0 {
            return Err(ModelError::NoPixels { architecture });
        }
        Ok(Self {
            architecture,
            layout: architecture.layout(),
            statistics: architecture.statistics(),
            device: device.clone().without_autodiff(),
        })
    }

    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The order of the flat weights and gradients, `[P]`.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Values of one image.
    pub(crate) fn image_len(&self) -> usize {
        VitConfig::CHANNELS * self.architecture.side() * self.architecture.side()
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, its gradient, and the running
    /// statistics after the batch. Batch norm uses the batch's own moments (PyTorch's training mode).
    ///
    /// # Errors
    /// Besides those of every function here: batch norm that would see a single value a channel.
    pub async fn loss_and_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.step(state, images, labels, Normalisation::Batch).await
    }

    /// The same where batch norm uses the running statistics, which stay as they are (PyTorch's evaluation mode).
    pub async fn evaluation_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.step(state, images, labels, Normalisation::Running).await
    }

    async fn step(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        normalisation: Normalisation,
    ) -> Result<Step, ModelError> {
        self.check(state, images, labels.len())?;
        let device = self.device.clone().autodiff();
        let options = TensorOptions { device: &device, dtype: DType::F32, requires_grad: true };
        let parameters = Parameters::new(self.architecture, &self.layout, &state.weights, options);
        let untracked = options.requires_grad(false);
        let running = match normalisation {
            Normalisation::Batch => Vec::new(),
            Normalisation::Running => self.running(&state.statistics, untracked),
        };
        let moments = match normalisation {
            Normalisation::Batch => Moments::Batch,
            Normalisation::Running => Moments::Running(&running),
        };
        let Output { logits, moments, .. } = parameters.forward(images, labels.len(), untracked, moments);
        let counts: Vec<usize> = moments.iter().map(|moments| moments.count).collect();
        if counts.contains(&1) {
            return Err(ModelError::SingleValue { batch: labels.len(), side: self.architecture.side() });
        }
        let moments = moments.into_iter().flat_map(|BatchMoments { mean, variance, .. }| [mean, variance]).collect();
        let loss = self.cross_entropy(logits, labels, DType::F32)?;
        let mut read = self.backward(loss, &parameters.leaves(), moments).await?;
        let moments = read.split_off(read.len().saturating_sub(2 * counts.len()));
        let mut read = read.into_iter();
        let loss = self.finite_loss(read.next())?;
        let mut gradient = Vec::with_capacity(self.layout.len());
        for data in read {
            gradient.extend_from_slice(data.as_slice::<f32>().map_err(|error| self.device_error(error))?);
        }
        self.check_gradient(&gradient, self.layout.len())?;
        let statistics = match normalisation {
            Normalisation::Batch => self.moved(&state.statistics, &moments, &counts)?,
            Normalisation::Running => state.statistics.clone(),
        };
        Ok(Step { loss, gradient, statistics })
    }

    /// Mean cross-entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient with respect to
    /// the images, in evaluation mode.
    pub async fn input_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<InputGradient, ModelError> {
        self.check(state, images, labels.len())?;
        let device = self.device.clone().autodiff();
        let options = TensorOptions { device: &device, dtype: DType::F32, requires_grad: false };
        let parameters = Parameters::new(self.architecture, &self.layout, &state.weights, options);
        let running = self.running(&state.statistics, options);
        let tracked = options.requires_grad(true);
        let Output { logits, input, .. } =
            parameters.forward(images, labels.len(), tracked, Moments::Running(&running));
        let loss = self.cross_entropy(logits, labels, DType::F32)?;
        let mut read = self.backward(loss, &[&input], Vec::new()).await?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let images = self.finite_image_gradient(read.next())?;
        Ok(InputGradient { loss, images: images.iter().map(|&value| value as f32).collect() })
    }

    /// Loss, hits and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`, in evaluation mode.
    pub async fn evaluate(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        self.check(state, images, labels.len())?;
        let logits = self.evaluated(state, images, labels.len());
        let loss = self.cross_entropy(logits.clone(), labels, DType::F32)?;
        let transaction = Transaction::default().register(loss).register(logits);
        let mut read = transaction.execute_async().await.map_err(|error| self.device_error(error))?.into_iter();
        let loss = self.finite_loss(read.next())?;
        let logits = self.finite_logits(read.next())?;
        let correct = logits
            .chunks_exact(self.architecture.classes())
            .zip(labels)
            .filter(|(row, label)| row.iter().all(|logit| *logit <= row[**label]))
            .count();
        Ok(Evaluation { loss, correct, logits })
    }

    /// Logits `[batch, classes]`, row-major, of `images` `[batch, 3, side, side]`, in evaluation mode.
    pub async fn logits(&self, state: &ModelState, images: &[f32], batch: usize) -> Result<Vec<f32>, ModelError> {
        self.check(state, images, batch)?;
        let logits = self.evaluated(state, images, batch);
        let read = logits.into_data_async().await.map_err(|error| self.device_error(error))?;
        self.finite_logits(Some(read))
    }

    fn evaluated(&self, state: &ModelState, images: &[f32], batch: usize) -> Tensor<2> {
        let options = TensorOptions { device: &self.device, dtype: DType::F32, requires_grad: false };
        let parameters = Parameters::new(self.architecture, &self.layout, &state.weights, options);
        let running = self.running(&state.statistics, options);
        parameters.forward(images, batch, options, Moments::Running(&running)).logits
    }

    fn check(&self, state: &ModelState, images: &[f32], batch: usize) -> Result<(), ModelError> {
        self.check_state(state)?;
        self.check_images(images, batch)
    }

    pub(crate) fn check_state(&self, ModelState { weights, statistics }: &ModelState) -> Result<(), ModelError> {
        self.architecture.check_statistics(statistics)?;
        let (given, expected) = (weights.len(), self.layout.len());
        if given != expected {
            return Err(ModelError::WeightCount { given, expected });
        }
        Ok(())
    }

    pub(crate) fn check_images<W>(&self, images: &[W], batch: usize) -> Result<(), ModelError> {
        if batch == 0 {
            return Err(ModelError::EmptyBatch);
        }
        // Saturation keeps an absurd batch from wrapping around to a size that fits.
        let expected = self.image_len().saturating_mul(batch);
        if images.len() != expected {
            let side = self.architecture.side();
            return Err(ModelError::ImageCount { given: images.len(), expected, batch, side });
        }
        Ok(())
    }

    /// The running statistics on the device, tensor by tensor.
    pub(crate) fn running(&self, statistics: &[f32], options: TensorOptions<'_>) -> Vec<Tensor<1>> {
        let tensor = |values: &[f32]| options.tensor(values.to_vec(), [values.len()]);
        self.statistics.iter().map(|param| tensor(&statistics[param.range.clone()])).collect()
    }

    /// running <- 0.9 running + 0.1 batch, the variance of the batch being the unbiased one here, as in PyTorch.
    fn moved(&self, statistics: &[f32], moments: &[TensorData], counts: &[usize]) -> Result<Vec<f32>, ModelError> {
        let mut moved = statistics.to_vec();
        if moments.len() != self.statistics.iter().len() {
            let (given, expected) = (moments.len(), self.statistics.iter().len());
            return Err(self.device_error(format!("{given} moments came back of {expected}")));
        }
        for (index, (param, data)) in self.statistics.iter().zip(moments).enumerate() {
            let values = data.as_slice::<f32>().map_err(|error| self.device_error(error))?;
            let count = counts.get(index / 2).map_or(1.0, |&count| count as f32);
            let unbiased = if param.name.ends_with("running_var") { count / (count - 1.0) } else { 1.0 };
            for (running, value) in moved[param.range.clone()].iter_mut().zip(values) {
                *running = (1.0 - MOMENTUM) * *running + MOMENTUM * unbiased * value;
            }
        }
        check_finite("running statistics", &moved)?;
        Ok(moved)
    }
}

/// Functions that wait for the device on the current thread.
#[cfg(not(target_family = "wasm"))]
macro_rules! blocking {
    ($($name:ident = $waited_for:ident($($argument:ident: $type:ty),+) -> $result:ty;)+) => {
        impl Network {$(
            #[doc = concat!("[`Network::", stringify!($waited_for), "`], waiting on the current thread.")]
            pub fn $name(&self, $($argument: $type),+) -> Result<$result, ModelError> {
                crate::blocking::block_on(self.$waited_for($($argument),+))
            }
        )+}
    };
}

#[cfg(not(target_family = "wasm"))]
blocking! {
    loss_and_gradient_blocking = loss_and_gradient(state: &ModelState, images: &[f32], labels: &[usize]) -> Step;
    evaluation_gradient_blocking = evaluation_gradient(state: &ModelState, images: &[f32], labels: &[usize]) -> Step;
    input_gradient_blocking = input_gradient(state: &ModelState, images: &[f32], labels: &[usize]) -> InputGradient;
    evaluate_blocking = evaluate(state: &ModelState, images: &[f32], labels: &[usize]) -> Evaluation;
    logits_blocking = logits(state: &ModelState, images: &[f32], batch: usize) -> Vec<f32>;
    train_locally_blocking = train_locally(
        state: &ModelState, images: &[f32], labels: &[usize], batch: usize, epochs: u16, rate: f32
    ) -> crate::LocalTraining;
}
