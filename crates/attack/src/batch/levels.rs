//! The whole grey levels of 8-bit pictures.

use unmask_core::VitConfig;

/// Where the grey levels 0 to 255 lie in the model's input space [-1, 1]: a level is fed as (level / 255 - mean) / std /
/// reach. By default, as 2 level / 255 - 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// For red, green and blue.
    pub mean: [f64; VitConfig::CHANNELS],
    /// For red, green and blue.
    pub std: [f64; VitConfig::CHANNELS],
    /// The largest normalised value, by which the weights of the patch embedding were multiplied.
    pub reach: f64,
}

impl Default for Levels {
    fn default() -> Self {
        Self { mean: [0.5; VitConfig::CHANNELS], std: [0.5; VitConfig::CHANNELS], reach: 1.0 }
    }
}

impl Levels {
    /// The grey level of an input, whole only for an 8-bit picture.
    pub(super) fn level(&self, input: f64, channel: usize) -> f64 {
        (input * self.reach * self.std[channel] + self.mean[channel]) * 255.0
    }

    /// The input for the nearest whole level from 0 to 255, as models read it, in f32.
    pub(super) fn input(&self, level: f64, channel: usize) -> f64 {
        let pixel = f64::from((level.round().clamp(0.0, 255.0) / 255.0) as f32);
        (pixel - self.mean[channel]) / self.std[channel] / self.reach
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_inputs_are_inverse_in_any_normalisation() {
        let imagenet = Levels { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], reach: 2.64 };
        for levels in [Levels::default(), imagenet] {
            for (channel, level) in [(0, 0.0), (1, 127.0), (2, 255.0)] {
                assert!((levels.level(levels.input(level, channel), channel) - level).abs() < 1e-4);
                assert_eq!(levels.input(level + 0.4, channel), levels.input(level, channel));
            }
        }
        assert_eq!([0.0, 255.0].map(|level| Levels::default().input(level, 0)), [-1.0, 1.0]);
    }
}
