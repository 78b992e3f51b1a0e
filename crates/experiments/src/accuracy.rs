//! Which test pictures a model classifies correctly, and how sure a comparison of two models is.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Packed", into = "Packed")]
pub struct Correctness(Vec<bool>);

/// [`Correctness`] in a file: bits from the lowest of the first byte on, in base64.
#[derive(Serialize, Deserialize)]
struct Packed {
    pictures: usize,
    bits: String,
}

impl From<Correctness> for Packed {
    fn from(Correctness(correct): Correctness) -> Self {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0_u8, |byte, &bit| byte << 1 | u8::from(bit));
        let bytes: Vec<u8> = correct.chunks(8).map(byte).collect();
        Self { pictures: correct.len(), bits: STANDARD.encode(bytes) }
    }
}

impl TryFrom<Packed> for Correctness {
    type Error = String;

    fn try_from(Packed { pictures, bits }: Packed) -> Result<Self, String> {
        let bytes = STANDARD.decode(bits).map_err(|error| format!("the bits are no base64: {error}"))?;
        if bytes.len() != pictures.div_ceil(8) {
            return Err(format!("{} bytes are not the bits of {pictures} pictures", bytes.len()));
        }
        Ok(Self((0..pictures).map(|picture| bytes[picture / 8] >> (picture % 8) & 1 == 1).collect()))
    }
}

impl FromIterator<bool> for Correctness {
    fn from_iter<I: IntoIterator<Item = bool>>(correct: I) -> Self {
        Self(correct.into_iter().collect())
    }
}

impl Correctness {
    pub fn pictures(&self) -> usize {
        self.0.len()
    }

    /// Share of them classified correctly, in [0, 1].
    pub fn accuracy(&self) -> f64 {
        self.0.iter().filter(|&&correct| correct).count() as f64 / self.0.len().max(1) as f64
    }

    /// How many pictures one of the two classifies correctly and the other does not.
    pub fn disagreements(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).filter(|(a, b)| a != b).count()
    }
}

/// How far accuracies spread from seed to seed, in percentage points, over all cases that are compared: a randomised
/// complete block design, with a block for each seed. Few seeds a case are enough, since the cases share one spread.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SeedSpread {
    /// Standard deviation within a case.
    within: f64,
    /// What is left of it once each seed's own level is taken off, which cases of one seed share.
    residual: f64,
    cases: usize,
    seeds: usize,
}

impl SeedSpread {
    /// Of accuracies by case and seed; all cases have the same seeds.
    pub fn of(runs: &[Vec<&Correctness>]) -> Self {
        let (cases, seeds) = (runs.len(), runs.iter().map(Vec::len).min().unwrap_or(0));
        if seeds < 2 {
            return Self { cases, seeds, ..Self::default() };
        }
        let table: Vec<Vec<f64>> =
            runs.iter().map(|runs| runs[..seeds].iter().map(|run| 100.0 * run.accuracy()).collect()).collect();
        let of_case: Vec<f64> = table.iter().map(|row| mean(row)).collect();
        let of_seed: Vec<f64> =
            (0..seeds).map(|seed| mean(&table.iter().map(|row| row[seed]).collect::<Vec<_>>())).collect();
        let all = mean(&of_case);
        let (mut within, mut residual) = (0.0, 0.0);
        for (row, of_case) in table.iter().zip(&of_case) {
            for (value, of_seed) in row.iter().zip(&of_seed) {
                within += (value - of_case).powi(2);
                residual += (value - of_case - of_seed + all).powi(2);
            }
        }
        let root = |squares: f64, freedom: usize| (squares / freedom.max(1) as f64).sqrt();
        Self {
            within: root(within, cases * (seeds - 1)),
            residual: root(residual, cases.saturating_sub(1) * (seeds - 1)),
            cases,
            seeds,
        }
    }

    /// Half the width of the 95 % interval of a case's mean, as far as seeds decide it.
    fn of_mean(&self) -> f64 {
        self.half_width(self.within, self.cases, 1.0)
    }

    fn of_difference(&self) -> f64 {
        self.half_width(self.residual, self.cases.saturating_sub(1), 2.0)
    }

    fn half_width(&self, deviation: f64, free_cases: usize, terms: f64) -> f64 {
        if self.seeds < 2 || free_cases == 0 {
            return 0.0;
        }
        student(free_cases * (self.seeds - 1)) * deviation * (terms / self.seeds as f64).sqrt()
    }
}

/// A mean with the half width of its 95 % interval, both in percentage points.
///
/// Two errors are in it, added in quadrature: that of the test set, which is a sample of all pictures, and that of the
/// seeds, which are a sample of all initial weights, orders and masks. With one seed the second is unknown and left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: f64,
    pub seeds: usize,
}

