//! The arrays a node sends: the plain weights, or two arrays for each parameter under a mask.

use unmask_core::{ModelState, ParamLayout};
use unmask_defence::{ProtectedUpdate, UpdateError};
use unmask_flower::{Array, MASK_SUFFIX, ModelArrays, Named};

/// The arrays of a reply, with the names and the order of the received ones. Under a mask B, each W is replaced by B W,
/// and all B follow, one byte array for each parameter. FedAvg averages both with the same factors; `MaskedFedAvg` then
/// divides: sum n B W / sum n B, as rooms do (Eqs. 3 and 4).
///
/// # Errors
/// The update does not fit this layout.
pub(super) fn reply_arrays(
    arrays: &ModelArrays,
    layout: &ParamLayout,
    sent: &ProtectedUpdate,
    statistics: Vec<f32>,
) -> Result<Named<Array>, UpdateError> {
    let weights = sent.expand(layout)?;
    let mut reply = arrays.write(&ModelState { weights, statistics });
    if let Some(mask) = sent.mask(layout) {
        let kept: Vec<u8> = mask.entries().map(u8::from).collect();
        reply.extend(arrays.weights().map(|(name, shape, range)| {
            (format!("{name}{MASK_SUFFIX}"), Array::from_u8(shape, kept.get(range).unwrap_or_default()))
        }));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use unmask_core::{Aggregation, Architecture, Defence, MaskSeed, OptimiserKind, Rule, VitPreset};
    use unmask_defence::{KeyMaterial, PlainUpdate, Protect};
    use unmask_federation::{Aggregate, Optimiser, UpdateCounts};

    use super::*;

    fn values(array: &Array) -> Vec<f64> {
        let data = array.npy.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let data = &array.npy[data..];
        match array.dtype.as_str() {
            "float32" => data.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
            _ => data.iter().map(|byte| f64::from(*byte)).collect(),
        }
    }

    /// `MaskedFedAvg` computes from two nodes' arrays what a room computes from the same updates.
    #[test]
    fn the_quotient_of_the_means_is_the_rooms_own_result() {
        let architecture = Architecture::from(VitPreset::Pico);
        let layout = architecture.layout();
        let former = architecture.initial(1);
        let start: Named<Array> = layout
            .iter()
            .map(|param| (param.name.clone(), Array::from_f32(&param.shape, &former.weights[param.range.clone()])))
            .collect();
        let (arrays, _) = ModelArrays::read(architecture, &start).unwrap();
        let defence: Defence = "random-binary:0.5".parse().unwrap();
        let rule = Rule::FED_AVG;
        let mut room = Aggregate::new(Arc::new(layout.clone()), defence, Aggregation::Mean);
        let mut nodes = Vec::new();
        for (seed, examples) in [(1, 3_u32), (2, 5)] {
            let trained = architecture.initial(10 + u64::from(seed)).weights;
            let plain = PlainUpdate { values: trained, reference: Some(&former.weights) };
            let sent =
                defence.protect(&layout, plain, KeyMaterial { seed: MaskSeed([seed; 32]), cipher: None }).unwrap();
            room.add(&sent, examples, Some(&former.weights)).unwrap();
            nodes.push((reply_arrays(&arrays, &layout, &sent, Vec::new()).unwrap(), f64::from(examples)));
        }
        let mut expected = former.weights.clone();
        let mut optimiser = Optimiser::new(OptimiserKind::default());
        room.close(rule, &mut optimiser, &mut expected, &mut UpdateCounts::new(Arc::new(layout.clone()), defence))
            .unwrap();

        let mean = |name: &str, at: usize| -> f64 {
            let of = |(reply, n): &(Named<Array>, f64)| {
                n / 8.0 * values(&reply.iter().find(|(key, _)| key == name).unwrap().1)[at]
            };
            nodes.iter().map(of).sum()
        };
        assert_eq!(nodes[0].0.len(), 2 * start.len());
        let mut unsent = 0;
        for name in ["pos_embed", "head.bias"] {
            let range = layout.get(name).unwrap().range.clone();
            for (at, place) in range.enumerate() {
                let sent = mean(&format!("{name}{MASK_SUFFIX}"), at);
                let found = if sent > 0.0 { mean(name, at) / sent } else { f64::from(former.weights[place]) };
                unsent += usize::from(sent == 0.0);
                assert!(
                    (found - f64::from(expected[place])).abs() < 1e-6,
                    "{name} {at}: {found} and {}",
                    expected[place]
                );
            }
        }
        assert!(unsent > 50, "{unsent}");
    }

    #[test]
    fn without_a_mask_weights_go_as_they_are() {
        let architecture = Architecture::from(VitPreset::Pico);
        let (layout, state) = (architecture.layout(), architecture.initial(1));
        let start: Named<Array> = layout
            .iter()
            .enumerate()
            .map(|(index, param)| {
                (index.to_string(), Array::from_f32(&param.shape, &state.weights[param.range.clone()]))
            })
            .collect();
        let (arrays, read) = ModelArrays::read(architecture, &start).unwrap();
        let reply = reply_arrays(&arrays, &layout, &ProtectedUpdate::dense(read.weights), Vec::new()).unwrap();
        assert_eq!(reply, start);
    }
}
