//! Opens and selects devices on this machine.

use unmask_core::{Architecture, VitPreset};
use unmask_model::device::{self, Compute, DeviceError};

use super::skipped;

#[test]
fn probe_gives_times_and_a_reason() {
    let probe = device::probe_blocking(Architecture::from(VitPreset::Pico), 1).unwrap();
    eprintln!("{probe:?}");
    assert!(probe.cpu_ms > 0.0);
    match device::open_blocking(Compute::Gpu) {
        Ok(gpu) => {
            let adapter = gpu.adapter().expect("a GPU has an adapter");
            assert!(gpu.description().contains(&adapter.name));
            assert_eq!(probe.gpu_ms.is_none(), adapter.emulated);
            if adapter.emulated {
                assert_eq!(probe.device.compute(), Compute::Cpu);
                assert!(probe.reason.contains(&adapter.name), "{}", probe.reason);
            }
            let again = device::open_blocking(Compute::Gpu).unwrap();
            assert_eq!(again.description(), gpu.description());
        }
        Err(error) => {
            skipped::skipped(&error);
            let is_told = match error {
                DeviceError::NotBuilt => cfg!(not(feature = "gpu")),
                DeviceError::NoAdapter { .. } | DeviceError::Unusable { .. } => cfg!(feature = "gpu"),
                _ => false,
            };
            assert!(is_told, "{error}");
            assert_eq!(probe.device.compute(), Compute::Cpu);
            assert_eq!(probe.reason, format!("CPU: {error}"));
        }
    }
}
