//! The pictures of one update, at the model's size, a batch at a time.

use std::{collections::VecDeque, sync::Arc};

use unmask_client::{Plan, Shard, TrainOn};
use unmask_data::{Picture, chw_to_hwc};

use super::own_picture::OwnPicture;

/// Rounds whose pictures are remembered: a search goes on with an old update while the room trains on.
const REMEMBERED_ROUNDS: usize = 1000;

/// What an update is made from.
pub enum Samples<'a> {
    /// The private picture.
    Private(&'a OwnPicture),
    /// Some of the shared ones.
    Shared {
        /// Where they are.
        shard: &'a Arc<Shard>,
        /// Which ones.
        positions: &'a [usize],
    },
}

impl<'a> Samples<'a> {
    /// What `plan` asks for.
    ///
    /// # Errors
    /// If the model has no such class as the private picture's, in words for people.
    pub fn of(plan: &'a Plan, own: &'a OwnPicture) -> Result<Self, String> {
        match &plan.train_on {
            TrainOn::Private => plan.check_label(own.label).map(|()| Self::Private(own)),
            TrainOn::Shared { shard, positions } => Ok(Self::Shared { shard, positions }),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            // One private picture is all there is. A larger batch would hold it several times: the same gradient.
            Self::Private(_) => 1,
            Self::Shared { positions, .. } => positions.len(),
        }
    }

    /// Those from `first` on, at most `most`: `[n, 3, side, side]` in `[0, 1]`, and their labels. Only so many are ever at
    /// the model's size, since a shard at 224 pixels would not fit a phone.
    pub fn batch(&self, first: usize, most: usize, side: usize) -> (Vec<f32>, Vec<usize>) {
        match self {
            Self::Private(own) if first == 0 && most > 0 => (own.chw(side), vec![own.label]),
            Self::Private(_) => Default::default(),
            Self::Shared { shard, positions } => {
                let taken = positions.iter().skip(first).take(most);
                let (mut images, mut labels) = (Vec::new(), Vec::new());
                for &position in taken {
                    if let (Some(image), Some(&label)) = (chw(shard, position, side), shard.labels().get(position)) {
                        images.extend(image);
                        labels.push(label.into());
                    }
                }
                (images, labels)
            }
        }
    }
}

/// Picture `position` of a shard, `[3, side, side]` in `[0, 1]`.
fn chw(shard: &Shard, position: usize, side: usize) -> Option<Vec<f32>> {
    let rgb = shard.rgb(position)?.to_vec();
    Some(Picture::new(shard.side(), shard.side(), rgb).ok()?.for_model(side))
}

/// The one picture of an update, where there was one alone.
#[derive(Clone)]
enum Used {
    Private,
    Shared(Arc<Shard>, usize),
    Several,
}

/// What the last updates were made from, so that what attacks make of them is compared with the right picture.
#[derive(Default)]
pub struct Memory {
    rounds: VecDeque<(u32, Used)>,
}

impl Memory {
    /// Remembers the pictures of `round`.
    pub fn keep(&mut self, round: u32, samples: &Samples<'_>) {
        let used = match samples {
            Samples::Private(_) => Used::Private,
            Samples::Shared { shard, positions: [position] } => Used::Shared(Arc::clone(shard), *position),
            Samples::Shared { .. } => Used::Several,
        };
        self.rounds.push_back((round, used));
        if self.rounds.len() > REMEMBERED_ROUNDS {
            self.rounds.pop_front();
        }
    }

    /// The picture that the update of `round` was made from, `[side, side, 3]` in `[0, 1]`, and whether it is the private
    /// one. `None` where there were several, or it is too long ago.
    pub fn picture(&self, round: u32, own: &OwnPicture, side: usize) -> Option<(Vec<f32>, bool)> {
        // A room that was reset counts its rounds anew, so the newest of a number counts.
        let (_, used) = self.rounds.iter().rev().find(|(known, _)| *known == round)?;
        let (chw, is_private) = match used {
            Used::Private => (own.chw(side), true),
            Used::Shared(shard, position) => (chw(shard, *position, side)?, false),
            Used::Several => return None,
        };
        Some((chw_to_hwc(&chw, side, side), is_private))
    }
}
