//! A pre-LN ViT as timm computes it: B images of T tokens of D values, S = T - 1 patches of L values.

use std::ops::Range;

use faer::MatRef;
use unmask_core::{Activation, VitConfig};

mod tangent;

pub(crate) use tangent::Tape;

use crate::{
    activation::{activate, activate_back},
    attention::{Attention, Slopes},
    buffer::{Buffer, Pool},
    layer_norm::Normed,
    linear::Into,
    matrix::{every, every_mut, product_onto, rows, rows_mut},
    parallel,
    parameters::{Linear, Norm, Piece, Slot, add_all},
    real::Real,
};

struct Block<P> {
    /// `None` in the April block, which also lacks both residuals.
    norm1: Option<Norm<P>>,
    /// Rows of q, then k, then v.
    qkv: Linear<P>,
    proj: Linear<P>,
    norm2: Norm<P>,
    fc1: Linear<P>,
    fc2: Linear<P>,
}

struct Parameters<P> {
    /// `[D]`
    class_token: P,
    /// `[T, D]`
    position: P,
    patch: Linear<P>,
    blocks: Vec<Block<P>>,
    norm: Norm<P>,
    head: Linear<P>,
}

impl<P: Piece> Parameters<P> {
    fn cut(config: &VitConfig, mut flat: P) -> Self {
        let VitConfig { dim, depth, classes, .. } = *config;
        let hidden = config.mlp_dim();
        let flat = &mut flat;
        Self {
            class_token: flat.cut(dim),
            position: flat.cut(config.tokens() * dim),
            patch: Linear::cut(flat, dim, config.patch_len()),
            blocks: (0..depth)
                .map(|index| Block {
                    norm1: config.has_norm1(index).then(|| Norm::cut(flat, dim)),
                    qkv: Linear::cut(flat, 3 * dim, dim),
                    proj: Linear::cut(flat, dim, dim),
                    norm2: Norm::cut(flat, dim),
                    fc1: Linear::cut(flat, hidden, dim),
                    fc2: Linear::cut(flat, dim, hidden),
                })
                .collect(),
            norm: Norm::cut(flat, dim),
            head: Linear::cut(flat, classes, dim),
        }
    }
}

enum Heads<R: Real> {
    /// For every token, `[B T, 3 D]`.
    All(Buffer<R>),
    /// Queries of only the class tokens, `[B, D]`; keys and values of every token, `[B T, 2 D]`.
    ClassOnly { query: Buffer<R>, key_value: Buffer<R> },
}

impl<R: Real> Heads<R> {
    fn room(&self, pool: &Pool<R>) -> Self {
        match self {
            Self::All(qkv) => Self::All(pool.take(qkv.len())),
            Self::ClassOnly { query, key_value } => {
                Self::ClassOnly { query: pool.take(query.len()), key_value: pool.take(key_value.len()) }
            }
        }
    }

    /// Returns views of queries, keys and values for writing.
    fn slopes(&mut self, dim: usize) -> Slopes<'_, R> {
        match self {
            Self::All(qkv) => {
                let (query, key_value) = rows_mut(qkv, 3 * dim).split_at_col_mut(dim);
                let (key, value) = key_value.split_at_col_mut(dim);
                Slopes { query, key, value }
            }
            Self::ClassOnly { query, key_value } => {
                let (key, value) = rows_mut(key_value, 2 * dim).split_at_col_mut(dim);
                Slopes { query: rows_mut(query, dim), key, value }
            }
        }
    }
}

/// Values for the backward pass through a block. Q is T, or 1 in the last block, which outputs only the class token.
struct BlockPass<R: Real> {
    /// `[B T, D]`
    x: Buffer<R>,
    norm1: Option<Normed<R>>,
    heads: Heads<R>,
    /// Attention weights, `[B, heads, Q, T]`.
    weights: Buffer<R>,
    /// Values mixed by attention, `[B Q, D]`.
    mixed: Buffer<R>,
    /// After attention, its projection and the residual, `[B Q, D]`.
    middle: Buffer<R>,
    norm2: Normed<R>,
    /// Before and after GELU, `[B Q, 4 D]`.
    hidden: [Buffer<R>; 2],
}

/// The loss's gradients with respect to a block's intermediate values.
struct BlockSlopes<R: Real> {
    /// Block output, `[B Q, D]`.
    out: Buffer<R>,
    /// Before and after GELU, `[B Q, 4 D]`.
    hidden: [Buffer<R>; 2],
    /// Output of `norm2`, `[B Q, D]`.
    norm2: Buffer<R>,
    /// After attention, its projection and the residual, `[B Q, D]`.
    middle: Buffer<R>,
    /// Values mixed by attention, `[B Q, D]`.
    mixed: Buffer<R>,
    heads: Heads<R>,
    /// Output of `norm1`, `[B T, D]`.
    normed: Buffer<R>,
}

