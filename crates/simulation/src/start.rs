//! The initial weights of a run.

use std::io::{Read, Seek};

use rust_embed::RustEmbed;
use unmask_core::{Architecture, InitialWeights, ModelState, ParamGroup};
use unmask_model::weights::{HeadReplaced, Imported, TensorReader, import_from};

use crate::{Config, ConfigError, SimulationError, StartWeights, seeds::Seeds};

/// The checkpoints included in the program. A file beside each describes its training.
#[derive(RustEmbed)]
#[folder = "../../assets"]
#[include = "*.safetensors"]
struct Checkpoints;

/// Suffix of a checkpoint's name: the data set it was trained on.
const TRAINED_ON: &str = "_cifar10.safetensors";

/// The most unused tensors that a note names.
const NAMED: usize = 6;

/// The safetensors file of `model`, trained on CIFAR-10, if the program includes one.
pub fn pretrained(model: &str) -> Option<Vec<u8>> {
    Checkpoints::get(&format!("{model}{TRAINED_ON}")).map(|file| file.data.into_owned())
}

pub(crate) fn pretrained_models() -> Vec<String> {
    Checkpoints::iter().filter_map(|name| name.strip_suffix(TRAINED_ON).map(str::to_owned)).collect()
}

/// The model that the shapes in the file belong to, if it is not `architecture`; `None` if they match no known model.
pub fn other_model<R: Read + Seek>(file: &TensorReader<R>, architecture: Architecture) -> Option<String> {
    file.shapes().ok()?.other_than(architecture)
}

/// Loads the initial weights of `architecture` for this start and seed, and remarks about them.
///
/// # Errors
/// [`SimulationError`] says why the weights do not fit.
pub fn load_start(
    start: &StartWeights,
    architecture: Architecture,
    seed: u64,
) -> Result<(ModelState, Vec<String>), SimulationError> {
    match start {
        StartWeights::Initial(InitialWeights::Scratch) => Ok((architecture.initial(seed), Vec::new())),
        StartWeights::File(path) => {
            let file = TensorReader::open(path)?;
            if let Some(found) = other_model(&file, architecture) {
                let (file, wanted) = (path.clone(), architecture.to_string());
                return Err(SimulationError::OtherModel { file, found, wanted });
            }
            import(file, architecture, seed)
        }
        StartWeights::Initial(InitialWeights::Pretrained) => {
            let model = architecture.name();
            let name = format!("{model}{TRAINED_ON}");
            let Some(bytes) = pretrained(&model) else {
                let available = pretrained_models().join(", ");
                return Err(ConfigError::NotPretrained { model: model.into_owned(), available }.into());
            };
            import(TensorReader::from_bytes(&name, &bytes)?, architecture, seed)
        }
    }
}

/// Checks that the initial weights of `config` exist and fit its model.
///
/// # Errors
/// [`SimulationError`] says why the weights do not fit.
pub fn check_start(config: &Config) -> Result<(), SimulationError> {
    // The number of classes does not matter: a head with another number is replaced.
    let architecture = config.architecture(10)?;
    load(config, architecture).map(drop)
}

pub(crate) fn load(config: &Config, architecture: Architecture) -> Result<(ModelState, Vec<String>), SimulationError> {
    let (mut state, notes) = load_start(&config.start, architecture, config.seed)?;
    if config.fresh_head {
        let fresh = architecture.initial(Seeds(config.seed).number("head")).weights;
        for range in architecture.layout().group_ranges(ParamGroup::Head) {
            state.weights[range.clone()].copy_from_slice(&fresh[range]);
        }
    }
    Ok((state, notes))
}

fn import<R: Read + Seek>(
    reader: TensorReader<R>,
    architecture: Architecture,
    seed: u64,
) -> Result<(ModelState, Vec<String>), SimulationError> {
    let Imported { state, head_replaced, surplus } = import_from(reader, architecture, seed)?;
    let mut notes = Vec::new();
    if let Some(HeadReplaced { found, fresh }) = head_replaced {
        notes.push(format!("the file's head is for {found} classes; a new one for {fresh} replaces it"));
    }
    if !surplus.is_empty() {
        let (named, more) = surplus.split_at(surplus.len().min(NAMED));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        notes.push(format!("tensors in the file that {architecture} does not use: {}{more}", named.join(", ")));
    }
    Ok((state, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The new head also differs from the one that the checkpoint's training started with: the learnt features would
    /// suit that one.
    #[test]
    fn a_fresh_head_is_drawn_and_the_rest_is_kept() {
        let config = Config { start: "pretrained".parse().unwrap(), seed: 1, ..Config::default() };
        let architecture = config.architecture(10).unwrap();
        let (kept, _) = load(&config, architecture).unwrap();
        let (fresh, _) = load(&Config { fresh_head: true, ..config }, architecture).unwrap();
        let first = architecture.initial(1).weights;
        for param in &architecture.layout() {
            let [fresh, kept, first] =
                [&fresh.weights, &kept.weights, &first].map(|weights| &weights[param.range.clone()]);
            // The bias of a new head is zero.
            let is_drawn = param.name == "head.weight";
            assert_eq!(fresh != kept, param.group == ParamGroup::Head, "{}", param.name);
            assert!(!is_drawn || fresh != first);
        }
    }
}
