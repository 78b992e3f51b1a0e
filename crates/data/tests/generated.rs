//! Properties of the generated pictures: reproducible, not too easy, and colour does not reveal the class.

use sha1::{Digest, Sha1};
use unmask_data::datasets::{
    DataSet, Labelled, Source,
    generated::{CLASSES, Half, SIDE, TEST, TRAIN, generate},
};

#[test]
fn the_same_seed_gives_the_same_bytes_everywhere() {
    let set = generate(Half::Train, 50, 1).unwrap();
    let bytes: Vec<u8> = (0..50).flat_map(|index| set.rgb(index).unwrap()).copied().collect();
    let sha1: String = Sha1::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(sha1, "192111105238a05ea6330762ee89ace67c62f3e0");
    let longer = generate(Half::Train, 70, 1).unwrap();
    assert_eq!(longer.subset(&(0..50).collect::<Vec<_>>()), set, "a longer set begins with the shorter one");
    assert_eq!(longer.labels()[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
    let test = generate(Half::Test, 50, 1).unwrap();
    let other = generate(Half::Train, 50, 2).unwrap();
    for index in 0..50 {
        let picture = set.rgb(index);
        assert!((0..50).all(|test_index| test.rgb(test_index) != picture), "no picture is in both halves");
        assert_ne!(other.rgb(index), picture);
    }
}

#[test]
fn it_loads_by_name() {
    let set = DataSet::load(&Source::Generated, "/nowhere".as_ref(), 1).unwrap();
    assert_eq!((set.train.len(), set.test.len(), set.train.side()), (TRAIN, TEST, SIDE));
    assert_eq!(set.test.classes(), CLASSES);
    for half in [&set.train, &set.test] {
        let count = |label| half.labels().iter().filter(|&&found| found == label).count();
        assert!((0..10).all(|label| count(label) == half.len() / 10));
    }
}

/// Softmax regression, `[features] -> [classes]`, trained with stochastic gradient descent.
struct Linear {
    features: usize,
    weights: Vec<f32>,
}

impl Linear {
    fn logits(&self, x: &[f32]) -> Vec<f32> {
        let rows = self.weights.chunks_exact(self.features + 1);
        rows.map(|row| row[self.features] + row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>()).collect()
    }

    fn train(x: &[Vec<f32>], labels: &[u8], epochs: usize, rate: f32) -> Self {
        let features = x[0].len();
        let mut model = Self { features, weights: vec![0.0; (features + 1) * CLASSES.len()] };
        for epoch in 0..epochs {
            let rate = rate * (1.0 - epoch as f32 / epochs as f32);
            for (x, &label) in x.iter().zip(labels) {
                let logits = model.logits(x);
                let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let exponentials: Vec<f32> = logits.iter().map(|logit| (logit - largest).exp()).collect();
                let sum: f32 = exponentials.iter().sum();
                for (class, row) in model.weights.chunks_exact_mut(features + 1).enumerate() {
                    let target = if class == usize::from(label) { 1.0 } else { 0.0 };
                    let step = rate * (target - exponentials[class] / sum);
                    row[features] += step;
                    row.iter_mut().zip(x).for_each(|(weight, x)| *weight += step * x);
                }
            }
        }
        model
    }

    fn accuracy(&self, x: &[Vec<f32>], labels: &[u8]) -> f64 {
        let right = x.iter().zip(labels).filter(|(x, label)| {
            let logits = self.logits(x);
            (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])) == Some(usize::from(**label))
        });
        right.count() as f64 / labels.len() as f64
    }
}

fn pixels(set: &Labelled) -> Vec<Vec<f32>> {
    (0..set.len()).map(|index| set.chw(index).unwrap().iter().map(|value| value * 2.0 - 1.0).collect()).collect()
}

fn colours(set: &Labelled) -> Vec<Vec<f32>> {
    let area = (SIDE * SIDE) as f32;
    let of_picture = |chw: Vec<f32>| {
        let means: Vec<f32> = chw.chunks_exact(SIDE * SIDE).map(|plane| plane.iter().sum::<f32>() / area).collect();
        means.iter().map(|mean| (mean - 0.5) * 10.0).collect()
    };
    (0..set.len()).map(|index| of_picture(set.chw(index).unwrap())).collect()
}

/// `scripts/generated_reference.py` measures the accuracy of PyTorch's linear model and of the nano ViT.
#[test]
fn a_linear_model_stays_below_sixty_per_cent() {
    let (train, test) = (generate(Half::Train, TRAIN, 1).unwrap(), generate(Half::Test, TEST, 1).unwrap());
    let by_pixels = Linear::train(&pixels(&train), train.labels(), 6, 3e-4).accuracy(&pixels(&test), test.labels());
    assert!((0.35..0.6).contains(&by_pixels), "{by_pixels}");
    // Chance is 0.1.
    let by_colour = Linear::train(&colours(&train), train.labels(), 5, 1e-2).accuracy(&colours(&test), test.labels());
    assert!(by_colour < 0.14, "{by_colour}");
}
