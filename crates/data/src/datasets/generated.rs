//! A data set made from a seed, for use without a download.
//!
//! Ten classes of 32 x 32 RGB pictures. Each picture shows one light shape with random position, size, tilt and colour
//! on a darker background, with small clutter and noise. Colours and channel means are drawn independently of the
//! class, so that only the shape identifies it.
//!
//! The same seed gives the same bytes on every platform: the generator is ChaCha8, and floating point uses only
//! operations that IEEE 754 defines to the last bit (`+ - * /`, square roots, rounding).

mod draw;
mod shape;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::datasets::{Labelled, LabelledError};

/// Side of a picture in pixels.
pub const SIDE: usize = 32;
/// Number of training pictures that [`DataSet::load`](crate::datasets::DataSet::load) generates.
pub const TRAIN: usize = 10_000;
/// Number of test pictures that it generates.
pub const TEST: usize = 2_000;
pub const CLASSES: [&str; 10] = shape::NAMES;

/// Half of the set. No picture is in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Train,
    Test,
}

/// Generates the first `count` pictures of a half. Labels cycle through the classes, so that ten consecutive pictures
/// show all ten. A longer set starts with the pictures of a shorter one.
pub fn generate(half: Half, count: usize, seed: u64) -> Result<Labelled, LabelledError> {
    let mut pixels = Vec::with_capacity(count * SIDE * SIDE * 3);
    let mut labels = Vec::with_capacity(count);
    for index in 0..count {
        let label = index % CLASSES.len();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Each picture has its own stream, so that it does not depend on the pictures before it.
        rng.set_stream(2 * index as u64 + u64::from(half == Half::Test));
        draw::picture(label, &mut rng, &mut pixels);
        labels.push(label as u8);
    }
    let classes = CLASSES.iter().map(|&class| class.to_owned()).collect();
    Labelled::new(SIDE, classes, pixels, labels)
}
