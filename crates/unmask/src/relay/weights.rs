//! The initial weights of a room.

use std::path::Path;

use anyhow::{Context, bail};
use unmask_core::{Architecture, InitialWeights, ModelState, VitPreset};
use unmask_model::weights::{TensorReader, read_state};
use unmask_relay::Pretrained;
use unmask_simulation::{StartWeights, other_model, pretrained};

/// The model whose checkpoint this program contains.
const TRAINED: VitPreset = VitPreset::Nano;

/// Returns how the room starts under `--weights`.
pub fn initial_weights(start: &StartWeights) -> InitialWeights {
    match start {
        StartWeights::Initial(weights) => *weights,
        StartWeights::File(_) => InitialWeights::Pretrained,
    }
}

/// Returns what the teacher can choose as pretrained: the file for a model of `architecture`, or else this program's
/// checkpoint.
///
/// # Errors
/// The file cannot be read, or its tensors do not fit the model.
pub fn choice(start: &StartWeights, architecture: Architecture) -> anyhow::Result<Option<Pretrained>> {
    match start {
        StartWeights::File(path) => {
            let state = read(path, architecture).with_context(|| {
                format!("--weights {} cannot begin a {}; write scratch or pretrained", path.display(), architecture)
            })?;
            let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Some(Pretrained { title, architecture, state: state.into() }))
        }
        StartWeights::Initial(_) => checkpoint(),
    }
}

fn read(path: &Path, architecture: Architecture) -> anyhow::Result<ModelState> {
    let file = TensorReader::open(path)?;
    if let Some(found) = other_model(&file, architecture) {
        bail!("it looks like a {found}");
    }
    Ok(read_state(file, architecture)?)
}

fn checkpoint() -> anyhow::Result<Option<Pretrained>> {
    let Some(bytes) = pretrained(TRAINED.name()) else { return Ok(None) };
    let architecture = Architecture::from(TRAINED);
    let state = read_state(TensorReader::from_bytes(TRAINED.name(), &bytes)?, architecture)?;
    Ok(Some(Pretrained { title: "trained on CIFAR-10".to_owned(), architecture, state: state.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_with_the_program() {
        let architecture = Architecture::from(TRAINED);
        let chosen = choice(&StartWeights::Initial(InitialWeights::Pretrained), architecture)
            .unwrap()
            .expect("assets/ holds it");
        assert_eq!((chosen.architecture, chosen.state.weights.len()), (architecture, architecture.layout().len()));
    }

    #[test]
    fn words_and_paths() {
        for weights in InitialWeights::ALL {
            let start: StartWeights = weights.name().parse().unwrap();
            assert_eq!((initial_weights(&start), start), (weights, StartWeights::Initial(weights)));
        }
        let file = StartWeights::File("a/b.safetensors".into());
        assert_eq!("a/b.safetensors".parse(), Ok(file.clone()));
        assert_eq!(initial_weights(&file), InitialWeights::Pretrained);
        let error = choice(&file, Architecture::from(VitPreset::Pico)).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("a/b.safetensors cannot begin a vit_pico_patch4_16; write scratch or"), "{text}");
    }
}
