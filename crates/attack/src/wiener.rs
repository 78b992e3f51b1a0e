//! Least squares with a regularisation chosen from the noise in the data.

use faer::{Mat, MatRef};

use crate::least_squares::Spectrum;

/// Candidate signal sizes per factor of ten.
const STEPS: i32 = 8;
/// Exponents of the candidates, from 1e-5 to 1e2: pixels lie in [-1, 1], and a direction mixes hundreds of patches.
const SIGNALS: std::ops::RangeInclusive<i32> = -5 * STEPS..=2 * STEPS;
/// Largest residual that counts as noise, relative to the right-hand sides. A larger one means that the equations do
/// not hold, as for a mask's zeros taken for values or a batch of several pictures, and a filter cannot help.
const MOST_NOISE: f64 = 1.0 / 64.0;

/// M X E^T = R + noise, with more equations than unknowns on the left.
pub(crate) struct NoisyEquations<'a> {
    /// `[D, S]`.
    pub(crate) m: MatRef<'a, f64>,
    /// `[D, L]`.
    pub(crate) e: MatRef<'a, f64>,
    /// `[D, D]`.
    pub(crate) r: MatRef<'a, f64>,
    /// Number of the D equations of each column spent on eliminated unknowns.
    pub(crate) spent: usize,
    /// Smallest noise in the right-hand sides, from rounding, as a standard deviation.
    pub(crate) rounding: f64,
    /// Root mean square of the right-hand sides before known terms were subtracted.
    pub(crate) scale: f64,
}

pub(crate) struct Filtered {
    /// `[S, L]`.
    pub(crate) x: Mat<f64>,
    /// Spectrum of M. A value counts as kept if at least half of what it determines comes from the data.
    pub(crate) spectrum: Spectrum,
    /// Standard deviation of the noise, relative to the right-hand sides.
    pub(crate) noise: f64,
}

impl NoisyEquations<'_> {
    /// The mean of X given R, for a prior chosen from the data (empirical Bayes).
    ///
    /// With M = U S V^T and E = P T Q^T, entry kj of U^T R P is s_k t_j y_kj plus noise of variance n^2. D - S -
    /// `spent` combinations of the equations do not contain X, so their residual gives n. The signals y_kj are taken as
    /// normal, with one variance v_k for each row that does not grow as s_k falls. The likeliest v_k follow by pooling
    /// neighbours that violate this order. The mean of y_kj is s_k t_j v_k / (s_k^2 t_j^2 v_k + n^2) times that entry:
    /// the Wiener filter.
    ///
    /// Returns `None` if a decomposition does not converge or the solution overflows.
    pub(crate) fn solve(&self) -> Option<Filtered> {
        let Self { m, e, r, spent, rounding, scale } = *self;
        let (left, right) = (m.thin_svd().ok()?, e.thin_svd().ok()?);
        let singular =
            |values: faer::diag::DiagRef<'_, f64>| -> Vec<f64> { values.column_vector().iter().copied().collect() };
        let (s, t) = (singular(left.S()), singular(right.S()));
        let (&largest, &smallest) = (s.first()?, s.last()?);
        if largest == 0.0 || t.first().is_none_or(|&value| value == 0.0) {
            return None;
        }
        let explained = left.U().transpose() * r;
        let free = r.nrows().saturating_sub(spent + s.len()) * r.ncols();
        let unexplained = (r - left.U() * &explained).squared_norm_l2();
        let measured = if free == 0 { 0.0 } else { (unexplained / free as f64).sqrt() };
        let noise = rounding.max(if measured < MOST_NOISE * scale { measured } else { 0.0 });

        let mut signal = explained * right.U();
        let variances = likeliest_variances(signal.as_ref(), &s, &t, noise);
        let mut kept = 0;
        for (k, &variance) in variances.iter().enumerate() {
            let mut passed = 0.0;
            for (j, &t) in t.iter().enumerate() {
                let factor = s[k] * t;
                let power = factor * factor * variance;
                let all = noise.mul_add(noise, power);
                signal[(k, j)] *= if all > 0.0 { factor * variance / all } else { 0.0 };
                passed += if all > 0.0 { power / all } else { 0.0 };
            }
            kept += usize::from(passed >= 0.5 * t.len() as f64);
        }
        let x = left.V() * signal * right.V().transpose();
        let finite = x.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
        let spectrum = Spectrum { ratio: smallest / largest, kept, total: s.len() };
        finite.then(|| Filtered { x, spectrum, noise: if scale > 0.0 { noise / scale } else { 0.0 } })
    }
}

