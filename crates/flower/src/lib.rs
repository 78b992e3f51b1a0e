//! A node of a [Flower](https://flower.ai) federation.
//!
//! [`Node`] registers with a SuperLink, keeps its heartbeat, yields what it is asked to do and takes what is to be replied.
//! [`ModelArrays`] makes a model of the arrays that came, and arrays of a model. It speaks the Fleet API of flwr 1.41:
//! protobuf over HTTP, every call signed by the node's key. No other crate knows of Flower. A SuperLink may be hostile:
//! what it sends is bounded before it is held, and checked before it is used.

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
