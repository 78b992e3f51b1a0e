//! Updates and weights from files that any framework wrote.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use unmask_attack::{AttackError, Rounding, TensorNames, TensorSource, Tensors};
use unmask_core::{Architecture, ParamLayout};
use unmask_model::weights::{NamedTensor, TensorReader, WeightsError};

/// Files that hold no update of the model.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    File(#[from] WeightsError),
    #[error(transparent)]
    Tensor(#[from] AttackError),
    #[error("{}: {name} holds {value} at value {index}; a mask is 0 (hidden) or 1 (kept)", .path.display())]
    Mask { path: PathBuf, name: String, value: f32, index: usize },
    #[error("the folder {} cannot be read: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "no updates in {}: put one NAME.safetensors for each round there, and NAME.mask.safetensors beside it where a mask \
         hid something", .path.display()
    )]
    NoRounds { path: PathBuf },
    #[error("{} is the mask of no update: {} is not there", .mask.display(), .update.display())]
    MaskWithoutUpdate { mask: PathBuf, update: PathBuf },
}

/// One update as its receiver sees it.
#[derive(Debug, Clone)]
pub struct DumpedUpdate {
    /// What arrived.
    pub gradients: Tensors,
    /// Share of the values, among those read, that the mask hid.
    pub hidden_share: f64,
}

/// Reads what is `wanted` of an update; `mask` (same names and shapes, 1 = kept) tells which values arrived.
///
/// # Errors
/// [`DumpError`] names the file and the tensor that will not do.
pub fn read_update(
    architecture: Architecture,
    gradients: &Path,
    mask: Option<&Path>,
    wanted: &TensorNames,
) -> Result<DumpedUpdate, DumpError> {
    let layout = architecture.layout();
    let mut read: BTreeMap<String, NamedTensor<f64>> = read_tensors(gradients, &layout, wanted)?;
    // Before masking: a tensor's type shows in all of its values.
    let rounding = read.values().map(|tensor| Rounding::of(&tensor.values)).max().unwrap_or_default();
    let mut tensors = Tensors::new(TensorSource::Gradients, architecture, rounding);
    let Some(path) = mask else {
        for (name, tensor) in read {
            tensors.insert(&name, &tensor.shape, tensor.values)?;
        }
        return Ok(DumpedUpdate { gradients: tensors, hidden_share: 0.0 });
    };
    let mut masks: BTreeMap<String, NamedTensor<f32>> = read_tensors(path, &layout, wanted)?;
    // Of a tensor that the attack can do without and the mask does not know, nothing is known.
    read.retain(|name, _| masks.contains_key(name));
    let (mut hidden, mut total) = (0_usize, 0_usize);
    for (name, tensor) in read {
        let mask = masks.remove(&name).map(|mask| mask.values).unwrap_or_default();
        if let Some((index, &value)) = mask.iter().enumerate().find(|&(_, &keep)| keep != 0.0 && keep != 1.0) {
            return Err(DumpError::Mask { path: path.to_owned(), name, value, index });
        }
        let kept: Vec<bool> = mask.iter().map(|&keep| keep == 1.0).collect();
        hidden += kept.iter().filter(|&&kept| !kept).count();
        total += kept.len();
        tensors.insert_kept(&name, &tensor.shape, tensor.values, kept)?;
    }
    Ok(DumpedUpdate { gradients: tensors, hidden_share: hidden as f64 / total.max(1) as f64 })
}

/// Reads what is `wanted` of a model's weights.
///
/// # Errors
/// [`DumpError`] names the file and the tensor that will not do.
pub fn read_weights(architecture: Architecture, path: &Path, wanted: &TensorNames) -> Result<Tensors, DumpError> {
    let mut tensors = Tensors::new(TensorSource::Weights, architecture, Rounding::F32);
    for (name, tensor) in read_tensors::<f64>(path, &architecture.layout(), wanted)? {
        tensors.insert(&name, &tensor.shape, tensor.values)?;
    }
    Ok(tensors)
}

