//! Identifies a network from the tensor shapes in a file.

use std::{
    collections::BTreeSet,
    io::{Read, Seek},
};

use unmask_core::{
    Architecture, BlockKind, LenetConfig, ResnetConfig, ResnetPreset, ResnetSpec, Stem, VitConfig, VitPreset,
};

use super::{TensorReader, WeightsError, names::fronts, order::number};

const POSITION: &str = "pos_embed";
const PATCH: &str = "patch_embed.proj.weight";
const VIT_HEAD: &str = "head.weight";
/// Head of a ResNet or LeNet.
const CONVOLUTIONAL_HEAD: &str = "fc.weight";
const STEM: &str = "conv1.weight";
/// A LeNet has it, a ResNet does not.
const STEM_BIAS: &str = "conv1.bias";

/// A ViT that differs from the standard one, where the head reads a leading class token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// DeiT's distilled ViT: a second token, `dist_token`, with its own head, `head_dist`.
    Distilled,
    /// The head reads the mean over all patches: `fc_norm` instead of `norm`.
    AveragePooled,
    /// The position embedding has a row for each patch and none for a class token.
    PatchesOnly,
    /// The rows of the position embedding are a square number, and there is a class token. Either it has no row, or the
    /// other rows are those of pictures that are no squares.
    PatchesOrOblong,
    /// Register tokens beside the class token: `reg_token` or `register_tokens`.
    Registers,
    /// CLIP's, with a norm before the first block.
    Clip,
}

impl Variant {
    /// Returns a description, with its distinctive tensors.
    pub fn words(self) -> &'static str {
        match self {
            Self::Distilled => "a distilled ViT (DeiT's dist_token and head_dist)",
            Self::AveragePooled => "an average-pooled ViT (fc_norm in place of norm)",
            Self::PatchesOnly => "a ViT whose position embedding has no class token",
            Self::PatchesOrOblong => {
                "a ViT whose position embedding has no class token; or its pictures are no squares, which are not read"
            }
            Self::Registers => "a ViT with register tokens",
            Self::Clip => "the vision model of CLIP, with a norm before the first block",
        }
    }
}

/// The dimensions of a network, as far as shapes show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// `heads` is 1, because shapes do not show it. `depth` is 0 without blocks in the file, `classes` 0 without a
    /// head.
    Vit { config: VitConfig, variant: Option<Variant> },
    /// The side of the images is the preset's, or 224, because shapes do not show it. `classes` is 0 without a head in
    /// the file.
    Resnet(ResnetSpec),
    /// The side of the images is four times that of the head's input, or 32 without a head in the file. Slightly
    /// smaller images would give the same shapes. `classes` is 0 without a head.
    Lenet(LenetConfig),
}

/// The shapes do not identify a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error(
        "{what} holds neither pos_embed and patch_embed.proj.weight, which identify a ViT, nor conv1.weight and the layers of \
         a ResNet or LeNet; name the model (--model), or add them to the file. It holds {holds}"
    )]
    Neither { what: String, holds: String },
    #[error("{what}: {name} has shape {given:?}, expected {expected}")]
    Shape { what: String, name: String, given: Vec<usize>, expected: String },
    #[error(
        "{what} is a ViT of vit-pytorch: it normalises each patch before it embeds it (to_patch_embedding.1), so that an \
         update does not determine a patch's brightness and contrast; no attack here reads it, but label does"
    )]
    NormalisedPatches { what: String },
    #[error("{what} has {present} and lacks {absent}")]
    Gap { what: String, present: String, absent: String },
}

