//! The public entry points: logits, gradients, and mixed second derivatives.

use unmask_core::{Activation, Architecture, VitConfig};

use crate::{
    batch_norm::{Moments, Normalisation},
    buffer::{Buffer, Pool},
    lenet::{self, Lenet},
    loss::cross_entropy,
    parallel::inside,
    real::Real,
    resnet::{self, Resnet},
    vit::{self, Vit},
};

#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Number of weights, from the first. It should end with a parameter: one that is cut in two gets a zero gradient.
    pub weights: usize,
    pub images: bool,
}

#[derive(Debug, Clone)]
pub struct Differentiated<R> {
    /// Mean cross entropy.
    pub loss: R,
    /// dl/dw of the requested weights.
    pub gradient: Vec<R>,
    /// dl/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1]; empty unless requested.
    pub images: Vec<R>,
    /// One entry per batch norm that normalised by its batch.
    pub statistics: Vec<Statistics<R>>,
}

/// A batch's moments at one batch norm, in the order of the flat statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics<R> {
    /// `[channels]`
    pub mean: Vec<R>,
    /// `[channels]`, biased.
    pub variance: Vec<R>,
    /// Values per channel.
    pub count: usize,
}

/// A network on the CPU. Clones share one buffer pool.
#[derive(Debug, Clone)]
pub struct Engine<R> {
    architecture: Architecture,
    pool: Pool<R>,
}

/// The gradient of a ViT with all intermediate values, for [`Engine::input_slope_along`].
pub struct Recording<R: Real> {
    /// dl/dw of the requested weights.
    pub gradient: Vec<R>,
    labels: Vec<usize>,
    images: usize,
    tape: vit::Tape<R>,
}

enum Pass<R: Real> {
    Vit(vit::Pass<R>),
    Resnet(resnet::Pass<R>),
    Lenet(lenet::Pass<R>),
}

impl<R: Real> Pass<R> {
    fn logits(&self) -> &Buffer<R> {
        match self {
            Self::Vit(pass) => &pass.logits,
            Self::Resnet(pass) => &pass.logits,
            Self::Lenet(pass) => &pass.logits,
        }
    }
}

/// Concrete entry points per number type. Generic ones would be compiled again, with all their loops, in every crate
/// that calls them.
macro_rules! entries {
    ($($real:ident)+) => {$(
        impl Engine<$real> {
            /// Returns logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1] at `weights` `[P]`,
            /// with the running `statistics` `[Q]`.
            ///
            /// # Panics
            /// If a slice has another length.
            pub fn logits(
                &self,
                weights: &[$real],
                statistics: &[$real],
                images: &[$real],
                batch: usize,
            ) -> Vec<$real> {
                inside(|| self.logits_in(weights, statistics, images, batch))
            }

            /// Returns the mean cross entropy of `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]` at
            /// `weights` `[P]`, and its gradients. Reads `statistics` `[Q]` only with [`Normalisation::Running`].
            ///
            /// # Panics
            /// If a slice has another length, or a label is not a class.
            pub fn differentiate(
                &self,
                weights: &[$real],
                statistics: &[$real],
                images: &[$real],
                labels: &[usize],
                normalisation: Normalisation,
                wanted: Wanted,
            ) -> Differentiated<$real> {
                inside(|| self.differentiate_in(weights, statistics, images, labels, normalisation, wanted))
            }

            /// Returns the gradient `[P]` of <`slope`, logits> at `weights` `[P]`: that of any loss with dl/d(logits) =
            /// `slope` `[batch, classes]`. `None` if the model is not a ViT.
            ///
            /// # Panics
            /// If a slice has another length.
            pub fn gradient_along(
                &self,
                weights: &[$real],
                images: &[$real],
                slope: &[$real],
                activation: Activation,
            ) -> Option<Vec<$real>> {
                inside(|| self.gradient_along_in(weights, images, slope, activation))
            }

            /// Computes the same gradient of the first `wanted` weights as [`differentiate`](Self::differentiate), and
            /// keeps what [`input_slope_along`](Self::input_slope_along) needs. `None` if the model is not a ViT.
            ///
            /// # Panics
            /// If a slice has another length, or a label is not a class.
            pub fn record(
                &self,
                weights: &[$real],
                images: &[$real],
                labels: &[usize],
                wanted: usize,
            ) -> Option<Recording<$real>> {
                inside(|| self.record_in(weights, images, labels, wanted))
            }

            /// Returns d<dl/dw, `direction`>/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1]: the
            /// derivative of dl/d(images) along `direction`. `direction` covers the first weights and ends with a
            /// parameter. Exact, by forward mode over reverse mode.
            ///
            /// The recording must come from this engine's architecture.
            ///
            /// # Panics
            /// If a slice has another length.
            pub fn input_slope_along(
                &self,
                weights: &[$real],
                recording: &Recording<$real>,
                direction: &[$real],
            ) -> Vec<$real> {
                inside(|| self.input_slope_along_in(weights, recording, direction))
            }
        }
    )+};
}

entries!(f32 f64);

