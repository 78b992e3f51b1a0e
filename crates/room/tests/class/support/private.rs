//! A client's picture, and its gradient in the parameters that attacks read.

use unmask_core::{VitConfig, VitPreset};

use super::{gradient, layout};

pub fn config() -> VitConfig {
    VitConfig::from(VitPreset::Pico)
}

/// Returns a picture of 8-bit pixels, `[16, 16, 3]`, different for each number: waves with a texture. Patches of pure
/// waves are combinations of a few, so every such picture would explain every other.
pub fn picture(number: usize) -> Vec<f32> {
    let side = config().image;
    let value = |x: usize, y: usize, channel: usize| {
        let phase = channel as f32 * 0.9 + number as f32 * 1.7;
        let wave = 0.2 * (x as f32 * 0.3 + phase).sin() + 0.15 * (y as f32 * 0.3 - 2.0 * phase).cos();
        0.5 + wave + 0.1 * scatter(((number * side + y) * side + x) * 3 + channel)
    };
    let pixels = (0..side * side).flat_map(|i| (0..3).map(move |channel| (i % side, i / side, channel)));
    pixels.map(|(x, y, channel)| (value(x, y, channel) * 255.0).round() / 255.0).collect()
}

pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / a.len() as f64
}

/// Returns a pseudo-random number in [-1, 1] that depends on the place.
fn scatter(place: usize) -> f32 {
    let mixed = (place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed >> 40) as f32 / (1u64 << 23) as f32) - 1.0
}

/// Returns a gradient like that of one picture with one label: G_E = G_pos^T X, b_E = G_pos^T 1, and rows of the head
/// that are multiples of one another. All other values are arbitrary.
pub fn revealing_gradient(picture: &[f32], label: usize) -> Vec<f32> {
    let config = config();
    let (layout, mut flat) = (layout(), gradient(3));
    let (dim, size, side) = (config.dim, config.patch, config.image);
    let range = |name: &str| layout.get(name).unwrap().range.clone();
    let position = range("pos_embed");
    for (i, value) in flat[position.clone()].iter_mut().enumerate() {
        *value = scatter(i);
    }
    let at = |s: usize, d: usize| position.start + (s + 1) * dim + d;
    let (weight, bias) = (range("patch_embed.proj.weight").start, range("patch_embed.proj.bias").start);
    for d in 0..dim {
        flat[bias + d] = (0..config.patches()).map(|s| flat[at(s, d)]).sum();
        for l in 0..config.patch_len() {
            let (channel, y, x) = (l / (size * size), l / size % size, l % size);
            let sum: f64 = (0..config.patches())
                .map(|s| {
                    let (top, left) = (s / config.grid() * size, s % config.grid() * size);
                    let pixel = picture[((top + y) * side + left + x) * 3 + channel];
                    f64::from(flat[at(s, d)]) * f64::from(2.0 * pixel - 1.0)
                })
                .sum();
            flat[weight + d * config.patch_len() + l] = sum as f32;
        }
    }
    // p - y with p = 1 / 10 for every class.
    let (rows, biases) = (range("head.weight").start, range("head.bias").start);
    for class in 0..config.classes {
        let factor = 0.1 - f32::from(u8::from(class == label));
        flat[biases + class] = factor;
        for d in 0..dim {
            flat[rows + class * dim + d] = factor * (1.0 + 0.5 * scatter(d));
        }
    }
    flat
}
