//! A node of a [Flower](https://flower.ai) federation.
//!
//! [`Node`] registers with a SuperLink, sends heartbeats, yields instructions and sends replies. [`ModelArrays`]
//! converts arrays to a model and back. The crate speaks the Fleet API of flwr 1.41: protobuf over HTTP, with every
//! call signed by the node's key. All code specific to Flower is here. Since a SuperLink may be hostile, its data is
//! bounded before it is stored and validated before it is used.

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod error;
mod instruction;
mod key;
mod metrics;
mod model;
mod node;
mod objects;
mod protocol;
mod records;
mod superlink;

pub use error::{FlowerError, KeyError};
pub use instruction::{Instruction, Reply, Task};
pub use key::NodeKey;
pub use metrics::TrainMetrics;
pub use model::{ArraysError, MASK_SUFFIX, ModelArrays};
pub use node::{Node, NodeOptions};
pub use objects::Limits;
pub use records::{Array, ConfigValue, MetricValue, Named, Records};
pub use superlink::{SuperLinkAddress, draw};
