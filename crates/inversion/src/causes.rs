//! Why a picture that the embeddings' equations allow does not explain an update: tried where the model can be run, and
//! otherwise read off what is zero.

use unmask_attack::{AttackError, Misfit, Observation, Searches, Tensors};
use unmask_core::{Activation, Knowledge};

const POSITION: &str = "pos_embed";
const HEAD_BIAS: &str = "head.bias";
/// Shares of zeros that dropout or a ReLU leave. Fewer are chance, and more are a frozen or unused layer.
const SOME: std::ops::Range<f64> = 0.02..0.9;

/// The misfit of `picture` under another loss or activation than those assumed, with its name as a clause, if one of them
/// explains the update. The loss is none in particular: the gradient of the head's bias is dl/d(logits) of one picture,
/// whatever the loss.
pub(crate) fn explained_by(
    observation: &Observation,
    models: &dyn Searches,
    picture: &[f32],
) -> Option<(Misfit, String)> {
    let whole = observation.whole.as_deref().filter(|whole| whole.kept.is_none() && observation.batch == 1)?;
    let head = whole.architecture.layout().get(HEAD_BIAS)?.range.clone();
    let slope = whole.gradient.get(head)?;
    let tried = Activation::ALL.into_iter().filter_map(|activation| {
        let own: Result<Vec<f64>, AttackError> = models.gradient_along(whole, slope, activation, picture);
        Some((Misfit::of(&own.ok()?, whole, Knowledge::Aware).ok()?, activation))
    });
    // QuickGELU is so close to GELU that both may explain an update; the right one explains it better.
    let (misfit, activation) = tried.min_by(|(one, _), (other, _)| one.relative.total_cmp(&other.relative))?;
    let name = match activation {
        Activation::Gelu => "if the loss is another one than cross entropy with this label".to_owned(),
        other => format!("if the activation of the MLPs is {} instead of GELU", other.name()),
    };
    (misfit.relative <= Misfit::EXPLAINED).then_some((misfit, name))
}

/// What exact zeros in a whole gradient say of the training, as a clause; `None` if nothing.
pub(crate) fn traces(gradients: &Tensors) -> Option<String> {
    let config = gradients.vit().ok()?;
    let zeros = |name: &str, skip: usize| {
        let values = gradients.values(name)?.get(skip..)?;
        let count = values.iter().filter(|value| **value == 0.0).count();
        Some(count as f64 / values.len().max(1) as f64)
    };
    let of_block = |block: usize, name: &str| zeros(&format!("blocks.{block}.{name}"), 0);
    let empty = |block: &usize| {
        ["attn.proj.bias", "mlp.fc1.bias", "mlp.fc2.bias"].iter().any(|name| of_block(*block, name) == Some(1.0))
    };
    if let Some(block) = (0..config.depth).find(empty) {
        return Some(format!(
            "gradients of block {block} are all zero, as stochastic depth or frozen layers leave them"
        ));
    }
    let last = config.depth.checked_sub(1)?;
    // Only class tokens reach the last block's MLP, so that what is dropped of one picture stays zero.
    let tensors = [
        (POSITION.to_owned(), config.dim, "dropout behind the embeddings leaves"),
        (format!("blocks.{last}.mlp.fc2.bias"), 0, "dropout leaves"),
        (format!("blocks.{last}.attn.proj.bias"), 0, "dropout leaves"),
        (format!("blocks.{last}.mlp.fc1.bias"), 0, "dropout or a ReLU leaves"),
    ];
    tensors.into_iter().find_map(|(name, skip, cause)| {
        let share = zeros(&name, skip).filter(|share| SOME.contains(share))?;
        Some(format!("{:.0} % of the gradient of {name} are exactly zero, as {cause} it", 100.0 * share))
    })
}

#[cfg(test)]
mod tests {
    use unmask_attack::{Rounding, TensorSource};
    use unmask_core::{Architecture, VitPreset};

    use super::*;

    fn update(zero: impl Fn(&str, usize) -> bool) -> Tensors {
        let architecture = Architecture::from(VitPreset::Pico);
        let mut tensors = Tensors::new(TensorSource::Gradients, architecture, Rounding::F32);
        for param in architecture.layout().iter() {
            let values = (0..param.range.len()).map(|i| if zero(&param.name, i) { 0.0 } else { 0.1 }).collect();
            tensors.insert(&param.name, &param.shape, values).unwrap();
        }
        tensors
    }

    #[test]
    fn zeros_tell_how_a_model_was_trained() {
        let of = |zero: &dyn Fn(&str, usize) -> bool| traces(&update(zero));
        assert_eq!(of(&|_, _| false), None);
        let dropped = of(&|name, i| name == "blocks.1.mlp.fc2.bias" && i % 10 == 0).unwrap();
        assert!(dropped.contains("10 % of the gradient of blocks.1.mlp.fc2.bias"), "{dropped}");
        let relu = of(&|name, i| name == "blocks.1.mlp.fc1.bias" && i % 2 == 0).unwrap();
        assert!(relu.contains("dropout or a ReLU"), "{relu}");
        let embedded = of(&|name, i| name == "pos_embed" && i % 8 == 0).unwrap();
        assert!(embedded.contains("behind the embeddings"), "{embedded}");
        let depth = of(&|name, _| name.starts_with("blocks.0.")).unwrap();
        assert!(depth.contains("gradients of block 0 are all zero"), "{depth}");
        assert_eq!(of(&|name, i| name == "pos_embed" && i < 48), None, "a class token without a gradient");
    }
}
