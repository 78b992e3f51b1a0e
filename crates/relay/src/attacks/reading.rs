//! Extracts from an update only what the attacks need.

use std::ops::Range;

use unmask_attack::{AttackError, Evidence, Needs, Rounding, TensorSource, Tensors};
use unmask_core::{Architecture, AttackMethod, ParamLayout, Rule};
use unmask_defence::ProtectedUpdate;
use unmask_federation::GlobalModel;

/// How to turn an update into an approximate gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// The update is a gradient.
    Gradient,
    /// The update holds weights W_n after several local steps at one rate, so (w - W_n) / (rate steps) approximates
    /// their mean gradient. The closed forms do not depend on the factor; label counts and searches do.
    Weights {
        /// rate * steps.
        moved: f64,
    },
}

impl Scale {
    /// The scale of an update made from `samples`, at most `batch` a step.
    pub(super) fn of(rule: Rule, samples: u32, batch: u16) -> Self {
        match rule {
            Rule::FedSgd => Self::Gradient,
            Rule::FedAvg { rate, .. } => {
                Self::Weights { moved: f64::from(rate) * rule.local_steps(samples, batch) as f64 }
            }
        }
    }

    fn apply(self, sent: f32, weight: f32) -> f64 {
        match self {
            Self::Gradient => f64::from(sent),
            Self::Weights { moved } => (f64::from(weight) - f64::from(sent)) / moved,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// As sent; 0 where dropped.
    pub(super) values: Vec<f32>,
    /// Which entries arrived; `None` if no mask dropped any.
    pub(super) kept: Option<Vec<bool>>,
}

/// Copies the tensors that closed forms, labels and membership need, so that a waiting job keeps neither the model nor
/// the update alive. Entries that a mask dropped are marked as not kept, under any rule.
///
/// # Errors
/// If the update does not fit the model.
pub(super) fn evidence(model: &GlobalModel, scale: Scale, update: &ProtectedUpdate) -> Result<Evidence, AttackError> {
    let architecture = model.architecture;
    let layout = architecture.layout();
    let mut weights = Tensors::new(TensorSource::Weights, architecture, Rounding::F32);
    let needs = needs(architecture);
    for param in params(&layout, &needs.weights.all()) {
        let values = slice(&model.state.weights, &param.range).iter().map(|&value| f64::from(value)).collect();
        weights.insert(&param.name, &param.shape, values)?;
    }
    let mut gradients = Tensors::new(TensorSource::Gradients, architecture, Rounding::F32);
    let params = params(&layout, &needs.gradients.all());
    let ranges: Vec<Range<usize>> = params.iter().map(|param| param.range.clone()).collect();
    for (param, Part { values, kept }) in params.into_iter().zip(parts(update, &layout, &ranges)) {
        let weights = slice(&model.state.weights, &param.range);
        let values = values.iter().zip(weights).map(|(&sent, &weight)| scale.apply(sent, weight)).collect();
        match kept {
            None => gradients.insert(&param.name, &param.shape, values),
            Some(kept) => gradients.insert_kept(&param.name, &param.shape, values, kept),
        }?;
    }
    Ok(Evidence { weights, gradients })
}

/// Returns the approximate gradient in f32, up to the last tensor that these searches read.
pub(super) fn front(searches: &[AttackMethod], model: &GlobalModel, scale: Scale, update: &ProtectedUpdate) -> Part {
    let layout = model.architecture.layout();
    let needs = union(searches.iter().filter_map(|&method| Needs::of(method, model.architecture).ok()));
    let read = params(&layout, &needs.gradients.required.iter().map(String::as_str).collect::<Vec<_>>());
    let end = read.last().map_or(0, |param| param.range.end);
    let mut parts = parts(update, &layout, std::slice::from_ref(&(0..end)));
    let Part { mut values, kept } = parts.pop().unwrap_or(Part { values: Vec::new(), kept: None });
    for (i, (value, &weight)) in values.iter_mut().zip(&model.state.weights).enumerate() {
        let is_kept = kept.as_ref().is_none_or(|kept| kept[i]);
        *value = if is_kept { scale.apply(*value, weight) as f32 } else { 0.0 };
    }
    Part { values, kept }
}

/// The needs of the closed forms, labels and membership that work on the model.
fn needs(architecture: Architecture) -> Needs {
    let closed_forms = AttackMethod::ALL.into_iter().filter(|method| !method.is_search());
    let needs = closed_forms.map(|method| Needs::of(method, architecture));
    let needs = needs.chain([Needs::of_membership(architecture)]);
    union(needs.flatten()).and(Needs::of_labels(architecture))
}

fn union(needs: impl Iterator<Item = Needs>) -> Needs {
    needs.fold(Needs::default(), Needs::and)
}

/// The model's parameters with these names, in the model's order.
fn params<'a>(layout: &'a ParamLayout, names: &[&str]) -> Vec<&'a unmask_core::Param> {
    layout.iter().filter(|param| names.contains(&param.name.as_str())).collect()
}

