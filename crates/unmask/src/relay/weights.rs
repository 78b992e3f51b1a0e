//! The weights that a room begins with.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use anyhow::Context;
use rust_embed::RustEmbed;
use unmask_model::weights::{TensorReader, load_flat};
use unmask_params::{ModelSpec, ParamLayout, Preset};
use unmask_relay::{Beginning, Pretrained};

/// The checkpoint in this program: `vit_nano_patch4_32`, trained here on CIFAR-10.
const CHECKPOINT: &str = "vit_nano_patch4_32_cifar10.safetensors";

/// The checkpoints that come with the program; how they were made stands beside them.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "*.safetensors"]
struct Checkpoints;

/// What `--weights` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// Drawn at random.
    Scratch,
    /// The checkpoint in this program.
    Pretrained,
    /// A safetensors file.
    File(PathBuf),
}

impl FromStr for Weights {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "scratch" => Self::Scratch,
            "pretrained" => Self::Pretrained,
            path => Self::File(path.into()),
        })
    }
}

impl Weights {
    /// How the room begins with them.
    pub fn beginning(&self) -> Beginning {
        match self {
            Self::Scratch => Beginning::Scratch,
            Self::Pretrained | Self::File(_) => Beginning::Pretrained,
        }
    }

    /// What the teacher can choose as pretrained: the file for a model of `spec`, or else the checkpoint in this program.
    ///
    /// # Errors
    /// The file cannot be read, or its tensors are not those of the model.
    pub fn read(&self, spec: ModelSpec) -> anyhow::Result<Option<Pretrained>> {
        match self {
            Self::File(path) => {
                let weights = load_flat(path, &ParamLayout::vit(&spec.config())).with_context(|| {
                    format!("--weights {} cannot begin a {}; write scratch or pretrained", path.display(), spec.preset)
                })?;
                let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Some(Pretrained { title, spec, weights: weights.into() }))
            }
            Self::Scratch | Self::Pretrained => checkpoint(),
        }
    }
}

fn checkpoint() -> anyhow::Result<Option<Pretrained>> {
    let Some(file) = Checkpoints::get(CHECKPOINT) else { return Ok(None) };
    let spec = ModelSpec::new(Preset::VitNanoPatch4_32);
    let weights = TensorReader::from_bytes(CHECKPOINT, &file.data)?.read_flat(&ParamLayout::vit(&spec.config()))?;
    Ok(Some(Pretrained { title: "trained on CIFAR-10".to_owned(), spec, weights: weights.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_paths() {
        assert_eq!("scratch".parse(), Ok(Weights::Scratch));
        assert_eq!("pretrained".parse(), Ok(Weights::Pretrained));
        let file = Weights::File("a/b.safetensors".into());
        assert_eq!("a/b.safetensors".parse(), Ok(file.clone()));
        assert_eq!(file.beginning(), Beginning::Pretrained);
        let error = file.read(ModelSpec::new(Preset::VitPicoPatch4_16)).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("a/b.safetensors cannot begin a vit_pico_patch4_16; write scratch or"), "{text}");
    }
}
