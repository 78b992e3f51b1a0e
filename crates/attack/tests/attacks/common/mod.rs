//! Reference vectors and generated cases.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::{Dtype, SafeTensors};
use unmask_attack::{Rounding, TensorSource, Tensors};
use unmask_core::{ParamLayout, VitConfig};
use unmask_data::metrics;

/// A safetensors file as (name, shape, values).
pub struct File(Vec<(String, Vec<usize>, Vec<f64>)>);

impl File {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let read = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
            let data = view.data();
            let values = match view.dtype() {
                Dtype::F32 => data.as_chunks().0.iter().map(|&chunk| f64::from(f32::from_le_bytes(chunk))).collect(),
                Dtype::F64 => data.as_chunks().0.iter().map(|&chunk| f64::from_le_bytes(chunk)).collect(),
                Dtype::U8 => data.iter().map(|&byte| f64::from(byte)).collect(),
                other => panic!("{name} is {other:?}"),
            };
            (name, view.shape().to_vec(), values)
        };
        Self(tensors.tensors().into_iter().map(read).collect())
    }

    pub fn get(&self, name: &str) -> (&[usize], &[f64]) {
        let (_, shape, values) = self.0.iter().find(|(found, ..)| found == name).unwrap();
        (shape, values)
    }

    pub fn image(&self, name: &str) -> Vec<f32> {
        self.get(name).1.iter().map(|&value| value as f32).collect()
    }

    /// The tensors `names` as an attack reads them, rounded to `precision`, with 0 where the mask is 0.
    pub fn tensors(
        &self,
        source: TensorSource,
        config: &VitConfig,
        precision: Rounding,
        names: &[&str],
        mask: Option<&Self>,
    ) -> Tensors {
        let mut tensors = Tensors::new(source, config, precision);
        for name in names {
            let (shape, values) = self.get(name);
            let mut values = values.to_vec();
            if precision == Rounding::F32 {
                values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
            }
            if let Some(mask) = mask {
                values.iter_mut().zip(mask.get(name).1).for_each(|(value, keep)| *value *= keep);
            }
            tensors.insert(name, shape, values).unwrap();
        }
        tensors
    }
}

/// Folder of committed reference vectors.
pub fn vectors(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(case)
}

/// Folder of the lab preset's full reference vectors, made by `scripts/make_vectors.py --lab`.
pub fn lab_vectors(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors").join(format!("vit_lab_patch4_32_{case}_astronaut"))
}

pub fn committed(file: &str) -> File {
    File::read(&vectors(file))
}

pub fn similarity(a: &[f32], b: &[f32], side: usize) -> (f64, f64) {
    (metrics::psnr(a, b, side, side).unwrap(), metrics::ssim(a, b, side, side).unwrap())
}

pub fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// `count` values uniform in [-scale, scale].
pub fn uniform(rng: &mut ChaCha8Rng, count: usize, scale: f64) -> Vec<f64> {
    (0..count).map(|_| rng.random_range(-scale..scale)).collect()
}

/// `[rows, inner] x [inner, columns]`, row-major.
pub fn product(a: &[f64], b: &[f64], rows: usize, inner: usize, columns: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows * columns];
    for row in 0..rows {
        for k in 0..inner {
            for column in 0..columns {
                out[row * columns + column] += a[row * inner + k] * b[k * columns + column];
            }
        }
    }
    out
}

/// Transposes `[rows, columns]`.
pub fn transpose(a: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|i| a[i % rows * columns + i / rows]).collect()
}

/// Cuts a picture `[side, side, 3]` in [0, 1] into patches `[S, 3 P P]` in [-1, 1].
pub fn patches(image: &[f32], config: &VitConfig) -> Vec<f64> {
    let size = config.patch;
    let mut patches = Vec::with_capacity(image.len());
    for s in 0..config.patches() {
        for l in 0..config.patch_len() {
            let (c, y, x) = (l / (size * size), l / size % size, l % size);
            let (row, column) = (s / config.grid() * size + y, s % config.grid() * size + x);
            patches.push(f64::from(image[(row * config.image + column) * 3 + c]) * 2.0 - 1.0);
        }
    }
    patches
}

pub fn shape(config: &VitConfig, name: &str) -> Vec<usize> {
    ParamLayout::vit(config).get(name).unwrap().shape.clone()
}

/// The reference photograph and three of the page's sample pictures.
pub const SAMPLES: [&str; 4] = ["reference", "cat", "coffee", "rocket"];

/// One of [`SAMPLES`] or another sample picture of the page, at the model's size, `[side, side, 3]` in [0, 1].
pub fn sample(name: &str, config: &VitConfig) -> Vec<f32> {
    if name == "reference" {
        return committed("expected.safetensors").image("image");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../www/samples").join(name).with_extension("png");
    let picture = unmask_data::decode(&std::fs::read(path).unwrap()).unwrap();
    unmask_data::chw_to_hwc(&picture.for_model(config.image), config.image, config.image)
}

/// Gradients of any picture: the lab preset's reference position gradient as G_pos, with G_E = G_pos^T X and b_E =
/// G_pos^T 1.
pub fn own_gradients(config: &VitConfig, image: &[f32]) -> Tensors {
    moved_gradients(config, image, 0.0)
}

/// The same after the model moved: G_pos has moved towards another by `distance` times its own size.
pub fn moved_gradients(config: &VitConfig, image: &[f32], distance: f64) -> Tensors {
    let (s, d, l) = (config.patches(), config.dim, config.patch_len());
    let mut position = committed("gradients.safetensors").get("pos_embed").1.to_vec();
    let size = (position[d..].iter().map(|value| value * value).sum::<f64>() / (s * d) as f64).sqrt();
    let other = uniform(&mut rng(77), position.len(), 3f64.sqrt() * size);
    position.iter_mut().zip(other).for_each(|(value, other)| *value += distance * other);
    let transposed = transpose(&position[d..], s, d);
    let patch = product(&transposed, &patches(image, config), d, s, l);
    let bias = transposed.chunks_exact(s).map(|row| row.iter().sum()).collect();
    let mut gradients = Tensors::new(TensorSource::Gradients, config, Rounding::F64);
    gradients.insert("pos_embed", &shape(config, "pos_embed"), position).unwrap();
    gradients.insert("patch_embed.proj.weight", &shape(config, "patch_embed.proj.weight"), patch).unwrap();
    gradients.insert("patch_embed.proj.bias", &shape(config, "patch_embed.proj.bias"), bias).unwrap();
    gradients
}

/// Hides a share `position_rate` of pos_embed and `rate` of all other tensors.
pub fn masked(gradients: &Tensors, rng: &mut ChaCha8Rng, position_rate: f64, rate: f64) -> Tensors {
    let mut hidden = gradients.clone();
    for param in &gradients.model().layout() {
        let Some(values) = gradients.values(&param.name) else { continue };
        let rate = if param.name == "pos_embed" { position_rate } else { rate };
        let kept = values.iter().map(|_| rng.random_range(0.0..1.0) >= rate).collect();
        hidden.insert_kept(&param.name, &param.shape, values.to_vec(), kept).unwrap();
    }
    hidden
}
