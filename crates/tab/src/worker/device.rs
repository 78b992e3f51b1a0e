//! The device that this tab trains on.
//!
//! The CPU is available immediately. If the browser has a graphics adapter that is not a software emulation, the WebGPU
//! worker loads in the background and takes over between two rounds if it proves faster.

use std::{cell::RefCell, rc::Rc};

use unmask_client::{Batch, Caution, Doubt, Outcome, PictureSource, RoundPictures, RoundPlan, TrainingError};
use unmask_core::{Architecture, ModelState};
use unmask_model::{
    Device, ModelError,
    device::{Adapter, Compute, DeviceError, OpenDevice, choose, difference, find_adapter, step_milliseconds},
};
use wasm_bindgen_futures::spawn_local;
use web_time::Instant;

use super::gpu::{GpuWorker, State};
use crate::protocol::DeviceChoice;

/// The steps from one comparison of the graphics adapter with the CPU to the next.
const TRUSTED: u32 = 8;

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
    /// The steps left until the graphics adapter is compared with the CPU again.
    trusted: u32,
}

type Timing = Rc<RefCell<Option<Result<f64, String>>>>;

/// What became of a plan.
pub struct Attempt {
    pub outcome: Outcome,
    /// The time of the training alone.
    pub milliseconds: f64,
    /// The CPU and the reason, if the graphics adapter was given up.
    pub changed: Option<(OpenDevice, String)>,
}

/// The device that a page asks for; `None` for the faster one.
pub fn compute(choice: DeviceChoice) -> Option<Compute> {
    match choice {
        DeviceChoice::Auto => None,
        DeviceChoice::Cpu => Some(Compute::Cpu),
        DeviceChoice::WebGpu => Some(Compute::Gpu),
    }
}

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

    /// Looks at `plan` as `caution` asks, then trains on it unless a doubt forbids that. `open` is the device
    /// [for its model](Self::for_model); where a graphics adapter fails, the CPU takes its place. `tell` hears the doubts
    /// before the step.
    pub async fn attempt(
        &mut self,
        mut open: OpenDevice,
        plan: &RoundPlan,
        pictures: Result<RoundPictures, String>,
        caution: Caution,
        tell: impl FnOnce(&[Doubt]),
    ) -> Attempt {
        let (mut milliseconds, mut changed) = (0.0, None);
        let outcome = async {
            let pictures = pictures?;
            changed = self.check(plan.architecture, &plan.state, &pictures).await;
            if let Some((cpu, _)) = &changed {
                open = cpu.clone();
            }
            let doubts = match plan.examine(&pictures, open.device(), caution).await {
                // The step that follows says what is wrong with the adapter, and gives it up.
                Err(TrainingError::Model(_)) if open.compute() == Compute::Gpu => {
                    plan.examine(&pictures, &Device::Cpu, caution).await
                }
                doubts => doubts,
            };
            let doubts = doubts.map_err(|error| error.to_string())?;
            if caution.refuses() && !doubts.is_empty() {
                return Ok(Outcome::Refused(doubts));
            }
            tell(&doubts);
            let begun = Instant::now();
            let trained = match plan.train(&pictures, open.device()).await {
                Err(TrainingError::Model(error)) if open.compute() == Compute::Gpu => {
                    let again = plan.train(&pictures, &Device::Cpu).await;
                    let reason = match error {
                        // The browser may withdraw the adapter, for another program or because its driver restarted.
                        ModelError::Device { reason, .. } => Some(reason),
                        // A loss that overflows on the CPU, too, is not the adapter's fault.
                        error => again.is_ok().then(|| error.to_string()),
                    };
                    changed = reason.map(|reason| self.give_up_gpu(plan.architecture, &reason));
                    again
                }
                trained => trained,
            };
            milliseconds = begun.elapsed().as_secs_f64() * 1e3;
            trained.map(|trained| Outcome::Trained(doubts, trained)).map_err(|error| error.to_string())
        };
        let outcome = outcome.await.unwrap_or_else(Outcome::Failed);
        Attempt { outcome, milliseconds, changed }
    }

    /// Switches to the CPU because the graphics adapter failed during a step. Returns the CPU and the reason.
    fn give_up_gpu(&mut self, architecture: Architecture, failure: &str) -> (OpenDevice, String) {
        let (device, reason) = (OpenDevice::cpu(), format!("CPU: the graphics adapter failed ({failure})"));
        self.chosen = Some((architecture.with_april_block(false), device.clone()));
        (self.failure, self.timing) = (Some(reason.clone()), None);
        (device, reason)
    }

    /// Compares the graphics adapter with the CPU, if it is in use and a comparison is due: adapters that computed
    /// correctly have later returned zeros, or what other programs left in their memory. Returns the CPU and the reason
    /// if the adapter computes something else.
    async fn check(
        &mut self,
        architecture: Architecture,
        state: &ModelState,
        pictures: &impl PictureSource,
    ) -> Option<(OpenDevice, String)> {
        let (_, device) = self.chosen.as_ref().filter(|(_, device)| device.compute() == Compute::Gpu)?;
        if self.trusted > 0 {
            self.trusted -= 1;
            return None;
        }
        // Training itself reports what is wrong with the pictures.
        let Batch { images, labels } = pictures.batch(0, 1).ok()?;
        match difference(architecture, (&OpenDevice::cpu(), device), state, &images, &labels).await {
            Ok(None) => {
                self.trusted = TRUSTED - 1;
                None
            }
            Ok(Some(difference)) => Some(self.give_up_gpu(architecture, &difference)),
            // What the CPU cannot compute says nothing about the adapter.
            Err(_) => None,
        }
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
        let chosen = match outcome {
            Ok(gpu_ms) => {
                let gpu = OpenDevice::remote(adapter, Rc::new(worker));
                chosen(architecture, gpu, gpu_ms).await
            }
            Err(reason) => return Some((cpu, format!("CPU: {}", DeviceError::Unusable { reason }))),
        };
        Some(chosen.unwrap_or_else(|error| (cpu, format!("CPU: comparing devices failed ({error})"))))
    }
}

