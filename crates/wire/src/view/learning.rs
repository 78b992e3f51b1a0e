//! The room's data set and the accuracy of its model.

use serde::{Deserialize, Serialize};
use unmask_core::{Partition, TrainOn};

/// Source of the data set whose pictures are drawn by the program; its classes do not suit photographs.
const GENERATED: &str = "generated";

/// The data set that the room can share out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DataView {
    /// Source: `cifar10`, `generated` or `folder:PATH`.
    pub source: String,
    pub name: String,
    /// Whether it is loaded; the fields from `classes` to `shards` are empty or 0 until then.
    pub is_ready: bool,
    /// Class names by label.
    pub classes: Vec<String>,
    /// Training pictures in total.
    pub pictures: u32,
    /// Held-out pictures; the evaluation uses some of them.
    pub held_out: u32,
    /// Pictures of each class in each shard, `[shards][classes]`. Client n gets shard (n - 1) mod the number of shards.
    pub shards: Vec<Vec<u32>>,
    /// Number of shards.
    #[serde(rename = "seats")]
    pub shard_count: u16,
    /// Most pictures in a shard.
    #[serde(rename = "shard")]
    pub shard_pictures: u32,
    pub partition: Partition,
    /// The pictures that current rounds train on.
    pub train_on: TrainOn,
}

impl DataView {
    /// Classes for labelling a private picture. Empty if this data set's classes do not suit photographs; pages then
    /// use words for any photograph.
    pub fn photograph_classes(&self) -> &[String] {
        if self.source == GENERATED { &[] } else { &self.classes }
    }
}

/// The global model's quality on pictures that no client trains on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EvaluationView {
    /// The round after which the model was measured; 0 before the first.
    pub round: u32,
    /// Share of pictures classified correctly.
    pub accuracy: f64,
    /// 95 % confidence interval of the accuracy for this many random pictures (Wilson, 1927).
    pub interval: [f64; 2],
    pub loss: f64,
    /// Number of pictures N measured; 0 without a result.
    pub pictures: u32,
    /// `[classes, classes]`, row-major: pictures of the row's class that were classified as the column's class.
    pub confusion: Vec<u32>,
    pub classes: Vec<String>,
    pub seconds: f64,
    /// Why the room's model is not measured, in words; any result beside it is an earlier one.
    pub remark: Option<String>,
}

/// One point of the accuracy curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccuracyPoint {
    /// The round after which the model was measured; 0 before the first.
    pub round: u32,
    /// Share of held-out pictures classified correctly.
    pub accuracy: f64,
    /// Mean cross-entropy on held-out pictures.
    pub loss: f64,
    /// Number of held-out pictures measured.
    pub pictures: u32,
}
