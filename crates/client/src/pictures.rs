//! The pictures of one round at the model's size, one batch at a time.

use std::sync::{Arc, Mutex, PoisonError};

use unmask_core::Rule;
use unmask_data::{Picture, PictureError, chw_to_hwc};

use crate::{PictureSelection, RoundPlan, Shard};

/// Labelled pictures that are read one batch at a time, because a shard at 224 pixels would not fit in a phone's
/// memory.
pub trait PictureSource {
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `most` pictures, starting with `first`.
    fn batch(&self, first: usize, most: usize) -> Result<Batch, PictureError>;
}

/// Pictures in the model's format.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// `[batch, 3, side, side]` in `[0, 1]`.
    pub images: Vec<f32>,
    /// `[batch]`.
    pub labels: Vec<usize>,
}

impl PictureSource for Batch {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, first: usize, most: usize) -> Result<Batch, PictureError> {
        let end = self.len().min(first.saturating_add(most));
        let first = first.min(end);
        let values = self.images.len() / self.len().max(1);
        let images = self.images.get(first * values..end * values).unwrap_or_default().to_vec();
        Ok(Batch { images, labels: self.labels[first..end].to_vec() })
    }
}

/// A picture of the client's own. It never leaves the device.
#[derive(Debug)]
pub struct PrivatePicture {
    picture: Picture,
    label: usize,
    /// Cached at the side last asked for, because resizing a photograph takes longer than a step.
    resized: Mutex<Option<(usize, Arc<[f32]>)>>,
}

impl PrivatePicture {
    pub fn new(picture: Picture, label: usize) -> Self {
        Self { picture, label, resized: Mutex::new(None) }
    }

    /// The picture as `[3, side, side]` in `[0, 1]`.
    fn chw(&self, side: usize) -> Arc<[f32]> {
        let mut resized = self.resized.lock().unwrap_or_else(PoisonError::into_inner);
        match &*resized {
            Some((at, chw)) if *at == side => Arc::clone(chw),
            _ => {
                let chw: Arc<[f32]> = self.picture.for_model(side).into();
                *resized = Some((side, Arc::clone(&chw)));
                chw
            }
        }
    }
}

/// The pictures of one round, at the side of its model.
#[derive(Debug, Clone)]
pub struct RoundPictures {
    side: usize,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    Private(Vec<Arc<PrivatePicture>>),
    Shared { shard: Arc<Shard>, positions: Vec<usize> },
}

impl RoundPictures {
    pub fn are_private(&self) -> bool {
        matches!(self.origin, Origin::Private(_))
    }

    /// Each picture, `[side, side, 3]` in `[0, 1]`, at the given side.
    ///
    /// # Errors
    /// A shared picture has another size than it claims.
    pub fn each(&self, side: usize) -> Result<Vec<Vec<f32>>, PictureError> {
        let at = Self { side, origin: self.origin.clone() };
        let one = |number| Ok(chw_to_hwc(&at.batch(number, 1)?.images, side, side));
        (0..self.len()).map(one).collect()
    }

    /// The only picture; `None` if there are several.
    pub fn only(&self, side: usize) -> Option<Vec<f32>> {
        (self.len() == 1).then(|| self.each(side).ok()?.pop()).flatten()
    }
}

impl PictureSource for RoundPictures {
    fn len(&self) -> usize {
        match &self.origin {
            Origin::Private(pictures) => pictures.len(),
            Origin::Shared { positions, .. } => positions.len(),
        }
    }

    fn batch(&self, first: usize, most: usize) -> Result<Batch, PictureError> {
        let mut batch = Batch::default();
        match &self.origin {
            Origin::Private(pictures) => {
                for picture in pictures.iter().skip(first).take(most) {
                    batch.images.extend_from_slice(&picture.chw(self.side));
                    batch.labels.push(picture.label);
                }
            }
            Origin::Shared { shard, positions } => {
                for &position in positions.iter().skip(first).take(most) {
                    let rgb = shard.rgb(position).unwrap_or_default().to_vec();
                    batch.images.extend(Picture::new(shard.side(), shard.side(), rgb)?.for_model(self.side));
                    batch.labels.extend(shard.labels().get(position).map(|&label| usize::from(label)));
                }
            }
        }
        Ok(batch)
    }
}

/// The client's own pictures, taken in turn.
#[derive(Debug, Default)]
pub(crate) struct PrivatePictures {
    pictures: Vec<Arc<PrivatePicture>>,
    next: usize,
    /// The picture of the last round, if it used only one.
    alone: Option<Arc<PrivatePicture>>,
}

impl PrivatePictures {
    pub(crate) fn new(pictures: Vec<PrivatePicture>) -> Self {
        Self { pictures: pictures.into_iter().map(Arc::new).collect(), next: 0, alone: None }
    }

