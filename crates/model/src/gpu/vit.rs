//! The forward pass of a pre-LN ViT as timm computes it.

use std::{f64::consts::SQRT_2, ops::Range};

use burn::tensor::{Tensor, activation, module};
use unmask_core::{ParamLayout, VitConfig};

use super::tensors::{Leaf, Linear, ParamReader, TensorOptions, image_slope, normalised};

const LAYER_NORM_EPSILON: f64 = 1e-6;

struct Norm {
    weight: Tensor<1>,
    bias: Tensor<1>,
}

struct Block {
    /// `None` in the April block, which also lacks both residuals.
    norm1: Option<Norm>,
    query: Linear,
    key: Linear,
    value: Linear,
    proj: Linear,
    norm2: Norm,
    fc1: Linear,
    fc2: Linear,
}

pub(super) struct Parameters {
    config: VitConfig,
    /// `[1, D]`
    class_token: Tensor<2>,
    /// `[T, D]`
    position: Tensor<2>,
    patch: Linear,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    /// The parameters that collect gradients, in the order of the flat vector.
    pub(super) leaves: Vec<Leaf>,
}

impl ParamReader<'_> {
    /// Reads `attn.qkv`: rows of q, then k, then v. Uses three tensors, because slicing one output would make the
    /// backward pass fill three tensors of the whole output's size with zeros.
    fn qkv(&mut self, dim: usize) -> [Linear; 3] {
        let weights = thirds(self.next_range()).map(|third| self.matrix_at(third, dim));
        let biases = thirds(self.next_range()).map(|third| self.vector_at(third));
        let [query, key, value] = weights;
        let [query_bias, key_bias, value_bias] = biases;
        [
            Linear { weight: query, bias: query_bias },
            Linear { weight: key, bias: key_bias },
            Linear { weight: value, bias: value_bias },
        ]
    }

    fn norm(&mut self) -> Norm {
        Norm { weight: self.vector(), bias: self.vector() }
    }

    fn block(&mut self, config: &VitConfig, index: usize) -> Block {
        let norm1 = config.has_norm1(index).then(|| self.norm());
        let [query, key, value] = self.qkv(config.dim);
        Block {
            norm1,
            query,
            key,
            value,
            proj: self.linear(config.dim),
            norm2: self.norm(),
            fc1: self.linear(config.mlp_dim()),
            fc2: self.linear(config.dim),
        }
    }
}

fn thirds(range: Range<usize>) -> [Range<usize>; 3] {
    let third = range.len() / 3;
    [0, 1, 2].map(|i| range.start + i * third..range.start + (i + 1) * third)
}

impl Parameters {
    /// Reads the parameters from `weights`, a vector of `layout`.
    pub(super) fn new(config: &VitConfig, layout: &ParamLayout, weights: &[f32], options: TensorOptions<'_>) -> Self {
        let mut reader = ParamReader::new(layout.iter().as_slice(), weights, options);
        let class_token = reader.matrix(1);
        let position = reader.matrix(config.tokens());
        let patch = reader.linear(config.dim);
        let blocks = (0..config.depth).map(|index| reader.block(config, index)).collect();
        let norm = reader.norm();
        let head = reader.linear(config.classes);
        Self { config: *config, class_token, position, patch, blocks, norm, head, leaves: reader.leaves }
    }

    /// Returns logits `[batch, classes]` of `images` `[batch, 3, side, side]` in [0, 1], and the patches made from the
    /// images.
    pub(super) fn logits(&self, images: &[f32], batch: usize, options: TensorOptions<'_>) -> (Tensor<2>, Leaf) {
        let Self { config, .. } = self;
        let shape = [batch, config.patches(), config.patch_len()];
        let patches = options.tensor(normalised_patches(config, images), shape);
        let class_token = self.class_token.clone().unsqueeze::<3>().expand([batch, 1, config.dim]);
        let tokens = Tensor::cat(vec![class_token, self.patch.apply(patches.clone())], 1);
        let mut x = tokens + self.position.clone().unsqueeze::<3>();
        for (index, block) in self.blocks.iter().enumerate() {
            // The head reads only the class token, so the last block needs no other query.
            let class_only = index + 1 == self.blocks.len();
            x = block.apply(config.heads, class_only, x);
        }
        let x = self.head.apply(self.norm.apply(x));
        (x.squeeze_dim(1), Leaf::Rank3(patches))
    }
}

impl Norm {
    fn apply(&self, x: Tensor<3>) -> Tensor<3> {
        module::layer_norm(x, self.weight.clone(), Some(self.bias.clone()), LAYER_NORM_EPSILON)
    }
}

