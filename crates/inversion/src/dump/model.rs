//! The model that dumped files are of.

use unmask_attack::Needs;
use unmask_core::{Architecture, VitConfig};
use unmask_tensors::{HeadsFrom, Shapes, TensorBytes, TensorFile, TensorReader, Variant, likely_heads};

use super::{DumpError, PixelSpace};

/// What is said of a model besides its files.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Asked {
    /// Its name or numbers; told by the files' shapes if absent. The number of classes is the files' in any case.
    pub model: Option<Architecture>,
    /// Attention heads, which no shape tells.
    pub heads: Option<usize>,
    /// Side of the images in pixels, which a convolutional network's shapes do not tell.
    pub side: Option<usize>,
    /// Whether block 0 is the norm-free one that APRIL needs.
    pub april_block: bool,
    pub pixels: PixelSpace,
}

/// The model that dumped files are of, and what it was fed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DumpedModel {
    pub architecture: Architecture,
    pub pixels: PixelSpace,
    variant: Option<Variant>,
    has_heads: bool,
}

/// A model of ours, fed as ours are.
impl From<Architecture> for DumpedModel {
    fn from(architecture: Architecture) -> Self {
        Self { architecture, pixels: PixelSpace::default(), variant: None, has_heads: true }
    }
}

/// A model, and how it was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub model: DumpedModel,
    /// What to know about it, in sentences.
    pub notes: Vec<String>,
}

impl DumpedModel {
    /// The model of `files`, by what is asked for and by the shapes of their tensors.
    ///
    /// # Errors
    /// [`DumpError`]: a file cannot be read, or shapes tell no network, or not the one asked for.
    pub fn tell(asked: &Asked, files: &[TensorFile]) -> Result<Told, DumpError> {
        let readers = files.iter().map(TensorFile::open).collect::<Result<Vec<_>, _>>()?;
        let (mut model, mut notes) = match asked.model {
            Some(architecture) => {
                let variant = readers.iter().find_map(|reader| match reader.shapes() {
                    Ok(Shapes::Vit { variant, .. }) => variant,
                    _ => None,
                });
                (Self { variant, pixels: asked.pixels, ..architecture.into() }, Vec::new())
            }
            None => Self::by_shapes(asked, &readers)?,
        };
        if let Some(asked) = asked.side {
            match &mut model.architecture {
                Architecture::Resnet(spec) => spec.side = asked,
                Architecture::Lenet(config) => config.side = asked,
                Architecture::Vit(_) => {}
            }
        }
        let architecture = &mut model.architecture;
        *architecture = match (*architecture, asked.heads) {
            (Architecture::Vit(config), Some(heads)) => {
                model.has_heads = true;
                Architecture::Vit(VitConfig { heads, ..config })
            }
            (Architecture::Resnet(_) | Architecture::Lenet(_), Some(_)) => {
                return Err(DumpError::NoHeads { architecture: *architecture });
            }
            (_, None) => *architecture,
        };
        *architecture = architecture.with_asked_april_block(asked.april_block)?;
        let features = match *architecture {
            Architecture::Vit(config) => config.dim,
            Architecture::Resnet(spec) => spec.config.features(),
            Architecture::Lenet(config) => config.features(),
        };
        if let Some(classes) = readers.iter().find_map(|reader| reader.classes(features)) {
            *architecture = architecture.with_classes(classes);
        }
        let sized = match *architecture {
            // Files without a block tell no depth, which is 0 then.
            Architecture::Vit(config) if config.depth == 0 => Architecture::Vit(VitConfig { depth: 1, ..config }),
            other => other,
        };
        let wrong = |reason| DumpError::Numbers { architecture: sized, reason };
        sized.check().map_err(wrong)?;
        if let Some(side) = asked.side.filter(|&side| side != architecture.side()) {
            return Err(DumpError::Side { architecture: *architecture, side });
        }
        for reader in &readers {
            reader.check_blocks(*architecture)?;
        }
        if asked.model.is_none() {
            let classes = match architecture.classes() {
                0 => "no head".to_owned(),
                classes => format!("{classes} classes"),
            };
            notes.insert(0, format!("By the shapes of its tensors the model is {architecture}, with {classes}."));
        }
        if let Some(variant) = model.variant {
            notes.push(format!("It is {}.", variant.words()));
        }
        Ok(Told { model, notes })
    }

