//! The device this tab trains on.

use unmask_core::Architecture;
use unmask_model::device::{Compute, OpenDevice, open, probe};

/// The device chosen, and the model it was chosen for.
#[derive(Default)]
pub struct ChosenDevice {
    chosen: Option<(Architecture, OpenDevice)>,
    /// Why the graphics adapter is not tried again, if it has failed.
    failure: Option<String>,
}

impl ChosenDevice {
    /// In words, once there is one.
    pub fn description(&self) -> Option<String> {
        self.chosen.as_ref().map(|(_, device)| device.description())
    }

    /// The device to train `architecture` on and, where it is chosen now, why: for another model another one may be faster,
    /// while the April block of the same model changes nothing.
    pub async fn for_model(
        &mut self,
        architecture: Architecture,
        wanted: Option<Compute>,
    ) -> (OpenDevice, Option<String>) {
        if let Some((known, device)) = &self.chosen
            && known.with_april_block(false) == architecture.with_april_block(false)
        {
            return (device.clone(), None);
        }
        let (device, reason) = match &self.failure {
            Some(failure) => (OpenDevice::cpu(), failure.clone()),
            None => choose(architecture, wanted).await,
        };
        self.chosen = Some((architecture, device.clone()));
        (device, Some(reason))
    }

    /// The graphics adapter failed in the midst of a step: the CPU, which it goes on with, and why.
    pub fn give_up_gpu(&mut self, architecture: Architecture, failure: &str) -> (OpenDevice, String) {
        let (device, reason) = (OpenDevice::cpu(), format!("CPU: the graphics adapter failed ({failure})"));
        (self.chosen, self.failure) = (Some((architecture, device.clone())), Some(reason.clone()));
        (device, reason)
    }
}

/// The faster of WebGPU and CPU, unless `wanted` names one.
async fn choose(architecture: Architecture, wanted: Option<Compute>) -> (OpenDevice, String) {
    if let Some(wanted) = wanted {
        return match open(wanted).await {
            Ok(device) => {
                let reason = format!("{}: requested in this page’s address", device.description());
                (device, reason)
            }
            Err(error) => (OpenDevice::cpu(), format!("CPU: {wanted} was requested, but {error}")),
        };
    }
    match probe(architecture, 1).await {
        Ok(probe) => (probe.device, probe.reason),
        Err(error) => (OpenDevice::cpu(), format!("CPU: comparing devices failed ({error})")),
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    /// Not even where the page's address asks for it, and not for another model.
    #[wasm_bindgen_test]
    async fn a_gpu_that_failed_is_not_tried_again() {
        let (pico, nano) = (Architecture::from(VitPreset::Pico), Architecture::from(VitPreset::Nano));
        let mut chosen = ChosenDevice::default();
        let (device, reason) = chosen.give_up_gpu(pico, "device lost");
        assert_eq!(
            (device.compute(), reason.as_str()),
            (Compute::Cpu, "CPU: the graphics adapter failed (device lost)")
        );
        for (architecture, is_new) in [(pico, false), (nano, true)] {
            let (device, again) = chosen.for_model(architecture, Some(Compute::Gpu)).await;
            assert_eq!((device.compute(), again), (Compute::Cpu, is_new.then(|| reason.clone())));
        }
    }

    #[wasm_bindgen_test]
    async fn another_model_is_measured_and_another_april_block_is_not() {
        let (pico, nano) = (Architecture::from(VitPreset::Pico), Architecture::from(VitPreset::Nano));
        let mut chosen = ChosenDevice::default();
        for (architecture, is_new) in [
            (pico, true),
            (pico, false),
            (pico.with_april_block(true), false),
            (nano.with_april_block(true), true),
            (nano, false),
            (pico, true),
        ] {
            let (device, reason) = chosen.for_model(architecture, Some(Compute::Cpu)).await;
            assert_eq!(device.compute(), Compute::Cpu);
            assert_eq!(reason.is_some(), is_new, "{architecture:?}");
        }
    }
}