impl Estimate {
    /// Accuracy of one case, one [`Correctness`] a seed.
    pub fn accuracy(runs: &[&Correctness], spread: &SeedSpread) -> Self {
        Self::of(runs.len(), &picture_means(runs), spread.of_mean())
    }

    /// By how much the accuracy of `runs` lies above that of `base`, picture by picture: what both find hard cancels out.
    pub fn difference(runs: &[&Correctness], base: &[&Correctness], spread: &SeedSpread) -> Self {
        let seeds = runs.len().min(base.len());
        let pictures: Vec<f64> = picture_means(&runs[..seeds])
            .iter()
            .zip(picture_means(&base[..seeds]))
            .map(|(run, base)| run - base)
            .collect();
        Self::of(seeds, &pictures, spread.of_difference())
    }

    fn of(seeds: usize, pictures: &[f64], of_seeds: f64) -> Self {
        let of_pictures = if pictures.len() < 2 { 0.0 } else { 1.96 * standard_error(pictures) };
        Self { mean: mean(pictures), half_width: of_seeds.hypot(of_pictures), seeds }
    }

    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }

    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }
}

/// For each picture the share of seeds with which it was classified correctly, in percent.
fn picture_means(runs: &[&Correctness]) -> Vec<f64> {
    let pictures = runs.iter().map(|run| run.pictures()).min().unwrap_or(0);
    let right = |picture: usize| runs.iter().filter(|run| run.0[picture]).count();
    (0..pictures).map(|picture| 100.0 * right(picture) as f64 / runs.len() as f64).collect()
}

/// The arithmetic mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sample standard deviation over the root of the number.
pub(crate) fn standard_error(values: &[f64]) -> f64 {
    let (n, mean) = (values.len() as f64, mean(values));
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// The 97.5 % quantile of Student's t; infinite where nothing is free.
pub(crate) fn student(freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correctness(right: usize, of: usize) -> Correctness {
        (0..of).map(|picture| picture < right).collect()
    }

    #[test]
    fn bits_survive_a_file() {
        let correctness: Correctness = (0..19).map(|picture| picture % 3 == 0).collect();
        let text = serde_json::to_string(&correctness).unwrap();
        assert_eq!(serde_json::from_str::<Correctness>(&text).unwrap(), correctness);
        let cut = text.replace("19", "29");
        assert!(
            serde_json::from_str::<Correctness>(&cut).unwrap_err().to_string().contains("not the bits of 29 pictures")
        );
    }

    /// Of 10000 pictures half right, one seed: the binomial error, sqrt(p (1 - p) / n) = half a point, twice.
    #[test]
    fn one_seed_has_the_binomial_error() {
        let run = correctness(5000, 10_000);
        let estimate = Estimate::accuracy(&[&run], &SeedSpread::of(&[vec![&run]]));
        assert!((estimate.mean - 50.0).abs() < 1e-9 && (estimate.half_width - 0.98).abs() < 1e-3, "{estimate:?}");
    }

    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, wanted) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042)] {
            assert!((student(freedom) - wanted).abs() < 6e-4, "{freedom}: {}", student(freedom));
        }
    }

    /// What both get right cancels out, and seeds that shift all cases alike do not blur their difference.
    #[test]
    fn what_cases_share_cancels_out() {
        let (base, runs) =
            ([correctness(500, 1000), correctness(600, 1000)], [correctness(520, 1000), correctness(620, 1000)]);
        let (base, runs): (Vec<&Correctness>, Vec<&Correctness>) = (base.iter().collect(), runs.iter().collect());
        let spread = SeedSpread::of(&[base.clone(), runs.clone()]);
        let same = Estimate::difference(&runs, &runs, &spread);
        assert_eq!((same.mean, same.half_width, same.seeds), (0.0, 0.0, 2));
        let difference = Estimate::difference(&runs, &base, &spread);
        assert!((difference.mean - 2.0).abs() < 1e-9 && difference.half_width < 1.0, "{difference:?}");
        assert!(Estimate::accuracy(&runs, &spread).half_width > 20.0, "the level itself is anybody's guess");
    }

    /// Two cases, three seeds, differences of 1, 2 and 3 points: residuals of half a point either way in two of three
    /// seeds, so s = sqrt(4 x 0.25 / 2), and t(2) s sqrt(2 / 3) = 2.484, as a paired test has it.
    #[test]
    fn seeds_widen_the_interval() {
        let (base, runs) =
            ([500, 500, 500].map(|n| correctness(n, 1000)), [510, 520, 530].map(|n| correctness(n, 1000)));
        let (base, runs): (Vec<&Correctness>, Vec<&Correctness>) = (base.iter().collect(), runs.iter().collect());
        let difference = Estimate::difference(&runs, &base, &SeedSpread::of(&[base.clone(), runs.clone()]));
        assert!((difference.mean - 2.0).abs() < 1e-9);
        assert!(difference.half_width > 2.484 && difference.half_width < 2.7, "{difference:?}");
    }
}
