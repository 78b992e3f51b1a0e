//! Prior knowledge about a patch of a photograph.

use faer::{Mat, MatRef, Row};
use unmask_core::VitConfig;

/// Correlation of neighbouring pixels within a channel.
const PIXEL_CORRELATION: f64 = 0.98;
/// Correlation of two colour channels at the same pixel.
const CHANNEL_CORRELATION: f64 = 0.95;

/// Pixels of a patch on a regular grid, channel by channel, as the sites of a Gaussian Markov random field.
///
/// Each channel is a membrane, with a spectrum that falls as 1 / frequency^2 like that of photographs. Channels
/// correlate as in [`covariance_root`]. The precision is Q = R^-1 (x) G, where R `[3, 3]` has ones on its diagonal and
/// 0.95 elsewhere, and G is the graph Laplacian of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PixelGrid {
    /// Pixels along one side of the patch.
    patch: usize,
    /// Distance between neighbouring sites, in pixels.
    stride: usize,
}

impl PixelGrid {
    pub(crate) fn new(patch: usize, stride: usize) -> Self {
        Self { patch, stride }
    }

    /// The grid of every pixel of the same patch.
    pub(crate) fn whole(self) -> Self {
        Self { stride: 1, ..self }
    }

    /// Sites along one side.
    fn side(self) -> usize {
        self.patch.div_ceil(self.stride)
    }

    pub(crate) fn len(self) -> usize {
        VitConfig::CHANNELS * self.side() * self.side()
    }

    /// Indices of the sites among the pixels of the patch.
    pub(crate) fn pixels(self) -> impl Iterator<Item = usize> {
        let Self { patch, stride } = self;
        let sites = (0..patch).step_by(stride);
        (0..VitConfig::CHANNELS).flat_map(move |channel| {
            let sites = sites.clone();
            sites.clone().flat_map(move |y| sites.clone().map(move |x| (channel * patch + y) * patch + x))
        })
    }

    /// Multiplies Q by `x` `[len, n]`.
    pub(crate) fn precision(self, x: MatRef<'_, f64>) -> Mat<f64> {
        let (side, plane) = (self.side(), self.side() * self.side());
        let mut bent = Mat::<f64>::zeros(x.nrows(), x.ncols());
        for (bent, x) in bent.col_iter_mut().zip(x.col_iter()) {
            let mut bent = bent;
            let mut join = |a: usize, b: usize| {
                let difference = x[a] - x[b];
                bent[a] += difference;
                bent[b] -= difference;
            };
            for site in 0..x.nrows() {
                if site % side + 1 < side {
                    join(site, site + 1);
                }
                if site % plane + side < plane {
                    join(site, site + side);
                }
            }
        }
        let (own, other) = channel_precision();
        let mut out = &bent * faer::Scale(own - other);
        for column in 0..x.ncols() {
            for site in 0..plane {
                let channels = (0..VitConfig::CHANNELS).map(|channel| channel * plane + site);
                let sum: f64 = channels.clone().map(|site| bent[(site, column)]).sum();
                channels.for_each(|site| out[(site, column)] += other * sum);
            }
        }
        out
    }

    /// The likeliest value at a site given its neighbours and the other channels, -sum_m Q_lm x_m / Q_ll over m other
    /// than l. `x` is `[len, n]`.
    pub(crate) fn likeliest_at(self, x: &Mat<f64>, site: usize) -> Row<f64> {
        let own = self.diagonal()[site];
        let bent = self.precision(x.as_ref());
        Row::from_fn(x.ncols(), |column| x[(site, column)] - bent[(site, column)] / own)
    }

    /// The diagonal of Q.
    pub(crate) fn diagonal(self) -> Vec<f64> {
        let side = self.side();
        let joined = |at: usize| usize::from(at > 0) + usize::from(at + 1 < side);
        (0..self.len())
            .map(|site| channel_precision().0 * (joined(site % side) + joined(site / side % side)) as f64)
            .collect()
    }
}

/// Diagonal and off-diagonal entry of the inverse of a matrix with ones on its diagonal and r elsewhere.
fn channel_precision() -> (f64, f64) {
    let (n, r) = (VitConfig::CHANNELS as f64, CHANNEL_CORRELATION);
    let other = -r / ((1.0 - r) * (1.0 + (n - 1.0) * r));
    ((1.0 - r).recip() + other, other)
}

