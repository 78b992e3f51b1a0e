//! The device this tab trains on.

use unmask_core::Architecture;
use unmask_model::device::{Compute, OpenDevice, open, probe};

/// The device to train `architecture` on and why that one: the faster of WebGPU and CPU, unless `wanted` names one.
pub async fn choose(architecture: Architecture, batch: usize, wanted: Option<Compute>) -> (OpenDevice, String) {
    if let Some(wanted) = wanted {
        return match open(wanted).await {
            Ok(device) => {
                let reason = format!("{}: asked for by this page's address", device.description());
                (device, reason)
            }
            Err(error) => (OpenDevice::cpu(), format!("CPU: {wanted} was asked for, but {error}")),
        };
    }
    match probe(architecture, batch).await {
        Ok(probe) => (probe.device, probe.reason),
        Err(error) => (OpenDevice::cpu(), format!("CPU: comparing devices failed ({error})")),
    }
}
