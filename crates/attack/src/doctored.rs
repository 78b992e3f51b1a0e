//! Weights that a dishonest relay sends, so that what comes back is the gradient of one picture.
//!
//! Each is a pure function of the model, its honest weights and a target. What arrives is an ordinary update: the other
//! attacks read it, at the weights that were sent.

mod cut_search;
mod gate;
mod imprint;

pub use self::{
    cut_search::CutSearch,
    gate::{Cut, class_token, feature_fishing},
    imprint::{ImprintedPatch, imprint, imprinted},
};
use crate::{AttackError, ModelShape, TensorSource};

/// The logit of every class but the one fished for: large enough that exp(-LOGIT) is 0 in f32.
const LOGIT: f32 = 1000.0;
/// By how much the class's own row grows, so that its gradient stands above rounding.
const GAIN: f32 = 50.0;
/// Size of the row in place of one of zeros, as that of a fresh head.
const SMALL: f32 = 0.02;

/// A head under which only pictures of `class` have a gradient before the head (Wen et al., ICML 2022).
///
/// All other rows are zero and their biases 1000, so that the model is sure that the picture is of none of this class.
/// With p_class = 0 and rows of zeros, dl/dh = (p - y) W vanishes for a picture of another class, and is minus the
/// class's own row for a picture of it. The gradient of a batch is then that of its pictures of `class`, divided by
/// the size of the batch.
///
/// # Errors
/// The weights do not fit the model, or it has no such class.
pub fn fishing(model: impl Into<ModelShape>, weights: &[f32], class: usize) -> Result<Vec<f32>, AttackError> {
    let model = model.into();
    let classes = model.classes();
    if class >= classes {
        return Err(AttackError::NoSuchClass { class, classes });
    }
    let mut doctored = fitting(model, weights)?.to_vec();
    let layout = model.layout();
    let [weight, bias] = model.head();
    if let Some(param) = layout.get(weight) {
        let rows = doctored[param.range.clone()].chunks_exact_mut(param.range.len() / classes);
        for (row, values) in rows.enumerate() {
            let gain = if row == class { GAIN } else { 0.0 };
            if row == class && values.iter().all(|value| *value == 0.0) {
                values.iter_mut().enumerate().for_each(|(at, value)| *value = if at % 2 == 0 { SMALL } else { -SMALL });
            }
            values.iter_mut().for_each(|value| *value *= gain);
        }
    }
    if let Some(param) = layout.get(bias) {
        let values = &mut doctored[param.range.clone()];
        values.fill(LOGIT);
        values[class] = 0.0;
    }
    Ok(doctored)
}

/// The weights with a head of zeros: nothing before the head has a gradient. Sent to everybody but the victim, they leave
/// the victim's gradient alone in a sum (Pasquini et al., CCS 2022).
///
/// # Errors
/// The weights do not fit the model.
pub fn zero_head(model: impl Into<ModelShape>, weights: &[f32]) -> Result<Vec<f32>, AttackError> {
    let model = model.into();
    let mut doctored = fitting(model, weights)?.to_vec();
    let layout = model.layout();
    for param in model.head().into_iter().filter_map(|name| layout.get(name)) {
        doctored[param.range.clone()].fill(0.0);
    }
    Ok(doctored)
}

/// The class that doctored weights fish for: the only one whose row of the head's weight, row-major, is not zero. `None` of
/// an honest head.
///
/// Then only pictures of this class have a gradient before the head, and the head's own gradient is of all pictures.
pub fn fished_class(head: &[f64], classes: usize) -> Option<usize> {
    if classes < 2 || head.is_empty() || !head.len().is_multiple_of(classes) {
        return None;
    }
    let rows = head.chunks_exact(head.len() / classes).map(|row| row.iter().any(|&value| value != 0.0));
    let mut alive = rows.enumerate().filter(|(_, is_alive)| *is_alive).map(|(class, _)| class);
    alive.next().filter(|_| alive.next().is_none())
}

/// [`fished_class`] of a whole model's weights `[P]`.
pub fn fished_class_of(model: impl Into<ModelShape>, weights: &[f32]) -> Option<usize> {
    let model = model.into();
    let layout = model.layout();
    let head = weights.get(layout.get(model.head()[0])?.range.clone())?;
    fished_class(&head.iter().map(|value| f64::from(*value)).collect::<Vec<_>>(), model.classes())
}