    /// By the first file whose shapes tell a network, with the most blocks that any file has.
    fn by_shapes(asked: &Asked, readers: &[TensorReader<TensorBytes>]) -> Result<(Self, Vec<String>), DumpError> {
        let mut shapes = readers.iter().map(TensorReader::shapes);
        let first = shapes.next().ok_or(DumpError::NoUpdate)?;
        // Why the first tells nothing is said where no other tells either.
        let shapes = first.or_else(|refused| shapes.find_map(Result::ok).ok_or(refused))?;
        let mut notes = Vec::new();
        let mut model: Self = match shapes {
            Shapes::Resnet(spec) => of_any_side(asked, Architecture::Resnet(spec), &mut notes),
            Shapes::Lenet(config) => of_any_side(asked, Architecture::Lenet(config), &mut notes),
            Shapes::Vit { config, variant } => {
                let depth = readers.iter().map(TensorReader::depth).max().unwrap_or(0);
                // A file of a few tensors may leave norm1 out; one with the whole block tells its first.
                let april_block = readers
                    .iter()
                    .any(|reader| matches!(reader.shapes(), Ok(Shapes::Vit { config, .. }) if config.april_block));
                if depth == 0 {
                    notes.push(
                        "No file holds a block, and 0 stands for their number: this attack reads none.".to_owned(),
                    );
                }
                let (config, heads) = likely_heads(VitConfig { depth, april_block, ..config });
                match heads {
                    _ if asked.heads.is_some() => {}
                    HeadsFrom::Convention => notes.push(format!(
                        "No shape tells the heads: {}, by timm's convention of 64 dimensions each; --heads says otherwise.",
                        config.heads
                    )),
                    HeadsFrom::Preset(preset) => notes.push(format!(
                        "No shape tells the heads: {}, as {preset} has; --heads says otherwise.",
                        config.heads
                    )),
                    HeadsFrom::Nothing => {
                        notes.push("No shape tells the heads, and 1 stands for them: this attack does not ask.".to_owned());
                    }
                }
                let has_heads = heads != HeadsFrom::Nothing;
                Self { variant, has_heads, ..Architecture::Vit(config).into() }
            }
        };
        model.pixels = asked.pixels;
        Ok((model, notes))
    }

    /// Whether the attack `name` with these `needs` fits the model; `runs` says whether it computes the model's gradients.
    ///
    /// # Errors
    /// [`DumpError`] names the variant that the attack does not fit, or what no shape tells and it needs.
    pub fn check_fits(&self, name: &str, needs: &Needs, runs: bool) -> Result<(), DumpError> {
        let reads_blocks = || {
            [&needs.gradients, &needs.weights].iter().any(|read| read.all().iter().any(|name| name.contains("blocks.")))
        };
        match (self.variant, self.architecture) {
            (Some(variant), _) if runs || needs.key.is_some() || reads_blocks() => {
                Err(DumpError::Variant { attack: name.to_owned(), variant: variant.words() })
            }
            (_, Architecture::Vit(config)) if runs && config.depth == 0 => {
                Err(DumpError::NoBlocks { attack: name.to_owned() })
            }
            (_, Architecture::Vit(config)) if runs && !self.has_heads => {
                Err(DumpError::Heads { attack: name.to_owned(), dim: config.dim })
            }
            _ => Ok(()),
        }
    }
}
/// A convolutional network, of which shapes leave the side of the images open.
fn of_any_side(asked: &Asked, architecture: Architecture, notes: &mut Vec<String>) -> DumpedModel {
    if asked.side.is_none() {
        let side = architecture.side();
        notes.push(format!("Its images are taken for {side} x {side} pixels; --side says otherwise."));
    }
    architecture.into()
}
