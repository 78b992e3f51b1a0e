//! The layers of the networks. Where they run in memory, on flex in single precision, their passes are written by hand: flex takes
//! most of a step of a small network for what is not a product of matrices. Elsewhere they are Burn's.

mod batch_norm;
mod convolution;
mod gelu;
mod layer_norm;
mod linear;
mod softmax;
mod vector;

use std::{fmt::Debug, marker::PhantomData};

use burn::{
    backend::{
        Autodiff, Backend, BackendTensor, DispatchKindConversion, DispatchTensor, Flex,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind},
        },
        flex::FlexTensor,
        ops::FloatTensorOps,
        tensor::FloatTensor,
    },
    tensor::{DType, Device, Shape, Tensor, TensorData},
};

pub(crate) use self::{
    batch_norm::{Normed, batch_norm_train},
    convolution::{Window, convolution},
    gelu::gelu,
    layer_norm::layer_norm,
    linear::linear,
    softmax::softmax,
};

/// A layer of `N` inputs in memory.
trait Layer<const N: usize>: Debug + Send + 'static {
    /// What the backward pass needs beside the gradient.
    type Saved: Debug + Clone + Send + 'static;

    /// The output, and what is to be saved, which may be empty where nothing is `tracked`. The values of the inputs lie one behind
    /// the other.
    fn forward(&mut self, inputs: [FlexTensor; N], tracked: bool) -> (FlexTensor, Self::Saved);

    /// dl/d(input) of each input that is `wanted` by dl/d(output), whose values lie one behind the other.
    fn backward(saved: Self::Saved, gradient: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N];
}

/// The output of `layer`; `None` where its inputs are not in memory or not of single precision.
fn in_memory<L: Layer<N>, const N: usize, const D: usize>(
    layer: &mut L,
    inputs: impl FnOnce() -> [DispatchTensor; N],
    first: &Tensor<D>,
) -> Option<DispatchTensor> {
    let device = first.device();
    // The same device with autodiff is equal.
    if device != Device::flex() || first.dtype() != DType::F32 {
        return None;
    }
    if !device.is_autodiff() {
        let inputs = all(inputs().map(primitive::<Flex>))?;
        let (output, _) = layer.forward(inputs.map(|input| input.to_contiguous()), false);
        return Some(dispatched::<Flex>(output));
    }
    let parts = all(inputs().map(primitive::<Autodiff<Flex>>))?.map(|input| input.into_parts());
    let mut values = Vec::with_capacity(N);
    let nodes = parts.map(|(value, node)| {
        values.push(value.to_contiguous());
        node
    });
    let values = <[FlexTensor; N]>::try_from(values).ok()?;
    let output = match Step::<L>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => {
            let (output, saved) = layer.forward(values, true);
            step.finish(saved, output)
        }
        OpsKind::UnTracked(step) => step.finish(layer.forward(values, false).0),
    };
    Some(dispatched::<Autodiff<Flex>>(output))
}

fn primitive<B: Backend>(tensor: DispatchTensor) -> Option<FloatTensor<B>>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    match <DispatchTensor as DispatchKindConversion<B>>::try_into_backend(tensor) {
        Ok(BackendTensor::Float(tensor)) => Some(tensor),
        _ => None,
    }
}

fn dispatched<B: Backend>(tensor: FloatTensor<B>) -> DispatchTensor
where
    DispatchTensor: DispatchKindConversion<B>,
{
    <DispatchTensor as DispatchKindConversion<B>>::from_backend(BackendTensor::Float(tensor))
}

fn all<T, const N: usize>(found: [Option<T>; N]) -> Option<[T; N]> {
    let found: Option<Vec<T>> = found.into_iter().collect();
    found?.try_into().ok()
}

/// The backward pass of `L` in Burn's graph.
#[derive(Debug)]
struct Step<L>(PhantomData<L>);

impl<L: Layer<N>, const N: usize> Backward<Flex, N> for Step<L> {
    type State = L::Saved;

