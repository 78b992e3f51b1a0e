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
    tensor::{Metadata, TensorInfo, TensorView, serialize},
};
use unmask_params::{Param, ParamLayout};

mod state;

pub use state::{HeadReplaced, Imported, Storage, encode_state, import_from};
#[cfg(not(target_family = "wasm"))]
pub use state::{export, import};

/// Why tensors could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file could not be opened, read or written.
    #[error("{what}: {source}")]
    Io {
        /// The file, or what was read.
        what: String,
        /// What the system reported.
        source: std::io::Error,
    },
    /// These are no safetensors.
    #[error("{what} is no safetensors file: {reason}; save the tensors with the safetensors library")]
    Format {
        /// The file, or what was read.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Some tensors are not as the model needs them.
    #[error("{what} does not fit: {}", list(problems))]
    Tensors {
        /// The file, or what was read.
        what: String,
        /// Every tensor that does not fit, in the order they were asked for.
        problems: Vec<TensorProblem>,
    },
    /// A flat vector is of another model.
    #[error("the vector has {given} values, the layout has {expected}")]
    Length {
        /// Values given.
        given: usize,
        /// Values of the layout.
        expected: usize,
    },
}

/// What is wrong with one tensor.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TensorProblem {
    /// It is not there.
    #[error("{name} {expected:?} is missing")]
    Missing {
        /// timm's name.
        name: String,
        /// The shape it would have.
        expected: Vec<usize>,
    },
    /// It is not in the file, and no layout says what shape it would have.
    #[error("{name} is missing")]
    Absent {
        /// Its name.
        name: String,
    },
    /// It has another shape.
    #[error("{name} has shape {given:?}, expected {expected:?}")]
    Shape {
        /// timm's name.
        name: String,
        /// The shape in the file.
        given: Vec<usize>,
        /// The shape of the layout.
        expected: Vec<usize>,
    },
    /// It holds NaN or infinity.
    #[error("{name} {shape:?} holds {value} at value {index}")]
    NonFinite {
        /// timm's name.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The first such value.
        value: f64,
        /// Its place in the tensor, row-major.
        index: usize,
    },
    /// It holds a number that the type it is to be stored in does not.
    #[error("{name} holds {value} at value {index}, and f16 ends at 65504; store it as f32")]
    TooLarge {
        /// timm's name.
        name: String,
        /// The first such value.
        value: f32,
        /// Its place in the tensor, row-major.
        index: usize,
    },
    /// Its values are of a type that is no plain number.
    #[error("{name} is of type {dtype}; save it as f16, bf16, f32, f64 or u8")]
    Type {
        /// timm's name.
        name: String,
        /// The type in the file.
        dtype: String,
    },
}

fn list(problems: &[TensorProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

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
    /// Its name in the file.
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
fn write_whole(path: &std::path::Path, bytes: &[u8]) -> Result<(), WeightsError> {
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

/// Reads all parameters of `layout` from a file into one flat vector.
///
/// # Errors
/// As [`TensorReader::read_flat`].
#[cfg(not(target_family = "wasm"))]
pub fn load_flat(path: &std::path::Path, layout: &ParamLayout) -> Result<Vec<f32>, WeightsError> {
    TensorReader::open(path)?.read_flat(layout)
}
