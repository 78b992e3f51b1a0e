//! Similarity of two pictures: PSNR and SSIM.
//!
//! Both agree with scikit-image. `scripts/metrics_reference.py` prints the tests' expected values.

/// The largest PSNR reported, in dB; identical pictures have it.
pub const PSNR_CAP: f64 = 99.0;

/// SSIM at which people start to recognise a picture. The papers call lower values safe, but they only say that this
/// reconstruction is not recognisable.
pub const RECOGNISABLE_FROM: f64 = 0.5;

/// SSIM at which a reconstruction starts to show outlines and colours.
pub const OUTLINES_FROM: f64 = 0.3;

/// How well a person can make out an attack's reconstruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Hidden,
    Outlines,
    Recognisable,
}

impl Level {
    /// The level for the median of the last rounds' SSIM, because single rounds fluctuate; `None` before the first
    /// round.
    pub fn of(recent: &[f32]) -> Option<Self> {
        let mut recent: Vec<f32> = recent.iter().copied().filter(|ssim| ssim.is_finite()).collect();
        recent.sort_by(f32::total_cmp);
        let median = f64::from(*recent.get(recent.len().checked_sub(1)? / 2)?);
        Some(match median {
            median if median >= RECOGNISABLE_FROM => Self::Recognisable,
            median if median >= OUTLINES_FROM => Self::Outlines,
            _ => Self::Hidden,
        })
    }

    /// The value in data attributes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Outlines => "outlines",
            Self::Recognisable => "recognisable",
        }
    }
}

const WINDOW: usize = 7;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CannotCompare {
    #[error("a {width} x {height} RGB picture has {expected} values, the two given have {first} and {second}")]
    WrongLength { width: usize, height: usize, expected: usize, first: usize, second: usize },
    #[error("SSIM needs pictures of at least 7 x 7 pixels, these are {width} x {height}")]
    TooSmall { width: usize, height: usize },
    #[error("value {index} of a picture is {value}: only finite values can be compared")]
    NonFinite { index: usize, value: f32 },
}

fn check(a: &[f32], b: &[f32], width: usize, height: usize) -> Result<(), CannotCompare> {
    let expected = width.saturating_mul(height).saturating_mul(3);
    if a.len() != expected || b.len() != expected || expected == 0 {
        return Err(CannotCompare::WrongLength { width, height, expected, first: a.len(), second: b.len() });
    }
    for picture in [a, b] {
        if let Some(index) = picture.iter().position(|value| !value.is_finite()) {
            return Err(CannotCompare::NonFinite { index, value: picture[index] });
        }
    }
    Ok(())
}

/// Peak signal-to-noise ratio in dB of two pictures `[height, width, 3]` in [0, 1]; at most [`PSNR_CAP`].
///
/// # Errors
/// [`CannotCompare`]: wrong lengths, or values that are not finite.
pub fn psnr(a: &[f32], b: &[f32], width: usize, height: usize) -> Result<f64, CannotCompare> {
    check(a, b, width, height)?;
    let sum: f64 = a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let mean_square = sum / a.len() as f64;
    Ok((-10.0 * mean_square.log10()).min(PSNR_CAP))
}

/// Structural similarity of two pictures `[height, width, 3]` in [0, 1]; 1 for identical pictures.
///
/// Equals scikit-image's `structural_similarity(data_range=1, channel_axis=2)`: uniform window of 7 x 7, sample
/// covariance, mean over the channels and over all windows inside the picture.
///
/// # Errors
/// [`CannotCompare`]: smaller than 7 x 7, wrong lengths, or values that are not finite.
pub fn ssim(a: &[f32], b: &[f32], width: usize, height: usize) -> Result<f64, CannotCompare> {
    check(a, b, width, height)?;
    if width < WINDOW || height < WINDOW {
        return Err(CannotCompare::TooSmall { width, height });
    }
    Ok((0..3).map(|channel| channel_ssim(a, b, width, height, channel)).sum::<f64>() / 3.0)
}

fn channel_ssim(a: &[f32], b: &[f32], width: usize, height: usize, channel: usize) -> f64 {
    const C1: f64 = 0.01 * 0.01;
    const C2: f64 = 0.03 * 0.03;
    let n = (WINDOW * WINDOW) as f64;
    let sample = n / (n - 1.0);
    // Sum columns of seven pixels first: a window then adds 7 column sums and not 49 pixels.
    let products = |index: usize| {
        let (a, b) = (f64::from(a[index]), f64::from(b[index]));
        [a, b, a * a, b * b, a * b]
    };
    let mut total = 0.0;
    for top in 0..=height - WINDOW {
        let columns: Vec<[f64; 5]> =
            (0..width).map(|x| add((top..top + WINDOW).map(|y| products((y * width + x) * 3 + channel)))).collect();
        for window in columns.windows(WINDOW) {
            let [mean_a, mean_b, aa, bb, ab] = add(window.iter().copied()).map(|sum| sum / n);
            let variance_a = sample * (aa - mean_a * mean_a);
            let variance_b = sample * (bb - mean_b * mean_b);
            let covariance = sample * (ab - mean_a * mean_b);
            total += (2.0 * mean_a * mean_b + C1) * (2.0 * covariance + C2)
                / ((mean_a * mean_a + mean_b * mean_b + C1) * (variance_a + variance_b + C2));
        }
    }
    total / ((width - WINDOW + 1) * (height - WINDOW + 1)) as f64
}