/// A forward pass, kept for the backward pass.
pub(crate) struct Pass<R: Real> {
    /// `[B S, L]`
    patches: Buffer<R>,
    blocks: Vec<BlockPass<R>>,
    /// Output of the last block, `[B, D]`.
    last: Buffer<R>,
    norm: Normed<R>,
    /// `[B, classes]`
    pub(crate) logits: Buffer<R>,
}

pub(crate) struct Vit<'a, R: Real> {
    pub(crate) config: &'a VitConfig,
    pub(crate) activation: Activation,
    pub(crate) batch: usize,
    pub(crate) pool: &'a Pool<R>,
}

impl<R: Real> Vit<'_, R> {
    /// Runs the network on `images` `[B, 3, side, side]` in [0, 1]. Without `tracked`, only the logits of the pass are
    /// valid.
    pub(crate) fn forward(&self, weights: &[R], images: &[R], tracked: bool) -> Pass<R> {
        let Self { config, batch, pool, .. } = *self;
        let VitConfig { dim, depth, classes, .. } = *config;
        let w = Parameters::cut(config, weights);
        let patches = self.patches(images); // [B S, L]
        let mut x = self.embed(&w, &patches); // [B T, D]
        let mut blocks = Vec::with_capacity(depth);
        for (index, block) in w.blocks.iter().enumerate() {
            let (out, pass) = self.block(block, index + 1 == depth, x); // [B T, D], last [B, D]
            x = out;
            if tracked {
                blocks.push(pass);
            }
        }
        let norm = w.norm.layer_norm(pool, &x); // [B, D]
        let mut logits = pool.take(batch * classes);
        w.head.apply(rows_mut(&mut logits, classes), rows(&norm.output, dim)); // [B, C]
        Pass { patches, blocks, last: x, norm, logits }
    }

    /// Sets the gradients of the weights that `gradient` has room for, and of the images if wanted, from `slope`,
    /// dl/d(logits) `[B, classes]`.
    pub(crate) fn backward(
        &self,
        weights: &[R],
        pass: Pass<R>,
        slope: &[R],
        gradient: &mut [R],
        by_images: Option<&mut [R]>,
    ) {
        let w = Parameters::cut(self.config, weights);
        let g = Parameters::cut(self.config, Some(gradient));
        let (_, mut by_x) = self.head_back(&w, (g.head, g.norm), &pass, slope);
        let Pass { patches, blocks, .. } = pass;
        for ((block, gradient), pass) in w.blocks.iter().zip(g.blocks).zip(blocks).rev() {
            (by_x, _) = self.block_back(block, gradient, &pass, by_x); // [B T, D]
        }
        self.embed_back(&w, (g.class_token, g.position, g.patch), &patches, &by_x, by_images);
    }

    /// Returns the gradients after and before the last norm, `[B, D]` each, from `slope`, dl/d(logits) `[B, classes]`.
    fn head_back(
        &self,
        w: &Parameters<&[R]>,
        (head, norm): (Linear<Slot<'_, R>>, Norm<Slot<'_, R>>),
        pass: &Pass<R>,
        slope: &[R],
    ) -> (Buffer<R>, Buffer<R>) {
        let Self { config: VitConfig { dim, classes, .. }, batch, pool, .. } = *self;
        let mut by_norm = pool.take(batch * dim);
        let output = rows(&pass.norm.output, *dim);
        w.head.back(head, rows(slope, *classes), output, Into::Place(rows_mut(&mut by_norm, *dim)));
        let mut by_x = pool.zeros(batch * dim);
        w.norm.layer_norm_back(norm, &by_norm, &pass.last, &pass.norm, &mut by_x);
        (by_norm, by_x)
    }

    /// Computes tokens `[B T, D]` from `patches` `[B S, L]`.
    fn embed(&self, w: &Parameters<&[R]>, patches: &[R]) -> Buffer<R> {
        let Self { config, batch, pool, .. } = *self;
        let (dim, patch_len) = (config.dim, config.patch_len());
        let mut x = pool.take(batch * config.tokens() * dim);
        let images = x.chunks_exact_mut(config.tokens() * dim).zip(patches.chunks_exact(config.patches() * patch_len));
        parallel::each(images, |(x, patches)| {
            let (class, tokens) = x.split_at_mut(dim);
            for ((x, &class), &position) in class.iter_mut().zip(w.class_token).zip(w.position) {
                *x = class + position;
            }
            let begin = |row: usize, column: usize, x: &mut [R]| {
                let position = &w.position[(row + 1) * dim + column..];
                for ((x, &bias), &position) in x.iter_mut().zip(&w.patch.bias[column..]).zip(position) {
                    *x = bias + position;
                }
            };
            product_onto(
                rows_mut(tokens, dim),
                begin,
                rows(patches, patch_len),
                rows(w.patch.weight, patch_len).transpose(),
            );
        });
        x
    }

    fn embed_back(
        &self,
        w: &Parameters<&[R]>,
        (class_token, position, patch): (Slot<'_, R>, Slot<'_, R>, Linear<Slot<'_, R>>),
        patches: &[R],
        by_x: &[R],
        by_images: Option<&mut [R]>,
    ) {
        let Self { config, pool, .. } = *self;
        let (dim, patch_len, image_len) = (config.dim, config.patch_len(), config.tokens() * config.dim);
        if let Some(position) = position {
            position.fill(R::ZERO);
            add_all(position, by_x.chunks_exact(image_len));
        }
        if let Some(class_token) = class_token {
            class_token.fill(R::ZERO);
            add_all(class_token, by_x.chunks_exact(image_len).map(|image| &image[..dim]));
        }
        if patch.weight.is_none() && by_images.is_none() {
            return;
        }
        let by_tokens = self.without_class(by_x); // [B S, D]
        let slope = rows(&by_tokens, dim);
        let Some(by_images) = by_images else {
            return w.patch.back(patch, slope, rows(patches, patch_len), Into::Nowhere);
        };
        let mut by_patches = pool.take(patches.len()); // [B S, L]
        w.patch.back(patch, slope, rows(patches, patch_len), Into::Place(rows_mut(&mut by_patches, patch_len)));
        self.unpatch(&by_patches, by_images);
    }

    /// Maps x `[B T, D]` to `[B Q, D]`: x + attention(norm1(x)), then x + mlp(norm2(x)). The April block has neither
    /// `norm1` nor `x +`.
    fn block(&self, w: &Block<&[R]>, class_only: bool, x: Buffer<R>) -> (Buffer<R>, BlockPass<R>) {
        let Self { config, activation, batch, pool } = *self;
        let dim = config.dim;
        let stride = if class_only { config.tokens() } else { 1 };
        let count = batch * config.tokens() / stride; // B Q
        let norm1 = w.norm1.as_ref().map(|norm| norm.layer_norm(pool, &x));
        let normed: &[R] = norm1.as_ref().map_or(&x, |normed| &normed.output); // [B T, D]
        let heads = if class_only {
            let (query_layer, key_value_layer) = w.qkv.pieces().split(dim, dim);
            let mut query = pool.take(batch * dim);
            query_layer.apply(rows_mut(&mut query, dim), every(normed, batch, dim, stride)); // [B, D]
            let mut key_value = pool.take(2 * normed.len());
            key_value_layer.apply(rows_mut(&mut key_value, 2 * dim), rows(normed, dim)); // [B T, 2 D]
            Heads::ClassOnly { query, key_value }
        } else {
            let mut qkv = pool.take(3 * normed.len());
            w.qkv.apply(rows_mut(&mut qkv, 3 * dim), rows(normed, dim)); // [B T, 3 D]
            Heads::All(qkv)
        };
        let mut mixed = pool.take(count * dim);
        let weights = self.attention(&heads).apply(pool, rows_mut(&mut mixed, dim)); // [B, heads, Q, T]
        let mut middle = pool.take(count * dim);
        let has_residuals = w.norm1.is_some();
        if has_residuals {
            let residual = |row: usize| &x[row * stride * dim..][..dim];
            w.proj.apply_beside(rows_mut(&mut middle, dim), residual, rows(&mixed, dim)); // [B Q, D]
        } else {
            w.proj.apply(rows_mut(&mut middle, dim), rows(&mixed, dim)); // [B Q, D]
        }
        let norm2 = w.norm2.layer_norm(pool, &middle); // [B Q, D]
        let width = config.mlp_dim();
        let mut hidden = [pool.take(count * width), pool.take(count * width)];
        let [before, behind] = &mut hidden;
        w.fc1.apply(rows_mut(before, width), rows(&norm2.output, dim)); // [B Q, 4 D]
        activate(activation, behind, before);
        let mut out = pool.take(count * dim);
        if has_residuals {
            let residual = |row: usize| &middle[row * dim..][..dim];
            w.fc2.apply_beside(rows_mut(&mut out, dim), residual, rows(behind, width)); // [B Q, D]
        } else {
            w.fc2.apply(rows_mut(&mut out, dim), rows(behind, width)); // [B Q, D]
        }
        (out, BlockPass { x, norm1, heads, weights, mixed, middle, norm2, hidden })
    }

    /// Computes dl/d(in) `[B T, D]` from dl/d(out) `[B Q, D]`, and the gradients of the weights.
    fn block_back(
        &self,
        w: &Block<&[R]>,
        g: Block<Slot<'_, R>>,
        pass: &BlockPass<R>,
        by_out: Buffer<R>,
    ) -> (Buffer<R>, BlockSlopes<R>) {
        let Self { config, activation, batch, pool } = *self;
        let (dim, width) = (config.dim, config.mlp_dim());
        let BlockPass { x, norm1, heads, weights, mixed, middle, norm2, hidden: [before, behind] } = pass;
        let count = middle.len() / dim;
        let has_residuals = norm1.is_some();

        let mut by_hidden = [pool.take(count * width), pool.take(count * width)]; // [B Q, 4 D]
        let [by_before, by_behind] = &mut by_hidden;
        w.fc2.back(g.fc2, rows(&by_out, dim), rows(behind, width), Into::Place(rows_mut(by_behind, width)));
        activate_back(activation, by_before, by_behind, before);
        let mut by_norm2 = pool.take(count * dim); // [B Q, D]
        w.fc1.back(g.fc1, rows(by_before, width), rows(&norm2.output, dim), Into::Place(rows_mut(&mut by_norm2, dim)));
        let mut by_middle = if has_residuals { pool.copy(&by_out) } else { pool.zeros(count * dim) }; // [B Q, D]
        w.norm2.layer_norm_back(g.norm2, &by_norm2, middle, norm2, &mut by_middle);

        let mut by_mixed = pool.take(count * dim); // [B Q, D]
        w.proj.back(g.proj, rows(&by_middle, dim), rows(mixed, dim), Into::Place(rows_mut(&mut by_mixed, dim)));
        let normed: &[R] = norm1.as_ref().map_or(x, |normed| &normed.output); // [B T, D]
        let mut by_normed = pool.take(x.len()); // [B T, D]
        let mut by_heads = heads.room(pool);
        self.attention(heads).back(pool, weights, rows(&by_mixed, dim), by_heads.slopes(dim));
        match &by_heads {
            Heads::All(by_qkv) => {
                w.qkv.back(g.qkv, rows(by_qkv, 3 * dim), rows(normed, dim), Into::Place(rows_mut(&mut by_normed, dim)))
            }
            Heads::ClassOnly { query: by_query, key_value: by_key_value } => {
                let (query, key_value) = w.qkv.pieces().split(dim, dim);
                let (g_query, g_key_value) = g.qkv.split(dim, dim);
                let slope = rows(by_key_value, 2 * dim);
                key_value.back(g_key_value, slope, rows(normed, dim), Into::Place(rows_mut(&mut by_normed, dim)));
                let tokens = config.tokens();
                let by_class = every_mut(&mut by_normed, batch, dim, tokens);
                query.back(g_query, rows(by_query, dim), every(normed, batch, dim, tokens), Into::Sum(by_class));
            }
        }
        let by_x = match (&w.norm1, g.norm1, norm1) {
            (Some(norm), Some(g_norm), Some(normed)) => {
                let mut by_x = self.spread(&by_middle);
                norm.layer_norm_back(g_norm, &by_normed, x, normed, &mut by_x);
                by_x
            }
            _ => pool.copy(&by_normed),
        };
        let slopes = BlockSlopes {
            out: by_out,
            hidden: by_hidden,
            norm2: by_norm2,
            middle: by_middle,
            mixed: by_mixed,
            heads: by_heads,
            normed: by_normed,
        };
        (by_x, slopes)
    }

    /// Drops the class tokens: `[B T, D]` to `[B S, D]`.
    fn without_class(&self, all: &[R]) -> Buffer<R> {
        let (dim, image_len) = (self.config.dim, self.config.tokens() * self.config.dim);
        let mut tokens = self.pool.take(all.len() - self.batch * dim);
        for (to, from) in tokens.chunks_exact_mut(image_len - dim).zip(all.chunks_exact(image_len)) {
            to.copy_from_slice(&from[dim..]);
        }
        tokens
    }

    /// Pads gradients of only the class tokens, `[B, D]`, with zeros to `[B T, D]`. Copies gradients of all tokens.
    fn spread(&self, some: &[R]) -> Buffer<R> {
        let (dim, tokens) = (self.config.dim, self.config.tokens());
        let len = self.batch * tokens * dim;
        if some.len() == len {
            return self.pool.copy(some);
        }
        let mut all = self.pool.zeros(len);
        for (to, from) in all.chunks_exact_mut(tokens * dim).zip(some.chunks_exact(dim)) {
            to[..dim].copy_from_slice(from);
        }
        all
    }

    fn attention<'a>(&self, heads: &'a Heads<R>) -> Attention<'a, R> {
        let Self { config: VitConfig { dim, heads: count, .. }, batch, .. } = *self;
        let of = |x: MatRef<'a, R>, index: usize| x.submatrix(0, index * dim, x.nrows(), *dim);
        let [query, key, value] = match heads {
            Heads::All(qkv) => [0, 1, 2].map(|index| of(rows(qkv, 3 * dim), index)),
            Heads::ClassOnly { query, key_value } => {
                let key_value = rows(key_value, 2 * dim);
                [rows(query, *dim), of(key_value, 0), of(key_value, 1)]
            }
        };
        Attention { batch, heads: *count, query, key, value }
    }

    /// Cuts `images` (`[B, 3, side, side]` in [0, 1]) into patches `[B S, L]` of (x - 0.5) / 0.5.
    ///
    /// A convolution with stride equal to its kernel side is a matrix product over patches. Patches go row by row, and
    /// the values of a patch channel by channel, as in `patch_embed.proj.weight` flattened to `[D, L]`.
    fn patches(&self, images: &[R]) -> Buffer<R> {
        let mut patches = self.pool.take(images.len());
        let len = image_len(self.config);
        for (patches, image) in patches.chunks_exact_mut(len).zip(images.chunks_exact(len)) {
            for (to, row) in patches.chunks_exact_mut(self.config.patch).zip(patch_rows(self.config)) {
                for (to, &x) in to.iter_mut().zip(&image[row]) {
                    *to = normalised(x);
                }
            }
        }
        patches
    }

    /// Turns dl/d([`Vit::patches`]) into dl/d(images).
    fn unpatch(&self, by_patches: &[R], by_images: &mut [R]) {
        let len = image_len(self.config);
        for (image, patches) in by_images.chunks_exact_mut(len).zip(by_patches.chunks_exact(len)) {
            for (row, values) in patch_rows(self.config).zip(patches.chunks_exact(self.config.patch)) {
                for (x, &value) in image[row].iter_mut().zip(values) {
                    *x = image_slope(value);
                }
            }
        }
    }
}

