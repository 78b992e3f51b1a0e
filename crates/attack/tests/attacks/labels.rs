//! Labels from generated softmax gradients: dl/d(head's weight) = mean of (p - y) h^T.

use super::common::{masked, rng, shape, uniform};
use unmask_attack::{AttackError, ModelShape, Needs, Rounding, TensorSource, Tensors, label, label_counts};
use unmask_core::{Architecture, ResnetPreset, VitConfig, VitPreset};

fn config(classes: usize) -> VitConfig {
    VitConfig { classes, ..VitPreset::Lab.into() }
}

/// Gradients of the head for a batch with `labels`, whose features share a direction as in a fresh model.
fn head(model: impl Into<ModelShape>, labels: &[usize], seed: u64) -> Tensors {
    let (model, mut rng) = (model.into(), rng(seed));
    let names = Needs::of_labels(model).gradients;
    let layout = model.layout();
    let [weights, biases] = [&names.required[0], &names.optional[0]].map(|name| layout.get(name).unwrap());
    let (classes, dim) = (weights.shape[0], weights.shape[1]);
    let common = uniform(&mut rng, dim, 1.0);
    let (mut weight, mut bias) = (vec![0.0; classes * dim], vec![0.0; classes]);
    for &label in labels {
        let h: Vec<f64> = common.iter().zip(uniform(&mut rng, dim, 0.1)).map(|(a, b)| a + b).collect();
        let logits = uniform(&mut rng, classes, 0.3);
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        for class in 0..classes {
            let error = (logits[class].exp() / sum - f64::from(u8::from(class == label))) / labels.len() as f64;
            bias[class] += error;
            h.iter().enumerate().for_each(|(i, h)| weight[class * dim + i] += error * h);
        }
    }
    let mut gradients = Tensors::new(TensorSource::Gradients, model, Rounding::F64);
    gradients.insert(&weights.name, &weights.shape, weight).unwrap();
    gradients.insert(&biases.name, &biases.shape, bias).unwrap();
    gradients
}

#[test]
fn label_of_one_survives_every_mask() {
    let config = config(10);
    for rate in [0.0, 0.2, 0.5, 0.8, 0.95] {
        let hits = (0..200_u64).filter(|&seed| {
            let truth = seed as usize % 10;
            label(&masked(&head(&config, &[truth], seed), &mut rng(seed), rate, rate)).unwrap().label == truth
        });
        // At R = 0.95 a row keeps 10 of 192 entries.
        let hits = hits.count();
        assert!(hits >= if rate > 0.9 { 198 } else { 200 }, "R {rate}: {hits} of 200");
    }
}

/// A client may claim any number of pictures, and may send a bias gradient that rules out every class.
#[test]
fn a_claim_of_billions_is_shared_out_at_once() {
    let config = config(10);
    let honest = head(&config, &[3], 1);
    let mut gradients = Tensors::new(TensorSource::Gradients, &config, Rounding::F32);
    let weight = honest.values("head.weight").unwrap().to_vec();
    gradients.insert("head.weight", &shape(&config, "head.weight"), weight).unwrap();
    gradients.insert("head.bias", &shape(&config, "head.bias"), vec![1.0; 10]).unwrap();
    let most = 1 << 50;
    let counts = label_counts(&gradients, most).unwrap().counts;
    assert_eq!(counts.iter().sum::<usize>(), most);
    assert!(counts.iter().all(|count| count.abs_diff(most / 10) <= 1), "{counts:?}");
}

/// A ResNet's head is named `fc`.
#[test]
fn a_resnets_labels_are_read_like_a_vits() {
    let resnet = Architecture::from(ResnetPreset::Nano);
    for seed in 0..20 {
        let gradients = masked(&head(resnet, &[seed as usize % 10], seed), &mut rng(seed), 0.5, 0.5);
        assert_eq!(label(&gradients).unwrap().label, seed as usize % 10);
    }
    assert_eq!(label_counts(&head(resnet, &[2, 2, 7, 9], 1), 4).unwrap().counts, [0, 0, 2, 0, 0, 0, 0, 1, 0, 1]);
    let nothing = Tensors::new(TensorSource::Gradients, resnet, Rounding::F32);
    assert_eq!(label(&nothing).unwrap_err().to_string(), "the gradients lack \"fc.weight\"");
}

/// Only the bias distinguishes two rows of opposite sign and equal energy.
#[test]
fn two_classes_are_told_by_sign() {
    let config = config(2);
    for truth in [0, 1] {
        let guess = label(&head(&config, &[truth], 1)).unwrap();
        assert_eq!((guess.label, guess.by_bias), (truth, Some(truth)));
        assert!((guess.margin - 1.0).abs() < 1e-9);
    }
}

#[test]
fn counts_of_batches() {
    let config = config(10);
    let labels = [0, 0, 0, 3, 3, 7, 7, 7, 7, 9, 9, 1, 1, 1, 1, 1];
    let truth = [3, 5, 0, 2, 0, 0, 0, 4, 0, 2];
    for seed in 0..20 {
        let gradients = head(&config, &labels, seed);
        assert_eq!(label_counts(&gradients, 16).unwrap().counts, truth);
        let found = label_counts(&masked(&gradients, &mut rng(seed), 0.5, 0.5), 16).unwrap();
        let wrong: usize = found.counts.iter().zip(truth).map(|(a, b)| a.abs_diff(b)).sum();
        assert!(wrong <= 2 && found.counts.iter().sum::<usize>() == 16, "{:?}", found.estimates);
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let config = config(10);
    let good = head(&config, &[4], 1);
    let with = |name: &str, value: f64, kept: bool| {
        let mut gradients = good.clone();
        let shape = shape(&config, name);
        let len = shape.iter().product();
        gradients.insert_kept(name, &shape, vec![value; len], vec![kept; len]).unwrap();
        gradients
    };
    assert_eq!(label(&with("head.weight", 0.0, true)), Err(AttackError::ZeroGradient { name: "head.weight" }));
    assert_eq!(label(&with("head.weight", 1.0, false)), Err(AttackError::NothingKept { name: "head.weight" }));
    assert_eq!(label(&with("head.bias", 1.0, false)).unwrap().label, 4);
    let hidden = with("head.bias", 1.0, false);
    assert_eq!(label_counts(&hidden, 4), Err(AttackError::NothingKept { name: "head.bias" }));
    assert_eq!(label_counts(&good, 0).unwrap().counts, [0; 10]);
}
