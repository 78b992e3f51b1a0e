//! Gradient matching, through every family of models.

mod common;
mod conv;
mod resnet_matching;
mod searches;
