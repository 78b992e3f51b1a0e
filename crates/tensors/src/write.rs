//! Writes safetensors files.

use safetensors::{
    Dtype,
    tensor::{TensorView, serialize},
};
use unmask_core::ParamLayout;

use super::WeightsError;

/// Returns a safetensors file with the given f32 tensors.
///
/// # Errors
/// If a tensor's shape does not match its number of values.
pub fn encode<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a [usize], &'a [f32])>,
) -> Result<Vec<u8>, WeightsError> {
    let format = |reason: String| WeightsError::Format { what: "the tensors to write".into(), reason };
    let bytes: Vec<(&str, &[usize], Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect()))
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes);
            view.map(|view| (*name, view)).map_err(|error| format(format!("{name} {shape:?}: {error}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    serialize(views, None).map_err(|error| format(error.to_string()))
}

/// Returns a safetensors file with the parameters of `layout`, taken from the flat vector, under timm's names.
///
/// # Errors
/// If the vector does not fit the layout.
pub fn encode_flat(layout: &ParamLayout, flat: &[f32]) -> Result<Vec<u8>, WeightsError> {
    if flat.len() != layout.len() {
        return Err(WeightsError::Length { given: flat.len(), expected: layout.len() });
    }
    encode(layout.iter().map(|param| (param.name.as_str(), param.shape.as_slice(), &flat[param.range.clone()])))
}
