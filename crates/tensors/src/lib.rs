//! Reads and writes tensor files, under timm's names.
//!
//! [`TensorReader`] first lists a file's tensors and then reads only the requested ones, from a file or from bytes. It
//! supports safetensors, and natively also NumPy's `.npz` and `torch.save` archives, without running their code. Names
//! from torchvision, Hugging Face and wrapped models are mapped to timm's, and numbered tensors are named by the order of
//! their shapes. Values of every real type are returned as `f32` or `f64`.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fmt,
    io::{Cursor, Read, Seek},
};

use safetensors::Dtype;
use unmask_core::{Param, ParamLayout};

#[cfg(not(target_family = "wasm"))]
mod archive;
mod container;
mod error;
#[cfg(not(target_family = "wasm"))]
mod file;
mod heads;
mod index;
mod names;
#[cfg(not(target_family = "wasm"))]
mod npy;
mod order;
#[cfg(not(target_family = "wasm"))]
mod pickle;
mod shapes;
mod state;
mod write;

use self::{
    container::Container,
    index::{Entry, Stored},
};

pub use error::{TensorProblem, WeightsError};
#[cfg(not(target_family = "wasm"))]
pub use file::{TensorBytes, TensorFile};
#[cfg(not(target_family = "wasm"))]
pub use npy::{NpyNumber, encode_npy};
pub use shapes::{HeadsFrom, ShapeError, Shapes, Variant, likely_heads};
pub use state::{HeadReplaced, Imported, Storage, encode_state, import_from, read_state, state_dict};
pub use write::{encode, encode_flat};

/// A number type to read tensors as: `f32` or `f64`.
pub trait Number: Copy + fmt::Debug + Into<f64> + sealed::Sealed {
    /// Returns the nearest value of the type.
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

/// What the tensors of a file are for. A checkpoint may hold several sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    #[default]
    Any,
    Gradients,
    Weights,
}

/// A tensor read from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor<T> {
    pub name: String,
    /// Row-major shape.
    pub shape: Vec<usize>,
    /// As many values as the shape says, all finite.
    pub values: Vec<T>,
}

/// Reads single tensors of a file.
#[derive(Debug)]
pub struct TensorReader<R> {
    what: String,
    container: Container<R>,
    /// In file order.
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl<'a> TensorReader<Cursor<&'a [u8]>> {
    /// Reads from bytes in memory; `what` names them in errors.
    ///
    /// # Errors
    /// If they hold no tensors.
    pub fn from_bytes(what: &str, bytes: &'a [u8]) -> Result<Self, WeightsError> {
        Self::new(what, Cursor::new(bytes))
    }
}

#[cfg(not(target_family = "wasm"))]
impl TensorReader<std::fs::File> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read or holds no tensors.
    pub fn open(path: &std::path::Path) -> Result<Self, WeightsError> {
        let what = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|source| WeightsError::Io { what: what.clone(), source })?;
        Self::new(&what, file)
    }
}

#[cfg(not(target_family = "wasm"))]
impl<R: Read + Seek> TensorReader<R> {
    /// Reads the headers of NumPy arrays (`.npy`), each under its name; `what` names them all in errors.
    ///
    /// # Errors
    /// If one cannot be read or is not an array.
    pub fn from_arrays(what: &str, arrays: impl IntoIterator<Item = (String, R)>) -> Result<Self, WeightsError> {
        let format = |reason| WeightsError::Format { what: what.to_owned(), reason };
        let io = |source| WeightsError::Io { what: what.to_owned(), source };
        let (mut sources, mut stored) = (Vec::new(), Vec::new());
        for (entry, (name, mut source)) in arrays.into_iter().enumerate() {
            let length = source.seek(std::io::SeekFrom::End(0)).map_err(io)?;
            source.rewind().map_err(io)?;
            let header = npy::Header::read(&mut source).map_err(|reason| format(format!("{name}: {reason}")))?;
            stored.push(header.stored(name, entry, length));
            sources.push(source);
        }
        let (entries, notes) = index::index(stored).map_err(format)?;
        Ok(Self { what: what.to_owned(), container: Container::Arrays(sources), entries, notes })
    }
}

impl<R: Read + Seek> TensorReader<R> {
    /// Lists the tensors of `source`; `what` names it in errors.
    ///
    /// # Errors
    /// If it cannot be read or holds no tensors.
    pub fn new(what: &str, source: R) -> Result<Self, WeightsError> {
        Self::for_role(what, source, Role::Any)
    }

    /// As [`new`](Self::new); of several sets of tensors, lists the one for `role`.
    ///
    /// # Errors
    /// If it cannot be read, holds no tensors, or several sets of which none is named for the role.
    pub fn for_role(what: &str, source: R, role: Role) -> Result<Self, WeightsError> {
        let (container, stored, notes) = Container::open(what, source, role)?;
        Self::of(what, container, stored, notes)
    }

    fn of(
        what: &str,
        container: Container<R>,
        stored: Vec<Stored>,
        mut notes: Vec<String>,
    ) -> Result<Self, WeightsError> {
        let format = |reason| WeightsError::Format { what: what.to_owned(), reason };
        let (entries, more) = index::index(stored).map_err(format)?;
        notes.extend(more);
        Ok(Self { what: what.to_owned(), container, entries, notes })
    }

