//! How a relay that sees only sums finds a cut that leaves one picture, over rounds in which clients compute from the same
//! pictures.

use serde::{Deserialize, Serialize};
use unmask_core::{ParamLayout, VitConfig};

use super::gate::{Cut, class_token, feature_fishing};
use crate::{AttackError, class_token_gradient, fishing};

/// The share of one picture's gradient that its class token leaves unexplained: rounding, and what is left of silent
/// pictures.
const ONE_PICTURE: f64 = 1e-5;
/// Least share of the unexplained part that lies in one direction if another picture is in it. The step of a secure sum's
/// numbers leaves more than rounding does, but in all directions.
const ONE_DIRECTION: f64 = 0.3;
/// More than the step of numbers leaves unexplained. Many pictures together have many directions.
const NOISE: f64 = 1e-3;
/// Nearest cuts of a search. A picture must lie 6e-5 from a cut.
const RESOLUTION: f64 = 1e-4;
/// Steps of the power iteration for that direction.
const POWERS: usize = 8;
/// Size of a gradient whose pictures are all silent, as a share of the gradient without a cut.
const SILENT: f64 = 1e-3;
/// First distance between two cuts where only one side is known. It doubles with each cut.
const STEP: f64 = 0.05;

/// The search for a cut of one feature. It begins without a cut.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CutSearch {
    /// Seed of the feature.
    seed: u64,
    at: Option<f64>,
    /// The highest cut below which there is no picture.
    none_below: Option<f64>,
    /// The lowest cut below which there are several.
    several_below: Option<f64>,
    /// Size of the gradient without a cut.
    size: Option<f64>,
    step: f64,
}

impl CutSearch {
    /// `seed` draws the feature.
    pub fn new(seed: u64) -> Self {
        Self { seed, at: None, none_below: None, several_below: None, size: None, step: STEP }
    }

    /// A search with another feature.
    #[must_use]
    pub fn with_another_feature(self) -> Self {
        Self::new(self.seed.wrapping_add(1))
    }

    pub fn is_cut(self) -> bool {
        self.at.is_some()
    }

    /// The weights to send.
    ///
    /// # Errors
    /// Those of [`fishing`] and [`feature_fishing`].
    pub fn weights(self, config: &VitConfig, weights: &[f32], class: usize) -> Result<Vec<f32>, AttackError> {
        match self.at {
            Some(at) => {
                let mut cut = Cut::random(config.dim, self.seed);
                cut.at = at;
                feature_fishing(config, weights, class, &cut)
            }
            None => fishing(config, weights, class),
        }
    }

    /// What to try after the gradient `[P]` of a sum at these weights; `None` if it is of one picture, or of none without
    /// a cut.
    ///
    /// Of one picture, dl/d(fc1.weight) of the last block is d hᵀ, where d is dl/d(fc1.bias). Of several pictures the
    /// quotient is a mixture of their h, which explains it only in part and often lies between them.
    #[must_use]
    pub fn after(self, config: &VitConfig, gradient: &[f32]) -> Option<Self> {
        let [size, left, mean] = self.read(config, gradient)?;
        let all = self.size.unwrap_or(size);
        let is_silent = size <= SILENT * all;
        if !is_silent && left <= ONE_PICTURE * size || all == 0.0 {
            return None;
        }
        let mut next = Self { size: Some(all), ..self };
        if is_silent {
            next.none_below = self.at;
        } else {
            next.several_below = self.at;
        }
        if let (Some(none), Some(several)) = (next.none_below, next.several_below)
            && several - none < RESOLUTION
        {
            return Some(self.with_another_feature());
        }
        let is_between = |at: &f64| {
            next.none_below.is_none_or(|none| none < *at) && next.several_below.is_none_or(|several| *at < several)
        };
        let (mean, step) = (Some(mean).filter(|mean| !is_silent && is_between(mean)), next.step);
        next.at = mean.or_else(|| {
            next.step *= 2.0;
            Some(match (next.none_below, next.several_below) {
                (Some(none), Some(several)) => f64::midpoint(none, several),
                (Some(none), None) => none + step,
                (None, several) => several? - step,
            })
        });
        Some(next)
    }

