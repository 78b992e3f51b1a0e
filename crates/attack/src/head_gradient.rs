//! What the gradient of a classification head shows of an update from anywhere, whose loss nobody knows.
//!
//! Softmax cross entropy with hard labels has dl/d(bias) = mean(p - y): it sums to zero over the classes, one picture
//! leaves exactly one negative entry, and B pictures at most B. Other losses fail these tests, and so does the negative
//! of a gradient.

use faer::Mat;

use crate::{Rounding, labels::rounded_counts};

/// dl/d(head.weight) and dl/d(head.bias) of the last linear layer.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadGradient {
    /// `[classes, features]`, row-major.
    pub weight: Vec<f64>,
    /// `[classes]`; absent if the layer has none.
    pub bias: Option<Vec<f64>>,
    pub classes: usize,
}

/// Labels of an update from anywhere, with what they rest on.
#[derive(Debug, Clone, PartialEq)]
pub enum HeadLabels {
    /// One label for each picture, in ascending order, and under which assumption, if any.
    Read { labels: Vec<usize>, if_: Option<String>, is_turned: bool },
    /// Why there is no answer, as a clause.
    CannotTell(String),
}

/// Largest share of the sum of all entries in the sum of their absolute values that still counts as zero. Mixed
/// precision leaves 6e-4, and independent classes 0.1 and more.
const BALANCED: f64 = 3e-3;
/// Smallest step between two singular values that separates pictures from noise.
const GAP: f64 = 50.0;

impl HeadGradient {
    /// The number of pictures: each adds one direction to dl/d(head.weight), since the head reads one vector of each,
    /// whatever the pooling. `None` if there are as many as the classes can show, or if noise hides the number.
    pub fn pictures(&self) -> Option<usize> {
        let features = self.weight.len().checked_div(self.classes)?;
        let rows = Mat::from_fn(self.classes, features, |row, column| self.weight[row * features + column]);
        let svd = rows.thin_svd().ok()?;
        // The rows sum to zero under cross entropy, so that the last value is always noise.
        let most = self.classes.saturating_sub(1).min(features);
        let values: Vec<f64> = svd.S().column_vector().iter().take(most).copied().collect();
        let first = *values.first().filter(|first| **first > 0.0)?;
        let noise = match Rounding::of(&self.weight) {
            Rounding::F64 => 1e-10,
            Rounding::F32 => 1e-6,
            Rounding::F16 => 3e-3,
            Rounding::Bf16 | Rounding::Byte => 2e-2,
        };
        let above = values.iter().filter(|value| **value > noise * first).count();
        if above < values.len() {
            return Some(above);
        }
        // Noise of a coarser type, such as after mixed precision, fills the rest evenly.
        let ratio = |place: usize| values[place] / values[place + 1].max(f64::MIN_POSITIVE);
        let place = (0..values.len().saturating_sub(1)).max_by(|&a, &b| ratio(a).total_cmp(&ratio(b)))?;
        (ratio(place) >= GAP).then_some(place + 1)
    }

