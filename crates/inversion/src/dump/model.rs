//! The model behind dumped files.

use unmask_attack::Needs;
use unmask_core::{Architecture, VitConfig};
use unmask_tensors::{HeadsFrom, Shapes, TensorBytes, TensorFile, TensorReader, Variant, likely_heads};

use super::{DumpError, PixelSpace};
use crate::grid::rearranged;

/// What the user says about the model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Asked {
    /// Its name or dimensions; derived from tensor shapes if absent. The number of classes always comes from the files.
    pub model: Option<Architecture>,
    /// Attention heads, which shapes do not show.
    pub heads: Option<usize>,
    /// Side of the images in pixels, which a convolutional network's shapes do not show.
    pub side: Option<usize>,
    /// Width and height of the images in pixels; a square if absent.
    pub size: Option<(usize, usize)>,
    /// Whether block 0 is the norm-free one that APRIL needs.
    pub april_block: bool,
    pub pixels: PixelSpace,
}

/// The model behind dumped files, and its pixel space.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DumpedModel {
    pub architecture: Architecture,
    pub pixels: PixelSpace,
    /// Width and height of the images in pixels.
    pub size: (usize, usize),
    /// Whether the user gave the size.
    pub(crate) has_size: bool,
    variant: Option<Variant>,
    /// Whether the number of heads is a guess.
    pub(crate) guesses_heads: bool,
    has_heads: bool,
}

