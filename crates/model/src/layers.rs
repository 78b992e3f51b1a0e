//! Layers whose passes are written by hand where they run in memory, on flex in single precision: of a step of a small network
//! flex takes most for what is not a product of matrices. On other devices, and in double precision, they are Burn's.

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

/// A layer of `N` inputs in memory. All arrays that it is given are contiguous and of f32.
trait Layer<const N: usize>: Debug + Send + 'static {
    /// What the backward pass needs beside the gradient.
    type Saved: Debug + Clone + Send + 'static;

    /// The output, and what is to be saved, which may be empty where nothing is `tracked`. What else a caller wants to know stays
    /// in the layer.
    fn forward(&mut self, inputs: [FlexTensor; N], tracked: bool) -> (FlexTensor, Self::Saved);

    /// dl/d(input) of at least each input that is `wanted`, by dl/d(output).
    fn backward(saved: Self::Saved, gradient: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N];
}

/// The output of `layer`, of the rank of `first`, its first input; `None` where an input is not in memory or not of single precision.
fn in_memory<L: Layer<N>, const N: usize, const D: usize>(
    layer: &mut L,
    first: &Tensor<D>,
    inputs: impl FnOnce() -> [DispatchTensor; N],
) -> Option<Tensor<D>> {
    let device = first.device();
    // The same device with autodiff is equal.
    if device != Device::flex() || first.dtype() != DType::F32 {
        return None;
    }
    if !device.is_autodiff() {
        let inputs = contiguous(all(inputs().map(primitive::<Flex>))?)?;
        return Some(Tensor::from_dispatch(dispatched::<Flex>(layer.forward(inputs, false).0)));
    }
    let inputs = all(inputs().map(primitive::<Autodiff<Flex>>))?;
    let nodes = inputs.each_ref().map(|input| input.node());
    let inputs = contiguous(inputs.map(|input| input.into_primitive()))?;
    let output = match Step::<L>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => {
            let (output, saved) = layer.forward(inputs, true);
            step.finish(saved, output)
        }
        OpsKind::UnTracked(step) => step.finish(layer.forward(inputs, false).0),
    };
    Some(Tensor::from_dispatch(dispatched::<Autodiff<Flex>>(output)))
}

