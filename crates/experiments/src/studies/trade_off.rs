//! Accuracy under each defence against what the defence leaks to the best attacker.
//!
//! Accuracy is that of the trained models on held-out pictures. Leakage is the SSIM of an attacker's reconstruction of
//! a sample photograph that is alone in its update, at the initial weights and at the final weights of the training
//! under the same defence. The best attacker has the largest mean over photographs and seeds, regardless of its
//! knowledge and of the weights it attacks.

mod curve;
mod findings;
mod leakage;
mod live;
mod outcome;
mod plans;
mod study;

pub use self::live::{LiveTradeOff, OnColumns};
pub(super) use self::study::STUDY;