fn add(terms: impl Iterator<Item = [f64; 5]>) -> [f64; 5] {
    terms.fold([0.0; 5], |mut sums, term| {
        for (sum, value) in sums.iter_mut().zip(term) {
            *sum += value;
        }
        sums
    })
}

/// The place of each picture among the originals, the nearest pairs first, no place twice. Pictures without an original
/// take the places that are left; `usize::MAX` where none is.
pub fn nearest_originals(pictures: &[&[f32]], originals: &[Option<Vec<f32>>]) -> Vec<usize> {
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (picture, values) in pictures.iter().enumerate() {
        for (place, original) in originals.iter().enumerate() {
            let is_same_size = |original: &&Vec<f32>| original.len() == values.len();
            let distance = original.as_ref().filter(is_same_size).map_or(f64::INFINITY, |original| {
                original.iter().zip(*values).map(|(one, other)| f64::from(one - other).powi(2)).sum()
            });
            pairs.push((distance, picture, place));
        }
    }
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut found = vec![None; pictures.len()];
    for (_, picture, place) in pairs {
        if found[picture].is_none() && !found.contains(&Some(place)) {
            found[picture] = Some(place);
        }
    }
    found.into_iter().map(|place| place.unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pattern::{pattern, rippled};

    /// scikit-image's results: width, height, ripple, PSNR, SSIM.
    const REFERENCE: [(usize, usize, f64, f64, f64); 6] = include!("metrics_reference.in");

    #[test]
    fn levels_go_by_the_median_of_the_last_rounds() {
        assert_eq!(Level::of(&[]), None);
        assert_eq!(Level::of(&[0.9, 0.1, 0.2, 0.29, 0.95]), Some(Level::Hidden));
        assert_eq!(Level::of(&[0.9, 0.1, 0.3]), Some(Level::Outlines));
        assert_eq!(Level::of(&[0.5, f32::NAN, 0.7]), Some(Level::Recognisable));
    }

    #[test]
    fn agree_with_scikit_image() {
        for (width, height, amount, want_psnr, want_ssim) in REFERENCE {
            let (a, b) = (pattern(width, height), rippled(width, height, amount));
            let case = format!("{width} x {height}, ripple {amount}");
            let got = psnr(&a, &b, width, height).unwrap();
            assert!((got - want_psnr).abs() < 1e-4, "{case}: PSNR {got}, want {want_psnr}");
            let got = ssim(&a, &b, width, height).unwrap();
            assert!((got - want_ssim).abs() < 1e-5, "{case}: SSIM {got}, want {want_ssim}");
        }
    }

    #[test]
    fn identical_pictures() {
        let a = pattern(16, 16);
        assert_eq!(psnr(&a, &a, 16, 16), Ok(PSNR_CAP));
        assert!((ssim(&a, &a, 16, 16).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn refuses_what_cannot_be_compared() {
        let a = pattern(6, 16);
        assert_eq!(ssim(&a, &a, 6, 16), Err(CannotCompare::TooSmall { width: 6, height: 16 }));
        assert!(matches!(psnr(&a, &a[1..], 6, 16), Err(CannotCompare::WrongLength { .. })));
        let mut b = a.clone();
        b[5] = f32::NAN;
        assert!(matches!(psnr(&a, &b, 6, 16), Err(CannotCompare::NonFinite { index: 5, .. })));
    }

    #[test]
    fn pictures_go_to_the_originals_that_they_resemble() {
        let [dark, grey, bright] = [[0.0; 3], [0.5; 3], [1.0; 3]];
        let originals = [Some(bright.to_vec()), None, Some(dark.to_vec())];
        assert_eq!(nearest_originals(&[&dark, &bright], &originals), [2, 0]);
        // Nearest first; the other takes what is left.
        assert_eq!(nearest_originals(&[&grey, &dark, &bright], &originals), [1, 2, 0]);
        assert_eq!(nearest_originals(&[&grey, &grey], &[None]), [0, usize::MAX]);
    }
}
