//! The pixel space of a model.

use std::borrow::Cow;

use unmask_attack::Levels;
use unmask_core::VitConfig;

const CHANNELS: usize = VitConfig::CHANNELS;

/// The normalisation of pixels in [0, 1] before the model: x = (pixel - mean) / std, per channel.
///
/// Attacks assume (pixel - 0.5) / 0.5 and search for inputs in [-1, 1]. With another normalisation, inputs may cover
/// [-k, k]. A first layer with weights k W maps x / k to what W makes of x, and its gradient is that of W divided by k.
/// Attacks get this scaled layer, and x = k (2 found - 1) converts their result back to pixels. A single factor for all
/// values does not affect masks, zeros, the padding of convolutions or linear encryption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelSpace {
    mean: [f64; CHANNELS],
    std: [f64; CHANNELS],
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PixelError {
    #[error("--{what} has {given} numbers; give one for all channels, or three, such as {example}")]
    Count { what: &'static str, given: usize, example: &'static str },
    #[error("--mean {value} is no mean of pixels in [0, 1]; divide means of 0 to 255 by 255")]
    Mean { value: f64 },
    #[error("--std {value} is no deviation of pixels in [0, 1]; give a number above 0 and at most 1")]
    Std { value: f64 },
}

/// The normalisation of this project's models.
impl Default for PixelSpace {
    fn default() -> Self {
        Self { mean: [0.5; CHANNELS], std: [0.5; CHANNELS] }
    }
}

impl PixelSpace {
    /// Takes one number for all channels, or one each for red, green and blue. Empty slices mean 0.5.
    ///
    /// # Errors
    /// [`PixelError`] names the invalid number.
    pub fn new(mean: &[f64], std: &[f64]) -> Result<Self, PixelError> {
        let three = |what, given: &[f64], example| match *given {
            [] => Ok([0.5; CHANNELS]),
            [one] => Ok([one; CHANNELS]),
            [red, green, blue] => Ok([red, green, blue]),
            _ => Err(PixelError::Count { what, given: given.len(), example }),
        };
        let mean = three("mean", mean, "0.485,0.456,0.406")?;
        let std = three("std", std, "0.229,0.224,0.225")?;
        if let Some(&value) = mean.iter().find(|value| !(0.0..=1.0).contains(*value)) {
            return Err(PixelError::Mean { value });
        }
        // Below a thousandth, only rounding would be left of a picture.
        if let Some(&value) = std.iter().find(|value| !(0.001..=1.0).contains(*value)) {
            return Err(PixelError::Std { value });
        }
        Ok(Self { mean, std })
    }

    /// Returns k, the largest input for a pixel in [0, 1]; 1 for (pixel - 0.5) / 0.5.
    pub(crate) fn reach(&self) -> f64 {
        let largest = |(mean, std): (&f64, &f64)| mean.max(1.0 - mean) / std;
        self.mean.iter().zip(&self.std).map(largest).fold(0.0, f64::max)
    }

    /// Where the grey levels of 8-bit pictures lie among the inputs that attacks see.
    pub(crate) fn levels(&self) -> Levels {
        Levels { mean: self.mean, std: self.std, reach: self.reach() }
    }

    fn each<'a>(&self, picture: &'a [f32], map: impl Fn(f64, f64, f64) -> f64) -> Cow<'a, [f32]> {
        if *self == Self::default() {
            return Cow::Borrowed(picture);
        }
        let value = |(i, value): (usize, &f32)| map(f64::from(*value), self.mean[i % CHANNELS], self.std[i % CHANNELS]);
        picture.iter().enumerate().map(|pixel| value(pixel).clamp(0.0, 1.0) as f32).collect()
    }

    /// Converts an attack's result `[..., 3]` in [0, 1] to pixels `[..., 3]` in [0, 1].
    pub fn pixels<'a>(&self, found: &'a [f32]) -> Cow<'a, [f32]> {
        let reach = self.reach();
        self.each(found, |found, mean, std| reach * (2.0 * found - 1.0) * std + mean)
    }

    /// Converts an attack's result to the model's input, both `[..., 3]`: values after the normalisation.
    pub fn fed(&self, found: &[f32]) -> Vec<f32> {
        let reach = self.reach();
        found.iter().map(|found| (reach * (2.0 * f64::from(*found) - 1.0)) as f32).collect()
    }

    /// Converts `pixels` `[..., 3]` in [0, 1] to the result that an exact attack would find.
    pub fn findable<'a>(&self, pixels: &'a [f32]) -> Cow<'a, [f32]> {
        let reach = self.reach();
        self.each(pixels, |pixel, mean, std| ((pixel - mean) / std / reach + 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGENET: ([f64; 3], [f64; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

    #[test]
    fn pixels_come_back_from_any_space() {
        let picture: Vec<f32> = (0..48).map(|i| i as f32 / 47.0).collect();
        for (mean, std) in [(&[][..], &[][..]), (&[0.0], &[1.0]), (&IMAGENET.0, &IMAGENET.1), (&[1.0], &[0.01])] {
            let space = PixelSpace::new(mean, std).unwrap();
            let back = space.pixels(&space.findable(&picture)).into_owned();
            for (back, pixel) in back.iter().zip(&picture) {
                assert!((back - pixel).abs() < 1e-5, "{mean:?} {std:?}: {back} of {pixel}");
            }
        }
        let fed = PixelSpace::new(&IMAGENET.0, &IMAGENET.1).unwrap();
        let fed = fed.fed(&fed.findable(&[0.485, 1.0, 0.0]));
        assert!(fed[0].abs() < 1e-5 && (fed[1] - 0.544 / 0.224).abs() < 1e-5, "{fed:?}");
        assert!((fed[2] + 0.406 / 0.225).abs() < 1e-5, "{fed:?}");
        assert_eq!(PixelSpace::default().reach(), 1.0);
        assert!(matches!(PixelSpace::default().pixels(&picture), Cow::Borrowed(_)));
    }

    /// For a patch p of pixels, W (p - mean) / std equals k W times the input in [-1, 1] that the attack searches for.
    #[test]
    fn the_scaled_layer_computes_the_same_of_what_is_found() {
        let space = PixelSpace::new(&IMAGENET.0, &IMAGENET.1).unwrap();
        let (pixels, weights) = ([0.1_f32, 0.9, 0.5, 1.0, 0.0, 0.3], [0.7, -0.2, 0.4, 0.9, -1.1, 0.3]);
        let normalised =
            pixels.iter().enumerate().map(|(i, p)| (f64::from(*p) - IMAGENET.0[i % 3]) / IMAGENET.1[i % 3]);
        let expected: f64 = normalised.zip(weights).map(|(x, w)| x * w).sum();
        let found = space.findable(&pixels);
        let computed: f64 =
            found.iter().zip(weights).map(|(x, w)| space.reach() * w * (2.0 * f64::from(*x) - 1.0)).sum();
        assert!((computed - expected).abs() < 1e-5, "{computed} {expected}");
    }

    #[test]
    fn numbers_that_normalise_nothing_are_refused() {
        for (mean, std, reason) in [
            (&[123.7, 116.3, 103.5][..], &[0.2][..], "divide means of 0 to 255 by 255"),
            (&[0.5], &[0.0], "--std 0 is no deviation"),
            (&[0.5], &[f64::NAN], "--std NaN"),
            (&[0.5, 0.5], &[], "--mean has 2 numbers"),
        ] {
            let refused = PixelSpace::new(mean, std).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
