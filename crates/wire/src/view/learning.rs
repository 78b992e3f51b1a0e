//! What the room learns from, and how well.

use serde::{Deserialize, Serialize};
use unmask_core::{Partition, TrainOn};

/// The source of the data set whose pictures are drawn, and have classes that no photograph has.
const GENERATED: &str = "generated";

/// The data set that the room can share out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DataView {
    /// Where it comes from: `cifar10`, `generated` or `folder:PATH`.
    pub source: String,
    pub name: String,
    /// Whether it is in memory; the fields from `classes` to `shards` are empty or 0 until it is.
    pub is_ready: bool,
    /// Their names, by label.
    pub classes: Vec<String>,
    /// Pictures to train on, over all.
    pub pictures: u32,
    /// Pictures held out, of which the evaluation takes some.
    pub held_out: u32,
    /// Pictures of each class in each shard, `[shards][classes]`. Client n has shard (n - 1) mod the number of shards.
    pub shards: Vec<Vec<u32>>,
    /// How many shards it is divided into.
    #[serde(rename = "seats")]
    pub shard_count: u16,
    /// Most pictures in a shard.
    #[serde(rename = "shard")]
    pub shard_pictures: u32,
    pub partition: Partition,
    /// What the rounds in force train on.
    pub train_on: TrainOn,
}

impl DataView {
    /// The classes that a private picture can be labelled with; none where this data set names none for photographs, and
    /// those of CIFAR-10 serve.
    pub fn photograph_classes(&self) -> &[String] {
        if self.source == GENERATED { &[] } else { &self.classes }
    }
}

/// How well the global model does on pictures that no client trains on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EvaluationView {
    /// The round after which the model was measured; 0 before the first.
    pub round: u32,
    /// Share of pictures whose class it names.
    pub accuracy: f64,
    /// 95 % confidence interval of that share, for so many pictures drawn at random (Wilson, 1927).
    pub interval: [f64; 2],
    pub loss: f64,
    /// Number of pictures N it was measured on; 0 where there is no result.
    pub pictures: u32,
    /// `[classes, classes]`, row-major: how many pictures of the class of the row were taken for that of the column.
    pub confusion: Vec<u32>,
    pub classes: Vec<String>,
    pub seconds: f64,
    /// Why the model of the room is not measured, in words for people; the result beside it, if any, is an earlier one.
    pub remark: Option<String>,
}

/// One point of the accuracy curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccuracyPoint {
    /// The round after which the model was measured; 0 before the first.
    pub round: u32,
    /// Share of held-out pictures whose class it names.
    pub accuracy: f64,
    /// Mean cross-entropy on them.
    pub loss: f64,
    /// How many there were.
    pub pictures: u32,
}
