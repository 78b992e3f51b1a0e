//! What speaks for a picture.

use faer::Mat;
use unmask_core::VitConfig;

use super::{
    block::Block,
    levels::Levels,
    patch_space::PatchSpace,
    refine::{residuals_to_spans, tokens_of_patches},
    spans::Spans,
};
use crate::{Reconstruction, Rounding, least_squares::Spectrum};

/// Largest distance of any value of a certain picture from a whole grey level. Without knowledge it is uniform up to
/// 0.5, and a picture has hundreds of values.
const MOST_OFF: f64 = 0.35;
/// Largest such distance in the mean square. Without knowledge it is 0.29.
const OFF: f64 = 0.1;
/// Largest residual of the class token of a picture in the batch, in units of the gradient's
/// [cutoff](crate::Rounding::cutoff). The class token mixes all patches, and its own trace is the strongest: true ones have
/// 4 to 10 in f32.
const CLASS_RESIDUAL: f64 = 64.0;
/// The same for a picture of whole grey levels, for which they speak. Once others are peeled off, their rounding weighs
/// more.
const CLASS_RESIDUAL_ON_GRID: f64 = 4096.0;
/// The same holds for a class token that the noise of the gradients explains: times what is expected of it. True ones
/// have up to 7, those of other pictures 15 and more.
const MOST_NOISE: f64 = 10.0;
/// Smallest such limit: sums in f64 are not exact either.
const LEAST_LIMIT: f64 = 1e-9;
/// The same for a picture of whole grey levels: training code normalises pictures in f32, whatever the gradient's type.
const LEAST_LIMIT_ON_GRID: f64 = 1e-6;
/// Largest such limit. Coarse numbers such as f16 would else allow any picture.
const MOST_LIMIT: f64 = 1e-3;
/// Largest residual of the tokens in the mean square. Tokens of flat patches drown in the rounding of f32; those of
/// pictures outside the batch have 0.25 and more.
const RESIDUAL: f64 = 0.05;
/// Root mean square difference of pixels below which two pictures are one.
const SAME: f64 = 0.05;

/// One picture of the batch, and what speaks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchPicture {
    /// Pixels `[side, side, 3]`, row-major, in [0, 1]. Those of a certain picture are rounded to whole grey levels.
    pub image: Vec<f32>,
    /// Whether every value lies near a whole grey level, as in a photograph of 8 bits, and the picture with these
    /// values fits the update. Equations that are solved wrongly leave values anywhere.
    pub is_certain: bool,
    /// Whether the picture fits the update, whether or not it is made of 8-bit values.
    pub fits: bool,
    /// Its label, if the model could be run and the last block's gradient shows it.
    pub label: Option<usize>,
    /// Root mean square distance of the values from whole grey levels, before rounding; 0.29 if nothing is known.
    pub off_grid: f64,
    /// Length of the class token behind attention outside the tokens of the update, relative to it: about 1e-12 for
    /// gradients in f64 and 1e-6 in f32.
    pub class_residual: f64,
    /// Root mean square of the same over all tokens. Flat patches have similar tokens, and rounding drowns them first.
    pub residual: f64,
}

impl BatchPicture {
    /// Whether the other picture looks the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let squares = self.image.iter().zip(&other.image).map(|(a, b)| f64::from(a - b).powi(2));
        (squares.sum::<f64>() / self.image.len().max(1) as f64).sqrt() < SAME
    }
}

/// A picture's patches and the evidence for them.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) picture: BatchPicture,
    /// Patches `[L, S]` in [-1, 1], rounded if certain.
    pub(super) patches: Mat<f64>,
    /// Share of its gradient in the update, once the label is known: 1 / B, or twice that if the picture is there twice.
    pub(super) weight: f64,
}

