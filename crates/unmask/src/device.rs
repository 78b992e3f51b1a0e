//! The compute device by its name on the command line.

use anyhow::anyhow;
use unmask_model::device::{Compute, OpenDevice, open_blocking};

use crate::Failure;

/// Opens `cpu` or `gpu`.
///
/// # Errors
/// [`Failure::Input`] for another name; [`Failure::Other`] if there is no usable graphics adapter.
pub fn open(name: &str) -> Result<OpenDevice, Failure> {
    let compute = match name {
        "cpu" => Compute::Cpu,
        "gpu" => Compute::Gpu,
        other => return Err(Failure::Input(anyhow!("unknown device \"{other}\"; the devices are cpu and gpu"))),
    };
    open_blocking(compute).map_err(|error| Failure::Other(error.into()))
}
