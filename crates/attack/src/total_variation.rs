//! Isotropic total variation of a picture stored patch by patch.

/// Layout of one colour channel as a vector. The index runs over patches first, then over the pixels of a patch, so
/// that one pixel position of all patches is a contiguous slice.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    side: usize,
    /// Vector index of the pixel at `y * side + x`.
    place: Vec<usize>,
}

/// Weights of the differences to the right and downwards, by `y * side + x`; 0 across the border.
#[derive(Debug, Clone)]
pub(crate) struct Roughness {
    right: Vec<f64>,
    down: Vec<f64>,
}

impl Channel {
    pub(crate) fn new(grid: usize, patch: usize) -> Self {
        let side = grid * patch;
        let place = (0..side * side).map(|i| {
            let (y, x) = (i / side, i % side);
            (y % patch * patch + x % patch) * grid * grid + y / patch * grid + x / patch
        });
        Self { side, place: place.collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.place.len()
    }

    /// Differences to the right and downwards at pixel `i`, 0 across the border.
    fn differences(&self, picture: &[f64], i: usize) -> (f64, f64) {
        let here = picture[self.place[i]];
        let right = if i % self.side + 1 < self.side { picture[self.place[i + 1]] - here } else { 0.0 };
        let down = if i + self.side < self.len() { picture[self.place[i + self.side]] - here } else { 0.0 };
        (right, down)
    }

    /// Weights w for which sum w (dx^2 + dy^2) majorises the total variation at `picture`: 1 / sqrt(dx^2 + dy^2 +
    /// eps^2).
    pub(crate) fn roughness(&self, picture: &[f64], eps: f64) -> Roughness {
        let weight = |i| {
            let (right, down) = self.differences(picture, i);
            1.0 / (right * right + down * down + eps * eps).sqrt()
        };
        let weights: Vec<f64> = (0..self.len()).map(weight).collect();
        let mut roughness = Roughness { right: weights.clone(), down: weights };
        for i in 0..self.len() {
            if i % self.side + 1 == self.side {
                roughness.right[i] = 0.0;
            }
            if i + self.side >= self.len() {
                roughness.down[i] = 0.0;
            }
        }
        roughness
    }

    /// Adds `scale` D^T W D `picture` to `out`, with the differences D and their weights W.
    pub(crate) fn add_laplacian(&self, roughness: &Roughness, scale: f64, picture: &[f64], out: &mut [f64]) {
        for i in 0..self.len() {
            let here = self.place[i];
            for (weight, step) in [(roughness.right[i], 1), (roughness.down[i], self.side)] {
                if weight > 0.0 {
                    let there = self.place[i + step];
                    let flow = scale * weight * (picture[there] - picture[here]);
                    out[here] -= flow;
                    out[there] += flow;
                }
            }
        }
    }

    /// The diagonal of D^T W D.
    pub(crate) fn diagonal(&self, roughness: &Roughness) -> Vec<f64> {
        let mut diagonal = vec![0.0; self.len()];
        for i in 0..self.len() {
            for (weight, step) in [(roughness.right[i], 1), (roughness.down[i], self.side)] {
                if weight > 0.0 {
                    diagonal[self.place[i]] += weight;
                    diagonal[self.place[i + step]] += weight;
                }
            }
        }
        diagonal
    }
}
