//! Finds the faster training device.

use unmask_core::Architecture;
use web_time::Instant;

use super::{Compute, DeviceError, OpenDevice, open};
use crate::{ModelError, Network};

#[derive(Debug, Clone)]
pub struct Probe {
    pub device: OpenDevice,
    /// Milliseconds per training step on the CPU.
    pub cpu_ms: f64,
    /// Milliseconds per training step on the GPU; `None` if it was not timed.
    pub gpu_ms: Option<f64>,
    /// One sentence in plain words.
    pub reason: String,
}

/// Times one training step of `architecture` with `batch` images on each device, after a warm-up step, and selects the
/// faster device.
///
/// Pass the model and the batch of the actual training: launching GPU work costs the same for small and large steps, so
/// a smaller probe would favour the CPU. A known software emulation loses without a test, because one step on it may
/// take many seconds. An adapter that fails also loses.
///
/// # Errors
/// If the architecture has no classes, `batch` is 0, or the CPU cannot compute the step.
pub async fn probe(architecture: Architecture, batch: usize) -> Result<Probe, ModelError> {
    let cpu = OpenDevice::cpu();
    let cpu_ms = step_milliseconds(&cpu, architecture, batch).await?;
    let (gpu, gpu_ms) = match open(Compute::Gpu).await {
        Ok(gpu) if gpu.adapter().is_some_and(|adapter| adapter.emulated) => (Ok(gpu), None),
        Ok(gpu) => match step_milliseconds(&gpu, architecture, batch).await {
            Ok(ms) => (Ok(gpu), Some(ms)),
            Err(error) => (Err(DeviceError::Unusable { reason: error.to_string() }), None),
        },
        Err(error) => (Err(error), None),
    };
    Ok(choose(cpu, cpu_ms, gpu, gpu_ms))
}

/// Selects the device with the shorter step. A `gpu` without a time is a software emulation.
pub fn choose(cpu: OpenDevice, cpu_ms: f64, gpu: Result<OpenDevice, DeviceError>, gpu_ms: Option<f64>) -> Probe {
    let gpu_title = Compute::Gpu.title();
    let (device, reason) = match (gpu, gpu_ms) {
        (Ok(gpu), Some(gpu_ms)) if gpu_ms < cpu_ms => {
            let reason = format!("{gpu_title}: {} a step against {} on the CPU", Ms(gpu_ms), Ms(cpu_ms));
            (gpu, reason)
        }
        (Ok(_), Some(gpu_ms)) => {
            let reason = format!("CPU: {} a step against {} on {gpu_title}", Ms(cpu_ms), Ms(gpu_ms));
            (cpu, reason)
        }
        (Ok(gpu), None) => {
            let name = gpu.adapter().map_or("", |adapter| adapter.name.as_str());
            let reason = format!("CPU: the {gpu_title} adapter is a software emulation ({name})");
            (cpu, reason)
        }
        (Err(error), _) => (cpu, format!("CPU: {error}")),
    };
    Probe { device, cpu_ms, gpu_ms, reason }
}

/// Returns the milliseconds of a training step of `architecture` with `batch` images on `device`, after a warm-up step.
///
/// # Errors
/// Those of a [step](Network::loss_and_gradient).
pub async fn step_milliseconds(
    device: &OpenDevice,
    architecture: Architecture,
    batch: usize,
) -> Result<f64, ModelError> {
    let network = Network::new(architecture, device.device())?;
    let state = architecture.initial(0);
    let images: Vec<f32> = (0..batch * network.image_len()).map(|i| (i % 251) as f32 / 250.0).collect();
    let labels: Vec<usize> = (0..batch).map(|i| i % architecture.classes()).collect();
    network.loss_and_gradient(&state, &images, &labels).await?;
    let start = Instant::now();
    network.loss_and_gradient(&state, &images, &labels).await?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds with as many digits as a reader needs.
struct Ms(f64);

impl std::fmt::Display for Ms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 < 10.0 { write!(f, "{:.1} ms", self.0) } else { write!(f, "{:.0} ms", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Adapter, Device};

    fn gpu(name: &str) -> OpenDevice {
        // The choice computes nothing, so any device will do.
        OpenDevice { compute: Compute::Gpu, adapter: Some(Adapter::new(name.into(), false)), device: Device::Cpu }
    }

    #[test]
    fn the_faster_device_wins_and_the_reason_says_by_how_much() {
        let faster = choose(OpenDevice::cpu(), 40.2, Ok(gpu("Apple M2")), Some(11.7));
        assert_eq!(faster.device.compute(), Compute::Gpu);
        assert_eq!(faster.reason, "GPU: 12 ms a step against 40 ms on the CPU");
        let slower = choose(OpenDevice::cpu(), 3.26, Ok(gpu("Apple M2")), Some(11.7));
        assert_eq!(slower.device.compute(), Compute::Cpu);
        assert_eq!(slower.reason, "CPU: 3.3 ms a step against 12 ms on GPU");
    }

    #[test]
    fn emulated_and_missing_adapters_lose() {
        let emulated = choose(OpenDevice::cpu(), 40.0, Ok(gpu("SwiftShader")), None);
        assert_eq!(emulated.device.compute(), Compute::Cpu);
        assert_eq!(emulated.reason, "CPU: the GPU adapter is a software emulation (SwiftShader)");
        let hidden = choose(OpenDevice::cpu(), 40.0, Err(DeviceError::InsecureContext), None);
        assert_eq!(hidden.device.compute(), Compute::Cpu);
        assert!(hidden.reason.contains("not a secure context"), "{}", hidden.reason);
    }
}
