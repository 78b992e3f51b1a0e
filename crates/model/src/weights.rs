//! timm-named safetensors in and out.
//!
//! [`TensorReader`] reads the header, and then only the tensors asked for, from a file or from bytes. Values of type
//! f16, bf16, f32, f64, u8 or bool come out as `f32` or `f64`.

use std::{
    collections::BTreeMap,
    fmt,
    io::{Cursor, Read, Seek, SeekFrom},
};

use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use unmask_core::{Param, ParamLayout};

mod error;
mod state;
mod write;

pub use error::{TensorProblem, WeightsError};
pub use state::{HeadReplaced, Imported, Storage, encode_state, import_from, read_state};
pub use write::{encode, encode_flat};

/// A number type that tensors are read into: `f32` or `f64`.
pub trait Number: Copy + fmt::Debug + Into<f64> + sealed::Sealed {
    /// The nearest value of the type.
    fn from_f64(value: f64) -> Self;
}

impl Number for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Number for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A tensor as it lies in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor<T> {
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// As many values as the shape says, all finite.
    pub values: Vec<T>,
}

/// Reads single tensors of a safetensors file.
#[derive(Debug)]
pub struct TensorReader<R> {
    what: String,
    source: R,
    metadata: Metadata,
    data_start: u64,
}

/// The header of a safetensors file is a length in eight bytes, then that many bytes of JSON.
const LENGTH_BYTES: u64 = 8;
/// What the safetensors library allows; a model of a thousand tensors needs a thousandth of it.
const HEADER_LIMIT: u64 = 100_000_000;

impl<'a> TensorReader<Cursor<&'a [u8]>> {
    /// Reads from bytes in memory; `what` names them in errors.
    ///
    /// # Errors
    /// If they are no safetensors.
    pub fn from_bytes(what: &str, bytes: &'a [u8]) -> Result<Self, WeightsError> {
        Self::new(what, Cursor::new(bytes))
    }
}

#[cfg(not(target_family = "wasm"))]
impl TensorReader<std::fs::File> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read or is no safetensors file.
    pub fn open(path: &std::path::Path) -> Result<Self, WeightsError> {
        let what = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|source| WeightsError::Io { what: what.clone(), source })?;
        Self::new(&what, file)
    }
}

impl<R: Read + Seek> TensorReader<R> {
    /// Reads the header of `source`; `what` names it in errors.
    ///
    /// # Errors
    /// If it cannot be read or is no safetensors file.
    pub fn new(what: &str, mut source: R) -> Result<Self, WeightsError> {
        let io = |source| WeightsError::Io { what: what.to_owned(), source };
        let format = |reason: String| WeightsError::Format { what: what.to_owned(), reason };
        let total = source.seek(SeekFrom::End(0)).map_err(io)?;
        source.seek(SeekFrom::Start(0)).map_err(io)?;
        if total < LENGTH_BYTES {
            return Err(format(format!("it has {total} bytes, less than the {LENGTH_BYTES} of a header's length")));
        }
        let mut length = [0; LENGTH_BYTES as usize];
        source.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_LIMIT || length > total - LENGTH_BYTES {
            return Err(format(format!("its header claims {length} bytes, the file has {total}")));
        }
        let mut header = vec![0; length as usize];
        source.read_exact(&mut header).map_err(io)?;
        // Deserialising checks that the tensors tile the data without gaps and that each has the size of its shape.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| format(error.to_string()))?;
        let data_start = LENGTH_BYTES + length;
        let data_len = metadata.data_len() as u64;
        if total - data_start != data_len {
            let found = total - data_start;
            return Err(format(format!("its header describes {data_len} bytes of tensors, {found} follow")));
        }
        Ok(Self { what: what.to_owned(), source, metadata, data_start })
    }

