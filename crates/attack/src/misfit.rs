//! Whether pictures explain an update: their own gradient compared with the one that arrived.

use serde::Serialize;
use unmask_core::Knowledge;

use crate::{AttackError, Observation, Searches, Tensors, WholeUpdate, model::POSITION};

/// Distance of the gradient g(x) of pictures x from the gradient g that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Misfit {
    /// min over s >= 0 of ||s g(x) - g|| / ||g|| over the compared entries: 0 if the pictures explain the whole update,
    /// 1 if they explain nothing.
    ///
    /// The scale s is free because it carries no information about the pictures: summed losses, learning rates and norm
    /// clipping all change it. At s = 1 the value is ||g(x) - g|| / ||g||.
    pub relative: f64,
    /// The best scale s: 1 for a plain gradient of the mean loss.
    pub scale: f64,
    pub entries: usize,
}

impl Misfit {
    /// Largest relative misfit at which pictures count as explaining the update.
    ///
    /// Measured on four photographs at the initial weights of `vit_pico_patch4_16` and `vit_lab_patch4_32`: with noise
    /// of 40 dB they left 0.006 to 0.016. At an SSIM of 0.5, after noise, blur, changed light or another photograph,
    /// they left at least 0.039. A low misfit does not prove a picture right: a search from the mirrored photograph
    /// left 0.004 at an SSIM of -0.07, because a model that has not learnt its positions hardly distinguishes the
    /// patches' places. [`pixel_uncertainty`](crate::pixel_uncertainty) excludes other pictures.
    pub const EXPLAINED: f64 = 0.01;
    /// Largest relative misfit of all pictures of a batch that counts as rounding, and proves them together. Right pictures
    /// leave 1e-6 of an update in f32.
    pub const ROUNDING: f64 = 1e-5;

    /// Compares the gradient `own` of some pictures with that of `update`. An attacker who knows the mask compares the
    /// entries that arrived. A naive one compares all and takes hidden ones for 0.
    ///
    /// A position embedding that is all zero was held fixed and is not compared.
    ///
    /// # Errors
    /// `own` is shorter than the update, or all compared entries of the update are zero.
    pub fn of(own: &[f64], update: &WholeUpdate, knowledge: Knowledge) -> Result<Self, AttackError> {
        let WholeUpdate { architecture, gradient, kept, .. } = update;
        if own.len() < gradient.len() {
            return Err(AttackError::ShortGradient { found: own.len(), expected: gradient.len() });
        }
        let layout = architecture.layout();
        let position = layout.get(POSITION).map(|param| param.range.start..param.range.end.min(gradient.len()));
        let fixed = position.filter(|range| gradient.get(range.clone()).is_some_and(is_zero)).unwrap_or_default();
        let kept = kept.as_deref().filter(|_| knowledge == Knowledge::Aware);
        let is_compared = |index: &usize| !fixed.contains(index) && kept.is_none_or(|kept| kept[*index]);
        let compared = (0..gradient.len()).filter(is_compared).map(|index| (own[index], f64::from(gradient[index])));
        Self::between(compared).ok_or(AttackError::NothingToMatch { part: "the gradient" })
    }

    /// Compares as [`Misfit::of`] does, but only those tensors of an update that were read for closed forms and labels,
    /// and only their entries that arrived. It serves where the whole update is not kept.
    ///
    /// # Errors
    /// As [`Misfit::of`].
    pub fn of_tensors(own: &[f64], gradients: &Tensors) -> Result<Self, AttackError> {
        let layout = gradients.model().layout();
        if own.len() < layout.len() {
            return Err(AttackError::ShortGradient { found: own.len(), expected: layout.len() });
        }
        let mut compared = Vec::new();
        for param in layout.iter() {
            let Some(values) = gradients.values(&param.name) else { continue };
            if param.name == POSITION && values.iter().all(|&value| value == 0.0) {
                continue;
            }
            let kept = gradients.kept(&param.name);
            let pairs = own[param.range.clone()].iter().copied().zip(values.iter().copied()).enumerate();
            compared.extend(pairs.filter(|(index, _)| kept.is_none_or(|kept| kept[*index])).map(|(_, pair)| pair));
        }
        Self::between(compared.iter().copied()).ok_or(AttackError::NothingToMatch { part: "the gradient" })
    }

