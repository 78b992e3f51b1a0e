//! Similarity of a reconstruction and the private pictures.

use unmask_core::{Architecture, AttackMethod};
use unmask_data::{
    jigsaw::{CannotArrange, best_arrangement},
    metrics::{self, CannotCompare},
};

/// Similarity of reconstructions and private pictures. Values are means over the compared pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// In dB, at most [`metrics::PSNR_CAP`].
    pub psnr: f64,
    /// 1 for identical pictures.
    pub ssim: f64,
    /// SSIM of the most similar pair: one recognised picture of a batch is one too many.
    pub best_ssim: f64,
    /// For a jigsaw, the pieces in the order that fits the truth best, one picture per compared pair. Only the attacked
    /// client can know this order.
    pub arranged: Option<Vec<Vec<f32>>>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScoreError {
    #[error(transparent)]
    Compare(#[from] CannotCompare),
    #[error(transparent)]
    Arrange(#[from] CannotArrange),
}

/// Compares the reconstructions of `method` with `truths`, all `[height, width, 3]` in [0, 1].
///
/// Pairs up the most similar pictures, each once, because an attacker does not know their order. Arranges jigsaws
/// first.
///
/// # Errors
/// The sizes are not those of `architecture`, or a value is not finite.
pub fn score(
    method: AttackMethod,
    pictures: &[Vec<f32>],
    truths: &[Vec<f32>],
    architecture: Architecture,
    (width, height): (usize, usize),
) -> Result<Score, ScoreError> {
    let side = architecture.side();
    let patch = architecture.vit().map(|config| config.patch).filter(|_| method.is_unordered());
    let mut pairs = Vec::new();
    for (found, picture) in pictures.iter().enumerate() {
        for (true_one, truth) in truths.iter().enumerate() {
            let arranged = patch.map(|patch| best_arrangement(picture, truth, side, patch)).transpose()?;
            let picture = arranged.as_ref().unwrap_or(picture);
            let ssim = metrics::ssim(picture, truth, width, height)?;
            pairs.push((found, true_one, ssim, metrics::psnr(picture, truth, width, height)?, arranged));
        }
    }
    pairs.sort_by(|a, b| b.2.total_cmp(&a.2));
    let (mut used_found, mut used_true) = (Vec::new(), Vec::new());
    let best_ssim = pairs.first().map_or(0.0, |pair| pair.2);
    let mut score = Score { psnr: 0.0, ssim: 0.0, best_ssim, arranged: None };
    for (found, true_one, ssim, psnr, arranged) in pairs {
        if used_found.contains(&found) || used_true.contains(&true_one) {
            continue;
        }
        used_found.push(found);
        used_true.push(true_one);
        score.ssim += ssim;
        score.psnr += psnr;
        if let Some(arranged) = arranged {
            score.arranged.get_or_insert_default().push(arranged);
        }
    }
    let compared = used_found.len().max(1) as f64;
    score.ssim /= compared;
    score.psnr /= compared;
    Ok(score)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use unmask_core::VitPreset;

    use super::*;

    fn picture(seed: usize, values: usize) -> Vec<f32> {
        (0..values).map(|i| ((i * (seed + 3)) as f32 * 0.37).sin() * 0.5 + 0.5).collect()
    }

    #[test]
    fn those_most_alike_are_compared() {
        let pico = Architecture::from(VitPreset::Pico);
        let truths: Vec<_> = (0..3).map(|seed| picture(seed, 768)).collect();
        let mixed_up = [truths[2].clone(), truths[0].clone(), truths[1].clone()];
        let score_of =
            |pictures: &[Vec<f32>]| score(AttackMethod::Matching, pictures, &truths, pico, (16, 16)).unwrap();
        assert!((score_of(&mixed_up).ssim - 1.0).abs() < 1e-9);
        assert_eq!(score_of(&mixed_up[..1]).psnr, metrics::PSNR_CAP, "a mixture is compared with what it is most like");
        let gray = vec![0.5; 768];
        let one_lost = score_of(&[truths[1].clone(), gray, truths[0].clone()]);
        assert!(one_lost.ssim > 0.6 && one_lost.ssim < 0.8, "{}", one_lost.ssim);
        assert!(one_lost.best_ssim > 0.999, "{}", one_lost.best_ssim);
    }

    #[test]
    fn jigsaws_are_laid_first() {
        let pico = Architecture::from(VitPreset::Pico);
        let truth = picture(1, 768);
        // Swap the upper and the lower half.
        let swapped = [&truth[384..], &truth[..384]].concat();
        let plain = score(AttackMethod::Matching, from_ref(&swapped), from_ref(&truth), pico, (16, 16)).unwrap();
        let arranged = score(AttackMethod::Jigsaw, &[swapped], from_ref(&truth), pico, (16, 16)).unwrap();
        assert!(plain.ssim < 0.5 && plain.arranged.is_none());
        assert_eq!((arranged.psnr, arranged.arranged), (metrics::PSNR_CAP, Some(vec![truth])));
    }

    #[test]
    fn wrong_sizes_are_named() {
        let pico = Architecture::from(VitPreset::Pico);
        let error = score(AttackMethod::Embedding, &[vec![0.0; 3]], &[vec![0.0; 768]], pico, (16, 16)).unwrap_err();
        assert!(error.to_string().contains("768 values, the two given have 3"), "{error}");
    }
}