    /// All of them, for a model of this side.
    #[cfg(test)]
    pub(crate) fn all(&self, side: usize) -> RoundPictures {
        RoundPictures { side, origin: Origin::Private(self.pictures.clone()) }
    }

    /// The picture of the last round if it used only one, or else the first picture, as a model of this side trains on
    /// it: `[side, side, 3]` in [0, 1].
    pub(crate) fn shown(&self, side: usize) -> Option<Vec<f32>> {
        let shown = self.alone.as_ref().or(self.pictures.first())?;
        let values = chw_to_hwc(&shown.picture.for_model(side), side, side);
        // Interpolation may leave the range by a rounding.
        Some(values.into_iter().map(|value| value.clamp(0.0, 1.0)).collect())
    }

    /// The pictures that `plan` asks for: under FedSGD the next ones, as many as one gradient takes; under FedAvg all.
    pub(crate) fn of_round(&mut self, plan: &RoundPlan) -> Result<RoundPictures, String> {
        let origin = match &plan.pictures {
            PictureSelection::Shared { shard, positions } => {
                Origin::Shared { shard: Arc::clone(shard), positions: positions.clone() }
            }
            PictureSelection::Private => {
                let pictures = self.next(plan.rule, plan.batch);
                if pictures.is_empty() {
                    return Err("this client has no private picture".to_owned());
                }
                pictures.iter().try_for_each(|picture| plan.check_label(picture.label))?;
                self.alone = if let [alone] = pictures.as_slice() { Some(Arc::clone(alone)) } else { None };
                Origin::Private(pictures)
            }
        };
        Ok(RoundPictures { side: plan.architecture.side(), origin })
    }

    fn next(&mut self, rule: Rule, batch: usize) -> Vec<Arc<PrivatePicture>> {
        let len = self.pictures.len();
        match rule {
            Rule::FedAvg { .. } => self.pictures.clone(),
            // Never takes a picture twice: such a batch would have the gradient of one picture.
            Rule::FedSgd => {
                let batch = batch.min(len);
                let taken = self.pictures.iter().cycle().skip(self.next).take(batch).cloned().collect();
                self.next = (self.next + batch) % len.max(1);
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(count: u8) -> PrivatePictures {
        let picture = |label: u8| Picture::new(2, 2, vec![label * 50; 12]).unwrap();
        PrivatePictures::new((0..count).map(|label| PrivatePicture::new(picture(label), label.into())).collect())
    }

    fn labels(taken: &[Arc<PrivatePicture>]) -> Vec<usize> {
        taken.iter().map(|picture| picture.label).collect()
    }

    #[test]
    fn private_pictures_take_turns() {
        let mut three = pictures(3);
        assert_eq!(labels(&three.next(Rule::FedSgd, 2)), [0, 1]);
        assert_eq!(labels(&three.next(Rule::FedSgd, 2)), [2, 0]);
        assert_eq!(labels(&three.next(Rule::FedSgd, 1)), [1]);
        assert_eq!(labels(&three.next(Rule::FedSgd, 7)), [2, 0, 1]);
        assert_eq!(labels(&three.next(Rule::FedAvg { epochs: 1, rate: 0.1 }, 1)), [0, 1, 2]);
        assert!(pictures(0).next(Rule::FedSgd, 3).is_empty());
    }

    #[test]
    fn batches_are_read_as_they_are_asked_for() {
        let source = pictures(3).all(4);
        let batch = source.batch(1, 5).unwrap();
        assert_eq!((batch.images.len(), batch.labels), (2 * 3 * 16, vec![1, 2]));
        assert_eq!(source.batch(3, 1).unwrap(), Batch::default());
        assert_eq!(source.only(4), None);
        let one = pictures(1).all(4);
        assert_eq!(one.only(2), Some(vec![0.0; 12]));
    }

    #[test]
    fn a_picture_is_resized_once_for_each_side() {
        let picture = PrivatePicture::new(Picture::new(2, 2, vec![9; 12]).unwrap(), 0);
        let first = picture.chw(4);
        assert!(Arc::ptr_eq(&first, &picture.chw(4)));
        assert_eq!((picture.chw(8).len(), picture.chw(4).len()), (192, 48));
    }

    #[test]
    fn a_batch_in_memory_is_a_source_too() {
        let batch = Batch { images: (0..6).map(|i| i as f32).collect(), labels: vec![4, 5, 6] };
        assert_eq!(batch.batch(1, 9).unwrap(), Batch { images: vec![2.0, 3.0, 4.0, 5.0], labels: vec![5, 6] });
        assert_eq!(batch.batch(7, 1).unwrap(), Batch::default());
    }
}
