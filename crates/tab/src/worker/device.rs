//! The device this tab trains on.

use unmask_core::ModelSpec;
use unmask_model::device::{Compute, OpenDevice, open, probe};

/// The device to train `spec` on and why that one: the faster of WebGPU and CPU, unless `wanted` names one.
pub async fn choose(spec: ModelSpec, batch: usize, wanted: Option<Compute>) -> (OpenDevice, String) {
    if let Some(wanted) = wanted {
        return match open(wanted).await {
            Ok(device) => {
                let reason = format!("{}: asked for by this page's address", device.description());
                (device, reason)
            }
            Err(error) => (OpenDevice::cpu(), format!("CPU: {wanted} was asked for, but {error}")),
        };
    }
    match probe(spec, batch).await {
        Ok(probe) => (probe.device, probe.reason),
        Err(error) => (OpenDevice::cpu(), format!("CPU: comparing devices failed ({error})")),
    }
}
