//! What the room's model says of a picture that the student tries on it.

use unmask_client::{PictureSelection, RoundPlan};
use unmask_data::{Picture, chw_to_hwc};
use unmask_model::{Device, Network};

use super::picture::{self, rgba};
use crate::{protocol::Answer, ranking};

/// Classes that an answer names.
const NAMED: usize = 5;

/// A picture to try.
pub struct Trial {
    /// The number that the page gave it.
    pub number: u32,
    picture: Picture,
}

impl Trial {
    /// From the page's RGB bytes.
    ///
    /// # Errors
    /// If they are no picture of the page's size.
    pub fn new(number: u32, rgb: Vec<u8>) -> Result<Self, String> {
        let picture = picture::from_page(rgb).map_err(|error| error.to_string())?;
        Ok(Self { number, picture })
    }

    /// What the weights of `plan` make of it.
    ///
    /// # Errors
    /// If the model cannot be computed, in words for people.
    pub async fn answer(&self, plan: &RoundPlan, device: &Device) -> Result<Answer, String> {
        let side = plan.architecture.side();
        let image = self.picture.for_model(side);
        let network = Network::new(plan.architecture, device).map_err(|error| error.to_string())?;
        let logits = network.logits(&plan.state, &image, 1).await.map_err(|error| error.to_string())?;
        // A model may have more classes than its data set has.
        let classes = match &plan.pictures {
            PictureSelection::Shared { shard, .. } => shard.classes().len().min(logits.len()),
            PictureSelection::Private => logits.len(),
        };
        Ok(Answer {
            after: plan.round.saturating_sub(1),
            is_shared: matches!(plan.pictures, PictureSelection::Shared { .. }),
            classes,
            best: ranking::best(&logits[..classes], NAMED),
            side: side as u32,
            seen: rgba(&chw_to_hwc(&image, side, side)),
        })
    }
}
