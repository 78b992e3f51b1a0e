//! The forward pass of a pre-LN ViT as timm computes it, on leaf tensors cut from the flat weights.

use std::{f64::consts::SQRT_2, ops::Range};

use burn::tensor::{Device, Tensor, TensorData, activation, module};
use unmask_params::{ParamLayout, VitConfig};

const LAYER_NORM_EPSILON: f64 = 1e-6;

/// One piece of the flat vector on the device. `attn.qkv.*` is three pieces, since slicing its output for q, k and v
/// would make the backward pass fill three tensors of the whole output's size with zeros.
pub(crate) enum Leaf {
    Vector(Tensor<1>),
    Matrix(Tensor<2>),
}

struct Linear {
    /// `[out, in]`
    weight: Tensor<2>,
    /// `[out]`
    bias: Tensor<1>,
}

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

/// The parameters on the device.
pub(crate) struct Parameters {
    /// `[1, D]`
    class_token: Tensor<2>,
    /// `[T, D]`
    position: Tensor<2>,
    patch: Linear,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    /// All of them in the order of the flat vector.
    pub(crate) leaves: Vec<Leaf>,
}

/// Cuts leaves from the flat vector, one parameter of the layout after the other.
struct Cutter<'a> {
    params: std::slice::Iter<'a, unmask_params::Param>,
    weights: &'a [f32],
    device: &'a Device,
    leaves: Vec<Leaf>,
}

impl Cutter<'_> {
    fn next_range(&mut self) -> Range<usize> {
        // The layout and this reader are both driven by the same config.
        self.params.next().map_or(0..0, |param| param.range.clone())
    }

    fn vector_at(&mut self, range: Range<usize>) -> Tensor<1> {
        let shape = [range.len()];
        let leaf = self.leaf(range, shape);
        self.leaves.push(Leaf::Vector(leaf.clone()));
        leaf
    }

    /// `rows` times as many columns as fill `range`.
    fn matrix_at(&mut self, range: Range<usize>, rows: usize) -> Tensor<2> {
        let shape = [rows, range.len() / rows];
        let leaf = self.leaf(range, shape);
        self.leaves.push(Leaf::Matrix(leaf.clone()));
        leaf
    }

    fn leaf<const D: usize>(&self, range: Range<usize>, shape: [usize; D]) -> Tensor<D> {
        let leaf = Tensor::from_data(TensorData::new(self.weights[range].to_vec(), shape), self.device);
        if self.device.is_autodiff() { leaf.require_grad() } else { leaf }
    }

    fn matrix(&mut self, rows: usize) -> Tensor<2> {
        let range = self.next_range();
        self.matrix_at(range, rows)
    }

    fn linear(&mut self, out: usize) -> Linear {
        let weight = self.matrix(out);
        let range = self.next_range();
        Linear { weight, bias: self.vector_at(range) }
    }

    /// `attn.qkv`: rows are those of q, then k, then v.
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
        let weight = self.next_range();
        let bias = self.next_range();
        Norm { weight: self.vector_at(weight), bias: self.vector_at(bias) }
    }
}

fn thirds(range: Range<usize>) -> [Range<usize>; 3] {
    let third = range.len() / 3;
    [0, 1, 2].map(|i| range.start + i * third..range.start + (i + 1) * third)
}

impl Parameters {
    /// Moves `weights`, a vector of `layout`, to `device`. On an autodiff device every leaf gathers its gradient.
    pub(crate) fn new(config: &VitConfig, layout: &ParamLayout, weights: &[f32], device: &Device) -> Self {
        let mut cutter = Cutter { params: layout.iter(), weights, device, leaves: Vec::new() };
        let class_token = cutter.matrix(1);
        let position = cutter.matrix(config.tokens());
        let patch = cutter.linear(config.dim);
        let blocks = (0..config.depth)
            .map(|index| {
                let norm1 = config.has_norm1(index).then(|| cutter.norm());
                let [query, key, value] = cutter.qkv(config.dim);
                Block {
                    norm1,
                    query,
                    key,
                    value,
                    proj: cutter.linear(config.dim),
                    norm2: cutter.norm(),
                    fc1: cutter.linear(config.mlp_dim()),
                    fc2: cutter.linear(config.dim),
                }
            })
            .collect();
        let norm = cutter.norm();
        let head = cutter.linear(config.classes);
        Self { class_token, position, patch, blocks, norm, head, leaves: cutter.leaves }
    }

    /// Logits `[batch, classes]` of normalised `patches` `[batch, S, L]`.
    pub(crate) fn logits(&self, config: &VitConfig, gelu: Gelu, patches: Tensor<3>) -> Tensor<2> {
        let [batch, _, _] = patches.dims();
        let class_token = self.class_token.clone().unsqueeze::<3>().expand([batch, 1, config.dim]);
        let tokens = Tensor::cat(vec![class_token, self.patch.apply(patches)], 1);
        let mut x = tokens + self.position.clone().unsqueeze::<3>();
        for (index, block) in self.blocks.iter().enumerate() {
            // The head reads the class token only, so the last block needs no other query.
            let class_only = index + 1 == self.blocks.len();
            x = block.apply(config.heads, gelu, class_only, x);
        }
        let x = self.head.apply(self.norm.apply(x));
        x.squeeze_dim(1)
    }
}

impl Linear {
    fn apply(&self, x: Tensor<3>) -> Tensor<3> {
        module::linear(x, self.weight.clone().transpose(), Some(self.bias.clone()))
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
