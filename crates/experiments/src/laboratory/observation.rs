//! What an attacker holds of one client.

use std::sync::Arc;

use unmask_attack::{Evidence, Tensors};
use unmask_core::{ParamLayout, VitSpec};
use unmask_defence::Cipher;

/// All that an honest-but-curious relay holds of one client, and what else came its way.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The model.
    pub spec: VitSpec,
    /// Rounds over the same pictures, oldest first: the weights as the relay held them, and the update as a gradient. Attacks
    /// on one update take the first.
    pub rounds: Vec<Evidence>,
    /// How many pictures are mixed in an update.
    pub batch: usize,
    /// Their labels, where they are known; otherwise they are read off the update.
    pub labels: Option<Vec<usize>>,
    /// Whether weights and updates are cipher text.
    pub is_encrypted: bool,
    /// The plain form of the first round's weights, where the relay made them itself.
    pub plain_start: Option<Tensors>,
    /// The key, where a client gave it away.
    pub key: Option<Arc<Cipher>>,
}

impl Observation {
    /// One plain picture in one round.
    pub fn new(spec: VitSpec, evidence: Evidence) -> Self {
        Self { spec, rounds: vec![evidence], batch: 1, labels: None, is_encrypted: false, plain_start: None, key: None }
    }
}

/// A flat vector of the first parameters of a layout, and which of its entries arrived.
pub(crate) struct Flat {
    /// 0 where an entry did not arrive.
    pub(crate) values: Vec<f32>,
    /// `None` where all did.
    pub(crate) kept: Option<Vec<bool>>,
}

impl Flat {
    /// The parameters of `layout` up to the last with `wanted`; what is not there is zero.
    pub(crate) fn of(tensors: &Tensors, layout: &ParamLayout, wanted: impl Fn(&str) -> bool) -> Self {
        let last = layout.iter().filter(|param| wanted(&param.name)).last().map_or(0, |param| param.range.end);
        let mut flat = Self { values: vec![0.0; last], kept: None };
        for param in layout.iter().take_while(|param| param.range.end <= last) {
            if let Some(values) = tensors.values(&param.name) {
                let places = &mut flat.values[param.range.clone()];
                places.iter_mut().zip(values).for_each(|(place, &value)| *place = value as f32);
            }
            if let Some(kept) = tensors.kept(&param.name) {
                flat.kept.get_or_insert_with(|| vec![true; last])[param.range.clone()].copy_from_slice(kept);
            }
        }
        flat
    }
}

#[cfg(test)]
mod tests {
    use unmask_attack::{Precision, Source};
    use unmask_core::VitPreset;

    use super::*;
    use crate::laboratory::trial::is_early;

    #[test]
    fn tensors_become_the_front_of_the_flat_vector() {
        let config = VitSpec::new(VitPreset::Pico).config();
        let layout = ParamLayout::vit(&config);
        let flat: Vec<f32> = (0..layout.len()).map(|i| i as f32).collect();
        let kept: Vec<bool> = (0..layout.len()).map(|i| i % 3 != 0).collect();
        let names: Vec<&str> = layout.iter().map(|param| param.name.as_str()).collect();
        let tensors = Tensors::from_flat_kept(Source::Gradients, &config, &flat, &kept, &names).unwrap();
        let front = Flat::of(&tensors, &layout, is_early);
        let end = front.values.len();
        assert_eq!(end, layout.get("blocks.0.mlp.fc2.bias").unwrap().range.end);
        assert_eq!(front.kept.unwrap(), kept[..end]);
        assert!((0..end).all(|i| front.values[i] == if kept[i] { flat[i] } else { 0.0 }));
        let nothing = Flat::of(&Tensors::new(Source::Gradients, &config, Precision::F32), &layout, |_| true);
        assert!(nothing.kept.is_none() && nothing.values == vec![0.0; layout.len()]);
    }
}
