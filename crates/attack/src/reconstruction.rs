//! What an attack recovers.

use faer::{Mat, MatRef};
use unmask_core::VitConfig;

use crate::{AccumulatedRounds, Rounding, least_squares::Spectrum};

/// How an attack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It is complete, and more time would change nothing.
    #[default]
    Settled,
    /// It ran out of attempts without a reliable result.
    Unsettled,
    /// `progress` ended it before it settled.
    Ended,
}

impl Ending {
    /// A clause that says why an unseen picture proves nothing after this many seconds. `None` if the attack settled.
    pub fn because(self, seconds: f64) -> Option<String> {
        match self {
            Self::Settled => None,
            Self::Unsettled => Some("the attack did not settle from any start".to_owned()),
            Self::Ended => Some(format!("the attack was ended before it settled (after {seconds:.0} s)")),
        }
    }
}

/// A recovered picture and how well it was determined.
#[derive(Debug, Clone, PartialEq)]
pub struct Reconstruction {
    /// Pixels `[side, side, 3]`, row-major, in [0, 1].
    pub image: Vec<f32>,
    /// Smallest over largest singular value of the solved system: the relative noise or rounding at which detail is
    /// lost.
    pub singular_ratio: f64,
    pub ending: Ending,
    /// Limits of the result, in plain sentences.
    pub notes: Vec<String>,
}

/// Cuts an image `[side, side, 3]` in [0, 1] into patches `[S, L]` in [-1, 1], each a row of `[channel, y, x]`.
pub(crate) fn patches_of(image: &[f32], config: &VitConfig) -> Mat<f64> {
    let (side, size, channels) = (config.image, config.patch, VitConfig::CHANNELS);
    Mat::from_fn(config.patches(), config.patch_len(), |s, l| {
        let (top, left) = (s / config.grid() * size, s % config.grid() * size);
        let (channel, y, x) = (l / (size * size), l / size % size, l % size);
        2.0 * f64::from(image[((top + y) * side + left + x) * channels + channel]) - 1.0
    })
}

impl Reconstruction {
    /// Assembles patches `[S, L]` in the model's input space [-1, 1], each a row of `[channel, y, x]`.
    pub(crate) fn from_patches(patches: MatRef<'_, f64>, config: &VitConfig, spectrum: Spectrum) -> Self {
        let (side, size, channels) = (config.image, config.patch, VitConfig::CHANNELS);
        let mut image = vec![0.0; side * side * channels];
        for s in 0..patches.nrows() {
            let (top, left) = (s / config.grid() * size, s % config.grid() * size);
            for l in 0..patches.ncols() {
                let (channel, y, x) = (l / (size * size), l / size % size, l % size);
                let value = (0.5 * patches[(s, l)] + 0.5).clamp(0.0, 1.0);
                image[((top + y) * side + left + x) * channels + channel] = value as f32;
            }
        }
        Self { image, singular_ratio: spectrum.ratio, ending: Ending::Settled, notes: Vec::new() }
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Notes how much was hidden, and over how many rounds.
    pub(crate) fn note_hidden(&mut self, rounds: &AccumulatedRounds) {
        let hidden = 100.0 * rounds.hidden_share();
        if hidden > 0.0 {
            let seen =
                if rounds.rounds() == 1 { "This update".to_owned() } else { format!("{} updates", rounds.rounds()) };
            self.note(format!(
                "{seen} left {hidden:.1} % of the entries hidden; they were guessed together with the picture."
            ));
        }
        if rounds.has_drifted() {
            self.note("The model has moved too far since: later updates are not added.".to_owned());
        }
    }

    /// Notes the singular values that noise, `noise` times the signal, has damped.
    pub(crate) fn note_noise(&mut self, spectrum: Spectrum, noise: f64) {
        if spectrum.kept < spectrum.total {
            self.note(format!(
                "{} of {} singular values lie within the noise of the equations, {noise:.0e} of their size, and \
                 were damped: fine detail is lost.",
                spectrum.total - spectrum.kept,
                spectrum.total,
            ));
        }
    }

    /// Notes the singular values that were dropped.
    pub(crate) fn note_cutoff(&mut self, spectrum: Spectrum, rounding: Rounding) {
        if spectrum.kept < spectrum.total {
            self.note(format!(
                "{} of {} singular values lie within the rounding of {} and were left out: fine detail is lost.",
                spectrum.total - spectrum.kept,
                spectrum.total,
                rounding.name(),
            ));
        }
    }
}
