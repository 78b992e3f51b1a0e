//! What the worker reported, as the page shows it.

use super::pixels::Rgba;
use crate::protocol::{Answer, Comparison, GroupView, ShardView};
use unmask_core::{AttackMethod, Defence, Partition, Rule};

/// The round that trains now, or trained last.
#[derive(Clone, PartialEq)]
pub struct Plan {
    /// Its number.
    pub round: u32,
    /// The model preset.
    pub model: String,
    /// The defence.
    pub defence: Defence,
    /// The update rule it is made by.
    pub rule: Rule,
    /// Number of shared pictures it takes; none where it takes the private one.
    pub shared: Option<u32>,
}

/// What the worker asks the student for.
#[derive(Clone, PartialEq)]
pub struct Question {
    /// In words.
    pub reason: String,
    /// Whether a passphrase was given that does not open this room's model.
    pub wrong: bool,
}

/// The last update that left.
#[derive(Clone)]
pub struct Sent {
    /// Its round.
    pub round: u32,
    /// Time the step took.
    pub milliseconds: f64,
    /// Bytes sent.
    pub bytes: u64,
    /// Bytes it would have weighed unprotected.
    pub plain_bytes: u64,
    /// Number of pictures it was made from.
    pub samples: u32,
    /// The update rule it is made by.
    pub rule: Rule,
    /// One view for each parameter group.
    pub groups: Vec<GroupView>,
}

/// The last round that the relay closed.
#[derive(Clone)]
pub struct Closed {
    /// Its number.
    pub round: u32,
    /// Mean loss of the cohort.
    pub loss: Option<f32>,
    /// Number of updates averaged.
    pub updates: u32,
}

/// This tab's share of the room's data set.
#[derive(Clone)]
pub struct Shard {
    /// Name of the data set, for people.
    pub data: String,
    /// How it was divided, in its string form.
    pub partition: Partition,
    /// Names of the classes, by label.
    pub classes: Vec<String>,
    /// How many pictures there are of each of them.
    pub counts: Vec<u32>,
    /// Some of the pictures on one sheet.
    pub sheet: Option<Rgba>,
}

impl From<ShardView> for Shard {
    fn from(view: ShardView) -> Self {
        let ShardView { data, partition, classes, counts, width, height, sheet } = view;
        Self { data, partition, classes, counts, sheet: Rgba::new(width, height, &sheet) }
    }
}

/// What the room's model says of a picture.
#[derive(Clone)]
pub struct Answered {
    /// The round after which it was asked, the number of classes, whether they are those of the shared pictures, and the
    /// best ones with their probabilities; or why it says nothing.
    pub answer: Result<Answer, String>,
    /// The picture as the model sees it.
    pub seen: Option<Rgba>,
}

impl From<Result<Answer, String>> for Answered {
    fn from(answer: Result<Answer, String>) -> Self {
        let seen = answer.as_ref().ok().and_then(|answer| Rgba::new(answer.side, answer.side, &answer.seen));
        Self { answer, seen }
    }
}

/// What the relay saw of this client.
#[derive(Clone)]
pub struct Attacked {
    /// The round attacked.
    pub round: u32,
    /// The attack.
    pub attack: AttackMethod,
    /// What the relay saw.
    pub reconstruction: Option<Rgba>,
    /// The picture it is of, as the model saw it; none where there were several.
    pub own: Option<Rgba>,
    /// Whether that is the private one.
    pub is_private: bool,
    /// PSNR in dB, where there is one picture to compare with.
    pub psnr: Option<f32>,
    /// SSIM, where there is one picture to compare with.
    pub ssim: Option<f32>,
}

impl Attacked {
    /// A reconstruction, RGBA, `side` squared, and how it compares.
    pub fn new(
        round: u32,
        attack: AttackMethod,
        side: u32,
        reconstruction: &[u8],
        comparison: Option<Comparison>,
    ) -> Self {
        let own = comparison.as_ref().and_then(|comparison| Rgba::new(side, side, &comparison.own));
        Self {
            round,
            attack,
            reconstruction: Rgba::new(side, side, reconstruction),
            own,
            is_private: comparison.as_ref().is_some_and(|comparison| comparison.is_private),
            psnr: comparison.as_ref().map(|comparison| comparison.psnr),
            ssim: comparison.as_ref().map(|comparison| comparison.ssim),
        }
    }
}
