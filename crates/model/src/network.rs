//! The network as callers see it: flat slices in, flat vectors out.

use unmask_core::{Activation, Architecture, ModelState, ParamLayout, VitConfig};
use unmask_engine::{Differentiated, Engine, Normalisation, Statistics, Wanted};

#[cfg(feature = "burn")]
use crate::gpu::Gpu;
#[cfg(target_family = "wasm")]
use crate::remote::{Pass, Shared};
use crate::{Device, ModelError, error::check_finite};

/// Share of a batch in the running statistics, as in PyTorch.
const MOMENTUM: f32 = 0.1;

/// Loss and gradient of one batch, and its effect on batch norm.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub loss: f32,
    /// dl/dw, theta in the papers, `[P]`.
    pub gradient: Vec<f32>,
    /// The running statistics after this batch, `[Q]`; empty without batch norm.
    pub statistics: Vec<f32>,
}

/// Loss of one batch, and its gradient with respect to the pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct InputGradient {
    pub loss: f32,
    /// dl/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1].
    pub images: Vec<f32>,
}

/// The network's output for a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub loss: f32,
    /// Number of images with the largest logit at their label.
    pub correct: usize,
    /// `[batch, classes]`, row-major.
    pub logits: Vec<f32>,
}

/// A ViT, a ResNet or a LeNet on one device. It holds no weights; every call takes them.
///
/// Images are `f32` in [0, 1], `[batch, 3, side, side]`. The network normalises them to (x - 0.5) / 0.5. Every function
/// rejects states and images of another size, empty batches, and labels that are not a class. All except
/// [`differentiate`](Self::differentiate) also reject results that are not finite.
#[derive(Debug, Clone)]
pub struct Network {
    architecture: Architecture,
    layout: ParamLayout,
    backend: Backend,
}

#[derive(Debug, Clone)]
enum Backend {
    Cpu(Engine<f32>),
    #[cfg(feature = "burn")]
    Gpu(Gpu),
    #[cfg(target_family = "wasm")]
    Remote(Shared),
}