/// Reads the updates of several rounds: each `NAME.safetensors` in `folder`, in the order of their names, with the mask
/// `NAME.mask.safetensors` where there is one.
///
/// # Errors
/// [`DumpError`]: the folder cannot be listed or holds no update, a mask has no update, or a file will not do.
pub fn read_rounds(
    architecture: Architecture,
    folder: &Path,
    wanted: &TensorNames,
) -> Result<Vec<DumpedUpdate>, DumpError> {
    const UPDATE: &str = ".safetensors";
    const MASK: &str = ".mask.safetensors";
    let failed = |source| DumpError::Folder { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    for mask in names.iter().filter(|name| name.ends_with(MASK)) {
        let update = mask.replace(MASK, UPDATE);
        if !names.contains(&update) {
            return Err(DumpError::MaskWithoutUpdate { mask: folder.join(mask), update: folder.join(update) });
        }
    }
    let updates: Vec<&String> = names.iter().filter(|name| name.ends_with(UPDATE) && !name.ends_with(MASK)).collect();
    if updates.is_empty() {
        return Err(DumpError::NoRounds { path: folder.to_owned() });
    }
    let read = |update: &&String| {
        let mask = update.strip_suffix(UPDATE).map(|name| format!("{name}{MASK}")).filter(|mask| names.contains(mask));
        read_update(architecture, &folder.join(update), mask.map(|mask| folder.join(mask)).as_deref(), wanted)
    };
    updates.iter().map(read).collect()
}

fn read_tensors<T: unmask_model::weights::Number>(
    path: &Path,
    layout: &ParamLayout,
    wanted: &TensorNames,
) -> Result<BTreeMap<String, NamedTensor<T>>, WeightsError> {
    let mut reader = TensorReader::open(path)?;
    let there = reader.names();
    let names: Vec<&str> = wanted
        .required
        .iter()
        .chain(wanted.optional.iter().filter(|name| there.contains(name)))
        .map(String::as_str)
        .collect();
    reader.read_params(layout, &names)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unmask_core::VitPreset;
    use unmask_model::weights::encode;

    use super::*;

    const PRESET: VitPreset = VitPreset::Pico;
    const NAMES: [&str; 3] = ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"];

    fn wanted() -> TensorNames {
        TensorNames { required: vec![NAMES[0].to_owned(), NAMES[1].to_owned()], optional: vec![NAMES[2].to_owned()] }
    }

    /// A file that holds the first `tensors` of [`NAMES`], filled by `value`.
    fn save(folder: &Path, name: &str, tensors: usize, value: impl Fn(usize) -> f32) {
        let layout = Architecture::from(PRESET).layout();
        let params: Vec<_> = NAMES[..tensors].iter().filter_map(|name| layout.get(name)).collect();
        let values: Vec<Vec<f32>> = params.iter().map(|param| (0..param.range.len()).map(&value).collect()).collect();
        let tensors =
            params.iter().zip(&values).map(|(p, values)| (p.name.as_str(), p.shape.as_slice(), values.as_slice()));
        fs::write(folder.join(name), encode(tensors).unwrap()).unwrap();
    }

    #[test]
    fn rounds_come_in_the_order_of_their_names_with_their_masks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for round in [2, 1, 3] {
            save(path, &format!("round-{round}.safetensors"), 3, |_| round as f32);
        }
        save(path, "round-2.mask.safetensors", 2, |i| f32::from(u8::from(i % 4 != 0)));
        fs::write(path.join("notes.txt"), "of no interest").unwrap();
        let rounds = read_rounds(PRESET.into(), path, &wanted()).unwrap();
        let first = |round: &DumpedUpdate| round.gradients.values("pos_embed").unwrap()[1];
        assert_eq!(rounds.iter().map(first).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!(rounds.iter().map(|round| round.hidden_share).collect::<Vec<_>>(), [0.0, 0.25, 0.0]);
        assert!(rounds[0].gradients.kept("pos_embed").is_none());
        assert_eq!(rounds[1].gradients.kept("pos_embed").unwrap()[..5], [false, true, true, true, false]);
        assert!(rounds[0].gradients.values(NAMES[2]).is_some());
        assert!(rounds[1].gradients.values(NAMES[2]).is_none(), "the mask says nothing of it");
    }

    #[test]
    fn folders_that_hold_no_rounds_are_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = || read_rounds(PRESET.into(), folder.path(), &wanted()).unwrap_err().to_string();
        assert!(refusal().contains("no updates in"), "{}", refusal());
        save(folder.path(), "a.mask.safetensors", 2, |_| 1.0);
        assert!(refusal().contains("a.mask.safetensors is the mask of no update"), "{}", refusal());
        save(folder.path(), "a.safetensors", 1, |_| 1.0);
        assert!(refusal().contains("patch_embed.proj.weight") && refusal().contains("missing"), "{}", refusal());
        let nowhere = read_rounds(PRESET.into(), &folder.path().join("nowhere"), &wanted()).unwrap_err();
        assert!(nowhere.to_string().contains("nowhere cannot be read"), "{nowhere}");
    }
}