impl<R: Read + Seek> TensorReader<R> {
    /// Identifies the network from the shapes.
    ///
    /// # Errors
    /// [`ShapeError`]: distinctive tensors are missing, or their shapes fit no supported network.
    pub fn shapes(&self) -> Result<Shapes, ShapeError> {
        match (self.shape(PATCH), self.shape(STEM)) {
            (Some(patch), _) => self.vit(patch),
            (None, Some(stem)) if self.shape(STEM_BIAS).is_some() => self.lenet(stem),
            (None, Some(stem)) => self.resnet(stem),
            (None, None) if self.shape("to_patch_embedding.1.weight").is_some_and(|shape| shape.len() == 1) => {
                Err(ShapeError::NormalisedPatches { what: self.what.clone() })
            }
            (None, None) => {
                let names = self.names();
                let holds = match names.len() {
                    0 => "no tensor".to_owned(),
                    count => format!("{count} tensors, {} first", names[0]),
                };
                let fronts: Vec<String> =
                    fronts(names.iter().map(String::as_str)).iter().map(|it| format!("{it}*")).collect();
                let holds = match shards(&self.what) {
                    _ if names.len() > 1 && names.iter().all(|name| number(name).is_some()) => format!(
                        "{holds}: they have numbers for names, and their shapes are those of no known model in the order of \
                         its parameters; save {{name: p.grad for name, p in model.named_parameters()}}"
                    ),
                    _ if fronts.len() > 1 => {
                        let shown = fronts[..fronts.len().min(4)].join(", ");
                        format!("{} networks, {shown}; save one of them", fronts.len())
                    }
                    Some(shards) => format!(
                        "{holds}; by its name it is one of {shards} files of a model: give their index, such as \
                         model.safetensors.index.json"
                    ),
                    None => holds,
                };
                Err(ShapeError::Neither { what: self.what.clone(), holds })
            }
        }
    }

    /// Returns the number of ViT blocks in the file: one more than the highest index.
    pub fn depth(&self) -> usize {
        let number = |entry: &super::Entry| {
            let (number, _) = entry.name.strip_prefix("blocks.")?.split_once('.')?;
            Some(number.parse::<u16>().ok()? as usize + 1)
        };
        self.entries.iter().filter_map(number).max().unwrap_or(0)
    }

    /// Returns the classes of the head in the file, if it is a head over `features` of any network family.
    pub fn classes(&self, features: usize) -> Option<usize> {
        match [VIT_HEAD, CONVOLUTIONAL_HEAD].into_iter().find_map(|head| self.shape(head))? {
            &[classes, columns] if columns == features => Some(classes),
            _ => None,
        }
    }

    /// Lists, in file order, the tensors that `architecture` does not use and that change a network's result.
    pub fn foreign(&self, architecture: Architecture) -> Vec<String> {
        const IDLE: [&str; 4] = ["pooler.", "mask_token", "embeddings.mask_token", "attn.relative_position_index"];
        let (layout, statistics) = (architecture.layout(), architecture.statistics());
        let is_foreign = |name: &String| {
            let is_idle = name.ends_with("num_batches_tracked") || IDLE.iter().any(|idle| name.starts_with(idle));
            layout.get(name).is_none() && statistics.get(name).is_none() && !is_idle
        };
        self.names().into_iter().filter(is_foreign).collect()
    }

    /// Checks that the file has no block that `architecture` lacks.
    ///
    /// # Errors
    /// [`WeightsError::MoreBlocks`] names the first.
    pub fn check_blocks(&self, architecture: Architecture) -> Result<(), WeightsError> {
        let layout = architecture.layout();
        let known: BTreeSet<String> = layout.iter().filter_map(|param| block_of(&param.name)).collect();
        let blocks: BTreeSet<String> = self.entries.iter().filter_map(|entry| block_of(&entry.name)).collect();
        let first = blocks.difference(&known).min_by_key(|block| (block.len(), *block));
        first.map_or(Ok(()), |block| {
            let (what, block) = (self.what.clone(), block.trim_end_matches('.').to_owned());
            Err(WeightsError::MoreBlocks { what, architecture, block, blocks: blocks.len() })
        })
    }

    fn wrong(&self, name: &str, given: &[usize], expected: impl Into<String>) -> ShapeError {
        let (what, name) = (self.what.clone(), self.entry(name).map_or(name.to_owned(), super::Entry::shown));
        ShapeError::Shape { what, name, given: given.to_vec(), expected: expected.into() }
    }