    /// Size of the gradient of the last block's first layer; size of another direction in it than that of one class token,
    /// 0 if the rest is noise; and the feature of that token.
    fn read(self, config: &VitConfig, gradient: &[f32]) -> Option<[f64; 3]> {
        let (layout, name) = (ParamLayout::vit(config), class_token_gradient(config).ok()?);
        let wide = |name: &str| Some(layout.slice(gradient, name)?.iter().map(|&value| f64::from(value)));
        let values: Vec<f64> = wide(&name)?.collect();
        let biases: Vec<f64> = wide(&name.replace("weight", "bias"))?.collect();
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let token = class_token(config, gradient).unwrap_or_else(|| vec![0.0; config.dim]);
        let explained = biases.iter().flat_map(|bias| token.iter().map(move |value| bias * value));
        let rest: Vec<f64> = values.iter().zip(explained).map(|(value, explained)| value - explained).collect();
        let (size, left) = (norm(&values), norm(&rest));
        let is_noise = left <= NOISE * size && largest(&rest, config.dim) < ONE_DIRECTION * left.powi(2);
        let feature = Cut::random(config.dim, self.seed).feature(&token);
        Some([size, if is_noise { 0.0 } else { left }, feature])
    }
}

/// Nearly the square of the largest singular value of a matrix `[rows, dim]`.
fn largest(matrix: &[f64], dim: usize) -> f64 {
    // Any start will do that is not orthogonal to the wanted direction.
    let mut vector: Vec<f64> = (0..dim).map(|at| 1.0 + (at % 7) as f64).collect();
    let mut square = 0.0;
    for _ in 0..POWERS {
        let mut next = vec![0.0; dim];
        for row in matrix.chunks_exact(dim) {
            let along: f64 = row.iter().zip(&vector).map(|(value, part)| value * part).sum();
            next.iter_mut().zip(row).for_each(|(sum, value)| *sum += along * value);
        }
        let length = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
        square = length(&next) / length(&vector);
        vector = next;
    }
    square
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::VitPreset;

    use super::*;
    use crate::doctored::{
        gate::tests::{gradient, initial, picture},
        tests::apart,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        /// Whatever the pictures are, one of those of the class is left after a few rounds.
        #[test]
        fn one_picture_is_left(seed in 0_u64..1000, of_class in 1_usize..14, others in 0_usize..4) {
            let config = VitConfig::from(VitPreset::Pico);
            let weights = initial(&config, seed);
            let count = of_class + others;
            let images: Vec<Vec<f32>> = (0..count).map(|k| picture(&config, 100 * seed + k as u64)).collect();
            let labels: Vec<usize> = (0..count).map(|k| if k < of_class { 3 } else { 4 + k % 5 }).collect();
            let mut search = CutSearch::new(seed);
            let mut rounds = 1;
            let (sent, sum) = loop {
                let sent = search.weights(&config, &weights, 3).unwrap();
                let sum = gradient(&config, &sent, &images.concat(), &labels);
                let Some(next) = search.after(&config, &sum) else { break (sent, sum) };
                search = next;
                rounds += 1;
                prop_assert!(rounds <= 20, "{search:?}");
            };
            prop_assert_eq!(search.is_cut(), of_class > 1);
            let of = |k: usize| {
                let alone = gradient(&config, &sent, &images[k], &[3]);
                apart(&config, &alone.into_iter().map(|value| value / count as f32).collect::<Vec<f32>>(), &sum)
            };
            let nearest = (0..of_class).map(of).fold(f64::INFINITY, f64::min);
            prop_assert!(nearest < 1e-2, "{nearest} after {rounds} rounds");
        }
    }

    #[test]
    fn a_sum_without_the_class_is_not_cut() {
        let config = VitConfig::from(VitPreset::Pico);
        let weights = initial(&config, 1);
        let search = CutSearch::new(1);
        let sent = search.weights(&config, &weights, 3).unwrap();
        let sum = gradient(&config, &sent, &[picture(&config, 1), picture(&config, 2)].concat(), &[4, 5]);
        assert_eq!(search.after(&config, &sum), None);
    }

    #[test]
    fn cuts_stay_between_those_of_before() {
        let config = VitConfig::from(VitPreset::Pico);
        let silent = vec![0.0; ParamLayout::vit(&config).len()];
        let cut = |none_below, several_below| CutSearch {
            at: Some(0.5),
            size: Some(1.0),
            none_below,
            several_below,
            ..CutSearch::new(1)
        };
        assert_eq!(cut(None, Some(0.75)).after(&config, &silent).unwrap().at, Some(0.625));
        let outward = cut(None, None).after(&config, &silent).unwrap();
        assert_eq!((outward.at, outward.none_below, outward.step), (Some(0.55), Some(0.5), 0.1));
    }
}
