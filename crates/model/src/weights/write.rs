//! Tensors as safetensors files.

use safetensors::{
    Dtype,
    tensor::{TensorView, serialize},
};
use unmask_core::ParamLayout;

use super::WeightsError;

/// The bytes of a safetensors file with the given f32 tensors.
///
/// # Errors
/// If a tensor has not as many values as its shape says.
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

/// The bytes of a safetensors file with the parameters of `layout` under timm's names, taken from the flat vector.
///
/// # Errors
/// If the vector is not of the layout.
pub fn encode_flat(layout: &ParamLayout, flat: &[f32]) -> Result<Vec<u8>, WeightsError> {
    if flat.len() != layout.len() {
        return Err(WeightsError::Length { given: flat.len(), expected: layout.len() });
    }
    encode(layout.iter().map(|param| (param.name.as_str(), param.shape.as_slice(), &flat[param.range.clone()])))
}

/// Writes [`encode_flat`] to a file.
///
/// # Errors
/// If the vector is not of the layout, or the file cannot be written.
#[cfg(not(target_family = "wasm"))]
pub fn save_flat(path: &std::path::Path, layout: &ParamLayout, flat: &[f32]) -> Result<(), WeightsError> {
    write_whole(path, &encode_flat(layout, flat)?)
}

/// Writes `bytes` beside `path` and moves them there, so that no half-written file takes the place of a whole one.
#[cfg(not(target_family = "wasm"))]
pub(super) fn write_whole(path: &std::path::Path, bytes: &[u8]) -> Result<(), WeightsError> {
    let io = |source| WeightsError::Io { what: path.display().to_string(), source };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let moved = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    moved.map_err(|source| {
        // What is left of it is of no use to anybody; that it could not be written is what matters.
        let _ = std::fs::remove_file(&partial);
        io(source)
    })
}