impl Network {
    /// Creates the network of `architecture` on `device`.
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
        let backend = match device {
            Device::Cpu => Backend::Cpu(Engine::new(architecture)),
            #[cfg(feature = "burn")]
            Device::Gpu(device) => Backend::Gpu(Gpu::new(architecture, device)),
            #[cfg(target_family = "wasm")]
            Device::Remote(remote) => Backend::Remote(remote.clone()),
        };
        Ok(Self { architecture, layout: architecture.layout(), backend })
    }

    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// Returns the order of the flat weights and gradients, `[P]`.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// Returns the engine if the network runs on the CPU.
    pub(crate) fn engine(&self) -> Option<&Engine<f32>> {
        match &self.backend {
            Backend::Cpu(engine) => Some(engine),
            #[cfg(any(feature = "burn", target_family = "wasm"))]
            _ => None,
        }
    }

    pub(crate) fn image_len(&self) -> usize {
        VitConfig::CHANNELS * self.architecture.side() * self.architecture.side()
    }

    /// Returns the mean cross entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, its gradient, and
    /// the running statistics after the batch. Batch norm uses the batch's own moments (PyTorch's training mode).
    ///
    /// # Errors
    /// Those of every function of this type, and batch norm over a single value per channel.
    pub async fn loss_and_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.step(state, images, labels, Normalisation::Batch).await
    }

    /// Like [`loss_and_gradient`](Self::loss_and_gradient), but batch norm uses the running statistics and leaves them
    /// unchanged (PyTorch's evaluation mode).
    pub async fn evaluation_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Step, ModelError> {
        self.step(state, images, labels, Normalisation::Running).await
    }

    /// Takes back the gradient of a step, so that the next step can reuse its memory. For a large network, this saves a
    /// seventh of a step's time.
    pub fn recycle(&self, gradient: Vec<f32>) {
        if let Some(engine) = self.engine() {
            engine.recycle(gradient);
        }
    }

    async fn step(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        normalisation: Normalisation,
    ) -> Result<Step, ModelError> {
        let wanted = Wanted { weights: self.layout.len(), images: false };
        let Differentiated { loss, gradient, statistics, .. } =
            self.differentiate(state, images, labels, normalisation, wanted).await?;
        if statistics.iter().any(|statistics| statistics.count == 1) {
            return Err(ModelError::SingleValue { batch: labels.len(), side: self.architecture.side() });
        }
        check_finite("loss", &[loss])?;
        if gradient.len() != self.layout.len() {
            let reason = format!("the gradient has {} values, the layout {}", gradient.len(), self.layout.len());
            return Err(ModelError::Device { device: "it computes on".to_owned(), reason });
        }
        check_gradient(&self.layout, &gradient)?;
        let statistics = match normalisation {
            Normalisation::Batch => self.moved(&state.statistics, &statistics)?,
            Normalisation::Running => state.statistics.clone(),
        };
        Ok(Step { loss, gradient, statistics })
    }

    /// Returns the loss and the `wanted` gradients. Checks the inputs, but not whether the results are finite.
    ///
    /// # Errors
    /// Those of every function of this type, and a failing device.
    pub async fn differentiate(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
        normalisation: Normalisation,
        wanted: Wanted,
    ) -> Result<Differentiated<f32>, ModelError> {
        let ModelState { weights, statistics } = state;
        self.check_state(state)?;
        self.check_images(images, labels.len())?;
        self.check_labels(labels)?;
        match &self.backend {
            Backend::Cpu(engine) => {
                Ok(engine.differentiate(weights, statistics, images, labels, normalisation, wanted))
            }
            #[cfg(feature = "burn")]
            Backend::Gpu(gpu) => gpu.differentiate(weights, statistics, images, labels, normalisation, wanted).await,
            #[cfg(target_family = "wasm")]
            Backend::Remote(remote) => {
                let pass = Pass { architecture: self.architecture, weights, statistics, images };
                remote.differentiate(pass, labels, normalisation, wanted).await.map_err(remote_error)
            }
        }
    }

    /// Returns the gradient `[P]` of <`slope`, logits> for `images` `[batch, 3, side, side]`: that of any loss with
    /// dl/d(logits) = `slope` `[batch, classes]`. `None` unless the model is a ViT that runs on the CPU.
    ///
    /// # Errors
    /// State or images do not fit, or a value of the gradient is not finite.
    pub fn gradient_along(
        &self,
        state: &ModelState,
        images: &[f32],
        slope: &[f32],
        activation: Activation,
    ) -> Result<Option<Vec<f32>>, ModelError> {
        self.check_state(state)?;
        self.check_images(images, slope.len() / self.architecture.classes())?;
        let gradient =
            self.engine().and_then(|engine| engine.gradient_along(&state.weights, images, slope, activation));
        if let Some(gradient) = &gradient {
            check_gradient(&self.layout, gradient)?;
        }
        Ok(gradient)
    }

    /// Returns the mean cross entropy of `images` `[batch, 3, side, side]` with `labels` `[batch]`, and its gradient
    /// with respect to the images, in evaluation mode.
    pub async fn input_gradient(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<InputGradient, ModelError> {
        let wanted = Wanted { weights: 0, images: true };
        let Differentiated { loss, images, .. } =
            self.differentiate(state, images, labels, Normalisation::Running, wanted).await?;
        check_finite("loss", &[loss])?;
        check_finite("gradient of the images", &images)?;
        Ok(InputGradient { loss, images })
    }

    /// Returns loss, number of correct images, and logits of `images` `[batch, 3, side, side]` with `labels` `[batch]`,
    /// in evaluation mode.
    pub async fn evaluate(
        &self,
        state: &ModelState,
        images: &[f32],
        labels: &[usize],
    ) -> Result<Evaluation, ModelError> {
        self.check_labels(labels)?;
        let logits = self.logits(state, images, labels.len()).await?;
        let mut total = 0.0;
        let mut correct = 0;
        for (row, &label) in logits.chunks_exact(self.architecture.classes()).zip(labels) {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = row.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
            total += sum.ln() - f64::from(row[label] - largest);
            correct += usize::from(row.iter().all(|&logit| logit <= row[label]));
        }
        let loss = (total / labels.len() as f64) as f32;
        check_finite("loss", &[loss])?;
        Ok(Evaluation { loss, correct, logits })
    }

    /// Returns logits `[batch, classes]`, row-major, of `images` `[batch, 3, side, side]`, in evaluation mode.
    pub async fn logits(&self, state: &ModelState, images: &[f32], batch: usize) -> Result<Vec<f32>, ModelError> {
        let ModelState { weights, statistics } = state;
        self.check_state(state)?;
        self.check_images(images, batch)?;
        let logits = match &self.backend {
            Backend::Cpu(engine) => engine.logits(weights, statistics, images, batch),
            #[cfg(feature = "burn")]
            Backend::Gpu(gpu) => gpu.logits(weights, statistics, images, batch).await?,
            #[cfg(target_family = "wasm")]
            Backend::Remote(remote) => {
                let pass = Pass { architecture: self.architecture, weights, statistics, images };
                remote.logits(pass, batch).await.map_err(remote_error)?
            }
        };
        check_finite("logits", &logits)?;
        Ok(logits)
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
        // Saturate so that an absurd batch cannot wrap around to a matching size.
        let expected = self.image_len().saturating_mul(batch);
        if images.len() != expected {
            let side = self.architecture.side();
            return Err(ModelError::ImageCount { given: images.len(), expected, batch, side });
        }
        Ok(())
    }

    pub(crate) fn check_labels(&self, labels: &[usize]) -> Result<(), ModelError> {
        let classes = self.architecture.classes();
        match labels.iter().enumerate().find(|(_, label)| **label >= classes) {
            Some((image, &label)) => Err(ModelError::Label { image, label, classes }),
            None => Ok(()),
        }
    }

    /// Computes running <- 0.9 running + 0.1 batch. As in PyTorch, the batch's variance is unbiased here.
    fn moved(&self, running: &[f32], of_batch: &[Statistics<f32>]) -> Result<Vec<f32>, ModelError> {
        let mut moved = running.to_vec();
        let values = of_batch.iter().flat_map(|Statistics { mean, variance, count }| {
            let count = *count as f32;
            let unbiased = variance.iter().map(move |variance| count / (count - 1.0) * variance);
            mean.iter().copied().chain(unbiased)
        });
        for (running, value) in moved.iter_mut().zip(values) {
            *running = (1.0 - MOMENTUM) * *running + MOMENTUM * value;
        }
        check_finite("running statistics", &moved)?;
        Ok(moved)
    }
}

/// Rejects a gradient with a value that is not finite, by the name of its parameter. The gradient may cover only the
/// first parameters.
pub(crate) fn check_gradient<W: Copy + Into<f64>>(layout: &ParamLayout, gradient: &[W]) -> Result<(), ModelError> {
    for param in layout.iter().take_while(|param| param.range.end <= gradient.len()) {
        check_finite(&format!("gradient of {}", param.name), &gradient[param.range.clone()])?;
    }
    Ok(())
}

#[cfg(target_family = "wasm")]
fn remote_error(reason: String) -> ModelError {
    ModelError::Device { device: "WebGPU".to_owned(), reason }
}

/// Defines functions that block the current thread while the device works.
macro_rules! blocking {
    ($($name:ident = $waited_for:ident($($argument:ident: $type:ty),+) -> $result:ty;)+) => {
        impl Network {$(
            #[doc = concat!("[`Network::", stringify!($waited_for), "`], blocking the current thread.")]
            pub fn $name(&self, $($argument: $type),+) -> Result<$result, ModelError> {
                crate::blocking::block_on(self.$waited_for($($argument),+))
            }
        )+}
    };
}

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