fn slice<'a>(values: &'a [f32], range: &Range<usize>) -> &'a [f32] {
    values.get(range.clone()).unwrap_or_default()
}

/// Returns the entries sent in `ranges`, which must ascend without overlap. Expands the mask once, up to the end of the
/// last range.
fn parts(update: &ProtectedUpdate, layout: &ParamLayout, ranges: &[Range<usize>]) -> Vec<Part> {
    let sent = update.values.as_slice();
    let Some(mask) = update.mask(layout) else {
        return ranges.iter().map(|range| Part { values: slice(sent, range).to_vec(), kept: None }).collect();
    };
    let nothing = |range: &Range<usize>| (vec![0.0; range.len()], vec![false; range.len()]);
    let mut parts: Vec<_> = ranges.iter().map(nothing).collect();
    let (mut start, mut rest, mut first) = (0, sent, 0);
    for (mut word, len) in mask {
        while ranges.get(first).is_some_and(|range| range.end <= start) {
            first += 1;
        }
        let Some(next) = ranges.get(first) else { break };
        let (values, others) = rest.split_at(rest.len().min(word.count_ones() as usize));
        if next.start < start + len {
            let mut at = first;
            for &value in values {
                let position = start + word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                while ranges.get(at).is_some_and(|range| range.end <= position) {
                    at += 1;
                }
                if let (Some(range), Some((values, kept))) = (ranges.get(at), parts.get_mut(at))
                    && range.contains(&position)
                {
                    values[position - range.start] = value;
                    kept[position - range.start] = true;
                }
            }
        }
        (start, rest) = (start + len, others);
    }
    parts.into_iter().map(|(values, kept)| Part { values, kept: Some(kept) }).collect()
}

#[cfg(test)]
mod tests {
    use unmask_core::{Defence, MaskSeed, UpdateForm, VitPreset};
    use unmask_defence::{KeyMaterial, PlainUpdate, Protect};

    use super::*;

    const SEED: MaskSeed = MaskSeed([7; 32]);
    const SEARCHES: [AttackMethod; 2] = [AttackMethod::MatchingAware, AttackMethod::Jigsaw];

    fn model() -> (GlobalModel, ParamLayout) {
        let architecture = Architecture::from(VitPreset::Pico);
        let state = architecture.initial(3);
        (GlobalModel { architecture, state }, architecture.layout())
    }

    fn protect(defence: &str, layout: &ParamLayout, plain: PlainUpdate<'_>) -> ProtectedUpdate {
        let defence: Defence = defence.parse().unwrap();
        defence.protect(layout, plain, KeyMaterial { seed: SEED, cipher: None }).unwrap()
    }

