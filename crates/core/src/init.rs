//! Initial weights with the distributions of timm, torchvision and PyTorch.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{LenetConfig, ParamGroup, ParamLayout, ResnetSpec, VitConfig};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InitOptions {
    /// Standard deviation of block 0's q, k and v weights when the model has the April block.
    ///
    /// APRIL solves a system whose condition number falls as these weights grow. At timm's 0.02, rounding of the f32
    /// gradients ruins the solution (10-16 dB); at 0.12 it does not (47-63 dB on `vit_lab_patch4_32`).
    pub april_qkv_std: f32,
}

impl Default for InitOptions {
    fn default() -> Self {
        Self { april_qkv_std: 0.12 }
    }
}

const LINEAR_STD: f32 = 0.02;
const CLASS_TOKEN_STD: f32 = 1e-6;

/// Draws the weights of a ViT from `seed`: truncated normal (sd 0.02) for linear layers and position embedding, normal
/// (sd 1e-6) for the class token, uniform within 1/sqrt(L) for the patch embedding, ones for norms and zeros for
/// biases.
///
/// Returns the flat vector in the order of [`ParamLayout::vit`]; the same seed gives the same weights.
pub fn initial_weights(config: &VitConfig, seed: u64, options: InitOptions) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layout = ParamLayout::vit(config);
    let mut weights = vec![0.0; layout.len()];
    for param in &layout {
        let values = &mut weights[param.range.clone()];
        let name = param.name.as_str();
        if name.starts_with("patch_embed.") {
            // PyTorch's default for a convolution, bias included.
            let bound = 1.0 / (config.patch_len() as f32).sqrt();
            values.fill_with(|| rng.random_range(-bound..bound));
        } else if name == "cls_token" {
            values.fill_with(|| CLASS_TOKEN_STD * truncated_normal(&mut rng));
        } else if name == "blocks.0.attn.qkv.weight" && config.april_block {
            values.fill_with(|| options.april_qkv_std * truncated_normal(&mut rng));
        } else if name.contains("norm") {
            values.fill(if name.ends_with(".weight") { 1.0 } else { 0.0 });
        } else if !name.ends_with(".bias") {
            values.fill_with(|| LINEAR_STD * truncated_normal(&mut rng));
        }
    }
    weights
}

/// Draws the weights of a ResNet from `seed` as torchvision does: He normal by fan-out for filters, ones and zeros for
/// batch norm, uniform within 1/sqrt(features) for the head's weight and bias.
///
/// Returns the flat vector in the order of [`ParamLayout::resnet`]; the same seed gives the same weights.
pub(crate) fn initial_resnet(spec: &ResnetSpec, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layout = ParamLayout::resnet(spec);
    let mut weights = vec![0.0; layout.len()];
    let bound = 1.0 / (spec.config.features() as f32).sqrt();
    for param in &layout {
        let values = &mut weights[param.range.clone()];
        match (param.group, param.shape.as_slice()) {
            (ParamGroup::Conv, &[out, _, height, width]) => {
                let std = (2.0 / (out * height * width) as f32).sqrt();
                values.fill_with(|| std * normal(&mut rng) as f32);
            }
            (ParamGroup::Head, _) => values.fill_with(|| rng.random_range(-bound..bound)),
            _ => values.fill(if param.name.ends_with(".weight") { 1.0 } else { 0.0 }),
        }
    }
    weights
}

/// The distribution of a LeNet's initial weights and biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LenetInit {
    /// PyTorch's default: uniform within 1/sqrt(fan-in).
    #[default]
    Usual,
    /// Uniform within 1/2, as in Deep Leakage from Gradients: up to fourteen times as wide at 12 channels. The sigmoids
    /// leave their nearly linear range, so the gradients of deeper layers reveal more of the picture.
    Wide,
}

/// Draws the weights of a LeNet from `seed`.
///
/// Returns the flat vector in the order of [`ParamLayout::lenet`]; the same seed gives the same weights.
pub fn initial_lenet(config: &LenetConfig, seed: u64, init: LenetInit) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layout = ParamLayout::lenet(config);
    let mut weights = vec![0.0; layout.len()];
    let mut reads = 1;
    for param in &layout {
        // A bias follows its weight and has the same bound.
        if let [_, read @ ..] = param.shape.as_slice()
            && !read.is_empty()
        {
            reads = read.iter().product();
        }
        let bound = match init {
            LenetInit::Usual => 1.0 / (reads as f32).sqrt(),
            LenetInit::Wide => 0.5,
        };
        weights[param.range.clone()].fill_with(|| rng.random_range(-bound..bound));
    }
    weights
}

/// Batch norm's running statistics before the first batch: zero means, unit variances.
pub(crate) fn initial_statistics(statistics: &ParamLayout) -> Vec<f32> {
    let mut values = vec![0.0; statistics.len()];
    for param in statistics.iter().filter(|param| param.name.ends_with("running_var")) {
        values[param.range.clone()].fill(1.0);
    }
    values
}

/// A standard normal variate, drawn again if it lies more than four standard deviations out.
fn truncated_normal(rng: &mut impl Rng) -> f32 {
    loop {
        let x = normal(rng);
        if x.abs() <= 4.0 {
            return x as f32;
        }
    }
}

