//! Attacks on federated learning's updates, and masks against them, for NumPy.
//!
//! invert() is `unmask invert` on arrays: it attacks a gradient and says how far the result can be trusted. mask()
//! hides entries of a gradient as a client of unmask does. Arrays are anything that NumPy can read, with the names of
//! timm, torchvision or Hugging Face.
//!
//!     import torch, unmask
//!
//!     torch.nn.functional.cross_entropy(model(image), label).backward()
//!     gradients = {name: p.grad for name, p in model.named_parameters()}
//!     masked, mask = unmask.mask(gradients, rates=0.5, seed=7)
//!     report = unmask.invert(model.state_dict(), masked, mask, attack="completion")
//!     print(report)
//!     plt.imshow(report.pictures[0])

#![deny(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod arrays;
mod caller;
mod invert;
mod mask;
mod plan;
mod report;

use pyo3::{PyErr, exceptions::PyValueError};

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The compiled half of the package; `python/unmask` is the other.
#[pyo3::pymodule]
mod _unmask {
    #[pymodule_export]
    use crate::{
        invert::invert,
        mask::mask,
        plan::{Plan, similarity},
        report::Report,
    };
}
