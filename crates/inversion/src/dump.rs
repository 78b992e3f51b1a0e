//! Updates and weights from files of any framework.

mod model;
mod pixels;

use std::{
    collections::BTreeMap,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
};

use unmask_attack::{AttackError, Rounding, TensorNames, TensorSource, Tensors};
use unmask_core::{Architecture, ModelState, NoTransformerBlock, ParamLayout, SizeError, VitConfig};
use unmask_tensors::{NamedTensor, Number, ShapeError, TensorFile, TensorReader, WeightsError, read_state};

pub use self::{
    model::{Asked, DumpedModel, Told},
    pixels::{PixelError, PixelSpace},
};

/// timm's names of the input layers.
const FIRST_LAYERS: [&str; 2] = ["patch_embed.proj.weight", "conv1.weight"];
const POSITION: &str = "pos_embed";
/// Most rows of a position embedding before those of the patches: a class token and registers.
const MOST_FRONT: usize = 65;
/// Foreign tensors that an error names.
const NAMED: usize = 4;

/// The files hold no update of the model.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    #[error(transparent)]
    File(#[from] WeightsError),
    #[error(transparent)]
    Tensor(#[from] AttackError),
    #[error("{file}: {name} holds {value} at value {index}; a mask is 0 (hidden) or 1 (kept)")]
    Mask { file: String, name: String, value: f32, index: usize },
    #[error(transparent)]
    Shapes(#[from] ShapeError),
    #[error("{architecture} is not a valid model: {reason}")]
    Numbers { architecture: Architecture, reason: SizeError },
    #[error(transparent)]
    NoBlock(#[from] NoTransformerBlock),
    #[error("{architecture} has no attention; leave --heads out")]
    NoHeads { architecture: Architecture },
    #[error(
        "the position embedding tells images of {0} x {0} pixels, and --side is {side}; leave it out", architecture.side()
    )]
    Side { architecture: Architecture, side: usize },
    #[error(
        "--size {width}x{height} does not fit {patches} patches of {patch} x {patch} pixels; both sides must be multiples of \
         {patch}, and their product {pixels} pixels"
    )]
    Size { width: usize, height: usize, patches: usize, patch: usize, pixels: usize },
    #[error(
        "{attack} runs the model, and tensor shapes do not show how many heads share its {dim} dimensions; give --heads"
    )]
    Heads { attack: String, dim: usize },
    #[error("{attack} runs the model, and no file holds its blocks; give --weights with the whole state_dict()")]
    NoBlocks { attack: String },
    #[error(
        "the files hold {variant}, but {attack} works only on a standard ViT; embedding, embedding-aware, rounds and \
         label work on this one too"
    )]
    Variant { attack: String, variant: &'static str },
    #[error(
        "{file} holds tensors that {architecture} lacks and that change its result: {names}; a search through {architecture} \
         would look for another model's gradient"
    )]
    Foreign { file: String, architecture: Architecture, names: String },
    /// Neither weights nor an update.
    #[error("there is no update; give --gradients, or --rounds")]
    NoUpdate,
    #[error("the folder {} cannot be read: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "no updates in {}: put one NAME.safetensors (or .npz, .pt, .pth, .bin) for each round there, and NAME.mask.safetensors \
         next to it if a mask hid values", .path.display()
    )]
    NoRounds { path: PathBuf },
    #[error("{} is the mask of no update: {} is not there", .mask.display(), .update.display())]
    MaskWithoutUpdate { mask: PathBuf, update: PathBuf },
}

#[derive(Debug, Clone)]
pub struct DumpedUpdate {
    pub gradients: Tensors,
    /// Share of the read values that the mask hid.
    pub hidden_share: f64,
}

#[derive(Debug, Clone)]
pub struct UpdateFiles {
    pub gradients: TensorFile,
    /// Which values arrived. `None`: all of them.
    pub mask: Option<TensorFile>,
}