    /// The tensors read equal those of the expanded update, and the kept entries are those that the mask kept.
    #[test]
    fn masked_tensors_are_those_of_the_expanded_update() {
        let (model, layout) = model();
        let values: Vec<f32> = (0..layout.len()).map(|i| i as f32 + 1.0).collect();
        for defence in ["none", "random-binary:0.5", "random-binary:patch=0.9,pos=0.1,0.3", "frozen-binary:0.2"] {
            let update = protect(defence, &layout, PlainUpdate { values: values.clone(), reference: None });
            let expanded = update.expand(&layout).unwrap();
            let evidence = evidence(&model, Scale::Gradient, &update).unwrap();
            let needs = needs(model.architecture);
            let names = needs.gradients.all();
            assert!(names.contains(&"head.bias") && names.contains(&"patch_embed.proj.bias"), "{names:?}");
            for name in names {
                let range = layout.get(name).unwrap().range.clone();
                let wanted: Vec<f64> = expanded[range].iter().map(|&value| f64::from(value)).collect();
                assert_eq!(evidence.gradients.values(name).unwrap(), wanted, "{name} under {defence}");
                let kept: Vec<bool> = wanted.iter().map(|&value| value != 0.0).collect();
                let known = evidence.gradients.kept(name).map_or_else(|| vec![true; kept.len()], <[bool]>::to_vec);
                assert_eq!(known, kept, "{name} under {defence}");
            }
            let front = front(&SEARCHES, &model, Scale::Gradient, &update);
            assert_eq!(front.values, expanded[..front.values.len()], "{defence}");
            assert_eq!(front.kept.is_some(), defence != "none");
            let end = layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end;
            assert_eq!(front.values.len(), end);
        }
    }

    /// Under FedAvg, an entry that arrived becomes a mean gradient, and a dropped one becomes 0.
    #[test]
    fn weights_become_gradients() {
        let (model, layout) = model();
        let gradient = |i: usize| (i % 7) as f32 / 64.0;
        let local: Vec<f32> = model.state.weights.iter().enumerate().map(|(i, w)| w - 0.5 * gradient(i)).collect();
        let plain = PlainUpdate { values: local, reference: Some(&model.state.weights) };
        let update = protect("random-binary:0.5", &layout, plain);
        let rule = Rule::FedAvg { epochs: 2, rate: 0.05 };
        let scale = Scale::of(rule, 9, 2);
        assert_eq!(scale, Scale::Weights { moved: f64::from(0.05f32) * 10.0 });
        let evidence = evidence(&model, scale, &update).unwrap();
        let range = layout.get("pos_embed").unwrap().range.clone();
        let (values, kept) =
            (evidence.gradients.values("pos_embed").unwrap(), evidence.gradients.kept("pos_embed").unwrap());
        let front = front(&SEARCHES, &model, scale, &update);
        assert!(kept.contains(&true) && kept.contains(&false));
        for (i, at) in range.enumerate() {
            let wanted = if kept[i] { gradient(at) } else { 0.0 };
            assert!((values[i] - f64::from(wanted)).abs() < 1e-6, "{at}: {} for {wanted}", values[i]);
            assert!((front.values[at] - wanted).abs() < 1e-6, "{at}");
        }
    }

    /// The room refuses an update that does not fit; reading it first must not panic.
    #[test]
    fn updates_of_another_length_are_read_without_harm() {
        let (model, _) = model();
        let rates = "0.5".parse().unwrap();
        for update in [
            ProtectedUpdate::dense(vec![1.0; 10]),
            ProtectedUpdate { form: UpdateForm::Masked { seed: SEED, rates }, values: vec![1.0; 10] },
            ProtectedUpdate::dense(Vec::new()),
        ] {
            let _ = evidence(&model, Scale::Gradient, &update);
            let _ = front(&SEARCHES, &model, Scale::Gradient, &update);
        }
        assert!(evidence(&model, Scale::Gradient, &ProtectedUpdate::dense(vec![1.0; 10])).is_err());
    }
}
