//! The networks, against PyTorch and on every device.

mod batch_norm;
mod devices;
mod local;
mod local_golden;
mod oracle;
mod parity;
mod pytorch_presets;
#[path = "../../../../tests/support/skipped.rs"]
mod skipped;
mod training;