/// A standard normal variate from Marsaglia's polar method.
fn normal(rng: &mut impl Rng) -> f64 {
    loop {
        let u: f64 = rng.random_range(-1.0..1.0);
        let v: f64 = rng.random_range(-1.0..1.0);
        let s = u * u + v * v;
        if s > 0.0 && s < 1.0 {
            return u * (-2.0 * s.ln() / s).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ResnetPreset, VitPreset};

    fn moments(values: &[f32]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt())
    }

    #[test]
    fn moments_are_timms() {
        let config = VitConfig::from(VitPreset::Lab).with_april_block(true);
        let layout = ParamLayout::vit(&config);
        let weights = initial_weights(&config, 1, InitOptions::default());
        let check = |name: &str, std: f64| {
            let values = layout.slice(&weights, name).unwrap();
            let (mean, sd) = moments(values);
            let standard_error = std / (values.len() as f64).sqrt();
            assert!(mean.abs() < 5.0 * standard_error, "{name}: mean {mean}");
            assert!((sd / std - 1.0).abs() < 5.0 / (2.0 * values.len() as f64).sqrt(), "{name}: sd {sd}, want {std}");
        };
        check("blocks.0.attn.qkv.weight", 0.12);
        check("blocks.1.attn.qkv.weight", 0.02);
        check("pos_embed", 0.02);
        check("patch_embed.proj.weight", 1.0 / 48f64.sqrt() / 3f64.sqrt());
        assert!(layout.slice(&weights, "norm.weight").unwrap().iter().all(|&v| v == 1.0));
        assert!(layout.slice(&weights, "head.bias").unwrap().iter().all(|&v| v == 0.0));
    }

    #[test]
    fn moments_of_a_resnet_are_torchvisions() {
        let spec = ResnetSpec::from(ResnetPreset::Resnet34);
        let layout = ParamLayout::resnet(&spec);
        let weights = initial_resnet(&spec, 1);
        for (name, std) in [
            ("conv1.weight", (2.0 / (64.0 * 49.0_f64)).sqrt()),
            ("layer2.0.conv1.weight", (2.0 / (128.0 * 9.0_f64)).sqrt()),
            ("layer2.0.downsample.0.weight", (2.0 / 128.0_f64).sqrt()),
            ("fc.weight", 1.0 / 512f64.sqrt() / 3f64.sqrt()),
        ] {
            let values = layout.slice(&weights, name).unwrap();
            let (mean, sd) = moments(values);
            assert!(mean.abs() < 5.0 * std / (values.len() as f64).sqrt(), "{name}: mean {mean}");
            assert!((sd / std - 1.0).abs() < 5.0 / (2.0 * values.len() as f64).sqrt(), "{name}: sd {sd}, want {std}");
        }
        assert!(layout.slice(&weights, "layer4.2.bn2.weight").unwrap().iter().all(|&v| v == 1.0));
        assert!(layout.slice(&weights, "layer2.0.downsample.1.bias").unwrap().iter().all(|&v| v == 0.0));
        assert!(layout.slice(&weights, "fc.bias").unwrap().iter().all(|&v| v != 0.0 && v.abs() < 0.05));
        assert_ne!(weights, initial_resnet(&spec, 2));
        let statistics = ParamLayout::resnet_statistics(&spec);
        let values = initial_statistics(&statistics);
        assert!(statistics.slice(&values, "bn1.running_mean").unwrap().iter().all(|&v| v == 0.0));
        assert!(statistics.slice(&values, "layer3.5.bn1.running_var").unwrap().iter().all(|&v| v == 1.0));
    }

    #[test]
    fn a_lenet_is_drawn_as_pytorch_draws_it_or_wide() {
        let config = LenetConfig::NAMED[0];
        let layout = ParamLayout::lenet(&config);
        for (init, name, bound) in [
            (LenetInit::Usual, "conv1.weight", 1.0 / 75f64.sqrt()),
            (LenetInit::Usual, "conv2.bias", 1.0 / 300f64.sqrt()),
            (LenetInit::Usual, "fc.weight", 1.0 / 768f64.sqrt()),
            (LenetInit::Wide, "conv3.weight", 0.5),
            (LenetInit::Wide, "fc.bias", 0.5),
        ] {
            let weights = initial_lenet(&config, 1, init);
            let values = layout.slice(&weights, name).unwrap();
            let (mean, sd) = moments(values);
            let (most, expected) = (values.iter().fold(0f32, |most, v| most.max(v.abs())), bound / 3f64.sqrt());
            assert!(f64::from(most) <= bound && f64::from(most) > 0.7 * bound, "{name}: {most} of {bound}");
            let root = (values.len() as f64).sqrt();
            assert!(
                mean.abs() < 5.0 * expected / root && (sd / expected - 1.0).abs() < 3.0 / root,
                "{name}: {mean} {sd}"
            );
        }
        let draw = |seed| initial_lenet(&config, seed, LenetInit::Usual);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn seed_decides() {
        let config = VitConfig::from(VitPreset::Pico);
        let draw = |seed| initial_weights(&config, seed, InitOptions::default());
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