    fn backward(self, ops: Ops<L::Saved, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<Flex>(&ops.node).to_contiguous();
        let wanted = ops.parents.each_ref().map(Option::is_some);
        for (parent, gradient) in ops.parents.into_iter().zip(L::backward(ops.state, gradient, wanted)) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

fn array(values: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

fn dims<const D: usize>(array: &FlexTensor) -> [usize; D] {
    array.layout().shape().dims()
}

/// Of an array whose values lie one behind the other.
fn values(array: &FlexTensor) -> &[f32] {
    array.as_slice().unwrap_or_default()
}

/// `a` `[m, k]` times `b` `[k, n]`.
fn product(a: FlexTensor, b: FlexTensor) -> FlexTensor {
    Flex::float_matmul(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and a shape of any rank.
    #[derive(Clone)]
    pub(super) struct Numbers(Vec<f64>, Vec<usize>);

    /// An input on a device, which takes its rank where it is used.
    pub(super) struct Input {
        flat: Tensor<1>,
        shape: Vec<usize>,
    }

    impl Input {
        pub(super) fn unflat<const D: usize>(&self) -> Tensor<D> {
            let shape: [usize; D] = self.shape.clone().try_into().unwrap();
            self.flat.clone().reshape(shape)
        }
    }

    /// Numbers in [-2, 2] without an order.
    pub(super) fn numbers(shape: &[usize]) -> Numbers {
        let len = shape.iter().product::<usize>();
        let values = (0..len).map(|i| ((i * 7919 + len * 31) % 1009) as f64 / 252.25 - 2.0).collect();
        Numbers(values, shape.to_vec())
    }

    /// Output, dl/d(each input) of a loss that weighs the outputs differently, and the output where nothing is tracked.
    fn passes<const N: usize, const D: usize>(
        inputs: &[Numbers],
        dtype: DType,
        layer: &impl Fn([Input; N]) -> Tensor<D>,
    ) -> Vec<Vec<f64>> {
        let read = |data: TensorData| data.convert::<f64>().try_into_vec::<f64>().unwrap();
        let device = Device::flex().autodiff();
        let on = |device: &Device| -> Vec<Input> {
            let made = inputs.iter().map(|Numbers(values, shape)| {
                let flat = TensorData::new(values.clone(), [values.len()]);
                Input { flat: Tensor::from_data(flat, (device, dtype)), shape: shape.clone() }
            });
            made.collect()
        };
        let mut leaves = on(&device);
        leaves.iter_mut().for_each(|leaf| leaf.flat = leaf.flat.clone().require_grad());
        let flats: Vec<Tensor<1>> = leaves.iter().map(|leaf| leaf.flat.clone()).collect();
        let y = layer(leaves.try_into().ok().unwrap());
        let Numbers(weights, _) = numbers(&y.dims());
        let weights = Tensor::<D>::from_data(TensorData::new(weights, y.dims()), (&device, dtype));
        let gradients = (y.clone() * weights).sum().backward();
        let untracked = layer(on(&Device::flex()).try_into().ok().unwrap());
        let mut found = vec![read(y.without_autodiff().into_data()), read(untracked.into_data())];
        found.extend(flats.iter().map(|leaf| read(leaf.grad(&gradients).unwrap().into_data())));
        found
    }

    /// In f32, where it is ours, `layer` has the values and gradients that it has in f64, where it is Burn's.
    pub(super) fn is_burns<const N: usize, const D: usize>(
        name: &str,
        inputs: &[Numbers],
        layer: impl Fn([Input; N]) -> Tensor<D>,
    ) {
        let [ours, burns] = [DType::F32, DType::F64].map(|dtype| passes(inputs, dtype, &layer));
        for (which, (ours, burns)) in ours.iter().zip(&burns).enumerate() {
            assert_eq!(ours.len(), burns.len(), "{name}, {which}");
            let scale = burns.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
            for (index, (ours, burns)) in ours.iter().zip(burns).enumerate() {
                assert!((ours - burns).abs() < 4e-6 * scale, "{name}, {which}, {index}: {ours} for {burns}");
            }
        }
    }

    #[test]
    fn layers_of_a_vit_are_those_of_burn() {
        for (rows, dim) in [(1, 1), (2, 7), (5, 16), (65, 96), (3, 130)] {
            is_burns("softmax", &[numbers(&[2, 3, rows, dim])], |[x]| softmax(x.unflat::<4>()));
            is_burns("gelu", &[numbers(&[2, rows, dim])], |[x]| gelu(x.unflat()));
            let inputs = [numbers(&[2, rows, dim]), numbers(&[dim]), numbers(&[dim])];
            is_burns("layer norm", &inputs, |[x, weight, bias]| {
                layer_norm(x.unflat::<3>(), weight.unflat(), bias.unflat(), 1e-6)
            });
            let inputs = [numbers(&[rows, dim]), numbers(&[11, dim]), numbers(&[11])];
            is_burns("linear", &inputs, |[x, weight, bias]| linear(x.unflat(), weight.unflat(), bias.unflat()));
        }
    }

    #[test]
    fn batch_norm_is_that_of_burn() {
        for shape in [[1, 1, 1, 2], [2, 3, 5, 7], [4, 2, 16, 16], [6, 20, 2, 1]] {
            let inputs = [numbers(&shape), numbers(&[shape[1]]), numbers(&[shape[1]])];
            for which in 0..3 {
                is_burns(&format!("batch norm {shape:?}"), &inputs, |[x, weight, bias]| {
                    let normed = batch_norm_train(x.unflat(), weight.unflat(), bias.unflat(), 1e-5);
                    let moment = |moment: Tensor<1>| {
                        let moment = moment.reshape([1, shape[1], 1, 1]);
                        if normed.output.is_autodiff() { moment.autodiff() } else { moment }
                    };
                    match which {
                        0 => normed.output.clone(),
                        1 => normed.output.clone() + moment(normed.mean.clone()),
                        _ => normed.output.clone() + moment(normed.variance.clone()),
                    }
                });
            }
        }
    }

    /// What is turned or cut is no less an input.
    #[test]
    fn inputs_need_not_lie_one_behind_the_other() {
        let inputs = [numbers(&[7, 9]), numbers(&[11, 7]), numbers(&[11])];
        is_burns("turned", &inputs, |[x, weight, bias]| {
            linear(x.unflat::<2>().transpose(), weight.unflat(), bias.unflat()).transpose()
        });
        is_burns("cut", &[numbers(&[2, 5, 12])], |[x]| gelu(x.unflat::<3>().narrow(2, 3, 8).swap_dims(1, 2)));
    }

    /// A number that is none is not lost, so that a diverged training is seen.
    #[test]
    fn what_is_no_number_stays_none() {
        let device = Device::flex();
        let x = Tensor::<3>::from_floats([[[1.0, f32::NAN, 2.0], [1.0, 2.0, 3.0]]], &device);
        let ones = Tensor::<1>::ones([3], &device);
        let lost = |y: Tensor<3>| -> Vec<bool> {
            y.into_data().try_into_vec::<f32>().unwrap().iter().map(|y| y.is_nan()).collect()
        };
        assert_eq!(lost(gelu(x.clone())), [false, true, false, false, false, false]);
        assert_eq!(lost(softmax(x.clone())), [true, true, true, false, false, false]);
        assert_eq!(lost(layer_norm(x, ones.clone(), ones, 1e-6)), [true, true, true, false, false, false]);
    }
}
