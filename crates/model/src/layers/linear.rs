//! y = x W^T + b

use burn::{
    backend::{Flex, flex::FlexTensor, ops::FloatTensorOps},
    tensor::{Shape, Tensor, module},
};

use super::{
    Layer, array, dims, in_memory, product, values,
    vector::{add, vectorised},
};

#[derive(Debug)]
struct Linear;

impl Layer<3> for Linear {
    /// x and W
    type Saved = [FlexTensor; 2];

    fn forward(&mut self, [x, weight, bias]: [FlexTensor; 3], _: bool) -> (FlexTensor, [FlexTensor; 2]) {
        let mut y = product(x.clone(), Flex::float_swap_dims(weight.clone(), 0, 1));
        let [_, outputs] = dims(&y);
        debug_assert_eq!(values(&bias).len(), outputs);
        vectorised(|| y.storage_mut::<f32>().chunks_exact_mut(outputs).for_each(|row| add(row, values(&bias))));
        (y, [x, weight])
    }

    fn backward([x, weight]: [FlexTensor; 2], gradient: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let [_, outputs] = dims(&gradient);
        let [for_x, for_weight, for_bias] = wanted;
        [
            for_x.then(|| product(gradient.clone(), weight)),
            for_weight.then(|| product(Flex::float_swap_dims(gradient.clone(), 0, 1), x)),
            for_bias.then(|| {
                let mut sum = vec![0.0; outputs];
                vectorised(|| values(&gradient).chunks_exact(outputs).for_each(|row| add(&mut sum, row)));
                array(sum, Shape::new([outputs]))
            }),
        ]
    }
}

/// `x` `[rows, in]`, `weight` `[out, in]`, `bias` `[out]`, to `[rows, out]`.
pub(crate) fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
    let inputs = || [x.clone().into_dispatch(), weight.clone().into_dispatch(), bias.clone().into_dispatch()];
    in_memory(&mut Linear, &x, inputs).unwrap_or_else(|| module::linear(x, weight.transpose(), Some(bias)))
}
