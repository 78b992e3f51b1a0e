//! The mixed second derivative d<dl/dw, v>/d(images), by forward mode over reverse mode. `record` keeps every value of
//! a forward and a backward pass. `input_slope_along` repeats both and computes the derivative of each value along v.
//! `of_x` is the derivative of `x`.

use super::{Block, BlockPass, BlockSlopes, Buffer, Heads, Parameters, Pass, Vit};
use crate::{
    gelu::{gelu_back, gelu_back_change},
    loss::cross_entropy_change,
    matrix::{every, every_mut, product_added, rows, rows_mut},
    parameters::{Change, add_all},
    real::Real,
    vector::add,
};

/// All values of a forward and a backward pass.
pub(crate) struct Tape<R: Real> {
    pass: Pass<R>,
    slopes: Vec<BlockSlopes<R>>,
    /// Gradients of the logits, `[B, classes]`, and of the last norm's output, `[B, D]`.
    by_logits: Buffer<R>,
    by_norm: Buffer<R>,
    /// Gradient of the tokens, `[B T, D]`.
    by_tokens: Buffer<R>,
}

/// Derivatives of a block's values, with the shapes of [`BlockPass`].
struct BlockChanges<R: Real> {
    x: Buffer<R>,
    heads: Heads<R>,
    weights: Buffer<R>,
    middle: Buffer<R>,
    /// Before GELU.
    hidden: Buffer<R>,
}

