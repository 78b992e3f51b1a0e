//! The device that this tab trains on.
//!
//! The CPU is available immediately. If the browser has a graphics adapter that is not a software emulation, the WebGPU
//! worker loads in the background and takes over between two rounds if it proves faster.

use std::{cell::RefCell, rc::Rc};

use unmask_core::Architecture;
use unmask_model::device::{Adapter, Compute, DeviceError, OpenDevice, choose, find_adapter, step_milliseconds};
use wasm_bindgen_futures::spawn_local;

use super::gpu::{GpuWorker, State};

/// The chosen device and the model it was chosen for.
#[derive(Default)]
pub struct ChosenDevice {
    chosen: Option<(Architecture, OpenDevice)>,
    /// The graphics adapter and its worker, once looked for.
    gpu: Option<Result<(Adapter, GpuWorker), DeviceError>>,
    /// The time of a step on the graphics adapter once measured: the model, and the milliseconds.
    timing: Option<(Architecture, Timing)>,
    /// Why the graphics adapter is not tried again, if it has failed.
    failure: Option<String>,
}

type Timing = Rc<RefCell<Option<Result<f64, String>>>>;

impl ChosenDevice {
    /// Describes the device, once one is chosen.
    pub fn description(&self) -> Option<String> {
        self.chosen.as_ref().map(|(_, device)| device.description())
    }

    /// The device to train `architecture` on and, if newly chosen, the reason. Another model may be faster on another
    /// device; the April block of the same model makes no difference.
    pub async fn for_model(
        &mut self,
        architecture: Architecture,
        wanted: Option<Compute>,
    ) -> (OpenDevice, Option<String>) {
        let architecture = architecture.with_april_block(false);
        if let Some((known, device)) = &self.chosen
            && *known == architecture
        {
            let device = device.clone();
            return match self.taking_over(architecture).await {
                Some((faster, reason)) => {
                    self.chosen = Some((architecture, faster.clone()));
                    (faster, Some(reason))
                }
                None => (device, None),
            };
        }
        self.timing = None;
        let (device, reason) = match (&self.failure, wanted) {
            (Some(failure), _) => (OpenDevice::cpu(), failure.clone()),
            (None, Some(Compute::Cpu)) => {
                let device = OpenDevice::cpu();
                let reason = format!("{}: requested in this page’s address", device.description());
                (device, reason)
            }
            (None, Some(Compute::Gpu)) => self.requested_gpu().await,
            (None, None) => self.cpu_for_now(architecture).await,
        };
        self.chosen = Some((architecture, device.clone()));
        (device, Some(reason))
    }

    /// Switches to the CPU because the graphics adapter failed during a step. Returns the CPU and the reason.
    pub fn give_up_gpu(&mut self, architecture: Architecture, failure: &str) -> (OpenDevice, String) {
        let (device, reason) = (OpenDevice::cpu(), format!("CPU: the graphics adapter failed ({failure})"));
        self.chosen = Some((architecture.with_april_block(false), device.clone()));
        (self.failure, self.timing) = (Some(reason.clone()), None);
        (device, reason)
    }

    /// The adapter and its worker. An emulated adapter is accepted only if `may_be_emulated`.
    async fn gpu(&mut self, may_be_emulated: bool) -> Result<(Adapter, GpuWorker), DeviceError> {
        if let Some(gpu) = &self.gpu {
            return gpu.clone();
        }
        let adapter = find_adapter().await?;
        if adapter.emulated && !may_be_emulated {
            let reason = format!("it is a software emulation: {}", adapter.name);
            return Err(DeviceError::NoAdapter { reason });
        }
        let gpu = GpuWorker::start().map(|worker| (adapter, worker)).map_err(|reason| DeviceError::Unusable { reason });
        self.gpu.insert(gpu).clone()
    }

    /// WebGPU, even if it is slower; the CPU if there is no WebGPU.
    async fn requested_gpu(&mut self) -> (OpenDevice, String) {
        let loaded = match self.gpu(true).await {
            Ok((adapter, worker)) => match worker.loaded().await {
                State::Failed(reason) => Err(DeviceError::Unusable { reason }),
                State::Loading | State::Ready => Ok(OpenDevice::remote(adapter, Rc::new(worker))),
            },
            Err(error) => Err(error),
        };
        match loaded {
            Ok(device) => {
                let reason = format!("{}: requested in this page’s address", device.description());
                (device, reason)
            }
            Err(error) => (OpenDevice::cpu(), format!("CPU: {} was requested, but {error}", Compute::Gpu)),
        }
    }

    /// The CPU; a graphics adapter, if there is one, is timed in the background.
    async fn cpu_for_now(&mut self, architecture: Architecture) -> (OpenDevice, String) {
        let cpu = OpenDevice::cpu();
        match self.gpu(false).await {
            Ok((adapter, worker)) => {
                let timing = Timing::default();
                self.timing = Some((architecture, timing.clone()));
                spawn_local(async move {
                    let outcome = match worker.loaded().await {
                        State::Failed(reason) => Err(reason),
                        State::Loading | State::Ready => worker.time(architecture).await,
                    };
                    *timing.borrow_mut() = Some(outcome);
                });
                (cpu, format!("CPU, until it is known whether WebGPU ({}) is faster", adapter.name))
            }
            Err(error) => (cpu, format!("CPU: {error}")),
        }
    }

    /// The device for the coming rounds and the reason, once the graphics adapter has been timed.
    async fn taking_over(&mut self, architecture: Architecture) -> Option<(OpenDevice, String)> {
        let (timed, timing) = self.timing.as_ref()?;
        let outcome = timing.borrow_mut().take()?;
        if *timed != architecture {
            return None;
        }
        self.timing = None;
        let cpu = OpenDevice::cpu();
        let (adapter, worker) = self.gpu.clone()?.ok()?;
        match (outcome, step_milliseconds(&cpu, architecture, 1).await) {
            (Ok(gpu_ms), Ok(cpu_ms)) => {
                let gpu = OpenDevice::remote(adapter, Rc::new(worker));
                let probe = choose(cpu, cpu_ms, Ok(gpu), Some(gpu_ms));
                Some((probe.device, probe.reason))
            }
            (Err(reason), _) => Some((cpu, format!("CPU: {}", DeviceError::Unusable { reason }))),
            (_, Err(error)) => Some((cpu, format!("CPU: comparing devices failed ({error})"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use unmask_core::VitPreset;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    /// Not even if the page's address asks for it, nor for another model.
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
