//! The forward pass of a pre-LN ViT as timm computes it, on leaf tensors cut from the flat weights.

use std::{f64::consts::SQRT_2, ops::Range};

use burn::tensor::{Element, Tensor, activation, module};
use unmask_core::{ParamLayout, VitConfig};

use crate::leaves::{Cutter, Leaf, Linear, Placement};

const LAYER_NORM_EPSILON: f64 = 1e-6;

struct Norm {
    weight: Tensor<1>,
    bias: Tensor<1>,
}

struct Block {
    /// Absent in the April block, together with both residuals.
    norm1: Option<Norm>,
    query: Linear,
    key: Linear,
    value: Linear,
    proj: Linear,
    norm2: Norm,
    fc1: Linear,
    fc2: Linear,
}

/// How to compute x Phi(x), with the exact (erf) Phi.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gelu {
    /// Burn's operation. Its backward pass is exact on flex alone: the other backends differentiate the tanh
    /// approximation.
    Fused,
    /// Composed from erf, whose derivative is exact everywhere.
    Composed,
}

impl Gelu {
    fn apply(self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Fused => activation::gelu(x),
            Self::Composed => {
                let phi = (x.clone() / SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
                x * phi
            }
        }
    }
}

/// Everything up to the output of block 0: the embeddings and that block. In the flat vector these come first.
pub(crate) struct Early {
    /// `[1, D]`
    class_token: Tensor<2>,
    /// `[T, D]`
    position: Tensor<2>,
    patch: Linear,
    block: Block,
    /// All of them in the order of the flat vector.
    pub(crate) leaves: Vec<Leaf>,
}

/// The blocks behind block 0, and the head.
pub(crate) struct Late {
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    /// All of them in the order of the flat vector.
    pub(crate) leaves: Vec<Leaf>,
}

impl<W: Element> Cutter<'_, W> {
    /// `attn.qkv`: rows are those of q, then k, then v. Three pieces, since slicing its output for q, k and v would make the
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

impl Early {
    /// Number of values of the flat vector that belong here.
    pub(crate) fn len(layout: &ParamLayout) -> usize {
        let last =
            layout.iter().take_while(|param| !param.name.starts_with("blocks.1.") && param.name != "norm.weight");
        last.last().map_or(0, |param| param.range.end)
    }

    /// From the first values of a flat vector of `layout`, at least [`Early::len`] of them.
    pub(crate) fn new<W: Element>(
        config: &VitConfig,
        layout: &ParamLayout,
        weights: &[W],
        placement: Placement<'_>,
    ) -> Self {
        let mut cutter = Cutter::new(layout.iter().as_slice(), weights, placement);
        let class_token = cutter.matrix(1);
        let position = cutter.matrix(config.tokens());
        let patch = cutter.linear(config.dim);
        let block = cutter.block(config, 0);
        Self { class_token, position, patch, block, leaves: cutter.leaves }
    }

    /// Tokens `[batch, T, D]` behind block 0 of normalised `patches` `[batch, S, L]`; of a model with one block those
    /// of the class token alone, `[batch, 1, D]`.
    pub(crate) fn apply(&self, config: &VitConfig, gelu: Gelu, patches: Tensor<3>) -> Tensor<3> {
        let [batch, _, _] = patches.dims();
        let class_token = self.class_token.clone().unsqueeze::<3>().expand([batch, 1, config.dim]);
        let tokens = Tensor::cat(vec![class_token, self.patch.apply(patches)], 1);
        let x = tokens + self.position.clone().unsqueeze::<3>();
        self.block.apply(config.heads, gelu, config.depth == 1, x)
    }
}

impl Late {
    /// From `weights`, the values of a flat vector of `layout` behind those of [`Early`].
    pub(crate) fn new<W: Element>(
        config: &VitConfig,
        layout: &ParamLayout,
        weights: &[W],
        placement: Placement<'_>,
    ) -> Self {
        let offset = Early::len(layout);
        let early = layout.iter().take_while(|param| param.range.end <= offset).count();
        let mut cutter = Cutter::new(&layout.iter().as_slice()[early..], weights, placement);
        let blocks = (1..config.depth).map(|index| cutter.block(config, index)).collect();
        let norm = cutter.norm();
        let head = cutter.linear(config.classes);
        Self { blocks, norm, head, leaves: cutter.leaves }
    }

    /// Logits `[batch, classes]` of what [`Early::apply`] gives.
    pub(crate) fn apply(&self, config: &VitConfig, gelu: Gelu, mut x: Tensor<3>) -> Tensor<2> {
        for (index, block) in self.blocks.iter().enumerate() {
            // The head reads the class token only, so the last block needs no other query.
            let class_only = index + 1 == self.blocks.len();
            x = block.apply(config.heads, gelu, class_only, x);
        }
        let x = self.head.apply(self.norm.apply(x));
        x.squeeze_dim(1)
    }
}

/// All parameters on the device.
pub(crate) struct Parameters {
    early: Early,
    late: Late,
}

impl Parameters {
    /// Moves `weights`, a vector of `layout`, to where `placement` says.
    pub(crate) fn new<W: Element>(
        config: &VitConfig,
        layout: &ParamLayout,
        weights: &[W],
        placement: Placement<'_>,
    ) -> Self {
        let (early, late) = weights.split_at(Early::len(layout));
        Self { early: Early::new(config, layout, early, placement), late: Late::new(config, layout, late, placement) }
    }

    /// In the order of the flat vector.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.early.leaves.iter().chain(&self.late.leaves)
    }

    /// Logits `[batch, classes]` of normalised `patches` `[batch, S, L]`.
    pub(crate) fn logits(&self, config: &VitConfig, gelu: Gelu, patches: Tensor<3>) -> Tensor<2> {
        self.late.apply(config, gelu, self.early.apply(config, gelu, patches))
    }
}

impl Norm {
    fn apply(&self, x: Tensor<3>) -> Tensor<3> {
        module::layer_norm(x, self.weight.clone(), Some(self.bias.clone()), LAYER_NORM_EPSILON)
    }
}

impl Block {
    /// `[batch, T, D]` to the same, or to `[batch, 1, D]` of the class token alone.
    fn apply(&self, heads: usize, gelu: Gelu, class_only: bool, x: Tensor<3>) -> Tensor<3> {
        let queried = |x: Tensor<3>| if class_only { x.narrow(1, 0, 1) } else { x };
        match &self.norm1 {
            Some(norm1) => {
                let normed = norm1.apply(x.clone());
                let x = queried(x) + self.attention(heads, queried(normed.clone()), normed);
                x.clone() + self.mlp(gelu, x)
            }
            None => {
                let x = self.attention(heads, queried(x.clone()), x);
                self.mlp(gelu, x)
            }
        }
    }

    fn mlp(&self, gelu: Gelu, x: Tensor<3>) -> Tensor<3> {
        self.fc2.apply(gelu.apply(self.fc1.apply(self.norm2.apply(x))))
    }

    /// Multi-head attention of the tokens `queried` `[batch, Q, D]` to all tokens `x` `[batch, T, D]`.
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
