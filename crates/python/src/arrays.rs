//! Converts NumPy's arrays, in and out.
//!
//! They pass as bytes: a dict becomes the `.npz` file that NumPy writes for it, so that the handling of names, types
//! and strides stays in one place, the file reader.

use std::path::PathBuf;

use pyo3::{
    prelude::*,
    types::{IntoPyDict, PyBytes, PyDict, PyMapping},
};
use unmask_core::VitConfig;
use unmask_tensors::TensorFile;

use crate::value_error;

/// The arrays of a dict by their names, without those that are None.
pub(crate) type Arrays<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// The arrays of a dict. Values are anything that NumPy can read, such as PyTorch's tensors on any device. `what` names
/// the dict in errors.
pub(crate) fn arrays<'py>(what: &str, value: &Bound<'py, PyAny>) -> PyResult<Arrays<'py>> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let mapping = value.cast::<PyMapping>().map_err(|_| {
        let kind = value.get_type();
        value_error(format!("{what} is {kind}; give a dict of names and arrays"))
    })?;
    let mut arrays = Vec::new();
    for item in mapping.items()? {
        let (name, tensor): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
        let name: String =
            name.extract().map_err(|_| value_error(format!("{what} has a key that is not a name: {name}")))?;
        if tensor.is_none() {
            continue;
        }
        let array = plain(&tensor).and_then(|tensor| numpy.call_method1("asarray", (tensor,)));
        arrays
            .push((name.clone(), array.map_err(|error| value_error(format!("{what}: {name} is no array: {error}")))?));
    }
    Ok(arrays)
}

/// Detaches a PyTorch tensor from its graph and moves it to the CPU; returns other values unchanged.
fn plain<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if tensor.hasattr("detach")? && tensor.hasattr("cpu")? {
        tensor.call_method0("detach")?.call_method0("cpu")
    } else {
        Ok(tensor.clone())
    }
}

/// Returns a path as it is, and a dict as arrays in memory.
pub(crate) fn tensor_file(what: &str, value: &Bound<'_, PyAny>) -> PyResult<TensorFile> {
    match value.extract::<PathBuf>() {
        Ok(path) => Ok(path.into()),
        Err(_) => in_memory(value.py(), what, &arrays(what, value)?),
    }
}

/// The arrays as the `.npz` file that NumPy writes for them.
pub(crate) fn in_memory(py: Python<'_>, what: &str, arrays: &Arrays<'_>) -> PyResult<TensorFile> {
    let bytes = saved(py, arrays).map_err(|error| value_error(format!("{what} cannot be read: {error}")))?;
    Ok(TensorFile::bytes(what, bytes.as_bytes()))
}

fn saved<'py>(py: Python<'py>, arrays: &Arrays<'py>) -> PyResult<Bound<'py, PyBytes>> {
    let file = py.import("io")?.call_method0("BytesIO")?;
    let arrays = arrays.iter().map(|(name, array)| (name, array)).into_py_dict(py)?;
    py.import("numpy")?.call_method("savez", (&file,), Some(&arrays))?;
    Ok(file.call_method0("getvalue")?.cast_into()?)
}

/// Pictures `[side, side, 3]` or `[n, side, side, 3]`, as numbers in [0, 1] or as bytes. Returns each one flat, in [0,
/// 1].
pub(crate) fn pictures(what: &str, value: &Bound<'_, PyAny>, side: usize) -> PyResult<Vec<Vec<f32>>> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (plain(value)?,))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    match shape.as_slice() {
        [.., height, width, VitConfig::CHANNELS] if [*height, *width] == [side; 2] && shape.len() <= 4 => (),
        _ => {
            return Err(value_error(format!(
                "{what} has shape {shape:?}, the model's pictures have [{side}, {side}, 3]; crop and resize it, colours last"
            )));
        }
    }
    let is_bytes: bool = array.getattr("dtype")?.eq(numpy.getattr("uint8")?)?;
    let kwargs = [("dtype", "<f4")].into_py_dict(py)?;
    let array = numpy.call_method("ascontiguousarray", (array,), Some(&kwargs))?;
    let bytes = array.call_method0("tobytes")?;
    let range = if is_bytes { 255.0 } else { 1.0 };
    let values: Vec<f32> = bytes
        .cast::<PyBytes>()?
        .as_bytes()
        .as_chunks()
        .0
        .iter()
        .map(|value| f32::from_le_bytes(*value) / range)
        .collect();
    if let Some(value) = values.iter().find(|value| !(0.0..=1.0).contains(*value)) {
        return Err(value_error(format!("{what} holds {value}; give pixels from 0 to 1, or bytes (uint8)")));
    }
    Ok(values.chunks(side * side * VitConfig::CHANNELS).map(<[f32]>::to_vec).collect())
}

pub(crate) fn array<'py>(py: Python<'py>, values: &[f32], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    from_bytes(py, &bytes, "<f4", shape)
}

/// A new array of 0 and 1.
pub(crate) fn bits<'py>(py: Python<'py>, values: &[bool], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().map(|&value| value.into()).collect();
    from_bytes(py, &bytes, "u1", shape)
}

pub(crate) fn integers<'py>(py: Python<'py>, values: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as i64).to_le_bytes()).collect();
    from_bytes(py, &bytes, "<i8", &[values.len()])
}

fn from_bytes<'py>(py: Python<'py>, bytes: &[u8], dtype: &str, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let kwargs: Bound<'py, PyDict> = [("dtype", dtype)].into_py_dict(py)?;
    let flat = py.import("numpy")?.call_method("frombuffer", (PyBytes::new(py, bytes),), Some(&kwargs))?;
    flat.call_method1("reshape", (shape.to_vec(),))?.call_method0("copy")
}