fn fitting(model: ModelShape, weights: &[f32]) -> Result<&[f32], AttackError> {
    let (found, expected) = (weights.len(), model.layout().len());
    if found != expected {
        return Err(AttackError::WrongLength { from: TensorSource::Weights, found, expected });
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unmask_core::{Param, ParamGroup, ParamLayout, VitConfig, VitPreset};

    use super::*;
    use crate::doctored::gate::tests::{gradient, initial, picture};

    /// Distance between two gradients before the head, and before the final norm that it reads, relative to the size of
    /// the first.
    pub(super) fn apart(config: &VitConfig, one: &[f32], other: &[f32]) -> f64 {
        let layout = ParamLayout::vit(config);
        let (mut apart, mut size) = (0.0, 0.0);
        let is_before = |param: &&Param| param.group != ParamGroup::Head && !param.name.starts_with("norm.");
        for param in layout.iter().filter(is_before) {
            for at in param.range.clone() {
                apart += (f64::from(one[at]) - f64::from(other[at])).powi(2);
                size += f64::from(one[at]).powi(2);
            }
        }
        (apart / size).sqrt()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The doctored head makes the gradient of a batch that of the victim, to the rounding of f32.
        #[test]
        fn a_batch_is_its_only_picture_of_the_class(
            seed in 0_u64..1000, pictures in 2_usize..9, place in 0_usize..9, class in 0_usize..10,
        ) {
            let config = VitConfig::from(VitPreset::Pico);
            let place = place % pictures;
            let doctored = fishing(&config, &initial(&config, seed), class).unwrap();
            let images: Vec<Vec<f32>> = (0..pictures).map(|k| picture(&config, seed + k as u64)).collect();
            let label = |k: usize| if k == place { class } else { (class + 1 + k % 9) % 10 };
            let labels: Vec<usize> = (0..pictures).map(label).collect();
            let batch = gradient(&config, &doctored, &images.concat(), &labels);
            let mut victim = gradient(&config, &doctored, &images[place], &[class]);
            victim.iter_mut().for_each(|value| *value /= pictures as f32);
            prop_assert!(apart(&config, &victim, &batch) < 1e-5, "{}", apart(&config, &victim, &batch));
        }
    }

    #[test]
    fn without_a_picture_of_the_class_nothing_comes_back() {
        let config = VitConfig::from(VitPreset::Pico);
        let images = [picture(&config, 1), picture(&config, 2)].concat();
        for doctored in
            [fishing(&config, &initial(&config, 1), 3).unwrap(), zero_head(&config, &initial(&config, 1)).unwrap()]
        {
            let batch = gradient(&config, &doctored, &images, &[1, 2]);
            let layout = ParamLayout::vit(&config);
            let before = layout.iter().filter(|param| param.group != ParamGroup::Head);
            assert!(before.flat_map(|param| &batch[param.range.clone()]).all(|&value| value == 0.0));
        }
    }

    #[test]
    fn a_fished_head_names_its_class() {
        let config = VitConfig::from(VitPreset::Pico);
        let honest = initial(&config, 1);
        let of = |weights: &[f32]| {
            let layout = ParamLayout::vit(&config);
            let head = layout.slice(weights, "head.weight").unwrap().iter().map(|&value| f64::from(value));
            fished_class(&head.collect::<Vec<f64>>(), config.classes)
        };
        assert_eq!(of(&fishing(&config, &honest, 7).unwrap()), Some(7));
        assert_eq!(of(&honest), None);
        assert_eq!(of(&zero_head(&config, &honest).unwrap()), None);
        assert_eq!(fished_class(&[1.0, 2.0], 1), None, "a single class is no choice");
    }

    #[test]
    fn bad_targets_are_named() {
        let config = VitConfig::from(VitPreset::Pico);
        let weights = initial(&config, 1);
        let error = fishing(&config, &weights, 10).unwrap_err().to_string();
        assert!(error.contains("class 10") && error.contains("10 classes"), "{error}");
        let error = zero_head(&config, &weights[1..]).unwrap_err().to_string();
        assert!(error.contains(&weights.len().to_string()), "{error}");
        let silent = fishing(&config, &zero_head(&config, &weights).unwrap(), 3).unwrap();
        let gradient = gradient(&config, &silent, &picture(&config, 1), &[3]);
        assert!(gradient[..100].iter().any(|&value| value != 0.0), "a head of zeros is no protection");
        let headless = VitConfig { classes: 0, ..config };
        assert!(fishing(&headless, &[], 0).unwrap_err().to_string().contains("0 classes"));
    }
}