/// Reads the `wanted` tensors of an update. `mask` (same names and shapes, 1 = kept) says which values arrived.
///
/// # Errors
/// [`DumpError`] names the file and the offending tensor.
pub fn read_update(
    model: &DumpedModel,
    gradients: &TensorFile,
    mask: Option<&TensorFile>,
    wanted: &TensorNames,
) -> Result<DumpedUpdate, DumpError> {
    let DumpedModel { architecture, pixels, .. } = *model;
    let mut read: BTreeMap<String, NamedTensor<f64>> = read_tensors(gradients, architecture, wanted, 0.0)?;
    // Before masking, because all values of a tensor show its type.
    let rounding = read.values().map(|tensor| Rounding::of(&tensor.values)).max().unwrap_or_default();
    scale(&mut read, 1.0 / pixels.reach());
    let mut tensors = Tensors::new(TensorSource::Gradients, architecture, rounding);
    let Some(mask) = mask else {
        for (name, tensor) in read {
            tensors.insert(&name, &tensor.shape, tensor.values)?;
        }
        return Ok(DumpedUpdate { gradients: tensors, hidden_share: 0.0 });
    };
    let mut masks: BTreeMap<String, NamedTensor<f32>> = read_tensors(mask, architecture, wanted, 1.0)?;
    // An optional tensor that the mask does not cover is unknown.
    read.retain(|name, _| masks.contains_key(name));
    let (mut hidden, mut total) = (0_usize, 0_usize);
    for (name, tensor) in read {
        let bits = masks.remove(&name).map(|mask| mask.values).unwrap_or_default();
        if let Some((index, &value)) = bits.iter().enumerate().find(|&(_, &keep)| keep != 0.0 && keep != 1.0) {
            return Err(DumpError::Mask { file: mask.to_string(), name, value, index });
        }
        let kept: Vec<bool> = bits.iter().map(|&keep| keep == 1.0).collect();
        hidden += kept.iter().filter(|&&kept| !kept).count();
        total += kept.len();
        tensors.insert_kept(&name, &tensor.shape, tensor.values, kept)?;
    }
    Ok(DumpedUpdate { gradients: tensors, hidden_share: hidden as f64 / total.max(1) as f64 })
}

/// Reads the `wanted` weights of a model.
///
/// # Errors
/// [`DumpError`] names the file and the offending tensor.
pub fn read_weights(model: &DumpedModel, file: &TensorFile, wanted: &TensorNames) -> Result<Tensors, DumpError> {
    let DumpedModel { architecture, pixels, .. } = *model;
    let mut tensors = Tensors::new(TensorSource::Weights, architecture, Rounding::F32);
    let mut read = read_tensors::<f64>(file, architecture, wanted, 0.0)?;
    scale(&mut read, pixels.reach() * share_of_grey(&mut file.open()?));
    for (name, tensor) in read {
        tensors.insert(&name, &tensor.shape, tensor.values)?;
    }
    Ok(tensors)
}

/// Reads a whole model, including running statistics, for an attack that runs it.
///
/// # Errors
/// [`DumpError`] names the file and the offending tensor, which may be one that the model does not have.
pub fn read_model(model: &DumpedModel, file: &TensorFile) -> Result<ModelState, DumpError> {
    let DumpedModel { architecture, pixels, .. } = *model;
    let mut reader = file.open()?;
    let reach = pixels.reach() * share_of_grey(&mut reader);
    let foreign = reader.foreign(architecture);
    let mut state = read_state(reader, architecture)?;
    if !foreign.is_empty() {
        let more = foreign.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = format!("{}{more}", foreign[..foreign.len().min(NAMED)].join(", "));
        return Err(DumpError::Foreign { file: file.to_string(), architecture, names });
    }
    let layout = architecture.layout();
    for param in FIRST_LAYERS.into_iter().filter_map(|name| layout.get(name)) {
        state.weights[param.range.clone()].iter_mut().for_each(|w| *w = (f64::from(*w) * reach) as f32);
    }
    Ok(state)
}

/// Reads the whole gradient of a model in layout order, converted to the pixel space of the attacks.
///
/// # Errors
/// [`DumpError`] names the file and the offending tensor.
pub fn read_gradient(model: &DumpedModel, file: &TensorFile) -> Result<Vec<f64>, DumpError> {
    let layout = model.architecture.layout();
    let mut reader = file.open()?;
    reader.spread_grey();
    let mut flat = reader.read_flat::<f64>(&layout)?;
    for param in FIRST_LAYERS.into_iter().filter_map(|name| layout.get(name)) {
        flat[param.range.clone()].iter_mut().for_each(|value| *value /= model.pixels.reach());
    }
    Ok(flat)
}

