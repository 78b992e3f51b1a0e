//! Network descriptions in TOML files.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Table;
use unmask_core::{
    Architecture, BlockKind, LenetConfig, ResnetConfig, ResnetSpec, SizeError, Stem, UnknownArchitecture, VitConfig,
};

/// Example of a model file, for error messages.
const EXAMPLE: &str = "image = 64, patch = 8, dim = 128, depth = 6 and heads = 2, each on its line";

#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    #[error(transparent)]
    Name(#[from] UnknownArchitecture),
    #[error("the model file {} cannot be read: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the model file {}: {reason}; a ViT is written as {EXAMPLE}", .path.display())]
    Syntax { path: PathBuf, reason: String },
    #[error("the model file {}: there is no block \"{block}\"; write basic or bottleneck", .path.display())]
    Block { path: PathBuf, block: String },
    #[error("the model file {}: no stem has filters of {stem} x {stem}; write 3 or 7", .path.display())]
    Stem { path: PathBuf, stem: usize },
    #[error("the model file {}: {given} stages; give 1 to {}", .path.display(), ResnetConfig::STAGES)]
    Stages { path: PathBuf, given: usize },
    #[error("the model file {}: {reason}", .path.display())]
    Size { path: PathBuf, reason: SizeError },
}

/// A ViT, with the field names of [`VitConfig`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vit {
    image: usize,
    patch: usize,
    dim: usize,
    depth: usize,
    heads: usize,
    #[serde(default = "ten")]
    classes: usize,
    #[serde(default)]
    april_block: bool,
    mlp: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resnet {
    image: usize,
    /// Side of the stem's filters.
    stem: usize,
    block: String,
    /// Channels and number of blocks of each stage.
    stages: Vec<(u16, u16)>,
    #[serde(default = "ten")]
    classes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lenet {
    image: usize,
    /// Channels after each convolution.
    width: usize,
    #[serde(default = "ten")]
    classes: usize,
}

fn ten() -> usize {
    10
}

pub fn is_model_file(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|extension| extension == "toml")
}

/// Reads the description of a network. A ViT has `image`, `patch`, `dim`, `depth` and `heads`; a ResNet has `image`,
/// `stem`, `block` and `stages`; a LeNet has `image` and `width`. All have `classes`, 10 if absent.
///
/// # Errors
/// [`ModelFileError`] names the file and the invalid number.
pub fn read_model_file(path: &Path) -> Result<Architecture, ModelFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| ModelFileError::Io { path: path.to_owned(), source })?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Architecture, ModelFileError> {
    let path = || path.to_owned();
    let syntax = |error: toml::de::Error| ModelFileError::Syntax { path: path(), reason: error.message().to_owned() };
    let table: Table = text.parse().map_err(syntax)?;
    let architecture = if table.contains_key("stages") {
        let Resnet { image, stem, block, stages, classes } = Resnet::deserialize(table).map_err(syntax)?;
        let known = BlockKind::ALL.into_iter().find(|kind| kind.name() == block);
        let block = known.ok_or_else(|| ModelFileError::Block { path: path(), block })?;
        let stem = Stem::of_kernel(stem).ok_or_else(|| ModelFileError::Stem { path: path(), stem })?;
        let given = stages.len();
        let mut places = [ResnetConfig::NO_STAGE; ResnetConfig::STAGES];
        let first = places.get_mut(..given).filter(|places| !places.is_empty());
        first.ok_or_else(|| ModelFileError::Stages { path: path(), given })?.copy_from_slice(&stages);
        Architecture::Resnet(ResnetSpec { config: ResnetConfig { stem, block, stages: places }, classes, side: image })
    } else if table.contains_key("width") && !table.contains_key("patch") {
        let Lenet { image, width, classes } = Lenet::deserialize(table).map_err(syntax)?;
        Architecture::Lenet(LenetConfig { width, side: image, classes })
    } else {
        let Vit { image, patch, dim, depth, heads, classes, april_block, mlp } =
            Vit::deserialize(table).map_err(syntax)?;
        let mlp = mlp.filter(|mlp| Some(usize::from(*mlp)) != dim.checked_mul(4));
        Architecture::Vit(VitConfig { image, patch, dim, depth, heads, classes, april_block, mlp })
    };
    architecture.check().map_err(|reason| ModelFileError::Size { path: path(), reason })?;
    // Parsing the name also limits the number of parameters. Rooms and checkpoints store the name.
    Ok(Architecture::named(&architecture.name(), architecture.classes())?.with_april_block(architecture.april_block()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIT: &str = "image = 64\npatch = 8\ndim = 128\ndepth = 6\nheads = 2\n";

    fn read(text: &str) -> Result<Architecture, String> {
        parse(Path::new("mine.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_a_network() {
        let vit = read(VIT).unwrap();
        assert_eq!((vit.name().as_ref(), vit.classes()), ("vit_patch8_dim128_depth6_heads2_64", 10));
        let vit = read(&format!("{VIT}classes = 1000\napril_block = true")).unwrap();
        assert_eq!((vit.classes(), vit.april_block()), (1000, true));
        let resnet =
            read("image = 64\nstem = 7\nblock = \"basic\"\nstages = [[64, 2], [128, 2], [256, 2], [512, 2]]").unwrap();
        assert_eq!(resnet.name(), "resnet_basic_64x2_128x2_256x2_512x2_stem7_64");
        let nano = "image = 32\npatch = 4\ndim = 96\ndepth = 4\nheads = 3";
        assert_eq!(read(nano).unwrap().name(), "vit_nano_patch4_32");
        let lenet = read("image = 16\nwidth = 12\nclasses = 5").unwrap();
        assert_eq!((lenet.name().as_ref(), lenet.classes()), ("lenet_width12_16", 5));
    }

    #[test]
    fn what_is_no_network_is_refused_with_the_file_and_the_number() {
        let resnet = "image = 32\nclasses = 10\n";
        for (text, reason) in [
            ("image = 64\npatch = 8\ndim = 128\ndepth = 6".to_owned(), "missing field `heads`"),
            (format!("{VIT}depths = 3"), "unknown field `depths`"),
            (format!("{VIT}width = 3"), "unknown field `width`"),
            ("image = 32\nwidth = 0".to_owned(), "width is 0; give 1 to 2048"),
            (VIT.replace("heads = 2", "heads = 3"), "choose a number of heads that divides 128"),
            (VIT.replace("64", "999999"), "image is 999999; give 1 to 1024"),
            (VIT.replace("dim = 128", "dim = 8192").replace("depth = 6", "depth = 128"), "the most is 268435456"),
            (format!("{resnet}stem = 5\nblock = \"basic\"\nstages = [[16, 1]]"), "no stem has filters of 5 x 5"),
            (format!("{resnet}stem = 3\nblock = \"wide\"\nstages = [[16, 1]]"), "there is no block \"wide\""),
            (format!("{resnet}stem = 3\nblock = \"basic\"\nstages = []"), "0 stages; give 1 to 4"),
            (format!("{resnet}stem = 3\nblock = \"basic\"\nstages = [[1,1],[1,1],[1,1],[1,1],[1,1]]"), "5 stages"),
            (format!("{resnet}stem = 3\nblock = \"basic\"\nstages = [[16, 0]]"), "blocks of a stage is 0"),
            ("image = ".to_owned(), "mine.toml"),
        ] {
            let refused = read(&text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        let missing = read_model_file(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(missing.contains("no/such.toml cannot be read"), "{missing}");
        assert!(is_model_file("a/b.toml") && !is_model_file("vit_nano_patch4_32"));
    }
}