    /// Reads the labels of `pictures`, after testing whether this is the gradient of softmax cross entropy. With the
    /// head's own `weights`, a hard label of one picture is certain. `has_sum`: whether the values are a gradient's, so
    /// that their sum tells the loss; signs alone or a few of them do not.
    pub fn labels(&self, pictures: usize, has_sum: bool, weights: Option<&Self>) -> HeadLabels {
        if pictures == 1
            && let Some(label) = weights.and_then(|weights| self.label_by(weights))
        {
            return HeadLabels::Read { labels: vec![label], if_: None, is_turned: false };
        }
        let cannot = |why: String| HeadLabels::CannotTell(why);
        let Some(bias) = self.bias.as_deref() else {
            return cannot("the head has no bias, whose gradient tells the loss and the labels".to_owned());
        };
        if self.classes < 2 {
            return cannot(
                "the head has one output, of a binary choice or of a regression, and its gradient names no class"
                    .to_owned(),
            );
        }
        let size: f64 = bias.iter().map(|value| value.abs()).sum();
        if size == 0.0 || !size.is_finite() {
            return cannot("the gradient of the head's bias is all zero".to_owned());
        }
        let sum: f64 = bias.iter().sum();
        let with = |is_one: &dyn Fn(f64) -> bool| -> Vec<usize> {
            bias.iter().enumerate().filter(|(_, value)| is_one(**value)).map(|(class, _)| class).collect()
        };
        let (negative, positive) = (with(&|value| value < 0.0), with(&|value| value > 0.0));
        if has_sum && sum.abs() > BALANCED * size {
            let named = if negative.is_empty() { "none".to_owned() } else { listed(&negative) };
            return cannot(format!(
                "the gradient of the head's bias does not sum to zero, as that of softmax cross entropy does without noise; if \
                 the loss is binary cross entropy, the classes are: {named}"
            ));
        }
        let read = |labels, if_: &str| HeadLabels::Read { labels, if_: Some(if_.to_owned()), is_turned: false };
        let is_two = self.classes == 2;
        match (pictures, negative.as_slice(), positive.as_slice()) {
            (1, &[label], &[_]) if is_two => {
                read(vec![label], "the file holds a gradient and not its negative, which two classes leave open")
            }
            (1, &[label], _) => read(vec![label], HARD_LABELS),
            (1, &[_, ..], &[label]) => turned(vec![label]),
            (1, ..) => cannot(format!(
                "one picture with a hard label leaves one negative entry in the gradient of the head's bias, and this has \
                 {}{}; it may be a soft label, as of mixup, or another loss",
                negative.len(),
                if negative.is_empty() { String::new() } else { format!(" (classes {})", listed(&negative)) },
            )),
            (_, negative, _) if negative.len() <= pictures => {
                // Summed losses, clipping and learning rates scale a gradient; without any, the estimate is close to 1.
                let scale = Some(self.scale(bias)).filter(|scale| !(0.7..1.3).contains(scale)).unwrap_or(1.0);
                read(self.counted(bias, pictures, scale), UNIFORM)
            }
            (_, _, positive) if positive.len() <= pictures => {
                let other: Vec<f64> = bias.iter().map(|value| -value).collect();
                turned(self.counted(&other, pictures, self.scale(&other)))
            }
            (_, negative, _) => cannot(format!(
                "{pictures} pictures leave at most {pictures} negative entries in the gradient of the head's bias, and this \
                 has {}; it is the gradient of another loss, or there are more pictures",
                negative.len()
            )),
        }
    }

    /// The factor of a gradient of uniform predictions: absent classes have 1/C each.
    fn scale(&self, bias: &[f64]) -> f64 {
        let absent: Vec<f64> = bias.iter().copied().filter(|value| *value > 0.0).collect();
        self.classes as f64 * absent.iter().sum::<f64>() / absent.len().max(1) as f64
    }

    /// The hard label y of one picture by the head's own weights: dl/d(weight) = (p - y) h^T gives the features h, these
    /// the predictions p, and p - dl/d(bias) is y. `None` if that is no hard label.
    fn label_by(&self, weights: &Self) -> Option<usize> {
        /// Largest share of the gradient that the label may leave unexplained.
        const CERTAIN: f64 = 0.02;
        let (bias, offsets) = (self.bias.as_deref()?, weights.bias.as_deref()?);
        let features = self.weight.len().checked_div(self.classes)?;
        if weights.weight.len() != self.weight.len() || features == 0 {
            return None;
        }
        let square: f64 = bias.iter().map(|value| value * value).sum();
        let rows = || self.weight.chunks(features).zip(bias);
        let h: Vec<f64> = (0..features).map(|k| rows().map(|(row, g)| g * row[k]).sum::<f64>() / square).collect();
        let along = |row: &[f64]| row.iter().zip(&h).map(|(w, h)| w * h).sum::<f64>();
        let logits: Vec<f64> = weights.weight.chunks(features).zip(offsets).map(|(row, b)| along(row) + b).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
        let labels: Vec<f64> = logits.iter().zip(bias).map(|(logit, g)| (logit - most).exp() / sum - g).collect();
        let label = (0..labels.len()).max_by(|&a, &b| labels[a].total_cmp(&labels[b]))?;
        let hard = |class: usize| f64::from(u8::from(class == label));
        let left: f64 = labels.iter().enumerate().map(|(class, y)| (y - hard(class)).powi(2)).sum();
        (left.sqrt() <= CERTAIN * square.sqrt()).then_some(label)
    }

    /// n_c = B (1/C - g_c / scale), rounded to whole numbers.
    fn counted(&self, bias: &[f64], pictures: usize, scale: f64) -> Vec<usize> {
        let share = 1.0 / self.classes as f64;
        let estimates: Vec<f64> = bias.iter().map(|value| pictures as f64 * (share - value / scale)).collect();
        let counts = rounded_counts(&estimates, pictures);
        counts.into_iter().enumerate().flat_map(|(class, count)| std::iter::repeat_n(class, count)).collect()
    }
}

const HARD_LABELS: &str = "the loss is cross entropy with hard labels";
const UNIFORM: &str = "the loss is cross entropy with hard labels and equal weights of the classes, and the model is as unsure as before training";