    /// Compares pairs of matching entries of g(x) and g; `None` if g is all zero.
    pub fn between(entries: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let (mut along, mut own_square, mut square, mut count) = (0.0, 0.0, 0.0, 0);
        for (own, given) in entries.clone() {
            along += own * given;
            own_square += own * own;
            square += given * given;
            count += 1;
        }
        let scale = if own_square > 0.0 { (along / own_square).max(0.0) } else { 0.0 };
        // A second pass, because the difference of the sums above would lose half of the digits.
        let left: f64 = entries.map(|(own, given)| (scale * own - given).powi(2)).sum();
        (square > 0.0).then(|| Self { relative: (left / square).sqrt(), scale, entries: count })
    }
}

fn is_zero(values: &[f32]) -> bool {
    values.iter().all(|&value| value == 0.0)
}

/// The gradient of `pictures`, each `[side, side, 3]` in [0, 1], at the model of `observation`, for [`Misfit::of`]. A
/// single picture, such as the mixture that a closed form sees, is repeated for the whole batch.
///
/// # Errors
/// [`AttackError`] says why the model cannot be run: it is missing, the labels are unknown, or the embeddings are
/// encrypted.
pub fn own_gradient(
    observation: &Observation,
    models: &dyn Searches,
    pictures: &[Vec<f32>],
) -> Result<Vec<f64>, AttackError> {
    if observation.encryption.is_some() {
        return Err(AttackError::CipherText);
    }
    let whole = observation.whole.as_deref().ok_or(AttackError::NoModel)?;
    let labels = observation.known_labels()?;
    let pictures = match pictures {
        [picture] => picture.repeat(labels.len()),
        pictures => pictures.concat(),
    };
    models.gradient(whole, &labels, &pictures)
}

#[cfg(test)]
mod tests {
    use unmask_core::{Architecture, ModelState, VitPreset};

    use super::*;
    use crate::TensorSource;

    fn update(change: impl Fn(&mut WholeUpdate)) -> WholeUpdate {
        let architecture = Architecture::from(VitPreset::Pico);
        let gradient: Vec<f32> = (0..architecture.layout().len()).map(|i| (i as f32 * 0.7).sin()).collect();
        let state = ModelState::from_weights(Vec::new());
        let mut update = WholeUpdate { architecture, state, gradient, kept: None, is_training: true };
        change(&mut update);
        update
    }

    fn own(update: &WholeUpdate) -> Vec<f64> {
        update.gradient.iter().map(|&value| f64::from(value)).collect()
    }

    #[test]
    fn a_gradient_explains_itself_at_any_positive_scale() {
        let update = update(|_| ());
        for scale in [1.0, 0.25, 1e6] {
            let scaled: Vec<f64> = own(&update).iter().map(|value| value * scale).collect();
            let misfit = Misfit::of(&scaled, &update, Knowledge::Aware).unwrap();
            assert!(misfit.relative < 1e-12 && (misfit.scale * scale - 1.0).abs() < 1e-12, "{misfit:?}");
            assert_eq!(misfit.entries, update.gradient.len());
        }
        let opposite: Vec<f64> = own(&update).iter().map(|value| -value).collect();
        let misfit = Misfit::of(&opposite, &update, Knowledge::Aware).unwrap();
        assert_eq!((misfit.relative, misfit.scale), (1.0, 0.0), "no picture has a negative share");
        assert_eq!(Misfit::of(&vec![0.0; own(&update).len()], &update, Knowledge::Aware).unwrap().relative, 1.0);
    }

    /// A gradient plus an orthogonal one of equal length is at 45 degrees, and the sine of that angle is left.
    #[test]
    fn what_is_left_is_the_sine_of_the_angle() {
        let update = update(|update| update.gradient.iter_mut().enumerate().for_each(|(i, v)| *v = f32::from(i < 8)));
        let mut found = own(&update);
        found[8..16].fill(1.0);
        let misfit = Misfit::of(&found, &update, Knowledge::Aware).unwrap();
        assert!((misfit.relative - 0.5_f64.sqrt()).abs() < 1e-12 && (misfit.scale - 0.5).abs() < 1e-12, "{misfit:?}");
    }

