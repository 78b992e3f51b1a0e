//! The weights that a room begins with.

use std::path::Path;

use anyhow::{Context, bail};
use unmask_core::{InitialWeights, ModelSpec, ParamLayout, Preset};
use unmask_model::weights::TensorReader;
use unmask_relay::Pretrained;
use unmask_simulation::{Start, pretrained, recognise};

/// The model of which a checkpoint is in this program.
const TRAINED: Preset = Preset::VitNanoPatch4_32;

/// How the room begins with what `--weights` says.
pub fn beginning(start: &Start) -> InitialWeights {
    match start {
        Start::Scratch => InitialWeights::Scratch,
        Start::Pretrained | Start::File(_) => InitialWeights::Pretrained,
    }
}

/// What the teacher can choose as pretrained: the file for a model of `spec`, or else the checkpoint in this program.
///
/// # Errors
/// The file cannot be read, or its tensors are not those of the model.
pub fn choice(start: &Start, spec: ModelSpec) -> anyhow::Result<Option<Pretrained>> {
    match start {
        Start::File(path) => {
            let weights = read(path, spec).with_context(|| {
                format!("--weights {} cannot begin a {}; write scratch or pretrained", path.display(), spec.preset)
            })?;
            let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Some(Pretrained { title, spec, weights: weights.into() }))
        }
        Start::Scratch | Start::Pretrained => checkpoint(),
    }
}

fn read(path: &Path, spec: ModelSpec) -> anyhow::Result<Vec<f32>> {
    let mut file = TensorReader::open(path)?;
    if let Some(found) = recognise(&file).filter(|found| *found != spec.preset.name()) {
        bail!("it looks like a {found}");
    }
    Ok(file.read_flat(&ParamLayout::vit(&spec.config()))?)
}

fn checkpoint() -> anyhow::Result<Option<Pretrained>> {
    let Some(bytes) = pretrained(TRAINED.name()) else { return Ok(None) };
    let spec = ModelSpec::new(TRAINED);
    let weights = TensorReader::from_bytes(TRAINED.name(), &bytes)?.read_flat(&ParamLayout::vit(&spec.config()))?;
    Ok(Some(Pretrained { title: "trained on CIFAR-10".to_owned(), spec, weights: weights.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_with_the_program() {
        let spec = ModelSpec::new(TRAINED);
        let chosen = choice(&Start::Pretrained, spec).unwrap().expect("assets/ holds it");
        assert_eq!((chosen.spec, chosen.weights.len()), (spec, ParamLayout::vit(&spec.config()).len()));
        assert_eq!(beginning(&Start::Pretrained), InitialWeights::Pretrained);
        assert_eq!(beginning(&Start::Scratch), InitialWeights::Scratch);
    }

    #[test]
    fn words_and_paths() {
        assert_eq!("scratch".parse(), Ok(Start::Scratch));
        assert_eq!("pretrained".parse(), Ok(Start::Pretrained));
        let file = Start::File("a/b.safetensors".into());
        assert_eq!("a/b.safetensors".parse(), Ok(file.clone()));
        assert_eq!(beginning(&file), InitialWeights::Pretrained);
        let error = choice(&file, ModelSpec::new(Preset::VitPicoPatch4_16)).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("a/b.safetensors cannot begin a vit_pico_patch4_16; write scratch or"), "{text}");
    }
}
