//! What the relay asks for, read and checked.

use std::sync::Arc;

use unmask_defence::{Cipher, Defence};
use unmask_params::{ModelSpec, ParamLayout, Rule};

/// A round's task.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The round.
    pub round: u32,
    /// Number of the policy the update must be made under.
    pub policy: u32,
    /// The model.
    pub spec: ModelSpec,
    /// The layout of its parameters.
    pub layout: ParamLayout,
    /// The defence to use.
    pub defence: Defence,
    /// What to compute: one gradient, or local epochs.
    pub rule: Rule,
    /// Samples per step.
    pub batch: usize,
    /// Global weights w in the plain, `[P]`.
    pub weights: Vec<f32>,
    /// The room's cipher, if the relay holds the weights encrypted.
    pub cipher: Option<Arc<Cipher>>,
}

/// The task of encrypting the room's model, once, before its first encrypted round.
#[derive(Debug, Clone)]
pub struct SealTask {
    /// Number of the policy it is for.
    pub policy: u32,
    /// The model.
    pub spec: ModelSpec,
    /// The layout of its parameters.
    pub layout: ParamLayout,
    /// The relay's plain weights, `[P]`; none under a keyed start, where this client draws fresh ones that the relay
    /// never sees.
    pub weights: Option<Vec<f32>>,
    /// The cipher to use.
    pub cipher: Arc<Cipher>,
}

impl Plan {
    /// A plan whose weights are in the plain, or yet to be decrypted.
    ///
    /// # Errors
    /// In words for people, if the weights are of another model.
    pub(crate) fn new(
        [round, policy]: [u32; 2],
        spec: ModelSpec,
        (defence, rule, batch): (Defence, Rule, usize),
        weights: Vec<f32>,
    ) -> Result<Self, String> {
        let layout = ParamLayout::vit(&spec.config());
        check_len(spec, &layout, &weights)?;
        Ok(Self { round, policy, spec, layout, defence, rule, batch, weights, cipher: None })
    }
}

/// A model as the relay describes it.
///
/// # Errors
/// In words for people, if there is no such model.
pub(crate) fn model(name: &str, april_block: bool, classes: u16) -> Result<ModelSpec, String> {
    let preset = name.parse().map_err(outdated)?;
    if classes == 0 {
        return Err(format!("{name} with 0 classes is no model"));
    }
    Ok(ModelSpec { preset, april_block, classes: classes.into() })
}

/// How a round is to be run: the words of a plan.
///
/// # Errors
/// In words for people, if this client does not know such a defence or rule, or there is nothing to train on.
pub(crate) fn settings(defence: &str, rule: &str, batch: u16) -> Result<(Defence, Rule, usize), String> {
    if batch == 0 {
        return Err("the plan asks for a batch of 0 samples".to_owned());
    }
    Ok((defence.parse().map_err(outdated)?, rule.parse().map_err(outdated)?, batch.into()))
}

/// # Errors
/// In words for people, if `weights` are of another model than `spec`.
pub(crate) fn check_len(spec: ModelSpec, layout: &ParamLayout, weights: &[f32]) -> Result<(), String> {
    if weights.len() == layout.len() {
        Ok(())
    } else {
        Err(format!("the relay sent {} weights, {} has {}", weights.len(), spec.preset, layout.len()))
    }
}

/// A relay that names what this client does not know is of another release.
fn outdated(error: impl std::error::Error) -> String {
    format!("{error}; reload the page or update this client")
}