    #[test]
    fn hidden_entries_are_compared_by_who_does_not_know_the_mask() {
        let plain = update(|_| ());
        let masked = update(|update| {
            let kept: Vec<bool> = (0..update.gradient.len()).map(|i| i % 2 == 0).collect();
            update.gradient.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(value, _)| *value = 0.0);
            update.kept = Some(kept);
        });
        let aware = Misfit::of(&own(&plain), &masked, Knowledge::Aware).unwrap();
        let naive = Misfit::of(&own(&plain), &masked, Knowledge::Naive).unwrap();
        assert!(aware.relative < 1e-12 && 2 * aware.entries <= naive.entries + 1, "{aware:?}");
        assert!((naive.relative - 0.5_f64.sqrt()).abs() < 0.01, "{naive:?}");
    }

    #[test]
    fn a_position_that_was_held_fixed_is_not_compared() {
        let plain = update(|_| ());
        let fixed = update(|update| {
            let position = update.architecture.layout().get(POSITION).unwrap().range.clone();
            update.gradient[position].fill(0.0);
        });
        assert!(Misfit::of(&own(&plain), &fixed, Knowledge::Aware).unwrap().relative < 1e-12);
    }

    /// Entries of the tensors that were read count as they do in the whole update, and no others count.
    #[test]
    fn tensors_are_compared_as_the_update_is() {
        let whole = update(|_| ());
        let (layout, mut found) = (whole.architecture.layout(), own(&whole));
        let names = [POSITION, "patch_embed.proj.weight", "head.bias"];
        let is_there: Vec<bool> = {
            let mut there = vec![false; layout.len()];
            names.iter().for_each(|name| there[layout.get(name).unwrap().range.clone()].fill(true));
            there
        };
        let hidden: Vec<bool> = (0..layout.len()).map(|index| index % 3 != 0).collect();
        found.iter_mut().zip(&is_there).for_each(|(value, &there)| *value += if there { 0.1 } else { 50.0 });
        let read = |kept: Option<&[bool]>, names: &[&str]| {
            Tensors::from_flat(TensorSource::Gradients, whole.architecture, &whole.gradient, kept, names).unwrap()
        };
        for kept in [None, Some(hidden.as_slice())] {
            let counts = |index: &usize| is_there[*index] && kept.is_none_or(|kept| kept[*index]);
            let pairs = (0..layout.len()).filter(counts).map(|at| (found[at], f64::from(whole.gradient[at])));
            let wanted = Misfit::between(pairs).unwrap();
            assert!(wanted.relative > 0.05, "{wanted:?}");
            assert_eq!(Misfit::of_tensors(&found, &read(kept, &names)), Ok(wanted));
        }
        let fixed = update(|update| update.gradient[layout.get(POSITION).unwrap().range.clone()].fill(0.0));
        let fixed =
            Tensors::from_flat(TensorSource::Gradients, fixed.architecture, &fixed.gradient, None, &names).unwrap();
        assert_eq!(Misfit::of_tensors(&found, &fixed), Misfit::of_tensors(&found, &read(None, &names[1..])));
        let short = Misfit::of_tensors(&found[1..], &read(None, &names)).unwrap_err();
        assert_eq!(short, AttackError::ShortGradient { found: layout.len() - 1, expected: layout.len() });
        assert!(matches!(Misfit::of_tensors(&found, &read(None, &[])), Err(AttackError::NothingToMatch { .. })));
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let update = update(|_| ());
        let short = Misfit::of(&own(&update)[1..], &update, Knowledge::Aware).unwrap_err().to_string();
        assert!(short.contains("gradient"), "{short}");
        let nothing = self::update(|update| update.gradient.fill(0.0));
        assert!(matches!(
            Misfit::of(&own(&update), &nothing, Knowledge::Aware),
            Err(AttackError::NothingToMatch { .. })
        ));
    }
}
