//! Clipping and Gaussian noise.

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use unmask_core::{GaussianNoise, MaskSeed};

/// The factor that shortens `values` to an L2 norm of `clip`; 1 if they are no longer than that.
pub fn clip_factor(values: &[f32], clip: f64) -> f64 {
    let norm = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
    if norm > clip { clip / norm } else { 1.0 }
}

/// Clips `update` to S_f, unless the noise is unclipped, and adds noise drawn from `seed`. The seed must stay on the
/// device: anyone who knows it can subtract the noise.
pub(crate) fn add_noise(noise: &GaussianNoise, update: &mut [f32], seed: MaskSeed) {
    let scale = noise.clip().map_or(1.0, |clip| clip_factor(update, clip));
    let deviation = noise.deviation();
    let mut rng = ChaCha20Rng::from_seed(seed.0);
    for value in update {
        let drawn: f64 = StandardNormal.sample(&mut rng);
        *value = (f64::from(*value) * scale + deviation * drawn) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noised(noise: GaussianNoise, plain: &[f32], seed: u8) -> Vec<f32> {
        let mut update = plain.to_vec();
        add_noise(&noise, &mut update, MaskSeed([seed; 32]));
        update
    }

    /// Mean, variance, skewness and excess kurtosis of the noise are each within six standard errors.
    #[test]
    fn moments_are_those_of_the_normal_distribution() {
        let noise = GaussianNoise::new(2.0, 1e-5, 0.5).unwrap();
        let n = 400_000;
        let added = noised(noise, &vec![0.0; n], 3);
        let sd = noise.deviation();
        let moment = |power: i32| added.iter().map(|&v| (f64::from(v) / sd).powi(power)).sum::<f64>() / n as f64;
        let error = |variance: f64| 6.0 * (variance / n as f64).sqrt();
        assert!(moment(1).abs() < error(1.0));
        assert!((moment(2) - 1.0).abs() < error(2.0), "{}", moment(2));
        assert!(moment(3).abs() < error(15.0));
        assert!((moment(4) - 3.0).abs() < error(96.0), "{}", moment(4));
        let beyond = added.iter().filter(|v| f64::from(v.abs()) > 3.0 * sd).count() as f64;
        let expected: f64 = n as f64 * 0.002_699_8;
        assert!((beyond - expected).abs() < 6.0 * expected.sqrt(), "{beyond} beyond 3 sigma");
    }

    #[test]
    fn long_updates_are_clipped_and_short_ones_are_not() {
        let noise = GaussianNoise::new(1e9, 1e-5, 0.5).unwrap();
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((norm(&noised(noise, &[3.0, 4.0], 0)) - 0.5).abs() < 1e-6);
        assert!((norm(&noised(noise, &[0.03, 0.04], 0)) - 0.05).abs() < 1e-6);
        assert!((norm(&noised(noise.unclipped(), &[3.0, 4.0], 0)) - 5.0).abs() < 1e-6);
        assert!(noised(noise, &[0.0; 4], 0).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn noise_depends_on_the_seed_alone() {
        let noise = GaussianNoise::default();
        assert_eq!(noised(noise, &[0.0; 100], 1), noised(noise, &[0.0; 100], 1));
        assert_ne!(noised(noise, &[0.0; 100], 1), noised(noise, &[0.0; 100], 2));
    }
}