/// `None` if one is not of f32.
fn contiguous<const N: usize>(arrays: [FlexTensor; N]) -> Option<[FlexTensor; N]> {
    arrays.iter().all(|array| array.dtype() == DType::F32).then(|| arrays.map(|array| array.to_contiguous()))
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

/// Values of the last dimension.
fn row_len(x: &FlexTensor) -> usize {
    x.layout().shape().last().copied().unwrap_or(1).max(1)
}

/// Of a contiguous array of f32.
fn values(array: &FlexTensor) -> &[f32] {
    let values = array.as_slice();
    debug_assert!(values.is_some(), "{:?} is not contiguous or not of f32", array.layout());
    values.unwrap_or_default()
}

/// `a` `[m, k]` times `b` `[k, n]`, contiguous.
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

    /// Of a loss that weighs the outputs differently: the output where nothing is tracked, the output, and dl/d(each input that is
    /// `tracked`).
    fn passes<const N: usize, const D: usize>(
        inputs: &[Numbers],
        tracked: &[bool],
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
        let mut flats = Vec::new();
        for (leaf, _) in leaves.iter_mut().zip(tracked).filter(|(_, tracked)| **tracked) {
            leaf.flat = leaf.flat.clone().require_grad();
            flats.push(leaf.flat.clone());
        }
        let y = layer(leaves.try_into().ok().unwrap());
        let Numbers(weights, _) = numbers(&y.dims());
        let weights = Tensor::<D>::from_data(TensorData::new(weights, y.dims()), (&device, dtype));
        let untracked = layer(on(&Device::flex()).try_into().ok().unwrap());
        let mut found = vec![read(untracked.into_data()), read(y.clone().without_autodiff().into_data())];
        if !flats.is_empty() {
            let gradients = (y * weights).sum().backward();
            found.extend(flats.iter().map(|leaf| read(leaf.grad(&gradients).unwrap().into_data())));
        }
        found
    }

    /// In f32, where it is ours, `layer` has the values and gradients that it has in f64, where it is Burn's, whichever inputs are
    /// tracked.
    pub(super) fn assert_is_burns<const N: usize, const D: usize>(
        name: &str,
        inputs: &[Numbers],
        layer: impl Fn([Input; N]) -> Tensor<D>,
    ) {
        for which in 0..1 << N {
            let tracked: Vec<bool> = (0..N).map(|input| which & 1 << input != 0).collect();
            let [ours, burns] = [DType::F32, DType::F64].map(|dtype| passes(inputs, &tracked, dtype, &layer));
            assert_eq!(ours.len(), burns.len(), "{name}, {tracked:?}");
            for (which, (ours, burns)) in ours.iter().zip(&burns).enumerate() {
                assert_eq!(ours.len(), burns.len(), "{name}, {tracked:?}, {which}");
                let scale = burns.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
                for (index, (ours, burns)) in ours.iter().zip(burns).enumerate() {
                    let apart = (ours - burns).abs();
                    assert!(apart < 4e-6 * scale, "{name}, {tracked:?}, {which}, {index}: {ours} for {burns}");
                }
            }
        }
    }

    /// Else the other tests compare Burn's layers with Burn's.
    #[test]
    fn single_precision_in_memory_is_ours() {
        let ours = |device: &Device, dtype, tracked: bool| {
            let x = Tensor::<2>::zeros([2, 3], (device, dtype));
            let x = if tracked { x.require_grad() } else { x };
            softmax::is_ours(&x)
        };
        let (flex, autodiff) = (Device::flex(), Device::flex().autodiff());
        assert!(ours(&flex, DType::F32, false));
        assert!(ours(&autodiff, DType::F32, false));
        assert!(ours(&autodiff, DType::F32, true));
        assert!(!ours(&flex, DType::F64, false));
    }

    #[test]
    fn layers_of_a_vit_are_those_of_burn() {
        for (rows, dim) in [(1, 1), (2, 7), (5, 16), (65, 96), (3, 130)] {
            assert_is_burns("softmax", &[numbers(&[2, 3, rows, dim])], |[x]| softmax(x.unflat::<4>()));
            assert_is_burns("gelu", &[numbers(&[2, rows, dim])], |[x]| gelu(x.unflat()));
            let inputs = [numbers(&[2, rows, dim]), numbers(&[dim]), numbers(&[dim])];
            assert_is_burns("layer norm", &inputs, |[x, weight, bias]| {
                layer_norm(x.unflat::<3>(), weight.unflat(), bias.unflat(), 1e-6)
            });
            let inputs = [numbers(&[rows, dim]), numbers(&[11, dim]), numbers(&[11])];
            assert_is_burns("linear", &inputs, |[x, weight, bias]| linear(x.unflat(), weight.unflat(), bias.unflat()));
        }
    }

    #[test]
    fn batch_norm_is_that_of_burn() {
        for shape in [[1, 1, 1, 2], [2, 3, 5, 7], [4, 2, 16, 16], [6, 20, 2, 1]] {
            let inputs = [numbers(&shape), numbers(&[shape[1]]), numbers(&[shape[1]])];
            for which in 0..3 {
                assert_is_burns(&format!("batch norm {shape:?}"), &inputs, |[x, weight, bias]| {
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
        assert_is_burns("turned", &inputs, |[x, weight, bias]| {
            linear(x.unflat::<2>().transpose(), weight.unflat(), bias.unflat()).transpose()
        });
        assert_is_burns("twice", &[numbers(&[5, 5]), numbers(&[5])], |[x, bias]| {
            linear(x.unflat(), x.unflat(), bias.unflat())
        });
        assert_is_burns("cut", &[numbers(&[2, 5, 12])], |[x]| gelu(x.unflat::<3>().narrow(2, 3, 8).swap_dims(1, 2)));
    }

    /// A number that is none is not lost, so that a diverged training is seen.
    #[test]
    fn what_is_no_number_stays_none() {
        let device = Device::flex();
        let x = Tensor::<3>::from_floats([[[1.0, f32::NAN, 2.0], [1.0, 2.0, 3.0]]], &device);
        let ones = |len| Tensor::<1>::ones([len], &device);
        let lost = |y: Tensor<1>| -> Vec<bool> {
            y.into_data().try_into_vec::<f32>().unwrap().iter().map(|y| y.is_nan()).collect()
        };
        let (one, first, all) =
            ([false, true, false, false, false, false], [true, true, true, false, false, false], [true; 6]);
        assert_eq!(lost(gelu(x.clone()).reshape([6])), one);
        assert_eq!(lost(softmax(x.clone()).reshape([6])), first);
        assert_eq!(lost(layer_norm(x.clone(), ones(3), ones(3), 1e-6).reshape([6])), first);
        let rows = x.clone().reshape([2, 3]);
        assert_eq!(lost(linear(rows, Tensor::ones([3, 3], &device), ones(3)).reshape([6])), first);
        let planes = x.reshape([1, 1, 2, 3]);
        assert_eq!(lost(batch_norm_train(planes.clone(), ones(1), ones(1), 1e-5).output.reshape([6])), all);
        let window = Window { kernel: 1, stride: 1, padding: 0 };
        assert_eq!(lost(convolution(planes, Tensor::ones([1, 1, 1, 1], &device), None, window).reshape([6])), one);
    }

    /// Attention that a mask forbids is none, and far ones make no subnormal numbers, which are slow.
    #[test]
    fn far_below_the_largest_is_nothing() {
        let x = Tensor::<1>::from_floats([0.0, -95.0, f32::NEG_INFINITY, 0.0], &Device::flex());
        let y: Vec<f32> = softmax(x).into_data().try_into_vec().unwrap();
        assert_eq!(y, [0.5, 0.0, 0.0, 0.5]);
    }
}
