//! Finds the faster training device.

use unmask_core::{Architecture, ModelState, VitConfig};
use web_time::Instant;

use super::{Compute, DeviceError, OpenDevice, open};
use crate::{ModelError, Network, Step};

/// Largest difference between two devices' losses, relative to a loss above 1.
const OF_LOSS: f64 = 1e-2;
/// Largest difference between two devices' gradients, relative to the norm. Rounding alone makes 9e-3 in a `resnet34`
/// (docs/models.md); zeros and what other programs left in the memory are 1 off.
const OF_GRADIENT: f64 = 0.1;
/// Below this loss little more than rounding is left of the gradient, so it is not compared.
const SURE: f64 = 1e-3;

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
/// take many seconds. An adapter that fails or computes something else than the CPU also loses.
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
    choose(architecture, batch, (cpu, cpu_ms), (gpu, gpu_ms)).await
}

/// Selects the device with the shorter step, unless the GPU computes something else than the CPU. A `gpu` without a time
/// is a software emulation.
///
/// # Errors
/// If the CPU cannot compute the step.
pub async fn choose(
    architecture: Architecture,
    batch: usize,
    (cpu, cpu_ms): (OpenDevice, f64),
    (mut gpu, gpu_ms): (Result<OpenDevice, DeviceError>, Option<f64>),
) -> Result<Probe, ModelError> {
    if let (Ok(faster), Some(gpu_ms)) = (&gpu, gpu_ms)
        && gpu_ms < cpu_ms
    {
        let (state, images, labels) = probe_batch(architecture, batch);
        if let Some(reason) = difference(architecture, (&cpu, faster), &state, &images, &labels).await? {
            gpu = Err(DeviceError::Wrong { reason });
        }
    }
    Ok(shorter(cpu, cpu_ms, gpu, gpu_ms))
}

/// Computes a step, in evaluation mode, on a device to trust and on another one. Says what differs by more than rounding.
///
/// # Errors
/// If the device to trust cannot compute it. A step that only the other one cannot compute is a difference.
pub async fn difference(
    architecture: Architecture,
    (trusted, other): (&OpenDevice, &OpenDevice),
    state: &ModelState,
    images: &[f32],
    labels: &[usize],
) -> Result<Option<String>, ModelError> {
    let step = async |device: &OpenDevice| {
        Network::new(architecture, device.device())?.evaluation_gradient(state, images, labels).await
    };
    let expected = step(trusted).await?;
    Ok(match step(other).await {
        Ok(found) => step_difference(&expected, &found),
        Err(error) => Some(error.to_string()),
    })
}

fn step_difference(expected: &Step, found: &Step) -> Option<String> {
    let (loss, its) = (f64::from(expected.loss), f64::from(found.loss));
    // NaN is not close to anything.
    let is_close = (loss - its).abs() <= OF_LOSS * loss.abs().max(1.0);
    if !is_close {
        return Some(format!("a loss of {its:.4} instead of {loss:.4}"));
    }
    if loss < SURE {
        return None;
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let values = || expected.gradient.iter().map(|&value| f64::from(value));
    let its = found.gradient.iter().map(|&value| f64::from(value));
    let (length, distance) = (norm(&mut values()), norm(&mut values().zip(its).map(|(one, other)| one - other)));
    let is_close = distance <= OF_GRADIENT * length;
    (!is_close).then(|| format!("a gradient that is {:.0} % off", 100.0 * distance / length.max(f64::MIN_POSITIVE)))
}

/// Selects the device with the shorter step. A `gpu` without a time is a software emulation.
fn shorter(cpu: OpenDevice, cpu_ms: f64, gpu: Result<OpenDevice, DeviceError>, gpu_ms: Option<f64>) -> Probe {
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
    let (state, images, labels) = probe_batch(architecture, batch);
    network.loss_and_gradient(&state, &images, &labels).await?;
    let start = Instant::now();
    network.loss_and_gradient(&state, &images, &labels).await?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Fresh weights, images and labels.
fn probe_batch(architecture: Architecture, batch: usize) -> (ModelState, Vec<f32>, Vec<usize>) {
    let values = batch * VitConfig::CHANNELS * architecture.side() * architecture.side();
    let images = (0..values).map(|i| (i % 251) as f32 / 250.0).collect();
    let labels = (0..batch).map(|i| i % architecture.classes().max(1)).collect();
    (architecture.initial(0), images, labels)
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
        let faster = shorter(OpenDevice::cpu(), 40.2, Ok(gpu("Apple M2")), Some(11.7));
        assert_eq!(faster.device.compute(), Compute::Gpu);
        assert_eq!(faster.reason, "GPU: 12 ms a step against 40 ms on the CPU");
        let slower = shorter(OpenDevice::cpu(), 3.26, Ok(gpu("Apple M2")), Some(11.7));
        assert_eq!(slower.device.compute(), Compute::Cpu);
        assert_eq!(slower.reason, "CPU: 3.3 ms a step against 12 ms on GPU");
    }

    #[test]
    fn what_differs_by_more_than_rounding_is_named() {
        let step = |loss, gradient: &[f32]| Step { loss, gradient: gradient.to_vec(), statistics: Vec::new() };
        let right = step(2.3, &[0.3, -0.4]);
        for (found, said) in [
            (step(2.3001, &[0.31, -0.4]), None),
            (step(f32::NAN, &[0.3, -0.4]), Some("a loss of NaN instead of 2.3000")),
            (step(0.0, &[0.3, -0.4]), Some("a loss of 0.0000 instead of 2.3000")),
            (step(2.3, &[0.0, 0.0]), Some("a gradient that is 100 % off")),
            (step(2.3, &[-0.3, 0.4]), Some("a gradient that is 200 % off")),
            (step(2.3, &[f32::INFINITY, -0.4]), Some("a gradient that is inf % off")),
        ] {
            assert_eq!(step_difference(&right, &found).as_deref(), said, "{found:?}");
        }
        assert_eq!(step_difference(&step(6e-6, &[1e-6]), &step(6e-6, &[0.0])), None);
    }

    #[test]
    fn emulated_and_missing_adapters_lose() {
        let emulated = shorter(OpenDevice::cpu(), 40.0, Ok(gpu("SwiftShader")), None);
        assert_eq!(emulated.device.compute(), Compute::Cpu);
        assert_eq!(emulated.reason, "CPU: the GPU adapter is a software emulation (SwiftShader)");
        let hidden = shorter(OpenDevice::cpu(), 40.0, Err(DeviceError::InsecureContext), None);
        assert_eq!(hidden.device.compute(), Compute::Cpu);
        assert!(hidden.reason.contains("not a secure context"), "{}", hidden.reason);
    }
}