    fn vit(&self, patch_shape: &[usize]) -> Result<Shapes, ShapeError> {
        let &[dim, VitConfig::CHANNELS, patch, width] = patch_shape else {
            return Err(self.wrong(PATCH, patch_shape, "[D, 3, P, P]"));
        };
        if patch != width || patch == 0 || dim == 0 {
            return Err(self.wrong(PATCH, patch_shape, "square patches, [D, 3, P, P]"));
        }
        let Some(position) = self.shape(POSITION) else {
            let (present, absent) = (
                PATCH.to_owned(),
                format!(
                    "{POSITION} [1, S + 1, {dim}], which shows the image's side (a frozen position embedding has no gradient, \
                     and attacks on embeddings need it); give --weights or --model"
                ),
            );
            return Err(ShapeError::Gap { what: self.what.clone(), present, absent });
        };
        let &[1, tokens, columns] = position else {
            return Err(self.wrong(POSITION, position, format!("[1, S + 1, {dim}]")));
        };
        if columns != dim {
            return Err(self.wrong(POSITION, position, format!("[1, {tokens}, {dim}], by {PATCH} {patch_shape:?}")));
        }
        let grid_of = |patches: usize| Some(patches.isqrt()).filter(|grid| *grid > 0 && grid * grid == patches);
        let rows = |name: &str| match self.shape(name) {
            Some(&[1, rows, _] | &[rows, _]) => Some(rows),
            _ => None,
        };
        // The embedding may have rows for a class token, for DeiT's second token as well, or for neither. timm gives
        // registers rows too, DINOv2 does not.
        let (timms, dinos) = (rows("reg_token"), rows("register_tokens"));
        let registers = timms.or(dinos);
        let with_registers = registers.map_or(1, |registers| registers.saturating_add(1));
        let fronts = match (timms, dinos) {
            (Some(registers), _) => vec![with_registers, registers, 1, 0],
            (None, Some(_)) => vec![1, with_registers, 0],
            (None, None) => vec![1, 2, 0],
        };
        let (grid, front) = fronts
            .into_iter()
            .find_map(|front| Some((grid_of(tokens.checked_sub(front)?)?, front)))
            .ok_or_else(|| self.wrong(POSITION, position, "a square number of patches and a class token"))?;
        let variant = match front {
            _ if registers.is_some() => Some(Variant::Registers),
            _ if ["pre_layrnorm.weight", "ln_pre.weight"].iter().any(|norm| self.shape(norm).is_some()) => {
                Some(Variant::Clip)
            }
            2 => Some(Variant::Distilled),
            0 if self.shape("cls_token").is_some() => Some(Variant::PatchesOrOblong),
            0 => Some(Variant::PatchesOnly),
            _ if self.shape("dist_token").is_some() => Some(Variant::Distilled),
            _ if self.shape("fc_norm.weight").is_some() => Some(Variant::AveragePooled),
            _ => None,
        };
        let has = |name: &str| self.shape(name).is_some();
        let april_block = has("blocks.0.norm2.weight") && !has("blocks.0.norm1.weight");
        let config = VitConfig {
            image: grid.saturating_mul(patch),
            patch,
            dim,
            depth: self.depth(),
            heads: 1,
            classes: self.classes(dim).unwrap_or(0),
            april_block,
            mlp: self.mlp(dim),
        };
        Ok(Shapes::Vit { config, variant })
    }

    /// The hidden width of the MLPs, if the file has one and it is not 4 D.
    fn mlp(&self, dim: usize) -> Option<u16> {
        let &[width, columns] = self.shape("blocks.0.mlp.fc1.weight")? else { return None };
        u16::try_from(width).ok().filter(|_| columns == dim && Some(width) != dim.checked_mul(4) && width > 0)
    }

