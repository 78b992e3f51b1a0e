//! E_a: a random orthogonal matrix times a diagonal one.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

/// Rows transformed together. All of them share one read of the reflections, and the compiler vectorizes across them.
const LANES: usize = 8;

/// E_a = Q D, `[L, L]`: Q orthogonal and uniformly distributed (Haar), D diagonal with entries in [0.5, 2], so that the
/// condition number is at most 4.
///
/// Q = H_1 H_2 ... H_{L-1} S is stored as its Householder reflections. Each maps a Gaussian vector of L, L-1, ..., 2
/// entries to a multiple of the first unit vector; S holds the signs of those multiples (Stewart, The efficient
/// generation of random orthogonal matrices, 1980, section 3). Drawing and storing Q takes L^2 / 2 numbers, and the
/// inverse D^-1 S H_{L-1} ... H_1 is exact by construction. Applying either takes L^2 multiplications, the same as a
/// dense matrix.
///
/// Uses only +, -, *, / and square roots of f64 and `libm`'s logarithm, in a fixed order, so that the browser and the
/// native tool compute the same bits.
pub(super) struct PatchMatrix {
    /// Normals of H_1, ..., H_{L-1}, with L, ..., 2 entries and squared length 2: H x = x - v (v . x).
    normals: Zeroizing<Vec<f64>>,
    /// S D, `[L]`.
    scale: Zeroizing<Vec<f64>>,
}

impl PatchMatrix {
    /// Draws the matrix for patches of `size` = L values.
    pub(super) fn new(seed: &[u8; 32], size: usize) -> Self {
        let mut random = Random { rng: ChaCha20Rng::from_seed(*seed), spare: None };
        let mut normals = Zeroizing::new(Vec::with_capacity(size * (size + 1) / 2));
        let mut scale = Zeroizing::new(Vec::with_capacity(size));
        for start in 0..size {
            let first = normals.len();
            normals.extend((start..size).map(|_| random.normal()));
            let vector = &mut normals[first..];
            // H maps x to -sign(x_1) |x| e_1.
            let sign = if vector[0] < 0.0 { -1.0 } else { 1.0 };
            if vector.len() == 1 {
                // The last 1 x 1 block is only a sign.
                normals.truncate(first);
                scale.push(sign);
            } else {
                let norm = dot(vector, vector).sqrt();
                vector[0] += sign * norm;
                let unit = (2.0 / dot(vector, vector)).sqrt();
                vector.iter_mut().for_each(|value| *value *= unit);
                scale.push(-sign);
            }
        }
        for sign in scale.iter_mut() {
            *sign *= 0.5 + 1.5 * random.uniform();
        }
        Self { normals, scale }
    }

    /// Computes E_a w for each row w of `rows`, `[n, L]`.
    pub(super) fn encrypt(&self, rows: &mut [f32]) {
        self.transform(rows, |columns| {
            for (column, scale) in columns.iter_mut().zip(self.scale.iter()) {
                column.iter_mut().for_each(|value| *value *= scale);
            }
            let mut end = self.normals.len();
            for len in 2..=columns.len() {
                let start = columns.len() - len;
                reflect(&mut columns[start..], &self.normals[end - len..end]);
                end -= len;
            }
        });
    }

    /// Computes E_a^-1 w for each row w of `rows`, `[n, L]`.
    pub(super) fn decrypt(&self, rows: &mut [f32]) {
        self.transform(rows, |columns| {
            let mut first = 0;
            for len in (2..=columns.len()).rev() {
                let start = columns.len() - len;
                reflect(&mut columns[start..], &self.normals[first..first + len]);
                first += len;
            }
            for (column, scale) in columns.iter_mut().zip(self.scale.iter()) {
                column.iter_mut().for_each(|value| *value /= scale);
            }
        });
    }

    /// Applies `map` to [`LANES`] rows at a time, passed as `[L, LANES]` in f64.
    fn transform(&self, rows: &mut [f32], map: impl Fn(&mut [[f64; LANES]])) {
        let size = self.scale.len();
        let mut columns = Zeroizing::new(vec![[0.0; LANES]; size]);
        for block in rows.chunks_mut(LANES * size.max(1)) {
            for (lane, row) in block.chunks(size).enumerate() {
                for (column, value) in columns.iter_mut().zip(row) {
                    column[lane] = f64::from(*value);
                }
            }
            map(&mut columns);
            for (lane, row) in block.chunks_mut(size).enumerate() {
                for (column, value) in columns.iter().zip(row) {
                    *value = column[lane] as f32;
                }
            }
        }
    }
}