impl<R: Real> Vit<'_, R> {
    /// Like [`backward`](Vit::backward), but keeps every value.
    pub(crate) fn record(&self, weights: &[R], pass: Pass<R>, slope: Buffer<R>, gradient: &mut [R]) -> Tape<R> {
        let w = Parameters::cut(self.config, weights);
        let g = Parameters::cut(self.config, Some(gradient));
        let (by_norm, mut by_x) = self.head_back(&w, (g.head, g.norm), &pass, &slope);
        let mut slopes = Vec::with_capacity(pass.blocks.len());
        for ((block, gradient), pass) in w.blocks.iter().zip(g.blocks).zip(&pass.blocks).rev() {
            let (by_in, of_block) = self.block_back(block, gradient, pass, by_x);
            by_x = by_in;
            slopes.push(of_block);
        }
        slopes.reverse();
        self.embed_back(&w, (g.class_token, g.position, g.patch), &pass.patches, &by_x, None);
        Tape { pass, slopes, by_logits: slope, by_norm, by_tokens: by_x }
    }

    /// Computes the derivative of dl/d(images) along `direction`, which covers the first weights.
    pub(crate) fn input_slope_along(
        &self,
        weights: &[R],
        tape: &Tape<R>,
        labels: &[usize],
        direction: &[R],
        by_images: &mut [R],
    ) {
        let Self { config, batch, pool, .. } = *self;
        let (dim, classes, patch_len) = (config.dim, config.classes, config.patch_len());
        let w = Parameters::cut(config, weights);
        let along = Parameters::cut(config, Some(direction));
        let Tape { pass, slopes, by_logits, by_norm, by_tokens } = tape;

        let mut of_x = self.embed_change(&along, &pass.patches); // [B T, D]
        let mut changes = Vec::with_capacity(pass.blocks.len());
        for ((block, along), pass) in w.blocks.iter().zip(&along.blocks).zip(&pass.blocks) {
            let (of_out, change) = self.block_change(block, along, pass, of_x);
            of_x = of_out; // [B T, D], last [B, D]
            changes.push(change);
        }
        let of_norm = w.norm.layer_norm_change(pool, &along.norm, &pass.last, &of_x, &pass.norm); // [B, D]
        let mut of_logits = pool.take(batch * classes);
        let (output, of_output) = (rows(&pass.norm.output, dim), rows(&of_norm, dim));
        w.head.apply_change(&along.head, rows_mut(&mut of_logits, classes), output, of_output);

        cross_entropy_change(&mut of_logits, by_logits, labels);
        let mut of_by_norm = pool.zeros(batch * dim);
        w.head.back_change(
            &along.head,
            rows_mut(&mut of_by_norm, dim),
            rows(by_logits, classes),
            rows(&of_logits, classes),
        );
        let mut of_by_x = pool.zeros(batch * dim);
        let (slope, x) = ([&**by_norm, &*of_by_norm], [&*pass.last, &*of_x]);
        w.norm.layer_norm_back_change(&along.norm, slope, x, &pass.norm, &mut of_by_x);
        let passes = pass.blocks.iter().zip(slopes).zip(changes);
        for ((block, along), ((pass, slopes), changes)) in w.blocks.iter().zip(&along.blocks).zip(passes).rev() {
            of_by_x = self.block_back_change(block, along, (pass, slopes), changes, of_by_x); // [B T, D]
        }

        let mut of_by_patches = pool.zeros(pass.patches.len()); // [B S, L]
        let [slope, of_slope] = [by_tokens, &of_by_x].map(|slope| self.without_class(slope)); // [B S, D]
        let change = rows_mut(&mut of_by_patches, patch_len);
        w.patch.back_change(&along.patch, change, rows(&slope, dim), rows(&of_slope, dim));
        self.unpatch(&of_by_patches, by_images);
    }

    /// Returns the derivative of the tokens, `[B T, D]`.
    fn embed_change(&self, along: &Parameters<Change<'_, R>>, patches: &[R]) -> Buffer<R> {
        let Self { config, batch, pool, .. } = *self;
        let (dim, patch_len) = (config.dim, config.patch_len());
        let mut change = pool.zeros(batch * config.tokens() * dim);
        let images = change.chunks_exact_mut(config.tokens() * dim);
        for (change, patches) in images.zip(patches.chunks_exact(config.patches() * patch_len)) {
            add_all(change, along.position);
            let (class, tokens) = change.split_at_mut(dim);
            add_all(class, along.class_token);
            if let Some(bias) = along.patch.bias {
                tokens.chunks_exact_mut(dim).for_each(|token| add(token, bias));
            }
            if let Some(weight) = along.patch.weight {
                product_added(rows_mut(tokens, dim), rows(patches, patch_len), rows(weight, patch_len).transpose());
            }
        }
        change
    }

    /// Computes the derivative of the output `[B Q, D]` from that of the input `[B T, D]`.
    fn block_change(
        &self,
        w: &Block<&[R]>,
        along: &Block<Change<'_, R>>,
        pass: &BlockPass<R>,
        of_x: Buffer<R>,
    ) -> (Buffer<R>, BlockChanges<R>) {
        let Self { config, batch, pool, .. } = *self;
        let (dim, width, tokens) = (config.dim, config.mlp_dim(), config.tokens());
        let BlockPass { x, norm1, heads, weights, mixed, middle, norm2, hidden: [before, behind] } = pass;
        let count = middle.len() / dim;
        let of_normed = match (&w.norm1, &along.norm1, norm1) {
            (Some(norm), Some(along), Some(normed)) => norm.layer_norm_change(pool, along, x, &of_x, normed),
            _ => pool.copy(&of_x),
        }; // [B T, D]
        let normed: &[R] = norm1.as_ref().map_or(x, |normed| &normed.output);
        let mut of_heads = heads.room(pool);
        match &mut of_heads {
            Heads::All(qkv) => {
                w.qkv.apply_change(&along.qkv, rows_mut(qkv, 3 * dim), rows(normed, dim), rows(&of_normed, dim));
            }
            Heads::ClassOnly { query, key_value } => {
                let (query_layer, key_value_layer) = w.qkv.pieces().split(dim, dim);
                let (along_query, along_key_value) = along.qkv.pieces().split(dim, dim);
                let [x, of_x] = [normed, &*of_normed].map(|x| every(x, batch, dim, tokens));
                query_layer.apply_change(&along_query, rows_mut(query, dim), x, of_x);
                let [x, of_x] = [normed, &*of_normed].map(|x| rows(x, dim));
                key_value_layer.apply_change(&along_key_value, rows_mut(key_value, 2 * dim), x, of_x);
            }
        }
        let mut of_mixed = pool.take(count * dim); // [B Q, D]
        let of_weights =
            self.attention(heads).apply_change(&self.attention(&of_heads), pool, weights, rows_mut(&mut of_mixed, dim));
        let mut of_middle = pool.take(count * dim); // [B Q, D]
        w.proj.apply_change(&along.proj, rows_mut(&mut of_middle, dim), rows(mixed, dim), rows(&of_mixed, dim));
        let has_residuals = norm1.is_some();
        if has_residuals {
            let stride = of_x.len() / count;
            for (middle, x) in of_middle.chunks_exact_mut(dim).zip(of_x.chunks_exact(stride)) {
                add(middle, &x[..dim]);
            }
        }
        let of_norm2 = w.norm2.layer_norm_change(pool, &along.norm2, middle, &of_middle, norm2); // [B Q, D]
        let (mut of_before, mut of_behind) = (pool.take(count * width), pool.take(count * width)); // [B Q, 4 D]
        let output = rows(&norm2.output, dim);
        w.fc1.apply_change(&along.fc1, rows_mut(&mut of_before, width), output, rows(&of_norm2, dim));
        gelu_back(&mut of_behind, &of_before, before);
        let mut of_out = pool.take(count * dim); // [B Q, D]
        w.fc2.apply_change(&along.fc2, rows_mut(&mut of_out, dim), rows(behind, width), rows(&of_behind, width));
        if has_residuals {
            add(&mut of_out, &of_middle);
        }
        (of_out, BlockChanges { x: of_x, heads: of_heads, weights: of_weights, middle: of_middle, hidden: of_before })
    }

    /// Computes the derivative of dl/d(in) `[B T, D]` from that of dl/d(out) `[B Q, D]`.
    fn block_back_change(
        &self,
        w: &Block<&[R]>,
        along: &Block<Change<'_, R>>,
        (pass, slopes): (&BlockPass<R>, &BlockSlopes<R>),
        changes: BlockChanges<R>,
        of_by_out: Buffer<R>,
    ) -> Buffer<R> {
        let Self { config, batch, pool, .. } = *self;
        let (dim, width) = (config.dim, config.mlp_dim());
        let count = pass.middle.len() / dim;
        let has_residuals = pass.norm1.is_some();
        let [by_before, by_behind] = &slopes.hidden;

        let (mut of_by_behind, mut of_by_before) = (pool.zeros(count * width), pool.take(count * width)); // [B Q, 4 D]
        let change = rows_mut(&mut of_by_behind, width);
        w.fc2.back_change(&along.fc2, change, rows(&slopes.out, dim), rows(&of_by_out, dim));
        gelu_back_change(&mut of_by_before, [by_behind, &of_by_behind], [&pass.hidden[0], &changes.hidden]);
        let mut of_by_norm2 = pool.zeros(count * dim); // [B Q, D]
        let change = rows_mut(&mut of_by_norm2, dim);
        w.fc1.back_change(&along.fc1, change, rows(by_before, width), rows(&of_by_before, width));
        let mut of_by_middle = if has_residuals { of_by_out } else { pool.zeros(count * dim) }; // [B Q, D]
        let (slope, x) = ([&*slopes.norm2, &*of_by_norm2], [&*pass.middle, &*changes.middle]);
        w.norm2.layer_norm_back_change(&along.norm2, slope, x, &pass.norm2, &mut of_by_middle);

        let mut of_by_mixed = pool.zeros(count * dim); // [B Q, D]
        let change = rows_mut(&mut of_by_mixed, dim);
        w.proj.back_change(&along.proj, change, rows(&slopes.middle, dim), rows(&of_by_middle, dim));
        let mut of_by_heads = slopes.heads.room(pool);
        self.attention(&pass.heads).back_change(
            &self.attention(&changes.heads),
            pool,
            [&pass.weights, &changes.weights],
            [rows(&slopes.mixed, dim), rows(&of_by_mixed, dim)],
            of_by_heads.slopes(dim),
        );
        let mut of_by_normed = pool.zeros(pass.x.len()); // [B T, D]
        match (&slopes.heads, &of_by_heads) {
            (Heads::All(slope), Heads::All(of_slope)) => {
                let change = rows_mut(&mut of_by_normed, dim);
                w.qkv.back_change(&along.qkv, change, rows(slope, 3 * dim), rows(of_slope, 3 * dim));
            }
            (
                Heads::ClassOnly { query: by_query, key_value: by_key_value },
                Heads::ClassOnly { query: of_by_query, key_value: of_by_key_value },
            ) => {
                let (query, key_value) = w.qkv.pieces().split(dim, dim);
                let (along_query, along_key_value) = along.qkv.pieces().split(dim, dim);
                let [slope, of_slope] = [by_key_value, of_by_key_value].map(|slope| rows(slope, 2 * dim));
                key_value.back_change(&along_key_value, rows_mut(&mut of_by_normed, dim), slope, of_slope);
                let change = every_mut(&mut of_by_normed, batch, dim, config.tokens());
                query.back_change(&along_query, change, rows(by_query, dim), rows(of_by_query, dim));
            }
            // Unreachable: gradients have the same variant as their values.
            _ => {}
        }
        let (Some(norm), Some(along), Some(normed)) = (&w.norm1, &along.norm1, &pass.norm1) else {
            return of_by_normed;
        };
        let mut of_by_x = self.spread(&of_by_middle);
        let (slope, x) = ([&*slopes.normed, &*of_by_normed], [&*pass.x, &*changes.x]);
        norm.layer_norm_back_change(along, slope, x, normed, &mut of_by_x);
        of_by_x
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, VitConfig};

    use crate::{Engine, Normalisation, Wanted};

    const SIDE: usize = 8;

    fn waves(len: usize, pace: f64, height: f64) -> Vec<f64> {
        (0..len).map(|i| height * (pace * i as f64).sin()).collect()
    }

    /// Covers all weights and only the first ones (a search can limit its scope), and one image and several.
    #[test]
    fn the_exact_change_is_the_limit_of_differences() {
        let usual =
            VitConfig { image: SIDE, patch: 4, dim: 12, depth: 3, heads: 3, classes: 5, april_block: false, mlp: None };
        for config in [usual, VitConfig { april_block: true, ..usual }, VitConfig { depth: 1, ..usual }] {
            let architecture = Architecture::Vit(config);
            let (layout, engine) = (architecture.layout(), Engine::<f64>::new(architecture));
            let weights = waves(layout.len(), 0.7, 0.4);
            let first_block = layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end;
            for (scope, labels) in [(layout.len(), &[2, 4][..]), (first_block, &[1])] {
                let images: Vec<f64> =
                    waves(labels.len() * 3 * SIDE * SIDE, 1.3, 0.5).iter().map(|x| x + 0.5).collect();
                let direction = waves(scope, 2.9, 1.0);
                let recording = engine.record(&weights, &images, labels, scope).unwrap();
                let found = engine.input_slope_along(&weights, &recording, &direction);

                let step = 1e-5;
                let at = |sign: f64, wanted: Wanted| {
                    let mut weights = weights.clone();
                    weights.iter_mut().zip(&direction).for_each(|(weight, along)| *weight += sign * step * along);
                    engine.differentiate(&weights, &[], &images, labels, Normalisation::Running, wanted)
                };
                let of_images = Wanted { weights: 0, images: true };
                let (forwards, backwards) = (at(1.0, of_images).images, at(-1.0, of_images).images);
                let largest = found.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
                for ((found, forwards), backwards) in found.iter().zip(forwards).zip(backwards) {
                    let difference = (forwards - backwards) / (2.0 * step);
                    assert!((found - difference).abs() < 1e-6 * largest, "{config:?}: {found} for {difference}");
                }
                let gradient = at(0.0, Wanted { weights: scope, images: false }).gradient;
                assert_eq!(recording.gradient, gradient, "{config:?}");
            }
        }
    }
}
