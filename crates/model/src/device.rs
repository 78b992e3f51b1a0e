//! Opens a device, and selects the faster one.

#[cfg(target_family = "wasm")]
mod browser;
#[cfg(all(feature = "gpu", not(target_family = "wasm")))]
mod native;
mod probe;

use std::fmt;

#[cfg(all(feature = "gpu", target_family = "wasm"))]
use browser as platform;
#[cfg(all(feature = "gpu", not(target_family = "wasm")))]
use native as platform;

#[cfg(target_family = "wasm")]
pub use browser::find_adapter;
pub use probe::{Probe, choose, difference, probe, step_milliseconds};

/// The device of a [`crate::Network`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Device {
    /// The processor, through [`unmask_engine`].
    Cpu,
    /// A graphics adapter, through Burn.
    #[cfg(feature = "burn")]
    Gpu(burn::tensor::Device),
    /// Another part of the program.
    #[cfg(target_family = "wasm")]
    Remote(crate::remote::Shared),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compute {
    Cpu,
    /// A graphics adapter through wgpu: WebGPU in a browser; Vulkan, Metal or DirectX natively.
    Gpu,
}

impl Compute {
    /// Returns the name in messages: `CPU`, and `WebGPU` in a browser or `GPU` natively.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu if cfg!(target_family = "wasm") => "WebGPU",
            Self::Gpu => "GPU",
        }
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The graphics adapter behind a GPU device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Its name according to the driver or the browser. Browsers reveal little.
    pub name: String,
    /// Whether it is a known software emulation on the CPU, such as SwiftShader or llvmpipe.
    pub emulated: bool,
}

impl Adapter {
    /// `fallback` is the driver's own flag. Names of well-known emulations decide if it is not set.
    #[cfg(any(feature = "gpu", target_family = "wasm", test))]
    fn new(name: String, fallback: bool) -> Self {
        const EMULATIONS: [&str; 5] = ["swiftshader", "llvmpipe", "lavapipe", "softpipe", "basic render"];
        let lower = name.to_lowercase();
        let emulated = fallback || EMULATIONS.iter().any(|emulation| lower.contains(emulation));
        Self { name, emulated }
    }
}

#[derive(Debug, Clone)]
pub struct OpenDevice {
    compute: Compute,
    adapter: Option<Adapter>,
    device: Device,
}

impl OpenDevice {
    pub fn cpu() -> Self {
        Self { compute: Compute::Cpu, adapter: None, device: Device::Cpu }
    }

    /// A graphics adapter of this browser, used by another worker.
    #[cfg(target_family = "wasm")]
    pub fn remote(adapter: Adapter, remote: std::rc::Rc<dyn crate::remote::Remote>) -> Self {
        let device = Device::Remote(crate::remote::Shared::new(remote));
        Self { compute: Compute::Gpu, adapter: Some(adapter), device }
    }

    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// Returns the graphics adapter; `None` on the CPU.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_ref()
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns a description to display: `CPU`, `WebGPU (Apple M2)`, or `GPU (llvmpipe, a software emulation)`.
    pub fn description(&self) -> String {
        match &self.adapter {
            None => self.compute.to_string(),
            Some(Adapter { name, emulated: true }) => format!("{} ({name}, a software emulation)", self.compute),
            Some(Adapter { name, emulated: false }) => format!("{} ({name})", self.compute),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error(
        "this program was built only for the CPU; `cargo build --release --bin unmask --features gpu` builds one that uses \
         graphics adapters too"
    )]
    NotBuilt,
    #[error("this page is not a secure context, so the browser hides WebGPU; open its https:// address")]
    InsecureContext,
    #[error("this browser has no WebGPU")]
    NoWebGpu,
    #[error("there is no graphics adapter ({reason})")]
    NoAdapter { reason: String },
    #[error("the graphics adapter cannot be opened ({reason})")]
    Unusable { reason: String },
    #[error("the graphics adapter is faster, but computes something else ({reason})")]
    Wrong { reason: String },
}

/// Opens `compute`. Returns an already open GPU again.
///
/// # Errors
/// If there is no usable graphics adapter, with the reason.
pub async fn open(compute: Compute) -> Result<OpenDevice, DeviceError> {
    match compute {
        Compute::Cpu => Ok(OpenDevice::cpu()),
        #[cfg(feature = "gpu")]
        Compute::Gpu => {
            let (device, adapter) = platform::open_gpu().await?;
            Ok(OpenDevice { compute, adapter: Some(adapter), device: Device::Gpu(device) })
        }
        #[cfg(not(feature = "gpu"))]
        Compute::Gpu => Err(DeviceError::NotBuilt),
    }
}

/// [`open`], blocking the current thread.
pub fn open_blocking(compute: Compute) -> Result<OpenDevice, DeviceError> {
    crate::blocking::block_on(open(compute))
}

/// [`probe`], blocking the current thread.
pub fn probe_blocking(architecture: unmask_core::Architecture, batch: usize) -> Result<Probe, crate::ModelError> {
    crate::blocking::block_on(probe(architecture, batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulations_are_known_by_flag_and_by_name() {
        for (name, fallback, emulated) in [
            ("Apple M2", false, false),
            ("NVIDIA GeForce RTX 4060", false, false),
            ("an adapter", true, true),
            ("google swiftshader", false, true),
            ("llvmpipe (LLVM 19.1.7, 256 bits)", false, true),
            ("Microsoft Basic Render Driver", false, true),
        ] {
            assert_eq!(Adapter::new(name.into(), fallback).emulated, emulated, "{name}");
        }
    }
}