    fn resnet(&self, stem_shape: &[usize]) -> Result<Shapes, ShapeError> {
        let &[_, VitConfig::CHANNELS, kernel, _] = stem_shape else {
            return Err(self.wrong(STEM, stem_shape, "[C, 3, 3, 3] or [C, 3, 7, 7]"));
        };
        let Some(stem) = Stem::of_kernel(kernel) else {
            return Err(self.wrong(STEM, stem_shape, "filters of 3 x 3 or 7 x 7"));
        };
        let block = match self.shape("layer1.0.conv3.weight") {
            Some(_) => BlockKind::Bottleneck,
            None => BlockKind::Basic,
        };
        let mut stages = [ResnetConfig::NO_STAGE; ResnetConfig::STAGES];
        for (stage, place) in (1..).zip(&mut stages) {
            let Some(&[width, ..]) = self.shape(&format!("layer{stage}.0.conv1.weight")) else { break };
            let width = u16::try_from(width).map_err(|_| self.wrong(STEM, stem_shape, "at most 2048 channels"))?;
            let is_there = |block: &u16| self.shape(&format!("layer{stage}.{block}.conv1.weight")).is_some();
            let blocks = (0..64).take_while(is_there).map(|block| block + 1).last().unwrap_or(0);
            *place = (width, blocks);
        }
        if stages[0] == ResnetConfig::NO_STAGE {
            let absent = "layer1.0.conv1.weight, so the blocks are unknown".to_owned();
            return Err(ShapeError::Gap { what: self.what.clone(), present: STEM.to_owned(), absent });
        }
        let config = ResnetConfig { stem, block, stages };
        let classes = self.classes(config.features()).unwrap_or(0);
        let preset = ResnetPreset::ALL.map(ResnetSpec::from).into_iter().find(|preset| preset.config == config);
        Ok(Shapes::Resnet(ResnetSpec { config, classes, side: preset.map_or(224, |preset| preset.side) }))
    }

    fn lenet(&self, stem_shape: &[usize]) -> Result<Shapes, ShapeError> {
        const SIDE: usize = 32;
        let &[width, VitConfig::CHANNELS, LenetConfig::KERNEL, LenetConfig::KERNEL] = stem_shape else {
            return Err(self.wrong(STEM, stem_shape, "[C, 3, 5, 5], as in a LeNet, since it has a bias"));
        };
        let unknown = Shapes::Lenet(LenetConfig { width, side: SIDE, classes: 0 });
        let Some(&[classes, features]) = self.shape(CONVOLUTIONAL_HEAD) else { return Ok(unknown) };
        let side = (features / width.max(1)).isqrt() * LenetConfig::STRIDES.iter().product::<usize>();
        let config = LenetConfig { width, side, classes };
        if width == 0 || config.features() != features {
            let given = [classes, features];
            return Err(self.wrong(
                CONVOLUTIONAL_HEAD,
                &given,
                format!("a square number of places for {width} channels"),
            ));
        }
        Ok(Shapes::Lenet(config))
    }
}

impl Shapes {
    /// Returns the name of the identified network if it differs from `architecture` and has a name. Ignores heads,
    /// classes, the April block and the image side of a convolutional network, and the depth of a ViT if the file has
    /// no blocks.
    pub fn other_than(&self, architecture: Architecture) -> Option<String> {
        let name = match (*self, architecture) {
            (Self::Vit { variant: Some(_), .. }, _) => return None,
            (Self::Vit { config, .. }, Architecture::Vit(wanted)) => {
                let depth = if config.depth == 0 { wanted.depth } else { config.depth };
                let told = VitConfig { depth, ..config };
                let VitConfig { heads, classes, april_block, .. } = wanted;
                if wanted == (VitConfig { heads, classes, april_block, ..told }) {
                    return None;
                }
                match likely_heads(told) {
                    (_, HeadsFrom::Nothing) => return None,
                    (told, _) => told.name(),
                }
            }
            (Self::Vit { config, .. }, _) => likely_heads(config).0.name(),
            (Self::Resnet(told), Architecture::Resnet(wanted)) if told.config == wanted.config => return None,
            (Self::Resnet(told), _) => told.name(),
            (Self::Lenet(told), Architecture::Lenet(wanted)) if told.width == wanted.width => return None,
            (Self::Lenet(told), _) => told.name().into(),
        };
        Some(name.into_owned())
    }
}

/// The origin of a number of heads that shapes do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadsFrom {
    /// From the preset with the same other dimensions.
    Preset(VitPreset),
    /// timm's convention: 64 dimensions per head.
    Convention,
    /// Unknown; set to 1.
    Nothing,
}

/// Fills in the heads of a ViT whose other dimensions are known: the heads of the preset with these dimensions, or D/64
/// if 64 divides D.
pub fn likely_heads(config: VitConfig) -> (VitConfig, HeadsFrom) {
    const PER_HEAD: usize = 64;
    let with = |heads| VitConfig { heads, ..config };
    let of_preset =
        |preset: VitPreset| Some(with(VitConfig::from(preset).heads)).filter(|it| it.preset() == Some(preset));
    match VitPreset::ALL.into_iter().find_map(|preset| Some((of_preset(preset)?, HeadsFrom::Preset(preset)))) {
        Some(found) => found,
        None if config.dim.is_multiple_of(PER_HEAD) => (with(config.dim / PER_HEAD), HeadsFrom::Convention),
        None => (with(1), HeadsFrom::Nothing),
    }
}

