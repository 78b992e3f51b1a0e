//! The two entries: a pass with gradients, and one without.

use unmask_core::Architecture;

use crate::{
    batch_norm::Moments,
    buffer::{Buffer, Pool},
    lenet::{self, Lenet},
    loss::cross_entropy,
    parallel::inside,
    real::Real,
    resnet::{self, Resnet},
    vit::{self, Vit},
};

/// What batch norm normalises by. Without batch norm the two are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalisation {
    /// The batch's own moments: PyTorch's training mode.
    Batch,
    /// The running statistics: PyTorch's evaluation mode. Inverting Gradients (Geiping et al., NeurIPS 2020) attacks
    /// gradients of this kind.
    Running,
}

/// Which gradients are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Of how many of the first weights. It is the end of a parameter: the gradient of one that lies across it is zero.
    pub weights: usize,
    pub images: bool,
}

/// Loss and gradients of a batch.
#[derive(Debug, Clone)]
pub struct Differentiated<R> {
    /// Mean cross entropy.
    pub loss: R,
    /// dl/dw of as many weights as were wanted.
    pub gradient: Vec<R>,
    /// dl/d(images), `[batch, 3, side, side]`, per unit of images in [0, 1]; empty unless wanted.
    pub images: Vec<R>,
    /// Of each batch norm, where it normalised by its batch.
    pub statistics: Vec<Statistics<R>>,
}

/// The moments of a batch at one batch norm, in the order of the flat statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics<R> {
    /// `[channels]`
    pub mean: Vec<R>,
    /// `[channels]`, biased.
    pub variance: Vec<R>,
    /// Over how many values a channel.
    pub count: usize,
}

/// A network on the processor. Copies share the memory of their steps.
#[derive(Debug, Clone)]
pub struct Engine<R> {
    architecture: Architecture,
    pool: Pool<R>,
}

/// A gradient of a ViT with all that was computed on the way, so that it can be asked how it changes.
pub struct Recording<R: Real> {
    /// dl/dw of as many weights as were wanted.
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

/// The entries for each number type. Generic ones would be compiled again in every crate that calls them, loops and all.
macro_rules! entries {
    ($($real:ident)+) => {$(
        impl Engine<$real> {
            /// Logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1] at `weights` `[P]`, with the running `statistics` `[Q]`.
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

            /// Mean cross entropy of `images` `[batch, 3, side, side]` in [0, 1] with `labels` `[batch]` at `weights` `[P]`, and its gradients.
            /// `statistics` `[Q]` are read with [`Normalisation::Running`].
            ///
            /// # Panics
            /// If a slice has another length, or a label is no class.
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

            /// The gradient of the first `wanted` weights as [`differentiate`](Self::differentiate) gives it, with what
            /// [`input_slope_along`](Self::input_slope_along) needs; `None` for what is no ViT.
            ///
            /// # Panics
            /// If a slice has another length, or a label is no class.
            pub fn record(
                &self,
                weights: &[$real],
                images: &[$real],
                labels: &[usize],
                wanted: usize,
            ) -> Option<Recording<$real>> {
                inside(|| self.record_in(weights, images, labels, wanted))
            }

            /// d<dl/dw, `direction`>/d(images), `[batch, 3, side, side]` per unit of images in [0, 1]: how dl/d(images) changes while the first
            /// weights move along `direction`, which ends with a parameter. Exact, by forward over reverse.
            ///
            /// # Panics
            /// If a slice has another length. The recording is of this engine's architecture.
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

impl<R: Real> Engine<R> {
    /// `architecture` has classes, and images with pixels.
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
                Vit { config, batch, pool }.backward(weights, pass, &slope, &mut gradient, room);
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
            // A pass is of the architecture that made it.
            _ => {}
        }
        Differentiated { loss, gradient, images: by_images, statistics }
    }

    /// Takes a gradient that is no longer needed, so that the next step has memory that is in place already.
    pub fn recycle(&self, gradient: Vec<R>) {
        self.pool.keep(gradient);
    }

    fn record_in(&self, weights: &[R], images: &[R], labels: &[usize], wanted: usize) -> Option<Recording<R>> {
        let Architecture::Vit(config) = &self.architecture else { return None };
        let (vit, mut gradient) = (Vit { config, batch: labels.len(), pool: &self.pool }, self.pool.give(wanted));
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
            let vit = Vit { config, batch: labels.len(), pool: &self.pool };
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
            Architecture::Vit(config) => Pass::Vit(Vit { config, batch, pool }.forward(weights, images, tracked)),
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