fn turned(labels: Vec<usize>) -> HeadLabels {
    let if_ = "the update is the negative of a gradient, as weights after training less those before are".to_owned();
    HeadLabels::Read { labels, if_: Some(if_), is_turned: true }
}

fn listed(classes: &[usize]) -> String {
    classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: usize = 10;
    const FEATURES: usize = 24;

    fn softmax(logits: &[f64]) -> Vec<f64> {
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        logits.iter().map(|logit| logit.exp() / sum).collect()
    }

    /// The mean of d h^T over samples with these differences d at the logits, rounded to f32.
    fn of(samples: &[(Vec<f64>, Vec<f64>)], factor: f64) -> HeadGradient {
        let classes = samples[0].0.len();
        let f32s = |value: f64| f64::from((factor * value / samples.len() as f64) as f32);
        let entry = |row: usize, column: usize| samples.iter().map(|(d, h)| d[row] * h[column]).sum::<f64>();
        let weight = (0..classes * FEATURES).map(|i| f32s(entry(i / FEATURES, i % FEATURES))).collect();
        let bias = (0..classes).map(|class| f32s(samples.iter().map(|(d, _)| d[class]).sum())).collect();
        HeadGradient { weight, bias: Some(bias), classes }
    }

    fn features(seed: usize) -> Vec<f64> {
        (0..FEATURES).map(|i| ((i * i + 7 * seed * i + 3 * seed) as f64 * 0.61).sin()).collect()
    }

    fn less(p: Vec<f64>, y: impl Fn(usize) -> f64) -> Vec<f64> {
        p.into_iter().enumerate().map(|(class, p)| p - y(class)).collect()
    }

    fn hard(logits: &[f64], label: usize) -> Vec<f64> {
        less(softmax(logits), |class| f64::from(u8::from(class == label)))
    }

    fn labels(gradient: &HeadGradient, pictures: usize) -> (Vec<usize>, bool) {
        match gradient.labels(pictures, true, None) {
            HeadLabels::Read { labels, is_turned, .. } => (labels, is_turned),
            HeadLabels::CannotTell(why) => panic!("{why}"),
        }
    }

    fn why(gradient: &HeadGradient, pictures: usize) -> String {
        match gradient.labels(pictures, true, None) {
            HeadLabels::CannotTell(why) => why,
            read => panic!("{read:?}"),
        }
    }

    proptest! {
        /// Whatever the logits: the hard label of one picture, from the gradient and from its negative, and the number of
        /// pictures.
        #[test]
        fn a_hard_label_is_read_with_either_sign(
            logits in proptest::collection::vec(-4.0..4.0_f64, 3..12), at in 0.0..1.0_f64, rate in 1e-4..1.0_f64
        ) {
            let label = (at * logits.len() as f64) as usize;
            let d = hard(&logits, label);
            prop_assume!(d.iter().all(|value| value.abs() > 1e-6));
            let sample = [(d, features(1))];
            let gradient = of(&sample, 1.0);
            prop_assert_eq!(labels(&gradient, 1), (vec![label], false));
            prop_assert_eq!(labels(&of(&sample, -rate), 1), (vec![label], true));
            prop_assert_eq!(gradient.pictures(), Some(1));
        }

        /// Independent classes do not sum to zero unless by chance, and never name a sure class.
        #[test]
        fn independent_classes_are_no_label(
            logits in proptest::collection::vec(-1.0..1.0_f64, CLASSES), positive in proptest::bits::u16::between(0, CLASSES)
        ) {
            let d: Vec<f64> = logits.iter().enumerate().map(|(class, logit)| {
                1.0 / (1.0 + (-logit).exp()) - f64::from(positive >> class & 1)
            }).collect();
            let balance = d.iter().sum::<f64>().abs() / d.iter().map(|value| value.abs()).sum::<f64>();
            prop_assume!(balance > 2.0 * BALANCED);
            let gradient = of(&[(d, features(2))], 1.0);
            prop_assert!(matches!(gradient.labels(1, true, None), HeadLabels::CannotTell(_)));
        }
    }

    #[test]
    fn several_pictures_are_counted_with_either_sign() {
        let flat = [0.01, -0.02, 0.0, 0.03, 0.01, 0.0, 0.02, -0.01, 0.0, 0.0];
        let logits = |i: usize| flat.iter().map(|logit| logit * (1.0 + i as f64)).collect::<Vec<_>>();
        let batch: Vec<_> =
            [1, 1, 4, 8].into_iter().enumerate().map(|(i, y)| (hard(&logits(i), y), features(i))).collect();
        assert_eq!(labels(&of(&batch, 1.0), 4), (vec![1, 1, 4, 8], false));
        assert_eq!(labels(&of(&batch, -0.1), 4), (vec![1, 1, 4, 8], true));
        // Clipped, and of a summed loss.
        for factor in [0.05, 4.0] {
            assert_eq!(labels(&of(&batch, factor), 4), (vec![1, 1, 4, 8], false), "{factor}");
        }
        assert_eq!(of(&batch, 1.0).pictures(), Some(4));
    }

    #[test]
    fn other_losses_are_named() {
        let flat = [0.01, -0.02, 0.0, 0.03, 0.01, 0.0, 0.02, -0.01, 0.0, 0.0];
        let mixed = less(softmax(&flat), |class| if class == 3 || class == 5 { 0.5 } else { 0.0 });
        let said = why(&of(&[(mixed, features(1))], 1.0), 1);
        assert!(said.contains("this has 2 (classes 3, 5); it may be a soft label, as of mixup"), "{said}");
        let none: Vec<f64> = vec![0.5; CLASSES];
        assert!(why(&of(&[(none, features(1))], 1.0), 1).ends_with("the classes are: none"));
        let one = HeadGradient { weight: vec![0.1; FEATURES], bias: Some(vec![-0.5]), classes: 1 };
        assert!(why(&one, 1).contains("one output"));
        let zero = HeadGradient { weight: vec![0.0; 2 * FEATURES], bias: Some(vec![0.0; 2]), classes: 2 };
        assert!(why(&zero, 1).contains("all zero"));
        let two = of(&[(vec![-0.5, 0.5], features(1))], 1.0);
        let HeadLabels::Read { if_: Some(if_), .. } = two.labels(1, true, None) else { panic!() };
        assert!(if_.contains("two classes leave open"), "{if_}");
    }

    /// The head's weights decide what signs leave open.
    #[test]
    fn the_heads_weights_make_a_hard_label_certain() {
        let weight: Vec<f64> = (0..CLASSES * FEATURES).map(|i| 0.3 * (i as f64 * 0.77).cos()).collect();
        let weights = HeadGradient { bias: Some(vec![0.1; CLASSES]), weight, classes: CLASSES };
        let h = features(5);
        let row = |row: &[f64]| row.iter().zip(&h).map(|(w, h)| w * h).sum::<f64>() + 0.1;
        let logits: Vec<f64> = weights.weight.chunks(FEATURES).map(row).collect();
        let read = |y: &dyn Fn(usize) -> f64, factor| {
            of(&[(less(softmax(&logits), y), h.clone())], factor).labels(1, true, Some(&weights))
        };
        let hard = read(&|class| f64::from(u8::from(class == 6)), 1.0);
        assert_eq!(hard, HeadLabels::Read { labels: vec![6], if_: None, is_turned: false });
        // Another scale, sign or label is not.
        let soft = read(&|class| if class == 6 || class == 2 { 0.5 } else { 0.0 }, 1.0);
        let turned = read(&|class| f64::from(u8::from(class == 6)), -0.1);
        // A model that is sure of another class, and a clipped gradient: p - g looks like that class.
        let sure: Vec<f64> = logits.iter().enumerate().map(|(class, _)| if class == 2 { 9.0 } else { 0.0 }).collect();
        let wrong = of(&[(less(softmax(&sure), |class| f64::from(u8::from(class == 6))), h.clone())], 0.005);
        let certain = HeadGradient { weight: vec![0.0; CLASSES * FEATURES], bias: Some(sure), classes: CLASSES };
        let clipped = wrong.labels(1, true, Some(&certain));
        for other in [soft, turned, clipped] {
            assert!(!matches!(other, HeadLabels::Read { if_: None, .. }), "{other:?}");
        }
    }

    #[test]
    fn coarse_numbers_hide_no_single_picture() {
        let flat: Vec<f64> = (0..CLASSES).map(|class| class as f64 * 0.1).collect();
        let exact = of(&[(hard(&flat, 7), features(3))], 1.0);
        let coarse = |steps: f64| {
            let largest = exact.weight.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
            let weight = exact.weight.iter().map(|value| (value / largest * steps).round() / steps * largest * 0.37);
            HeadGradient { weight: weight.collect(), ..exact.clone() }
        };
        assert_eq!(coarse(127.0).pictures(), Some(1), "8 bits");
        assert_eq!(coarse(2048.0).pictures(), Some(1), "11 bits, then scaled");
    }
}