/// The number of files of a model, if this is the name of one: `model-00001-of-00002.safetensors`.
fn shards(what: &str) -> Option<u32> {
    let (before, after) = what.rsplit_once("-of-")?;
    let is_numbered = before.len() >= 5 && before.bytes().rev().take(5).all(|byte| byte.is_ascii_digit());
    after.get(..5)?.parse().ok().filter(|_| is_numbered)
}

/// Returns the prefix of names in a block, such as `blocks.11.` or `layer2.0.`.
fn block_of(name: &str) -> Option<String> {
    let mut parts = name.splitn(3, '.');
    let (stage, number, _) = (parts.next()?, parts.next()?, parts.next()?);
    let is_stage = stage == "blocks" || stage.strip_prefix("layer").is_some_and(|number| number.parse::<u8>().is_ok());
    (is_stage && number.parse::<u16>().is_ok()).then(|| format!("{stage}.{number}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    fn reader_of(bytes: &[u8]) -> TensorReader<std::io::Cursor<&[u8]>> {
        TensorReader::from_bytes("a file", bytes).unwrap()
    }

    fn file(shapes: &[(String, Vec<usize>)]) -> Vec<u8> {
        let values: Vec<Vec<f32>> = shapes.iter().map(|(_, shape)| vec![0.5; shape.iter().product()]).collect();
        encode(shapes.iter().zip(&values).map(|((name, shape), v)| (name.as_str(), shape.as_slice(), v.as_slice())))
            .unwrap()
    }

    fn of(architecture: Architecture) -> Vec<(String, Vec<usize>)> {
        architecture.layout().iter().map(|param| (param.name.clone(), param.shape.clone())).collect()
    }

    #[test]
    fn mlps_of_another_width_are_told_by_their_shapes() {
        let usual =
            VitConfig { image: 16, patch: 4, dim: 12, depth: 2, heads: 1, classes: 3, april_block: false, mlp: None };
        for mlp in [None, Some(24), Some(36)] {
            let config = VitConfig { mlp, ..usual };
            let bytes = file(&of(Architecture::Vit(config)));
            assert_eq!(reader_of(&bytes).shapes().unwrap(), Shapes::Vit { config, variant: None });
        }
    }

    /// Includes deep models with 64 dimensions per head and tiny ones, with and without classes.
    #[test]
    fn any_vit_is_told_by_its_shapes() {
        for (image, patch, dim, depth, classes) in
            [(64, 16, 64, 3, 1000), (64, 32, 128, 2, 0), (28, 7, 12, 1, 2), (8, 8, 4, 5, 1)]
        {
            for april_block in [false, true] {
                let config = VitConfig { image, patch, dim, depth, heads: 1, classes, april_block, mlp: None };
                let bytes = file(&of(Architecture::Vit(config)));
                let told = reader_of(&bytes).shapes().unwrap();
                assert_eq!(told, Shapes::Vit { config, variant: None });
                assert_eq!(told.other_than(Architecture::Vit(VitConfig { heads: 2, classes: 7, ..config })), None);
                let deeper = Architecture::Vit(VitConfig { depth: depth + 1, ..config });
                let name = format!("vit_patch{patch}_dim{dim}_depth{depth}_heads{}_{image}", dim / 64);
                assert_eq!(told.other_than(deeper), Some(name).filter(|_| dim >= 64));
            }
        }
    }

    #[test]
    fn resnets_are_told_apart() {
        for preset in [ResnetPreset::Nano, ResnetPreset::Resnet18] {
            let spec = ResnetSpec { classes: 3, ..preset.into() };
            let bytes = file(&of(Architecture::Resnet(spec)));
            assert_eq!(reader_of(&bytes).shapes(), Ok(Shapes::Resnet(spec)));
        }
        let bytes = file(&of(ResnetPreset::Resnet18.into()));
        let told = reader_of(&bytes).shapes().unwrap();
        assert_eq!(told.other_than(ResnetPreset::Resnet34.into()).as_deref(), Some("resnet18"));
        assert_eq!(told.other_than(VitPreset::Pico.into()).as_deref(), Some("resnet18"));
        let bottleneck = ResnetConfig {
            stem: Stem::Seven,
            block: BlockKind::Bottleneck,
            stages: [(4, 2), (8, 1), ResnetConfig::NO_STAGE, ResnetConfig::NO_STAGE],
        };
        let spec = ResnetSpec { config: bottleneck, classes: 5, side: 224 };
        assert_eq!(reader_of(&file(&of(Architecture::Resnet(spec)))).shapes(), Ok(Shapes::Resnet(spec)));
    }

    #[test]
    fn a_lenet_is_told_by_its_biases() {
        let config = LenetConfig { width: 7, side: 16, classes: 3 };
        let told = |tensors: &[(String, Vec<usize>)]| reader_of(&file(tensors)).shapes();
        let mut tensors = of(Architecture::Lenet(config));
        assert_eq!(told(&tensors), Ok(Shapes::Lenet(config)));
        let shapes = told(&tensors).unwrap();
        assert_eq!(shapes.other_than(ResnetPreset::Nano.into()).as_deref(), Some("lenet_width7_16"));
        assert_eq!(shapes.other_than(Architecture::Lenet(LenetConfig { side: 15, ..config })), None);
        assert_eq!(shapes.other_than(Architecture::Lenet(LenetConfig::NAMED[0])).as_deref(), Some("lenet_width7_16"));
        tensors.iter_mut().filter(|(name, _)| name == CONVOLUTIONAL_HEAD).for_each(|(_, shape)| shape[1] = 15);
        let refused = told(&tensors).unwrap_err().to_string();
        assert!(refused.contains("fc.weight has shape [3, 15], expected a square number of places for 7"), "{refused}");
        tensors.retain(|(name, _)| !name.starts_with("fc."));
        assert_eq!(told(&tensors), Ok(Shapes::Lenet(LenetConfig { side: 32, classes: 0, ..config })));
    }

    #[test]
    fn variants_are_named() {
        type Named = Vec<(String, Vec<usize>)>;
        let config =
            VitConfig { image: 16, patch: 4, dim: 8, depth: 1, heads: 1, classes: 3, april_block: false, mlp: None };
        let with = |change: &dyn Fn(&mut Named)| {
            let mut tensors = of(Architecture::Vit(config));
            change(&mut tensors);
            let bytes = file(&tensors);
            let Shapes::Vit { config: told, variant } = reader_of(&bytes).shapes().unwrap() else { panic!() };
            assert_eq!((told.image, told.depth, told.classes), (16, 1, 3));
            variant
        };
        let position = |rows: usize| {
            move |tensors: &mut Vec<(String, Vec<usize>)>| {
                tensors.iter_mut().filter(|(name, _)| name == POSITION).for_each(|(_, shape)| shape[1] = rows);
            }
        };
        assert_eq!(with(&|_| {}), None);
        assert_eq!(with(&position(18)), Some(Variant::Distilled));
        assert_eq!(with(&position(16)), Some(Variant::PatchesOrOblong), "or 15 patches and a class token");
        let classless = |tensors: &mut Named| {
            position(16)(tensors);
            tensors.retain(|(name, _)| name != "cls_token");
        };
        assert_eq!(with(&classless), Some(Variant::PatchesOnly));
        let pooled = |tensors: &mut Vec<(String, Vec<usize>)>| {
            tensors.iter_mut().for_each(|(name, _)| *name = name.replace("norm.", "fc_norm.").replace("fc_fc", "fc"));
        };
        assert_eq!(with(&pooled), Some(Variant::AveragePooled));
        // With four registers, 21 rows are 16 patches, and 9 would be 4, not 3 x 3.
        let registers = |tensors: &mut Named| {
            position(21)(tensors);
            tensors.push(("reg_token".to_owned(), vec![1, 4, 8]));
        };
        assert_eq!(with(&registers), Some(Variant::Registers));
        let clip = |tensors: &mut Named| tensors.push(("pre_layrnorm.weight".to_owned(), vec![8]));
        assert_eq!(with(&clip), Some(Variant::Clip));
        let without_rows = |tensors: &mut Named| tensors.push(("register_tokens".to_owned(), vec![1, 4, 8]));
        assert_eq!(with(&without_rows), Some(Variant::Registers));
    }

    #[test]
    fn shapes_that_tell_nothing_are_refused_with_the_tensor() {
        let refused = |shapes: &[(&str, &[usize])]| {
            let shapes: Vec<_> = shapes.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect();
            reader_of(&file(&shapes)).shapes().unwrap_err().to_string()
        };
        for (shapes, reason) in [
            (&[("head.weight", &[10, 8][..])][..], "1 tensors, head.weight first"),
            (&[(PATCH, &[8, 1, 4, 4])], "patch_embed.proj.weight has shape [8, 1, 4, 4], expected [D, 3, P, P]"),
            (&[(PATCH, &[8, 3, 4, 2])], "expected square patches"),
            (&[(PATCH, &[8, 3, 4, 4])], "lacks pos_embed [1, S + 1, 8]"),
            (&[(PATCH, &[8, 3, 4, 4]), (POSITION, &[17])], "pos_embed has shape [17], expected [1, S + 1, 8]"),
            (&[(PATCH, &[8, 3, 4, 4]), (POSITION, &[1, 17, 6])], "expected [1, 17, 8], by patch_embed"),
            (&[(PATCH, &[8, 3, 4, 4]), (POSITION, &[1, 15, 8])], "a square number of patches"),
            (&[(STEM, &[8, 3, 5, 5])], "conv1.weight has shape [8, 3, 5, 5], expected filters of 3 x 3 or 7 x 7"),
            (&[(STEM, &[8, 3, 3, 3])], "lacks layer1.0.conv1.weight"),
            (&[("to_patch_embedding.1.weight", &[192]), ("pos_embedding", &[1, 17, 8])], "a ViT of vit-pytorch"),
        ] {
            let refused = refused(shapes);
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn heads_are_a_presets_or_timms_convention() {
        let nano = VitConfig { heads: 1, classes: 5, ..VitPreset::Nano.into() };
        assert_eq!(likely_heads(nano).1, HeadsFrom::Preset(VitPreset::Nano));
        assert_eq!(likely_heads(nano).0.heads, 3);
        let base = VitConfig {
            image: 224,
            patch: 16,
            dim: 768,
            depth: 12,
            heads: 1,
            classes: 1000,
            april_block: false,
            mlp: None,
        };
        assert_eq!(likely_heads(base), (VitConfig { heads: 12, ..base }, HeadsFrom::Convention));
        let odd = VitConfig { dim: 100, ..base };
        assert_eq!(likely_heads(odd), (odd, HeadsFrom::Nothing));
    }

    #[test]
    fn a_deeper_file_is_refused_by_the_name_of_its_block() {
        let deep = VitConfig { depth: 12, ..VitPreset::Pico.into() };
        let bytes = file(&of(Architecture::Vit(deep)));
        let refused = reader_of(&bytes).check_blocks(VitPreset::Pico.into()).unwrap_err().to_string();
        assert!(refused.contains("deeper model than vit_pico_patch4_16"), "{refused}");
        assert!(refused.contains("it holds blocks.2,") && refused.contains("12 blocks in all"), "{refused}");
        reader_of(&bytes).check_blocks(Architecture::Vit(deep)).unwrap();
        let bytes = file(&of(ResnetPreset::Resnet18.into()));
        let refused = reader_of(&bytes).check_blocks(ResnetPreset::Nano.into()).unwrap_err().to_string();
        assert!(refused.contains("it holds layer1.1,"), "{refused}");
    }

    #[test]
    fn tensors_that_change_what_a_network_computes_are_foreign() {
        let mut tensors = of(VitPreset::Pico.into());
        for name in ["blocks.0.ls1.gamma", "pooler.dense.weight", "norm_pre.weight"] {
            tensors.push((name.to_owned(), vec![48]));
        }
        let bytes = file(&tensors);
        let mut foreign = reader_of(&bytes).foreign(VitPreset::Pico.into());
        foreign.sort_unstable();
        assert_eq!(foreign, ["blocks.0.ls1.gamma", "norm_pre.weight"]);
    }
}
