//! Network states as files that timm, torchvision and PyTorch read and write.

use std::io::{Read, Seek};

use safetensors::{
    Dtype,
    tensor::{TensorView, serialize},
};
use unmask_core::{Architecture, ModelState, Param, ParamGroup, ParamLayout};

use super::{NamedTensor, TensorProblem, TensorReader, WeightsError};

/// The number type of weights in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// Four bytes per value, lossless.
    #[default]
    F32,
    /// Two bytes per value, 11 significant bits, at most 65504.
    F16,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    pub state: ModelState,
    /// Set if the file's head had another number of classes and was replaced with a fresh one.
    pub head_replaced: Option<HeadReplaced>,
    /// Names of the tensors that the network does not use, in file order.
    pub surplus: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadReplaced {
    /// Classes of the head in the file.
    pub found: usize,
    /// Classes of the fresh head.
    pub fresh: usize,
}

/// PyTorch's batch counter beside each running mean. With a fixed momentum, nothing reads it.
const BATCHES: &str = "num_batches_tracked";

/// Returns a network's tensor names in the order of PyTorch's `state_dict`, for formats that identify arrays only by
/// position. With `has_batches`, includes a ResNet's `num_batches_tracked`.
pub fn state_dict(architecture: Architecture, has_batches: bool) -> Vec<String> {
    let (layout, statistics) = (architecture.layout(), architecture.statistics());
    let mut names = Vec::with_capacity(layout.iter().len() + statistics.iter().len());
    for param in &layout {
        names.push(param.name.clone());
        let Some(norm) = param.name.strip_suffix("bias") else { continue };
        let running = ["running_mean", "running_var"].map(|which| format!("{norm}{which}"));
        if running.iter().all(|name| statistics.get(name).is_some()) {
            names.extend(running);
            names.extend(has_batches.then(|| format!("{norm}{BATCHES}")));
        }
    }
    names
}

/// Reads a network under timm's and torchvision's names. If only the number of classes differs, draws a fresh head from
/// `seed`.
///
/// # Errors
/// The file has more blocks than the network. Otherwise, lists all tensors that are missing, of the wrong shape, not of
/// a number type, or not finite.
pub fn import_from<R: Read + Seek>(
    mut reader: TensorReader<R>,
    architecture: Architecture,
    seed: u64,
) -> Result<Imported, WeightsError> {
    let (layout, statistics) = (architecture.layout(), architecture.statistics());
    let head_replaced = other_head(&reader, &layout);
    let fresh = head_replaced.map(|_| architecture.initial(seed).weights);
    let state = read(&mut reader, architecture, fresh.as_deref())?;
    let is_known = |name: &str| {
        let batches = name.strip_suffix(BATCHES).map(|norm| format!("{norm}running_mean"));
        layout.get(name).is_some() || statistics.get(batches.as_deref().unwrap_or(name)).is_some()
    };
    let surplus = reader.names().into_iter().filter(|name| !is_known(name)).collect();
    Ok(Imported { state, head_replaced, surplus })
}

/// Reads a network under timm's and torchvision's names. Ignores other tensors in the file.
///
/// # Errors
/// Those of [`import_from`].
pub fn read_state<R: Read + Seek>(
    mut reader: TensorReader<R>,
    architecture: Architecture,
) -> Result<ModelState, WeightsError> {
    read(&mut reader, architecture, None)
}

/// Takes the head from the `fresh` weights, if given.
fn read<R: Read + Seek>(
    reader: &mut TensorReader<R>,
    architecture: Architecture,
    fresh: Option<&[f32]>,
) -> Result<ModelState, WeightsError> {
    reader.check_blocks(architecture)?;
    let (layout, statistics) = (architecture.layout(), architecture.statistics());
    let mut problems = Vec::new();
    // Nothing is reserved for what the file may lack.
    let mut weights = Vec::new();
    for param in &layout {
        match fresh {
            Some(fresh) if param.group == ParamGroup::Head => weights.extend_from_slice(&fresh[param.range.clone()]),
            _ => read_into(&mut weights, &mut problems, reader, param)?,
        }
    }
    let mut running = Vec::new();
    for param in &statistics {
        read_into(&mut running, &mut problems, reader, param)?;
    }
    reader.no_problems(problems)?;
    Ok(ModelState { weights, statistics: running })
}