/// Computes x - v (v . x) for each lane x of `columns`.
fn reflect(columns: &mut [[f64; LANES]], normal: &[f64]) {
    let mut dots = [0.0; LANES];
    for (column, entry) in columns.iter().zip(normal) {
        for (dot, value) in dots.iter_mut().zip(column) {
            *dot += entry * value;
        }
    }
    for (column, entry) in columns.iter_mut().zip(normal) {
        for (value, dot) in column.iter_mut().zip(&dots) {
            *value -= entry * dot;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

struct Random {
    rng: ChaCha20Rng,
    spare: Option<f64>,
}

impl Random {
    /// Draws a multiple of 2^-53 in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a standard normal variate by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let radius = (-2.0 * libm::log(s) / s).sqrt();
                self.spare = Some(v * radius);
                return u * radius;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the columns of E_a `[L, L]` in f64: its images of the unit vectors.
    fn columns(matrix: &PatchMatrix) -> Vec<Vec<f64>> {
        let size = matrix.scale.len();
        let mut unit = vec![0.0f32; size * size];
        (0..size).for_each(|i| unit[i * size + i] = 1.0);
        matrix.encrypt(&mut unit);
        unit.chunks(size).map(|row| row.iter().map(|&value| f64::from(value)).collect()).collect()
    }

    /// E_a^T E_a = D^2 exactly when Q^T Q = 1. The columns of E_a are then orthogonal, and their lengths are the
    /// singular values in [0.5, 2], with a ratio of at most 4.
    #[test]
    fn columns_are_orthogonal_and_well_conditioned() {
        for size in [1, 2, 3, 48, 192] {
            let columns = columns(&PatchMatrix::new(&[size as u8; 32], size));
            for (i, a) in columns.iter().enumerate() {
                let norm = dot(a, a).sqrt();
                assert!((0.5 - 1e-6..=2.0 + 1e-6).contains(&norm), "column {i} of {size}: {norm}");
                for b in &columns[..i] {
                    let cosine = dot(a, b) / norm / dot(b, b).sqrt();
                    assert!(cosine.abs() < 1e-6, "{size}: {cosine}");
                }
            }
        }
    }

    #[test]
    fn lengths_change_by_no_more_than_the_condition_number() {
        let matrix = PatchMatrix::new(&[5; 32], 768);
        let mut random = Random { rng: ChaCha20Rng::from_seed([6; 32]), spare: None };
        let plain: Vec<f32> = (0..20 * 768).map(|_| random.normal() as f32).collect();
        let mut encrypted = plain.clone();
        matrix.encrypt(&mut encrypted);
        for (plain, encrypted) in plain.chunks(768).zip(encrypted.chunks(768)) {
            let norm = |row: &[f32]| row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let stretch = norm(encrypted) / norm(plain);
            assert!((0.5..=2.0).contains(&stretch), "{stretch}");
        }
    }

    /// Under the Haar measure, an entry of Q has mean 0 and variance 1/L, and the signs of the first column's entries
    /// and of the determinant are fair. Without S, the first entries would all be negative.
    #[test]
    fn entries_are_spread_as_the_haar_measures() {
        const SIZE: usize = 4;
        const MATRICES: usize = 4000;
        let mut sums = [[0.0f64; SIZE]; SIZE];
        let mut squares = [[0.0f64; SIZE]; SIZE];
        for index in 0..MATRICES {
            let mut seed = [0; 32];
            seed[..8].copy_from_slice(&(index as u64).to_le_bytes());
            let matrix = PatchMatrix::new(&seed, SIZE);
            for (column, entries) in columns(&matrix).iter().enumerate() {
                let length = dot(entries, entries).sqrt();
                for (row, entry) in entries.iter().enumerate() {
                    sums[column][row] += entry / length;
                    squares[column][row] += (entry / length).powi(2);
                }
            }
        }
        let n = MATRICES as f64;
        for (sum, square) in sums.iter().flatten().zip(squares.iter().flatten()) {
            // The square of an entry is Beta(1/2, (L-1)/2): mean 1/L, variance 2 (L-1) / (L^2 (L+2)).
            let l = SIZE as f64;
            assert!(sum.abs() < 5.0 * (n / l).sqrt(), "{sum}");
            assert!((square - n / l).abs() < 5.0 * (n * 2.0 * (l - 1.0) / (l * l * (l + 2.0))).sqrt(), "{square}");
        }
    }

    proptest! {
        #[test]
        fn decryption_inverts_encryption(seed in any::<[u8; 32]>(), size in 1usize..60, rows in 0usize..20) {
            let matrix = PatchMatrix::new(&seed, size);
            let mut random = Random { rng: ChaCha20Rng::from_seed(seed), spare: None };
            let plain: Vec<f32> = (0..rows * size).map(|_| random.normal() as f32).collect();
            let mut values = plain.clone();
            matrix.encrypt(&mut values);
            matrix.decrypt(&mut values);
            for (value, plain) in values.iter().zip(&plain) {
                prop_assert!((value - plain).abs() < 1e-5, "{value} for {plain}");
            }
        }
    }
}