    /// Reads a first layer of one channel, `[D, 1, P, P]`, as three equal channels, and says whether it had one. A model
    /// of three channels with a third of the weights does the same with a grey picture, and each channel's gradient is
    /// that of the only one.
    pub fn spread_grey(&mut self) -> bool {
        const FIRST: [&str; 2] = ["patch_embed.proj.weight", "conv1.weight"];
        let is_grey = |entry: &&mut Entry| {
            FIRST.contains(&entry.name.as_str())
                && matches!(entry.shape.as_slice(), [_, 1, _, _])
                && matches!(entry.parts.as_slice(), [only] if only.shape == entry.shape)
        };
        let Some(entry) = self.entries.iter_mut().find(is_grey) else { return false };
        for part in &mut entry.parts {
            (part.shape[1], part.strides[1]) = (3, 0);
        }
        entry.shape[1] = 3;
        true
    }

    /// Returns what was assumed about the file, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns timm's names of all tensors, in file order.
    pub fn names(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.entry(name).map(|entry| entry.shape.as_slice())
    }

    /// Returns the file's own names and shapes of the tensors behind timm's `name`: one, or q, k and v in this order.
    /// Empty if there are none.
    pub fn parts(&self, name: &str) -> Vec<(&str, &[usize])> {
        let parts = self.entry(name).map(|entry| entry.parts.as_slice()).unwrap_or_default();
        parts.iter().map(|part| (part.name.as_str(), part.shape.as_slice())).collect()
    }

    /// Returns the names of the last linear layer's weight and bias, whatever the network is.
    pub fn head(&self) -> Option<[String; 2]> {
        heads::last(&self.entries)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Reads one tensor of any shape by timm's name.
    ///
    /// # Errors
    /// If it is missing, not of a number type, or holds NaN or infinity.
    pub fn read<T: Number>(&mut self, name: &str) -> Result<NamedTensor<T>, WeightsError> {
        let absent = || TensorProblem::Absent { name: name.to_owned() };
        match self.entry(name).cloned() {
            Some(entry) => self.read_entry(&entry)?,
            None => Err(absent()),
        }
        .map_err(|problem| WeightsError::Tensors { what: self.what.clone(), problems: vec![problem] })
    }

    /// Reads only the parameters `names` of `layout`.
    ///
    /// # Errors
    /// Lists all parameters that are missing, of the wrong shape, not of a number type, or not finite.
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

    /// Reads all parameters of `layout` into one flat vector. Ignores other tensors in the file.
    ///
    /// # Errors
    /// Lists all parameters that are missing, of the wrong shape, not of a number type, or not finite.
    pub fn read_flat<T: Number>(&mut self, layout: &ParamLayout) -> Result<Vec<T>, WeightsError> {
        // Nothing is reserved for what the file may lack.
        let mut flat = Vec::new();
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
        let Some(entry) = self.entry(&param.name).cloned() else {
            return Ok(Err(TensorProblem::Missing { name: param.name.clone(), expected: param.shape.clone() }));
        };
        if entry.shape != param.shape {
            let (name, expected) = (entry.shown(), param.shape.clone());
            return Ok(Err(TensorProblem::Shape { name, given: entry.shape, expected }));
        }
        self.read_entry(&entry)
    }

    /// The outer error concerns the file, the inner one the tensor.
    fn read_entry<T: Number>(&mut self, entry: &Entry) -> Result<Result<NamedTensor<T>, TensorProblem>, WeightsError> {
        let mut values: Vec<T> = Vec::new();
        for part in &entry.parts {
            let read = match part.dtype {
                Some(dtype) => {
                    let mut bytes = self.container.read(&self.what, part, dtype)?;
                    if part.is_big_endian {
                        bytes.chunks_mut(dtype.bitsize() / 8).for_each(<[u8]>::reverse);
                    }
                    numbers(dtype, &bytes)
                }
                None => None,
            };
            let Some(read) = read else {
                return Ok(Err(TensorProblem::Type { name: entry.shown(), dtype: part.type_name.clone() }));
            };
            values.append(&mut in_order(part, read));
        }
        let non_finite = values.iter().map(|&value: &T| value.into()).position(|value: f64| !value.is_finite());
        let shape = entry.shape.clone();
        Ok(match non_finite {
            Some(index) => {
                Err(TensorProblem::NonFinite { name: entry.shown(), shape, value: values[index].into(), index })
            }
            None => Ok(NamedTensor { name: entry.name.clone(), shape, values }),
        })
    }
}

/// Reorders the values between the first and the last of `part` so that the last dimension is fastest.
fn in_order<T: Number>(part: &Stored, values: Vec<T>) -> Vec<T> {
    if part.strides == index::row_major(&part.shape) || part.values() == 0 {
        return values;
    }
    let mut places = vec![0];
    for (&side, &stride) in part.shape.iter().zip(&part.strides) {
        places = places.iter().flat_map(|place| (0..side).map(move |i| place + i * stride)).collect();
    }
    places.into_iter().map(|place: usize| values[place]).collect()
}

/// Decodes little-endian values of type `dtype`. `None` for an unsupported type.
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
        Dtype::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        Dtype::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        Dtype::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        Dtype::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        Dtype::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        Dtype::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
        Dtype::U64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        _ => return None,
    })
}