/// K `[L, L]` with K K^T = C, the covariance of a patch: 0.98^(|dx|+|dy|) within a channel and 0.95 times that between
/// channels. C is a Kronecker product over channel, y and x, and so is K.
///
/// If E `[D, L]` has fewer rows than columns, the likeliest patch with E x = z is x = C E^T (E C E^T)^-1 z = K pinv(E
/// K) z.
pub(crate) fn covariance_root(patch: usize) -> Mat<f64> {
    let index = |l: usize| (l / (patch * patch), l / patch % patch, l % patch);
    let len = VitConfig::CHANNELS * patch * patch;
    Mat::from_fn(len, len, |row, column| {
        let ((c, y, x), (c2, y2, x2)) = (index(row), index(column));
        channel_root(c, c2) * pixel_root(y, y2) * pixel_root(x, x2)
    })
}

/// Cholesky factor of the matrix r^|i-j|, in closed form.
fn pixel_root(i: usize, j: usize) -> f64 {
    if j > i {
        return 0.0;
    }
    let scale = if j == 0 { 1.0 } else { (1.0 - PIXEL_CORRELATION * PIXEL_CORRELATION).sqrt() };
    scale * PIXEL_CORRELATION.powi((i - j) as i32)
}

/// Symmetric root of the matrix with ones on the diagonal and r elsewhere, in closed form.
fn channel_root(i: usize, j: usize) -> f64 {
    let n = VitConfig::CHANNELS as f64;
    let own = (1.0 - CHANNEL_CORRELATION).sqrt();
    let shared = ((1.0 + (n - 1.0) * CHANNEL_CORRELATION).sqrt() - own) / n;
    if i == j { own + shared } else { shared }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x.Q x is the sum over neighbours of (x_a - x_b) R^-1 (x_a - x_b), so constants cost nothing.
    #[test]
    fn precision_is_that_of_increments() {
        for (patch, stride) in [(4, 1), (5, 2), (8, 3)] {
            let grid = PixelGrid::new(patch, stride);
            let (side, plane) = (grid.side(), grid.side() * grid.side());
            assert_eq!(grid.len(), grid.pixels().count());
            let places: Vec<_> = grid.pixels().map(|l| (l / (patch * patch), l / patch % patch, l % patch)).collect();
            let x = Mat::from_fn(grid.len(), 1, |i, _| ((7 * i * i + 3 * i) % 11) as f64);
            let (own, other) = channel_precision();
            let mut want = 0.0;
            for a in 0..plane {
                for b in 0..a {
                    let ((_, y, x1), (_, y2, x2)) = (places[a], places[b]);
                    if y.abs_diff(y2) + x1.abs_diff(x2) != stride {
                        continue;
                    }
                    let step: Vec<f64> = (0..3).map(|c| x[(c * plane + a, 0)] - x[(c * plane + b, 0)]).collect();
                    let (sum, square) = (step.iter().sum::<f64>(), step.iter().map(|step| step * step).sum::<f64>());
                    want += (own - other) * square + other * sum * sum;
                }
            }
            let bent = grid.precision(x.as_ref());
            assert!(((x.transpose() * &bent)[(0, 0)] / want - 1.0).abs() < 1e-12, "side {side}");
            assert!(grid.precision(Mat::full(grid.len(), 1, 2.5).as_ref()).norm_l2() < 1e-12);
            let unit = |at| Mat::from_fn(grid.len(), 1, |i, _| f64::from(u8::from(i == at)));
            for (at, diagonal) in grid.diagonal().into_iter().enumerate() {
                assert!((grid.precision(unit(at).as_ref())[(at, 0)] - diagonal).abs() < 1e-12, "{at}");
            }
        }
    }

    #[test]
    fn root_squares_to_the_covariance() {
        let patch = 4;
        let root = covariance_root(patch);
        let covariance = &root * root.transpose();
        for i in 0..covariance.nrows() {
            for j in 0..covariance.ncols() {
                let distance = (i / patch % patch).abs_diff(j / patch % patch) + (i % patch).abs_diff(j % patch);
                let channel = if i / (patch * patch) == j / (patch * patch) { 1.0 } else { 0.95 };
                let want = channel * 0.98f64.powi(distance as i32);
                assert!((covariance[(i, j)] - want).abs() < 1e-12, "({i}, {j}): {} is not {want}", covariance[(i, j)]);
            }
        }
    }
}
