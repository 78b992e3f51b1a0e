//! What the attacks read of an update, and nothing more of it.

use std::ops::Range;

use unmask_attack::{AttackKind, Evidence, Precision, Source, Tensors};
use unmask_defence::{Mask, ProtectedUpdate};
use unmask_federation::GlobalModel;
use unmask_params::{ParamLayout, Rule};

/// Takes the tensors that the attacks need out of model and update, so that a waiting job keeps neither alive.
///
/// Masked entries are zeros. Under FedAvg a client sends weights W_n, and w - W_n stands for the gradient: one local step
/// makes it that up to the local rate, and the equations do not care for scale. An entry that was not sent has no
/// difference.
///
/// # Errors
/// A sentence, if the update does not fit the model.
pub(super) fn evidence(model: &GlobalModel, rule: Rule, update: &ProtectedUpdate) -> Result<Evidence, String> {
    let layout = ParamLayout::vit(&model.spec.config());
    let tensors = |source, names: &[&str], values: &dyn Fn(&Range<usize>) -> Vec<f64>| {
        let mut tensors = Tensors::new(source, &model.spec.config(), Precision::F32);
        for param in names.iter().filter_map(|name| layout.get(name)) {
            tensors.insert(&param.name, &param.shape, values(&param.range)).map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(tensors)
    };
    let weights = |range: &Range<usize>| weights(model, range).collect();
    let gradients = |range: &Range<usize>| gradients(model, rule, update, &layout, range);
    Ok(Evidence {
        weights: tensors(Source::Weights, &names(AttackKind::weights), &weights)?,
        gradients: tensors(Source::Gradients, &names(AttackKind::gradients), &gradients)?,
    })
}

fn weights(model: &GlobalModel, range: &Range<usize>) -> impl Iterator<Item = f64> {
    model.weights.get(range.clone()).unwrap_or_default().iter().map(|&weight| f64::from(weight))
}

fn gradients(
    model: &GlobalModel,
    rule: Rule,
    update: &ProtectedUpdate,
    layout: &ParamLayout,
    range: &Range<usize>,
) -> Vec<f64> {
    let sent = sent(update, layout, range).into_iter();
    match rule {
        Rule::FedSgd => sent.map(|value| value.unwrap_or(0.0)).collect(),
        Rule::FedAvg { .. } => {
            let differences = weights(model, range).zip(sent);
            differences.map(|(weight, value)| value.map_or(0.0, |value| weight - value)).collect()
        }
    }
}

/// What all attacks together need, each name once.
fn names(of: fn(AttackKind) -> &'static [&'static str]) -> Vec<&'static str> {
    let mut names: Vec<_> = AttackKind::ALL.into_iter().flat_map(of).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The values sent of one range, `None` where the mask dropped one. The tensors wanted stand at the front of a layout, so
/// little of a mask is drawn again.
fn sent(update: &ProtectedUpdate, layout: &ParamLayout, range: &Range<usize>) -> Vec<Option<f64>> {
    let (seed, rates, kept) = match update {
        ProtectedUpdate::Dense(values) | ProtectedUpdate::Encrypted { values, .. } => {
            let values = values.get(range.clone()).unwrap_or_default();
            return values.iter().map(|&value| Some(f64::from(value))).collect();
        }
        ProtectedUpdate::Masked { seed, rates, kept } => (*seed, rates, kept),
    };
    let mut found = vec![None; range.len()];
    let (mut start, mut rest) = (0, kept.as_slice());
    for (mut word, len) in Mask::new(seed, rates, layout) {
        if start >= range.end {
            break;
        }
        let (values, others) = rest.split_at(rest.len().min(word.count_ones() as usize));
        for &value in values {
            let position = start + word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            if range.contains(&position) {
                found[position - range.start] = Some(f64::from(value));
            }
        }
        (start, rest) = (start + len, others);
    }
    found
}

#[cfg(test)]
mod tests {
    use unmask_defence::{Defence, MaskSeed, Means, PlainUpdate};
    use unmask_params::{InitOptions, ModelSpec, Preset, initial_weights};

    use super::*;

    fn model() -> (GlobalModel, ParamLayout) {
        let spec = ModelSpec::new(Preset::VitPicoPatch4_16);
        let weights = initial_weights(&spec.config(), 3, InitOptions::default());
        (GlobalModel { spec, weights }, ParamLayout::vit(&spec.config()))
    }

    fn protect(defence: &str, layout: &ParamLayout, plain: PlainUpdate<'_>) -> ProtectedUpdate {
        let defence: Defence = defence.parse().unwrap();
        defence.protect(layout, plain, Means { seed: MaskSeed([7; 32]), cipher: None }).unwrap()
    }

    /// The tensors read one by one are those of the whole update expanded.
    #[test]
    fn masked_tensors_are_those_of_the_expanded_update() {
        let (_, layout) = model();
        let values: Vec<f32> = (0..layout.len()).map(|i| i as f32 + 1.0).collect();
        for defence in ["none", "random-binary:0.5", "random-binary:patch=0.9,pos=0.1,0.3", "frozen-binary:0.2"] {
            let update = protect(defence, &layout, PlainUpdate { values: values.clone(), reference: None });
            let expanded = update.expand(&layout).unwrap();
            for name in names(AttackKind::gradients) {
                let range = layout.get(name).unwrap().range.clone();
                let read: Vec<f64> =
                    sent(&update, &layout, &range).into_iter().map(|value| value.unwrap_or(0.0)).collect();
                let wanted: Vec<f64> = expanded[range].iter().map(|&value| f64::from(value)).collect();
                assert_eq!(read, wanted, "{name} under {defence}");
            }
        }
    }

    /// Under FedAvg an entry that was dropped has a difference of zero, not of the whole weight.
    #[test]
    fn weights_become_differences() {
        let (model, layout) = model();
        let local: Vec<f32> = model.weights.iter().enumerate().map(|(i, w)| w - (i % 7) as f32 / 1024.0).collect();
        let plain = PlainUpdate { values: local.clone(), reference: Some(&model.weights) };
        let update = protect("random-binary:0.5", &layout, plain);
        let range = layout.get("pos_embed").unwrap().range.clone();
        let sent = update.expand(&layout).unwrap();
        let difference = |i: usize| match sent[i] {
            0.0 => 0.0,
            value => f64::from(model.weights[i]) - f64::from(value),
        };
        let differences: Vec<f64> = range.clone().map(difference).collect();
        assert!(differences.contains(&0.0) && differences.iter().any(|value| *value != 0.0));
        assert_eq!(gradients(&model, Rule::FED_AVG, &update, &layout, &range), differences);
    }
}