    /// Names of all tensors, in the order they lie in the file.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// The shape of tensor `name`, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.metadata.info(name).map(|info| info.shape.as_slice())
    }

    /// Reads one tensor by its name in the file, whatever its shape.
    ///
    /// # Errors
    /// If it is missing, not of a number type, or holds NaN or infinity.
    pub fn read<T: Number>(&mut self, name: &str) -> Result<NamedTensor<T>, WeightsError> {
        let absent = || TensorProblem::Absent { name: name.to_owned() };
        match self.metadata.info(name).cloned() {
            Some(info) => self.read_info(name, &info)?,
            None => Err(absent()),
        }
        .map_err(|problem| WeightsError::Tensors { what: self.what.clone(), problems: vec![problem] })
    }

    /// Reads the parameters `names` of `layout`, and nothing else.
    ///
    /// # Errors
    /// Lists all that are missing, of another shape than the layout's, of no number type, or not finite.
    pub fn read_params<T: Number>(
        &mut self,
        layout: &ParamLayout,
        names: &[&str],
    ) -> Result<BTreeMap<String, NamedTensor<T>>, WeightsError> {
        let mut tensors = BTreeMap::new();
        let mut problems = Vec::new();
        for name in names {
            let read = match layout.get(name) {
                Some(param) => self.read_param(param)?,
                None => Err(TensorProblem::Absent { name: (*name).to_owned() }),
            };
            match read {
                Ok(tensor) => {
                    tensors.insert(tensor.name.clone(), tensor);
                }
                Err(problem) => problems.push(problem),
            }
        }
        self.no_problems(problems)?;
        Ok(tensors)
    }

    /// Reads all parameters of `layout` into one flat vector. Other tensors in the file are ignored.
    ///
    /// # Errors
    /// Lists all that are missing, of another shape than the layout's, of no number type, or not finite.
    pub fn read_flat<T: Number>(&mut self, layout: &ParamLayout) -> Result<Vec<T>, WeightsError> {
        let mut flat = Vec::with_capacity(layout.len());
        let mut problems = Vec::new();
        for param in layout {
            match self.read_param(param)? {
                Ok(tensor) => flat.extend_from_slice(&tensor.values),
                Err(problem) => problems.push(problem),
            }
        }
        self.no_problems(problems)?;
        Ok(flat)
    }

    fn no_problems(&self, problems: Vec<TensorProblem>) -> Result<(), WeightsError> {
        if problems.is_empty() { Ok(()) } else { Err(WeightsError::Tensors { what: self.what.clone(), problems }) }
    }

    fn read_param<T: Number>(&mut self, param: &Param) -> Result<Result<NamedTensor<T>, TensorProblem>, WeightsError> {
        let Some(info) = self.metadata.info(&param.name).cloned() else {
            return Ok(Err(TensorProblem::Missing { name: param.name.clone(), expected: param.shape.clone() }));
        };
        if info.shape != param.shape {
            return Ok(Err(TensorProblem::Shape {
                name: param.name.clone(),
                given: info.shape,
                expected: param.shape.clone(),
            }));
        }
        self.read_info(&param.name, &info)
    }

    /// The outer error is the file's, the inner one the tensor's.
    fn read_info<T: Number>(
        &mut self,
        name: &str,
        info: &TensorInfo,
    ) -> Result<Result<NamedTensor<T>, TensorProblem>, WeightsError> {
        let (start, end) = info.data_offsets;
        let io = |source| WeightsError::Io { what: self.what.clone(), source };
        let mut bytes = vec![0; end - start];
        self.source.seek(SeekFrom::Start(self.data_start + start as u64)).map_err(io)?;
        self.source.read_exact(&mut bytes).map_err(io)?;
        let Some(values) = numbers(info.dtype, &bytes) else {
            let dtype = format!("{:?}", info.dtype);
            return Ok(Err(TensorProblem::Type { name: name.to_owned(), dtype }));
        };
        let non_finite = values.iter().map(|&value: &T| value.into()).position(|value: f64| !value.is_finite());
        Ok(match non_finite {
            Some(index) => Err(TensorProblem::NonFinite {
                name: name.to_owned(),
                shape: info.shape.clone(),
                value: values[index].into(),
                index,
            }),
            None => Ok(NamedTensor { name: name.to_owned(), shape: info.shape.clone(), values }),
        })
    }
}

/// Little-endian values of type `dtype`, or `None` for a type that is no plain number.
fn numbers<T: Number>(dtype: Dtype, bytes: &[u8]) -> Option<Vec<T>> {
    fn each<T: Number, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<T> {
        bytes.as_chunks().0.iter().map(|chunk| T::from_f64(value(*chunk))).collect()
    }
    Some(match dtype {
        Dtype::F16 => each(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
        Dtype::BF16 => each(bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
        Dtype::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::U8 | Dtype::BOOL => each(bytes, |[b]| b.into()),
        _ => return None,
    })
}
