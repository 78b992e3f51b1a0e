//! Labels against softmax gradients made by formula: dl/d(head.weight) = mean of (p - y) h^T.

mod common;

use common::{masked, rng, shape, uniform};
use unmask_attack::{CannotAttack, Precision, Source, Tensors, label, label_counts};
use unmask_core::{VitConfig, VitPreset, VitSpec};

fn config(classes: usize) -> VitConfig {
    VitSpec { classes, ..VitSpec::new(VitPreset::Lab) }.config()
}

/// The head's gradients of a batch with `labels`, whose features share a direction as a fresh model's do.
fn head(config: &VitConfig, labels: &[usize], seed: u64) -> Tensors {
    let mut rng = rng(seed);
    let (classes, dim) = (config.classes, config.dim);
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
    let mut gradients = Tensors::new(Source::Gradients, config, Precision::F64);
    gradients.insert("head.weight", &shape(config, "head.weight"), weight).unwrap();
    gradients.insert("head.bias", &shape(config, "head.bias"), bias).unwrap();
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
        // At .95 a row keeps 10 of 192 entries.
        let hits = hits.count();
        assert!(hits >= if rate > 0.9 { 198 } else { 200 }, "R {rate}: {hits} of 200");
    }
}

/// Two rows of opposite sign and equal energy: only the bias tells.
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
        assert_eq!(label_counts(&gradients, 16, None).unwrap().counts, truth);
        let found = label_counts(&masked(&gradients, &mut rng(seed), 0.5, 0.5), 16, None).unwrap();
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
    assert_eq!(label(&with("head.weight", 0.0, true)), Err(CannotAttack::ZeroGradient { name: "head.weight" }));
    assert_eq!(label(&with("head.weight", 1.0, false)), Err(CannotAttack::NothingKept { name: "head.weight" }));
    assert_eq!(label(&with("head.bias", 1.0, false)).unwrap().label, 4);
    let hidden = with("head.bias", 1.0, false);
    assert_eq!(label_counts(&hidden, 4, None), Err(CannotAttack::NothingKept { name: "head.bias" }));
    let error = label_counts(&good, 4, Some(&[0.5; 2])).unwrap_err();
    assert_eq!(error.to_string(), "2 predicted shares were given for 10 classes");
    assert_eq!(label_counts(&good, 0, None).unwrap().counts, [0; 10]);
}
