//! Updates that consist of weights, as clients send them under federated averaging.

use crate::Tensors;

/// Largest distance of a FedAvg client's weights from those it was sent, relative to their norm.
///
/// A gradient is unrelated to the weights, so its distance from them is about their norm or more.
const NEAR: f64 = 0.5;

impl Tensors {
    /// Whether these are weights a few training steps away from `weights`: ||self - weights|| < ||weights|| / 2 over
    /// the entries that arrived of tensors that are in both.
    pub fn are_near(&self, weights: &Self) -> bool {
        let (mut left, mut all) = (0.0, 0.0);
        for name in self.names() {
            let (Some(own), Some(others)) = (self.values(&name), weights.values(&name)) else { continue };
            let kept = self.kept(&name);
            let arrived = (0..own.len()).filter(|&index| kept.is_none_or(|kept| kept[index]));
            for index in arrived {
                left += (own[index] - others[index]).powi(2);
                all += others[index].powi(2);
            }
        }
        all > 0.0 && left.sqrt() < NEAR * all.sqrt()
    }

    /// Whether the norm layers' scales are about 1. Every model starts there, and few move far away. A gradient this
    /// large in hundreds of parameters is implausible.
    pub fn have_unit_norms(&self) -> bool {
        let is_norm = |name: &str| {
            let in_last =
                name.rsplit('.').nth(1).is_some_and(|part| part.starts_with("norm") || part.starts_with("bn"));
            in_last && name.ends_with(".weight")
        };
        let arrived = |name: &String| {
            let kept = self.kept(name).map(<[bool]>::to_vec);
            let values = self.values(name).unwrap_or_default().iter().copied().enumerate();
            values
                .filter(move |(index, _)| kept.as_ref().is_none_or(|kept| kept[*index]))
                .map(|(_, value)| value)
                .collect::<Vec<_>>()
        };
        let scales: Vec<f64> = self.names().iter().filter(|name| is_norm(name)).flat_map(arrived).collect();
        let mean = scales.iter().sum::<f64>() / scales.len().max(1) as f64;
        let spread = scales.iter().map(|scale| (scale - mean).powi(2)).sum::<f64>() / scales.len().max(1) as f64;
        (0.5..2.0).contains(&mean) && spread.sqrt() < 0.5 * mean
    }

    /// Names of the tensors that are present, in the model's order.
    pub(crate) fn names(&self) -> Vec<String> {
        let layout = self.model().layout();
        layout.iter().map(|param| param.name.clone()).filter(|name| self.values(name).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Architecture, VitPreset};

    use crate::{AttackError, Rounding, TensorSource, Tensors, UpdateScale};

    const NAMES: [&str; 3] = ["pos_embed", "blocks.0.norm1.weight", "norm.weight"];

    fn tensors(source: TensorSource, flat: &[f32], kept: Option<&[bool]>) -> Tensors {
        Tensors::from_flat(source, Architecture::from(VitPreset::Pico), flat, kept, &NAMES).unwrap()
    }

    fn gradient(len: usize) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * 0.7).sin() * 0.02).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn a_local_step_is_recognised_and_undone(seed in 0_u64..100, rate in 0.001_f64..0.5, hides in any::<bool>()) {
            let model = Architecture::from(VitPreset::Pico);
            let before = model.initial(seed).weights;
            let gradient = gradient(before.len());
            let after: Vec<f32> = before.iter().zip(&gradient).map(|(w, g)| w - rate as f32 * g).collect();
            let kept: Vec<bool> = (0..before.len()).map(|i| !hides || i % 2 == 0).collect();
            let (before, after) = (
                tensors(TensorSource::Weights, &before, None),
                tensors(TensorSource::Gradients, &after, Some(&kept)),
            );
            prop_assert!(after.are_near(&before) && after.have_unit_norms());
            let found = after.decrease_from(&before, UpdateScale::after(rate, 1)).unwrap();
            let range = model.layout().get("pos_embed").unwrap().range.clone();
            for (index, at) in range.enumerate() {
                let expected = if kept[at] { f64::from(gradient[at]) } else { 0.0 };
                prop_assert!((found.values("pos_embed").unwrap()[index] - expected).abs() < 1e-3);
            }
            prop_assert_eq!(found.kept("pos_embed").is_some(), hides);
        }
    }

    #[test]
    fn a_head_may_move_far() {
        let layout = Architecture::from(VitPreset::Pico).layout();
        let head = |source, value: f64| {
            let mut tensors = Tensors::new(source, Architecture::from(VitPreset::Pico), Rounding::F32);
            let param = layout.get("head.bias").unwrap();
            tensors.insert(&param.name, &param.shape, vec![value; param.range.len()]).unwrap();
            tensors
        };
        let (before, after) = (head(TensorSource::Weights, 0.0), head(TensorSource::Gradients, -0.5));
        let found = after.decrease_from(&before, UpdateScale::after(0.1, 5)).unwrap();
        assert_eq!(found.values("head.bias").unwrap()[0], 1.0);
    }

    #[test]
    fn a_gradient_is_no_weights_however_long() {
        let before = Architecture::from(VitPreset::Pico).initial(1).weights;
        let weights = tensors(TensorSource::Weights, &before, None);
        for scale in [1e-6, 1.0, 50.0, 1e6] {
            let flat: Vec<f32> = gradient(before.len()).iter().map(|value| value * scale).collect();
            let gradient = tensors(TensorSource::Gradients, &flat, None);
            assert!(!gradient.are_near(&weights) && !gradient.have_unit_norms(), "{scale}");
            let error = gradient.decrease_from(&weights, UpdateScale::after(1.0, 1)).unwrap_err();
            assert_eq!(error, AttackError::OtherWeights);
        }
    }
}