/// The faster device and the reason, once it is known how long a step takes on the graphics adapter.
async fn chosen(architecture: Architecture, gpu: OpenDevice, gpu_ms: f64) -> Result<(OpenDevice, String), ModelError> {
    let cpu = OpenDevice::cpu();
    let cpu_ms = step_milliseconds(&cpu, architecture, 1).await?;
    let probe = choose(architecture, 1, (cpu, cpu_ms), (Ok(gpu), Some(gpu_ms))).await?;
    Ok((probe.device, probe.reason))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;
    use unmask_core::VitPreset;
    use unmask_model::{
        Device, Differentiated, Network, Normalisation, Wanted,
        remote::{Later, Pass, Remote},
    };
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    /// A graphics adapter that computes as the CPU does, and from some step on returns zeros.
    #[derive(Debug)]
    struct Failing {
        right: Cell<u32>,
    }

    impl Failing {
        fn after(steps: u32) -> OpenDevice {
            let adapter = Adapter { name: "a failing adapter".to_owned(), emulated: false };
            OpenDevice::remote(adapter, Rc::new(Self { right: Cell::new(steps) }))
        }
    }

    impl Remote for Failing {
        fn differentiate(
            &self,
            pass: Pass<'_>,
            labels: &[usize],
            normalisation: Normalisation,
            wanted: Wanted,
        ) -> Later<Differentiated<f32>> {
            let is_right = self.right.get() > 0;
            self.right.set(self.right.get().saturating_sub(1));
            let state = ModelState { weights: pass.weights.to_vec(), statistics: pass.statistics.to_vec() };
            let (images, labels) = (pass.images.to_vec(), labels.to_vec());
            let network = Network::new(pass.architecture, &Device::Cpu).unwrap();
            async move {
                let mut step = network.differentiate(&state, &images, &labels, normalisation, wanted).await.unwrap();
                if !is_right {
                    (step.loss, step.gradient) = (0.0, vec![0.0; step.gradient.len()]);
                }
                Ok(step)
            }
            .boxed_local()
        }

        fn logits(&self, _: Pass<'_>, _: usize) -> Later<Vec<f32>> {
            unreachable!("only steps are compared")
        }
    }

    #[wasm_bindgen_test]
    async fn a_gpu_that_begins_to_compute_something_else_is_given_up() {
        let architecture = Architecture::from(VitPreset::Pico);
        let side = architecture.side();
        let pictures = Batch { images: vec![0.5; 3 * side * side], labels: vec![3] };
        let state = architecture.initial(1);
        // Each comparison asks the adapter for one step.
        let mut chosen = ChosenDevice { chosen: Some((architecture, Failing::after(2))), ..ChosenDevice::default() };
        let mut given_up = None;
        for round in 0..3 * TRUSTED {
            if let Some((device, reason)) = chosen.check(architecture, &state, &pictures).await {
                given_up = Some((round, device.compute(), reason));
            }
        }
        let (round, compute, reason) = given_up.expect("it is found out");
        assert_eq!((round, compute), (2 * TRUSTED, Compute::Cpu), "{reason}");
        assert!(reason.contains("a loss of 0.0000 instead of "), "{reason}");
        let (device, again) = chosen.for_model(architecture, Some(Compute::Gpu)).await;
        assert_eq!((device.compute(), again), (Compute::Cpu, None));
    }

    #[wasm_bindgen_test]
    async fn a_faster_gpu_takes_over_only_if_it_computes_the_same() {
        for (steps, compute, why) in
            [(1, Compute::Gpu, "WebGPU: 0.0 ms a step"), (0, Compute::Cpu, "is faster, but computes something else")]
        {
            let gpu = Failing::after(steps);
            let (device, reason) = chosen(VitPreset::Pico.into(), gpu, 0.0).await.unwrap();
            assert_eq!(device.compute(), compute, "{reason}");
            assert!(reason.contains(why), "{reason}");
        }
    }

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