/// Patches at whole grey levels, and how far the given ones are from them, in levels, both `[L, S]`.
fn snapped(levels: &Levels, patches: &Mat<f64>) -> (Mat<f64>, Mat<f64>) {
    let channel = |l: usize| l * VitConfig::CHANNELS / patches.nrows();
    let level = |l: usize, s: usize| levels.level(patches[(l, s)], channel(l));
    let (rows, columns) = (patches.nrows(), patches.ncols());
    (
        Mat::from_fn(rows, columns, |l, s| levels.input(level(l, s), channel(l))),
        Mat::from_fn(rows, columns, |l, s| level(l, s) - level(l, s).round().clamp(0.0, 255.0)),
    )
}

/// Patches `[L, S]` at whole grey levels, and the row, the column and the second nearest level of each value that is
/// further than `doubtful` from the nearest.
pub(super) fn on_grid(levels: &Levels, patches: &Mat<f64>, doubtful: f64) -> (Mat<f64>, Vec<(usize, usize, f64)>) {
    let (rounded, off) = snapped(levels, patches);
    let mut doubts = Vec::new();
    for s in 0..patches.ncols() {
        for l in 0..patches.nrows() {
            let channel = l * VitConfig::CHANNELS / patches.nrows();
            let level = levels.level(patches[(l, s)], channel);
            if off[(l, s)].abs() > doubtful && (0.0..=255.0).contains(&level) {
                doubts.push((l, s, levels.input(level.round() + off[(l, s)].signum(), channel)));
            }
        }
    }
    (rounded, doubts)
}

/// The same picture with these patches, which are certain.
pub(super) fn settled(config: &VitConfig, one: &Judged, patches: &Mat<f64>) -> Judged {
    let spectrum = Spectrum { ratio: 1.0, kept: 1, total: 1 };
    let image = Reconstruction::from_patches(patches.transpose(), config, spectrum).image;
    Judged {
        picture: BatchPicture { image, is_certain: true, fits: true, ..one.picture.clone() },
        patches: patches.clone(),
        weight: one.weight,
    }
}

/// Judges patches `[L, S]` in [-1, 1] by gradients of this `rounding`.
pub(super) fn judge(
    rounding: Rounding,
    config: &VitConfig,
    block: &Block,
    space: &PatchSpace,
    spans: &Spans,
    levels: &Levels,
    patches: Mat<f64>,
) -> Judged {
    let (rounded, off) = snapped(levels, &patches);
    let most_off = off.norm_max();
    let off_grid = off.norm_l2() / ((patches.nrows() * patches.ncols()) as f64).sqrt();
    let spectrum = Spectrum { ratio: 1.0, kept: 1, total: 1 };
    let picture = |patches: &Mat<f64>, limit: f64, least: f64| {
        let residuals = residuals_to_spans(block, spans, tokens_of_patches(space, patches).as_ref());
        let squares: f64 = residuals.iter().map(|residual| residual.relative.powi(2)).sum();
        let class_residual = residuals.first().map_or(f64::INFINITY, |class| class.relative);
        let residual = (squares / residuals.len() as f64).sqrt();
        // What others left when they were peeled off may be more noise than the gradient's own.
        let is_noise = residuals.first().is_some_and(|class| class.by_noise < MOST_NOISE);
        let limit = if is_noise { CLASS_RESIDUAL_ON_GRID } else { limit };
        BatchPicture {
            image: Reconstruction::from_patches(patches.transpose(), config, spectrum).image,
            is_certain: false,
            off_grid,
            fits: class_residual < (limit * rounding.cutoff()).clamp(least, MOST_LIMIT) && residual < RESIDUAL,
            label: None,
            class_residual,
            residual,
        }
    };
    let whole = picture(&rounded, CLASS_RESIDUAL_ON_GRID, LEAST_LIMIT_ON_GRID);
    if most_off < MOST_OFF && off_grid < OFF && whole.fits {
        return Judged { picture: BatchPicture { is_certain: true, ..whole }, patches: rounded, weight: 0.0 };
    }
    Judged { picture: picture(&patches, CLASS_RESIDUAL, LEAST_LIMIT), patches, weight: 0.0 }
}