/// The share of a grey model's weights that each of three equal channels has; 1 for a model of three channels.
fn share_of_grey<R: Read + Seek>(reader: &mut TensorReader<R>) -> f64 {
    if reader.spread_grey() { 1.0 / VitConfig::CHANNELS as f64 } else { 1.0 }
}

fn scale(tensors: &mut BTreeMap<String, NamedTensor<f64>>, factor: f64) {
    for name in FIRST_LAYERS {
        if let Some(tensor) = tensors.get_mut(name) {
            tensor.values.iter_mut().for_each(|value| *value *= factor);
        }
    }
}

/// Lists the updates of several rounds in `folder` by name: each `NAME.safetensors`, `.npz`, `.pt`, `.pth` or `.bin`,
/// with its mask `NAME.mask.safetensors` (or another extension) if there is one.
///
/// # Errors
/// [`DumpError`]: the folder cannot be listed or holds no update, or a mask has no update.
pub fn round_files(folder: &Path) -> Result<Vec<UpdateFiles>, DumpError> {
    const ENDS: [&str; 5] = [".safetensors", ".npz", ".pt", ".pth", ".bin"];
    const MASK: &str = ".mask";
    let failed = |source| DumpError::Folder { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    let stem = |name: &str| ENDS.iter().find_map(|end| name.strip_suffix(end)).map(str::to_owned);
    let (masks, updates): (Vec<_>, Vec<_>) =
        names.iter().filter_map(|name| Some((stem(name)?, name))).partition(|(stem, _)| stem.ends_with(MASK));
    for (stem, mask) in &masks {
        let update = stem.strip_suffix(MASK).unwrap_or(stem);
        if !updates.iter().any(|(stem, _)| stem == update) {
            let update = folder.join(mask.replace(MASK, ""));
            return Err(DumpError::MaskWithoutUpdate { mask: folder.join(mask), update });
        }
    }
    if updates.is_empty() {
        return Err(DumpError::NoRounds { path: folder.to_owned() });
    }
    let mask_of = |stem: &str| masks.iter().find(|(mask, _)| mask.strip_suffix(MASK) == Some(stem));
    let file = |name: &str| TensorFile::from(folder.join(name));
    let round = |(stem, name): &(String, &String)| UpdateFiles {
        gradients: file(name),
        mask: mask_of(stem).map(|(_, mask)| file(mask)),
    };
    Ok(updates.iter().map(round).collect())
}

/// Reads the `wanted` tensors of a file. If the position embedding lacks the class token's row, fills it with `filler`.
fn read_tensors<T: Number>(
    file: &TensorFile,
    architecture: Architecture,
    wanted: &TensorNames,
    filler: f64,
) -> Result<BTreeMap<String, NamedTensor<T>>, WeightsError> {
    let mut reader = file.open()?;
    reader.spread_grey();
    reader.check_blocks(architecture)?;
    let layout = architecture.layout();
    let there = reader.names();
    let names = wanted.required.iter().chain(wanted.optional.iter().filter(|name| there.contains(name)));
    let (position, names): (Vec<&str>, Vec<&str>) = names.map(String::as_str).partition(|name| {
        let front = architecture.vit().and_then(|config| front_rows(&config, reader.shape(POSITION)?));
        *name == POSITION && front.is_some_and(|front| front != 1)
    });
    let mut tensors = reader.read_params(&layout, &names)?;
    if let (Some(config), false) = (architecture.vit(), position.is_empty()) {
        let read = reader.read(POSITION)?;
        tensors.insert(POSITION.to_owned(), with_class_row(&config, &layout, read, filler));
    }
    Ok(tensors)
}

/// Returns the number of rows before the patches' rows if `shape` is a position embedding of a ViT with these patches:
/// 0, 1 (class token), 2 (also a distillation token), or more with registers.
fn front_rows(config: &VitConfig, shape: &[usize]) -> Option<usize> {
    let &[1, rows, dim] = shape else { return None };
    rows.checked_sub(config.patches()).filter(|&front| dim == config.dim && front <= MOST_FRONT)
}

/// Returns a position embedding with exactly one row before the patches' rows: the class token's, or `filler`. Attacks
/// read only the patches' rows.
fn with_class_row<T: Number>(
    config: &VitConfig,
    layout: &ParamLayout,
    read: NamedTensor<T>,
    filler: f64,
) -> NamedTensor<T> {
    let (dim, patches) = (config.dim, config.patches() * config.dim);
    let mut values: Vec<T> = read.values.get(..dim).unwrap_or_default().to_vec();
    if read.values.len() == patches {
        values = vec![T::from_f64(filler); dim];
    }
    values.extend_from_slice(&read.values[read.values.len() - patches..]);
    let shape = layout.get(POSITION).map_or_else(Vec::new, |param| param.shape.clone());
    NamedTensor { name: read.name, shape, values }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unmask_attack::Needs;
    use unmask_core::{AttackMethod, VitPreset};
    use unmask_tensors::encode;

    use super::*;

    const PRESET: VitPreset = VitPreset::Pico;
    const NAMES: [&str; 3] = ["pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"];

    fn model() -> DumpedModel {
        Architecture::from(PRESET).into()
    }

    fn wanted() -> TensorNames {
        TensorNames { required: vec![NAMES[0].to_owned(), NAMES[1].to_owned()], optional: vec![NAMES[2].to_owned()] }
    }

    /// Writes a file with the first `tensors` of [`NAMES`], filled by `value`.
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
        let read = |UpdateFiles { gradients, mask }| read_update(&model(), &gradients, mask.as_ref(), &wanted());
        let rounds: Vec<DumpedUpdate> =
            round_files(path).unwrap().into_iter().map(|files| read(files).unwrap()).collect();
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
        let refusal = || round_files(folder.path()).unwrap_err().to_string();
        assert!(refusal().contains("no updates in"), "{}", refusal());
        save(folder.path(), "a.mask.safetensors", 2, |_| 1.0);
        assert!(refusal().contains("a.mask.safetensors is the mask of no update"), "{}", refusal());
        save(folder.path(), "a.safetensors", 1, |_| 1.0);
        let one = &round_files(folder.path()).unwrap()[0];
        let refused = read_update(&model(), &one.gradients, None, &wanted()).unwrap_err().to_string();
        assert!(refused.contains("patch_embed.proj.weight") && refused.contains("missing"), "{refused}");
        let nowhere = round_files(&folder.path().join("nowhere")).unwrap_err();
        assert!(nowhere.to_string().contains("nowhere cannot be read"), "{nowhere}");
    }

    fn write(path: &Path, tensors: &[(&str, Vec<usize>)]) {
        let values: Vec<Vec<f32>> =
            tensors.iter().map(|(_, shape)| (1..=shape.iter().product()).map(|i: usize| i as f32).collect()).collect();
        let tensors = tensors.iter().zip(&values).map(|((name, shape), v)| (*name, shape.as_slice(), v.as_slice()));
        fs::write(path, encode(tensors).unwrap()).unwrap();
    }

    #[test]
    fn the_model_is_told_by_shapes_with_the_classes_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (gradients, weights) = (folder.path().join("g.safetensors"), folder.path().join("w.safetensors"));
        write(
            &gradients,
            &[
                ("module.pos_embed", vec![1, 17, 64]),
                ("module.patch_embed.proj.weight", vec![64, 3, 16, 16]),
                ("module.head.weight", vec![1000, 64]),
            ],
        );
        write(
            &weights,
            &[
                ("pos_embed", vec![1, 17, 64]),
                ("patch_embed.proj.weight", vec![64, 3, 16, 16]),
                ("blocks.4.mlp.fc1.bias", vec![256]),
            ],
        );
        let files = [gradients, weights].map(TensorFile::from);
        let told = DumpedModel::tell(&Asked::default(), &files).unwrap();
        assert_eq!(told.model.architecture.name(), "vit_patch16_dim64_depth5_heads1_64");
        assert_eq!(told.model.architecture.classes(), 1000);
        assert!(told.notes[0].contains("vit_patch16_dim64_depth5_heads1_64, with 1000 classes"), "{:?}", told.notes);
        assert!(told.notes[1].contains("1, by timm's convention of 64 dimensions each"), "{:?}", told.notes);
        let asked = |change: &dyn Fn(&mut Asked)| {
            let mut asked = Asked::default();
            change(&mut asked);
            DumpedModel::tell(&asked, &files)
        };
        let heads = asked(&|asked| asked.heads = Some(4)).unwrap();
        assert_eq!(heads.model.architecture.vit().unwrap().heads, 4);
        let named = asked(&|asked| asked.model = Some(heads.model.architecture.with_classes(10))).unwrap();
        assert_eq!(named.model.architecture.classes(), 1000);
        let refused = |change: &dyn Fn(&mut Asked)| asked(change).unwrap_err().to_string();
        assert!(refused(&|asked| asked.heads = Some(5)).contains("a number of heads that divides 64"));
        assert!(refused(&|asked| asked.side = Some(32)).contains("tells images of 64 x 64 pixels"));
        assert!(refused(&|asked| asked.model = Some(PRESET.into())).contains("deeper model than vit_pico_patch4_16"));
        let resnet = Architecture::from(unmask_core::ResnetPreset::Nano);
        assert!(refused(&|asked| (asked.model, asked.heads) = (Some(resnet), Some(1))).contains("no attention"));
    }

    #[test]
    fn a_variant_lends_its_patches_rows_and_refuses_what_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("g.safetensors");
        let wanted = TensorNames { required: vec![POSITION.to_owned()], optional: Vec::new() };
        for (rows, first, patches) in [(18, 1.0, 129.0), (16, 0.0, 1.0), (17, 1.0, 65.0)] {
            write(&path, &[(POSITION, vec![1, rows, 64]), ("patch_embed.proj.weight", vec![64, 3, 4, 4])]);
            let file = TensorFile::from(path.as_path());
            let told = DumpedModel::tell(&Asked::default(), std::slice::from_ref(&file)).unwrap().model;
            let read = read_update(&told, &file, None, &wanted).unwrap();
            let values = read.gradients.values(POSITION).unwrap();
            assert_eq!((values.len(), values[0], values[64]), (17 * 64, first, patches), "{rows} rows");
            let mask = read_update(&told, &file, Some(&file), &wanted);
            assert!(mask.is_err(), "values beyond 0 and 1 are no mask");
            let needs = |method| Needs::of(method, told.architecture).unwrap();
            told.check_fits("embedding", &needs(AttackMethod::Embedding), false).unwrap();
            let april = told.check_fits("april", &needs(AttackMethod::April), false);
            assert_eq!(april.is_err(), rows != 17);
            let search = told.check_fits("matching", &needs(AttackMethod::Matching), true).unwrap_err().to_string();
            let reason = if rows == 17 { "no file holds its blocks" } else { "works only on a standard ViT" };
            assert!(search.contains(reason), "{search}");
        }
    }

    #[test]
    fn what_is_fed_scales_the_first_layer_alone() {
        let folder = tempfile::tempdir().unwrap();
        save(folder.path(), "g.safetensors", 3, |i| i as f32);
        let file = TensorFile::from(folder.path().join("g.safetensors"));
        let pixels = PixelSpace::new(&[0.0], &[0.25]).unwrap();
        let mut fed = model();
        fed.pixels = pixels;
        let value = |tensors: &Tensors, name| tensors.values(name).unwrap()[8];
        let gradients = read_update(&fed, &file, None, &wanted()).unwrap().gradients;
        assert_eq!([value(&gradients, NAMES[0]), value(&gradients, NAMES[1])], [8.0, 2.0]);
        let weights = read_weights(&fed, &file, &wanted()).unwrap();
        assert_eq!([value(&weights, NAMES[0]), value(&weights, NAMES[1])], [8.0, 32.0]);
    }

    #[test]
    fn a_model_with_more_than_its_network_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let architecture = Architecture::from(PRESET);
        let layout = architecture.layout();
        let mut tensors: Vec<(&str, Vec<usize>)> =
            layout.iter().map(|param| (param.name.as_str(), param.shape.clone())).collect();
        write(&path, &tensors);
        let file = TensorFile::from(path.as_path());
        assert_eq!(read_model(&model(), &file).unwrap().weights.len(), layout.len());
        assert_eq!(read_gradient(&model(), &file).unwrap()[..2], [1.0, 2.0]);
        tensors.push(("blocks.1.ls1.gamma", vec![48]));
        write(&path, &tensors);
        let refused = read_model(&model(), &file).unwrap_err().to_string();
        assert!(refused.contains("blocks.1.ls1.gamma") && refused.contains("another model's gradient"), "{refused}");
    }
}