/// The network as it trains.
fn vit<'a, R: Real>(config: &'a VitConfig, batch: usize, pool: &'a Pool<R>) -> Vit<'a, R> {
    Vit { config, activation: Activation::Gelu, batch, pool }
}

impl<R: Real> Engine<R> {
    /// `architecture` must have at least one class and one pixel.
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture, pool: Pool::default() }
    }

    fn logits_in(&self, weights: &[R], statistics: &[R], images: &[R], batch: usize) -> Vec<R> {
        self.forward(weights, statistics, images, batch, Normalisation::Running, false).logits().to_vec()
    }

    fn differentiate_in(
        &self,
        weights: &[R],
        statistics: &[R],
        images: &[R],
        labels: &[usize],
        normalisation: Normalisation,
        wanted: Wanted,
    ) -> Differentiated<R> {
        let (batch, pool) = (labels.len(), &self.pool);
        let pass = self.forward(weights, statistics, images, batch, normalisation, true);
        let statistics = match &pass {
            Pass::Resnet(pass) if normalisation == Normalisation::Batch => pass.moments().map(statistics_of).collect(),
            _ => Vec::new(),
        };
        let mut slope = pool.take(pass.logits().len());
        slope.copy_from_slice(pass.logits());
        let loss = cross_entropy(&mut slope, labels);
        let mut gradient = pool.give(wanted.weights);
        let mut by_images = vec![R::ZERO; if wanted.images { images.len() } else { 0 }];
        let room = wanted.images.then_some(by_images.as_mut_slice());
        match (&self.architecture, pass) {
            (Architecture::Vit(config), Pass::Vit(pass)) => {
                vit(config, batch, pool).backward(weights, pass, &slope, &mut gradient, room);
            }
            (Architecture::Resnet(spec), Pass::Resnet(pass)) => {
                Resnet { spec, batch, normalisation, tracked: true, pool }.backward(
                    weights,
                    pass,
                    &slope,
                    &mut gradient,
                    room,
                );
            }
            (Architecture::Lenet(config), Pass::Lenet(pass)) => {
                Lenet { config, batch, pool }.backward(weights, pass, &slope, &mut gradient, room);
            }
            // A pass always matches its architecture.
            _ => {}
        }
        Differentiated { loss, gradient, images: by_images, statistics }
    }

    /// Takes back a gradient, so that the next step can reuse its memory.
    pub fn recycle(&self, gradient: Vec<R>) {
        self.pool.keep(gradient);
    }

    fn gradient_along_in(&self, weights: &[R], images: &[R], slope: &[R], activation: Activation) -> Option<Vec<R>> {
        let Architecture::Vit(config) = &self.architecture else { return None };
        let vit = Vit { activation, ..vit(config, slope.len() / config.classes, &self.pool) };
        let pass = vit.forward(weights, images, true);
        let mut gradient = vec![R::ZERO; weights.len()];
        vit.backward(weights, pass, slope, &mut gradient, None);
        Some(gradient)
    }

    fn record_in(&self, weights: &[R], images: &[R], labels: &[usize], wanted: usize) -> Option<Recording<R>> {
        let Architecture::Vit(config) = &self.architecture else { return None };
        let (vit, mut gradient) = (vit(config, labels.len(), &self.pool), self.pool.give(wanted));
        let pass = vit.forward(weights, images, true);
        let mut slope = self.pool.copy(&pass.logits);
        cross_entropy(&mut slope, labels);
        let tape = vit.record(weights, pass, slope, &mut gradient);
        Some(Recording { gradient, labels: labels.to_vec(), images: images.len(), tape })
    }

    fn input_slope_along_in(&self, weights: &[R], recording: &Recording<R>, direction: &[R]) -> Vec<R> {
        let mut by_images = vec![R::ZERO; recording.images];
        if let Architecture::Vit(config) = &self.architecture {
            let labels = &recording.labels;
            let vit = vit(config, labels.len(), &self.pool);
            vit.input_slope_along(weights, &recording.tape, labels, direction, &mut by_images);
        }
        by_images
    }

    fn forward(
        &self,
        weights: &[R],
        statistics: &[R],
        images: &[R],
        batch: usize,
        normalisation: Normalisation,
        tracked: bool,
    ) -> Pass<R> {
        let pool = &self.pool;
        match &self.architecture {
            Architecture::Vit(config) => Pass::Vit(vit(config, batch, pool).forward(weights, images, tracked)),
            Architecture::Resnet(spec) => {
                Pass::Resnet(Resnet { spec, batch, normalisation, tracked, pool }.forward(weights, statistics, images))
            }
            Architecture::Lenet(config) => Pass::Lenet(Lenet { config, batch, pool }.forward(weights, images)),
        }
    }
}

fn statistics_of<R: Real>((moments, count): (&[Moments<R>], usize)) -> Statistics<R> {
    Statistics {
        mean: moments.iter().map(|moments| moments.mean).collect(),
        variance: moments.iter().map(|moments| moments.variance).collect(),
        count,
    }
}
