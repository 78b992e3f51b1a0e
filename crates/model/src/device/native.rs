//! The graphics adapter of this machine, through wgpu.

use std::sync::{Mutex, PoisonError};

use burn::tensor::{
    Device,
    wgpu::{WgpuInitError, wgpu},
};

use super::{Adapter, DeviceError};

/// Burn's runtime can be initialised only once per process.
static OPEN: Mutex<Option<(Device, Adapter)>> = Mutex::new(None);

pub(super) async fn open_gpu() -> Result<(Device, Adapter), DeviceError> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(open) = &*open {
        return Ok(open.clone());
    }
    let (device, setup) = Device::wgpu_options().init_with_setup().map_err(|error| match error {
        WgpuInitError::AdapterUnavailable { message, .. } => DeviceError::NoAdapter { reason: message },
        other => DeviceError::Unusable { reason: other.to_string() },
    })?;
    let info = setup.adapter.get_info();
    let adapter = Adapter::new(info.name, info.device_type == wgpu::DeviceType::Cpu);
    Ok(open.insert((device, adapter)).clone())
}