fn read_into<R: Read + Seek>(
    values: &mut Vec<f32>,
    problems: &mut Vec<TensorProblem>,
    reader: &mut TensorReader<R>,
    param: &Param,
) -> Result<(), WeightsError> {
    match reader.read_param::<f32>(param)? {
        Ok(NamedTensor { values: read, .. }) => values.extend(read),
        Err(problem) => problems.push(problem),
    }
    Ok(())
}

/// Returns the file's head if it differs only in the number of classes.
fn other_head<R: Read + Seek>(reader: &TensorReader<R>, layout: &ParamLayout) -> Option<HeadReplaced> {
    let mut classes = layout.iter().filter(|param| param.group == ParamGroup::Head).map(|param| {
        let (&[found, ref rest @ ..], &[fresh, ref expected @ ..]) =
            (reader.shape(&param.name)?, param.shape.as_slice())
        else {
            return None;
        };
        (rest == expected && found != fresh).then_some(HeadReplaced { found, fresh })
    });
    let first = classes.next()??;
    classes.all(|other| other == Some(first)).then_some(first)
}

/// Returns a safetensors file of the network under timm's and torchvision's names. For a ResNet, includes PyTorch's
/// `num_batches_tracked` at zero, so that `load_state_dict` accepts the file.
///
/// # Errors
/// If the state belongs to another network, or holds NaN, infinity, or values too large for `storage`.
pub fn encode_state(architecture: Architecture, state: &ModelState, storage: Storage) -> Result<Vec<u8>, WeightsError> {
    let (layout, statistics) = (architecture.layout(), architecture.statistics());
    let mut tensors = Vec::new();
    let mut problems = Vec::new();
    for (layout, flat) in [(&layout, &state.weights), (&statistics, &state.statistics)] {
        if flat.len() != layout.len() {
            return Err(WeightsError::Length { given: flat.len(), expected: layout.len() });
        }
        for param in layout {
            match stored(param, &flat[param.range.clone()], storage) {
                Ok(bytes) => tensors.push((param.name.clone(), param.shape.clone(), dtype(storage), bytes)),
                Err(problem) => problems.push(problem),
            }
        }
    }
    let what = || architecture.to_string();
    if !problems.is_empty() {
        return Err(WeightsError::Tensors { what: what(), problems });
    }
    for norm in statistics.iter().filter_map(|param| param.name.strip_suffix("running_mean")) {
        tensors.push((format!("{norm}{BATCHES}"), Vec::new(), Dtype::I64, 0i64.to_le_bytes().to_vec()));
    }
    let format = |reason: String| WeightsError::Format { what: what(), reason };
    let views = tensors.iter().map(|(name, shape, dtype, bytes)| {
        let view = TensorView::new(*dtype, shape.clone(), bytes);
        view.map(|view| (name.as_str(), view)).map_err(|error| format(format!("{name} {shape:?}: {error}")))
    });
    let views = views.collect::<Result<Vec<_>, _>>()?;
    serialize(views, None).map_err(|error| format(error.to_string()))
}

fn dtype(storage: Storage) -> Dtype {
    match storage {
        Storage::F32 => Dtype::F32,
        Storage::F16 => Dtype::F16,
    }
}

fn stored(param: &Param, values: &[f32], storage: Storage) -> Result<Vec<u8>, TensorProblem> {
    let is_kept = |value: f32| match storage {
        Storage::F32 => value.is_finite(),
        Storage::F16 => half::f16::from_f32(value).is_finite(),
    };
    let (name, shape) = (param.name.clone(), param.shape.clone());
    match values.iter().position(|&value| !is_kept(value)) {
        Some(index) if values[index].is_finite() => Err(TensorProblem::TooLarge { name, value: values[index], index }),
        Some(index) => Err(TensorProblem::NonFinite { name, shape, value: values[index].into(), index }),
        None => Ok(match storage {
            Storage::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Storage::F16 => values.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes()).collect(),
        }),
    }
}
