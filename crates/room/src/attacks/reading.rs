//! Extracts from an update only what the attacks need.

use unmask_attack::{AttackError, Concealment, Evidence, Needs, Received};
use unmask_core::{Architecture, AttackMethod};

/// Copies the tensors that closed forms, labels and membership need of an update of so many pictures, so that a waiting
/// job keeps neither the model nor the update alive.
///
/// # Errors
/// If a value becomes infinite as a gradient.
pub(super) fn evidence<W>(
    architecture: Architecture,
    pictures: usize,
    received: &Received<'_, W>,
) -> Result<Evidence, AttackError>
where
    W: Iterator<Item = (u64, usize)> + Clone,
{
    received.evidence(&needs(architecture, pictures))
}

/// Number of parameters up to the last tensor that these searches read.
pub(super) fn front(searches: &[AttackMethod], architecture: Architecture) -> usize {
    let needs = union(searches.iter().filter_map(|&method| Needs::of(method, architecture).ok()));
    let layout = architecture.layout();
    let is_read = |name: &String| needs.gradients.required.contains(name);
    layout.iter().filter(|param| is_read(&param.name)).map(|param| param.range.end).max().unwrap_or(0)
}

/// The needs of the closed forms, labels and membership that work on the model. The attack on batches reads the most.
fn needs(architecture: Architecture, pictures: usize) -> Needs {
    let is_read = |method: &AttackMethod| match method {
        AttackMethod::Batch => Concealment::Nothing.methods(architecture, pictures).contains(method),
        other => !other.is_search(),
    };
    let closed_forms = AttackMethod::ALL.into_iter().filter(is_read);
    let needs = closed_forms.map(|method| Needs::of(method, architecture));
    let needs = needs.chain([Needs::of_membership(architecture)]);
    union(needs.flatten()).and(Needs::of_labels(architecture))
}

fn union(needs: impl Iterator<Item = Needs>) -> Needs {
    needs.fold(Needs::default(), Needs::and)
}

#[cfg(test)]
mod tests {
    use unmask_attack::UpdateScale;
    use unmask_core::{Defence, MaskSeed, ParamLayout, Rule, VitPreset};
    use unmask_defence::{CheckedUpdate, KeyMaterial, PlainUpdate, Protect};
    use unmask_federation::GlobalModel;

    use super::*;

    const SEED: MaskSeed = MaskSeed([7; 32]);
    const SEARCHES: [AttackMethod; 2] = [AttackMethod::MatchingAware, AttackMethod::Jigsaw];

    fn model() -> (GlobalModel, ParamLayout) {
        let architecture = Architecture::from(VitPreset::Pico);
        let state = architecture.initial(3);
        (GlobalModel { architecture, state }, architecture.layout())
    }

    fn protect(defence: &str, layout: &ParamLayout, plain: PlainUpdate<'_>) -> CheckedUpdate<'static> {
        let defence: Defence = defence.parse().unwrap();
        let update = defence.protect(layout, plain, KeyMaterial { seed: SEED, cipher: None }).unwrap();
        update.into_checked(layout).unwrap()
    }

    fn received<'a>(
        model: &'a GlobalModel,
        scale: UpdateScale,
        update: &'a CheckedUpdate<'static>,
    ) -> Received<'a, impl Iterator<Item = (u64, usize)> + Clone> {
        let (values, words) = (update.values(), update.words());
        Received { model: model.architecture.into(), weights: &model.state.weights, values, words, scale }
    }

    /// The tensors read equal those of the expanded update, and the kept entries are those that the mask kept.
    #[test]
    fn masked_tensors_are_those_of_the_expanded_update() {
        let (model, layout) = model();
        let values: Vec<f32> = (0..layout.len()).map(|i| i as f32 + 1.0).collect();
        for defence in ["none", "random-binary:0.5", "random-binary:patch=0.9,pos=0.1,0.3", "frozen-binary:0.2"] {
            let update = protect(defence, &layout, PlainUpdate { values: values.clone(), reference: None });
            let expanded = update.expand_over(vec![0.0; layout.len()]);
            let received = received(&model, UpdateScale::Gradient, &update);
            let evidence = evidence(model.architecture, 1, &received).unwrap();
            let needs = needs(model.architecture, 1);
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
            let (front, kept) = received.gradient(front(&SEARCHES, model.architecture));
            assert_eq!(front, expanded[..front.len()], "{defence}");
            assert_eq!(kept.is_some(), defence != "none");
            let end = layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end;
            assert_eq!(front.len(), end);
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
        let scale = UpdateScale::of(rule, 9, 2);
        assert_eq!(scale, UpdateScale::Weights { moved: f64::from(0.05f32) * 10.0 });
        let received = received(&model, scale, &update);
        let evidence = evidence(model.architecture, 1, &received).unwrap();
        let range = layout.get("pos_embed").unwrap().range.clone();
        let (values, kept) =
            (evidence.gradients.values("pos_embed").unwrap(), evidence.gradients.kept("pos_embed").unwrap());
        let (front, _) = received.gradient(front(&SEARCHES, model.architecture));
        assert!(kept.contains(&true) && kept.contains(&false));
        for (i, at) in range.enumerate() {
            let wanted = if kept[i] { gradient(at) } else { 0.0 };
            assert!((values[i] - f64::from(wanted)).abs() < 1e-6, "{at}: {} for {wanted}", values[i]);
            assert!((front[at] - wanted).abs() < 1e-6, "{at}");
        }
    }
}