/// The likeliest variance v_k of y_kj for each row of `signal`, which holds s_k t_j y_kj plus noise, without growth in
/// k.
fn likeliest_variances(signal: MatRef<'_, f64>, s: &[f64], t: &[f64], noise: f64) -> Vec<f64> {
    let candidates: Vec<f64> = SIGNALS.map(|step| 10f64.powf(2.0 * f64::from(step) / f64::from(STEPS))).collect();
    // Minus twice the log-likelihood of each candidate, for rows that share a variance.
    let mut pools: Vec<(Vec<f64>, usize)> = Vec::with_capacity(s.len());
    let best = |costs: &[f64]| (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0);
    for (k, &s) in s.iter().enumerate() {
        let cost = |&variance: &f64| -> f64 {
            let entry = |(j, t): (usize, &f64)| {
                let all = noise.mul_add(noise, (s * t).powi(2) * variance).max(f64::MIN_POSITIVE);
                all.ln() + signal[(k, j)].powi(2) / all
            };
            t.iter().enumerate().map(entry).sum()
        };
        pools.push((candidates.iter().map(cost).collect(), 1));
        while let [.., (above, rows), (below, more)] = pools.as_mut_slice()
            && best(below) >= best(above)
        {
            above.iter_mut().zip(below.iter()).for_each(|(above, below)| *above += below);
            *rows += *more;
            pools.pop();
        }
    }
    pools.iter().flat_map(|(costs, rows)| std::iter::repeat_n(candidates[best(costs)], *rows)).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Singular values from 1 to 1e-8, equal signals and noise of 1e-4: signal above the noise comes back, and noise
    /// below it is not amplified.
    #[test]
    fn noise_decides_what_is_kept() {
        const SIZE: usize = 40;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut random = |rows, columns| Mat::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0));
        let (u, v) = (random(SIZE, 9), random(9, 9));
        let (u, v) = (u.thin_svd().unwrap(), v.thin_svd().unwrap());
        let values = Mat::from_fn(9, 9, |i, j| if i == j { 10f64.powi(-(i as i32)) } else { 0.0 });
        let m = u.U() * values * v.V().transpose();
        let (e, x, noise) = (random(SIZE, 12), random(9, 12), random(SIZE, SIZE));
        let scale = (&m * &x * e.transpose()).norm_l2() / SIZE as f64;
        let solve = |size: f64| {
            let r = &m * &x * e.transpose() + &noise * size;
            NoisyEquations { m: m.as_ref(), e: e.as_ref(), r: r.as_ref(), spent: 0, rounding: 1e-15, scale }
                .solve()
                .unwrap()
        };
        let noisy = solve(1e-4);
        // Uniform noise has a standard deviation of 1 / sqrt(3).
        assert!((noisy.noise * scale / (1e-4 / 3f64.sqrt()) - 1.0).abs() < 0.1, "{}", noisy.noise);
        assert!((4..=6).contains(&noisy.spectrum.kept), "{:?}", noisy.spectrum);
        assert!((&noisy.x - &x).norm_l2() < 1.05 * x.norm_l2(), "noise is not amplified");
        let clean = solve(0.0);
        assert!((&clean.x - &x).norm_l2() < 1e-4 * x.norm_l2());
        assert_eq!(clean.spectrum.kept, 9);
    }

    #[test]
    fn nothing_has_no_solution() {
        let (m, r) = (Mat::<f64>::zeros(4, 2), Mat::<f64>::zeros(4, 4));
        let e = Mat::from_fn(4, 3, |i, j| f64::from(u8::from(i == j)));
        let equations =
            NoisyEquations { m: m.as_ref(), e: e.as_ref(), r: r.as_ref(), spent: 0, rounding: 0.0, scale: 0.0 };
        assert!(equations.solve().is_none());
        let m = Mat::from_fn(4, 2, |i, j| f64::from(u8::from(i == j)));
        let solved = NoisyEquations { m: m.as_ref(), ..equations }.solve().unwrap();
        assert!(solved.x.norm_l2() == 0.0, "{:?}", solved.x);
    }
}