/// Normalises an image's value in [0, 1] for every network.
pub(crate) fn normalised<R: Real>(x: R) -> R {
    let half = R::from(0.5);
    (x - half) / half
}

/// Computes dl/dx from dl/d([`normalised`] x).
pub(crate) fn image_slope<R: Real>(slope: R) -> R {
    slope / R::from(0.5)
}

fn image_len(config: &VitConfig) -> usize {
    VitConfig::CHANNELS * config.image * config.image
}

/// Yields where each row of each patch lies in an image, in the order of the patches.
fn patch_rows(config: &VitConfig) -> impl Iterator<Item = Range<usize>> {
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
    fn patches_go_row_by_row_and_channel_by_channel_and_back() {
        let config =
            VitConfig { image: 4, patch: 2, dim: 6, depth: 1, heads: 1, classes: 2, april_block: false, mlp: None };
        let images: Vec<f32> = (0..2 * 48).map(|i| i as f32).collect();
        let vit = Vit { config: &config, activation: Activation::Gelu, batch: 2, pool: &Pool::default() };
        let patches = vit.patches(&images);
        assert_eq!(patches.len(), images.len());
        let indices: Vec<f32> = patches.iter().map(|p| p * 0.5 + 0.5).collect();
        // Second patch of the first row: columns 2 and 3 of rows 0 and 1, in each of the three planes.
        assert_eq!(indices[12..24], [2., 3., 6., 7., 18., 19., 22., 23., 34., 35., 38., 39.]);
        // First patch of the second image.
        assert_eq!(indices[48..52], [48., 49., 52., 53.]);
        let mut slopes = vec![0.0; images.len()];
        vit.unpatch(&patches, &mut slopes);
        for (index, slope) in slopes.iter().enumerate() {
            assert_eq!(*slope, (index as f32 - 0.5) / 0.25);
        }
    }
}
