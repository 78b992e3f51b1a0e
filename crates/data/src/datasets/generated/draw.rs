//! Draws one picture: shape, clutter, light and noise.

use std::ops::Range;

use rand::Rng;

use super::{SIDE, shape};

/// Sample points along each axis of a pixel, for anti-aliasing.
const SAMPLES: usize = 3;
/// The farthest that any shape reaches from its origin: the corner of a square with half-side 1.
const REACH: f32 = 1.42;
/// Range of a shape's extra brightness over the background, per channel.
const CONTRAST: [f32; 2] = [0.2, 0.55];
const NOISE: f32 = 0.04;

/// A number in `[from, to)`, the same on every platform.
fn uniform(rng: &mut impl Rng, [from, to]: [f32; 2]) -> f32 {
    from + (to - from) * ((rng.next_u32() >> 8) as f32 / (1 << 24) as f32)
}

/// A random direction as `(cosine, sine)`: a point of the unit disc, normalised. Does not compute a sine, because its
/// last bits differ between platforms.
fn direction(rng: &mut impl Rng) -> (f32, f32) {
    loop {
        let (x, y) = (uniform(rng, [-1.0, 1.0]), uniform(rng, [-1.0, 1.0]));
        let length = (x * x + y * y).sqrt();
        if (0.1..1.0).contains(&length) {
            return (x / length, y / length);
        }
    }
}

/// An approximately normal number with this standard deviation: the sum of four uniform ones.
fn noise(rng: &mut impl Rng, deviation: f32) -> f32 {
    let bytes = rng.next_u32().to_le_bytes();
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    // The sum of four uniform bytes has mean 510 and standard deviation 147.8.
    (sum as f32 - 510.0) / 147.8 * deviation
}

struct Placement {
    centre: (f32, f32),
    radius: f32,
    cosine: f32,
    sine: f32,
}

impl Placement {
    /// For the shape that defines the class: large, near the middle, tilted by up to 35 degrees.
    fn of_shape(rng: &mut impl Rng) -> Self {
        let radius = uniform(rng, [8.0, 13.0]);
        let reach = [SIDE as f32 / 2.0 - 4.5, SIDE as f32 / 2.0 + 4.5];
        let tilt = uniform(rng, [-0.7, 0.7]);
        let length = (1.0 + tilt * tilt).sqrt();
        let centre = (uniform(rng, reach), uniform(rng, reach));
        Self { centre, radius, cosine: 1.0 / length, sine: tilt / length }
    }

    /// For clutter: small, anywhere, at any angle.
    fn of_rubbish(rng: &mut impl Rng) -> Self {
        let radius = uniform(rng, [1.5, 4.0]);
        let reach = [0.0, SIDE as f32];
        let (cosine, sine) = direction(rng);
        Self { centre: (uniform(rng, reach), uniform(rng, reach)), radius, cosine, sine }
    }

    /// The share of each pixel that `covers` includes, `[side, side]` in [0, 1].
    fn coverage(&self, covers: impl Fn(f32, f32) -> bool) -> Vec<f32> {
        let step = 1.0 / SAMPLES as f32;
        let at = |pixel: usize, sample: usize| pixel as f32 + (sample as f32 + 0.5) * step;
        let covered = |x: f32, y: f32| {
            let (x, y) = ((x - self.centre.0) / self.radius, (y - self.centre.1) / self.radius);
            covers(self.cosine * x + self.sine * y, self.cosine * y - self.sine * x)
        };
        let mut coverage = vec![0.0; SIDE * SIDE];
        let [columns, rows] = [self.centre.0, self.centre.1].map(|centre| self.pixels_around(centre));
        for y in rows {
            for x in columns.clone() {
                let points = (0..SAMPLES * SAMPLES)
                    .filter(|sample| covered(at(x, sample % SAMPLES), at(y, sample / SAMPLES)))
                    .count();
                coverage[y * SIDE + x] = points as f32 / (SAMPLES * SAMPLES) as f32;
            }
        }
        coverage
    }

    /// The pixels along one axis that the shape can reach.
    fn pixels_around(&self, centre: f32) -> Range<usize> {
        let reach = REACH * self.radius;
        let edge = |position: f32| (position.max(0.0) as usize).min(SIDE);
        edge(centre - reach)..edge(centre + reach + 1.0)
    }
}

pub(super) fn picture(label: usize, rng: &mut impl Rng, pixels: &mut Vec<u8>) {
    let mask = Placement::of_shape(rng).coverage(|x, y| shape::covers(label, x, -y));
    let mut layers = [mask.clone(), mask.clone(), mask];
    for layer in &mut layers {
        let contrast = uniform(rng, CONTRAST);
        layer.iter_mut().for_each(|value| *value *= contrast);
    }
    rubbish(rng, &mut layers);
    let [red, green, blue] = layers.map(|layer| settle(rng, layer));
    for ((red, green), blue) in red.into_iter().zip(green).zip(blue) {
        pixels.extend([red, green, blue]);
    }
}

/// Adds small bars and blobs, and a brightness gradient over the whole picture.
fn rubbish(rng: &mut impl Rng, layers: &mut [Vec<f32>; 3]) {
    for _ in 0..2 {
        let thin = uniform(rng, [0.2, 0.9]);
        let mask = Placement::of_rubbish(rng).coverage(|x, y| x.abs() < 1.0 && y.abs() < thin);
        for layer in layers.iter_mut() {
            let colour = uniform(rng, [-0.3, 0.3]);
            layer.iter_mut().zip(&mask).for_each(|(value, covered)| *value += covered * colour);
        }
    }
    for layer in layers {
        let (cosine, sine) = direction(rng);
        let slope = uniform(rng, [0.0, 0.2]) / SIDE as f32;
        for (pixel, value) in layer.iter_mut().enumerate() {
            *value += slope * (cosine * (pixel % SIDE) as f32 + sine * (pixel / SIDE) as f32);
        }
    }
}

/// Shifts a channel to a mean that is drawn independently of its content, adds noise, and rounds to bytes.
fn settle(rng: &mut impl Rng, layer: Vec<f32>) -> Vec<u8> {
    let mean = layer.iter().sum::<f32>() / layer.len() as f32;
    let target = uniform(rng, [0.35, 0.65]);
    let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
    layer.into_iter().map(|value| byte(value - mean + target + noise(rng, NOISE))).collect()
}
