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

    /// Of the first pictures alone.
    pub fn of_first(&self, pictures: usize) -> Self {
        self.0.iter().copied().take(pictures).collect()
    }

    /// How many pictures one of the two classifies correctly and the other does not.
    pub fn disagreements(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).filter(|(a, b)| a != b).count()
    }
}

/// A mean with the half width of its 95 % interval, both in percentage points.
///
/// Two errors are in it, added in quadrature: that of the seeds, which are a sample of all initial weights, orders and masks,
/// by Student's t, and that of the test set, which is a sample of all pictures. Of a difference both are paired and its own:
/// seed by seed and picture by picture, so that what two models share cancels out, and no other case widens the interval. As
/// far as pictures differ from seed to seed they count in both errors, which makes the interval rather too wide. With one
/// seed the first error is unknown and left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub mean: f64,
    pub half_width: f64,
    pub seeds: usize,
}

impl Estimate {
    /// Accuracy of one case, one [`Correctness`] a seed.
    pub fn accuracy(runs: &[&Correctness]) -> Self {
        let by_seed: Vec<f64> = runs.iter().map(|run| 100.0 * run.accuracy()).collect();
        Self::of(&by_seed, picture_error(&picture_means(runs)))
    }

    /// By how much the accuracy of the first of each pair lies above that of the second, one pair a seed.
    pub fn difference(pairs: &[(&Correctness, &Correctness)]) -> Self {
        let by_seed: Vec<f64> = pairs.iter().map(|(run, base)| 100.0 * (run.accuracy() - base.accuracy())).collect();
        let (runs, bases): (Vec<&Correctness>, Vec<&Correctness>) = pairs.iter().copied().unzip();
        let pictures: Vec<f64> =
            picture_means(&runs).iter().zip(picture_means(&bases)).map(|(run, base)| run - base).collect();
        Self::of(&by_seed, picture_error(&pictures))
    }

    /// Of one value for each seed, where pictures leave an error of so many points.
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

/// Half the 95 % interval that a sample of pictures leaves, of the mean of one value a picture.
fn picture_error(pictures: &[f64]) -> f64 {
    if pictures.len() < 2 { 0.0 } else { NORMAL * standard_error(pictures) }
}

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.96;

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
fn standard_error(values: &[f64]) -> f64 {
    let (n, mean) = (values.len() as f64, mean(values));
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// Half the 95 % interval of the mean of these values, by Student's t; 0 where one value tells no spread.
pub(crate) fn t_half_width(values: &[f64]) -> f64 {
    if values.len() < 2 { 0.0 } else { student(values.len() - 1) * standard_error(values) }
}

/// The 97.5 % quantile of Student's t; infinite where nothing is free.
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

    /// Of 10000 pictures half right, one seed: the binomial error, sqrt(p (1 - p) / n) = half a point, twice.
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

    /// 1, 2, 3: s = 1, and t(2) / sqrt(3) = 4.303 / 1.732 = 2.484. Of 2, 4, 4, 4, 5, 5, 7, 9: s = sqrt(32 / 7) = 2.138, and
    /// t(7) s / sqrt(8) = 1.788.
    #[test]
    fn intervals_are_those_of_the_textbook() {
        assert!((t_half_width(&[1.0, 2.0, 3.0]) - 2.484).abs() < 1e-3);
        assert!((t_half_width(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) - 1.788).abs() < 1e-3);
        assert_eq!((t_half_width(&[5.0, 5.0]), t_half_width(&[5.0]), t_half_width(&[])), (0.0, 0.0, 0.0));
    }

    fn difference(runs: &[Correctness], bases: &[Correctness]) -> Estimate {
        Estimate::difference(&runs.iter().zip(bases).collect::<Vec<_>>())
    }

    /// What both get right cancels out, and seeds that shift both cases alike do not blur their difference.
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

    /// Differences of 1, 2 and 3 points: t(2) s / sqrt(3) = 2.484 of the seeds. Pictures 500 to 509 always, 510 to 519 in two of
    /// three seeds, 520 to 529 in one: shares of 100, 66.7 and 33.3 %, whose standard error over 1000 pictures is 0.389, and
    /// 1.96 of it 0.763. Together sqrt(2.484^2 + 0.763^2) = 2.599.
    #[test]
    fn seeds_and_pictures_widen_the_interval() {
        let (base, runs) =
            ([500, 500, 500].map(|n| correctness(n, 1000)), [510, 520, 530].map(|n| correctness(n, 1000)));
        let difference = difference(&runs, &base);
        assert!((difference.mean - 2.0).abs() < 1e-9);
        assert!((difference.half_width - 2.599).abs() < 1e-3, "{difference:?}");
    }
}
