//! The attacks, against results from PyTorch and on generated cases.

mod april;
mod aware;
mod batch;
mod common;
mod completion;
mod embedding;
mod known_start;
mod labels;
mod membership;
mod received;
