//! Remembers the pictures behind earlier updates, to compare a reconstruction with the right one.

use std::collections::VecDeque;

use unmask_core::AttackMethod;
use unmask_data::{jigsaw, metrics};

use crate::{PictureSource, RoundPictures, RoundPlan};

/// Number of remembered rounds: a search works on an old update while the room trains on.
const REMEMBERED_ROUNDS: usize = 1000;

/// Largest number of pictures behind an update that are remembered.
const REMEMBERED_PICTURES: usize = 16;

/// A reconstruction compared with the picture that it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconstructionScore {
    /// The picture as the model saw it, `[side, side, 3]` in `[0, 1]`.
    pub own: Vec<f32>,
    /// Whether it is a private picture rather than a shared one.
    pub is_private: bool,
    pub psnr: f32,
    pub ssim: f32,
}

#[derive(Debug)]
struct Round {
    number: u32,
    /// Side of the model's patches in pixels; `None` for a model without patches.
    patch: Option<usize>,
    /// The pictures, if there were only a few.
    few: Option<RoundPictures>,
}

#[derive(Debug, Default)]
pub(crate) struct PictureHistory {
    rounds: VecDeque<Round>,
}

impl PictureHistory {
    pub(crate) fn remember(&mut self, plan: &RoundPlan, pictures: &RoundPictures) {
        let patch = plan.architecture.vit().map(|config| config.patch);
        let few = (pictures.len() <= REMEMBERED_PICTURES).then(|| pictures.clone());
        // Several are of use only until the next round, and hold their whole shard.
        if let Some(last) = self.rounds.back_mut() {
            last.few.take_if(|few| few.len() > 1);
        }
        self.rounds.push_back(Round { number: plan.round, patch, few });
        if self.rounds.len() > REMEMBERED_ROUNDS {
            self.rounds.pop_front();
        }
    }

    /// Compares `reconstruction` `[side, side, 3]` of round `round`. `None` if there were several pictures or the round
    /// is too old.
    pub(crate) fn compare(
        &self,
        round: u32,
        method: AttackMethod,
        side: usize,
        reconstruction: &[f32],
    ) -> Option<Result<ReconstructionScore, String>> {
        let Round { patch, few, .. } = self.round(round)?;
        let few = few.as_ref()?;
        let patch = patch.filter(|_| method.is_unordered());
        let (own, is_private) = (few.only(side)?, few.are_private());
        let score = score(&own, side, reconstruction, patch);
        Some(score.map(|(psnr, ssim)| ReconstructionScore { own, is_private, psnr, ssim }))
    }

    /// Compares pictures `[side, side, 3]` from an update of several with those of round `round`, each with one of its
    /// own. `None` for those that have none.
    pub(crate) fn compare_batch(
        &self,
        round: u32,
        side: usize,
        reconstructions: &[Vec<f32>],
    ) -> Vec<Option<ReconstructionScore>> {
        let few = self.round(round).and_then(|round| round.few.as_ref());
        let is_private = few.is_some_and(RoundPictures::are_private);
        let originals = few.and_then(|few| few.each(side).ok()).unwrap_or_default();
        let originals: Vec<Option<Vec<f32>>> = originals.into_iter().map(Some).collect();
        let pictures: Vec<&[f32]> = reconstructions.iter().map(Vec::as_slice).collect();
        let compared = |(picture, place): (&&[f32], usize)| {
            let own = originals.get(place)?.clone()?;
            let (psnr, ssim) = score(&own, side, picture, None).ok()?;
            Some(ReconstructionScore { own, is_private, psnr, ssim })
        };
        pictures.iter().zip(metrics::nearest_originals(&pictures, &originals)).map(compared).collect()
    }

    /// A reset room counts its rounds from 1 again, so the newest round with a number counts.
    fn round(&self, number: u32) -> Option<&Round> {
        self.rounds.iter().rev().find(|known| known.number == number)
    }
}

/// PSNR in dB and SSIM of a reconstruction `[side, side, 3]` against `own` `[side, side, 3]`. If `patch` is given, the
/// reconstruction's patches of this side are unordered and are first put in their best order, which only the owner of
/// the picture can find.
fn score(own: &[f32], side: usize, reconstruction: &[f32], patch: Option<usize>) -> Result<(f32, f32), String> {
    let arranged = patch
        .map(|patch| jigsaw::best_arrangement(reconstruction, own, side, patch))
        .transpose()
        .map_err(|error| error.to_string())?;
    let reconstruction = arranged.as_deref().unwrap_or(reconstruction);
    let psnr = metrics::psnr(own, reconstruction, side, side).map_err(|error| error.to_string())?;
    let ssim = metrics::ssim(own, reconstruction, side, side).map_err(|error| error.to_string())?;
    Ok((psnr as f32, ssim as f32))
}

#[cfg(test)]
mod tests {
    use unmask_data::Picture;

    use super::*;
    use crate::{PrivatePicture, pictures::PrivatePictures};

    /// Each is compared with the original that it resembles most, and no original twice.
    #[test]
    fn pictures_of_a_batch_meet_their_originals() {
        let side = 16;
        let picture = |seed: usize| {
            let rgb = (0..side * side * 3).map(|i| (i * (seed * 7 + 3) % 251) as u8).collect();
            PrivatePicture::new(Picture::new(side, side, rgb).unwrap(), seed)
        };
        let pictures = PrivatePictures::new((0..2).map(picture).collect()).all(side);
        let own = pictures.each(side).unwrap();
        let history = PictureHistory { rounds: [Round { number: 4, patch: None, few: Some(pictures) }].into() };
        let found: Vec<Vec<f32>> = [1, 0, 1].map(|at| own[at].iter().map(|value| value + 0.01).collect()).into();
        let scores = history.compare_batch(4, side, &found[..2]);
        for (score, own) in scores.iter().zip([&own[1], &own[0]]) {
            let score = score.as_ref().unwrap();
            assert!(score.is_private && &score.own == own && (score.psnr - 40.0).abs() < 0.1, "{} dB", score.psnr);
        }
        assert_eq!(history.compare_batch(4, side, &found).iter().flatten().count(), 2);
        assert_eq!(history.compare_batch(5, side, &found), [None, None, None]);
    }

    /// Unordered patches score low as received and perfectly in their best order.
    #[test]
    fn a_jigsaw_is_compared_in_its_best_order() {
        let (side, patch) = (32, 8);
        let truth: Vec<f32> = (0..side * side * 3).map(|i| ((i as f32 * 0.37).sin() + 1.0) / 2.0).collect();
        // Rows of patches from the bottom up.
        let strip = side * patch * 3;
        let found: Vec<f32> = truth.chunks_exact(strip).rev().flatten().copied().collect();
        let (_, unordered) = score(&truth, side, &found, None).unwrap();
        let (_, arranged) = score(&truth, side, &found, Some(patch)).unwrap();
        assert!(unordered < 0.6 && arranged > 0.999, "{unordered} then {arranged}");
        assert!(score(&truth, side, &found, Some(5)).unwrap_err().contains("5 x 5"));
    }
}