/// A model with this project's own pixel normalisation.
impl From<Architecture> for DumpedModel {
    fn from(architecture: Architecture) -> Self {
        let side = architecture.side();
        Self {
            architecture,
            pixels: PixelSpace::default(),
            size: (side, side),
            has_size: false,
            variant: None,
            guesses_heads: false,
            has_heads: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub model: DumpedModel,
    /// Remarks about the model, as sentences.
    pub notes: Vec<String>,
}

impl DumpedModel {
    /// How it differs from a standard ViT, in words, if it does.
    pub fn variant(&self) -> Option<&'static str> {
        self.variant.map(Variant::words)
    }

    /// Identifies the model of `files` from what the user says and from tensor shapes.
    ///
    /// # Errors
    /// [`DumpError`]: a file cannot be read, or the shapes do not identify a network, or contradict the requested one.
    pub fn tell(asked: &Asked, files: &[TensorFile]) -> Result<Told, DumpError> {
        let mut readers = files.iter().map(TensorFile::open).collect::<Result<Vec<_>, _>>()?;
        // Every reader, not only those up to the first grey one.
        let is_grey = readers.iter_mut().filter_map(|reader| reader.spread_grey().then_some(())).count() > 0;
        let said = files
            .iter()
            .zip(&readers)
            .flat_map(|(file, reader)| reader.notes().iter().map(move |note| format!("{file}: {note}")));
        let said: Vec<String> = said.collect();
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
                (model.has_heads, model.guesses_heads) = (true, false);
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
            // Files without a block have depth 0.
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
        let side = architecture.side();
        model.size = (side, side);
        if let (Some((width, height)), Architecture::Vit(config)) = (asked.size, *architecture) {
            let (patch, patches) = (config.patch, config.patches());
            let is_whole = width.is_multiple_of(patch) && height.is_multiple_of(patch);
            if !is_whole || width.checked_mul(height) != Some(side * side) {
                return Err(DumpError::Size { width, height, patches, patch, pixels: side * side });
            }
            (model.size, model.has_size) = ((width, height), true);
        }
        let architecture = &model.architecture;
        if asked.model.is_none() {
            let classes = match architecture.classes() {
                0 => "no head".to_owned(),
                classes => format!("{classes} classes"),
            };
            notes.insert(0, format!("The tensor shapes show the model {architecture}, with {classes}."));
        }
        notes.splice(0..0, said);
        if is_grey {
            notes.push(
                "The first layer takes one channel: it is read as three equal ones, and pictures are grey.".to_owned(),
            );
        }
        if let Some(variant) = model.variant {
            notes.push(format!("It is {}.", variant.words()));
        }
        Ok(Told { model, notes })
    }

    /// Arranges a square picture of the attacks, `[side, side, 3]`, in the size of the images, `[height, width, 3]`.
    pub fn arranged(&self, picture: &[f32]) -> Vec<f32> {
        self.rearranged(picture, self.architecture.side(), self.size.0)
    }

    /// Arranges a picture in the size of the images as the attacks see it, the other way around.
    pub fn squared(&self, picture: &[f32]) -> Vec<f32> {
        self.rearranged(picture, self.size.0, self.architecture.side())
    }

    fn rearranged(&self, picture: &[f32], from: usize, to: usize) -> Vec<f32> {
        match self.architecture.vit() {
            Some(config) if from != to => rearranged(picture, config.patch, from / config.patch, to / config.patch),
            _ => picture.to_vec(),
        }
    }

    /// Uses the first file whose shapes identify a network, with the largest number of blocks in any file.
    fn by_shapes(asked: &Asked, readers: &[TensorReader<TensorBytes>]) -> Result<(Self, Vec<String>), DumpError> {
        let mut shapes = readers.iter().map(TensorReader::shapes);
        let first = shapes.next().ok_or(DumpError::NoUpdate)?;
        // If no file identifies a network, report the reason of the first.
        let shapes = first.or_else(|refused| shapes.find_map(Result::ok).ok_or(refused))?;
        let mut notes = Vec::new();
        let mut model: Self = match shapes {
            Shapes::Resnet(spec) => of_any_side(asked, Architecture::Resnet(spec), &mut notes),
            Shapes::Lenet(config) => of_any_side(asked, Architecture::Lenet(config), &mut notes),
            Shapes::Vit { config, variant } => {
                let depth = readers.iter().map(TensorReader::depth).max().unwrap_or(0);
                // A file with few tensors may lack norm1. A file with the whole block decides.
                let april_block = readers
                    .iter()
                    .any(|reader| matches!(reader.shapes(), Ok(Shapes::Vit { config, .. }) if config.april_block));
                if depth == 0 {
                    notes.push("No file holds a block, so the name says 0 blocks; this attack reads none.".to_owned());
                }
                let (config, heads) = likely_heads(VitConfig { depth, april_block, ..config });
                match heads {
                    _ if asked.heads.is_some() => {}
                    HeadsFrom::Convention => notes.push(format!(
                        "Tensor shapes do not show the number of heads: {}, by timm's convention of 64 dimensions each; --heads overrides it.",
                        config.heads
                    )),
                    HeadsFrom::Preset(preset) => notes.push(format!(
                        "Tensor shapes do not show the number of heads: {}, as in {preset}; --heads overrides it.",
                        config.heads
                    )),
                    HeadsFrom::Nothing => {
                        notes.push("Tensor shapes do not show the heads, so the name says 1; this attack needs none.".to_owned());
                    }
                }
                let has_heads = heads != HeadsFrom::Nothing;
                Self { variant, has_heads, guesses_heads: true, ..Architecture::Vit(config).into() }
            }
        };
        model.pixels = asked.pixels;
        Ok((model, notes))
    }

    /// Checks that the attack `name` with these `needs` fits the model. `runs` says whether it computes the model's
    /// gradients.
    ///
    /// # Errors
    /// [`DumpError`] names the variant that the attack does not support, or required information that no shape shows.
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
/// A convolutional network. Its shapes do not show the side of the images.
fn of_any_side(asked: &Asked, architecture: Architecture, notes: &mut Vec<String>) -> DumpedModel {
    if asked.side.is_none() {
        let side = architecture.side();
        notes.push(format!("Its images are assumed to be {side} x {side} pixels; --side overrides this."));
    }
    architecture.into()
}
