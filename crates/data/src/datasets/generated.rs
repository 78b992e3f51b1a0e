//! A data set made from a seed: ten shapes to tell apart where nothing was downloaded.
//!
//! Ten classes of 32 x 32 RGB pictures. Each shows one light shape, of random place, size, tilt and colour, on a darker
//! ground, with rubbish strewn about and noise over everything. Colours and the mean of each channel are drawn without
//! regard to the class, so that only the shape tells it.
//!
//! The same seed gives the same bytes on every platform: ChaCha8, and of floating point only what IEEE 754 prescribes
//! to the last bit (`+ - * /`, square roots, rounding).

mod draw;
mod shape;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::datasets::{Labelled, LabelledError};

/// Side of a picture in pixels.
pub const SIDE: usize = 32;
/// Pictures to train on that [`DataSet::load`](crate::datasets::DataSet::load) makes.
pub const TRAIN: usize = 10_000;
/// Pictures to test with that it makes.
pub const TEST: usize = 2_000;
/// Names of the classes, by label.
pub const CLASSES: [&str; 10] = shape::NAMES;

/// Which half of the set a picture belongs to. No picture is in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Train,
    Test,
}

/// The first `count` pictures of a half. Classes take turns, so that ten pictures in a row are one of each; a longer
/// set begins with the shorter one.
pub fn generate(half: Half, count: usize, seed: u64) -> Result<Labelled, LabelledError> {
    let mut pixels = Vec::with_capacity(count * SIDE * SIDE * 3);
    let mut labels = Vec::with_capacity(count);
    for index in 0..count {
        let label = index % CLASSES.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // A stream of its own: a picture does not depend on how many come before it.
        rng.set_stream(2 * index as u64 + u64::from(half == Half::Test));
        draw::picture(label, &mut rng, &mut pixels);
        labels.push(label as u8);
    }
    let classes = CLASSES.iter().map(|&class| class.to_owned()).collect();
    Labelled::new(SIDE, classes, pixels, labels)
}
