//! Which test pictures a model classifies correctly, and the error of comparing two models.

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

    /// Share of pictures classified correctly, in [0, 1].
    pub fn accuracy(&self) -> f64 {
        self.0.iter().filter(|&&correct| correct).count() as f64 / self.0.len().max(1) as f64
    }

    /// Restricts to the first `pictures` pictures.
    pub fn of_first(&self, pictures: usize) -> Self {
        self.0.iter().copied().take(pictures).collect()
    }

    /// Number of pictures that exactly one of the two classifies correctly.
    pub fn disagreements(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).filter(|(a, b)| a != b).count()
    }
}

/// A mean with the half width of its 95 % interval, both in percentage points.
///
/// The interval adds two errors in quadrature: the error of the seeds, by Student's t, because they are a sample of all
/// initial weights, orders and masks, and the error of the test set, a sample of all pictures. A difference is paired
/// by seed and by picture: errors that both models share cancel out, and other cases do not widen the interval.
/// Pictures that differ from seed to seed count in both errors, which makes the interval slightly too wide. With one
/// seed the first error is unknown and left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: f64,
    pub seeds: usize,
}

impl Estimate {
    /// Accuracy of one case, with one [`Correctness`] per seed.
    pub fn accuracy(runs: &[&Correctness]) -> Self {
        let by_seed: Vec<f64> = runs.iter().map(|run| 100.0 * run.accuracy()).collect();
        Self::of(&by_seed, picture_error(&picture_means(runs)))
    }

    /// The accuracy of the first of each pair minus that of the second, with one pair per seed.
    pub fn difference(pairs: &[(&Correctness, &Correctness)]) -> Self {
        let by_seed: Vec<f64> = pairs.iter().map(|(run, base)| 100.0 * (run.accuracy() - base.accuracy())).collect();
        let (runs, bases): (Vec<&Correctness>, Vec<&Correctness>) = pairs.iter().copied().unzip();
        let pictures: Vec<f64> =
            picture_means(&runs).iter().zip(picture_means(&bases)).map(|(run, base)| run - base).collect();
        Self::of(&by_seed, picture_error(&pictures))
    }

    /// The mean of one value per seed; `of_pictures` is the half width of the interval due to the pictures, in points.
    pub fn of(by_seed: &[f64], of_pictures: f64) -> Self {
        Self { mean: mean(by_seed), half_width: t_half_width(by_seed).hypot(of_pictures), seeds: by_seed.len() }
    }

    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }

    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }
}

/// Half width of the 95 % interval of the mean over a sample of pictures, with one value per picture.
fn picture_error(pictures: &[f64]) -> f64 {
    if pictures.len() < 2 { 0.0 } else { NORMAL * standard_error(pictures) }
}

const NORMAL: f64 = 1.96;

/// For each picture, the share of seeds that classified it correctly, in percent.
fn picture_means(runs: &[&Correctness]) -> Vec<f64> {
    let pictures = runs.iter().map(|run| run.pictures()).min().unwrap_or(0);
    let right = |picture: usize| runs.iter().filter(|run| run.0[picture]).count();
    (0..pictures).map(|picture| 100.0 * right(picture) as f64 / runs.len() as f64).collect()
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn standard_error(values: &[f64]) -> f64 {
    let (n, mean) = (values.len() as f64, mean(values));
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// Half width of the 95 % interval of the mean, by Student's t; 0 for a single value, which has no spread.
pub(crate) fn t_half_width(values: &[f64]) -> f64 {
    if values.len() < 2 { 0.0 } else { student(values.len() - 1) * standard_error(values) }
}

/// The 97.5 % quantile of Student's t; infinite for 0 degrees of freedom.
fn student(freedom: usize) -> f64 {
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

    /// 10000 pictures, half of them correct, and one seed: the binomial error sqrt(p (1 - p) / n) is half a point, and
    /// the interval 1.96 of it.
    #[test]
    fn one_seed_has_the_binomial_error() {
        let run = correctness(5000, 10_000);
        let estimate = Estimate::accuracy(&[&run]);
        assert!((estimate.mean - 50.0).abs() < 1e-9 && (estimate.half_width - 0.98).abs() < 1e-3, "{estimate:?}");
        assert_eq!(estimate.seeds, 1);
    }

    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, wanted) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (10, 2.228), (30, 2.042)]
        {
            assert!((student(freedom) - wanted).abs() < 6e-4, "{freedom}: {}", student(freedom));
        }
    }

    /// 1, 2, 3: s = 1, and t(2) / sqrt(3) = 4.303 / 1.732 = 2.484. 2, 4, 4, 4, 5, 5, 7, 9: s = sqrt(32 / 7) = 2.138,
    /// and t(7) s / sqrt(8) = 1.788.
    #[test]
    fn intervals_are_those_of_the_textbook() {
        assert!((t_half_width(&[1.0, 2.0, 3.0]) - 2.484).abs() < 1e-3);
        assert!((t_half_width(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) - 1.788).abs() < 1e-3);
        assert_eq!((t_half_width(&[5.0, 5.0]), t_half_width(&[5.0]), t_half_width(&[])), (0.0, 0.0, 0.0));
    }

    fn difference(runs: &[Correctness], bases: &[Correctness]) -> Estimate {
        Estimate::difference(&runs.iter().zip(bases).collect::<Vec<_>>())
    }

    /// Pictures that both classify correctly cancel out, and so do seeds that shift both cases equally.
    #[test]
    fn what_cases_share_cancels_out() {
        let (base, runs) =
            ([correctness(500, 1000), correctness(600, 1000)], [correctness(520, 1000), correctness(620, 1000)]);
        assert_eq!(difference(&runs, &runs), Estimate { mean: 0.0, half_width: 0.0, seeds: 2 });
        let difference = difference(&runs, &base);
        assert!((difference.mean - 2.0).abs() < 1e-9 && difference.half_width < 1.0, "{difference:?}");
        let level = Estimate::accuracy(&runs.iter().collect::<Vec<_>>());
        assert!(level.half_width > 20.0, "the level itself is anybody's guess");
    }

    /// Differences of 1, 2 and 3 points: the seeds give t(2) s / sqrt(3) = 2.484. Pictures 500 to 509 are correct with
    /// all three seeds, 510 to 519 with two, 520 to 529 with one: shares of 100, 66.7 and 33.3 % with a standard error
    /// over 1000 pictures of 0.389, times 1.96 = 0.763. Together sqrt(2.484^2 + 0.763^2) = 2.599.
    #[test]
    fn seeds_and_pictures_widen_the_interval() {
        let (base, runs) =
            ([500, 500, 500].map(|n| correctness(n, 1000)), [510, 520, 530].map(|n| correctness(n, 1000)));
        let difference = difference(&runs, &base);
        assert!((difference.mean - 2.0).abs() < 1e-9);
        assert!((difference.half_width - 2.599).abs() < 1e-3, "{difference:?}");
    }
}