impl Block {
    /// Maps `[batch, T, D]` to the same shape, or to the class token's `[batch, 1, D]`.
    fn apply(&self, heads: usize, class_only: bool, x: Tensor<3>) -> Tensor<3> {
        let queried = |x: Tensor<3>| if class_only { x.narrow(1, 0, 1) } else { x };
        match &self.norm1 {
            Some(norm1) => {
                let normed = norm1.apply(x.clone());
                let x = queried(x) + self.attention(heads, queried(normed.clone()), normed);
                x.clone() + self.mlp(x)
            }
            None => {
                let x = self.attention(heads, queried(x.clone()), x);
                self.mlp(x)
            }
        }
    }

    fn mlp(&self, x: Tensor<3>) -> Tensor<3> {
        self.fc2.apply(gelu(self.fc1.apply(self.norm2.apply(x))))
    }

    /// Multi-head attention from the tokens `queried` `[batch, Q, D]` to all tokens `x` `[batch, T, D]`.
    fn attention(&self, heads: usize, queried: Tensor<3>, x: Tensor<3>) -> Tensor<3> {
        let [batch, queries, dim] = queried.dims();
        let split = |tokens: Tensor<3>| {
            let [batch, count, dim] = tokens.dims();
            tokens.reshape([batch, count, heads, dim / heads]).swap_dims(1, 2)
        };
        let scale = ((dim / heads) as f64).powf(-0.5);
        let query = split(self.query.apply(queried).mul_scalar(scale));
        let key = split(self.key.apply(x.clone()));
        let value = split(self.value.apply(x));
        let attention = activation::softmax(query.matmul(key.transpose()), 3);
        let mixed = attention.matmul(value).swap_dims(1, 2).reshape([batch, queries, dim]);
        self.proj.apply(mixed)
    }
}

/// x Phi(x) with the exact Phi. Burn's own GELU differentiates the tanh approximation; erf's derivative is exact.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    let cdf = (x.clone() / SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    x * cdf
}

/// Cuts `images` (`[batch, 3, side, side]` in [0, 1]) into normalised patches `[batch, S, L]` of (x - 0.5) / 0.5.
///
/// A convolution with stride equal to its kernel side is a matrix product over patches. Patches go row by row, and the
/// values of a patch channel by channel, as in `patch_embed.proj.weight` flattened to `[D, L]`.
fn normalised_patches(config: &VitConfig, images: &[f32]) -> Vec<f32> {
    let mut patches = Vec::with_capacity(images.len());
    for image in images.chunks_exact(image_len(config)) {
        for row in rows(config) {
            patches.extend(image[row].iter().map(|&x| normalised(x)));
        }
    }
    patches
}

/// Turns dl/d([`normalised_patches`]) into dl/d(images).
pub(super) fn image_gradient(config: &VitConfig, patches: &[f32]) -> Vec<f32> {
    let mut images = vec![0.0; patches.len()];
    let len = image_len(config);
    for (image, patches) in images.chunks_exact_mut(len).zip(patches.chunks_exact(len)) {
        for (row, values) in rows(config).zip(patches.chunks_exact(config.patch)) {
            for (image, value) in image[row].iter_mut().zip(values) {
                *image = image_slope(*value);
            }
        }
    }
    images
}

fn image_len(config: &VitConfig) -> usize {
    VitConfig::CHANNELS * config.image * config.image
}

/// Yields where each row of each patch lies in an image, in the order of the patches.
fn rows(config: &VitConfig) -> impl Iterator<Item = Range<usize>> {
    let VitConfig { image: side, patch, .. } = *config;
    (0..side).step_by(patch).flat_map(move |top| {
        (0..side).step_by(patch).flat_map(move |left| {
            (0..VitConfig::CHANNELS).flat_map(move |channel| {
                (top..top + patch).map(move |y| {
                    let start = (channel * side + y) * side + left;
                    start..start + patch
                })
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_go_row_by_row_and_channel_by_channel() {
        let config =
            VitConfig { image: 4, patch: 2, dim: 6, depth: 1, heads: 1, classes: 2, april_block: false, mlp: None };
        let images: Vec<f32> = (0..2 * 48).map(|i| i as f32).collect();
        let patches = normalised_patches(&config, &images);
        assert_eq!(patches.len(), images.len());
        let indices: Vec<f32> = patches.iter().map(|p| p * 0.5 + 0.5).collect();
        // Second patch of the first row: columns 2 and 3 of rows 0 and 1, in each of the three planes.
        assert_eq!(indices[12..24], [2., 3., 6., 7., 18., 19., 22., 23., 34., 35., 38., 39.]);
        // First patch of the second image.
        assert_eq!(indices[48..52], [48., 49., 52., 53.]);
    }

    #[test]
    fn gradients_go_back_to_the_pixels_they_came_from() {
        let config =
            VitConfig { image: 4, patch: 2, dim: 6, depth: 1, heads: 1, classes: 2, april_block: false, mlp: None };
        let images: Vec<f32> = (0..2 * 48).map(|i| i as f32).collect();
        let slope = image_gradient(&config, &normalised_patches(&config, &images));
        for (index, value) in slope.iter().enumerate() {
            assert_eq!(*value, (index as f32 - 0.5) / 0.25);
        }
    }
}
